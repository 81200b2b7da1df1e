//! Making the graphs of large scopes, one at a time, without stopping anyone.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use super::{Connection, Pool, connection, lock_number};
use crate::{
    error::{Error, Result},
    sql::graphs::Graph,
};

/// The graphs that this process is making, and those that the server refused to it, which it does not ask for again.
#[derive(Debug, Default)]
pub(super) struct GraphBuilder {
    not_asked_for: Arc<Mutex<HashSet<Graph>>>,
}

impl GraphBuilder {
    /// Makes a graph on a thread and a connection of its own.
    pub(super) fn build(&self, pool: Weak<Pool>, graph: Graph) {
        let is_new = self
            .not_asked_for
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(graph);
        if !is_new {
            return;
        }
        let not_asked_for = Arc::clone(&self.not_asked_for);
        let work = move || {
            let Some(pool) = pool.upgrade() else { return };
            // Without it questions take longer. A role that may not make indexes stays with that until the owner makes it.
            if !matches!(make(&pool, graph), Err(Error::Database(_))) {
                not_asked_for
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .remove(&graph);
            }
        };
        drop(
            std::thread::Builder::new()
                .name("upliftmem-graph".into())
                .spawn(work),
        );
    }
}

/// Makes the graph unless another process is making one: a later question then asks again.
fn make(pool: &Pool, graph: Graph) -> Result<()> {
    let Connection { mut client, .. } = pool.connect()?;
    // Asked for, never waited for: making an index waits for every older statement, that of a waiter too.
    let lock = lock_number(&pool.schema, "graphs");
    let row = client
        .query_one("SELECT pg_try_advisory_lock($1)", &[&lock])
        .map_err(connection::error)?;
    if !row.try_get(0).map_err(connection::error)? {
        return Ok(());
    }
    // What is left of a making that was cut off, or of an earlier generation.
    let query = "SELECT c.relname::text FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
         WHERE c.relnamespace = current_schema()::regnamespace AND starts_with(c.relname::text, $1)
           AND (NOT i.indisvalid OR c.relname::text <> $2)";
    let old = client
        .query(query, &[&graph.prefix(), &graph.name()])
        .map_err(connection::error)?;
    for row in old {
        let name: String = row.try_get(0).map_err(connection::error)?;
        let drop = format!("DROP INDEX CONCURRENTLY IF EXISTS {name}");
        client.batch_execute(&drop).map_err(connection::error)?;
    }
    // The usual 64 MiB hold some thirty thousand vectors of 384 numbers; beyond that it is made many times more slowly.
    client
        .batch_execute("SET maintenance_work_mem = '1GB'")
        .map_err(connection::error)?;
    client
        .batch_execute(&graph.statement())
        .map_err(connection::error)
}
