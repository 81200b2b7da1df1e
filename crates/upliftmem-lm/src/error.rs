//! What can go wrong with a language model, split by who must act.

use std::path::PathBuf;

use upliftmem_core::InvalidInput;

/// The failures of this crate.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum LmError {
    /// The caller's input can not be read by the model; nothing was changed.
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
    /// The arithmetic broke down on valid input: a fault of the model, worth a report.
    #[error("numerical failure in {step}: {problem}")]
    Numerical {
        /// Where it happened.
        step: &'static str,
        /// What was found there.
        problem: String,
    },
}

/// Shorthand for everything that reads with a model.
pub type Result<T, E = LmError> = std::result::Result<T, E>;

/// Refuses input by name.
pub(crate) fn invalid(what: impl std::fmt::Display, problem: impl std::fmt::Display) -> LmError {
    LmError::Invalid(InvalidInput::new(what, problem))
}

/// A failure of the arithmetic.
#[expect(clippy::needless_pass_by_value, reason = "the shape that map_err wants")]
pub fn numerical(error: candle_core::Error) -> LmError {
    LmError::Numerical {
        step: "the language model",
        problem: error.to_string(),
    }
}
