//! The scripted player as an executor.

use std::collections::BTreeMap;

use async_trait::async_trait;
use serde_json::Map;
use upliftmem_agent::{Execution, ExecutionRequest, Executor, ExecutorError};
use upliftmem_core::{Cost, Performance};

use crate::alfworld::{ACTIONS_MAX, Game, Player, play};

/// Plays games with the scripted player. What it answers depends on the game, the texts of the memories in their
/// order, and the seed.
pub struct AlfworldExecutor {
    games: BTreeMap<String, Game>,
}

impl AlfworldExecutor {
    /// The executor of these games, by name.
    pub fn new(games: BTreeMap<String, Game>) -> Self {
        Self { games }
    }
}

#[async_trait]
impl Executor for AlfworldExecutor {
    fn name(&self) -> &str {
        "alfworld:scripted-1"
    }

    async fn execute(&self, request: &ExecutionRequest) -> Result<Execution, ExecutorError> {
        let game = self
            .games
            .get(&request.task.name)
            .ok_or_else(|| ExecutorError::Failed(format!("no game is called {:?}", request.task.name)))?;
        // The player is made of texts and a seed; the game stays on this side.
        let player = Player::new(
            request.memories.iter().map(|memory| memory.text.as_str()),
            request.seed,
        );
        let played = play(game, player);
        // Giving up is no way to save actions: a play that is not won has cost all of them.
        let actions = if played.won {
            played.trajectory.len()
        } else {
            ACTIONS_MAX
        };
        let failed = |error: upliftmem_core::InvalidInput| ExecutorError::Failed(error.to_string());
        Ok(Execution {
            performance: Performance::new(f64::from(u8::from(played.won))).map_err(failed)?,
            cost: Cost::new(actions as f64).map_err(failed)?,
            trajectory: played.trajectory,
            diagnostics: Map::new(),
        })
    }
}
