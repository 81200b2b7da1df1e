//! The words of one scope: posting lists in memory, and BM25 over them without short cuts that change an answer.

use std::{cell::RefCell, collections::HashMap};

use upliftmem_core::MemoryId;

use crate::{
    lexical::{self, COUNT_MAX, Collection},
    time::Timestamp,
};

/// Bits of a posting that hold how often the word occurs; the rest is the slot.
const COUNT_BITS: u32 = 7;
const _: () = assert!(COUNT_MAX < 1 << COUNT_BITS);
/// Before a list that is longer than this, and than the list of those who are in, it is worth knowing whether it can still bring anyone in.
const LONG: usize = 2_048;
/// Sums of single precision are this near, relatively: whoever is so near the cut is looked at exactly.
const ROUNDING: f32 = 1e-5;

/// One changed memory, as the database has it.
#[derive(Debug, Clone)]
pub(crate) struct WordRow {
    /// The row's number in the database.
    pub(crate) number: i64,
    /// The memory.
    pub(crate) id: MemoryId,
    /// Its length in tokens.
    pub(crate) tokens: u32,
    /// From when on it is not recalled.
    pub(crate) expires_at: Option<Timestamp>,
    /// Its text, which never changes; none if it is not to be found.
    pub(crate) text: Option<String>,
}

#[derive(Debug, Clone, Copy)]
struct Document {
    id: MemoryId,
    tokens: u32,
    expires_at: Option<Timestamp>,
    alive: bool,
}

/// A word of a query: its spelling, how many memories have it, and what it adds at most.
#[derive(Debug)]
struct Term<'a> {
    postings: &'a [u32],
    having: u64,
    rarity: f32,
}

/// The words of one scope.
#[derive(Debug, Default)]
pub(super) struct WordIndex {
    pub(super) version: i64,
    documents: Vec<Document>,
    /// Words of each document, repetitions included. Beside the documents, as scoring reads nothing else of them.
    lengths: Vec<u32>,
    /// Whether a document is alive and has no end: then nothing else need be looked at.
    sure: Vec<bool>,
    slot_of: HashMap<i64, u32>,
    /// Slot and count in one number, by slot.
    postings: HashMap<String, Vec<u32>>,
    pub(super) entries: usize,
    dead: usize,
}

impl WordIndex {
    /// Whether so many documents are dead that it is better read again.
    pub(super) const fn worn(&self) -> bool {
        self.dead * 4 > self.documents.len()
    }

    pub(super) fn apply(&mut self, row: &WordRow) {
        if let Some(&slot) = self.slot_of.get(&row.number) {
            let document = &mut self.documents[slot as usize];
            let alive = row.text.is_some();
            match (document.alive, alive) {
                (true, false) => self.dead += 1,
                (false, true) => self.dead -= 1,
                _ => {}
            }
            document.alive = alive;
            if alive {
                document.expires_at = row.expires_at;
            }
            self.sure[slot as usize] = alive && document.expires_at.is_none();
            return;
        }
        let Some(text) = &row.text else { return };
        let slot = u32::try_from(self.documents.len()).unwrap_or(u32::MAX);
        let mut length = 0;
        lexical::each_word(text, |word| {
            length += 1;
            let first = slot << COUNT_BITS | 1;
            match self.postings.get_mut(word) {
                // A word again: its posting is the last of its list.
                Some(list) => match list.last_mut() {
                    Some(last) if *last == slot << COUNT_BITS | COUNT_MAX => length -= 1,
                    Some(last) if *last >> COUNT_BITS == slot => *last += 1,
                    _ => {
                        list.push(first);
                        self.entries += 1;
                    }
                },
                None => {
                    self.postings.insert(word.to_owned(), vec![first]);
                    self.entries += 1;
                }
            }
        });
        self.lengths.push(length);
        self.sure.push(row.expires_at.is_none());
        self.documents.push(Document {
            id: row.id,
            tokens: row.tokens,
            expires_at: row.expires_at,
            alive: true,
        });
        self.slot_of.insert(row.number, slot);
    }

    fn wanted(&self, slot: u32, now: Timestamp) -> bool {
        if self.sure[slot as usize] {
            return true;
        }
        let document = &self.documents[slot as usize];
        document.alive && document.expires_at.is_none_or(|end| end > now)
    }

    /// The best `n` by BM25, ties by id. `words` come with the number of memories that have them.
    #[expect(clippy::cast_possible_truncation, reason = "a first look needs no more")]
    pub(super) fn search(
        &self,
        words: &[(String, u64)],
        collection: Collection,
        n: usize,
        now: Timestamp,
    ) -> Vec<(MemoryId, u32, f64)> {
        let mut terms: Vec<Term<'_>> = words
            .iter()
            .filter_map(|(word, having)| {
                Some(Term {
                    postings: self.postings.get(word)?,
                    having: *having,
                    rarity: lexical::rarity(*having, collection) as f32,
                })
            })
            .collect();
        terms.sort_by(|a, b| b.rarity.total_cmp(&a.rarity));
        let mut found = SCORES.with_borrow_mut(|scores| {
            scores.begin(self.documents.len());
            let found = self.candidates(&terms, collection, n, now, scores);
            scores.end();
            found
        });
        let cut = nth_best(found.iter().map(|&(_, score)| score), n) * (1.0 - ROUNDING);
        found.retain(|&(_, score)| score >= cut);
        let mut exact: Vec<(MemoryId, u32, f64)> = found
            .into_iter()
            .map(|(slot, _)| {
                let document = &self.documents[slot as usize];
                (document.id, document.tokens, self.score(&terms, slot, collection))
            })
            .collect();
        exact.sort_by(|a, b| b.2.total_cmp(&a.2).then(a.0.cmp(&b.0)));
        exact.truncate(n);
        exact
    }

    /// Every wanted document that can be among the best `n`, with its score.
    ///
    /// Rare words come first. Once the `n`-th best has more than all words to come can add, nobody new can
    /// get in, and the long lists of common words are only asked about those who are.
    fn candidates(
        &self,
        terms: &[Term<'_>],
        collection: Collection,
        n: usize,
        now: Timestamp,
        scores: &mut Scores,
    ) -> Vec<(u32, f32)> {
        let weigh = Weigh::new(collection);
        let mut to_come: f32 = terms.iter().map(|term| weigh.most(term.rarity)).sum();
        let mut done = 0;
        for term in terms {
            if term.postings.len() > LONG.max(scores.touched.len()) {
                let wanted = scores.touched.iter().filter(|&&slot| self.wanted(slot, now));
                if nth_best(wanted.map(|&slot| scores.sums[slot as usize]), n) > to_come {
                    break;
                }
            }
            for &posting in term.postings {
                let (slot, count) = (posting >> COUNT_BITS, posting & ((1 << COUNT_BITS) - 1));
                scores.add(slot, weigh.word(term.rarity, count, self.lengths[slot as usize]));
            }
            to_come -= weigh.most(term.rarity);
            done += 1;
        }
        let mut found: Vec<(u32, f32)> = scores
            .touched
            .iter()
            .filter(|&&slot| self.wanted(slot, now))
            .map(|&slot| (slot, scores.sums[slot as usize]))
            .collect();
        for term in &terms[done..] {
            let cut = nth_best(found.iter().map(|&(_, score)| score), n);
            found.retain(|&(_, score)| score + to_come >= cut * (1.0 - ROUNDING));
            for (slot, score) in &mut found {
                *score += weigh.word(
                    term.rarity,
                    count_of(term.postings, *slot),
                    self.lengths[*slot as usize],
                );
            }
            to_come -= weigh.most(term.rarity);
        }
        found
    }

    /// The score as every store computes it, to the bit.
    fn score(&self, terms: &[Term<'_>], slot: u32, collection: Collection) -> f64 {
        let mut found: Vec<(u64, u32)> = terms
            .iter()
            .map(|term| (term.having, count_of(term.postings, slot)))
            .filter(|&(_, count)| count > 0)
            .collect();
        found.sort_unstable();
        lexical::score(&found, self.lengths[slot as usize].into(), collection)
    }
}

/// How often a word occurs in a document.
fn count_of(postings: &[u32], slot: u32) -> u32 {
    let position = postings.partition_point(|&posting| posting >> COUNT_BITS < slot);
    postings
        .get(position)
        .filter(|&&posting| posting >> COUNT_BITS == slot)
        .map_or(0, |&posting| posting & ((1 << COUNT_BITS) - 1))
}

/// The `n`-th largest number; below all if there are fewer.
fn nth_best(scores: impl Iterator<Item = f32>, n: usize) -> f32 {
    let mut scores: Vec<f32> = scores.collect();
    if n == 0 || scores.len() < n {
        return f32::NEG_INFINITY;
    }
    *scores.select_nth_unstable_by(n - 1, |a, b| b.total_cmp(a)).1
}

/// BM25 in single precision, for a first look.
#[derive(Debug, Clone, Copy)]
struct Weigh {
    /// What any memory has against it, and what a word of its length adds.
    base: f32,
    slope: f32,
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "a first look needs no more"
)]
impl Weigh {
    fn new(collection: Collection) -> Self {
        let mean_length = lexical::mean_length(collection);
        Self {
            base: (lexical::K1 * (1.0 - lexical::B)) as f32,
            slope: (lexical::K1 * lexical::B / mean_length) as f32,
        }
    }

    #[inline(always)]
    fn word(self, rarity: f32, count: u32, length: u32) -> f32 {
        let count = count as f32;
        let against = self.base + self.slope * length as f32;
        rarity * count * (lexical::K1 as f32 + 1.0) / (count + against)
    }

    /// What a word can add, however often it occurs in however short a memory; rounded up.
    fn most(self, rarity: f32) -> f32 {
        rarity * (lexical::K1 as f32 + 1.0) * (1.0 + ROUNDING)
    }
}

thread_local! {
    static SCORES: RefCell<Scores> = const { RefCell::new(Scores { sums: Vec::new(), touched: Vec::new() }) };
}

/// Sums by slot, all zero between two questions.
struct Scores {
    sums: Vec<f32>,
    touched: Vec<u32>,
}

impl Scores {
    fn begin(&mut self, documents: usize) {
        if self.sums.len() < documents {
            self.sums.resize(documents.next_power_of_two(), 0.0);
        }
    }

    #[inline(always)]
    fn add(&mut self, slot: u32, more: f32) {
        let sum = &mut self.sums[slot as usize];
        if *sum == 0.0 {
            self.touched.push(slot);
        }
        // A word that adds nothing must not make its document look untouched.
        *sum += more.max(f32::MIN_POSITIVE);
    }

    fn end(&mut self) {
        for &slot in &self.touched {
            self.sums[slot as usize] = 0.0;
        }
        self.touched.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    /// Texts whose words are the rarer the larger their numbers are.
    fn texts(count: usize) -> Vec<String> {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        (0..count)
            .map(|_| {
                let length = rng.random_range(5..60);
                let mut word = || {
                    let reach: f64 = rng.random_range(0.0..1.0_f64).powi(4);
                    format!("w{}", (reach * 5_000.0) as u32)
                };
                (0..length).map(|_| word()).collect::<Vec<_>>().join(" ")
            })
            .collect()
    }

    #[test]
    fn the_best_are_those_of_a_scan_to_the_bit() {
        let texts = texts(20_000);
        let mut index = WordIndex::default();
        let mut having: BTreeMap<String, u64> = BTreeMap::new();
        let mut collection = Collection {
            memories: 0,
            words: 0,
        };
        for (number, text) in (1..).zip(&texts) {
            index.apply(&WordRow {
                number,
                id: MemoryId::from_u128(u128::from(number.unsigned_abs())),
                tokens: 1,
                expires_at: (number % 7 == 0).then(|| Timestamp::from_millis(5)),
                text: Some(text.clone()),
            });
            let words = lexical::words(text);
            collection.memories += 1;
            collection.words += lexical::length(&words);
            for word in words.into_keys() {
                *having.entry(word).or_default() += 1;
            }
        }
        let now = Timestamp::from_millis(9);
        for query in [
            "w0 w1 w2 w3 w40",
            "w4999 w0 w1",
            "w3 w700 w2100 w0",
            "w0",
            "w4000 w4001 w4002 w1",
        ] {
            let words: Vec<(String, u64)> = lexical::query_words(query)
                .into_iter()
                .filter_map(|word| having.get(&word).map(|&count| (word, count)))
                .collect();
            let mut truth: Vec<(MemoryId, u32, f64)> = Vec::new();
            for (number, text) in (1_u64..).zip(&texts) {
                let has = lexical::words(text);
                let mut found: Vec<(u64, u32)> = words
                    .iter()
                    .filter_map(|(word, having)| has.get(word).map(|&count| (*having, count)))
                    .collect();
                found.sort_unstable();
                if !found.is_empty() && number % 7 != 0 {
                    let score = lexical::score(&found, lexical::length(&has), collection);
                    truth.push((MemoryId::from_u128(number.into()), 1, score));
                }
            }
            truth.sort_by(|a, b| b.2.total_cmp(&a.2).then(a.0.cmp(&b.0)));
            truth.truncate(50);
            assert_eq!(index.search(&words, collection, 50, now), truth, "{query}");
        }
    }

    #[test]
    fn what_is_retired_is_not_found_until_it_comes_back() {
        let mut index = WordIndex::default();
        let row = |text: Option<&str>| WordRow {
            number: 1,
            id: MemoryId::from_u128(1),
            tokens: 1,
            expires_at: None,
            text: text.map(ToOwned::to_owned),
        };
        let collection = Collection {
            memories: 1,
            words: 2,
        };
        let found = |index: &WordIndex| {
            let words = [("mug".to_owned(), 1)];
            index.search(&words, collection, 5, Timestamp::default()).len()
        };
        for (text, expected) in [(None, 0), (Some("a mug"), 1), (None, 0), (Some("a mug"), 1)] {
            index.apply(&row(text));
            assert_eq!(found(&index), expected, "{text:?}");
        }
        assert_eq!(index.entries, 2, "its words were entered once");
        let long = WordRow {
            number: 2,
            ..row(Some(&"mug ".repeat(300)))
        };
        index.apply(&long);
        let counted = lexical::length(&lexical::words("mug ".repeat(300).as_str()));
        assert_eq!(
            u64::from(index.lengths[1]),
            counted,
            "a word counts only so often"
        );
    }
}
