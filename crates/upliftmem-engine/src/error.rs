//! Everything that can go wrong, sorted by who has to act.

use std::path::PathBuf;

use upliftmem_core::InvalidInput;
use upliftmem_scorer::{ScorerError, checkpoint::CheckpointError, embedder::EmbedderError};

/// Shorthand for what the engine returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why the engine refused or stopped. What was durable before stays so.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The input makes no sense as it is.
    #[error(transparent)]
    Invalid(#[from] InvalidInput),

    /// The store refused or failed.
    #[error(transparent)]
    Store(#[from] upliftmem_store::Error),

    /// The scorer refused or failed.
    #[error(transparent)]
    Scorer(#[from] ScorerError),

    /// A version of the scorer can not be written or read back.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),

    /// A file or directory can not be written.
    #[error("{place}: can not be written: {problem}", place = place.display())]
    Files {
        /// Which one.
        place: PathBuf,
        /// Why.
        problem: String,
    },

    /// The embedder failed.
    #[error(transparent)]
    Embedder(#[from] EmbedderError),

    /// The executor can not go on. What was executed so far is kept; the same command goes on from there.
    #[error("the executor {executor} can not go on: {problem}")]
    Executor {
        /// Which one.
        executor: String,
        /// What it says.
        problem: String,
    },

    /// A run is continued with settings that would change what it has already done.
    #[error(
        "run {run:?} was started with another {setting} ({before} then, {now} now); set it back, or start a run of another name"
    )]
    OtherSettings {
        /// The run.
        run: String,
        /// What differs.
        setting: String,
        /// What it was.
        before: String,
        /// What it is.
        now: String,
    },

    /// The journal says something that this engine never writes.
    #[error(
        "the journal of run {run:?} is damaged: {problem}; restore a backup, or start a run of another name"
    )]
    Journal {
        /// The run.
        run: String,
        /// What is wrong.
        problem: String,
    },

    /// A part of the engine stopped unexpectedly.
    #[error("{0}; please report this")]
    Internal(String),
}
