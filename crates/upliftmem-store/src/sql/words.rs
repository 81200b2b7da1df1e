//! Which words a scope's memories have: written with the memory, read by recall.

use std::collections::BTreeMap;

use upliftmem_core::MemoryId;

use super::{Dialect, Row, Sql};
use crate::{
    error::Result,
    index::{FreshWords, ScopeIndexes, WordRow},
    lexical::{self, Collection, Posting},
    postgres,
    sql::scopes::ScopeRow,
    time::Timestamp,
};

/// What a transaction adds to the counts of words, written once at its end.
#[derive(Debug, Default)]
pub(crate) struct WordCounts {
    memories: BTreeMap<String, i64>,
    documents: i64,
    words: i64,
}

/// Enters a memory's words. SQLite's are read from the texts by the in-process index.
pub(crate) fn index(
    sql: &mut dyn Sql,
    scope: i64,
    number: i64,
    words: &BTreeMap<String, u32>,
    counts: &mut WordCounts,
) -> Result<()> {
    counts.add(words, 1);
    if sql.dialect() == Dialect::Postgres {
        let statement = "UPDATE memories SET lexemes = $2::text::tsvector WHERE number = $1";
        sql.execute(statement, &[number.into(), lexemes(scope, words).into()])?;
    }
    Ok(())
}

/// The words as PostgreSQL takes them: each with as many places as it occurs.
pub(crate) fn lexemes(scope: i64, words: &BTreeMap<String, u32>) -> String {
    let spelled = words.iter().map(|(word, &count)| {
        let positions: Vec<String> = (1..=count).map(|position| position.to_string()).collect();
        format!("'{scope}_{word}':{}", positions.join(","))
    });
    spelled.collect::<Vec<_>>().join(" ")
}

/// Removes a memory's words.
pub(crate) fn unindex(sql: &mut dyn Sql, number: i64, text: &str, counts: &mut WordCounts) -> Result<()> {
    counts.add(&lexical::words(text), -1);
    if sql.dialect() == Dialect::Postgres {
        let statement = "UPDATE memories SET lexemes = NULL WHERE number = $1";
        sql.execute(statement, &[number.into()])?;
    }
    Ok(())
}

impl WordCounts {
    pub(crate) fn add(&mut self, words: &BTreeMap<String, u32>, sign: i64) {
        for word in words.keys() {
            match self.memories.get_mut(word) {
                Some(count) => *count += sign,
                None => drop(self.memories.insert(word.clone(), sign)),
            }
        }
        self.documents += sign;
        self.words += sign * i64::try_from(lexical::length(words)).unwrap_or(i64::MAX);
    }

    /// Writes the counts. Words in order, so that two transactions never wait for each other in a circle.
    pub(crate) fn write(self, sql: &mut dyn Sql, scope: i64) -> Result<()> {
        let changed: Vec<(String, i64)> = self
            .memories
            .into_iter()
            .filter(|(_, count)| *count != 0)
            .collect();
        let same = "ON CONFLICT (scope, word) DO UPDATE SET memories = lexicon.memories + excluded.memories";
        match sql.dialect() {
            Dialect::Sqlite => {
                let upsert =
                    format!("INSERT INTO lexicon (scope, word, memories) VALUES ($1, $2, $3) {same}");
                for (word, count) in changed {
                    sql.execute(&upsert, &[scope.into(), word.into(), count.into()])?;
                }
            }
            // A statement is a round trip there. Words have no blanks.
            Dialect::Postgres => {
                let upsert = format!(
                    "INSERT INTO lexicon (scope, word, memories) SELECT $1, word, count
                     FROM unnest(string_to_array($2::text, ' '), string_to_array($3::text, ' ')::bigint[])
                         AS changed (word, count) ORDER BY word {same}"
                );
                let words: Vec<&str> = changed.iter().map(|(word, _)| word.as_str()).collect();
                let counts: Vec<String> = changed.iter().map(|(_, count)| count.to_string()).collect();
                let values = [scope.into(), words.join(" ").into(), counts.join(" ").into()];
                sql.execute(&upsert, &values)?;
            }
        }
        let statement = "UPDATE scopes SET memories = memories + $2, words = words + $3 WHERE number = $1";
        sql.execute(
            statement,
            &[scope.into(), self.documents.into(), self.words.into()],
        )?;
        Ok(())
    }
}

/// A question of words: what is known of them, and where they are looked up.
#[derive(Debug)]
pub(crate) enum WordSearch {
    /// In the process, which takes no database.
    Indexed {
        index: FreshWords,
        words: Vec<(String, u64)>,
        collection: Collection,
    },
    /// Answered by the database.
    Found(Vec<(MemoryId, u32, f64)>),
}

impl WordSearch {
    /// The best `n` memories by BM25.
    pub(crate) fn best(self, now: Timestamp, n: usize) -> Vec<(MemoryId, u32, f64)> {
        match self {
            Self::Indexed {
                index,
                words,
                collection,
            } => index.best(&words, collection, n, now),
            Self::Found(found) => found,
        }
    }
}

/// Prepares the search for the best `n` memories by BM25. Status and expiry are applied before the cut.
pub(crate) fn search(
    sql: &mut dyn Sql,
    indexes: Option<&ScopeIndexes>,
    scope: &ScopeRow,
    text: &str,
    now: Timestamp,
    n: usize,
) -> Result<WordSearch> {
    let words = lexical::query_words(text);
    if words.is_empty() {
        return Ok(WordSearch::Found(Vec::new()));
    }
    // One statement whatever the number of words, so that it is prepared once.
    let (query, list) = match sql.dialect() {
        Dialect::Sqlite => (
            "SELECT word, memories FROM lexicon WHERE scope = $1 AND word IN (SELECT value FROM json_each($2))",
            serde_json::json!(words).to_string(),
        ),
        Dialect::Postgres => (
            "SELECT word, memories FROM lexicon WHERE scope = $1 AND word = ANY (string_to_array($2::text, ' '))",
            words.join(" "),
        ),
    };
    let mut known = Vec::new();
    sql.each(query, &[scope.number.into(), list.into()], &mut |mut row| {
        known.push((row.text(0)?, row.unsigned(1)?));
        Ok(())
    })?;
    let collection = Collection {
        memories: scope.memories,
        words: scope.words,
    };
    if let Some(indexes) = indexes {
        known.retain(|&(_, memories)| memories > 0);
        let (number, version) = (scope.number, scope.version);
        let index = indexes.words(number, version, |since, each| changes(sql, number, since, each))?;
        return Ok(WordSearch::Indexed {
            index,
            words: known,
            collection,
        });
    }
    let chosen = lexical::choose(known.clone());
    if chosen.is_empty() {
        return Ok(WordSearch::Found(Vec::new()));
    }
    let postings = postgres_postings(sql, scope.number, &chosen, &known, now)?;
    Ok(WordSearch::Found(lexical::rank(postings, collection, n)))
}

/// Every row of a scope that changed after a version, for the in-process index.
fn changes(sql: &mut dyn Sql, scope: i64, since: i64, each: &mut dyn FnMut(WordRow)) -> Result<()> {
    let query =
        "SELECT number, id, tokens, expires_at, CASE WHEN status = 'active' THEN text END FROM memories
         WHERE scope = $1 AND change > $2 ORDER BY change, number";
    sql.each(query, &[scope.into(), since.into()], &mut |mut row| {
        each(WordRow {
            number: row.int(0)?,
            id: MemoryId::from_u128(row.id(1)?),
            tokens: row.small(2)?,
            expires_at: row.optional(3, Row::time)?,
            text: row.optional(4, Row::text)?,
        });
        Ok(())
    })?;
    let query = "SELECT memory FROM deletions WHERE scope = $1 AND change > $2";
    sql.each(query, &[scope.into(), since.into()], &mut |mut row| {
        each(WordRow {
            number: row.int(0)?,
            id: MemoryId::from_u128(0),
            tokens: 0,
            expires_at: None,
            text: None,
        });
        Ok(())
    })
}

/// The memories that have one of the chosen words, with what they have of all known ones.
fn postgres_postings(
    sql: &mut dyn Sql,
    scope: i64,
    chosen: &[(String, u64)],
    known: &[(String, u64)],
    now: Timestamp,
) -> Result<Vec<Posting>> {
    let spelled = |word: &str| format!("{scope}_{word}");
    let having: BTreeMap<String, u64> = known
        .iter()
        .map(|(word, having)| (spelled(word), *having))
        .collect();
    let terms: Vec<String> = chosen
        .iter()
        .map(|(word, _)| format!("'{}'", spelled(word)))
        .collect();
    // The words stand in a selection of their own, or they are parsed again for every row. Counting them is done here:
    // `unnest` takes tens of microseconds a memory.
    let query = "SELECT id, tokens, words, lexemes FROM memories
         WHERE scope = $1 AND status = 'active' AND (expires_at IS NULL OR expires_at > $2)
           AND lexemes @@ (SELECT $3::text::tsquery)";
    let values = [scope.into(), now.into(), terms.join(" | ").into()];
    let mut postings = Vec::new();
    sql.each(query, &values, &mut |mut row: Row| {
        let mut found = Vec::new();
        postgres::lexemes(&row.bytes(3)?, &mut |word, count| {
            if let Some(&memories) = having.get(word) {
                found.push((memories, count));
            }
        })?;
        found.sort_unstable();
        postings.push(Posting {
            id: MemoryId::from_u128(row.id(0)?),
            tokens: row.small(1)?,
            length: row.unsigned(2)?,
            found,
        });
        Ok(())
    })?;
    Ok(postings)
}
