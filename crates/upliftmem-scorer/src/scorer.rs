//! What every scorer promises: the value of memory sets for one task, in batches.

use std::time::Instant;

use upliftmem_core::{MemoryId, MemorySet, TaskId};

use crate::{Embedding, ScorerError};

/// Names one immutable state of a scorer. A later state has a larger number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct ScorerVersion(pub u64);

/// A task as a scorer sees it. Text models read the context, embedding models the embedding.
#[derive(Debug, Clone, Copy)]
pub struct TaskInput<'a> {
    /// The task.
    pub id: TaskId,
    /// Its text.
    pub context: &'a str,
    /// The embedding of its text.
    pub embedding: &'a Embedding,
}

/// A memory as a scorer sees it.
#[derive(Debug, Clone, Copy)]
pub struct MemoryInput<'a> {
    /// The memory.
    pub id: MemoryId,
    /// Its text.
    pub text: &'a str,
    /// The embedding of its text.
    pub embedding: &'a Embedding,
}

/// What is wanted beside the values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ask {
    /// Number of draws of the value function from the belief (posterior or dropout), the same function for
    /// all sets of one draw.
    pub draws: usize,
    /// Seed of the draws.
    pub seed: u64,
    /// Whether the standard deviation of each value is wanted.
    pub deviations: bool,
}

impl Ask {
    /// Only the values.
    pub const VALUES: Self = Self {
        draws: 0,
        seed: 0,
        deviations: false,
    };
}

/// The answer for one batch, in the order of its sets.
#[derive(Debug, Clone, PartialEq)]
pub struct Scores {
    /// The state that answered.
    pub version: ScorerVersion,
    /// The predicted uplift of each set; exactly 0 for the empty set. Paper: G_theta(c, S).
    pub values: Vec<f64>,
    /// The belief's standard deviation of each value; empty unless asked for.
    pub deviations: Vec<f64>,
    /// One vector of values a draw; empty unless asked for.
    pub draws: Vec<Vec<f64>>,
}

/// Predicts the uplift of memory sets. Paper: G_theta.
///
/// A scorer is one immutable version: training publishes a new one, and readers keep the one they hold. All
/// values are functions of the task and the set alone: not of the batch, its order, or the order of members.
pub trait SetScorer: Send + Sync {
    /// Which state this is.
    fn version(&self) -> ScorerVersion;

    /// Prepares one task with the memories its sets may contain. What the sets share is computed here, once:
    /// the reduction to per-task terms, or the prompt's common prefix.
    fn bind<'a>(
        &'a self,
        task: TaskInput<'a>,
        memories: &[MemoryInput<'a>],
    ) -> Result<Box<dyn TaskScorer + 'a>, ScorerError>;
}

/// A scorer bound to one task and its candidate memories.
pub trait TaskScorer: Send + Sync {
    /// Scores many sets at once. A set with a memory that was not bound is refused.
    fn score(&self, sets: &[MemorySet], ask: Ask) -> Result<Scores, ScorerError>;

    /// The values of as many sets as there is time for; `None` for the others. A scorer that needs no time worth
    /// mentioning scores all of them.
    fn score_until(&self, sets: &[MemorySet], _deadline: Instant) -> Result<Vec<Option<f64>>, ScorerError> {
        let values = self.score(sets, Ask::VALUES)?.values;
        Ok(values.into_iter().map(Some).collect())
    }
}
