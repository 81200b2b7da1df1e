//! Executions that are wanted, and how they ended.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use upliftmem_core::{Outcome, Purpose, Rollout, RolloutId, TrajectoryStep};

use crate::{
    Timestamp,
    error::{Error, Result},
};

/// A rollout that waits for a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTicket {
    /// What to execute. The id is minted by the caller.
    pub rollout: Rollout,
    /// How often it may be handed out before it counts as failed.
    pub attempts_max: u32,
}

/// Where a ticket is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TicketState {
    /// Nobody works on it.
    Waiting,
    /// A worker has it.
    Leased,
    /// Its outcome is stored.
    Completed,
    /// Every attempt failed.
    Failed,
}

impl TicketState {
    /// The word that is stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Leased => "leased",
            Self::Completed => "completed",
            Self::Failed => "failed",
        }
    }

    pub(crate) fn parse(word: &str) -> Result<Self> {
        [Self::Waiting, Self::Leased, Self::Completed, Self::Failed]
            .into_iter()
            .find(|state| state.as_str() == word)
            .ok_or_else(|| Error::Corrupt(format!("ticket state {word:?}")))
    }
}

/// A rollout and how far it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    /// What to execute.
    pub rollout: Rollout,
    /// Where it is in its life.
    pub state: TicketState,
    /// How often it was handed out.
    pub attempts: u32,
    /// How often it may be handed out.
    pub attempts_max: u32,
    /// Who has it.
    pub worker: Option<String>,
    /// Until when.
    pub lease_expires_at: Option<Timestamp>,
    /// Why the last attempt failed.
    pub last_error: Option<String>,
    /// When it was asked for.
    pub enqueued_at: Timestamp,
}

/// What a worker asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseRequest {
    /// Who asks.
    pub worker: String,
    /// At most so many tickets.
    pub tickets: usize,
    /// How long the worker may take before it must say that it is alive.
    pub duration: Duration,
    /// Only tickets of this purpose.
    pub purpose: Option<Purpose>,
}

/// The right to report on a ticket. The attempt's number tells an old holder from the current one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Lease {
    /// The ticket.
    pub rollout: RolloutId,
    /// Which handing-out it was, counted from 1.
    pub attempt: u32,
}

/// A ticket in a worker's hands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeasedTicket {
    /// What to execute.
    pub rollout: Rollout,
    /// The right to report on it.
    pub lease: Lease,
    /// Until when, unless a heartbeat extends it.
    pub expires_at: Timestamp,
}

/// All that an execution left behind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExecutionReport {
    /// How it ended.
    pub outcome: Outcome,
    /// What happened, step by step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trajectory: Vec<TrajectoryStep>,
    /// Anything the executor wants kept.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub diagnostics: Map<String, Value>,
}

/// A report that is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredReport {
    /// The report.
    pub report: ExecutionReport,
    /// The attempt that brought it; 0 for an execution that was never handed out.
    pub attempt: u32,
    /// When.
    pub completed_at: Timestamp,
}

/// Whether a report changed anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completion {
    /// It is now durable.
    Recorded,
    /// The same report was durable before.
    AlreadyRecorded,
}

/// What became of a ticket after a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterFailure {
    /// It waits for another attempt.
    WillRetry,
    /// It has no attempts left.
    GivenUp,
}

/// Which tickets or reports a listing shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TicketFilter {
    /// Only those in this state.
    pub state: Option<TicketState>,
    /// Only those of this purpose.
    pub purpose: Option<Purpose>,
    /// Only those after this one, in creation order.
    pub after: Option<RolloutId>,
}

pub(crate) fn parse_purpose(word: &str) -> Result<Purpose> {
    Purpose::ALL
        .into_iter()
        .find(|&purpose| purpose.name() == word)
        .ok_or_else(|| Error::Corrupt(format!("purpose {word:?}")))
}
