//! Scorers on disk: a directory with `model.safetensors` and `manifest.json`, written whole or not at all.
//!
//! A checkpoint is written beside its place, flushed, and renamed into it. On loading, every byte is verified before
//! anything is built from it: a damaged, foreign or newer checkpoint is one error that names the file or the tensor, and
//! whoever holds the previous version keeps it.

mod compact;
mod error;
mod files;
#[cfg(feature = "lm")]
mod lm;
mod manifest;
#[cfg(feature = "lm")]
mod midway;
mod network;

pub use compact::LoadedCompact;
pub use error::CheckpointError;
#[cfg(feature = "lm")]
pub use lm::LoadedLm;
pub use manifest::{CheckpointKind, Manifest};
#[cfg(feature = "lm")]
pub use midway::LmKeeper;
pub use network::LoadedNetwork;

use std::path::{Path, PathBuf};

use crate::{ScorerVersion, embedder::Generation};

/// What the caller knows of a checkpoint that the scorer does not.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Provenance {
    /// The embedder whose vectors the scorer reads.
    pub embedder: Option<Generation>,
    /// Hash of the labels it learned from.
    pub data: Option<String>,
    /// The report of the update, or any other figures.
    pub metrics: serde_json::Value,
}

/// The directory of a version below `root`.
pub fn checkpoint_directory(root: &Path, version: ScorerVersion) -> PathBuf {
    root.join(format!("version-{:012}", version.0))
}

/// The directories of all versions below `root`, newest first. What is not named like a checkpoint is passed over.
pub fn checkpoints(root: &Path) -> Result<Vec<(ScorerVersion, PathBuf)>, CheckpointError> {
    let entries = match std::fs::read_dir(root) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(CheckpointError::unreadable(root, &error)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry
            .map_err(|error| CheckpointError::unreadable(root, &error))?
            .path();
        let version = path
            .file_name()
            .and_then(|name| name.to_str())
            .and_then(|name| name.strip_prefix("version-"))
            .and_then(|digits| digits.parse().ok());
        if let Some(version) = version {
            found.push((ScorerVersion(version), path));
        }
    }
    found.sort_unstable_by_key(|(version, _)| std::cmp::Reverse(*version));
    Ok(found)
}
