//! Synthetic worlds of known truth: tasks, memories, and an agent whose true utility can be computed.
//!
//! A [`World`] is drawn from a seed. It can be executed, with noise, as any agent can, and unlike any agent it can be
//! asked for the expected utility of a task with a set, and for the best set there is. Each kind of world has one reason
//! for which similarity is not enough; its module says which. What makes an execution succeed is in `truth` and
//! `execution`: a noisy skill graph, in which effects do not add up.
//!
//! ```
//! use upliftmem_bench::worlds::{World, WorldKind};
//! use upliftmem_core::MemorySet;
//!
//! let world = World::generate(WorldKind::LookAlikes, 7)?;
//! let task = &world.test_tasks()[0];
//! let alone = world.expected_utility(task, &MemorySet::EMPTY)?;
//! let everything: Vec<_> = world.memories().iter().map(|memory| memory.id).collect();
//! let best = world.best_set(task, &everything, 5)?;
//! assert!(best.utility >= alone);
//! let (performance, cost) = world.execute(task, &best.set, 1)?;
//! world.utility_rule().utility(performance, cost)?;
//! # Ok::<(), upliftmem_core::InvalidInput>(())
//! ```

mod builder;
mod crowding;
mod drift;
mod execution;
mod graded;
mod look_alikes;
mod mixed;
mod oracle;
mod plan;
mod prose;
mod recipes;
mod routes;
mod self_reliant;
mod sub_types;
mod truth;
mod versions;
mod words;

use std::{collections::BTreeMap, fmt, str::FromStr};

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use upliftmem_core::{
    Cost, InvalidInput, Memory, MemoryId, MemorySet, Performance, Result, Task, TaskId, UtilityRule,
};

pub use oracle::BestSet;

use self::{
    builder::Builder,
    execution::Habits,
    truth::{Effect, MemoryTruth, TaskTruth},
};

/// What a world is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorldKind {
    /// Half a recipe is worse than none, two recipes at once are worse than one.
    Recipes,
    /// What is most similar to a task makes it fail.
    LookAlikes,
    /// Half of the families need no help.
    SelfReliant,
    /// What was right becomes wrong half-way.
    Drift,
    /// Two versions of one note, one of them outdated.
    Versions,
    /// Every part of a task counts, and notes give and take.
    Graded,
    /// One of several routes will do, or two of four clues.
    Routes,
    /// What helps one kind of job harms its neighbour.
    SubTypes,
    /// Many long notes that say the same.
    Crowding,
    /// A bit of everything.
    Mixed,
}

impl WorldKind {
    /// Every kind.
    pub const ALL: [Self; 10] = [
        Self::Recipes,
        Self::LookAlikes,
        Self::SelfReliant,
        Self::Drift,
        Self::Versions,
        Self::Graded,
        Self::Routes,
        Self::SubTypes,
        Self::Crowding,
        Self::Mixed,
    ];

    /// The name that commands and reports use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Recipes => "recipes",
            Self::LookAlikes => "look_alikes",
            Self::SelfReliant => "self_reliant",
            Self::Drift => "drift",
            Self::Versions => "versions",
            Self::Graded => "graded",
            Self::Routes => "routes",
            Self::SubTypes => "sub_types",
            Self::Crowding => "crowding",
            Self::Mixed => "mixed",
        }
    }
}

impl fmt::Display for WorldKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

impl FromStr for WorldKind {
    type Err = InvalidInput;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.name() == text)
            .ok_or_else(|| {
                let names = Self::ALL.map(Self::name).join(", ");
                InvalidInput::new("world", format_args!("{text:?} is not one of {names}"))
            })
    }
}

/// One world, drawn from a seed.
#[derive(Debug, Clone)]
pub struct World {
    kind: WorldKind,
    seed: u64,
    memories: Vec<Memory>,
    train: Vec<Task>,
    test: Vec<Task>,
    memory_truths: BTreeMap<MemoryId, MemoryTruth>,
    task_truths: BTreeMap<TaskId, TaskTruth>,
    habits: Habits,
    utility_rule: UtilityRule,
}

impl World {
    /// The world of this kind and seed; the same every time.
    pub fn generate(kind: WorldKind, seed: u64) -> Result<Self> {
        let (plan, family): (_, fn(&mut Builder, prose::Place)) = match kind {
            WorldKind::Recipes => (recipes::PLAN, recipes::family),
            WorldKind::LookAlikes => (look_alikes::PLAN, look_alikes::family),
            WorldKind::SelfReliant => (self_reliant::PLAN, self_reliant::family),
            WorldKind::Drift => (drift::PLAN, drift::family),
            WorldKind::Versions => (versions::PLAN, versions::family),
            WorldKind::Graded => (graded::PLAN, graded::family),
            WorldKind::Routes => (routes::PLAN, routes::family),
            WorldKind::SubTypes => (sub_types::PLAN, sub_types::family),
            WorldKind::Crowding => (crowding::PLAN, crowding::family),
            WorldKind::Mixed => (mixed::PLAN, mixed::family),
        };
        Builder::build(kind, seed, &plan, family)
    }

    /// What it is about.
    pub const fn kind(&self) -> WorldKind {
        self.kind
    }

    /// What it was drawn from.
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// Every memory, in order of creation.
    pub fn memories(&self) -> &[Memory] {
        &self.memories
    }

    /// The training stream, in order of time.
    pub fn train_tasks(&self) -> &[Task] {
        &self.train
    }

    /// Unseen tasks, of the time after the stream.
    pub fn test_tasks(&self) -> &[Task] {
        &self.test
    }

    /// What an execution is worth here.
    pub const fn utility_rule(&self) -> &UtilityRule {
        &self.utility_rule
    }

    /// The true expected utility of a task of this world with a set of its memories.
    pub fn expected_utility(&self, task: &Task, set: &MemorySet) -> Result<f64> {
        let task = self.task_truth(task)?;
        self.habits
            .expected_utility(&self.utility_rule, task, &self.members(set)?)
    }

    /// One execution: the same for the same task, set and seed, independent for any other.
    pub fn execute(&self, task: &Task, set: &MemorySet, seed: u64) -> Result<(Performance, Cost)> {
        let truth = self.task_truth(task)?;
        let members = self.members(set)?;
        let mut rng = ChaCha8Rng::seed_from_u64(execution_seed(task.id, set, seed));
        self.habits.execute(truth, &members, &mut rng)
    }

    /// The facts that a task turns on.
    pub(crate) fn facts_of_task(&self, task: &Task) -> Result<Vec<u32>> {
        let routes = &self.task_truth(task)?.routes;
        Ok(routes
            .iter()
            .flat_map(|route| &route.needs)
            .map(|need| need.fact)
            .collect())
    }

    /// The facts that a memory does something about, whatever it does.
    pub(crate) fn facts_of_memory(&self, id: MemoryId) -> Result<Vec<u32>> {
        let effects = &self.memory_truth(id)?.effects;
        Ok(effects
            .iter()
            .filter_map(|effect| match *effect {
                Effect::Supplies(fact, _) | Effect::Falsifies(fact, _) => Some(fact),
                Effect::Suggests(_) => None,
            })
            .collect())
    }

    /// Whether a memory could do this task any good.
    pub(crate) fn can_help(&self, task: &Task, id: MemoryId) -> Result<bool> {
        Ok(self.memory_truth(id)?.can_help(self.task_truth(task)?))
    }

    fn members(&self, set: &MemorySet) -> Result<Vec<&MemoryTruth>> {
        set.iter().map(|&id| self.memory_truth(id)).collect()
    }

    fn memory_truth(&self, id: MemoryId) -> Result<&MemoryTruth> {
        self.memory_truths.get(&id).ok_or_else(|| {
            InvalidInput::new(
                format_args!("memory {id}"),
                format_args!("it is not of world {} {}", self.kind, self.seed),
            )
        })
    }

    fn task_truth(&self, task: &Task) -> Result<&TaskTruth> {
        self.task_truths.get(&task.id).ok_or_else(|| {
            InvalidInput::new(
                format_args!("task {:?}", task.name),
                format_args!("it is not of world {} {}", self.kind, self.seed),
            )
        })
    }
}

/// Mixes what an execution depends on into one seed.
fn execution_seed(task: TaskId, set: &MemorySet, seed: u64) -> u64 {
    let words = std::iter::once(task.as_u128()).chain(set.iter().map(|id| id.as_u128()));
    words
        .flat_map(|word| [word as u64, (word >> 64) as u64])
        .fold(scramble(seed), |state, word| scramble(state ^ word))
}

/// One round of the splitmix generator: every bit of the input moves every bit of the output.
fn scramble(word: u64) -> u64 {
    let word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}
