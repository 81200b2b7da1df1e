//! What can go wrong while scoring or learning, split by who must act.

use std::path::PathBuf;

use upliftmem_core::InvalidInput;

/// The failures of this crate.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ScorerError {
    /// The caller's input can not be scored or learned from; nothing was changed.
    #[error(transparent)]
    Invalid(#[from] InvalidInput),
    /// A file of a model is missing, damaged or of a kind this program does not know.
    #[error("{}: {problem}", file.display())]
    Model {
        /// The file or directory.
        file: PathBuf,
        /// What is wrong with it, with the tensor's name if it is one, and what would be right.
        problem: String,
    },
    /// A server did not give values.
    #[error("{url}: {problem}")]
    Service {
        /// What was asked.
        url: String,
        /// What came back.
        problem: String,
    },
    /// The arithmetic broke down on valid input: a fault of the model, worth a report.
    #[error("numerical failure in {step}: {problem}")]
    Numerical {
        /// Where it happened.
        step: &'static str,
        /// What was found there.
        problem: String,
    },
}

#[cfg(feature = "lm")]
impl From<upliftmem_lm::LmError> for ScorerError {
    fn from(error: upliftmem_lm::LmError) -> Self {
        use upliftmem_lm::LmError;
        match error {
            LmError::Invalid(invalid) => Self::Invalid(invalid),
            LmError::Model { file, problem } => Self::Model { file, problem },
            LmError::Numerical { step, problem } => Self::Numerical { step, problem },
        }
    }
}

/// Shorthand for everything that scores or learns.
pub type Result<T, E = ScorerError> = std::result::Result<T, E>;

/// Refuses input by name.
pub(crate) fn invalid(what: impl std::fmt::Display, problem: impl std::fmt::Display) -> ScorerError {
    ScorerError::Invalid(InvalidInput::new(what, problem))
}
