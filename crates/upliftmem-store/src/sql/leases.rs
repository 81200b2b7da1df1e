//! Leases: tickets handed out, kept alive, completed once.

use super::{
    Sql, id, reports, scopes,
    tickets::{TICKET, read_ticket},
};
use crate::{
    Actor, AfterFailure, Completion, ExecutionReport, Lease, LeaseRequest, LeasedTicket, Scope, StoreLimits,
    Ticket, TicketState, Timestamp,
    error::{Error, Result},
};

/// Hands out the oldest tickets that nobody holds.
pub(crate) fn lease(
    sql: &mut dyn Sql,
    scope: &Scope,
    now: Timestamp,
    request: &LeaseRequest,
    executor: Option<&str>,
) -> Result<Vec<LeasedTicket>> {
    let Some(row) = scopes::find(sql, scope)? else {
        return Ok(Vec::new());
    };
    give_back(sql, row.number, now)?;
    let expires_at = now.after(request.duration);
    let mut values = vec![
        row.number.into(),
        request.worker.as_str().into(),
        expires_at.into(),
    ];
    let mut condition = String::new();
    if let Some(purpose) = request.purpose {
        values.push(purpose.name().into());
        condition.push_str(&format!(" AND purpose = ${}", values.len()));
    }
    if let Some(executor) = executor {
        values.push(executor.into());
        condition.push_str(&format!(" AND executor = ${}", values.len()));
    }
    // Materialized: asked again for every row, it would hand out more than it was asked for.
    let statement = format!(
        "WITH next AS MATERIALIZED (SELECT rollout FROM tickets
             WHERE scope = $1 AND state = 'waiting'{condition} ORDER BY rollout LIMIT {}{})
         UPDATE tickets SET state = 'leased', attempts = attempts + 1, worker = $2, lease_expires_at = $3
         WHERE scope = $1 AND rollout IN (SELECT rollout FROM next) RETURNING {TICKET}",
        request.tickets,
        sql.dialect().skip_locked()
    );
    let mut leased = Vec::with_capacity(request.tickets);
    for mut found in sql.all(&statement, &values)? {
        let ticket = read_ticket(&mut found)?;
        leased.push(LeasedTicket {
            lease: Lease {
                rollout: ticket.rollout.id,
                attempt: ticket.attempts,
            },
            rollout: ticket.rollout,
            expires_at,
        });
    }
    // What a statement returns is in no order.
    leased.sort_by_key(|ticket| ticket.lease.rollout);
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
    // Rows that another transaction holds are being completed or kept alive: they are passed over, so that no order
    // is needed to keep two from waiting for each other.
    let statement = format!(
        "UPDATE tickets SET state = CASE WHEN attempts < attempts_max THEN 'waiting' ELSE 'failed' END,
             worker = NULL, lease_expires_at = NULL, last_error = 'the lease of attempt ' || attempts || ' expired'
         WHERE scope = $1 AND rollout IN (SELECT rollout FROM tickets
             WHERE scope = $1 AND state = 'leased' AND lease_expires_at <= $2{})",
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
