//! The journal: appended to, never changed.

use upliftmem_core::{Observation, Reference, RolloutId};

use super::{Row, Sql, Value, id, scopes, tickets};
use crate::{
    EntryKind, JournalEntry, JournalFilter, Journaled, Scope, StoreLimits, TicketState, Timestamp,
    error::{Error, Result},
    limits::within,
};

/// The entry of a row of sequence, time and text.
pub(crate) fn read(row: &mut Row) -> Result<Journaled> {
    Ok(Journaled {
        sequence: row.unsigned(0)?,
        at: row.time(1)?,
        entry: row.json(2)?,
    })
}

/// Appends an entry and says where it is. The same entry again changes nothing; another of the same name is refused.
pub(crate) fn append(
    sql: &mut dyn Sql,
    scope: &Scope,
    limits: &StoreLimits,
    now: Timestamp,
    entry: &JournalEntry,
) -> Result<u64> {
    let (kind, key) = (entry.kind(), entry.key());
    within(
        "name_bytes_max",
        limits.name_bytes_max,
        key.len(),
        "bytes of the entry's key",
    )?;
    crate::memory::no_nul("entry key", &key)?;
    match entry {
        JournalEntry::Reference(reference) => check_reference(sql, scope, reference)?,
        JournalEntry::Observation(observation) => check_observation(sql, scope, observation)?,
        JournalEntry::Path(path) => executed(sql, scope, path.rollout).map(drop)?,
        JournalEntry::Retrieval(_)
        | JournalEntry::ProbeBatch(_)
        | JournalEntry::ScorerVersion(_)
        | JournalEntry::TrainingEvent(_) => {}
    }
    let text = serde_json::to_string(entry).map_err(|error| Error::Database(error.to_string()))?;
    within(
        "entry_bytes_max",
        limits.entry_bytes_max,
        text.len(),
        format_args!("bytes of {} {key}", kind.as_str()),
    )?;
    // Holds the scope until the transaction ends: places become visible in order, and nobody appends the same.
    let number = scopes::ensure(sql, scope)?.number;
    let lock = format!(
        "SELECT journal FROM scopes WHERE number = $1{}",
        sql.dialect().for_update()
    );
    sql.first(&lock, &[number.into()])?;
    if let Some(stored) = get(sql, scope, kind, &key)? {
        if stored.entry == *entry {
            return Ok(stored.sequence);
        }
        return Err(Error::conflict(
            format_args!("{} {key}", kind.as_str()),
            "the journal has another entry of that name, and entries are never changed; choose a new name",
        ));
    }
    let sequence = sql
        .first(
            "UPDATE scopes SET journal = journal + 1 WHERE number = $1 RETURNING journal",
            &[number.into()],
        )?
        .ok_or_else(|| Error::Database(format!("scope {scope} vanished")))?
        .int(0)?;
    let statement = "INSERT INTO journal (scope, sequence, kind, key, task, at, entry)
         VALUES ($1, $2, $3, $4, $5, $6, $7)";
    let values = [
        number.into(),
        sequence.into(),
        kind.as_str().into(),
        key.into(),
        entry.task().map_or(Value::Null, |task| id(task.as_u128())),
        now.into(),
        text.into(),
    ];
    sql.execute(statement, &values)?;
    u64::try_from(sequence).map_err(|_| Error::Corrupt(format!("journal place {sequence}")))
}

/// What is learned from must have been executed, and its outcome must be durable.
fn executed(sql: &mut dyn Sql, scope: &Scope, rollout: RolloutId) -> Result<upliftmem_core::Rollout> {
    let refuse = |problem: &str| Err(Error::conflict(format_args!("rollout {rollout}"), problem));
    match tickets::ticket(sql, scope, rollout)? {
        Some(ticket) if ticket.state == TicketState::Completed => Ok(ticket.rollout),
        Some(_) => refuse("it has no outcome yet; complete its ticket first"),
        None => refuse("the scope has no such rollout; record its execution first"),
    }
}

fn check_reference(sql: &mut dyn Sql, scope: &Scope, reference: &Reference) -> Result<()> {
    let rollout = executed(sql, scope, reference.id.into())?;
    if !rollout.set.is_empty() || (rollout.task, &rollout.executor) != (reference.task, &reference.executor) {
        return Err(Error::invalid(
            format_args!("reference {}", reference.id),
            "its rollout had memories, or was of another task or executor",
        ));
    }
    Ok(())
}

fn check_observation(sql: &mut dyn Sql, scope: &Scope, observation: &Observation) -> Result<()> {
    let rollout = executed(sql, scope, observation.rollout)?;
    if (rollout.task, &rollout.set, rollout.purpose)
        != (observation.task, &observation.set, observation.purpose)
    {
        return Err(Error::invalid(
            format_args!("observation {}", observation.id),
            "its rollout was of another task, set or purpose",
        ));
    }
    let reference = observation.reference.to_string();
    if get(sql, scope, EntryKind::Reference, &reference)?.is_none() {
        return Err(Error::conflict(
            format_args!("observation {}", observation.id),
            format_args!("its reference {reference} is not in the journal; append that first"),
        ));
    }
    Ok(())
}

/// The entry of a kind and name.
pub(crate) fn get(sql: &mut dyn Sql, scope: &Scope, kind: EntryKind, key: &str) -> Result<Option<Journaled>> {
    let Some(row) = scopes::find(sql, scope)? else {
        return Ok(None);
    };
    let query = "SELECT sequence, at, entry FROM journal WHERE scope = $1 AND kind = $2 AND key = $3";
    sql.first(query, &[row.number.into(), kind.as_str().into(), key.into()])?
        .map(|mut row| read(&mut row))
        .transpose()
}

/// A page of entries in the order in which they were written.
pub(crate) fn list(
    sql: &mut dyn Sql,
    scope: &Scope,
    filter: JournalFilter,
    rows: usize,
) -> Result<Vec<Journaled>> {
    let Some(row) = scopes::find(sql, scope)? else {
        return Ok(Vec::new());
    };
    let after = i64::try_from(filter.after).unwrap_or(i64::MAX);
    let mut values = vec![row.number.into(), after.into()];
    let mut condition = String::new();
    if let Some(kind) = filter.kind {
        values.push(kind.as_str().into());
        condition.push_str(&format!(" AND kind = ${}", values.len()));
    }
    if let Some(task) = filter.task {
        values.push(id(task.as_u128()));
        condition.push_str(&format!(" AND task = ${}", values.len()));
    }
    let query = format!(
        "SELECT sequence, at, entry FROM journal WHERE scope = $1 AND sequence > $2{condition}
         ORDER BY sequence LIMIT {rows}"
    );
    sql.all(&query, &values)?.iter_mut().map(read).collect()
}

/// A page of entries of one kind, the newest first.
pub(crate) fn latest(
    sql: &mut dyn Sql,
    scope: &Scope,
    kind: EntryKind,
    before: Option<u64>,
    rows: usize,
) -> Result<Vec<Journaled>> {
    let Some(row) = scopes::find(sql, scope)? else {
        return Ok(Vec::new());
    };
    let before = before
        .and_then(|place| i64::try_from(place).ok())
        .unwrap_or(i64::MAX);
    let values = [row.number.into(), before.into(), kind.as_str().into()];
    let query = format!(
        "SELECT sequence, at, entry FROM journal WHERE scope = $1 AND sequence < $2 AND kind = $3
         ORDER BY sequence DESC LIMIT {rows}"
    );
    sql.all(&query, &values)?.iter_mut().map(read).collect()
}
