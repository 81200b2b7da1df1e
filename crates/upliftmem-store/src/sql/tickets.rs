//! Tickets: handed out, kept alive, completed once. And what was paid.

use upliftmem_core::{Cost, Ledger, Outcome, Performance, Rollout, RolloutId, TaskId};

use super::{Row, Sql, Value, id, scopes};
use crate::{
    AfterFailure, Completion, ExecutionReport, Lease, LeaseRequest, LeasedTicket, NewTicket, Scope,
    StoreLimits, StoredExecution, StoredReport, Ticket, TicketFilter, TicketState, Timestamp,
    error::{Error, Result},
    limits::within,
    memory::check_name,
    ticket::{parse_purpose, purpose_word},
};

const TICKET: &str = "rollout, task, members, purpose, executor, seed, state, attempts, attempts_max, worker, \
    lease_expires_at, last_error, enqueued_at";
const REPORT: &str = "rollout, performance, cost, trajectory, diagnostics, attempt, completed_at";

fn read_rollout(row: &mut Row) -> Result<Rollout> {
    Ok(Rollout {
        id: RolloutId::from_u128(row.id(0)?),
        task: TaskId::from_u128(row.id(1)?),
        set: row.json(2)?,
        purpose: parse_purpose(&row.text(3)?)?,
        executor: row.text(4)?,
        seed: row.int(5)?.cast_unsigned(),
    })
}

fn read_ticket(row: &mut Row) -> Result<Ticket> {
    Ok(Ticket {
        rollout: read_rollout(row)?,
        state: TicketState::parse(&row.text(6)?)?,
        attempts: row.small(7)?,
        attempts_max: row.small(8)?,
        worker: row.optional(9, Row::text)?,
        lease_expires_at: row.optional(10, Row::time)?,
        last_error: row.optional(11, Row::text)?,
        enqueued_at: row.time(12)?,
    })
}

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

/// Asks for an execution; says whether it is new. The same again changes nothing.
pub(crate) fn enqueue(
    sql: &mut dyn Sql,
    scope: &Scope,
    limits: &StoreLimits,
    now: Timestamp,
    new: &NewTicket,
) -> Result<bool> {
    if new.attempts_max == 0 {
        return Err(Error::invalid(
            "attempts_max",
            "0 attempts would never run; allow at least 1",
        ));
    }
    insert(
        sql,
        scope,
        limits,
        &new.rollout,
        new.attempts_max,
        TicketState::Waiting,
        now,
    )
}

/// Writes a ticket if its rollout is new, checks that it is the same if it is not.
pub(crate) fn insert(
    sql: &mut dyn Sql,
    scope: &Scope,
    limits: &StoreLimits,
    rollout: &Rollout,
    attempts_max: u32,
    state: TicketState,
    now: Timestamp,
) -> Result<bool> {
    check_name("executor", &rollout.executor, limits)?;
    let row = scopes::ensure(sql, scope)?;
    let statement =
        "INSERT INTO tickets (scope, rollout, task, members, purpose, executor, seed, state, attempts,
             attempts_max, enqueued_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 0, $9, $10) ON CONFLICT (scope, rollout) DO NOTHING";
    let members = serde_json::to_string(&rollout.set).map_err(|error| Error::Database(error.to_string()))?;
    let values = [
        row.number.into(),
        id(rollout.id.as_u128()),
        id(rollout.task.as_u128()),
        members.into(),
        purpose_word(rollout.purpose).into(),
        rollout.executor.as_str().into(),
        rollout.seed.cast_signed().into(),
        state.as_str().into(),
        attempts_max.into(),
        now.into(),
    ];
    if sql.execute(statement, &values)? == 1 {
        return Ok(true);
    }
    match ticket(sql, scope, rollout.id)? {
        Some(stored) if stored.rollout == *rollout => Ok(false),
        _ => Err(Error::conflict(
            format_args!("rollout {}", rollout.id),
            "the scope has another rollout of that id; mint a new one",
        )),
    }
}

/// The ticket of a rollout.
pub(crate) fn ticket(sql: &mut dyn Sql, scope: &Scope, rollout: RolloutId) -> Result<Option<Ticket>> {
    let Some(row) = scopes::find(sql, scope)? else {
        return Ok(None);
    };
    let query = format!("SELECT {TICKET} FROM tickets WHERE scope = $1 AND rollout = $2");
    sql.first(&query, &[row.number.into(), id(rollout.as_u128())])?
        .map(|mut row| read_ticket(&mut row))
        .transpose()
}

/// A page of tickets in creation order.
pub(crate) fn list(
    sql: &mut dyn Sql,
    scope: &Scope,
    filter: TicketFilter,
    rows: usize,
) -> Result<Vec<Ticket>> {
    let Some(row) = scopes::find(sql, scope)? else {
        return Ok(Vec::new());
    };
    let mut values = vec![row.number.into(), id(filter.after.map_or(0, RolloutId::as_u128))];
    let mut condition = String::new();
    if let Some(state) = filter.state {
        values.push(state.as_str().into());
        condition.push_str(&format!(" AND state = ${}", values.len()));
    }
    if let Some(purpose) = filter.purpose {
        values.push(purpose_word(purpose).into());
        condition.push_str(&format!(" AND purpose = ${}", values.len()));
    }
    let query = format!(
        "SELECT {TICKET} FROM tickets WHERE scope = $1 AND rollout > $2{condition} ORDER BY rollout LIMIT {rows}"
    );
    sql.all(&query, &values)?.iter_mut().map(read_ticket).collect()
}

/// Hands out the oldest tickets that nobody holds.
pub(crate) fn lease(
    sql: &mut dyn Sql,
    scope: &Scope,
    now: Timestamp,
    request: &LeaseRequest,
) -> Result<Vec<LeasedTicket>> {
    let Some(row) = scopes::find(sql, scope)? else {
        return Ok(Vec::new());
    };
    give_back(sql, row.number, now)?;
    let mut values = vec![row.number.into()];
    let mut condition = String::new();
    if let Some(purpose) = request.purpose {
        values.push(purpose_word(purpose).into());
        condition.push_str(" AND purpose = $2");
    }
    let query = format!(
        "SELECT {TICKET} FROM tickets WHERE scope = $1 AND state = 'waiting'{condition}
         ORDER BY rollout LIMIT {}{}",
        request.tickets,
        sql.dialect().skip_locked()
    );
    let waiting = sql.all(&query, &values)?;
    let expires_at = now.after(request.duration);
    let statement = "UPDATE tickets SET state = 'leased', attempts = $3, worker = $4, lease_expires_at = $5
         WHERE scope = $1 AND rollout = $2";
    let mut leased = Vec::with_capacity(waiting.len());
    for mut found in waiting {
        let ticket = read_ticket(&mut found)?;
        let attempt = ticket.attempts + 1;
        let values = [
            row.number.into(),
            id(ticket.rollout.id.as_u128()),
            attempt.into(),
            request.worker.as_str().into(),
            expires_at.into(),
        ];
        sql.execute(statement, &values)?;
        leased.push(LeasedTicket {
            lease: Lease {
                rollout: ticket.rollout.id,
                attempt,
            },
            rollout: ticket.rollout,
            expires_at,
        });
    }
    Ok(leased)
}

/// Takes back every lease whose time is over; says how many.
pub(crate) fn expire(sql: &mut dyn Sql, scope: &Scope, now: Timestamp) -> Result<u64> {
    match scopes::find(sql, scope)? {
        Some(row) => give_back(sql, row.number, now),
        None => Ok(0),
    }
}

fn give_back(sql: &mut dyn Sql, scope: i64, now: Timestamp) -> Result<u64> {
    // Rows that another transaction holds are being completed or kept alive: they are passed over.
    let statement = format!(
        "UPDATE tickets SET state = CASE WHEN attempts < attempts_max THEN 'waiting' ELSE 'failed' END,
             worker = NULL, lease_expires_at = NULL, last_error = 'the lease of attempt ' || attempts || ' expired'
         WHERE scope = $1 AND rollout IN (SELECT rollout FROM tickets
             WHERE scope = $1 AND state = 'leased' AND lease_expires_at <= $2 ORDER BY rollout{})",
        sql.dialect().skip_locked()
    );
    sql.execute(&statement, &[scope.into(), now.into()])
}

/// The ticket of a lease, locked; the lease must have been handed out.
fn held(sql: &mut dyn Sql, scope: &Scope, lease: Lease) -> Result<(i64, Ticket)> {
    let missing = || Error::NotFound {
        kind: "rollout",
        id: lease.rollout.to_string(),
        scope: scope.to_string(),
    };
    let row = scopes::find(sql, scope)?.ok_or_else(missing)?;
    let query = format!(
        "SELECT {TICKET} FROM tickets WHERE scope = $1 AND rollout = $2{}",
        sql.dialect().for_update()
    );
    let mut found = sql
        .first(&query, &[row.number.into(), id(lease.rollout.as_u128())])?
        .ok_or_else(missing)?;
    let ticket = read_ticket(&mut found)?;
    if lease.attempt == 0 || lease.attempt > ticket.attempts {
        return Err(Error::invalid(
            format_args!("lease of rollout {}", lease.rollout),
            format_args!("attempt {} was never handed out; lease it first", lease.attempt),
        ));
    }
    Ok((row.number, ticket))
}

fn lost(lease: Lease, ticket: &Ticket) -> Error {
    Error::conflict(
        format_args!("lease of rollout {}, attempt {}", lease.rollout, lease.attempt),
        format_args!(
            "it is over: the ticket is {} after {} attempts; drop the work, or complete it if it is done",
            ticket.state.as_str(),
            ticket.attempts
        ),
    )
}

/// Extends a lease that is still its holder's.
pub(crate) fn heartbeat(sql: &mut dyn Sql, scope: &Scope, lease: Lease, until: Timestamp) -> Result<()> {
    let (number, ticket) = held(sql, scope, lease)?;
    if ticket.state != TicketState::Leased || ticket.attempts != lease.attempt {
        return Err(lost(lease, &ticket));
    }
    let statement = "UPDATE tickets SET lease_expires_at = $3 WHERE scope = $1 AND rollout = $2";
    sql.execute(
        statement,
        &[number.into(), id(lease.rollout.as_u128()), until.into()],
    )?;
    Ok(())
}

/// Records a failed attempt.
pub(crate) fn fail(sql: &mut dyn Sql, scope: &Scope, lease: Lease, reason: &str) -> Result<AfterFailure> {
    let (number, ticket) = held(sql, scope, lease)?;
    let after = if ticket.attempts < ticket.attempts_max {
        AfterFailure::WillRetry
    } else {
        AfterFailure::GivenUp
    };
    if ticket.attempts != lease.attempt || ticket.state == TicketState::Completed {
        return Err(lost(lease, &ticket));
    }
    if ticket.state != TicketState::Leased {
        return Ok(after);
    }
    let state = match after {
        AfterFailure::WillRetry => TicketState::Waiting,
        AfterFailure::GivenUp => TicketState::Failed,
    };
    let statement = "UPDATE tickets SET state = $3, worker = NULL, lease_expires_at = NULL, last_error = $4
         WHERE scope = $1 AND rollout = $2";
    let reason: String = reason.chars().filter(|&c| c != '\0').take(4_096).collect();
    let values = [
        number.into(),
        id(lease.rollout.as_u128()),
        state.as_str().into(),
        reason.into(),
    ];
    sql.execute(statement, &values)?;
    Ok(after)
}

/// Stores a report and completes its ticket, once.
///
/// The first report wins, whoever's the lease is by then: what was paid for is not thrown away.
pub(crate) fn complete(
    sql: &mut dyn Sql,
    scope: &Scope,
    limits: &StoreLimits,
    now: Timestamp,
    lease: Lease,
    report: &ExecutionReport,
) -> Result<Completion> {
    if report.outcome.rollout != lease.rollout {
        return Err(Error::invalid(
            "outcome",
            format_args!(
                "it is of rollout {}, the lease of {}",
                report.outcome.rollout, lease.rollout
            ),
        ));
    }
    let (number, _) = held(sql, scope, lease)?;
    record(sql, scope, limits, number, lease.attempt, now, report)
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
