//! Similarity of texts by the words they share, rare ones first: the plainest recall there is.

use std::collections::{BTreeMap, BTreeSet};

use upliftmem_core::{Memory, MemoryId};

/// Texts of memories, ready to be compared with the text of a task. TF-IDF and cosine.
#[derive(Debug, Clone)]
pub struct LexicalIndex {
    rarity: BTreeMap<String, f64>,
    memories: Vec<(MemoryId, BTreeMap<String, f64>)>,
}

impl LexicalIndex {
    /// Indexes the memories.
    pub fn new(memories: &[Memory]) -> Self {
        let mut holding: BTreeMap<String, f64> = BTreeMap::new();
        for memory in memories {
            for word in words(&memory.text).collect::<BTreeSet<_>>() {
                *holding.entry(word).or_default() += 1.0;
            }
        }
        let count = memories.len() as f64;
        let rarity: BTreeMap<String, f64> = holding
            .into_iter()
            .map(|(word, holding)| (word, ((1.0 + count) / (1.0 + holding)).ln()))
            .collect();
        let memories = memories
            .iter()
            .map(|memory| (memory.id, direction(&rarity, &memory.text)))
            .collect();
        Self { rarity, memories }
    }

    /// The `count` most similar memories with their similarity, most similar first; of equals the older first.
    pub fn recall(&self, text: &str, count: usize) -> Vec<(MemoryId, f64)> {
        let query = direction(&self.rarity, text);
        let mut ranked: Vec<(MemoryId, f64)> = self
            .memories
            .iter()
            .map(|(id, memory)| {
                let similarity = query
                    .iter()
                    .filter_map(|(word, weight)| memory.get(word).map(|other| weight * other))
                    .sum();
                (*id, similarity)
            })
            .collect();
        ranked.sort_by(|left, right| right.1.total_cmp(&left.1).then(left.0.cmp(&right.0)));
        ranked.truncate(count);
        ranked
    }
}

fn words(text: &str) -> impl Iterator<Item = String> {
    text.split(|letter: char| !letter.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
}

/// The text as a unit vector over known words.
fn direction(rarity: &BTreeMap<String, f64>, text: &str) -> BTreeMap<String, f64> {
    let mut weights: BTreeMap<String, f64> = BTreeMap::new();
    for word in words(text) {
        if let Some(&rarity) = rarity.get(&word) {
            *weights.entry(word).or_default() += rarity;
        }
    }
    let length = weights.values().map(|weight| weight * weight).sum::<f64>().sqrt();
    if length > 0.0 {
        for weight in weights.values_mut() {
            *weight /= length;
        }
    }
    weights
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(id: u128, text: &str) -> Memory {
        Memory {
            id: MemoryId::from_u128(id),
            text: text.into(),
            tokens: 1,
            source_task: None,
            metadata: Default::default(),
        }
    }

    #[test]
    fn shared_rare_words_count_most_and_ties_keep_the_order_of_creation() {
        let index = LexicalIndex::new(&[
            memory(1, "the kettle in the kitchen"),
            memory(2, "The hose in the garden"),
            memory(3, "the shed in the garden"),
        ]);
        let ranked = index.recall("Where in the garden is the HOSE?", 3);
        let ids: Vec<_> = ranked.iter().map(|(id, _)| id.as_u128()).collect();
        assert_eq!(ids, [2, 3, 1]);
        assert!(ranked[0].1 > ranked[1].1 && ranked[1].1 > ranked[2].1);
        let unrelated = index.recall("zebra", 2);
        assert_eq!(unrelated.len(), 2);
        assert_eq!(unrelated[0].0, MemoryId::from_u128(1));
    }
}
