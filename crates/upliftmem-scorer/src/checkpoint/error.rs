//! Why a checkpoint can not be written or used.

use std::path::{Path, PathBuf};

use crate::ScorerError;

/// A failure with the file it concerns. Nothing was changed by it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CheckpointError {
    /// The file system refused.
    #[error("{}: {problem}", file.display())]
    Io {
        /// The file or directory.
        file: PathBuf,
        /// What the system said.
        problem: String,
    },
    /// The file is not what was written: truncated, changed, or not a checkpoint at all.
    #[error("{}: {problem}; use an earlier checkpoint or train anew", file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// What is wrong, with the tensor's name if it is one.
        problem: String,
    },
    /// A sound checkpoint that does not fit here: a newer format, another kind of scorer or another embedder.
    #[error("{}: {problem}", file.display())]
    Unfit {
        /// The file.
        file: PathBuf,
        /// What does not fit, and the way out.
        problem: String,
    },
    /// The content could not be made into a scorer.
    #[error("{}: {source}", file.display())]
    Scorer {
        /// The file.
        file: PathBuf,
        /// What the scorer said.
        source: ScorerError,
    },
}

impl CheckpointError {
    pub(super) fn unreadable(file: &Path, error: &std::io::Error) -> Self {
        Self::Io {
            file: file.to_owned(),
            problem: format!("can not be read: {error}"),
        }
    }

    pub(super) fn unwritable(file: &Path, error: &std::io::Error) -> Self {
        Self::Io {
            file: file.to_owned(),
            problem: format!("can not be written: {error}"),
        }
    }

    pub(super) fn damaged(file: &Path, problem: impl std::fmt::Display) -> Self {
        Self::Damaged {
            file: file.to_owned(),
            problem: problem.to_string(),
        }
    }

    pub(super) fn unfit(file: &Path, problem: impl std::fmt::Display) -> Self {
        Self::Unfit {
            file: file.to_owned(),
            problem: problem.to_string(),
        }
    }
}
