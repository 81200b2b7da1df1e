//! How labels are gathered.

use std::collections::BTreeMap;

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use upliftmem_core::{MemoryId, MemorySet, Task, TaskId};
use upliftmem_scorer::{Embedding, MemoryInput, Result, SetScorer, TaskInput};

use super::{hashing::HashedWords, learners::CompactRetriever, search};
use crate::{LexicalIndex, learning::learners::Learner, worlds::World};

/// Candidates of a task.
const RECALLED: usize = 50;
const BOOTSTRAP: usize = 100;
const STREAM: usize = 200;
const REFIT_EVERY: usize = 50;

/// A world with all that retrievers may know of it.
pub struct Arena {
    /// The world.
    pub world: World,
    tasks: BTreeMap<TaskId, (Embedding, Vec<MemoryId>)>,
    memories: BTreeMap<MemoryId, (String, Embedding)>,
}

/// When an execution was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// A random set.
    Bootstrap,
    /// A set sampled from the scorer of the time.
    Stream,
    /// A random local edit of such a set.
    Edit,
}

/// One label: an execution with memories, and the reference of its task.
#[derive(Debug, Clone)]
pub struct Execution {
    /// The task.
    pub task: Task,
    /// The set used.
    pub set: MemorySet,
    /// What it was worth.
    pub utility: f64,
    /// What the reference was worth.
    pub reference: f64,
    /// How the set was chosen.
    pub stage: Stage,
}

impl Arena {
    /// Embeds all texts and recalls candidates for all tasks.
    pub fn new(world: World) -> Result<Self> {
        let index = LexicalIndex::new(world.memories());
        let texts = world.memories().iter().map(|memory| memory.text.as_str());
        let contexts = world.train_tasks().iter().map(|task| task.context.as_str());
        let embedder = HashedWords::new(texts.chain(contexts));
        let mut tasks = BTreeMap::new();
        for task in world.train_tasks().iter().chain(world.test_tasks()) {
            let recalled = index.recall(&task.context, RECALLED);
            let candidates = recalled.into_iter().map(|(id, _)| id).collect();
            tasks.insert(task.id, (embedder.embed(&task.context)?, candidates));
        }
        let mut memories = BTreeMap::new();
        for memory in world.memories() {
            memories.insert(memory.id, (memory.text.clone(), embedder.embed(&memory.text)?));
        }
        Ok(Self {
            world,
            tasks,
            memories,
        })
    }

    /// The candidates of a task, most similar first.
    pub fn candidates(&self, task: &Task) -> &[MemoryId] {
        self.tasks.get(&task.id).map_or(&[], |(_, candidates)| candidates)
    }

    /// A task as scorers see it.
    pub fn task_input<'a>(&'a self, task: &'a Task) -> TaskInput<'a> {
        TaskInput {
            id: task.id,
            context: &task.context,
            embedding: &self.tasks[&task.id].0,
        }
    }

    /// The candidates of a task as scorers see them.
    pub fn memory_inputs(&self, task: &Task) -> Vec<MemoryInput<'_>> {
        self.candidates(task)
            .iter()
            .map(|&id| {
                let (text, embedding) = &self.memories[&id];
                MemoryInput { id, text, embedding }
            })
            .collect()
    }

    /// The embedding of a memory.
    pub fn memory_embedding(&self, id: MemoryId) -> &Embedding {
        &self.memories[&id].1
    }

    fn execute(&self, task: &Task, set: &MemorySet, seed: u64) -> Result<f64> {
        let (performance, cost) = self.world.execute(task, set, seed)?;
        Ok(self.world.utility_rule().utility(performance, cost)?.get())
    }

    /// Gathers `count` labels.
    pub fn gather(&self, seed: u64, count: usize) -> Result<Vec<Execution>> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 0x1abe1);
        let mut labels: Vec<Execution> = Vec::new();
        let mut policy = CompactRetriever::default();
        let tasks = self.world.train_tasks();
        // The stream ends where training ends, so that a world that changes has changed by then.
        let stream = &tasks[tasks.len().saturating_sub(BOOTSTRAP + STREAM)..];
        for (step, task) in stream.iter().enumerate() {
            let reference = self.execute(task, &MemorySet::EMPTY, rng.random())?;
            let (set, stage) = if step < BOOTSTRAP {
                (self.random_set(task, &mut rng), Stage::Bootstrap)
            } else {
                if (step - BOOTSTRAP).is_multiple_of(REFIT_EVERY) {
                    policy = CompactRetriever::default();
                    policy.learn(self, &labels)?;
                }
                let scorer = policy.scorer();
                let bound = scorer.bind(self.task_input(task), &self.memory_inputs(task))?;
                let set = search::sample(bound.as_ref(), self.candidates(task), &mut rng)?;
                let set = if set.is_empty() {
                    self.random_set(task, &mut rng)
                } else {
                    set
                };
                (set, Stage::Stream)
            };
            labels.push(self.label(task, set, reference, stage, &mut rng)?);
        }
        let visited: Vec<Execution> = labels
            .iter()
            .filter(|label| label.stage == Stage::Stream)
            .cloned()
            .collect();
        while labels.len() < count {
            let origin = &visited[rng.random_range(0..visited.len())];
            let set = self.edited(&origin.task, &origin.set, &mut rng);
            if !set.is_empty() && set != origin.set {
                labels.push(self.label(&origin.task, set, origin.reference, Stage::Edit, &mut rng)?);
            }
        }
        labels.truncate(count);
        Ok(labels)
    }

    fn label(
        &self,
        task: &Task,
        set: MemorySet,
        reference: f64,
        stage: Stage,
        rng: &mut impl Rng,
    ) -> Result<Execution> {
        Ok(Execution {
            utility: self.execute(task, &set, rng.random())?,
            task: task.clone(),
            set,
            reference,
            stage,
        })
    }

    pub(super) fn random_set(&self, task: &Task, rng: &mut impl Rng) -> MemorySet {
        let candidates = self.candidates(task);
        let size = rng.random_range(1..=3);
        (0..size)
            .map(|_| candidates[rng.random_range(0..candidates.len())])
            .collect()
    }

    /// One removal, addition, replacement, or a single memory.
    pub(super) fn edited(&self, task: &Task, set: &MemorySet, rng: &mut impl Rng) -> MemorySet {
        let candidates = self.candidates(task);
        let other = candidates[rng.random_range(0..candidates.len())];
        let member = set.members()[rng.random_range(0..set.len())];
        match rng.random_range(0..4) {
            0 => set.without(member),
            1 if set.len() < search::MEMORIES_MAX => set.with(other),
            2 => set.without(member).with(other),
            _ => std::iter::once(other).collect(),
        }
    }
}
