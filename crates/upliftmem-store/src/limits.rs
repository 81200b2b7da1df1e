//! How much of anything one call may bring or ask for.

use crate::error::{Error, Result};

/// Every size a store bounds. An error names the field that was hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreLimits {
    /// Bytes of the text of one memory, or of the context of one task.
    pub text_bytes_max: usize,
    /// Bytes of one memory's or task's metadata, provenance and other fields, as JSON.
    pub metadata_bytes_max: usize,
    /// Bytes of any name: kind, executor, worker, task name.
    pub name_bytes_max: usize,
    /// Items of one batch of memories, tasks, tickets or journal entries.
    pub batch_items_max: usize,
    /// Numbers of one embedding.
    pub embedding_dimension_max: usize,
    /// Bytes of one outcome's trajectory and diagnostics, as JSON.
    pub trajectory_bytes_max: usize,
    /// Bytes of one journal entry, as JSON.
    pub entry_bytes_max: usize,
    /// Bytes of the text of a query; what is beyond is refused, not cut.
    pub query_bytes_max: usize,
    /// Candidates of one recall.
    pub recall_candidates_max: usize,
    /// Rows of one page of a listing.
    pub page_rows_max: usize,
    /// Tickets of one lease call.
    pub lease_tickets_max: usize,
    /// Bytes of one line of an imported file.
    pub line_bytes_max: usize,
}

impl Default for StoreLimits {
    fn default() -> Self {
        Self {
            text_bytes_max: 32 * 1024,
            metadata_bytes_max: 64 * 1024,
            name_bytes_max: 256,
            batch_items_max: 10_000,
            embedding_dimension_max: 4_096,
            trajectory_bytes_max: 8 * 1024 * 1024,
            entry_bytes_max: 8 * 1024 * 1024,
            query_bytes_max: 128 * 1024,
            recall_candidates_max: 1_000,
            page_rows_max: 10_000,
            lease_tickets_max: 1_000,
            line_bytes_max: 16 * 1024 * 1024,
        }
    }
}

/// Refuses `got` above `allowed`, by the limit's name.
pub(crate) fn within(
    limit: &'static str,
    allowed: usize,
    got: usize,
    what: impl std::fmt::Display,
) -> Result<()> {
    if got <= allowed {
        return Ok(());
    }
    Err(Error::Limit {
        limit,
        allowed: allowed as u64,
        got: got as u64,
        what: what.to_string(),
    })
}

/// Refuses `got` of zero or above `allowed`.
pub(crate) fn between_one_and(
    limit: &'static str,
    allowed: usize,
    got: usize,
    what: impl std::fmt::Display,
) -> Result<()> {
    if got == 0 {
        return Err(Error::invalid(what, "0 is asked for; ask for at least 1"));
    }
    within(limit, allowed, got, what)
}
