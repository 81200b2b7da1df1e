//! Tickets: handed out, kept alive, completed once.

use upliftmem_core::{Rollout, RolloutId, TaskId};

use super::{Row, Sql, id, reports, scopes};
use crate::{
    Actor, AfterFailure, Completion, ExecutionReport, Lease, LeaseRequest, LeasedTicket, NewTicket, Scope,
    StoreLimits, StoredTicket, Ticket, TicketFilter, TicketState, Timestamp,
    error::{Error, Result},
    memory::check_name,
    ticket::{parse_purpose, purpose_word},
};

const TICKET: &str = "rollout, task, members, purpose, executor, seed, state, attempts, attempts_max, worker, \
    lease_expires_at, last_error, enqueued_at";

pub(crate) fn read_rollout(row: &mut Row) -> Result<Rollout> {
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

/// Every ticket of scope `$1` without an outcome.
pub(crate) const OPEN: &str = "SELECT rollout, task, members, purpose, executor, seed, state, attempts, attempts_max, \
    last_error, enqueued_at FROM tickets WHERE scope = $1 AND state <> 'completed' ORDER BY rollout";

/// A row of [`OPEN`]. A lease is between a worker and this store: elsewhere the ticket waits.
pub(crate) fn read_open(row: &mut Row) -> Result<StoredTicket> {
    Ok(StoredTicket {
        rollout: read_rollout(row)?,
        state: match TicketState::parse(&row.text(6)?)? {
            TicketState::Leased => TicketState::Waiting,
            other => other,
        },
        attempts: row.small(7)?,
        attempts_max: row.small(8)?,
        last_error: row.optional(9, Row::text)?,
        enqueued_at: row.time(10)?,
    })
}

/// Writes a ticket of a file; says whether it is new. One that is here already keeps its own state.
pub(crate) fn restore(
    sql: &mut dyn Sql,
    scope: &Scope,
    limits: &StoreLimits,
    stored: &StoredTicket,
) -> Result<bool> {
    let (rollout, most) = (&stored.rollout, stored.attempts_max);
    let new = insert(
        sql,
        scope,
        limits,
        rollout,
        most,
        stored.state,
        stored.enqueued_at,
    )?;
    if new && let Some(row) = scopes::find(sql, scope)? {
        let statement = "UPDATE tickets SET attempts = $3, last_error = $4 WHERE scope = $1 AND rollout = $2";
        let error = stored.last_error.clone().map(|text| text.replace('\0', ""));
        let values = [
            row.number.into(),
            id(rollout.id.as_u128()),
            stored.attempts.into(),
            error.into(),
        ];
        sql.execute(statement, &values)?;
    }
    Ok(new)
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
    reports::record(sql, scope, limits, number, lease.attempt, now, report)
}

/// Completes many tickets in one transaction: what is refused for one of them changes nothing for the others.
pub(crate) fn complete_many(
    sql: &mut dyn Sql,
    scope: &Scope,
    limits: &StoreLimits,
    now: Timestamp,
    batch: &[(Lease, ExecutionReport)],
) -> Result<Vec<Result<Completion>>> {
    // In the order of their ids, so that two batches never wait for each other in a circle.
    let mut order: Vec<usize> = (0..batch.len()).collect();
    order.sort_by_key(|&position| batch[position].0);
    let mut answers = Vec::with_capacity(batch.len());
    for position in order {
        let (lease, report) = &batch[position];
        let answer = complete(sql, scope, limits, now, *lease, report);
        match answer {
            // A refusal comes before the first write; anything else ends the transaction.
            Err(error) if error.actor() != Actor::Caller => return Err(error),
            answer => answers.push((position, answer)),
        }
    }
    answers.sort_by_key(|&(position, _)| position);
    Ok(answers.into_iter().map(|(_, answer)| answer).collect())
}
