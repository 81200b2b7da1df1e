//! Items of a LangGraph store, as `Item.dict()` writes them.

use std::io::BufRead;

use serde_json::{Map, Value, json};
use upliftmem_core::{Memory, MemoryId};

use super::{
    ImportItem, ImportSource, MintId,
    objects::Objects,
    reader::{Fields, moment},
};
use crate::{MemoryStatus, StoreLimits, StoredMemory, Timestamp, error::Result, memory::estimated_tokens};

/// Items `{namespace, key, value, created_at, updated_at}`: an array, an object with `items`, or one object a line.
///
/// The text is the value's `text`, `content`, `memory` or `data`, else the value as JSON; its other fields become
/// metadata. Namespace and key stay in the provenance; which scope a namespace belongs to is the caller's to know.
pub fn langgraph_items(
    file: &str,
    input: impl BufRead + Send + 'static,
    limits: &StoreLimits,
    now: Timestamp,
    mut mint: MintId,
) -> ImportSource {
    let name = file.to_owned();
    let objects = Objects::new(file, input, &["items"], limits.line_bytes_max);
    let items = objects.map(move |object| {
        let (line, map) = object?;
        let mut stored = memory(Fields::of(&name, line, map), now)?;
        stored.memory.id = mint(stored.created_at);
        Ok((line, ImportItem::Memory(Box::new(stored))))
    });
    ImportSource {
        file: file.to_owned(),
        items: Box::new(items),
    }
}

fn memory(mut fields: Fields<'_>, now: Timestamp) -> Result<StoredMemory> {
    let mut value: Map<String, Value> = fields.required("value")?;
    let named = ["text", "content", "memory", "data"]
        .into_iter()
        .find(|&name| value.get(name).is_some_and(Value::is_string));
    let text = match named.and_then(|name| value.remove(name)) {
        Some(Value::String(text)) => text,
        _ => Value::Object(std::mem::take(&mut value)).to_string(),
    };
    let created_at = moment(&mut fields, "created_at")?.unwrap_or(now);
    let mut provenance = Map::new();
    provenance.insert("importer".into(), json!("langgraph"));
    let namespace: Vec<String> = fields.required("namespace")?;
    provenance.insert("namespace".into(), json!(namespace));
    let key: String = fields.required("key")?;
    provenance.insert("key".into(), json!(key));
    if let Some(updated) = fields.optional::<Value>("updated_at")? {
        provenance.insert("updated_at".into(), updated);
    }
    Ok(StoredMemory {
        memory: Memory {
            id: MemoryId::from_u128(0),
            tokens: estimated_tokens(&text),
            text,
            source_task: None,
            metadata: value,
        },
        kind: "note".into(),
        provenance,
        status: MemoryStatus::Active,
        quarantine_reason: None,
        created_at,
        updated_at: None,
        expires_at: None,
        superseded_by: None,
        embedding: None,
        extra: fields.rest(),
    })
}
