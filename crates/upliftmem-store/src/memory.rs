//! Memories as a store keeps them: text, whose it is, where it came from, whether it may be recalled.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use unicode_normalization::UnicodeNormalization;
use upliftmem_core::{Memory, MemoryId};

use crate::{
    Embedding, StoreLimits, Timestamp,
    error::{Error, Result},
    limits::within,
};

/// Whether a memory may be recalled. Only `Active` ones are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryStatus {
    /// It may be recalled.
    Active,
    /// Kept for inspection, never recalled.
    Quarantined,
    /// A later memory took its place.
    Superseded,
    /// Its time is over.
    Expired,
}

impl MemoryStatus {
    /// The word that is stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Quarantined => "quarantined",
            Self::Superseded => "superseded",
            Self::Expired => "expired",
        }
    }

    pub(crate) fn parse(word: &str) -> Result<Self> {
        [Self::Active, Self::Quarantined, Self::Superseded, Self::Expired]
            .into_iter()
            .find(|status| status.as_str() == word)
            .ok_or_else(|| Error::Corrupt(format!("memory status {word:?}")))
    }
}

/// One memory with all that is known about it.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredMemory {
    /// Id, text, length, source task and metadata.
    pub memory: Memory,
    /// What sort of experience it is, in its owner's words (`note`, `procedure`, `reflection`, ...).
    pub kind: String,
    /// Where it came from: importer and file, writer and attempt, tool and caller.
    pub provenance: Map<String, Value>,
    /// Whether it may be recalled.
    pub status: MemoryStatus,
    /// Why it is quarantined.
    pub quarantine_reason: Option<String>,
    /// When it was written.
    pub created_at: Timestamp,
    /// When its status or what is noted beside its text was last changed, if ever.
    pub updated_at: Option<Timestamp>,
    /// From when on it is not recalled, if ever.
    pub expires_at: Option<Timestamp>,
    /// The memory that took its place.
    pub superseded_by: Option<MemoryId>,
    /// Its vector in the scope's generation.
    pub embedding: Option<Embedding>,
    /// Fields of an imported line that have no meaning here; they are exported again.
    pub extra: Map<String, Value>,
}

/// A memory to be written.
#[derive(Debug, Clone, PartialEq)]
pub struct NewMemory {
    /// Id, text, length, source task and metadata. The id is minted by the caller.
    pub memory: Memory,
    /// See [`StoredMemory::kind`].
    pub kind: String,
    /// See [`StoredMemory::provenance`].
    pub provenance: Map<String, Value>,
    /// From when on it is not recalled, if ever.
    pub expires_at: Option<Timestamp>,
    /// The memory whose place it takes. That one must exist.
    pub supersedes: Option<MemoryId>,
    /// Its vector.
    pub embedding: Option<Embedding>,
    /// A reason to keep it out of recall.
    pub quarantine: Option<String>,
}

impl NewMemory {
    /// A plain note with this id and text; its length is estimated at four bytes a token.
    pub fn note(id: MemoryId, text: impl Into<String>) -> Self {
        let text = text.into();
        Self {
            memory: Memory {
                id,
                tokens: estimated_tokens(&text),
                text,
                source_task: None,
                metadata: Map::new(),
            },
            kind: "note".into(),
            provenance: Map::new(),
            expires_at: None,
            supersedes: None,
            embedding: None,
            quarantine: None,
        }
    }

    /// The same with a vector.
    #[must_use]
    pub fn with_embedding(mut self, embedding: Embedding) -> Self {
        self.embedding = Some(embedding);
        self
    }
}

/// Tokens of a text whose tokenizer is not known: a quarter of its bytes, rounded up.
pub fn estimated_tokens(text: &str) -> u32 {
    u32::try_from(text.len().div_ceil(4)).unwrap_or(u32::MAX)
}

/// What became of one memory of a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum ItemStatus {
    /// It is durable and may be recalled.
    Stored,
    /// The scope already has this text, under this id. Nothing was written.
    Duplicate {
        /// The memory that has the text.
        of: MemoryId,
    },
    /// It is durable and is not recalled.
    Quarantined {
        /// Why.
        reason: String,
    },
    /// Nothing was written.
    Failed {
        /// Why, and what to do.
        reason: String,
    },
}

/// The status of one memory of a batch, in the order of the batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemResult {
    /// The id that was asked for.
    pub id: MemoryId,
    /// What became of it.
    #[serde(flatten)]
    pub status: ItemStatus,
}

/// What changes beside a memory's text; what is `None` stays as it is.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MemoryChange {
    /// The metadata as it is from now on.
    pub metadata: Option<Map<String, Value>>,
    /// From when on it is not recalled; `Some(None)` is never.
    pub expires_at: Option<Option<Timestamp>>,
}

/// Which memories a listing shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryFilter {
    /// Only those with this status.
    pub status: Option<MemoryStatus>,
    /// Only those after this one, in creation order.
    pub after: Option<MemoryId>,
}

/// Two memories of one scope with the same hash are the same memory.
///
/// The text is normalised first: Unicode NFC, white space at both ends removed, every inner run of white space
/// one blank. Case and punctuation count.
pub(crate) fn text_hash(text: &str) -> Vec<u8> {
    let composed: String = text.nfc().collect();
    let mut hash = Sha256::new();
    for (position, word) in composed.split_whitespace().enumerate() {
        if position > 0 {
            hash.update(b" ");
        }
        hash.update(word.as_bytes());
    }
    hash.finalize().to_vec()
}

/// Whether a character tells a terminal what to do, or turns around or hides what stands beside it.
pub fn misleads(c: char) -> bool {
    let control = c.is_control() && !matches!(c, '\n' | '\r' | '\t');
    let reordering = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let tag = matches!(c, '\u{e0000}'..='\u{e007f}');
    control || reordering || tag
}

/// Text that could mislead a reader or a model about what it says is kept, and not recalled.
pub(crate) fn suspicious(text: &str) -> Option<String> {
    let found = text.chars().find(|&c| misleads(c))?;
    Some(format!(
        "the text has the invisible character U+{:04X}, which can hide what it says",
        u32::from(found)
    ))
}

/// What every memory must satisfy to be stored at all.
pub(crate) fn check(memory: &NewMemory, limits: &StoreLimits) -> Result<()> {
    let text = &memory.memory.text;
    if text.trim().is_empty() {
        return Err(Error::invalid("text", "it is empty"));
    }
    within(
        "text_bytes_max",
        limits.text_bytes_max,
        text.len(),
        "bytes of text",
    )?;
    check_name("kind", &memory.kind, limits)?;
    check_json("metadata", &memory.memory.metadata, limits)?;
    check_json("provenance", &memory.provenance, limits)?;
    if let Some(embedding) = &memory.embedding {
        within(
            "embedding_dimension_max",
            limits.embedding_dimension_max,
            embedding.vector().len(),
            "numbers of the embedding",
        )?;
    }
    no_nul("text", text)
}

/// A name is short, not empty and printable.
pub(crate) fn check_name(what: &str, name: &str, limits: &StoreLimits) -> Result<()> {
    within(
        "name_bytes_max",
        limits.name_bytes_max,
        name.len(),
        format_args!("bytes of {what}"),
    )?;
    if name.is_empty() || name.chars().any(char::is_control) {
        return Err(Error::invalid(what, "it is empty or has control characters"));
    }
    Ok(())
}

/// A JSON object is not larger than metadata may be.
pub(crate) fn check_json(what: &str, map: &Map<String, Value>, limits: &StoreLimits) -> Result<()> {
    let bytes = if map.is_empty() { 0 } else { json(map).len() };
    within(
        "metadata_bytes_max",
        limits.metadata_bytes_max,
        bytes,
        format_args!("bytes of {what}"),
    )
}

/// PostgreSQL has no text with the character zero, so no store has.
pub(crate) fn no_nul(what: &str, text: &str) -> Result<()> {
    if text.contains('\0') {
        return Err(Error::invalid(what, "it has the character U+0000; remove it"));
    }
    Ok(())
}

/// The one spelling of a JSON object.
pub(crate) fn json(map: &Map<String, Value>) -> String {
    Value::Object(map.clone()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_ignores_white_space_and_composition_and_nothing_else() {
        let hash = text_hash("caf\u{e9} au lait");
        assert_eq!(hash, text_hash("  cafe\u{301}\tau \n lait "));
        assert_ne!(hash, text_hash("Caf\u{e9} au lait"));
        assert_ne!(hash, text_hash("caf\u{e9} aulait"));
    }

    #[test]
    fn hidden_characters_are_suspicious_and_ordinary_ones_are_not() {
        for fine in ["a\nb\tc", "naïve 日本語 🎉", "שלום"] {
            assert_eq!(suspicious(fine), None);
        }
        for bad in ["a\u{202e}b", "a\u{7}b", "\u{e0041}"] {
            assert!(suspicious(bad).is_some(), "{bad:?}");
        }
    }
}
