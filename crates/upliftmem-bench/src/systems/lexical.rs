//! Retrieval by words: BM25 over lessons.

use std::collections::BTreeMap;

use super::{MemorySystem, Query, Sources, plain::lesson_pool};

/// How soon a repeated word stops to count, and how much long texts are held back.
const SATURATION: f64 = 1.2;
const LENGTH_WEIGHT: f64 = 0.75;

/// BM25 with the usual constants.
pub(super) struct Lexical {
    texts: Vec<String>,
    lengths: Vec<f64>,
    mean_length: f64,
    /// For each word: in which texts it is, and how often.
    postings: BTreeMap<String, Vec<(usize, f64)>>,
}

impl Lexical {
    pub(super) fn build(sources: Sources<'_>) -> Self {
        Self::of(lesson_pool(sources))
    }

    fn of(texts: Vec<String>) -> Self {
        let mut postings: BTreeMap<String, Vec<(usize, f64)>> = BTreeMap::new();
        let mut lengths = Vec::with_capacity(texts.len());
        for (place, text) in texts.iter().enumerate() {
            let mut counts: BTreeMap<String, f64> = BTreeMap::new();
            for word in words(text) {
                *counts.entry(word).or_default() += 1.0;
            }
            lengths.push(counts.values().sum());
            for (word, count) in counts {
                postings.entry(word).or_default().push((place, count));
            }
        }
        let mean_length = lengths.iter().sum::<f64>() / (lengths.len().max(1) as f64);
        Self {
            texts,
            lengths,
            mean_length: mean_length.max(1.0),
            postings,
        }
    }

    fn rank(&self, query: &str, count: usize) -> Vec<usize> {
        let mut scores: BTreeMap<usize, f64> = BTreeMap::new();
        let total = self.texts.len() as f64;
        for word in words(query) {
            let Some(postings) = self.postings.get(&word) else {
                continue;
            };
            let holding = postings.len() as f64;
            let rarity = (1.0 + (total - holding + 0.5) / (holding + 0.5)).ln();
            for &(place, often) in postings {
                let length = 1.0 - LENGTH_WEIGHT + LENGTH_WEIGHT * self.lengths[place] / self.mean_length;
                *scores.entry(place).or_default() +=
                    rarity * often * (SATURATION + 1.0) / (often + SATURATION * length);
            }
        }
        let mut ranked: Vec<(usize, f64)> = scores.into_iter().collect();
        ranked.sort_by(|left, right| right.1.total_cmp(&left.1).then(left.0.cmp(&right.0)));
        ranked.into_iter().take(count).map(|(place, _)| place).collect()
    }
}

impl MemorySystem for Lexical {
    fn memories(&self) -> &[String] {
        &self.texts
    }

    fn retrieve(&self, query: &Query<'_>, count: usize) -> Vec<usize> {
        self.rank(&query.task.context, count)
    }
}

/// Words in lower case, without the ending of a plural.
fn words(text: &str) -> impl Iterator<Item = String> {
    text.split(|letter: char| !letter.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(|word| {
            let word = word.to_lowercase();
            match word.strip_suffix('s') {
                Some(stem) if stem.len() > 2 && !stem.ends_with('s') => stem.to_owned(),
                _ => word,
            }
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rare_words_and_short_texts_come_first() {
        let texts = [
            "Mugs are in the cabinet.",
            "Books are in the desk.",
            "A mug was not in the desk, nor in a drawer.",
        ];
        let index = Lexical::of(texts.map(String::from).to_vec());
        assert_eq!(index.rank("MUG, shelf", 2), [0, 2]);
        assert_eq!(index.rank("zebra", 5), [0_usize; 0]);
        assert_eq!(Lexical::of(Vec::new()).rank("mug", 5), [0_usize; 0]);
    }
}
