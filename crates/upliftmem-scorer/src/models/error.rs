//! What can go wrong between a model's name and its files.

use std::{io, path::PathBuf};

use crate::embedder::EmbedderError;

/// The failures of getting and opening models.
#[derive(Debug, thiserror::Error)]
pub enum ModelsError {
    /// No model of that name is known.
    #[error("there is no model {name:?}; known are {known}. Any other model can be used from its directory")]
    Unknown {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// The model is known but not here.
    #[error("{name} is not in {}; pull it first", directory.display())]
    Absent {
        /// What was asked for.
        name: String,
        /// Where it was looked for.
        directory: PathBuf,
    },
    /// Something incomplete is where the model should be.
    #[error("{} has no {file}; remove the directory and pull the model again", directory.display())]
    Incomplete {
        /// The model's directory.
        directory: PathBuf,
        /// The file that is missing.
        file: String,
    },
    /// A file could not be fetched. What has arrived is kept, and the next attempt goes on from there.
    #[error("{model}: {file} could not be fetched from {origin}: {problem}")]
    Fetch {
        /// The model.
        model: String,
        /// The file of it.
        file: String,
        /// An address or a directory.
        origin: String,
        /// What happened.
        problem: String,
    },
    /// A file is not the published one. Nothing of it is kept.
    #[error(
        "{model}: {file} from {origin} is not the published file (sha256 {found}, expected {expected}); nothing was kept. \
         Try another source"
    )]
    WrongHash {
        /// The model.
        model: String,
        /// The file of it.
        file: String,
        /// An address or a directory.
        origin: String,
        /// The hash of what came.
        found: String,
        /// The hash of what was published.
        expected: String,
    },
    /// The disk refused.
    #[error("{}: {problem}", path.display())]
    Disk {
        /// The file or directory.
        path: PathBuf,
        /// What happened.
        problem: io::Error,
    },
    /// The model's files are here but can not be used.
    #[error(transparent)]
    Embedder(#[from] EmbedderError),
}

/// Shorthand for everything that handles models.
pub type Result<T, E = ModelsError> = std::result::Result<T, E>;

/// Names the path in an error of the disk.
pub(super) fn disk(path: &std::path::Path) -> impl FnOnce(io::Error) -> ModelsError {
    let path = path.to_owned();
    |problem| ModelsError::Disk { path, problem }
}
