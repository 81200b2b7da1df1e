//! What can be wrong with a catalogue, told with file and place.

use std::io;
use std::path::{Path, PathBuf};

/// A catalogue that can not be read.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A file could not be read at all.
    #[error("{}: can not be read: {source}", .file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file is not the JSON that was expected.
    #[error("{}{}: {source}", .file.display(), .line.map(|line| format!(", line {line}")).unwrap_or_default())]
    Json {
        /// The file.
        file: PathBuf,
        /// The line, where a file has one record a line.
        line: Option<usize>,
        /// What is wrong, with its place.
        source: serde_json::Error,
    },
    /// The folder holds no catalogue.
    #[error(
        "{}: no WebShop catalogue here: neither `products.jsonl.gz` with `goals.jsonl.gz`, `prices.json.gz` and \
         `title_nouns.json.gz`, nor the official `items_shuffle.json` with `items_ins_v2.json`",
        .folder.display()
    )]
    NoCatalogue {
        /// The folder.
        folder: PathBuf,
    },
    /// Records do not belong together.
    #[error("{}: {message}", .file.display())]
    Inconsistent {
        /// The file.
        file: PathBuf,
        /// What does not fit.
        message: String,
    },
}

pub(super) fn unreadable(file: &Path) -> impl Fn(io::Error) -> LoadError + '_ {
    move |source| LoadError::Read {
        file: file.to_owned(),
        source,
    }
}

pub(super) fn not_json(file: &Path) -> impl Fn(serde_json::Error) -> LoadError + '_ {
    move |source| {
        // A stream that breaks off comes as an error of the parser.
        if source.is_io() {
            return LoadError::Read {
                file: file.to_owned(),
                source: source.into(),
            };
        }
        LoadError::Json {
            file: file.to_owned(),
            line: None,
            source,
        }
    }
}
