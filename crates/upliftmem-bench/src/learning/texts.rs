//! How texts become vectors.

use std::sync::Arc;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use upliftmem_core::Task;
use upliftmem_scorer::{
    Embedding, Result, ScorerError,
    embedder::{Embedder, EmbedderError},
};

use crate::worlds::World;

/// Entries of a vector that tells the structure of a world.
const TOLD_DIMENSION: usize = 256;

/// Where vectors come from.
#[derive(Clone)]
pub enum Texts {
    /// From the texts.
    Read(Arc<dyn Embedder>),
    /// From the truth: the facts that a task turns on and that a memory speaks of, but not what it does about them. No
    /// retriever can know this; what it reaches says how much is lost by reading texts.
    Told,
}

impl Texts {
    pub(super) fn of_tasks(&self, world: &World, tasks: &[&Task]) -> Result<Vec<Embedding>> {
        match self {
            Self::Read(embedder) => {
                let texts: Vec<&str> = tasks.iter().map(|task| task.context.as_str()).collect();
                embedder.embed(&texts).map_err(failed)
            }
            Self::Told => tasks
                .iter()
                .map(|task| told(&world.facts_of_task(task)?, task.id.as_u128()))
                .collect(),
        }
    }

    pub(super) fn of_memories(&self, world: &World) -> Result<Vec<Embedding>> {
        match self {
            Self::Read(embedder) => {
                let memories = world.memories().iter();
                let texts: Vec<&str> = memories.map(|memory| memory.text.as_str()).collect();
                embedder.embed(&texts).map_err(failed)
            }
            Self::Told => world
                .memories()
                .iter()
                .map(|memory| told(&world.facts_of_memory(memory.id)?, memory.id.as_u128()))
                .collect(),
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the shape that map_err wants")]
fn failed(error: EmbedderError) -> ScorerError {
    ScorerError::Numerical {
        step: "embedding texts",
        problem: error.to_string(),
    }
}

/// The sum of a random direction for each fact; who has none gets a direction of its own.
fn told(facts: &[u32], own: u128) -> Result<Embedding> {
    let mut sums = vec![0.0_f32; TOLD_DIMENSION];
    let mut add = |seed: u64| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        for sum in &mut sums {
            *sum += rng.random_range(-1.0..1.0_f32);
        }
    };
    if facts.is_empty() {
        #[expect(clippy::cast_possible_truncation, reason = "any bits will do")]
        add(own as u64);
    }
    for &fact in facts {
        add(u64::from(fact));
    }
    Ok(Embedding::new(&sums)?)
}
