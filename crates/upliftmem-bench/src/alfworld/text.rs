//! The words of the environment: they must equal the official ones to the letter.

use super::commands::Action;
use super::game::Game;
use super::problem::State;

/// The answer to a command that is not admissible.
pub(super) const NOTHING_HAPPENS: &str = "Nothing happens.";

const MIDDLE_OF_ROOM: &str = "You are in the middle of a room. Looking quickly around you, you see ";

/// The first text of a play.
pub(super) fn opening<'g>(game: &'g Game, state: &State) -> String {
    let mut text = "-= Welcome to TextWorld, ALFRED! =-\n\n".to_owned();
    if game.receptacles_at[state.location].is_empty() {
        let placed =
            |(number, name): (usize, &'g String)| game.problem.receptacles[number].location.map(|_| name);
        let names = game.receptacle_names.iter().enumerate().filter_map(placed);
        text.push_str(MIDDLE_OF_ROOM);
        push_list(&mut text, "a ", names);
        text.push('.');
    } else {
        push_facing(&mut text, game, state);
    }
    text.push_str("\n\nYour task is to: ");
    text.push_str(game.task());
    text
}

/// What a player reads after an action, in the state it led to.
pub(super) fn feedback(game: &Game, state: &State, action: Action) -> String {
    let object_name = |object: usize| game.object_names[object].as_str();
    let receptacle_name = |receptacle: usize| game.receptacle_names[receptacle].as_str();
    let using = |verb: &str, object: usize, receptacle: usize| {
        format!(
            "You {verb} the {} using the {}.",
            object_name(object),
            receptacle_name(receptacle)
        )
    };
    match action {
        Action::Help => game.help.clone(),
        Action::Inventory => state.held.map_or_else(
            || "You are not carrying anything.".to_owned(),
            |held| format!("You are carrying: a {}.", object_name(held)),
        ),
        Action::Look => look(game, state),
        Action::Go(receptacle) => {
            let mut text = ["You arrive at ", receptacle_name(receptacle), ". "].concat();
            push_receptacle(&mut text, game, state, receptacle);
            text
        }
        Action::ExamineReceptacle(receptacle) => {
            let mut text = String::new();
            push_receptacle(&mut text, game, state, receptacle);
            text
        }
        Action::ExamineObject(object) => examined(game, state, object),
        Action::Open(receptacle) => {
            let mut text = ["You open the ", receptacle_name(receptacle), ". "].concat();
            push_receptacle(&mut text, game, state, receptacle);
            text
        }
        Action::Close(receptacle) => format!("You close the {}.", receptacle_name(receptacle)),
        Action::Take { object, receptacle } => {
            format!(
                "You pick up the {} from the {}.",
                object_name(object),
                receptacle_name(receptacle)
            )
        }
        Action::Move { object, receptacle } => {
            format!(
                "You move the {} to the {}.",
                object_name(object),
                receptacle_name(receptacle)
            )
        }
        // A lamp that was used counts as used for good, and the text follows that.
        Action::Use(object) => format!("You turn on the {}.", object_name(object)),
        Action::Clean { object, receptacle } => using("clean", object, receptacle),
        Action::Heat { object, receptacle } => using("heat", object, receptacle),
        Action::Cool { object, receptacle } => using("cool", object, receptacle),
        Action::Slice { object, knife } => {
            format!(
                "You sliced the {} with the {}.",
                object_name(object),
                object_name(knife)
            )
        }
    }
}

fn look(game: &Game, state: &State) -> String {
    let mut text = String::new();
    if game.receptacles_at[state.location].is_empty() {
        // Away from all receptacles the official text lists those at this very location: none.
        text.push_str(MIDDLE_OF_ROOM);
        text.push_str("nothing.");
    } else {
        push_facing(&mut text, game, state);
    }
    text
}

fn push_facing(text: &mut String, game: &Game, state: &State) {
    text.push_str("You are facing the ");
    let here = game.receptacles_at[state.location].iter();
    push_list(
        text,
        "",
        here.map(|&receptacle| &game.receptacle_names[receptacle]),
    );
    text.push_str(". Next to it, you see nothing.");
}

fn push_receptacle(text: &mut String, game: &Game, state: &State, receptacle: usize) {
    let name = &game.receptacle_names[receptacle];
    let is_openable = game.problem.receptacles[receptacle].is_openable;
    if is_openable && !state.is_open[receptacle] {
        text.push_str(&["The ", name, " is closed."].concat());
        return;
    }
    text.push_str(&if is_openable {
        ["The ", name, " is open. In it, you see "].concat()
    } else {
        ["On the ", name, ", you see "].concat()
    });
    push_objects(text, game, &state.contents[receptacle]);
    text.push('.');
}

fn examined(game: &Game, state: &State, object: usize) -> String {
    let name = &game.object_names[object];
    let traits = &game.problem.objects[object];
    if traits.is_receptacle {
        let mut text = format!("This is a normal {name}. In it, you see ");
        push_objects(&mut text, game, &traits.inside);
        text.push('.');
        return text;
    }
    let is = state.condition[object];
    let adjective = match (is.is_clean, is.is_hot, is.is_cool) {
        (true, true, _) => "hot and clean",
        (true, false, true) => "cool and clean",
        (false, true, _) => "hot",
        (true, false, false) => "clean",
        (false, false, true) if is.is_sliced => "cool",
        (false, false, true) => "cold",
        (false, false, false) => "",
    };
    match (adjective, is.is_sliced) {
        ("", _) if traits.is_toggleable && is.is_toggled => format!("This {name} is on."),
        ("", true) if traits.is_sliceable => format!("This is a sliced {name}."),
        ("", _) => format!("There's nothing special about {name}."),
        (adjective, true) => format!("This is a {adjective} sliced {name}."),
        (adjective, false) => format!("This is a {adjective} {name}."),
    }
}

fn push_objects(text: &mut String, game: &Game, objects: &[usize]) {
    push_list(
        text,
        "a ",
        objects.iter().map(|&object| &game.object_names[object]),
    );
}

/// `a X, a Y, and a Z`; the comma before "and" is there even for two.
fn push_list<'a>(text: &mut String, article: &str, names: impl Iterator<Item = &'a String>) {
    let mut names = names.peekable();
    if names.peek().is_none() {
        text.push_str("nothing");
    }
    let mut is_first = true;
    while let Some(name) = names.next() {
        let is_last = names.peek().is_none();
        text.push_str(if is_first {
            ""
        } else if is_last {
            ", and "
        } else {
            ", "
        });
        text.push_str(article);
        text.push_str(name);
        is_first = false;
    }
}
