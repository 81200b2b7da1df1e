//! A text world in which an agent acts, one action at a time.

mod serve;

use serde::{Deserialize, Serialize};
use upliftmem_core::{Performance, Task};

pub use serve::serve_environment;

/// What an agent sees after a reset or an action. As JSON it is the answer of the environment protocol.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// What the world says.
    pub observation: String,
    /// What may be done now, where the world can list it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actions: Option<Vec<String>>,
    /// How well the episode went so far. For whoever judges the episode, never for the agent.
    pub performance: Performance,
    /// Whether the episode has ended.
    pub done: bool,
}

/// Why an environment gave no turn.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnvironmentError {
    /// The task is none of this environment's.
    #[error("no task {task:?} in {environment}: {why}")]
    UnknownTask {
        /// Which environment.
        environment: String,
        /// The task's name.
        task: String,
        /// What was looked for, and where.
        why: String,
    },
    /// An action came before the first reset or after the end.
    #[error("no episode is running: reset the environment with a task first")]
    NotRunning,
    /// The world behind it broke.
    #[error("{0}")]
    Broken(String),
}

/// A text world. An action that the world does not know is answered by the world, not an error.
///
/// Calls block: worlds in the process answer in microseconds, and one behind a pipe has nothing else to do.
pub trait Environment: Send {
    /// Begins the task's episode. An episode that was running is forgotten.
    fn reset(&mut self, task: &Task) -> Result<Turn, EnvironmentError>;

    /// Does one action.
    fn step(&mut self, action: &str) -> Result<Turn, EnvironmentError>;
}
