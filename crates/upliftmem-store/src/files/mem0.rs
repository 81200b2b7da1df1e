//! What mem0 exports: `get_all` results or an export of its platform.

use std::io::BufRead;

use serde_json::{Map, Value, json};
use upliftmem_core::Memory;

use super::{
    ImportItem, ImportSource, MintId,
    reader::{Fields, moment, objects},
};
use crate::{
    MemoryStatus, Scope, StoreLimits, StoredMemory, Timestamp, error::Result, memory::estimated_tokens,
};

/// Memories of mem0: an array, an object with `results` or `memories`, or one object a line.
///
/// An item of another owner than the scope's is refused: importing would hand it to the wrong tenant. Ids are
/// minted in the order of `created_at`, as ours carry the order of creation; mem0's stay in the provenance.
pub fn mem0_export(
    file: &str,
    input: impl BufRead,
    scope: &Scope,
    limits: &StoreLimits,
    now: Timestamp,
    mut mint: MintId,
) -> Result<ImportSource> {
    let mut items = Vec::new();
    for (line, map) in objects(file, input, &["results", "memories"], limits.line_bytes_max)? {
        items.push((line, memory(Fields::of(file, line, map), scope, now)?));
    }
    items.sort_by_key(|(_, stored)| stored.created_at);
    for (_, stored) in &mut items {
        stored.memory.id = mint(stored.created_at);
    }
    let items = items
        .into_iter()
        .map(|(line, stored)| Ok((line, ImportItem::Memory(Box::new(stored)))));
    Ok(ImportSource {
        file: file.to_owned(),
        items: Box::new(items),
    })
}

fn memory(mut fields: Fields<'_>, scope: &Scope, now: Timestamp) -> Result<StoredMemory> {
    let text = fields
        .any_of::<String>(&["memory", "text", "data"])?
        .ok_or_else(|| fields.refuse("memory", "it is missing"))?;
    let parts = scope.parts();
    let owners = [
        ("user_id", &parts.user_id),
        ("agent_id", &parts.agent_id),
        ("run_id", &parts.run_id),
        ("app_id", &parts.app_id),
    ];
    for (field, part) in owners {
        if let Some(owner) = fields.optional::<String>(field)?
            && Some(&owner) != part.as_ref()
        {
            return Err(fields.refuse(
                field,
                format!("the item belongs to {owner:?}, the scope is {scope}; import it into its own scope"),
            ));
        }
    }
    let created_at = moment(&mut fields, "created_at")?.unwrap_or(now);
    let expires_at = match moment(&mut fields, "expires_at")? {
        None => moment(&mut fields, "expiration_date")?,
        some => some,
    };
    let mut provenance = Map::new();
    provenance.insert("importer".into(), json!("mem0"));
    for field in ["id", "hash", "updated_at"] {
        if let Some(value) = fields.optional::<Value>(field)? {
            provenance.insert(field.into(), value);
        }
    }
    Ok(StoredMemory {
        memory: Memory {
            id: upliftmem_core::MemoryId::from_u128(0),
            tokens: estimated_tokens(&text),
            text,
            source_task: None,
            metadata: fields.optional("metadata")?.unwrap_or_default(),
        },
        kind: "note".into(),
        provenance,
        status: MemoryStatus::Active,
        quarantine_reason: None,
        created_at,
        expires_at,
        superseded_by: None,
        embedding: None,
        extra: fields.rest(),
    })
}
