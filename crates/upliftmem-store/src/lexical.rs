//! Words, their weights, and the fusion of two orders. Pure: both databases rank by this code.

use std::{borrow::Cow, collections::BTreeMap};

use unicode_normalization::UnicodeNormalization;
use upliftmem_core::MemoryId;

use crate::recall::Hit;

/// Longer words are cut: they are data of some kind, and their start tells them apart.
const WORD_CHARS_MAX: usize = 48;
/// A word counts at most so often in one memory; BM25 is flat by then.
pub(crate) const COUNT_MAX: u32 = 100;
/// Postings a query reads at most in PostgreSQL, unless its rarest word alone has more.
const POSTINGS_MAX: u64 = 1_000;
/// Words of a query that are looked up at most.
const QUERY_WORDS_MAX: usize = 256;
/// Rank constant of the fusion (Cormack et al. 2009).
const FUSION_RANK: f64 = 60.0;
/// BM25's saturation and length weight.
pub(crate) const K1: f64 = 1.2;
pub(crate) const B: f64 = 0.75;

/// The words of a text with their counts, spelled in letters, digits and `_` only.
///
/// Text is composed (NFKC) and lower-cased; a word is a run of letters and digits. Characters of scripts that
/// are written without blanks are words of their own. Whatever is not ASCII is spelled in hexadecimal, so that
/// no database's own idea of a word, and no query syntax, ever applies.
pub(crate) fn words(text: &str) -> BTreeMap<String, u32> {
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    each_word(text, |word| match counts.get_mut(word) {
        Some(count) => *count = (*count + 1).min(COUNT_MAX),
        None => drop(counts.insert(word.to_owned(), 1)),
    });
    counts
}

/// Hands over the words of a text, as often as they occur.
pub(crate) fn each_word(text: &str, mut each: impl FnMut(&str)) {
    let composed = if text.is_ascii() {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(text.nfkc().collect())
    };
    let mut word = String::new();
    let mut end = |word: &mut String| {
        if !word.is_empty() {
            spell(word, &mut each);
            word.clear();
        }
    };
    for c in composed.chars() {
        if c.is_ascii() {
            if c.is_ascii_alphanumeric() {
                word.push(c.to_ascii_lowercase());
            } else {
                end(&mut word);
            }
            continue;
        }
        for c in c.to_lowercase() {
            if c.is_alphanumeric() && !stands_alone(c) {
                word.push(c);
                continue;
            }
            end(&mut word);
            if stands_alone(c) {
                word.push(c);
                end(&mut word);
            }
        }
    }
    end(&mut word);
}

/// The words of a query that are looked up: of a very long one the longest, which are the rarest.
pub(crate) fn query_words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = words(text).into_keys().collect();
    words.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
    words.truncate(QUERY_WORDS_MAX);
    words
}

/// Number of words, repetitions included.
pub(crate) fn length(words: &BTreeMap<String, u32>) -> u64 {
    words.values().map(|&count| u64::from(count)).sum()
}

fn stands_alone(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

/// Cuts a word and spells it.
fn spell(word: &str, each: &mut impl FnMut(&str)) {
    let cut = word
        .char_indices()
        .nth(WORD_CHARS_MAX)
        .map_or(word, |(end, _)| &word[..end]);
    if cut.is_ascii() {
        return each(cut);
    }
    let hexadecimal = cut.bytes().map(|byte| format!("{byte:02x}"));
    each(
        &std::iter::once("_".to_owned())
            .chain(hexadecimal)
            .collect::<String>(),
    );
}

/// The query's words to look up: the rarest first, until they cover [`POSTINGS_MAX`] memories. Common words
/// add little to an order and most to its cost. Ties by the word.
pub(crate) fn choose(mut words: Vec<(String, u64)>) -> Vec<(String, u64)> {
    words.retain(|&(_, memories)| memories > 0);
    words.sort_by(|a, b| a.1.cmp(&b.1).then_with(|| a.0.cmp(&b.0)));
    let mut covered = 0;
    let fit = words
        .iter()
        .take_while(|&&(_, memories)| {
            let first = covered == 0;
            covered += memories;
            first || covered <= POSTINGS_MAX
        })
        .count();
    words.truncate(fit);
    words
}

/// One memory that has some of the query's words.
#[derive(Debug, Clone)]
pub(crate) struct Posting {
    pub(crate) id: MemoryId,
    pub(crate) tokens: u32,
    /// All words of the memory.
    pub(crate) length: u64,
    /// For each word found: its memories in the scope, and its count in this memory.
    pub(crate) found: Vec<(u64, u32)>,
}

/// A scope's memories and their words, counted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Collection {
    pub(crate) memories: u64,
    pub(crate) words: u64,
}

/// How much a word says that so many memories have.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
pub(crate) fn rarity(having: u64, collection: Collection) -> f64 {
    let having = having as f64;
    (1.0 + (collection.memories as f64 - having + 0.5).max(0.0) / (having + 0.5)).ln()
}

/// The mean number of words of a memory.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
pub(crate) fn mean_length(collection: Collection) -> f64 {
    (collection.words as f64 / (collection.memories as f64).max(1.0)).max(1.0)
}

/// BM25 of a memory of this length with these words.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
pub(crate) fn score(found: &[(u64, u32)], length: u64, collection: Collection) -> f64 {
    let shortness = K1 * (1.0 - B + B * length as f64 / mean_length(collection));
    let score = found.iter().map(|&(having, count)| {
        let count = f64::from(count);
        rarity(having, collection) * count * (K1 + 1.0) / (count + shortness)
    });
    score.sum()
}

/// The best `n` postings by BM25, ties by id.
pub(crate) fn rank(postings: Vec<Posting>, collection: Collection, n: usize) -> Vec<(MemoryId, u32, f64)> {
    let mut scored: Vec<(MemoryId, u32, f64)> = postings
        .into_iter()
        .map(|posting| {
            let score = score(&posting.found, posting.length, collection);
            (posting.id, posting.tokens, score)
        })
        .collect();
    scored.sort_by(|a, b| b.2.total_cmp(&a.2).then(a.0.cmp(&b.0)));
    scored.truncate(n);
    scored
}

/// Reciprocal rank fusion of two orders, best first, ties by id, cut to `n`.
#[expect(clippy::cast_precision_loss, reason = "ranks are small")]
pub(crate) fn fuse(orders: [Vec<Hit>; 2], n: usize) -> Vec<Hit> {
    let mut fused: BTreeMap<MemoryId, Hit> = BTreeMap::new();
    for order in orders {
        for (rank, hit) in order.into_iter().enumerate() {
            let share = 1.0 / (FUSION_RANK + rank as f64 + 1.0);
            let entry = fused.entry(hit.id).or_insert(Hit { score: 0.0, ..hit });
            entry.score += share;
            entry.cosine = entry.cosine.or(hit.cosine);
            entry.bm25 = entry.bm25.or(hit.bm25);
        }
    }
    let mut hits: Vec<Hit> = fused.into_values().collect();
    hits.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.id.cmp(&b.id)));
    hits.truncate(n);
    hits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_plain_whatever_the_text() {
        let spelled = |text: &str| words(text).into_keys().collect::<Vec<_>>();
        assert_eq!(spelled("Hello, WORLD! hello"), ["hello", "world"]);
        assert_eq!(spelled("Größe ﬁt"), ["_6772c3b6c39f65", "fit"]);
        assert_eq!(spelled("日本"), ["_e697a5", "_e69cac"]);
        for hostile in [
            "\" OR 1=1 --",
            "NEAR(a b, 2) AND * ^ : {x}",
            "'); DROP TABLE memories; --",
            "a & !b | (c)",
        ] {
            for word in spelled(hostile) {
                assert!(
                    word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'),
                    "{word}"
                );
            }
        }
        assert_eq!(length(&words("a b a")), 3);
    }

    #[test]
    fn rare_words_are_looked_up_and_common_ones_only_while_they_are_cheap() {
        let chosen = choose(vec![
            ("the".into(), 90_000),
            ("b".into(), 7),
            ("a".into(), 7),
            ("none".into(), 0),
        ]);
        assert_eq!(chosen, [("a".into(), 7), ("b".into(), 7)]);
        assert_eq!(choose(vec![("the".into(), 90_000)]).len(), 1);
    }

    #[test]
    fn rarer_words_and_shorter_memories_score_higher() {
        let posting = |id: u128, length, found| Posting {
            id: MemoryId::from_u128(id),
            tokens: 1,
            length,
            found,
        };
        let collection = Collection {
            memories: 100,
            words: 1_000,
        };
        let ranked = rank(
            vec![
                posting(1, 10, vec![(50, 1)]),
                posting(2, 20, vec![(2, 1)]),
                posting(3, 10, vec![(2, 1)]),
            ],
            collection,
            2,
        );
        assert_eq!(
            ranked.iter().map(|hit| hit.0.as_u128()).collect::<Vec<_>>(),
            [3, 2]
        );
    }

    #[test]
    fn fusion_rewards_agreement_and_breaks_ties_by_id() {
        let hit = |id: u128| Hit {
            id: MemoryId::from_u128(id),
            tokens: 1,
            score: 0.0,
            cosine: None,
            bm25: None,
        };
        let fused = fuse([vec![hit(5), hit(3)], vec![hit(4), hit(3)]], 3);
        assert_eq!(
            fused.iter().map(|hit| hit.id.as_u128()).collect::<Vec<_>>(),
            [3, 4, 5]
        );
    }
}
