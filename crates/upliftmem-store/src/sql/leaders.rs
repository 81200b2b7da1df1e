//! Tokens of leaders.

use super::{Dialect, Sql, scopes};
use crate::{
    Scope,
    error::{Error, Result},
    leadership::Fence,
};

/// A token above every one before.
pub(crate) fn raise(sql: &mut dyn Sql, scope: &Scope, name: &str) -> Result<u64> {
    let row = scopes::ensure(sql, scope)?;
    let statement = "INSERT INTO leaders (scope, name, token) VALUES ($1, $2, 1)
         ON CONFLICT (scope, name) DO UPDATE SET token = leaders.token + 1 RETURNING token";
    let mut found = sql
        .first(statement, &[row.number.into(), name.into()])?
        .ok_or_else(|| Error::Database("an insertion returned no row".into()))?;
    found.unsigned(0)
}

/// Refuses a write whose leader was followed by another. Held to the end of the transaction: who takes over waits for it.
pub(crate) fn check(sql: &mut dyn Sql, fence: &Fence) -> Result<()> {
    let deposed = |now| Error::Deposed {
        name: fence.name.clone(),
        token: fence.token,
        now,
    };
    let Some(row) = scopes::find(sql, &fence.scope)? else {
        return Err(deposed(0));
    };
    let share = match sql.dialect() {
        Dialect::Sqlite => "",
        Dialect::Postgres => " FOR SHARE",
    };
    let query = format!("SELECT token FROM leaders WHERE scope = $1 AND name = $2{share}");
    let found = sql.first(&query, &[row.number.into(), fence.name.as_str().into()])?;
    let token = found.map(|mut row| row.unsigned(0)).transpose()?.unwrap_or(0);
    if token == fence.token {
        Ok(())
    } else {
        Err(deposed(token))
    }
}
