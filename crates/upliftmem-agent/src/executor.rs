//! The one trait that the engine executes through.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use upliftmem_core::{Cost, MemoryId, Performance, Purpose, RolloutId, Task, TrajectoryStep};

/// A memory as an executor sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryText {
    /// Which memory.
    pub id: MemoryId,
    /// What it says.
    pub text: String,
}

/// One execution that is asked for: a task with a complete set of memories.
#[derive(Debug, Clone, PartialEq)]
pub struct ExecutionRequest {
    /// The name under which it is answered.
    pub id: RolloutId,
    /// What to do.
    pub task: Task,
    /// The members of the set, in creation order; none for a reference.
    pub memories: Vec<MemoryText>,
    /// Randomness: the same request with the same seed should do the same.
    pub seed: u64,
    /// Why it is run.
    pub purpose: Purpose,
}

/// How an execution ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Execution {
    /// How well it did.
    pub performance: Performance,
    /// What it cost.
    pub cost: Cost,
    /// What happened, step by step, if the executor tells.
    pub trajectory: Vec<TrajectoryStep>,
    /// Anything the executor wants kept.
    pub diagnostics: Map<String, Value>,
}

/// Why there is no outcome.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExecutorError {
    /// This execution failed; another attempt may do better.
    #[error("{0}")]
    Failed(String),
    /// The executor itself can not go on: no further execution makes sense until its owner has acted.
    #[error("{0}")]
    Unavailable(String),
}

/// Runs tasks. Paper: Execute(c, S).
#[async_trait]
pub trait Executor: Send + Sync {
    /// A stable name for what executes. Outcomes of different names are never compared, and references are kept by
    /// task and name.
    fn name(&self) -> &str;

    /// Most steps that an execution may have, where there is such a cap.
    fn steps_max(&self) -> Option<usize> {
        None
    }

    /// What decides how it executes besides its name and the request: prompts, sampling, limits. What is kept of one
    /// version does not stand for another. Empty if it can not tell.
    fn version(&self) -> String {
        String::new()
    }

    /// Runs one task with one set. Many may run at once.
    async fn execute(&self, request: &ExecutionRequest) -> Result<Execution, ExecutorError>;
}
