//! Vectors without a model: words and pieces of words, counted at places that a hash chooses.
//!
//! Texts are close if they share words or spellings; synonyms are strangers. It needs no file and no network.

use sha2::{Digest, Sha256};
use unicode_normalization::UnicodeNormalization;
use upliftmem_core::InvalidInput;

use super::{Embedder, Generation, Result, direction, head};
use crate::Embedding;

/// Entries of a vector unless asked otherwise.
const DIMENSION: usize = 512;
/// Lengths of the pieces of a word, its two edges counted as characters.
const PIECES: std::ops::RangeInclusive<usize> = 3..=4;
/// Stand before the first and after the last character of a word, so that pieces know where they are.
const EDGES: (char, char) = ('\u{2}', '\u{3}');
/// A word of so many characters counts fully, a shorter one less: short words are mostly grammar.
const FULL_LENGTH: usize = 6;
/// What a word of [`GRAMMAR`] weighs of that.
const GRAMMAR_WEIGHT: f32 = 0.15;
/// English words, sorted, that say how things are asked and told and hardly what about. Short words of other languages weigh
/// little by their length.
const GRAMMAR: [&str; 174] = [
    "a",
    "about",
    "across",
    "after",
    "again",
    "against",
    "all",
    "along",
    "already",
    "also",
    "although",
    "always",
    "am",
    "an",
    "and",
    "any",
    "anything",
    "are",
    "around",
    "as",
    "at",
    "back",
    "be",
    "because",
    "been",
    "before",
    "being",
    "between",
    "both",
    "but",
    "by",
    "can",
    "could",
    "did",
    "do",
    "does",
    "doing",
    "done",
    "down",
    "during",
    "each",
    "even",
    "ever",
    "every",
    "everything",
    "few",
    "first",
    "for",
    "from",
    "get",
    "got",
    "had",
    "has",
    "have",
    "having",
    "he",
    "help",
    "her",
    "here",
    "him",
    "his",
    "how",
    "i",
    "if",
    "in",
    "into",
    "is",
    "it",
    "its",
    "just",
    "keep",
    "last",
    "let",
    "like",
    "made",
    "make",
    "many",
    "may",
    "me",
    "might",
    "more",
    "most",
    "much",
    "must",
    "my",
    "need",
    "needs",
    "never",
    "new",
    "no",
    "nor",
    "not",
    "nothing",
    "now",
    "of",
    "off",
    "often",
    "on",
    "once",
    "one",
    "only",
    "or",
    "other",
    "our",
    "out",
    "over",
    "own",
    "please",
    "same",
    "shall",
    "she",
    "should",
    "since",
    "so",
    "some",
    "somebody",
    "someone",
    "something",
    "still",
    "such",
    "take",
    "than",
    "that",
    "the",
    "their",
    "them",
    "then",
    "there",
    "these",
    "they",
    "thing",
    "things",
    "this",
    "those",
    "though",
    "through",
    "to",
    "today",
    "too",
    "two",
    "under",
    "until",
    "up",
    "upon",
    "us",
    "use",
    "used",
    "using",
    "very",
    "want",
    "wants",
    "was",
    "way",
    "we",
    "well",
    "were",
    "what",
    "whatever",
    "when",
    "where",
    "which",
    "while",
    "who",
    "whom",
    "whose",
    "why",
    "will",
    "with",
    "within",
    "without",
    "would",
    "yet",
    "you",
    "your",
];
/// Keep the hashes of words and of pieces apart.
const WORD: u64 = 1;
const PIECE: u64 = 2;

/// Hashed words and pieces of words.
///
/// Each feature adds its weight times `1 + ln(count)` to one entry, with a sign from its hash, so that collisions cancel on
/// average. A word weighs by its length, a word of grammar little, and all its pieces together (as squares) as much as the word. Texts are
/// compared without case, accents, typographic variants and the order of words: pairs of words were measured and did not
/// help.
#[derive(Debug, Clone)]
pub struct HashEmbedder {
    generation: Generation,
}

impl HashEmbedder {
    /// With another number of entries than the default, 512: fewer save memory, more collide less.
    pub fn new(dimension: usize) -> Result<Self> {
        if !(16..=65_536).contains(&dimension) {
            return Err(
                InvalidInput::new("dimension", format_args!("{dimension} is outside [16, 65536]")).into(),
            );
        }
        Ok(Self::of(dimension))
    }

    fn of(dimension: usize) -> Self {
        let method = Sha256::new_with_prefix(format!("hash 2 {dimension}"));
        Self {
            generation: Generation::new("hash", dimension, method),
        }
    }

    fn one(&self, text: &str) -> Result<Embedding> {
        let mut features = features(&normalised(head(text, usize::MAX)));
        // Equal features come together: counting needs no map, and the order of sums is fixed.
        features.sort_unstable_by(|left, right| left.0.cmp(&right.0).then(left.1.total_cmp(&right.1)));
        let mut values = vec![0.0_f32; self.generation.dimension];
        for equal in features.chunk_by(|left, right| left.0 == right.0) {
            let hash = equal[0].0;
            let count = equal.len() as f32;
            // A piece weighs differently in different words.
            let weight = equal.iter().map(|&(_, weight)| weight).sum::<f32>() / count;
            #[expect(
                clippy::cast_possible_truncation,
                reason = "the remainder is below the dimension"
            )]
            let place = (hash % values.len() as u64) as usize;
            let sign = if hash >> 63 == 0 { 1.0 } else { -1.0 };
            values[place] += sign * weight * (1.0 + count.ln());
        }
        direction(&values)
    }
}

impl Default for HashEmbedder {
    fn default() -> Self {
        Self::of(DIMENSION)
    }
}

impl Embedder for HashEmbedder {
    fn generation(&self) -> &Generation {
        &self.generation
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Embedding>> {
        texts.iter().map(|text| self.one(text)).collect()
    }
}

/// Lower case, compatibility forms taken apart, accents dropped.
fn normalised(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let accent = |character: &char| ('\u{300}'..='\u{36f}').contains(character);
    for character in text.nfkd().filter(|character| !accent(character)) {
        for lower in character.to_lowercase().filter(|character| !accent(character)) {
            match lower {
                'ß' => out.push_str("ss"),
                'ς' => out.push('σ'),
                other => out.push(other),
            }
        }
    }
    out
}

/// Hash and weight of every feature of a text, as often as it occurs.
fn features(text: &str) -> Vec<(u64, f32)> {
    let mut features = Vec::with_capacity(4 * text.len());
    let mut characters = Vec::new();
    for word in words(text) {
        characters.clear();
        characters.push(EDGES.0);
        characters.extend(word.chars());
        characters.push(EDGES.1);
        let length = characters.len() - 2;
        let mut weight = length.min(FULL_LENGTH) as f32 / FULL_LENGTH as f32;
        if GRAMMAR.binary_search(&word).is_ok() {
            weight *= GRAMMAR_WEIGHT;
        }
        features.push((hash(WORD, &characters), weight));
        let first = features.len();
        for pieces in PIECES {
            // A piece that is the whole word says nothing new.
            if pieces < characters.len() {
                features.extend(
                    characters
                        .windows(pieces)
                        .map(|piece| (hash(PIECE, piece), weight)),
                );
            }
        }
        let share = 1.0 / ((features.len() - first) as f32).sqrt();
        for (_, weight) in &mut features[first..] {
            *weight *= share;
        }
    }
    features
}

/// Runs of letters and digits, and runs of anything else that can be seen: code and emoji are content too.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|character: char| character.is_whitespace() || character.is_control())
        .flat_map(|run| {
            let mut rest = run;
            std::iter::from_fn(move || {
                let letters = rest.chars().next()?.is_alphanumeric();
                let end = rest
                    .find(|character: char| character.is_alphanumeric() != letters)
                    .unwrap_or(rest.len());
                let (word, others) = rest.split_at(end);
                rest = others;
                Some(word)
            })
        })
}

fn hash(family: u64, characters: &[char]) -> u64 {
    mix(characters.iter().fold(family, |state, &character| {
        (state ^ u64::from(u32::from(character)))
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(23)
    }))
}

/// Spreads every bit over all bits (the finaliser of splitmix64).
pub(crate) fn mix(state: u64) -> u64 {
    let state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cosine(left: &str, right: &str) -> f32 {
        let vectors = HashEmbedder::default().embed(&[left, right]).unwrap();
        let products = vectors[0].values().iter().zip(vectors[1].values());
        products.map(|(left, right)| left * right).sum()
    }

    #[test]
    fn writing_the_same_differently_changes_nothing() {
        for (left, right) in [
            ("Restart the Database", "restart  THE\tdatabase"),
            ("café", "cafe\u{301}"),
            ("Fluß", "FLUSS"),
            ("ΣΊΣΥΦΟΣ", "σίσυφος"),
            ("ＡＢＣ ﬁne", "abc fine"),
            ("İstanbul", "istanbul"),
        ] {
            assert!(
                cosine(left, right) > 0.999_9,
                "{left:?} {right:?}: {}",
                cosine(left, right)
            );
        }
    }

    #[test]
    fn shared_words_and_spellings_bring_texts_together() {
        let same = cosine("restart the database", "restarting databases");
        let other = cosine("restart the database", "boil two eggs");
        assert!(same > other + 0.2, "{same} {other}");
        let order = cosine("the dog bites the man", "the man bites the dog");
        assert!(order > 0.999, "{order}");
        let inner = cosine("misconfiguration", "configuration");
        assert!(inner > 0.3, "{inner}");
        let grammar = cosine(
            "what is it that we have on the table",
            "is that what we have on it",
        );
        let content = cosine("the table", "a table");
        assert!(content > grammar, "{content} {grammar}");
    }

    #[test]
    fn code_and_pictures_are_content() {
        assert!(cosine("a += b", "a -= b") < 0.999);
        assert!(cosine("🚀", "🚀 🚀") > 0.7);
        assert!(cosine("🚀", "😀").abs() < 0.5);
        assert!(cosine("", " \n").abs() > 0.999, "nothing is like nothing");
        assert!(cosine("", "restart the database").abs() < 0.2);
    }

    #[test]
    fn the_words_of_a_text() {
        let found: Vec<&str> = words("if a1+=b {x} 数据").collect();
        assert_eq!(found, ["if", "a1", "+=", "b", "{", "x", "}", "数据"]);
    }

    #[test]
    fn words_of_grammar_are_sorted_and_weigh_little() {
        assert!(GRAMMAR.is_sorted_by(|left, right| left < right));
        let about = cosine(
            "could you please wash the plates",
            "the plates must be washed before",
        );
        let manner = cosine("could you please wash the plates", "could you please open a port");
        assert!(about > manner + 0.4, "{about} {manner}");
    }

    #[test]
    fn the_dimension_is_bounded_and_part_of_the_generation() {
        assert!(HashEmbedder::new(15).is_err() && HashEmbedder::new(65_537).is_err());
        let small = HashEmbedder::new(64).unwrap();
        assert_eq!(small.embed(&["text"]).unwrap()[0].dimension(), 64);
        assert_ne!(small.generation(), HashEmbedder::default().generation());
    }

    #[test]
    fn the_vectors_never_change() {
        // Stored vectors outlive the program: a change here needs a new method number in the generation.
        let vector = HashEmbedder::new(16)
            .unwrap()
            .embed(&["Restart the database"])
            .unwrap();
        let rounded: Vec<i32> = vector[0]
            .values()
            .iter()
            .map(|value| (value * 1000.0).round() as i32)
            .collect();
        assert_eq!(rounded, GOLDEN);
    }

    const GOLDEN: [i32; 16] = [
        23, 203, 380, 36, 305, 177, -367, 177, 13, -354, 0, -457, -354, -23, 177, 177,
    ];

    proptest! {
        #[test]
        fn any_text_has_a_vector_of_length_one(texts in prop::collection::vec(any::<String>(), 0..5)) {
            let embedder = HashEmbedder::default();
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let together = embedder.embed(&texts).unwrap();
            for (text, vector) in texts.iter().zip(&together) {
                let norm: f32 = vector.values().iter().map(|value| value * value).sum();
                prop_assert!((norm - 1.0).abs() < 1e-5);
                prop_assert_eq!(&embedder.embed(&[text]).unwrap()[0], vector);
            }
        }
    }
}
