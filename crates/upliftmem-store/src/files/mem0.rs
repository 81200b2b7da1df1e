//! What mem0 exports: `get_all` results or an export of its platform.

use std::io::BufRead;

use serde_json::{Map, Value, json};
use upliftmem_core::Memory;

use super::{
    ImportItem, ImportSource, MintId,
    objects::Objects,
    reader::{Fields, moment},
};
use crate::{
    MemoryStatus, Scope, StoreLimits, StoredMemory, Timestamp, error::Result, memory::estimated_tokens,
};

/// Memories of mem0: an array, an object with `results` or `memories`, or one object a line.
///
/// Read as it is imported, so that a file may be larger than the memory. An item of another owner than the scope's
/// is refused: importing would hand it to the wrong tenant. Ids are minted for the moment of `created_at`, as ours
/// carry the order of creation; mem0's stay in the provenance.
pub fn mem0_export(
    file: &str,
    input: impl BufRead + Send + 'static,
    scope: &Scope,
    limits: &StoreLimits,
    now: Timestamp,
    mut mint: MintId,
) -> ImportSource {
    let name = file.to_owned();
    let scope = scope.clone();
    let objects = Objects::new(file, input, &["results", "memories"], limits.line_bytes_max);
    let items = objects.map(move |object| {
        let (line, map) = object?;
        let mut stored = memory(Fields::of(&name, line, map), &scope, now)?;
        stored.memory.id = mint(stored.created_at);
        Ok((line, ImportItem::Memory(Box::new(stored))))
    });
    ImportSource {
        file: file.to_owned(),
        items: Box::new(items),
    }
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
        updated_at: None,
        expires_at,
        superseded_by: None,
        embedding: None,
        extra: fields.rest(),
    })
}
