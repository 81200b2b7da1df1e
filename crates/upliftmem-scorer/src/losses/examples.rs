//! What gradient-trained scorers learn from.

use serde::{Deserialize, Serialize};
use upliftmem_core::{MemorySet, Observation, RetrievalPath, TaskId, Uplift, objectives::ValueLabel};

/// The uplift of one executed set. Paper: an element of D_v.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ValueExample {
    /// The complete set that was used.
    pub set: MemorySet,
    /// Task, reference and the uplift to learn.
    pub label: ValueLabel,
}

impl From<&Observation> for ValueExample {
    fn from(observation: &Observation) -> Self {
        Self {
            set: observation.set.clone(),
            label: observation.into(),
        }
    }
}

/// A sampled path whose terminal set was executed. Paper: an element of D_pi.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PathExample {
    /// The task.
    pub task: TaskId,
    /// The decisions.
    pub path: RetrievalPath,
    /// What the terminal set achieved.
    pub uplift: Uplift,
}
