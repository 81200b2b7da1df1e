//! WebShop as a suite: the paper's partition, the scripted customer, lessons of purchases.

mod lessons;

use std::{collections::BTreeMap, path::Path, sync::Arc};

use rand::{SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;
use sha2::{Digest, Sha256};
use upliftmem_agent::{
    ExecutionRequest, Turn,
    prompts::{ActStyle, Domain},
};
use upliftmem_core::Task;
use upliftmem_engine::UtilitySettings;

use super::{
    Acting, Experience, Lesson, Part, Partition, Suite,
    agents::{Actor, Role, ScriptedAgent},
};
use crate::{
    protocol::Sizes,
    webshop::{ACTIONS_MAX, Customer, LoadError, Shop, Sight, TEST_GOALS, WebShop},
};

/// Which training goals are taken does not depend on a run's seed: the partition is part of the benchmark.
const PARTITION_SEED: u64 = 42;
/// Goals that decide between checkpoints. Paper: sec. RQ4.
const VALIDATION: usize = 200;

const ROLE: Role = Role {
    style: ActStyle::Webshop,
    scripted_name: "webshop:scripted-1",
    scripted_title: "scripted customer",
    scripted: customer,
    actions_max: ACTIONS_MAX,
    failure_costs_all: false,
};

/// WebShop, with the scripted customer unless another is to act.
pub struct WebshopSuite {
    environment: WebShop,
    actor: Actor,
    partition: Partition,
}

fn customer(request: &ExecutionRequest) -> Box<dyn ScriptedAgent> {
    let texts = request.memories.iter().map(|memory| memory.text.as_str());
    Box::new(Customer::new(texts, request.seed))
}

impl ScriptedAgent for Customer {
    fn act(&mut self, turn: &Turn) -> Option<String> {
        Self::act(
            self,
            Sight {
                observation: &turn.observation,
                actions: turn.actions.as_deref().unwrap_or_default(),
            },
        )
    }
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
        let environment = WebShop::new(shop);
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
            actor: Actor::scripted(ROLE, environment.clone()),
            environment,
        })
    }

    /// The same with someone else to act, or another place to act in.
    ///
    /// # Errors
    /// What a model does can not be kept.
    pub fn acted_by(mut self, acting: Acting) -> std::io::Result<Self> {
        self.actor = Actor::new(ROLE, self.environment.clone(), acting, BTreeMap::new())?;
        Ok(self)
    }
}

impl Suite for WebshopSuite {
    fn name(&self) -> &'static str {
        "webshop"
    }

    fn actor(&self) -> &Actor {
        &self.actor
    }

    fn domain(&self) -> Domain {
        Domain::Webshop
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

    fn member_cost(&self) -> f64 {
        0.02
    }

    fn lessons(&self, experience: &Experience) -> Vec<Lesson> {
        lessons::lessons(experience)
    }

    fn transcript(&self, experience: &Experience) -> Option<String> {
        Some(lessons::transcript(experience))
    }
}
