//! Tasks.

use serde_json::{Map, Value as Json};
use upliftmem_core::{Task, TaskId};

use super::{Row, Sql, id, scopes};
use crate::{
    Scope, StoreLimits,
    error::{Error, Result},
    limits::within,
    memory::{check_json, check_name, json, no_nul},
};

/// What every task must satisfy.
pub(crate) fn check(task: &Task, limits: &StoreLimits) -> Result<()> {
    check_name("task name", &task.name, limits)?;
    within(
        "text_bytes_max",
        limits.text_bytes_max,
        task.context.len(),
        "bytes of context",
    )?;
    no_nul("context", &task.context)?;
    check_json("metadata", &task.metadata, limits)
}

/// Stores tasks; says how many were new. In one order, so that two batches never wait for each other in a circle.
pub(crate) fn put_all(
    sql: &mut dyn Sql,
    scope: &Scope,
    limits: &StoreLimits,
    mut batch: Vec<Task>,
) -> Result<u64> {
    batch.sort_by_key(|task| task.id);
    let mut new = 0;
    for task in &batch {
        new += u64::from(put(sql, scope, limits, task, &Map::new())?);
    }
    Ok(new)
}

/// Stores a task. The same task again changes nothing; another under the same id is refused.
pub(crate) fn put(
    sql: &mut dyn Sql,
    scope: &Scope,
    limits: &StoreLimits,
    task: &Task,
    extra: &Map<String, Json>,
) -> Result<bool> {
    check(task, limits)?;
    let row = scopes::ensure(sql, scope)?;
    let statement =
        "INSERT INTO tasks (scope, id, name, context, metadata, extra) VALUES ($1, $2, $3, $4, $5, $6)
         ON CONFLICT (scope, id) DO NOTHING";
    let values = [
        row.number.into(),
        id(task.id.as_u128()),
        task.name.as_str().into(),
        task.context.as_str().into(),
        json(&task.metadata).into(),
        json(extra).into(),
    ];
    if sql.execute(statement, &values)? == 1 {
        return Ok(true);
    }
    match get(sql, scope, task.id)? {
        Some(stored) if stored == *task => Ok(false),
        _ => Err(Error::conflict(
            format_args!("task {:?}", task.name),
            "the scope has another task of that name; labels about it would change their meaning: choose a new name",
        )),
    }
}

fn read(row: &mut Row) -> Result<Task> {
    Ok(Task {
        id: TaskId::from_u128(row.id(0)?),
        name: row.text(1)?,
        context: row.text(2)?,
        metadata: row.json(3)?,
    })
}

/// The task, if the scope has it.
pub(crate) fn get(sql: &mut dyn Sql, scope: &Scope, task: TaskId) -> Result<Option<Task>> {
    let Some(row) = scopes::find(sql, scope)? else {
        return Ok(None);
    };
    let query = "SELECT id, name, context, metadata FROM tasks WHERE scope = $1 AND id = $2";
    sql.first(query, &[row.number.into(), id(task.as_u128())])?
        .map(|mut row| read(&mut row))
        .transpose()
}

/// A page of tasks, by id.
pub(crate) fn list(
    sql: &mut dyn Sql,
    scope: &Scope,
    after: Option<TaskId>,
    rows: usize,
) -> Result<Vec<Task>> {
    let Some(row) = scopes::find(sql, scope)? else {
        return Ok(Vec::new());
    };
    let query = format!(
        "SELECT id, name, context, metadata FROM tasks WHERE scope = $1 AND id > $2 ORDER BY id LIMIT {rows}"
    );
    let after = id(after.map_or(0, TaskId::as_u128));
    sql.all(&query, &[row.number.into(), after])?
        .iter_mut()
        .map(read)
        .collect()
}
