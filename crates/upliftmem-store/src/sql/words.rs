//! Which words a scope's memories have: written with the memory, read by recall.

use std::collections::{BTreeMap, HashMap};

use upliftmem_core::MemoryId;

use super::{Dialect, Row, Sql, heads::Heads};
use crate::{
    error::Result,
    lexical::{self, Collection, Posting},
    sql::scopes::ScopeRow,
    time::Timestamp,
};

/// What a transaction changes about words, written once at its end.
///
/// SQLite's word index puts away what it collected whenever another kind of statement comes between two of its own:
/// a batch of memories is one run of statements, not a thousand.
#[derive(Debug, Default)]
pub(crate) struct WordCounts {
    memories: BTreeMap<String, i64>,
    documents: i64,
    words: i64,
    /// The spelled words of memories that are not entered yet.
    waiting: BTreeMap<i64, String>,
}

/// Enters a memory's words.
pub(crate) fn index(
    sql: &mut dyn Sql,
    scope: i64,
    number: i64,
    words: &BTreeMap<String, u32>,
    counts: &mut WordCounts,
) -> Result<()> {
    counts.add(words, 1);
    match sql.dialect() {
        Dialect::Sqlite => {
            let mut spelled = String::new();
            for (word, &count) in words {
                for _ in 0..count {
                    spelled.push_str(&format!("{scope}_{word} "));
                }
            }
            counts.waiting.insert(number, spelled);
        }
        Dialect::Postgres => {
            let statement = "UPDATE memories SET lexemes = $2::text::tsvector WHERE number = $1";
            sql.execute(statement, &[number.into(), lexemes(scope, words).into()])?;
        }
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
    if counts.waiting.remove(&number).is_some() {
        return Ok(());
    }
    let statement = match sql.dialect() {
        Dialect::Sqlite => "DELETE FROM memory_words WHERE rowid = $1",
        Dialect::Postgres => "UPDATE memories SET lexemes = NULL WHERE number = $1",
    };
    sql.execute(statement, &[number.into()])?;
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
        for (number, spelled) in self.waiting {
            let statement = "INSERT INTO memory_words (rowid, words) VALUES ($1, $2)";
            sql.execute(statement, &[number.into(), spelled.into()])?;
        }
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

/// The best `n` memories by BM25. Status and expiry are applied before the cut.
pub(crate) fn search(
    sql: &mut dyn Sql,
    heads: Option<&Heads>,
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
    let postings = match heads {
        Some(heads) => sqlite_postings(sql, heads, scope.number, &chosen, now)?,
        None => postgres_postings(sql, scope.number, &chosen, now)?,
    };
    Ok(lexical::rank(postings, collection, n))
}

fn sqlite_postings(
    sql: &mut dyn Sql,
    heads: &Heads,
    scope: i64,
    chosen: &[(String, u64)],
    now: Timestamp,
) -> Result<Vec<Posting>> {
    let mut found: HashMap<i64, Vec<(u64, u32)>> = HashMap::new();
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
    let numbers: Vec<i64> = found.keys().copied().collect();
    let known = heads.get(sql, scope, &numbers)?;
    let postings = numbers.iter().zip(known).filter_map(|(number, head)| {
        let head = head.filter(|head| head.expires_at.is_none_or(|end| end > now))?;
        let mut found = found.remove(number)?;
        // Both databases add up a memory's words in the same order, so that both get the same bits.
        found.sort_unstable();
        Some(Posting {
            id: head.id,
            tokens: head.tokens,
            length: head.words.into(),
            found,
        })
    });
    Ok(postings.collect())
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
