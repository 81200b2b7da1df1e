//! What a learned retriever has to beat. Each takes the memories that recall offers, most similar first.

use std::collections::BTreeMap;

use upliftmem_core::{MemoryId, MemorySet, Uplift};

/// Never any memory.
pub const fn no_memory() -> MemorySet {
    MemorySet::EMPTY
}

/// The `count` most similar memories, whatever they do.
pub fn similarity_top(ranked: &[MemoryId], count: usize) -> MemorySet {
    ranked.iter().take(count).copied().collect()
}

/// The mean outcome of each memory, every member of a set being credited with the whole of its uplift, as outcome-based
/// retrievers without a notion of sets do.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SharedCredit {
    credits: BTreeMap<MemoryId, (f64, f64)>,
}

impl SharedCredit {
    /// How many of the most similar memories are considered.
    pub const CONSIDERED: usize = 20;
    /// How many of those are taken at most.
    pub const TAKEN: usize = 3;

    /// Credits every member with the uplift of the set.
    pub fn observe(&mut self, set: &MemorySet, uplift: Uplift) {
        for &id in set {
            let (sum, count) = self.credits.entry(id).or_default();
            *sum += uplift.get();
            *count += 1.0;
        }
    }

    /// The mean uplift of a memory, with one pseudo-observation of zero.
    pub fn value(&self, id: MemoryId) -> f64 {
        self.credits
            .get(&id)
            .map_or(0.0, |(sum, count)| sum / (count + 1.0))
    }

    /// The best three of the twenty most similar, as far as they have helped so far. Equals stay in order of similarity.
    pub fn choose(&self, ranked: &[MemoryId]) -> MemorySet {
        let mut helpful: Vec<(f64, MemoryId)> = ranked
            .iter()
            .take(Self::CONSIDERED)
            .map(|&id| (self.value(id), id))
            .filter(|(value, _)| *value > 0.0)
            .collect();
        helpful.sort_by(|left, right| right.0.total_cmp(&left.0));
        helpful.iter().take(Self::TAKEN).map(|&(_, id)| id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(bits: &[u128]) -> Vec<MemoryId> {
        bits.iter().map(|&bits| MemoryId::from_u128(bits)).collect()
    }

    fn set(bits: &[u128]) -> MemorySet {
        ids(bits).into_iter().collect()
    }

    #[test]
    fn similarity_takes_the_first() {
        assert_eq!(similarity_top(&ids(&[5, 2, 9]), 2), set(&[2, 5]));
        assert_eq!(similarity_top(&ids(&[5]), 2), set(&[5]));
        assert_eq!(similarity_top(&[], 2), no_memory());
    }

    #[test]
    fn credit_is_shared_and_only_what_helped_is_taken() {
        let mut credit = SharedCredit::default();
        let uplift = |value| Uplift::new(value).unwrap();
        credit.observe(&set(&[1, 2]), uplift(1.0));
        credit.observe(&set(&[2, 3]), uplift(-0.4));
        credit.observe(&set(&[4]), uplift(0.1));
        credit.observe(&set(&[5]), uplift(0.2));
        for (id, value) in [(1, 0.5), (2, 0.2), (3, -0.2), (4, 0.05), (5, 0.1), (6, 0.0)] {
            assert!((credit.value(MemoryId::from_u128(id)) - value).abs() < 1e-15);
        }
        assert_eq!(credit.choose(&ids(&[6, 5, 4, 3, 2, 1])), set(&[1, 2, 5]));
        assert_eq!(credit.choose(&ids(&[3, 6])), no_memory());
        let far: Vec<MemoryId> = ids(&(10..30).collect::<Vec<_>>())
            .into_iter()
            .chain(ids(&[1]))
            .collect();
        assert_eq!(credit.choose(&far), no_memory());
    }
}
