//! What a checkpoint says about itself.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::CheckpointError;
use crate::{
    ScorerVersion,
    embedder::{Generation, hexadecimal},
};

/// The format that is written, and the newest that is read.
const FORMAT_VERSION: u32 = 1;
const FORMAT: &str = "upliftmem-scorer";

/// The scorer that a checkpoint holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckpointKind {
    /// One or more set networks, with their optimisers.
    Network,
    /// The compact Gaussian scorer.
    Compact,
    /// One or more adapters of a language model, with their optimisers.
    Lm,
}

/// The content of `manifest.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Always `upliftmem-scorer`.
    format: String,
    /// Version of the layout.
    format_version: u32,
    /// Hash of this file with this field empty.
    checksum: String,
    /// The kind of scorer.
    pub kind: CheckpointKind,
    /// The version that was published with it.
    pub scorer_version: ScorerVersion,
    /// The embedder whose vectors the scorer reads.
    pub embedder: Option<Generation>,
    /// Hash of the labels it learned from.
    pub data: Option<String>,
    /// Bytes of `model.safetensors`.
    pub model_bytes: u64,
    /// Hash of `model.safetensors`.
    pub model_sha256: String,
    /// Figures of the update that made it.
    pub metrics: Value,
    /// What the kind of scorer needs beside its tensors.
    pub(super) details: Value,
}

impl Manifest {
    pub(super) fn new(
        kind: CheckpointKind,
        scorer_version: ScorerVersion,
        provenance: &super::Provenance,
        model: &[u8],
        details: Value,
    ) -> Self {
        let mut manifest = Self {
            format: FORMAT.to_owned(),
            format_version: FORMAT_VERSION,
            checksum: String::new(),
            kind,
            scorer_version,
            embedder: provenance.embedder.clone(),
            data: provenance.data.clone(),
            model_bytes: model.len() as u64,
            model_sha256: sha256(model),
            metrics: provenance.metrics.clone(),
            details,
        };
        manifest.checksum = sha256(&manifest.bytes());
        manifest
    }

    /// The file's bytes; the same manifest always has the same.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec_pretty(self).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }

    /// Reads a manifest and verifies every byte of it.
    pub(super) fn parse(file: &Path, bytes: &[u8]) -> Result<Self, CheckpointError> {
        let document: Value = serde_json::from_slice(bytes)
            .map_err(|error| CheckpointError::damaged(file, format_args!("is not a manifest: {error}")))?;
        if document.get("format") != Some(&Value::from(FORMAT)) {
            return Err(CheckpointError::damaged(
                file,
                format_args!("is not a checkpoint of a scorer: its format is not {FORMAT:?}"),
            ));
        }
        // The version is looked at before the rest: a newer layout may have any other field.
        let format_version = document.get("format_version").and_then(Value::as_u64);
        if format_version.is_some_and(|version| version > u64::from(FORMAT_VERSION)) {
            return Err(CheckpointError::unfit(
                file,
                format_args!(
                    "has format version {}, this program reads up to {FORMAT_VERSION}; use a newer program",
                    format_version.unwrap_or_default()
                ),
            ));
        }
        let manifest: Self = serde_json::from_value(document)
            .map_err(|error| CheckpointError::damaged(file, format_args!("is not a manifest: {error}")))?;
        let blank = Self {
            checksum: String::new(),
            ..manifest.clone()
        };
        if sha256(&blank.bytes()) != manifest.checksum || manifest.bytes() != bytes {
            return Err(CheckpointError::damaged(
                file,
                "was changed after it was written: its checksum does not match",
            ));
        }
        Ok(manifest)
    }

    /// Verifies the tensors' bytes.
    pub(super) fn check_model(&self, file: &Path, model: &[u8]) -> Result<(), CheckpointError> {
        if model.len() as u64 != self.model_bytes {
            return Err(CheckpointError::damaged(
                file,
                format_args!("has {} bytes instead of {}", model.len(), self.model_bytes),
            ));
        }
        if sha256(model) != self.model_sha256 {
            return Err(CheckpointError::damaged(
                file,
                "was changed after it was written: its hash is not the one in the manifest",
            ));
        }
        Ok(())
    }
}

fn sha256(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}
