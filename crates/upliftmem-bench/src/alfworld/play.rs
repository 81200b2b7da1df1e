//! One play of a game by a player: what was done, and how it ended.

use upliftmem_core::TrajectoryStep;

use super::{Game, Player, View};

/// Actions after which a play is over. Paper: C_max of ALFWorld.
pub const ACTIONS_MAX: usize = 30;

/// A play that is over.
#[derive(Clone, Debug, PartialEq)]
pub struct Play {
    /// Whether the goal was reached.
    pub won: bool,
    /// Every action with its answer.
    pub trajectory: Vec<TrajectoryStep>,
}

/// Lets a player play until it has won, gives up, or has used up its actions.
pub fn play(game: &Game, mut player: Player) -> Play {
    let mut episode = game.start();
    let mut step = episode.opening();
    let mut trajectory = Vec::with_capacity(ACTIONS_MAX);
    while trajectory.len() < ACTIONS_MAX && !step.done {
        let view = View {
            observation: &step.observation,
            admissible: &step.admissible,
        };
        let Some(action) = player.act(view) else {
            break;
        };
        step = episode.step(&action);
        trajectory.push(TrajectoryStep {
            action,
            observation: step.observation.clone(),
        });
    }
    Play {
        won: step.won,
        trajectory,
    }
}
