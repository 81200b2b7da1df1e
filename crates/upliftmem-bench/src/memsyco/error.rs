//! What can be wrong with the data, told with file and place.

use std::io;
use std::path::PathBuf;

/// Data that can not be read.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A file could not be read at all.
    #[error("{}: can not be read: {source}; the folder must hold MemSyco-Bench's `manifest.json` and its five files", .file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file is not the JSON that was expected.
    #[error("{}, line {line}: {source}", .file.display())]
    Json {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// A file is not the published one.
    #[error("{}: its checksum is {found}, the manifest says {expected}: it is another version, or damaged", .file.display())]
    Checksum {
        /// The file.
        file: PathBuf,
        /// The manifest's.
        expected: String,
        /// The file's.
        found: String,
    },
    /// What is in a file does not fit the rest.
    #[error("{}: {message}", .file.display())]
    Inconsistent {
        /// The file.
        file: PathBuf,
        /// What does not fit.
        message: String,
    },
}
