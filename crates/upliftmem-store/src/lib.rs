//! Memories, executions and labels, kept durably and recalled fast: SQLite in the process, or PostgreSQL.
//!
//! One trait, [`Store`], with one implementation of every statement and two databases under it. A [`Scope`] is an
//! argument of every method and part of the key of every row: there is no query without one. What must be known
//! before a scope is, who calls and which scopes are theirs, is in [`Tenancy`].
//!
//! ```
//! use upliftmem_core::MemoryId;
//! use upliftmem_store::*;
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let store = open_sqlite(SqlitePlace::Memory, StoreLimits::default()).await?;
//! let scope = Scope::user("alice")?;
//! let now = Timestamp::from_millis(1_000);
//! let note = NewMemory::note(MemoryId::from_u128(1), "The mug is in the second drawer.");
//! let results = store.add_memories(&scope, now, vec![note]).await?;
//! assert_eq!(results[0].status, ItemStatus::Stored);
//!
//! let query = RecallQuery {
//!     text: "where is the mug?".into(),
//!     embedding: None,
//!     candidates: 50,
//!     mode: RecallMode::Hybrid,
//! };
//! assert_eq!(store.recall(&scope, now, query).await?.hits.len(), 1);
//! # Ok::<(), upliftmem_store::Error>(()) }).unwrap();
//! ```

mod embedding;
mod error;
mod files;
mod index;
mod journal;
mod leadership;
mod lexical;
mod limits;
mod memory;
mod postgres;
mod quota;
mod recall;
mod reembed;
mod scope;
mod signals;
mod sql;
mod sqlite;
mod store;
mod tenancy;
mod ticket;
mod time;

pub use embedding::{EmbedderGeneration, Embedding};
pub use error::{Actor, Error, Result};
pub use files::{
    ExportKind, ImportItem, ImportItems, ImportSource, ImportSummary, MintId, StoredExecution, StoredTask,
    StoredTicket, json_lines, langgraph_items, mem0_export, text_file,
};
pub use journal::{
    EntryKind, JournalEntry, JournalFilter, Journaled, ProbeBatchRecord, ProbeRecord, RecordedPath,
    RetrievalRecord, ScorerVersion, TrainingEvent,
};
pub use leadership::Leadership;
pub use limits::StoreLimits;
pub use memory::{
    ItemResult, ItemStatus, MemoryChange, MemoryFilter, MemoryStatus, NewMemory, StoredMemory,
    estimated_tokens, misleads,
};
pub use postgres::{PostgresPlace, open_postgres};
pub use quota::{Quota, QuotaLimits};
pub use recall::{Hit, Recall, RecallMode, RecallQuery};
pub use reembed::{EmbedTexts, ReembedProgress, reembed};
pub use scope::{SCOPE_PART_BYTES_MAX, Scope, ScopeParts};
pub use signals::{Topic, Watch};
pub use sql::migrations::SCHEMA_VERSION;
pub use sqlite::{SqlitePlace, open_sqlite};
pub use store::{ProgressReport, Store};
pub use tenancy::{AnswerKey, ApiKey, Claim, KeptAnswer, KeyHash, Permission, Tenancy};
pub use ticket::{
    AfterFailure, Completion, ExecutionReport, Lease, LeaseRequest, LeasedTicket, NewTicket, StoredReport,
    Ticket, TicketFilter, TicketState,
};
pub use time::{Timestamp, set_clock_ahead};
pub use upliftmem_core::TrajectoryStep;
