//! Plain text.

use std::io::BufRead;

use serde_json::{Map, json};
use upliftmem_core::Memory;

use super::{ImportItem, ImportItems, ImportSource, MintId};
use crate::{
    MemoryStatus, StoreLimits, StoredMemory, Timestamp,
    error::{Error, Result},
    limits::within,
    memory::estimated_tokens,
};

/// A plain text file: every paragraph (lines up to an empty one) is a memory.
pub fn text_file(
    file: &str,
    mut input: impl BufRead + Send + 'static,
    limits: &StoreLimits,
    now: Timestamp,
    mut mint: MintId,
) -> ImportSource {
    let name = file.to_owned();
    let most = limits.text_bytes_max;
    let mut line = 0;
    let mut next = move || -> Result<Option<(u64, ImportItem)>> {
        let mut paragraph = String::new();
        let mut start = 0;
        loop {
            let mut text = String::new();
            // One byte more than a text may have, so that a file without line ends does not fill the memory.
            let read = std::io::Read::take(&mut input, most as u64 + 1)
                .read_line(&mut text)
                .map_err(|error| Error::File {
                    file: name.clone(),
                    problem: error,
                })?;
            line += 1;
            if !text.trim().is_empty() {
                start = if paragraph.is_empty() { line } else { start };
                paragraph.push_str(&text);
                let bytes = paragraph.trim().len();
                within("text_bytes_max", most, bytes, "bytes of the paragraph").map_err(|error| {
                    Error::Import {
                        file: name.clone(),
                        line: start,
                        field: "text".into(),
                        problem: error.to_string(),
                    }
                })?;
            } else if !paragraph.is_empty() || read == 0 {
                break;
            }
        }
        if paragraph.is_empty() {
            return Ok(None);
        }
        let text = paragraph.trim().to_owned();
        let mut provenance = Map::new();
        provenance.insert("importer".into(), json!("text"));
        provenance.insert("file".into(), json!(name));
        provenance.insert("line".into(), json!(start));
        let stored = StoredMemory {
            memory: Memory {
                id: mint(now),
                tokens: estimated_tokens(&text),
                text,
                source_task: None,
                metadata: Map::new(),
            },
            kind: "note".into(),
            provenance,
            status: MemoryStatus::Active,
            quarantine_reason: None,
            created_at: now,
            updated_at: None,
            expires_at: None,
            superseded_by: None,
            embedding: None,
            extra: Map::new(),
        };
        Ok(Some((start, ImportItem::Memory(Box::new(stored)))))
    };
    let items: ImportItems = Box::new(std::iter::from_fn(move || next().transpose()));
    ImportSource {
        file: file.to_owned(),
        items,
    }
}
