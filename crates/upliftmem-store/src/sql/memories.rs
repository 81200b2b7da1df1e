//! Writing and reading memories.

use upliftmem_core::{Memory, MemoryId, TaskId};

use super::{
    Dialect, Row, Sql, Value, embeddings, id, placeholders,
    quotas::{self, Used},
    retirement::{retire, status_of},
    scopes::{self, ScopeRow},
    words::{self, WordCounts},
};
use crate::{
    ItemResult, ItemStatus, MemoryFilter, MemoryStatus, NewMemory, Scope, StoreLimits, StoredMemory,
    Timestamp,
    error::{Error, Result},
    lexical,
    memory::{check, json, suspicious, text_hash},
};

/// Columns of [`read`], followed by those of [`embeddings::SELECTED`].
pub(crate) const SELECTED: &str = "m.id, m.text, m.tokens, m.source_task, m.metadata, m.kind, m.provenance, \
    m.status, m.quarantine_reason, m.created_at, m.updated_at, m.expires_at, m.superseded_by, \
    m.extra";

/// The memory of a row of [`select`].
pub(crate) fn read(row: &mut Row) -> Result<StoredMemory> {
    Ok(StoredMemory {
        memory: Memory {
            id: MemoryId::from_u128(row.id(0)?),
            text: row.text(1)?,
            tokens: row.small(2)?,
            source_task: row.optional(3, Row::id)?.map(TaskId::from_u128),
            metadata: row.json(4)?,
        },
        kind: row.text(5)?,
        provenance: row.json(6)?,
        status: MemoryStatus::parse(&row.text(7)?)?,
        quarantine_reason: row.optional(8, Row::text)?,
        created_at: row.time(9)?,
        updated_at: row.optional(10, Row::time)?,
        expires_at: row.optional(11, Row::time)?,
        superseded_by: row.optional(12, Row::id)?.map(MemoryId::from_u128),
        extra: row.json(13)?,
        embedding: embeddings::read(row, 14)?,
    })
}

/// A selection of whole memories of scope `$1` under a further condition.
pub(crate) fn select(condition: &str) -> String {
    format!(
        "SELECT {SELECTED}, {} FROM memories m JOIN scopes s ON s.number = m.scope
         LEFT JOIN embeddings e ON e.scope = m.scope AND e.memory = m.number AND e.generation = s.generation
         LEFT JOIN generations g ON g.scope = m.scope AND g.number = e.generation
         WHERE m.scope = $1 {condition} ORDER BY m.id",
        embeddings::COLUMNS
    )
}

/// Writes a batch; one status an item.
pub(crate) fn add(
    sql: &mut dyn Sql,
    scope: &Scope,
    limits: &StoreLimits,
    now: Timestamp,
    batch: Vec<NewMemory>,
) -> Result<Vec<ItemResult>> {
    let mut row = scopes::change(sql, scope)?;
    let mut counts = WordCounts::default();
    let mut results = Vec::with_capacity(batch.len());
    for new in batch {
        let id = new.memory.id;
        let status = match check(&new, limits) {
            Err(error) => ItemStatus::Failed {
                reason: error.to_string(),
            },
            Ok(()) => add_one(sql, scope, &mut row, now, new, &mut counts)?,
        };
        results.push(ItemResult { id, status });
    }
    counts.write(sql, row.number)?;
    let new =
        |result: &&ItemResult| matches!(result.status, ItemStatus::Stored | ItemStatus::Quarantined { .. });
    let memories = i64::try_from(results.iter().filter(new).count()).unwrap_or(i64::MAX);
    let used = Used {
        memories,
        ..Used::default()
    };
    quotas::charge(sql, scope, used)?;
    Ok(results)
}

fn add_one(
    sql: &mut dyn Sql,
    scope: &Scope,
    row: &mut ScopeRow,
    now: Timestamp,
    new: NewMemory,
    counts: &mut WordCounts,
) -> Result<ItemStatus> {
    if let Some(status) = obstacle(sql, scope, row, now, &new, counts)? {
        return Ok(status);
    }
    let reason = new.quarantine.or_else(|| suspicious(&new.memory.text));
    let status = if reason.is_some() {
        MemoryStatus::Quarantined
    } else {
        MemoryStatus::Active
    };
    let supersedes = new.supersedes;
    let stored = StoredMemory {
        memory: new.memory,
        kind: new.kind,
        provenance: new.provenance,
        status,
        quarantine_reason: reason.clone(),
        created_at: now,
        updated_at: None,
        expires_at: new.expires_at,
        superseded_by: None,
        embedding: new.embedding,
        extra: serde_json::Map::new(),
    };
    match insert(sql, row, &stored, counts) {
        Ok(()) => {}
        // What only the embedding can be refused for is this item's failure, not the batch's.
        Err(error @ Error::Generation { .. }) => {
            return Ok(ItemStatus::Failed {
                reason: error.to_string(),
            });
        }
        Err(error) => return Err(error),
    }
    if let Some(old) = supersedes {
        retire(
            sql,
            row,
            old,
            MemoryStatus::Superseded,
            Some(stored.memory.id),
            now,
            counts,
        )?;
    }
    Ok(reason.map_or(ItemStatus::Stored, |reason| ItemStatus::Quarantined { reason }))
}

/// Why a memory is not written, if it is not.
fn obstacle(
    sql: &mut dyn Sql,
    scope: &Scope,
    row: &ScopeRow,
    now: Timestamp,
    new: &NewMemory,
    counts: &mut WordCounts,
) -> Result<Option<ItemStatus>> {
    let same_text = "SELECT id, expires_at FROM memories WHERE scope = $1 AND hash = $2
         AND status IN ('active', 'quarantined')";
    let hash = text_hash(&new.memory.text);
    if let Some(mut found) = sql.first(same_text, &[row.number.into(), hash.into()])? {
        let of = MemoryId::from_u128(found.id(0)?);
        let over = found.optional(1, Row::time)?.is_some_and(|end| end <= now);
        if !over {
            return Ok(Some(ItemStatus::Duplicate { of }));
        }
        retire(sql, row, of, MemoryStatus::Expired, None, now, counts)?;
    }
    let failed = |reason: String| Ok(Some(ItemStatus::Failed { reason }));
    let memory_id = new.memory.id;
    if status_of(sql, row, memory_id)?.is_some() {
        return failed(format!(
            "memory {memory_id} exists with another text; mint a new id"
        ));
    }
    if let Some(old) = new.supersedes
        && status_of(sql, row, old)?.is_none()
    {
        return failed(format!(
            "memory {old}, which it should supersede, is not in scope {scope}"
        ));
    }
    Ok(None)
}

/// Writes a memory that nothing stands against, with its words and its vector.
pub(crate) fn insert(
    sql: &mut dyn Sql,
    row: &mut ScopeRow,
    stored: &StoredMemory,
    counts: &mut WordCounts,
) -> Result<()> {
    let generation = match &stored.embedding {
        None => None,
        Some(embedding) => Some(embeddings::resolve(sql, row, embedding.generation())?),
    };
    let memory = &stored.memory;
    let words = lexical::words(&memory.text);
    // PostgreSQL keeps a memory's words in its row.
    let in_row = sql.dialect() == Dialect::Postgres && stored.status == MemoryStatus::Active;
    let (column, lexemes) = if in_row {
        (", lexemes", ", $19::text::tsvector")
    } else {
        ("", "")
    };
    // SQLite prepares to undo a statement that returns rows, which costs more than asking for the number.
    let returning = match sql.dialect() {
        Dialect::Sqlite => "",
        Dialect::Postgres => " RETURNING number",
    };
    let statement = format!(
        "INSERT INTO memories (scope, id, text, hash, kind, tokens, source_task, metadata, provenance,
             extra, status, quarantine_reason, created_at, expires_at, superseded_by, change, words,
             updated_at{column})
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17,
             $18{lexemes}){returning}"
    );
    let mut values = vec![
        row.number.into(),
        id(memory.id.as_u128()),
        memory.text.as_str().into(),
        text_hash(&memory.text).into(),
        stored.kind.as_str().into(),
        memory.tokens.into(),
        memory.source_task.map_or(Value::Null, |task| id(task.as_u128())),
        json(&memory.metadata).into(),
        json(&stored.provenance).into(),
        json(&stored.extra).into(),
        stored.status.as_str().into(),
        stored.quarantine_reason.clone().into(),
        stored.created_at.into(),
        stored.expires_at.into(),
        stored.superseded_by.map_or(Value::Null, |by| id(by.as_u128())),
        row.version.into(),
        i64::try_from(lexical::length(&words)).unwrap_or(i64::MAX).into(),
        stored.updated_at.into(),
    ];
    if in_row {
        values.push(words::lexemes(row.number, &words).into());
    }
    let inserted = match sql.dialect() {
        Dialect::Sqlite => {
            sql.execute(&statement, &values)?;
            sql.first("SELECT last_insert_rowid()", &[])?
        }
        Dialect::Postgres => sql.first(&statement, &values)?,
    };
    let number = inserted
        .ok_or_else(|| Error::Database("an insertion returned no row".into()))?
        .int(0)?;
    if in_row {
        counts.add(&words, 1);
    } else if stored.status == MemoryStatus::Active {
        words::index(sql, row.number, number, &words, counts)?;
    }
    if let (Some(generation), Some(embedding)) = (generation, &stored.embedding) {
        embeddings::put(sql, row.number, number, generation, embedding.vector())?;
    }
    Ok(())
}

/// Those of the memories that the scope has, in creation order.
pub(crate) fn get(sql: &mut dyn Sql, scope: &Scope, ids: &[MemoryId]) -> Result<Vec<StoredMemory>> {
    let Some(row) = scopes::find(sql, scope)?.filter(|_| !ids.is_empty()) else {
        return Ok(Vec::new());
    };
    // Any number of ids is asked for by one of a few statements, so that they stay prepared: the last id fills the places.
    let places = ids.len().next_power_of_two();
    let condition = format!("AND m.id IN ({})", placeholders(2, places));
    let mut values = vec![row.number.into()];
    let asked = ids.iter().chain(std::iter::repeat(&ids[ids.len() - 1]));
    values.extend(asked.take(places).map(|memory| id(memory.as_u128())));
    collect(sql, &condition, &values)
}

/// A page of memories in creation order.
pub(crate) fn list(
    sql: &mut dyn Sql,
    scope: &Scope,
    filter: MemoryFilter,
    rows: usize,
) -> Result<Vec<StoredMemory>> {
    let Some(row) = scopes::find(sql, scope)? else {
        return Ok(Vec::new());
    };
    let mut values = vec![row.number.into(), id(filter.after.map_or(0, MemoryId::as_u128))];
    // An id of zero bits is never minted, so "after zero" is "all".
    let mut condition = "AND m.id > $2".to_owned();
    if let Some(status) = filter.status {
        values.push(status.as_str().into());
        condition.push_str(" AND m.status = $3");
    }
    let query = format!("{} LIMIT {rows}", select(&condition));
    let mut found = Vec::new();
    sql.each(&query, &values, &mut |mut row| {
        found.push(read(&mut row)?);
        Ok(())
    })?;
    Ok(found)
}

fn collect(sql: &mut dyn Sql, condition: &str, values: &[Value]) -> Result<Vec<StoredMemory>> {
    let query = select(condition);
    let mut found = Vec::new();
    sql.each(&query, values, &mut |mut row| {
        found.push(read(&mut row)?);
        Ok(())
    })?;
    Ok(found)
}

/// The largest memory id of a scope, so that minting goes on after it.
pub(crate) fn last(sql: &mut dyn Sql, scope: &Scope) -> Result<Option<MemoryId>> {
    let Some(row) = scopes::find(sql, scope)? else {
        return Ok(None);
    };
    let query = "SELECT id FROM memories WHERE scope = $1 ORDER BY id DESC LIMIT 1";
    sql.first(query, &[row.number.into()])?
        .map(|mut row| row.id(0).map(MemoryId::from_u128))
        .transpose()
}
