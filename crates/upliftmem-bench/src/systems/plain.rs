//! No memory, and memories by lot: what every system has to beat.

use std::collections::BTreeSet;

use rand::{SeedableRng, seq::index};
use rand_chacha::ChaCha8Rng;

use super::{MemorySystem, Query, Sources};

/// A store that is drawn from by lot, if at all.
pub struct ByLot {
    texts: Vec<String>,
}

/// ReAct: no memory.
pub fn no_memory() -> ByLot {
    ByLot { texts: Vec::new() }
}

/// Any memories.
pub fn random(sources: Sources<'_>) -> ByLot {
    ByLot {
        texts: lesson_pool(sources),
    }
}

/// All lessons of all experiences, each text once: the pool of the plain retrievers, and UpliftMem's own.
pub fn lesson_pool(sources: Sources<'_>) -> Vec<String> {
    let mut known = BTreeSet::new();
    let lessons = sources
        .experiences
        .iter()
        .flat_map(|experience| sources.suite.lessons(experience));
    lessons
        .map(|lesson| lesson.text)
        .filter(|text| known.insert(text.clone()))
        .collect()
}

impl MemorySystem for ByLot {
    fn memories(&self) -> &[String] {
        &self.texts
    }

    fn retrieve(&self, query: &Query<'_>, count: usize) -> Vec<usize> {
        let mut rng = ChaCha8Rng::seed_from_u64(query.seed);
        index::sample(&mut rng, self.texts.len(), count.min(self.texts.len())).into_vec()
    }
}
