//! Files: what is imported and exported, one JSON object a line, and the formats of others.

mod langgraph;
pub(crate) mod lines;
mod mem0;
mod native;
mod objects;
mod reader;
mod text;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use upliftmem_core::{MemoryId, Rollout, Task};

pub use self::{langgraph::langgraph_items, mem0::mem0_export, native::json_lines, text::text_file};
use crate::{ExecutionReport, Journaled, StoredMemory, TicketState, Timestamp, error::Result};

/// What a file of our own holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExportKind {
    /// `memories.jsonl`.
    Memories,
    /// `tasks.jsonl`.
    Tasks,
    /// Executions with their outcomes and trajectories.
    Executions,
    /// Executions that were asked for and have no outcome. One that is in a worker's hands is exported as waiting.
    Tickets,
    /// References, labels, paths, retrievals, batches, scorers. Import executions first.
    Journal,
}

/// A task with the fields of its line that have no meaning here.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredTask {
    /// The task.
    pub task: Task,
    /// Kept and exported again.
    pub extra: Map<String, Value>,
}

/// A rollout that was executed, and how it went.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredExecution {
    /// What was executed.
    pub rollout: Rollout,
    /// How it went.
    pub report: ExecutionReport,
    /// The attempt that brought the report; 0 for one that was never handed out.
    pub attempt: u32,
    /// When.
    pub completed_at: Timestamp,
}

/// A rollout that was asked for and has no outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredTicket {
    /// What to execute.
    pub rollout: Rollout,
    /// `waiting` or `failed`.
    pub state: TicketState,
    /// How often it was handed out.
    pub attempts: u32,
    /// How often it may be handed out.
    pub attempts_max: u32,
    /// Why the last attempt failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// When it was asked for.
    pub enqueued_at: Timestamp,
}

/// One thing to import.
#[derive(Debug, Clone, PartialEq)]
pub enum ImportItem {
    /// A memory.
    Memory(Box<StoredMemory>),
    /// A task.
    Task(StoredTask),
    /// An execution.
    Execution(Box<StoredExecution>),
    /// A ticket.
    Ticket(Box<StoredTicket>),
    /// A journal entry.
    Entry(Box<Journaled>),
}

/// Items with the lines they came from.
pub type ImportItems = Box<dyn Iterator<Item = Result<(u64, ImportItem)>> + Send>;

/// Makes an id for a memory that was created at a moment and has none.
pub type MintId = Box<dyn FnMut(Timestamp) -> MemoryId + Send>;

/// A file to import.
pub struct ImportSource {
    /// Its name, for messages.
    pub file: String,
    /// What is in it.
    pub items: ImportItems,
}

impl std::fmt::Debug for ImportSource {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("ImportSource")
            .field("file", &self.file)
            .finish_non_exhaustive()
    }
}

/// What became of an imported file's items.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ImportSummary {
    /// Items that are new in the scope.
    pub stored: u64,
    /// Items that the scope had already.
    pub duplicates: u64,
    /// Of those stored, memories that are not recalled.
    pub quarantined: u64,
}

impl ImportSummary {
    /// Items read.
    pub const fn total(&self) -> u64 {
        self.stored + self.duplicates
    }

    pub(crate) const fn count(&mut self, new: bool) {
        if new {
            self.stored += 1;
        } else {
            self.duplicates += 1;
        }
    }
}
