//! Text as a vector of hashed words, rare words weighing more: a stand-in for static word embeddings.

use std::collections::{BTreeMap, BTreeSet};

use upliftmem_scorer::{Embedding, Result};

/// Entries of the vector.
const DIMENSION: usize = 384;
/// Entries that one word touches.
const SPREAD: u64 = 6;

/// Embeds texts of one corpus.
#[derive(Debug, Clone)]
pub struct HashedWords {
    rarity: BTreeMap<String, f32>,
    unknown: f32,
}

impl HashedWords {
    /// Counts in how many texts each word occurs.
    pub fn new<'a>(texts: impl Iterator<Item = &'a str>) -> Self {
        let mut holding: BTreeMap<String, f32> = BTreeMap::new();
        let mut count = 0.0;
        for text in texts {
            count += 1.0;
            for word in words(text).collect::<BTreeSet<_>>() {
                *holding.entry(word).or_default() += 1.0;
            }
        }
        let rarity = |holding: f32| ((1.0 + count) / (1.0 + holding)).ln();
        Self {
            unknown: rarity(0.0),
            rarity: holding.into_iter().map(|(word, n)| (word, rarity(n))).collect(),
        }
    }

    /// The text's embedding.
    pub fn embed(&self, text: &str) -> Result<Embedding> {
        let mut sums = vec![0.0_f32; DIMENSION];
        for word in words(text) {
            let weight = self.rarity.get(&word).copied().unwrap_or(self.unknown);
            let mut hash = word.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
            });
            for _ in 0..SPREAD {
                hash = (hash ^ (hash >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                hash ^= hash >> 32;
                let sign = if hash >> 63 == 1 { weight } else { -weight };
                sums[(hash % DIMENSION as u64) as usize] += sign;
            }
        }
        // A text without words still needs a direction.
        if sums.iter().all(|&sum| sum == 0.0) {
            sums[0] = 1.0;
        }
        Ok(Embedding::new(&sums)?)
    }
}

fn words(text: &str) -> impl Iterator<Item = String> {
    text.split(|letter: char| !letter.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
}
