//! The recorded way in which a set was put together.

use serde::{Deserialize, Serialize};

use super::{MemoryId, MemorySet};

/// One step of building a set. Paper: a.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Return the current set.
    Stop,
    /// Add this memory to it.
    Add(MemoryId),
}

/// One sampled decision: where it was made, what was allowed, what was done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathStep {
    /// The set before the action.
    pub state: MemorySet,
    /// The memories that could have been added, sorted by id. Stopping is always allowed.
    pub mask: Vec<MemoryId>,
    /// What was done.
    pub action: Action,
}

/// A sampled path with all that its likelihood needs. Paper: the states, masks and actions of D_pi.
///
/// A sampled stop is a step; an end forced by a limit is not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetrievalPath {
    /// The sampled decisions, in order.
    pub steps: Vec<PathStep>,
    /// The set that was returned.
    pub terminal: MemorySet,
}

impl RetrievalPath {
    /// The sets the path went through, from the empty set to the terminal one, each once.
    pub fn prefixes(&self) -> impl Iterator<Item = &MemorySet> {
        let stopped = self.steps.last().is_some_and(|step| step.action == Action::Stop);
        let states = self.steps.iter().map(|step| &step.state);
        // After a sampled stop the last state is the terminal set itself.
        states.chain((!stopped).then_some(&self.terminal))
    }
}
