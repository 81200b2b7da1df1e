//! Why an evaluation stopped.

use std::path::{Path, PathBuf};

/// Shorthand for what the protocol returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an evaluation stopped. What was done before is kept, and the same command goes on from there.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The request makes no sense as it is.
    #[error("{0}")]
    Input(String),
    /// An execution failed.
    #[error("an execution failed: {0}")]
    Execution(String),
    /// A file can not be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A result in the folder is not what this program writes.
    #[error("{}: {source}; delete it to have it made again", path.display())]
    Record {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// The games can not be read.
    #[error(transparent)]
    Games(#[from] crate::alfworld::LoadError),
    /// The catalogue can not be read.
    #[error(transparent)]
    Shop(#[from] crate::webshop::LoadError),
    /// The programming tasks can not be read.
    #[error(transparent)]
    Code(#[from] crate::bigcodebench::LoadError),
    /// The dialogues can not be read.
    #[error(transparent)]
    Dialogues(#[from] crate::memsyco::LoadError),
    /// The engine stopped.
    #[error(transparent)]
    Engine(#[from] upliftmem_engine::Error),
    /// The store refused or failed.
    #[error(transparent)]
    Store(#[from] upliftmem_store::Error),
    /// The scorer refused or failed.
    #[error(transparent)]
    Scorer(#[from] upliftmem_scorer::ScorerError),
    /// A text has no vector.
    #[error(transparent)]
    Embedder(#[from] upliftmem_scorer::embedder::EmbedderError),
    /// A number is out of range.
    #[error(transparent)]
    Invalid(#[from] upliftmem_core::InvalidInput),
}

impl Error {
    /// What happened to this file.
    pub(super) fn file(path: &Path) -> impl FnOnce(std::io::Error) -> Self + '_ {
        |source| Self::File {
            path: path.to_owned(),
            source,
        }
    }
}
