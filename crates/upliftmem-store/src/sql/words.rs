//! Which words a scope's memories have: written with the memory, read by recall.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
};

use upliftmem_core::MemoryId;

use super::{Dialect, Row, Sql};
use crate::{
    error::Result,
    lexical::{self, Collection, Posting},
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

/// Enters a memory's words.
pub(crate) fn index(
    sql: &mut dyn Sql,
    scope: i64,
    number: i64,
    text: &str,
    counts: &mut WordCounts,
) -> Result<()> {
    let words = lexical::words(text);
    counts.add(&words, 1);
    match sql.dialect() {
        Dialect::Sqlite => {
            let mut spelled = String::new();
            for (word, &count) in &words {
                for _ in 0..count {
                    spelled.push_str(&format!("{scope}_{word} "));
                }
            }
            let statement = "INSERT INTO memory_words (rowid, words) VALUES ($1, $2)";
            sql.execute(statement, &[number.into(), spelled.into()])?;
        }
        Dialect::Postgres => {
            let spelled: Vec<String> = words
                .iter()
                .map(|(word, &count)| {
                    let positions: Vec<String> = (1..=count).map(|position| position.to_string()).collect();
                    format!("'{scope}_{word}':{}", positions.join(","))
                })
                .collect();
            let statement = "UPDATE memories SET lexemes = $2::text::tsvector WHERE number = $1";
            sql.execute(statement, &[number.into(), spelled.join(" ").into()])?;
        }
    }
    Ok(())
}

/// Removes a memory's words.
pub(crate) fn unindex(sql: &mut dyn Sql, number: i64, text: &str, counts: &mut WordCounts) -> Result<()> {
    counts.add(&lexical::words(text), -1);
    let statement = match sql.dialect() {
        Dialect::Sqlite => "DELETE FROM memory_words WHERE rowid = $1",
        Dialect::Postgres => "UPDATE memories SET lexemes = NULL WHERE number = $1",
    };
    sql.execute(statement, &[number.into()])?;
    Ok(())
}

impl WordCounts {
    fn add(&mut self, words: &BTreeMap<String, u32>, sign: i64) {
        for word in words.keys() {
            *self.memories.entry(word.clone()).or_insert(0) += sign;
        }
        self.documents += sign;
        self.words += sign * i64::try_from(lexical::length(words)).unwrap_or(i64::MAX);
    }

    /// Writes the counts. Words in order, so that two transactions never wait for each other in a circle.
    pub(crate) fn write(self, sql: &mut dyn Sql, scope: i64) -> Result<()> {
        let upsert = "INSERT INTO lexicon (scope, word, memories) VALUES ($1, $2, $3)
             ON CONFLICT (scope, word) DO UPDATE SET memories = lexicon.memories + excluded.memories";
        for (word, count) in self.memories {
            if count != 0 {
                sql.execute(upsert, &[scope.into(), word.into(), count.into()])?;
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

/// The best `n` memories by BM25. Status and expiry are applied before the cut.
pub(crate) fn search(
    sql: &mut dyn Sql,
    scope: &ScopeRow,
    text: &str,
    now: Timestamp,
    n: usize,
) -> Result<Vec<(MemoryId, u32, f64)>> {
    let words = lexical::query_words(text);
    if words.is_empty() {
        return Ok(Vec::new());
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
    let chosen = lexical::choose(known);
    if chosen.is_empty() {
        return Ok(Vec::new());
    }
    let collection = Collection {
        memories: scope.memories,
        words: scope.words,
    };
    let postings = match sql.dialect() {
        Dialect::Sqlite => sqlite_postings(sql, scope.number, &chosen, now, collection, n)?,
        Dialect::Postgres => postgres_postings(sql, scope.number, &chosen, now)?,
    };
    Ok(lexical::rank(postings, collection, n))
}

fn sqlite_postings(
    sql: &mut dyn Sql,
    scope: i64,
    chosen: &[(String, u64)],
    now: Timestamp,
    collection: Collection,
    n: usize,
) -> Result<Vec<Posting>> {
    let mut found: BTreeMap<i64, Vec<(u64, u32)>> = BTreeMap::new();
    for (word, having) in chosen {
        let term = format!("{scope}_{word}");
        let mut last = None;
        sql.each(
            "SELECT doc FROM memory_postings WHERE term = $1",
            &[term.into()],
            &mut |mut row| {
                let number = row.int(0)?;
                let counts = found.entry(number).or_default();
                match counts.last_mut() {
                    Some((_, count)) if last == Some(number) => *count += 1,
                    _ => counts.push((*having, 1)),
                }
                last = Some(number);
                Ok(())
            },
        )?;
    }
    fetch_promising(sql, scope, now, found, collection, n)
}

/// The rows of memories that can be among the best `n`, the most promising first.
///
/// A posting list says how often a word occurs but not how long the memory is. Were it as short as can be, it would
/// score at most so much: once `n` rows score more than the next could, the rest is not read.
fn fetch_promising(
    sql: &mut dyn Sql,
    scope: i64,
    now: Timestamp,
    found: BTreeMap<i64, Vec<(u64, u32)>>,
    collection: Collection,
    n: usize,
) -> Result<Vec<Posting>> {
    let mut open: Vec<_> = found
        .into_iter()
        .map(|(number, mut found)| {
            // Both databases add up a memory's words in the same order, so that both get the same bits.
            found.sort_unstable();
            let shortest = found.iter().map(|&(_, count)| u64::from(count)).sum();
            (lexical::score(&found, shortest, collection), number, found)
        })
        .collect();
    open.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let query = "SELECT id, tokens, words FROM memories WHERE number = $1 AND scope = $2
         AND status = 'active' AND (expires_at IS NULL OR expires_at > $3)";
    let mut postings = Vec::new();
    // The best scores so far as sortable bits, the worst on top.
    let mut best: BinaryHeap<Reverse<u64>> = BinaryHeap::new();
    for (most, number, found) in open {
        if best.len() >= n && best.peek().is_some_and(|worst| f64::from_bits(worst.0) > most) {
            break;
        }
        let values = [number.into(), scope.into(), now.into()];
        let Some(mut row) = sql.first(query, &values)? else {
            continue;
        };
        let posting = Posting {
            id: MemoryId::from_u128(row.id(0)?),
            tokens: row.small(1)?,
            length: row.unsigned(2)?,
            found,
        };
        // Scores are not negative, so their bits are in the order of their values.
        best.push(Reverse(
            lexical::score(&posting.found, posting.length, collection).to_bits(),
        ));
        if best.len() > n {
            best.pop();
        }
        postings.push(posting);
    }
    Ok(postings)
}

fn postgres_postings(
    sql: &mut dyn Sql,
    scope: i64,
    chosen: &[(String, u64)],
    now: Timestamp,
) -> Result<Vec<Posting>> {
    let having: BTreeMap<String, u64> = chosen
        .iter()
        .map(|(word, having)| (format!("{scope}_{word}"), *having))
        .collect();
    let terms: Vec<&str> = having.keys().map(String::as_str).collect();
    let query =
        "SELECT m.number, m.id, m.tokens, m.words, l.lexeme, coalesce(cardinality(l.positions), 1)::bigint
         FROM memories m CROSS JOIN LATERAL unnest(m.lexemes) AS l
         WHERE m.scope = $1 AND m.status = 'active' AND (m.expires_at IS NULL OR m.expires_at > $2)
           AND m.lexemes @@ $3::text::tsquery AND l.lexeme = ANY (string_to_array($4::text, ' '))
         ORDER BY m.number";
    let quoted: Vec<String> = terms.iter().map(|term| format!("'{term}'")).collect();
    let values = [
        scope.into(),
        now.into(),
        quoted.join(" | ").into(),
        terms.join(" ").into(),
    ];
    let mut postings: Vec<(i64, Posting)> = Vec::new();
    sql.each(query, &values, &mut |mut row: Row| {
        let number = row.int(0)?;
        let word = row.text(4)?;
        let count = (having.get(&word).copied().unwrap_or(1), row.small(5)?);
        match postings.last_mut() {
            Some((last, posting)) if *last == number => posting.found.push(count),
            _ => postings.push((
                number,
                Posting {
                    id: MemoryId::from_u128(row.id(1)?),
                    tokens: row.small(2)?,
                    length: row.unsigned(3)?,
                    found: vec![count],
                },
            )),
        }
        Ok(())
    })?;
    let mut postings: Vec<Posting> = postings.into_iter().map(|(_, posting)| posting).collect();
    for posting in &mut postings {
        posting.found.sort_unstable();
    }
    Ok(postings)
}
