//! The games as an environment: tasks named by their games.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use upliftmem_agent::{Environment, EnvironmentError, Turn};
use upliftmem_core::{Performance, Task};

use super::data::visit_games;
use super::episode::{Play, Step};
use super::error::LoadError;
use super::game::Game;

/// Actions after which an episode is over. Paper: C_max of ALFWorld.
pub const ACTIONS_MAX: usize = 30;

/// ALFWorld as an [`Environment`]: a task is played in the game whose name (`split/task/trial`) it bears.
///
/// Clones share the games, so one collection serves any number of episodes at a time. An episode ends when it is won, with
/// performance 1, or after the last action it is allowed.
#[derive(Clone, Debug)]
pub struct Alfworld {
    games: Arc<BTreeMap<String, Arc<Game>>>,
    actions_max: usize,
    running: Option<Running>,
}

#[derive(Clone, Debug)]
struct Running {
    game: Arc<Game>,
    play: Play,
    actions: usize,
}

impl Alfworld {
    /// An environment of these games. Of two with one name the latter is played.
    #[must_use]
    pub fn new(games: impl IntoIterator<Item = Game>) -> Self {
        let named = games
            .into_iter()
            .map(|game| (game.name().to_owned(), Arc::new(game)));
        Self {
            games: Arc::new(named.collect()),
            actions_max: ACTIONS_MAX,
            running: None,
        }
    }

    /// Reads the games whose names `wanted` accepts from a folder or an archive, as [`visit_games`] does.
    ///
    /// # Errors
    /// The first thing that can not be read.
    pub fn load(collection: &Path, wanted: impl FnMut(&str) -> bool) -> Result<Self, LoadError> {
        let mut games = Vec::new();
        visit_games(collection, wanted, |game| games.push(game))?;
        Ok(Self::new(games))
    }

    /// The same with another number of actions after which an episode ends.
    #[must_use]
    pub fn with_actions_max(mut self, actions_max: usize) -> Self {
        self.actions_max = actions_max;
        self
    }

    /// The games, in the order of their names.
    pub fn games(&self) -> impl ExactSizeIterator<Item = &Game> {
        self.games.values().map(Arc::as_ref)
    }

    /// One task a game, in the order of their names: the context is what the player is asked to do, the metadata holds the
    /// official type of the task.
    #[must_use]
    pub fn tasks(&self) -> Vec<Task> {
        let task = |game: &Game| {
            let mut task = Task::new(game.name(), game.task());
            let kind = Value::from(game.task_kind().official_name());
            task.metadata.insert("task_kind".to_owned(), kind);
            task
        };
        self.games().map(task).collect()
    }
}

impl Environment for Alfworld {
    fn reset(&mut self, task: &Task) -> Result<Turn, EnvironmentError> {
        self.running = None;
        let game = self
            .games
            .get(&task.name)
            .ok_or_else(|| EnvironmentError::UnknownTask {
                environment: "ALFWorld".to_owned(),
                task: task.name.clone(),
                why: match self.games.keys().next() {
                    Some(first) => format!(
                        "none of the {} games that were read has this name; names are like {first:?}",
                        self.games.len()
                    ),
                    None => "no game was read".to_owned(),
                },
            })?;
        let play = Play::new(game);
        let opening = play.opening(game);
        let turn = turn(opening, false);
        if !turn.done {
            let game = game.clone();
            self.running = Some(Running {
                game,
                play,
                actions: 0,
            });
        }
        Ok(turn)
    }

    fn step(&mut self, action: &str) -> Result<Turn, EnvironmentError> {
        let running = self.running.as_mut().ok_or(EnvironmentError::NotRunning)?;
        running.actions += 1;
        let is_last = running.actions >= self.actions_max;
        let turn = turn(running.play.step(&running.game, action), is_last);
        if turn.done {
            self.running = None;
        }
        Ok(turn)
    }
}

fn turn(step: Step, is_last: bool) -> Turn {
    Turn {
        observation: step.observation,
        actions: Some(step.admissible),
        performance: if step.won {
            Performance::SUCCESS
        } else {
            Performance::FAILURE
        },
        done: step.done || is_last,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::small_game;
    use super::*;

    fn environment() -> Alfworld {
        Alfworld::new([small_game()])
    }

    #[test]
    fn a_walkthrough_wins_and_the_episode_is_over() {
        let mut environment = environment();
        let task = &environment.tasks()[0];
        let walkthrough = environment.games().next().unwrap().walkthrough().to_vec();
        let opening = environment.reset(task).unwrap();
        assert!(opening.observation.contains("Your task is to: "));
        let (last, before) = walkthrough.split_last().unwrap();
        for action in before {
            let turn = environment.step(action).unwrap();
            assert_eq!((turn.performance, turn.done), (Performance::FAILURE, false));
        }
        let end = environment.step(last).unwrap();
        assert_eq!((end.performance, end.done), (Performance::SUCCESS, true));
        assert_eq!(environment.step("look"), Err(EnvironmentError::NotRunning));
    }

    #[test]
    fn the_last_action_ends_it() {
        let mut environment = environment().with_actions_max(2);
        let task = &environment.tasks()[0];
        environment.reset(task).unwrap();
        assert!(!environment.step("look").unwrap().done);
        assert!(environment.step("no such action").unwrap().done);
        assert_eq!(environment.step("look"), Err(EnvironmentError::NotRunning));
        environment.reset(task).unwrap();
        assert!(!environment.step("look").unwrap().done);
    }

    #[test]
    fn clones_play_apart_and_a_reset_begins_anew() {
        let mut one = environment();
        let task = &one.tasks()[0];
        let mut other = one.clone();
        let opening = one.reset(task).unwrap();
        assert_eq!(other.step("look"), Err(EnvironmentError::NotRunning));
        let first = one.games().next().unwrap().walkthrough()[0].clone();
        one.step(&first).unwrap();
        assert_eq!(one.reset(task).unwrap(), opening);
    }

    #[test]
    fn a_task_of_no_game_is_named() {
        let error = environment()
            .reset(&Task::new("valid_seen/nowhere", ""))
            .unwrap_err();
        let message = error.to_string();
        assert!(
            message.contains("valid_seen/nowhere") && message.contains("1 games"),
            "{message}"
        );
    }
}
