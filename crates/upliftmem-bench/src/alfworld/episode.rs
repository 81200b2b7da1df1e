//! One play of a game.

use super::commands::{Action, admissible};
use super::game::Game;
use super::problem::{State, insert, remove};
use super::text;

/// A play in progress: a game and how far it has been played.
#[derive(Clone, Debug)]
pub struct Episode<'g> {
    game: &'g Game,
    play: Play,
}

/// How far a game has been played: the state of the room and what may be done next. Whoever keeps it keeps the game too
/// and gives it to every call.
#[derive(Clone, Debug)]
pub(super) struct Play {
    state: State,
    commands: Vec<(String, Action)>,
}

/// What the environment answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The text the player reads.
    pub observation: String,
    /// The commands that do something now, sorted.
    pub admissible: Vec<String>,
    /// Whether the goal holds.
    pub won: bool,
    /// Whether the play is over, which is when it is won; a limit of steps is the caller's.
    pub done: bool,
}

impl<'g> Episode<'g> {
    pub(super) fn new(game: &'g Game) -> Self {
        Self {
            game,
            play: Play::new(game),
        }
    }

    /// The welcome: the room and the task, before anything is done.
    #[must_use]
    pub fn opening(&self) -> Step {
        self.play.opening(self.game)
    }

    /// Carries out a command. One that is not admissible changes nothing; spaces around it do not matter.
    pub fn step(&mut self, command: &str) -> Step {
        self.play.step(self.game, command)
    }
}

impl Play {
    pub(super) fn new(game: &Game) -> Self {
        let state = game.problem.start.clone();
        let commands = admissible(game, &state);
        Self { state, commands }
    }

    pub(super) fn opening(&self, game: &Game) -> Step {
        self.answer(game, text::opening(game, &self.state))
    }

    pub(super) fn step(&mut self, game: &Game, command: &str) -> Step {
        let command = command.trim();
        let Ok(place) = self
            .commands
            .binary_search_by(|(text, _)| text.as_str().cmp(command))
        else {
            return self.answer(game, text::NOTHING_HAPPENS.to_owned());
        };
        let action = self.commands[place].1;
        if self.apply(game, action) {
            self.commands = admissible(game, &self.state);
        }
        self.answer(game, text::feedback(game, &self.state, action))
    }

    fn answer(&self, game: &Game, observation: String) -> Step {
        let won = game.goal.is_reached(&game.problem, &self.state);
        let admissible = self.commands.iter().map(|(text, _)| text.clone()).collect();
        Step {
            observation,
            admissible,
            won,
            done: won,
        }
    }

    /// Changes the state; says whether other commands may be admissible now.
    fn apply(&mut self, game: &Game, action: Action) -> bool {
        let state = &mut self.state;
        match action {
            Action::Go(receptacle) => {
                if let Some(location) = game.problem.receptacles[receptacle].location {
                    state.location = location;
                }
            }
            Action::Open(receptacle) => state.is_open[receptacle] = true,
            Action::Close(receptacle) => state.is_open[receptacle] = false,
            Action::Take { object, receptacle } => {
                state.held = Some(object);
                remove(&mut state.contents[receptacle], object);
                remove(&mut state.objects_at[state.location], object);
            }
            Action::Move { object, receptacle } => {
                state.held = None;
                insert(&mut state.contents[receptacle], object);
                insert(&mut state.objects_at[state.location], object);
            }
            Action::Use(object) => state.condition[object].is_toggled = true,
            Action::Clean { object, .. } => state.condition[object].is_clean = true,
            Action::Heat { object, .. } => {
                state.condition[object].is_hot = true;
                state.condition[object].is_cool = false;
            }
            Action::Cool { object, .. } => {
                state.condition[object].is_cool = true;
                state.condition[object].is_hot = false;
            }
            Action::Slice { object, .. } => state.condition[object].is_sliced = true,
            Action::Help
            | Action::Inventory
            | Action::Look
            | Action::ExamineReceptacle(_)
            | Action::ExamineObject(_) => {}
        }
        matches!(
            action,
            Action::Go(_) | Action::Open(_) | Action::Close(_) | Action::Take { .. } | Action::Move { .. }
        )
    }
}
