//! Recall: words and vectors, filtered before the cut, in one snapshot.

use upliftmem_core::MemoryId;

use super::{
    Dialect, Row, Sql, embeddings,
    graphs::Graph,
    scopes::{self, ScopeRow},
    words::{self, WordSearch},
};
use crate::{
    Hit, Recall, RecallMode, RecallQuery, Scope, Timestamp,
    error::{Error, Result},
    index::{FreshVectors, IndexRow, ScopeIndexes, side_by_side},
    lexical,
};

/// Each order is read to this multiple of what is asked for, so that fusion has something to agree about.
const FUSION_DEPTH: usize = 2;
/// The graph knows no ids: so many more are read, and those that are equally near at the cut are taken in order.
const TIES_READ: usize = 16;
/// Up to so many memories both orders are found sooner than a second thread wakes up.
const ALONE_MAX: u64 = 2_000;

/// The best candidates of a scope, and the graph that would have found them sooner.
pub(crate) fn recall(
    sql: &mut dyn Sql,
    indexes: &ScopeIndexes,
    scope: &Scope,
    now: Timestamp,
    query: &RecallQuery,
) -> Result<(Recall, Option<Graph>)> {
    let Some(row) = scopes::find(sql, scope)? else {
        return Ok((Recall::default(), None));
    };
    let n = query.candidates;
    let indexes = indexes.take(row.memories).then_some(indexes);
    let mut graph = match (&query.embedding, indexes) {
        (Some(embedding), None) if query.mode != RecallMode::Lexical => {
            Graph::of(&row, embedding.vector().len())
        }
        _ => None,
    };
    let mut missed = None;
    if let Some(wanted) = graph
        && !wanted.is_ready(sql)?
    {
        missed = graph.take();
    }
    let question = Question {
        row: &row,
        query,
        now,
        graph,
    };
    // Starts over when the scope's vectors went to another generation between being made ready and being searched.
    let hits = loop {
        let found = match query.mode {
            RecallMode::Lexical => Some(question.by_words(sql, indexes, n)?.best_hits(now, n)),
            RecallMode::Dense if query.embedding.is_none() => {
                return Err(Error::invalid(
                    "embedding",
                    "dense recall needs one; give it or use another mode",
                ));
            }
            RecallMode::Dense => question.by_vector(sql, indexes, n)?.nearest(now, n),
            RecallMode::Hybrid => question.by_both(sql, indexes, n)?,
        };
        if let Some(hits) = found {
            break hits;
        }
    };
    Ok((Recall { hits }, missed))
}

/// What is asked, and where.
#[derive(Debug)]
struct Question<'a> {
    row: &'a ScopeRow,
    query: &'a RecallQuery,
    now: Timestamp,
    /// The server's graph over the scope's vectors, if that is to be walked.
    graph: Option<Graph>,
}

/// A question of vectors: in the process, which takes no database, or answered by the database.
#[derive(Debug)]
enum VectorSearch<'a> {
    Indexed(FreshVectors, &'a [f32]),
    Found(Vec<Hit>),
}

impl VectorSearch<'_> {
    fn nearest(self, now: Timestamp, n: usize) -> Option<Vec<Hit>> {
        match self {
            Self::Indexed(vectors, query) => {
                let found = vectors.nearest(query, n, now)?.into_iter();
                Some(
                    found
                        .map(|found| hit(found.id, found.tokens, found.cosine))
                        .collect(),
                )
            }
            Self::Found(hits) => Some(hits),
        }
    }
}

impl WordSearch {
    fn best_hits(self, now: Timestamp, n: usize) -> Vec<Hit> {
        let found = self.best(now, n).into_iter();
        found
            .map(|(id, tokens, score)| Hit {
                id,
                tokens,
                score,
                cosine: None,
                bm25: Some(score),
            })
            .collect()
    }
}

impl<'a> Question<'a> {
    fn by_words(&self, sql: &mut dyn Sql, indexes: Option<&ScopeIndexes>, n: usize) -> Result<WordSearch> {
        words::search(sql, indexes, self.row, &self.query.text, self.now, n)
    }

    fn by_vector(
        &self,
        sql: &mut dyn Sql,
        indexes: Option<&ScopeIndexes>,
        n: usize,
    ) -> Result<VectorSearch<'a>> {
        // A scope without embeddings has nothing to compare with.
        let (Some(active), Some(embedding)) = (self.row.generation, &self.query.embedding) else {
            return Ok(VectorSearch::Found(Vec::new()));
        };
        let (number, vector) = (self.row.number, embedding.vector());
        let stored = embeddings::generation(sql, number, active)?;
        if stored != *embedding.generation() {
            return Err(Error::Generation {
                stored,
                given: embedding.generation().clone(),
            });
        }
        if let Some(indexes) = indexes {
            let version = self.row.version;
            let vectors = indexes.vectors(number, version, active, vector.len(), |since, each| {
                changes(sql, number, active, since, each)
            })?;
            return Ok(VectorSearch::Indexed(vectors, vector));
        }
        if let Some(graph) = self.graph {
            let found = nearest_by_graph(sql, graph, self.row, vector, self.now, n)?;
            if found.len() >= n {
                return Ok(VectorSearch::Found(found));
            }
        }
        // There is no graph, its walk was starved by the filter, or there are no more: only looking at all of them can tell.
        let found = nearest_exactly(sql, self.row, active, vector, self.now, n)?;
        Ok(VectorSearch::Found(found))
    }

    fn by_both(
        &self,
        sql: &mut dyn Sql,
        indexes: Option<&ScopeIndexes>,
        n: usize,
    ) -> Result<Option<Vec<Hit>>> {
        let depth = n * FUSION_DEPTH;
        let vectors = self.by_vector(sql, indexes, depth)?;
        let words = self.by_words(sql, indexes, depth)?;
        let now = self.now;
        let by_vector = || vectors.nearest(now, depth);
        let by_words = move || words.best_hits(now, depth);
        let (lexical, dense) = if self.row.memories > ALONE_MAX {
            side_by_side(by_words, by_vector)
        } else {
            (by_words(), by_vector())
        };
        Ok(dense.map(|dense| lexical::fuse([dense, lexical], n)))
    }
}

fn hit(id: MemoryId, tokens: u32, cosine: f32) -> Hit {
    Hit {
        id,
        tokens,
        score: cosine.into(),
        cosine: Some(cosine),
        bm25: None,
    }
}

/// Every row of a scope that changed after a version, for the in-process index.
pub(crate) fn changes(
    sql: &mut dyn Sql,
    scope: i64,
    generation: i64,
    since: i64,
    each: &mut dyn FnMut(IndexRow),
) -> Result<()> {
    let query = "SELECT m.number, m.id, m.tokens, m.expires_at, e.vector FROM memories m
         LEFT JOIN embeddings e ON e.scope = m.scope AND e.memory = m.number AND e.generation = $2
             AND m.status = 'active'
         WHERE m.scope = $1 AND m.change > $3 ORDER BY m.change, m.number";
    sql.each(
        query,
        &[scope.into(), generation.into(), since.into()],
        &mut |mut row| {
            each(IndexRow {
                number: row.int(0)?,
                id: MemoryId::from_u128(row.id(1)?),
                tokens: row.small(2)?,
                expires_at: row.optional(3, Row::time)?,
                vector: row.optional(4, embeddings::vector)?,
            });
            Ok(())
        },
    )?;
    let query = "SELECT memory FROM deletions WHERE scope = $1 AND change > $2";
    sql.each(query, &[scope.into(), since.into()], &mut |mut row| {
        each(IndexRow {
            number: row.int(0)?,
            id: MemoryId::from_u128(0),
            tokens: 0,
            expires_at: None,
            vector: None,
        });
        Ok(())
    })
}

/// PostgreSQL: pgvector's graph, walked on until enough rows are found that are active now.
fn nearest_by_graph(
    sql: &mut dyn Sql,
    graph: Graph,
    row: &ScopeRow,
    vector: &[f32],
    now: Timestamp,
    n: usize,
) -> Result<Vec<Hit>> {
    sql.script(&format!(
        "SET LOCAL hnsw.iterative_scan = strict_order; SET LOCAL hnsw.ef_search = {};
         SET LOCAL hnsw.max_scan_tuples = 100000; SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off",
        (8 * n).clamp(40, 1_000)
    ))?;
    let Graph {
        scope,
        generation,
        dimension,
    } = graph;
    // The graph's own numbers stand in the text: it is over these rows only, and a value would not say that they are meant.
    // The selection within keeps each row's memory a look-up by number, whatever the statistics say.
    let query = format!(
        "SELECT m.id, m.tokens, e.vector FROM embeddings e CROSS JOIN LATERAL
             (SELECT id, tokens, scope, status, expires_at FROM memories WHERE number = e.memory OFFSET 0) m
         WHERE e.scope = {scope} AND e.generation = {generation} AND m.scope = $1
           AND m.status = 'active' AND (m.expires_at IS NULL OR m.expires_at > $2)
         ORDER BY e.vector::vector({dimension}) <#> $3::vector LIMIT {}",
        n + TIES_READ
    );
    let mut found = ranked(sql, &query, row, vector, now)?;
    sql.script("SET LOCAL enable_seqscan = on; SET LOCAL enable_sort = on")?;
    found.truncate(n);
    Ok(found)
}

/// PostgreSQL: every row of the scope. The sum keeps the planner from the graph index.
fn nearest_exactly(
    sql: &mut dyn Sql,
    row: &ScopeRow,
    generation: i64,
    vector: &[f32],
    now: Timestamp,
    n: usize,
) -> Result<Vec<Hit>> {
    debug_assert_eq!(sql.dialect(), Dialect::Postgres);
    let query = format!(
        "SELECT m.id, m.tokens, e.vector FROM embeddings e JOIN memories m ON m.number = e.memory
         WHERE e.scope = $1 AND e.generation = {generation} AND m.scope = $1
           AND m.status = 'active' AND (m.expires_at IS NULL OR m.expires_at > $2)
         ORDER BY (e.vector <#> $3::vector) + 0, m.id LIMIT {n}"
    );
    // A table that grew since its statistics were taken looks small, and small tables are joined row by row by row.
    sql.script("SET LOCAL enable_nestloop = off")?;
    let found = ranked(sql, &query, row, vector, now)?;
    sql.script("SET LOCAL enable_nestloop = on")?;
    Ok(found)
}

/// Runs a query for (id, tokens, vector) and orders it by the product that every store uses.
fn ranked(
    sql: &mut dyn Sql,
    query: &str,
    row: &ScopeRow,
    vector: &[f32],
    now: Timestamp,
) -> Result<Vec<Hit>> {
    let values = [row.number.into(), now.into(), embeddings::value(vector)];
    let mut hits = Vec::new();
    sql.each(query, &values, &mut |mut row| {
        let stored = embeddings::vector(&mut row, 2)?;
        let cosine = crate::index::dot(vector, &stored);
        hits.push(hit(MemoryId::from_u128(row.id(0)?), row.small(1)?, cosine));
        Ok(())
    })?;
    hits.sort_by(|a: &Hit, b: &Hit| b.score.total_cmp(&a.score).then(a.id.cmp(&b.id)));
    Ok(hits)
}
