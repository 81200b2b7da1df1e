//! Vectors and their generations, and the move from one generation to the next.

use upliftmem_core::MemoryId;

use super::{
    Row, Sql, Value, id,
    scopes::{self, ScopeRow},
};
use crate::{
    EmbedderGeneration, Embedding, ReembedProgress, Scope,
    embedding::{from_bytes, to_bytes, unit},
    error::{Error, Result},
};

/// Columns of [`read`].
pub(crate) const COLUMNS: &str = "g.name, g.dimension, g.digest, e.vector";

/// The embedding whose columns start at `at`.
pub(crate) fn read(row: &mut Row, at: usize) -> Result<Option<Embedding>> {
    let Some(name) = row.optional(at, Row::text)? else {
        return Ok(None);
    };
    let generation = EmbedderGeneration {
        name,
        dimension: row.small(at + 1)?,
        digest: row.text(at + 2)?,
    };
    Embedding::new(generation, vector(row, at + 3)?).map(Some)
}

/// The numbers of a vector's column.
pub(crate) fn vector(row: &mut Row, column: usize) -> Result<Vec<f32>> {
    from_bytes(&row.bytes(column)?)
}

/// A vector as a value of a statement.
pub(crate) fn value(vector: &[f32]) -> Value {
    to_bytes(vector).into()
}

/// Stores a memory's vector.
pub(crate) fn put(sql: &mut dyn Sql, scope: i64, memory: i64, generation: i64, vector: &[f32]) -> Result<()> {
    let statement =
        "INSERT INTO embeddings (scope, memory, generation, dimension, vector) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (scope, memory, generation) DO UPDATE SET vector = excluded.vector";
    let dimension = i64::try_from(vector.len()).unwrap_or(i64::MAX);
    sql.execute(
        statement,
        &[
            scope.into(),
            memory.into(),
            generation.into(),
            dimension.into(),
            value(vector),
        ],
    )?;
    Ok(())
}

/// The number of a generation that new memories may have: the one that is searched, or the one that the scope is
/// being moved to. The first embedding of a scope decides the former.
pub(crate) fn resolve(sql: &mut dyn Sql, row: &mut ScopeRow, given: &EmbedderGeneration) -> Result<i64> {
    let Some(active) = row.generation else {
        let number = number(sql, row.number, given)?;
        sql.execute(
            "UPDATE scopes SET generation = $2 WHERE number = $1",
            &[row.number.into(), number.into()],
        )?;
        row.generation = Some(number);
        return Ok(number);
    };
    let stored = generation(sql, row.number, active)?;
    if stored == *given {
        return Ok(active);
    }
    if let Some(target) = row.target
        && generation(sql, row.number, target)? == *given
    {
        return Ok(target);
    }
    Err(Error::Generation {
        stored,
        given: given.clone(),
    })
}

/// The generation of a number.
pub(crate) fn generation(sql: &mut dyn Sql, scope: i64, number: i64) -> Result<EmbedderGeneration> {
    let query = "SELECT name, dimension, digest FROM generations WHERE scope = $1 AND number = $2";
    let mut row = sql
        .first(query, &[scope.into(), number.into()])?
        .ok_or_else(|| Error::Corrupt(format!("generation {number} is missing")))?;
    Ok(EmbedderGeneration {
        name: row.text(0)?,
        dimension: row.small(1)?,
        digest: row.text(2)?,
    })
}

/// The number of a generation, given one if it is new.
fn number(sql: &mut dyn Sql, scope: i64, given: &EmbedderGeneration) -> Result<i64> {
    let key = [
        scope.into(),
        given.name.as_str().into(),
        given.dimension.into(),
        given.digest.as_str().into(),
    ];
    let query =
        "SELECT number FROM generations WHERE scope = $1 AND name = $2 AND dimension = $3 AND digest = $4";
    if let Some(mut row) = sql.first(query, &key)? {
        return row.int(0);
    }
    let statement = "INSERT INTO generations (scope, number, name, dimension, digest)
         SELECT CAST($1 AS BIGINT), coalesce(max(number), 0) + 1, CAST($2 AS TEXT), CAST($3 AS BIGINT), CAST($4 AS TEXT)
         FROM generations WHERE scope = CAST($1 AS BIGINT) RETURNING number";
    let mut row = sql
        .first(statement, &key)?
        .ok_or_else(|| Error::Database("an insertion returned no row".into()))?;
    row.int(0)
}

/// The generation that the scope searches, and the one it is being moved to.
pub(crate) fn generations(
    sql: &mut dyn Sql,
    scope: &Scope,
) -> Result<(Option<EmbedderGeneration>, Option<EmbedderGeneration>)> {
    let Some(row) = scopes::find(sql, scope)? else {
        return Ok((None, None));
    };
    let mut named = |number: Option<i64>| number.map(|n| generation(sql, row.number, n)).transpose();
    Ok((named(row.generation)?, named(row.target)?))
}

/// Starts or resumes the move to a generation.
pub(crate) fn begin(sql: &mut dyn Sql, scope: &Scope, given: &EmbedderGeneration) -> Result<ReembedProgress> {
    let row = scopes::change(sql, scope)?;
    let number = number(sql, row.number, given)?;
    if let Some(target) = row.target.filter(|&target| target != number) {
        return Err(Error::conflict(
            "reembed",
            format_args!(
                "the scope is being moved to {}; finish or abort that first",
                generation(sql, row.number, target)?
            ),
        ));
    }
    // A scope that already searches the generation may still have memories without a vector.
    sql.execute(
        "UPDATE scopes SET target = $2, generation = coalesce(generation, $2) WHERE number = $1",
        &[row.number.into(), number.into()],
    )?;
    progress(sql, row.number, number)
}

fn progress(sql: &mut dyn Sql, scope: i64, target: i64) -> Result<ReembedProgress> {
    let query = "SELECT (SELECT count(*) FROM memories WHERE scope = $1),
         (SELECT count(*) FROM embeddings WHERE scope = $1 AND generation = $2)";
    let mut row = sql
        .first(query, &[scope.into(), target.into()])?
        .ok_or_else(|| Error::Database("a count returned no row".into()))?;
    Ok(ReembedProgress {
        total: row.unsigned(0)?,
        done: row.unsigned(1)?,
    })
}

fn target(row: &ScopeRow) -> Result<i64> {
    row.target.ok_or_else(|| {
        Error::conflict(
            "reembed",
            "the scope is not being moved to another embedder; begin first",
        )
    })
}

/// Memories that have no vector of the target yet.
pub(crate) fn pending(sql: &mut dyn Sql, scope: &Scope, rows: usize) -> Result<Vec<(MemoryId, String)>> {
    let Some(row) = scopes::find(sql, scope)? else {
        return Ok(Vec::new());
    };
    let query = format!(
        "SELECT m.id, m.text FROM memories m WHERE m.scope = $1 AND NOT EXISTS (SELECT 1 FROM embeddings e
           WHERE e.scope = m.scope AND e.memory = m.number AND e.generation = $2) ORDER BY m.id LIMIT {rows}"
    );
    let values = [row.number.into(), target(&row)?.into()];
    let mut found = Vec::new();
    sql.each(&query, &values, &mut |mut row| {
        found.push((MemoryId::from_u128(row.id(0)?), row.text(1)?));
        Ok(())
    })?;
    Ok(found)
}

/// Stores vectors of the target generation. A memory that is gone is passed over.
pub(crate) fn put_batch(
    sql: &mut dyn Sql,
    scope: &Scope,
    vectors: Vec<(MemoryId, Vec<f32>)>,
) -> Result<ReembedProgress> {
    let row = scopes::change(sql, scope)?;
    let target = target(&row)?;
    let generation = generation(sql, row.number, target)?;
    for (memory, vector) in vectors {
        let vector = unit(&generation, vector)?;
        let query = "SELECT number FROM memories WHERE scope = $1 AND id = $2";
        if let Some(mut found) = sql.first(query, &[row.number.into(), id(memory.as_u128())])? {
            let number = found.int(0)?;
            put(sql, row.number, number, target, &vector)?;
            // When the target is what is searched, the index must see the new vector.
            if row.generation == Some(target) {
                let statement = "UPDATE memories SET change = $2 WHERE number = $1";
                sql.execute(statement, &[number.into(), row.version.into()])?;
            }
        }
    }
    progress(sql, row.number, target)
}

/// Switches to the target if nothing is missing, in the transaction that looked; drops the old vectors.
pub(crate) fn finish(sql: &mut dyn Sql, scope: &Scope) -> Result<ReembedProgress> {
    let row = scopes::change(sql, scope)?;
    let target = target(&row)?;
    let progress = progress(sql, row.number, target)?;
    if progress.done == progress.total {
        let values = [row.number.into(), target.into()];
        sql.execute(
            "UPDATE scopes SET generation = $2, target = NULL WHERE number = $1",
            &values,
        )?;
        sql.execute(
            "DELETE FROM embeddings WHERE scope = $1 AND generation <> $2",
            &values,
        )?;
    }
    Ok(progress)
}

/// Gives the move up; the vectors made for it are dropped unless they are what is searched.
pub(crate) fn abort(sql: &mut dyn Sql, scope: &Scope) -> Result<()> {
    let row = scopes::change(sql, scope)?;
    let target = target(&row)?;
    sql.execute(
        "UPDATE scopes SET target = NULL WHERE number = $1",
        &[row.number.into()],
    )?;
    if row.generation != Some(target) {
        sql.execute(
            "DELETE FROM embeddings WHERE scope = $1 AND generation = $2",
            &[row.number.into(), target.into()],
        )?;
    }
    Ok(())
}
