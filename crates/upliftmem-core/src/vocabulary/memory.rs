//! What an agent is asked to do, and what it may be reminded of.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{MemoryId, TaskId};

/// Something for an agent to do. Paper: c.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// Derived from `name`.
    pub id: TaskId,
    /// What the task's owner calls it.
    pub name: String,
    /// The text that the agent and the scorer see.
    pub context: String,
    /// Anything else the owner wants kept; never shown to the agent.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

impl Task {
    /// A task without metadata.
    pub fn new(name: impl Into<String>, context: impl Into<String>) -> Self {
        let name = name.into();
        Self {
            id: TaskId::from_name(&name),
            name,
            context: context.into(),
            metadata: Map::new(),
        }
    }
}

/// One self-contained unit of past experience. Paper: m.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// Minted when the memory was written.
    pub id: MemoryId,
    /// The text that is injected.
    pub text: String,
    /// Length of the text in the executor's tokens, counted against [`super::Limits`].
    pub tokens: u32,
    /// The task whose trajectory it was distilled from, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_task: Option<TaskId>,
    /// Anything else its owner wants kept.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}
