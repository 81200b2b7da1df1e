//! WebShop as a suite: the paper's partition, the scripted customer, lessons of purchases.

mod executor;
mod lessons;

use std::{path::Path, sync::Arc};

use rand::{SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;
use sha2::{Digest, Sha256};
use upliftmem_agent::Executor;
use upliftmem_core::Task;
use upliftmem_engine::UtilitySettings;

use super::{Experience, Lesson, Part, Partition, Suite};
use crate::{
    protocol::Sizes,
    webshop::{ACTIONS_MAX, LoadError, Shop, TEST_GOALS, WebShop},
};

pub use executor::WebshopExecutor;

/// Which training goals are taken does not depend on a run's seed: the partition is part of the benchmark.
const PARTITION_SEED: u64 = 42;
/// Goals that decide between checkpoints. Paper: sec. RQ4.
const VALIDATION: usize = 200;

/// WebShop with the scripted customer.
pub struct WebshopSuite {
    executor: Arc<WebshopExecutor>,
    partition: Partition,
}

impl WebshopSuite {
    /// Reads the shop and parts its goals: the official test goals for the evaluation, and of the others, by lot, seed,
    /// runtime and validation tasks.
    ///
    /// # Errors
    /// The catalogue can not be read.
    pub fn load(folder: &Path, sizes: &Sizes) -> Result<Self, LoadError> {
        let shop = Arc::new(Shop::load(folder)?);
        let mut hash = Sha256::new();
        for goal in shop.goals() {
            hash.update(goal.asin.as_bytes());
            hash.update(goal.instruction.as_bytes());
        }
        let environment = WebShop::new(Arc::clone(&shop));
        let mut test: Vec<Task> = environment.tasks().collect();
        let mut train = test.split_off(TEST_GOALS.min(test.len()));
        test.truncate(sizes.evaluation.unwrap_or(usize::MAX));
        train.shuffle(&mut ChaCha8Rng::seed_from_u64(PARTITION_SEED));
        let mut train = train.into_iter();
        Ok(Self {
            partition: Partition {
                seed: train.by_ref().take(sizes.seed).collect(),
                runtime: train.by_ref().take(sizes.runtime).collect(),
                validation: train.take(VALIDATION).collect(),
                evaluation: vec![Part {
                    name: "test".to_owned(),
                    tasks: test,
                }],
                digest: hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect(),
            },
            executor: Arc::new(WebshopExecutor::new(shop)),
        })
    }
}

impl Suite for WebshopSuite {
    fn name(&self) -> &'static str {
        "webshop"
    }

    fn agent(&self) -> &'static str {
        "scripted customer"
    }

    fn executor(&self) -> Arc<dyn Executor> {
        Arc::clone(&self.executor) as Arc<dyn Executor>
    }

    fn partition(&self) -> &Partition {
        &self.partition
    }

    fn utility(&self) -> UtilitySettings {
        UtilitySettings {
            cost_max: ACTIONS_MAX as f64,
            ..UtilitySettings::default()
        }
    }

    fn is_graded(&self) -> bool {
        true
    }

    fn memories_max(&self) -> usize {
        5
    }

    fn lessons(&self, experience: &Experience) -> Vec<Lesson> {
        lessons::lessons(experience)
    }

    fn transcript(&self, experience: &Experience) -> String {
        lessons::transcript(experience)
    }
}
