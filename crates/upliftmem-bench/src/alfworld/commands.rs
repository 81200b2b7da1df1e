//! What a player may do in a state, as the sorted list of commands the official environment gives.

use super::game::{Game, ReceptacleRole};
use super::problem::State;

/// An action with its things as numbers of the problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Help,
    Inventory,
    Look,
    Go(usize),
    ExamineReceptacle(usize),
    ExamineObject(usize),
    Open(usize),
    Close(usize),
    Take { object: usize, receptacle: usize },
    Move { object: usize, receptacle: usize },
    Use(usize),
    Clean { object: usize, receptacle: usize },
    Heat { object: usize, receptacle: usize },
    Cool { object: usize, receptacle: usize },
    Slice { object: usize, knife: usize },
}

/// All admissible commands with their actions, sorted by the text, each text once.
pub(super) fn admissible(game: &Game, state: &State) -> Vec<(String, Action)> {
    let mut list = Vec::with_capacity(48);
    if let Some(held) = state.held {
        list.push((
            command("examine", &game.object_names[held]),
            Action::ExamineObject(held),
        ));
        if game.is_knife[held] {
            slices(game, state, held, &mut list);
        }
    }
    for &receptacle in &game.receptacles_at[state.location] {
        at_receptacle(game, state, receptacle, &mut list);
    }
    for (text, receptacle) in &game.go_commands {
        // Going where one is already changes nothing, so the official planner does not offer it.
        if game.problem.receptacles[*receptacle].location != Some(state.location) {
            list.push((text.clone(), Action::Go(*receptacle)));
        }
    }
    list.push(("help".to_owned(), Action::Help));
    list.push(("inventory".to_owned(), Action::Inventory));
    list.push(("look".to_owned(), Action::Look));
    list.sort_by(|left, right| left.0.cmp(&right.0));
    list.dedup_by(|left, right| left.0 == right.0);
    list
}

fn at_receptacle(game: &Game, state: &State, receptacle: usize, list: &mut Vec<(String, Action)>) {
    let traits = &game.problem.receptacles[receptacle];
    let name = &game.receptacle_names[receptacle];
    let is_open = state.is_open[receptacle];
    list.push((command("examine", name), Action::ExamineReceptacle(receptacle)));
    if traits.is_openable {
        list.push(if is_open {
            (command("close", name), Action::Close(receptacle))
        } else {
            (command("open", name), Action::Open(receptacle))
        });
    }
    let is_reachable = is_open || !traits.is_openable;
    for &object in &state.contents[receptacle] {
        let object_traits = &game.problem.objects[object];
        let object_name = &game.object_names[object];
        if object_traits.is_toggleable {
            list.push((command("use", object_name), Action::Use(object)));
        }
        if is_reachable && state.held.is_none() && object_traits.is_pickupable {
            list.push((
                pair("take", object_name, "from", name),
                Action::Take { object, receptacle },
            ));
        }
    }
    if let Some(object) = state.held {
        with_held(game, object, receptacle, is_reachable, list);
    }
}

fn with_held(
    game: &Game,
    object: usize,
    receptacle: usize,
    is_reachable: bool,
    list: &mut Vec<(String, Action)>,
) {
    let traits = &game.problem.objects[object];
    let (object_name, name) = (&game.object_names[object], &game.receptacle_names[receptacle]);
    let kinds = game.problem.receptacles[receptacle].kind.zip(traits.kind);
    if is_reachable && kinds.is_some_and(|(outer, inner)| game.problem.can_contain[outer][inner]) {
        list.push((
            pair("move", object_name, "to", name),
            Action::Move { object, receptacle },
        ));
    }
    match game.receptacle_roles[receptacle] {
        ReceptacleRole::Cleans if traits.is_cleanable => {
            list.push((
                pair("clean", object_name, "with", name),
                Action::Clean { object, receptacle },
            ));
        }
        ReceptacleRole::Heats if traits.is_heatable => {
            list.push((
                pair("heat", object_name, "with", name),
                Action::Heat { object, receptacle },
            ));
        }
        ReceptacleRole::Cools if traits.is_coolable => {
            list.push((
                pair("cool", object_name, "with", name),
                Action::Cool { object, receptacle },
            ));
        }
        _ => {}
    }
}

fn slices(game: &Game, state: &State, knife: usize, list: &mut Vec<(String, Action)>) {
    for &object in &state.objects_at[state.location] {
        if game.problem.objects[object].is_sliceable {
            let text = pair(
                "slice",
                &game.object_names[object],
                "with",
                &game.object_names[knife],
            );
            list.push((text, Action::Slice { object, knife }));
        }
    }
}

fn command(verb: &str, name: &str) -> String {
    [verb, " ", name].concat()
}

fn pair(verb: &str, first: &str, preposition: &str, second: &str) -> String {
    [verb, " ", first, " ", preposition, " ", second].concat()
}
