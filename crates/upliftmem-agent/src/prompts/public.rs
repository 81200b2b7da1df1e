//! What an agent may know.

use serde_json::Value;
use upliftmem_core::Task;

use super::fence::plain;
use crate::Turn;

/// A task as its agent sees it. Metadata, which may hold the expected answer or the tests, is not part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicTask {
    context: String,
    kind: Option<String>,
}

impl PublicTask {
    /// The public side of a task: its context, and its type if the metadata name a `task_type`.
    pub fn of(task: &Task) -> Self {
        let kind = task.metadata.get("task_type").and_then(Value::as_str);
        Self {
            context: plain(&task.context),
            kind: kind.map(plain),
        }
    }

    /// What is to be done.
    pub fn context(&self) -> &str {
        &self.context
    }

    /// Its type, by which examples are chosen.
    pub fn kind(&self) -> Option<&str> {
        self.kind.as_deref()
    }
}

/// A turn as the agent sees it: without how well the episode goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicTurn {
    observation: String,
    actions: Option<Vec<String>>,
}

impl PublicTurn {
    /// The public side of a turn.
    pub fn of(turn: &Turn) -> Self {
        Self {
            observation: plain(&turn.observation),
            actions: turn.actions.clone(),
        }
    }

    /// What the world says.
    pub fn observation(&self) -> &str {
        &self.observation
    }

    /// What may be done, where the world lists it.
    pub fn actions(&self) -> Option<&[String]> {
        self.actions.as_deref()
    }
}
