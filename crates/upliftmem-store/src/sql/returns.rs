//! Tickets that come back without having been tried.

use super::{Sql, scopes};
use crate::{Scope, error::Result};

/// Takes back what a worker holds. The attempt keeps its number, so that the old holder is told apart, and the ticket
/// gets one more in its place.
pub(crate) fn take_back(sql: &mut dyn Sql, scope: &Scope, worker: &str) -> Result<u64> {
    let Some(row) = scopes::find(sql, scope)? else {
        return Ok(0);
    };
    sql.execute(
        "UPDATE tickets SET state = 'waiting', worker = NULL, lease_expires_at = NULL,
             attempts_max = attempts_max + 1
         WHERE scope = $1 AND state = 'leased' AND worker = $2",
        &[row.number.into(), worker.into()],
    )
}
