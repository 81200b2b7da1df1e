//! PostgreSQL: pgvector's graph over the vectors of one large scope.
//!
//! One graph over all scopes would make every write pay for what small scopes never use, and starve the walk for a scope that
//! has few of its nodes. So a scope that outgrows the process gets an index of its own, made in the background by the first
//! question that misses it.

use super::{Sql, scopes::ScopeRow};
use crate::error::Result;

/// Largest dimension that pgvector's graph takes.
const DIMENSION_MAX: usize = 2_000;

/// The graph over a scope's vectors of one generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Graph {
    pub(crate) scope: i64,
    pub(crate) generation: i64,
    pub(crate) dimension: usize,
}

impl Graph {
    /// The graph that a scope would be searched by; `None` without vectors, or with longer ones than a graph takes.
    pub(crate) fn of(row: &ScopeRow, dimension: usize) -> Option<Self> {
        let generation = row.generation?;
        (dimension <= DIMENSION_MAX).then_some(Self {
            scope: row.number,
            generation,
            dimension,
        })
    }

    /// Whether it can be walked.
    pub(crate) fn is_ready(self, sql: &mut dyn Sql) -> Result<bool> {
        let query = "SELECT 1 FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
             WHERE c.relnamespace = current_schema()::regnamespace AND c.relname::text = $1 AND i.indisvalid";
        Ok(sql.first(query, &[self.name().into()])?.is_some())
    }

    pub(crate) fn name(self) -> String {
        format!("{}{}", self.prefix(), self.generation)
    }

    /// What the names of all graphs of the scope begin with.
    pub(crate) fn prefix(self) -> String {
        format!("embeddings_near_{}_", self.scope)
    }

    /// Makes it without stopping writers; not inside a transaction.
    pub(crate) fn statement(self) -> String {
        let Self {
            scope,
            generation,
            dimension,
        } = self;
        format!(
            "CREATE INDEX CONCURRENTLY IF NOT EXISTS {} ON embeddings
             USING hnsw ((vector::vector({dimension})) vector_ip_ops) WHERE scope = {scope} AND generation = {generation}",
            self.name()
        )
    }
}
