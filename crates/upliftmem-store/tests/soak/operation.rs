//! What the two processes say to each other.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

/// One operation. Numbers are ids.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Operation {
    /// Memories with texts that name their numbers.
    Add(Vec<u64>),
    Delete(u64),
    Quarantine(u64),
    Enqueue(Vec<u64>),
    Lease(usize),
    /// Ticket and attempt.
    Complete(u64, u32),
    Fail(u64, u32),
    Append(u64),
}

/// Operations that are run at the same time. They touch different rows.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Group(pub(crate) Vec<Operation>);

/// What the store answered, as far as the model needs it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Answer {
    Done,
    /// Tickets and attempts that were handed out.
    Leased(Vec<(u64, u32)>),
    Refused(String),
}

/// The text of a memory; its last word is its own.
pub(crate) fn text(number: u64) -> String {
    format!("what the agent learned in step {number}: own{number}word")
}

/// The vector of a memory: every number has another direction.
pub(crate) fn vector(number: u64) -> Vec<f32> {
    let mut rng = ChaCha8Rng::seed_from_u64(number);
    (0..8).map(|_| rng.random_range(-1.0..1.0)).collect()
}
