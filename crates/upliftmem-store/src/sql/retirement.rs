//! What happens to memories after they were written: changes beside the text, leaving recall for a while or for good.

use upliftmem_core::MemoryId;

use super::{
    Row, Sql, Value, id,
    quotas::{self, Used},
    scopes::{self, ScopeRow},
    words::{self, WordCounts},
};
use crate::{
    MemoryChange, MemoryStatus, Scope, Timestamp,
    error::{Error, Result},
    lexical,
    memory::json,
};

/// The number, status and text of a memory.
pub(crate) fn status_of(
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
pub(crate) fn retire(
    sql: &mut dyn Sql,
    row: &ScopeRow,
    memory: MemoryId,
    status: MemoryStatus,
    by: Option<MemoryId>,
    now: Timestamp,
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
        "UPDATE memories SET status = $2, superseded_by = coalesce($3, superseded_by), change = $4,
             updated_at = $5 WHERE number = $1";
    let by = by.map_or(Value::Null, |by| id(by.as_u128()));
    sql.execute(
        statement,
        &[
            number.into(),
            status.as_str().into(),
            by,
            row.version.into(),
            now.into(),
        ],
    )?;
    Ok(())
}

/// Changes metadata and expiry. An expired memory whose time is moved is not brought back: a later one may have
/// its text.
pub(crate) fn change(
    sql: &mut dyn Sql,
    scope: &Scope,
    now: Timestamp,
    memory: MemoryId,
    change: &MemoryChange,
) -> Result<()> {
    let row = scopes::change(sql, scope)?;
    let (number, ..) = status_of(sql, &row, memory)?.ok_or_else(|| missing(scope, memory))?;
    if let Some(metadata) = &change.metadata {
        let statement = "UPDATE memories SET metadata = $2, change = $3, updated_at = $4 WHERE number = $1";
        let metadata = json(metadata).into();
        sql.execute(
            statement,
            &[number.into(), metadata, row.version.into(), now.into()],
        )?;
    }
    if let Some(expires_at) = change.expires_at {
        let statement = "UPDATE memories SET expires_at = $2, change = $3, updated_at = $4 WHERE number = $1";
        sql.execute(
            statement,
            &[number.into(), expires_at.into(), row.version.into(), now.into()],
        )?;
    }
    Ok(())
}

/// Keeps a memory from being recalled, or lets it be recalled again.
pub(crate) fn quarantine(
    sql: &mut dyn Sql,
    scope: &Scope,
    now: Timestamp,
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
            words::index(sql, row.number, number, &lexical::words(&text), &mut counts)?;
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
    let statement = "UPDATE memories SET status = $2, quarantine_reason = $3, change = $4, updated_at = $5
         WHERE number = $1";
    sql.execute(
        statement,
        &[
            number.into(),
            status.as_str().into(),
            reason.map(ToOwned::to_owned).into(),
            row.version.into(),
            now.into(),
        ],
    )?;
    counts.write(sql, row.number)
}

/// Marks `old` as replaced by `new`; both must be in the scope.
pub(crate) fn supersede(
    sql: &mut dyn Sql,
    scope: &Scope,
    now: Timestamp,
    old: MemoryId,
    new: MemoryId,
) -> Result<()> {
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
    retire(
        sql,
        &row,
        old,
        MemoryStatus::Superseded,
        Some(new),
        now,
        &mut counts,
    )?;
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
    let used = Used {
        memories: -1,
        ..Used::default()
    };
    quotas::charge(sql, scope, used)?;
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
        retire(sql, &row, memory, MemoryStatus::Expired, None, now, &mut counts)?;
    }
    counts.write(sql, row.number)?;
    Ok(over.len() as u64)
}

fn missing(scope: &Scope, memory: MemoryId) -> Error {
    Error::NotFound {
        kind: "memory",
        id: memory.to_string(),
        scope: scope.to_string(),
    }
}
