//! Tickets: asked for, read, carried over.

use upliftmem_core::{Cost, Outcome, Performance, Rollout, RolloutId, TaskId};

use super::{
    Row, Sql, Value, id, placeholders,
    quotas::{self, Used},
    scopes::{self, parsed},
};
use crate::{
    NewTicket, Scope, ScopeParts, StoreLimits, StoredTicket, Ticket, TicketFilter, TicketState, Timestamp,
    error::{Error, Result},
    memory::check_name,
    ticket::parse_purpose,
};

pub(crate) const TICKET: &str = "rollout, task, members, purpose, executor, seed, state, attempts, attempts_max, worker, \
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

pub(crate) fn read_ticket(row: &mut Row) -> Result<Ticket> {
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

/// Asks for executions; says how many are new. The same again changes nothing.
pub(crate) fn enqueue(
    sql: &mut dyn Sql,
    scope: &Scope,
    limits: &StoreLimits,
    now: Timestamp,
    batch: &[NewTicket],
) -> Result<u64> {
    // In the order of their ids, so that two batches never wait for each other in a circle.
    let mut ordered: Vec<&NewTicket> = batch.iter().collect();
    ordered.sort_by_key(|ticket| ticket.rollout.id);
    let mut count = 0;
    for new in ordered {
        if new.attempts_max == 0 {
            return Err(Error::invalid(
                "attempts_max",
                "0 attempts would never run; allow at least 1",
            ));
        }
        let (rollout, most) = (&new.rollout, new.attempts_max);
        count += u64::from(insert(
            sql,
            scope,
            limits,
            rollout,
            most,
            TicketState::Waiting,
            now,
        )?);
    }
    let used = Used {
        executions: i64::try_from(count).unwrap_or(i64::MAX),
        ..Used::default()
    };
    quotas::charge(sql, scope, used)?;
    Ok(count)
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
        rollout.purpose.name().into(),
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

/// The tenant's scopes in which tickets can be handed out, at most so many.
///
/// Goes from scope to scope along the index: a look at every ticket that waits would take longer the more there are.
pub(crate) fn waiting_scopes(
    sql: &mut dyn Sql,
    tenant: &ScopeParts,
    now: Timestamp,
    rows: usize,
) -> Result<Vec<Scope>> {
    scopes::enter_all(sql)?;
    let (condition, mut values) = scopes::within(sql.dialect(), tenant, 2);
    values.insert(0, now.into());
    let query = format!(
        "WITH RECURSIVE waiting (scope) AS (
             SELECT min(scope) FROM tickets WHERE state = 'waiting'
             UNION ALL
             SELECT (SELECT min(t.scope) FROM tickets t WHERE t.state = 'waiting' AND t.scope > waiting.scope)
             FROM waiting WHERE waiting.scope IS NOT NULL
         )
         SELECT s.key FROM scopes s JOIN (
             SELECT scope FROM waiting WHERE scope IS NOT NULL
             UNION SELECT scope FROM tickets WHERE state = 'leased' AND lease_expires_at <= $1
         ) t ON t.scope = s.number WHERE TRUE{condition} ORDER BY s.number LIMIT {rows}"
    );
    let rows = sql.all(&query, &values)?;
    rows.into_iter().map(|mut row| parsed(&row.text(0)?)).collect()
}

/// How many tickets of all scopes nobody holds.
pub(crate) fn waiting(sql: &mut dyn Sql) -> Result<u64> {
    scopes::enter_all(sql)?;
    let found = sql.first("SELECT count(*) FROM tickets WHERE state = 'waiting'", &[])?;
    found.map_or(Ok(0), |mut row| row.unsigned(0))
}

/// Those of these tickets that there are, each with its outcome if it has one.
pub(crate) fn settled(
    sql: &mut dyn Sql,
    scope: &Scope,
    rollouts: &[RolloutId],
) -> Result<Vec<(Ticket, Option<Outcome>)>> {
    /// Values of one statement.
    const TOGETHER: usize = 512;
    let Some(row) = scopes::find(sql, scope)? else {
        return Ok(Vec::new());
    };
    let columns = TICKET.split(", ").map(|column| format!("t.{}", column.trim()));
    let columns = columns.collect::<Vec<_>>().join(", ");
    let mut found = Vec::with_capacity(rollouts.len());
    for some in rollouts.chunks(TOGETHER) {
        // Few different numbers of values, so that few statements are prepared; the last is asked for more than once.
        let places = some.len().next_power_of_two();
        let query = format!(
            "SELECT {columns}, r.performance, r.cost FROM tickets t
             LEFT JOIN reports r ON r.scope = t.scope AND r.rollout = t.rollout
             WHERE t.scope = $1 AND t.rollout IN ({})",
            placeholders(2, places)
        );
        let mut values: Vec<Value> = vec![row.number.into()];
        values.extend(some.iter().map(|rollout| id(rollout.as_u128())));
        values.resize(places + 1, values[some.len()].clone());
        for mut row in sql.all(&query, &values)? {
            let ticket = read_ticket(&mut row)?;
            let numbers = row.optional(13, Row::real)?.zip(row.optional(14, Row::real)?);
            let outcome = numbers.map(|(performance, cost)| {
                Ok::<_, Error>(Outcome {
                    rollout: ticket.rollout.id,
                    performance: Performance::new(performance)?,
                    cost: Cost::new(cost)?,
                })
            });
            found.push((ticket, outcome.transpose()?));
        }
    }
    Ok(found)
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
        values.push(purpose.name().into());
        condition.push_str(&format!(" AND purpose = ${}", values.len()));
    }
    let query = format!(
        "SELECT {TICKET} FROM tickets WHERE scope = $1 AND rollout > $2{condition} ORDER BY rollout LIMIT {rows}"
    );
    sql.all(&query, &values)?.iter_mut().map(read_ticket).collect()
}
