//! The row behind a scope: its number in the keys of all others, and its counters.

use super::{Dialect, Row, Sql, Value};
use crate::{
    error::{Error, Result},
    scope::{Scope, ScopeParts},
};

/// A scope that exists.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ScopeRow {
    pub(crate) number: i64,
    /// Raised by every change of its memories.
    pub(crate) version: i64,
    /// The generation that is searched.
    pub(crate) generation: Option<i64>,
    /// The generation it is being moved to.
    pub(crate) target: Option<i64>,
    /// Memories that can be found by words, and their words.
    pub(crate) memories: u64,
    pub(crate) words: u64,
}

const COLUMNS: &str = "number, version, generation, target, memories, words";

fn read(row: &mut Row) -> Result<ScopeRow> {
    Ok(ScopeRow {
        number: row.int(0)?,
        version: row.int(1)?,
        generation: row.optional(2, Row::int)?,
        target: row.optional(3, Row::int)?,
        memories: row.unsigned(4)?,
        words: row.unsigned(5)?,
    })
}

/// The scope, if anything was ever written in it. PostgreSQL shows its rows, and no others, from here on.
pub(crate) fn find(sql: &mut dyn Sql, scope: &Scope) -> Result<Option<ScopeRow>> {
    let enter = match sql.dialect() {
        Dialect::Sqlite => "",
        Dialect::Postgres => ", set_config('upliftmem.scope', number::text, true)",
    };
    let query = format!("SELECT {COLUMNS}{enter} FROM scopes WHERE key = $1");
    sql.first(&query, &[scope.key().into()])?
        .map(|mut row| read(&mut row))
        .transpose()
}

/// For the few questions that are about all scopes: PostgreSQL shows the rows of all.
pub(crate) fn enter_all(sql: &mut dyn Sql) -> Result<()> {
    match sql.dialect() {
        Dialect::Sqlite => Ok(()),
        Dialect::Postgres => sql.script("SET LOCAL upliftmem.scope = '*'"),
    }
}

/// The scope, made if it is new.
pub(crate) fn ensure(sql: &mut dyn Sql, scope: &Scope) -> Result<ScopeRow> {
    if let Some(found) = find(sql, scope)? {
        return Ok(found);
    }
    sql.execute(
        "INSERT INTO scopes (key) VALUES ($1) ON CONFLICT (key) DO NOTHING",
        &[scope.key().into()],
    )?;
    find(sql, scope)?.ok_or_else(|| Error::Database(format!("scope {scope} was not written")))
}

/// The scope with a new version, for a change of its memories. Holds the scope until the transaction ends, so
/// that versions become visible in order.
pub(crate) fn change(sql: &mut dyn Sql, scope: &Scope) -> Result<ScopeRow> {
    let number = ensure(sql, scope)?.number;
    let statement = format!("UPDATE scopes SET version = version + 1 WHERE number = $1 RETURNING {COLUMNS}");
    let row = sql.first(&statement, &[number.into()])?;
    let mut row = row.ok_or_else(|| Error::Database(format!("scope {scope} vanished")))?;
    read(&mut row)
}

/// The scope of a key that this program wrote.
pub(crate) fn parsed(key: &str) -> Result<Scope> {
    Scope::from_key(key).ok_or_else(|| Error::Corrupt(format!("scope key {key:?}")))
}

/// The condition that a scope `s` is within a tenant, with its values from `$first` on. Indexes are over the same words.
pub(crate) fn within(dialect: Dialect, tenant: &ScopeParts, first: usize) -> (String, Vec<Value>) {
    let key = match dialect {
        Dialect::Sqlite => "s.key",
        Dialect::Postgres => "s.key::jsonb",
    };
    let (mut condition, mut values) = (String::new(), Vec::new());
    for (place, part) in tenant.places() {
        condition.push_str(&format!(" AND ({key} ->> {place}) = ${}", first + values.len()));
        values.push(part.into());
    }
    (condition, values)
}
