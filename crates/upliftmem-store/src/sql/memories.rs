//! Writing, reading and retiring memories.

use upliftmem_core::{Memory, MemoryId, TaskId};

use super::{
    Row, Sql, Value, embeddings, id, placeholders,
    scopes::{self, ScopeRow},
    words::{self, WordCounts},
};
use crate::{
    ItemResult, ItemStatus, MemoryFilter, MemoryStatus, NewMemory, Scope, StoreLimits, StoredMemory,
    Timestamp,
    error::{Error, Result},
    memory::{check, json, suspicious, text_hash},
};

/// Columns of [`read`], followed by those of [`embeddings::SELECTED`].
pub(crate) const SELECTED: &str = "m.id, m.text, m.tokens, m.source_task, m.metadata, m.kind, m.provenance, \
    m.status, m.quarantine_reason, m.created_at, m.expires_at, m.superseded_by, m.extra";

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
        expires_at: row.optional(10, Row::time)?,
        superseded_by: row.optional(11, Row::id)?.map(MemoryId::from_u128),
        extra: row.json(12)?,
        embedding: embeddings::read(row, 13)?,
    })
}

/// A selection of whole memories of scope `$1` under a further condition.
pub(crate) fn select(sql: &dyn Sql, condition: &str) -> String {
    format!(
        "SELECT {SELECTED}, {} FROM memories m JOIN scopes s ON s.number = m.scope
         LEFT JOIN embeddings e ON e.scope = m.scope AND e.memory = m.number AND e.generation = s.generation
         LEFT JOIN generations g ON g.scope = m.scope AND g.number = e.generation
         WHERE m.scope = $1 {condition} ORDER BY m.id",
        embeddings::selected(sql.dialect())
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
        retire(sql, row, of, MemoryStatus::Expired, None, counts)?;
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
    let words = crate::lexical::length(&crate::lexical::words(&memory.text));
    let statement = "INSERT INTO memories (scope, id, text, hash, kind, tokens, source_task, metadata, provenance,
             extra, status, quarantine_reason, created_at, expires_at, superseded_by, change, words)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17) RETURNING number";
    let values = [
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
        i64::try_from(words).unwrap_or(i64::MAX).into(),
    ];
    let number = sql
        .first(statement, &values)?
        .ok_or_else(|| Error::Database("an insertion returned no row".into()))?
        .int(0)?;
    if stored.status == MemoryStatus::Active {
        words::index(sql, row.number, number, &memory.text, counts)?;
    }
    if let (Some(generation), Some(embedding)) = (generation, &stored.embedding) {
        embeddings::put(sql, row.number, number, generation, embedding.vector())?;
    }
    Ok(())
}

fn status_of(
    sql: &mut dyn Sql,
    row: &ScopeRow,
    memory: MemoryId,
) -> Result<Option<(i64, MemoryStatus, String)>> {
    let query = "SELECT number, status, text FROM memories WHERE scope = $1 AND id = $2";
    sql.first(query, &[row.number.into(), id(memory.as_u128())])?
        .map(|mut found| {
            Ok((
                found.int(0)?,
                MemoryStatus::parse(&found.text(1)?)?,
                found.text(2)?,
            ))
        })
        .transpose()
}

/// Takes a memory out of recall, for a reason that stays in its row. One that is out stays as it is.
fn retire(
    sql: &mut dyn Sql,
    row: &ScopeRow,
    memory: MemoryId,
    status: MemoryStatus,
    by: Option<MemoryId>,
    counts: &mut WordCounts,
) -> Result<()> {
    let Some((number, before, text)) = status_of(sql, row, memory)? else {
        return Ok(());
    };
    if matches!(before, MemoryStatus::Superseded | MemoryStatus::Expired) && by.is_none() {
        return Ok(());
    }
    if before == MemoryStatus::Active {
        words::unindex(sql, number, &text, counts)?;
    }
    let statement =
        "UPDATE memories SET status = $2, superseded_by = coalesce($3, superseded_by), change = $4
         WHERE number = $1";
    let by = by.map_or(Value::Null, |by| id(by.as_u128()));
    sql.execute(
        statement,
        &[number.into(), status.as_str().into(), by, row.version.into()],
    )?;
    Ok(())
}

/// Those of the memories that the scope has, in creation order.
pub(crate) fn get(sql: &mut dyn Sql, scope: &Scope, ids: &[MemoryId]) -> Result<Vec<StoredMemory>> {
    let Some(row) = scopes::find(sql, scope)?.filter(|_| !ids.is_empty()) else {
        return Ok(Vec::new());
    };
    let condition = format!("AND m.id IN ({})", placeholders(2, ids.len()));
    let mut values = vec![row.number.into()];
    values.extend(ids.iter().map(|memory| id(memory.as_u128())));
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
    let query = format!("{} LIMIT {rows}", select(sql, &condition));
    let mut found = Vec::new();
    sql.each(&query, &values, &mut |mut row| {
        found.push(read(&mut row)?);
        Ok(())
    })?;
    Ok(found)
}

fn collect(sql: &mut dyn Sql, condition: &str, values: &[Value]) -> Result<Vec<StoredMemory>> {
    let query = select(sql, condition);
    let mut found = Vec::new();
    sql.each(&query, values, &mut |mut row| {
        found.push(read(&mut row)?);
        Ok(())
    })?;
    Ok(found)
}

/// Keeps a memory from being recalled, or lets it be recalled again.
pub(crate) fn quarantine(
    sql: &mut dyn Sql,
    scope: &Scope,
    memory: MemoryId,
    reason: Option<&str>,
) -> Result<()> {
    let row = scopes::change(sql, scope)?;
    let (number, before, text) = status_of(sql, &row, memory)?.ok_or_else(|| missing(scope, memory))?;
    let mut counts = WordCounts::default();
    let status = match (before, reason) {
        (MemoryStatus::Active, Some(_)) => {
            words::unindex(sql, number, &text, &mut counts)?;
            MemoryStatus::Quarantined
        }
        (MemoryStatus::Quarantined, Some(_)) => MemoryStatus::Quarantined,
        (MemoryStatus::Quarantined, None) => {
            words::index(sql, row.number, number, &text, &mut counts)?;
            MemoryStatus::Active
        }
        (MemoryStatus::Active, None) => MemoryStatus::Active,
        (MemoryStatus::Superseded | MemoryStatus::Expired, _) => {
            return Err(Error::conflict(
                format_args!("memory {memory}"),
                format_args!(
                    "it is {}; only active and quarantined memories change places",
                    before.as_str()
                ),
            ));
        }
    };
    let statement = "UPDATE memories SET status = $2, quarantine_reason = $3, change = $4 WHERE number = $1";
    sql.execute(
        statement,
        &[
            number.into(),
            status.as_str().into(),
            reason.map(ToOwned::to_owned).into(),
            row.version.into(),
        ],
    )?;
    counts.write(sql, row.number)
}

/// Marks `old` as replaced by `new`; both must be in the scope.
pub(crate) fn supersede(sql: &mut dyn Sql, scope: &Scope, old: MemoryId, new: MemoryId) -> Result<()> {
    let row = scopes::change(sql, scope)?;
    for memory in [old, new] {
        status_of(sql, &row, memory)?.ok_or_else(|| missing(scope, memory))?;
    }
    if old == new {
        return Err(Error::invalid(
            "supersede",
            format_args!("memory {old} can not replace itself"),
        ));
    }
    let mut counts = WordCounts::default();
    retire(sql, &row, old, MemoryStatus::Superseded, Some(new), &mut counts)?;
    counts.write(sql, row.number)
}

/// Removes a memory for good; says whether it was there. Labels about it stay.
pub(crate) fn delete(sql: &mut dyn Sql, scope: &Scope, memory: MemoryId) -> Result<bool> {
    let Some(row) = scopes::find(sql, scope)? else {
        return Ok(false);
    };
    if status_of(sql, &row, memory)?.is_none() {
        return Ok(false);
    }
    let row = scopes::change(sql, scope)?;
    let Some((number, before, text)) = status_of(sql, &row, memory)? else {
        return Ok(false);
    };
    let mut counts = WordCounts::default();
    if before == MemoryStatus::Active {
        words::unindex(sql, number, &text, &mut counts)?;
    }
    sql.execute("DELETE FROM memories WHERE number = $1", &[number.into()])?;
    sql.execute(
        "INSERT INTO deletions (scope, change, memory) VALUES ($1, $2, $3)",
        &[row.number.into(), row.version.into(), number.into()],
    )?;
    counts.write(sql, row.number)?;
    Ok(true)
}

/// Gives every active memory whose time is over the status `expired`; says how many.
pub(crate) fn expire(sql: &mut dyn Sql, scope: &Scope, now: Timestamp) -> Result<u64> {
    if scopes::find(sql, scope)?.is_none() {
        return Ok(0);
    }
    let row = scopes::change(sql, scope)?;
    let query =
        "SELECT id FROM memories WHERE scope = $1 AND status = 'active' AND expires_at <= $2 ORDER BY id";
    let over = sql.all(query, &[row.number.into(), now.into()])?;
    let mut counts = WordCounts::default();
    for mut found in over.iter().map(|found| Row(found.0.clone())) {
        let memory = MemoryId::from_u128(found.id(0)?);
        retire(sql, &row, memory, MemoryStatus::Expired, None, &mut counts)?;
    }
    counts.write(sql, row.number)?;
    Ok(over.len() as u64)
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

fn missing(scope: &Scope, memory: MemoryId) -> Error {
    Error::NotFound {
        kind: "memory",
        id: memory.to_string(),
        scope: scope.to_string(),
    }
}
