//! The pruned search against one that looks at everything.

use std::collections::BTreeMap;

use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;

/// Documents and what the database counts of them.
struct Library {
    index: WordIndex,
    /// Words, whether the document is alive, when it ends.
    texts: Vec<(BTreeMap<String, u32>, bool, Option<u64>)>,
    having: BTreeMap<String, u64>,
    collection: Collection,
}

const NOW: u64 = 9;

/// Words of small numbers are common; `skew` says how much more than others.
fn word(rng: &mut ChaCha8Rng, vocabulary: f64, skew: i32) -> String {
    let reach = rng.random_range(0.0..1.0_f64).powi(skew);
    format!("w{}", (reach * vocabulary) as u32)
}

fn words(rng: &mut ChaCha8Rng, count: usize, vocabulary: f64, skew: i32) -> String {
    let words: Vec<String> = (0..count).map(|_| word(rng, vocabulary, skew)).collect();
    words.join(" ")
}

impl Library {
    /// Texts of up to `longest` words, some of which are retired or at their end; sealed now and then.
    fn new(rng: &mut ChaCha8Rng, count: usize, vocabulary: f64, skew: i32, longest: usize) -> Self {
        let mut library = Self {
            index: WordIndex::default(),
            texts: Vec::new(),
            having: BTreeMap::new(),
            collection: Collection {
                memories: 0,
                words: 0,
            },
        };
        for place in 0..count {
            let length = rng.random_range(1..=longest);
            let text = words(rng, length, vocabulary, skew);
            let alive = rng.random_range(0..10) > 0;
            let ends = (rng.random_range(0..7) == 0).then(|| rng.random_range(1..20));
            library.apply(place, Some(&text), ends);
            let has = lexical::words(&text);
            if alive {
                library.count(&has);
            } else {
                library.apply(place, None, None);
            }
            library.texts.push((has, alive, ends));
            if rng.random_range(0..1_500) == 0 {
                library.index.seal();
            }
        }
        library
    }

    fn apply(&mut self, place: usize, text: Option<&str>, ends: Option<u64>) {
        self.index.apply(&WordRow {
            number: place as i64 + 1,
            id: id(place),
            tokens: 1,
            expires_at: ends.map(Timestamp::from_millis),
            text: text.map(ToOwned::to_owned),
        });
    }

    fn count(&mut self, words: &BTreeMap<String, u32>) {
        self.collection.memories += 1;
        self.collection.words += lexical::length(words);
        for word in words.keys() {
            *self.having.entry(word.clone()).or_default() += 1;
        }
    }

    /// The words of a query that the database knows.
    fn known(&self, query: &str) -> Vec<(String, u64)> {
        let words = lexical::query_words(query).into_iter();
        words
            .filter_map(|word| self.having.get(&word).map(|&count| (word, count)))
            .collect()
    }

    /// The best by looking at every word of every text.
    fn scan(&self, words: &[(String, u64)], n: usize) -> Vec<(MemoryId, u32, f64)> {
        let mut all = Vec::new();
        for (place, (has, alive, ends)) in self.texts.iter().enumerate() {
            if !alive || ends.is_some_and(|end| end <= NOW) {
                continue;
            }
            let mut found: Vec<(u64, u32)> = words
                .iter()
                .filter_map(|(word, having)| has.get(word).map(|&count| (*having, count)))
                .collect();
            found.sort_unstable();
            if !found.is_empty() {
                let score = lexical::score(&found, lexical::length(has), self.collection);
                all.push((id(place), 1, score));
            }
        }
        all.sort_by(|a, b| b.2.total_cmp(&a.2).then(a.0.cmp(&b.0)));
        all.truncate(n);
        all
    }

    fn check(&self, query: &str, n: usize) {
        let words = self.known(query);
        let found = self
            .index
            .search(&words, self.collection, n, Timestamp::from_millis(NOW));
        assert_eq!(found, self.scan(&words, n), "{query}");
    }
}

/// Ids do not follow slots.
fn id(place: usize) -> MemoryId {
    MemoryId::from_u128(
        (place as u128).wrapping_mul(0x9e37_79b9_7f4a_7c15) % 1_000_003 * 1_000_000 + place as u128,
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn the_best_are_those_of_a_scan_to_the_bit(
        seed in 0_u64..1_000_000,
        count in 0_usize..9_000,
        vocabulary in 1.0..2_000.0_f64,
        skew in 1_i32..6,
        longest in 1_usize..50,
        n in 1_usize..200,
    ) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let library = Library::new(&mut rng, count, vocabulary, skew, longest);
        for length in [1, 3, 12, 40] {
            let query = words(&mut rng, length, vocabulary, skew);
            library.check(&query, n);
        }
    }
}

#[test]
fn common_rare_and_tied_words_over_many_windows() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let mut library = Library::new(&mut rng, 30_000, 5_000.0, 4, 60);
    library.index.seal();
    for query in [
        "w0 w1 w2 w3 w40",
        "w4999 w0 w1",
        "w3 w700 w2100 w0",
        "w0",
        "w4000 w4001 w4002 w1",
        "unheard of",
    ] {
        library.check(query, 50);
    }
    // One word a text: everything is tied, and ids decide.
    let mut library = Library::new(&mut rng, 10_000, 1.0, 1, 1);
    library.index.seal();
    library.check("w0", 50);
}

#[test]
fn words_that_nearly_all_have_are_asked_only_about_what_others_brought() {
    let mut rng = ChaCha8Rng::seed_from_u64(4);
    let mut library = Library::new(&mut rng, 40_000, 20_000.0, 6, 40);
    library.index.seal();
    let words = library.known("w0 w1 w2 w9000 w9001 w9002 w9003 w9004 w9005 w9006 w9007 w9008 w9009");
    let terms = library.index.terms(&words, library.collection);
    let weigh = Weigh::new(library.collection);
    let mut asked = 0;
    let all = |_| {
        asked += 1;
        true
    };
    prune::candidates(&terms, &library.index.lengths, weigh, 20, all);
    let having: u64 = words.iter().map(|(_, having)| having).sum();
    assert!(having > 20 * asked, "{asked} of {having} were looked at");
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
}
