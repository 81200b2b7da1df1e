//! Quotas: counted in the transaction that uses them, so that no two writers pass the same limit.

use super::{Dialect, Row, Sql, Value, placeholders, scopes};
use crate::{
    Quota, QuotaLimits, Scope, ScopeParts,
    error::{Error, Result},
};

const COLUMNS: &str = "tenant, memories_max, executions_max, requests_per_second, memories, executions";

/// What a transaction adds to what a tenant has used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Used {
    pub(crate) memories: i64,
    pub(crate) executions: i64,
}

fn read(row: &mut Row) -> Result<Quota> {
    let key = row.text(0)?;
    Ok(Quota {
        tenant: ScopeParts::from_key(&key).ok_or_else(|| Error::Corrupt(format!("tenant {key:?}")))?,
        limits: QuotaLimits {
            memories_max: row.optional(1, Row::unsigned)?,
            executions_max: row.optional(2, Row::unsigned)?,
            requests_per_second: row.optional(3, Row::real)?,
        },
        memories: row.unsigned(4)?,
        executions: row.unsigned(5)?,
    })
}

/// The quotas towards which these parts count.
pub(crate) fn over(sql: &mut dyn Sql, parts: &ScopeParts) -> Result<Vec<Quota>> {
    of_tenants(sql, parts, "")
}

fn of_tenants(sql: &mut dyn Sql, parts: &ScopeParts, locked: &str) -> Result<Vec<Quota>> {
    let tenants = parts.tenants();
    // In one order, so that two transactions never wait for each other in a circle.
    let query = format!(
        "SELECT {COLUMNS} FROM quotas WHERE tenant IN ({}) ORDER BY tenant{locked}",
        placeholders(1, tenants.len())
    );
    let tenants: Vec<Value> = tenants.into_iter().map(Into::into).collect();
    sql.all(&query, &tenants)?.iter_mut().map(read).collect()
}

/// Counts what was written in a scope, or refuses it. Comes after the writes: [`set`] relies on that.
pub(crate) fn charge(sql: &mut dyn Sql, scope: &Scope, used: Used) -> Result<()> {
    if used == Used::default() {
        return Ok(());
    }
    let locked = sql.dialect().for_update();
    for quota in of_tenants(sql, scope.parts(), locked)? {
        let refuse = |what, before: u64, added: i64, most: Option<u64>| match most {
            Some(allowed) if added > 0 && before.saturating_add_signed(added) > allowed => {
                Err(Error::Quota {
                    tenant: quota.tenant.to_string(),
                    what,
                    allowed,
                    got: before.saturating_add_signed(added),
                })
            }
            _ => Ok(()),
        };
        let limits = quota.limits;
        refuse("memories", quota.memories, used.memories, limits.memories_max)?;
        refuse(
            "executions",
            quota.executions,
            used.executions,
            limits.executions_max,
        )?;
        let counted =
            |before: u64, added| i64::try_from(before.saturating_add_signed(added)).unwrap_or(i64::MAX);
        let values = [
            quota.tenant.key().into(),
            counted(quota.memories, used.memories).into(),
            counted(quota.executions, used.executions).into(),
        ];
        sql.execute(
            "UPDATE quotas SET memories = $2, executions = $3 WHERE tenant = $1",
            &values,
        )?;
    }
    Ok(())
}

/// Gives a tenant a quota, in place of the one it had, and counts what it has.
pub(crate) fn set(sql: &mut dyn Sql, tenant: &ScopeParts, limits: QuotaLimits) -> Result<Quota> {
    scopes::enter_all(sql)?;
    if sql.dialect() == Dialect::Postgres {
        // Whoever is writing is waited for and counted below; whoever writes next sees the quota.
        sql.script("LOCK TABLE memories, tickets IN SHARE MODE")?;
    }
    let (condition, values) = scopes::within(sql.dialect(), tenant, 1);
    let mut count = |table: &str, which: &str| -> Result<i64> {
        let query = format!(
            "SELECT count(*) FROM {table} t WHERE EXISTS
                 (SELECT 1 FROM scopes s WHERE s.number = t.scope{condition}){which}"
        );
        sql.first(&query, &values)?.map_or(Ok(0), |mut row| row.int(0))
    };
    let memories = count("memories", "")?;
    // What an agent ran by itself was never handed out.
    let executions = count("tickets", " AND NOT (t.state = 'completed' AND t.attempts = 0)")?;
    let statement = format!(
        "INSERT INTO quotas ({COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6)
         ON CONFLICT (tenant) DO UPDATE SET memories_max = excluded.memories_max,
             executions_max = excluded.executions_max, requests_per_second = excluded.requests_per_second,
             memories = excluded.memories, executions = excluded.executions
         RETURNING {COLUMNS}"
    );
    let number = |limit: Option<u64>| limit.map(|limit| i64::try_from(limit).unwrap_or(i64::MAX));
    let values = [
        tenant.key().into(),
        number(limits.memories_max).into(),
        number(limits.executions_max).into(),
        limits.requests_per_second.into(),
        memories.into(),
        executions.into(),
    ];
    let row = sql.first(&statement, &values)?;
    let mut row = row.ok_or_else(|| Error::Database(format!("the quota of {tenant} was not written")))?;
    read(&mut row)
}

/// Takes a tenant's quota away; says whether it had one.
pub(crate) fn remove(sql: &mut dyn Sql, tenant: &ScopeParts) -> Result<bool> {
    let statement = "DELETE FROM quotas WHERE tenant = $1";
    Ok(sql.execute(statement, &[tenant.key().into()])? == 1)
}

/// A page of quotas, by tenant.
pub(crate) fn list(sql: &mut dyn Sql, after: Option<&ScopeParts>, rows: usize) -> Result<Vec<Quota>> {
    let after = after.map_or_else(String::new, ScopeParts::key);
    let query = format!("SELECT {COLUMNS} FROM quotas WHERE tenant > $1 ORDER BY tenant LIMIT {rows}");
    sql.all(&query, &[after.into()])?.iter_mut().map(read).collect()
}
