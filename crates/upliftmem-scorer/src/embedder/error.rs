//! What can go wrong between a text and its vector, split by who must act.

use std::path::PathBuf;

use upliftmem_core::InvalidInput;

/// The failures of embedders.
#[derive(Debug, thiserror::Error)]
pub enum EmbedderError {
    /// The caller's settings or texts can not be used.
    #[error(transparent)]
    Invalid(#[from] InvalidInput),
    /// A file of a model is missing, damaged or of a kind this program does not know.
    #[error("{}: {problem}", file.display())]
    Model {
        /// The file or directory.
        file: PathBuf,
        /// What is wrong with it, and what would be right.
        problem: String,
    },
    /// A server did not give vectors.
    #[error("{url}: {problem}")]
    Service {
        /// What was asked.
        url: String,
        /// What came back.
        problem: String,
    },
}

/// Shorthand for everything that embeds.
pub type Result<T, E = EmbedderError> = std::result::Result<T, E>;
