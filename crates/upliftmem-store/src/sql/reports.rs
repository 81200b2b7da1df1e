//! Reports of executions: stored once, never changed. And what was paid.

use upliftmem_core::{Cost, Ledger, Outcome, Performance, Rollout, RolloutId};

use super::{
    Row, Sql, Value, id, scopes,
    tickets::{self, read_rollout},
};
use crate::{
    Completion, ExecutionReport, Scope, StoreLimits, StoredExecution, StoredReport, TicketState, Timestamp,
    error::{Error, Result},
    limits::within,
    ticket::parse_purpose,
};

const REPORT: &str = "rollout, performance, cost, trajectory, diagnostics, attempt, completed_at";

fn read_report(row: &mut Row) -> Result<StoredReport> {
    let corrupt = |error: upliftmem_core::InvalidInput| Error::Corrupt(error.to_string());
    Ok(StoredReport {
        report: ExecutionReport {
            outcome: Outcome {
                rollout: RolloutId::from_u128(row.id(0)?),
                performance: Performance::new(row.real(1)?).map_err(corrupt)?,
                cost: Cost::new(row.real(2)?).map_err(corrupt)?,
            },
            trajectory: row.json(3)?,
            diagnostics: row.json(4)?,
        },
        attempt: row.small(5)?,
        completed_at: row.time(6)?,
    })
}

/// Every completed rollout of scope `$1` with its report.
pub(crate) const EXECUTIONS: &str =
    "SELECT t.rollout, t.task, t.members, t.purpose, t.executor, t.seed, r.rollout,
     r.performance, r.cost, r.trajectory, r.diagnostics, r.attempt, r.completed_at
     FROM reports r JOIN tickets t ON t.scope = r.scope AND t.rollout = r.rollout
     WHERE r.scope = $1 ORDER BY r.rollout";

/// A row of [`EXECUTIONS`].
pub(crate) fn read_execution(row: &mut Row) -> Result<StoredExecution> {
    let rollout = read_rollout(row)?;
    let StoredReport {
        report,
        attempt,
        completed_at,
    } = read_report(&mut Row(row.0.split_off(6)))?;
    Ok(StoredExecution {
        rollout,
        report,
        attempt,
        completed_at,
    })
}

/// Stores an execution that was never handed out.
pub(crate) fn record_own(
    sql: &mut dyn Sql,
    scope: &Scope,
    limits: &StoreLimits,
    now: Timestamp,
    rollout: &Rollout,
    report: &ExecutionReport,
) -> Result<Completion> {
    if rollout.id != report.outcome.rollout {
        return Err(Error::invalid(
            "outcome",
            format_args!(
                "it is of rollout {}, the execution of {}",
                report.outcome.rollout, rollout.id
            ),
        ));
    }
    tickets::insert(sql, scope, limits, rollout, 1, TicketState::Completed, now)?;
    let number = scopes::ensure(sql, scope)?.number;
    record(sql, scope, limits, number, 0, now, report)
}

/// Stores a report of an attempt (0: one that was never handed out).
pub(crate) fn record(
    sql: &mut dyn Sql,
    scope: &Scope,
    limits: &StoreLimits,
    number: i64,
    attempt: u32,
    now: Timestamp,
    report: &ExecutionReport,
) -> Result<Completion> {
    let trajectory = to_json(&report.trajectory)?;
    let diagnostics = to_json(&report.diagnostics)?;
    within(
        "trajectory_bytes_max",
        limits.trajectory_bytes_max,
        trajectory.len() + diagnostics.len(),
        "bytes of trajectory and diagnostics",
    )?;
    let rollout = report.outcome.rollout;
    let statement = format!(
        "INSERT INTO reports (scope, {REPORT}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
         ON CONFLICT (scope, rollout) DO NOTHING"
    );
    let values = [
        number.into(),
        id(rollout.as_u128()),
        report.outcome.performance.get().into(),
        report.outcome.cost.get().into(),
        trajectory.into(),
        diagnostics.into(),
        attempt.into(),
        now.into(),
    ];
    if sql.execute(&statement, &values)? == 1 {
        let statement = "UPDATE tickets SET state = 'completed', worker = NULL, lease_expires_at = NULL
             WHERE scope = $1 AND rollout = $2";
        sql.execute(statement, &[number.into(), id(rollout.as_u128())])?;
        return Ok(Completion::Recorded);
    }
    let stored = self::report(sql, scope, rollout)?
        .ok_or_else(|| Error::Database(format!("the report of rollout {rollout} vanished")))?;
    if stored.attempt == attempt && stored.report == *report {
        return Ok(Completion::AlreadyRecorded);
    }
    Err(Error::conflict(
        format_args!("rollout {rollout}"),
        format_args!(
            "attempt {} completed it; an outcome is never replaced: drop this one",
            stored.attempt
        ),
    ))
}

fn to_json(value: &impl serde::Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|error| Error::Database(error.to_string()))
}

/// The report of a rollout.
pub(crate) fn report(sql: &mut dyn Sql, scope: &Scope, rollout: RolloutId) -> Result<Option<StoredReport>> {
    let Some(row) = scopes::find(sql, scope)? else {
        return Ok(None);
    };
    let query = format!("SELECT {REPORT} FROM reports WHERE scope = $1 AND rollout = $2");
    sql.first(&query, &[row.number.into(), id(rollout.as_u128())])?
        .map(|mut row| read_report(&mut row))
        .transpose()
}

/// A page of reports in creation order of their rollouts.
pub(crate) fn reports(
    sql: &mut dyn Sql,
    scope: &Scope,
    after: Option<RolloutId>,
    rows: usize,
) -> Result<Vec<StoredReport>> {
    let Some(row) = scopes::find(sql, scope)? else {
        return Ok(Vec::new());
    };
    let query = format!(
        "SELECT {REPORT} FROM reports WHERE scope = $1 AND rollout > $2 ORDER BY rollout LIMIT {rows}"
    );
    let values: [Value; 2] = [row.number.into(), id(after.map_or(0, RolloutId::as_u128))];
    sql.all(&query, &values)?.iter_mut().map(read_report).collect()
}

/// Every execution once: the ledger is read from the reports, so it can not disagree with them.
pub(crate) fn ledger(sql: &mut dyn Sql, scope: &Scope) -> Result<Ledger> {
    let mut ledger = Ledger::default();
    let Some(row) = scopes::find(sql, scope)? else {
        return Ok(ledger);
    };
    let query = "SELECT t.rollout, t.purpose, r.cost FROM reports r
         JOIN tickets t ON t.scope = r.scope AND t.rollout = r.rollout WHERE r.scope = $1 ORDER BY t.rollout";
    sql.each(query, &[row.number.into()], &mut |mut row| {
        let rollout = RolloutId::from_u128(row.id(0)?);
        let purpose = parse_purpose(&row.text(1)?)?;
        ledger.enter(rollout, purpose, Cost::new(row.real(2)?)?);
        Ok(())
    })?;
    Ok(ledger)
}
