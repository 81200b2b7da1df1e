//! A world with all that retrievers may know of it: texts as vectors, and what recall offers for each task.

use std::{collections::BTreeMap, sync::Arc};

use upliftmem_core::{
    Candidate, CandidatePool, Limits, MemoryId, MemorySet, SearchSpace, Task, TaskId, WindowEntry,
};
use upliftmem_engine::{KnownMemory, KnownTask, Result, Scene, inputs};
use upliftmem_scorer::{Embedding, MemoryInput, TaskInput};

use super::texts::Texts;
use crate::{LexicalIndex, worlds::World};

/// Candidates of a task.
const RECALLED: usize = 50;
/// Largest set.
pub(super) const MEMORIES_MAX: usize = 5;

/// A world with all that retrievers may know of it.
pub struct Arena {
    /// The world.
    pub world: World,
    tasks: BTreeMap<TaskId, Offer>,
    memories: BTreeMap<MemoryId, Arc<KnownMemory>>,
}

/// What is known of a task.
struct Offer {
    task: Arc<KnownTask>,
    /// Most similar first.
    ranked: Vec<MemoryId>,
    pool: CandidatePool,
    /// In the order of `ranked`.
    memories: Vec<Arc<KnownMemory>>,
}

impl Arena {
    /// Embeds all texts and recalls candidates for all tasks.
    pub fn new(world: World, texts: &Texts) -> Result<Self> {
        let index = LexicalIndex::new(world.memories());
        let known: BTreeMap<MemoryId, Arc<KnownMemory>> = world
            .memories()
            .iter()
            .zip(texts.of_memories(&world)?)
            .map(|(memory, embedding)| {
                let known = KnownMemory {
                    id: memory.id,
                    text: memory.text.clone(),
                    tokens: memory.tokens,
                    embedding,
                };
                (memory.id, Arc::new(known))
            })
            .collect();
        let mut tasks = BTreeMap::new();
        let all: Vec<&Task> = world.train_tasks().iter().chain(world.test_tasks()).collect();
        for (task, embedding) in all.iter().zip(texts.of_tasks(&world, &all)?) {
            let ranked: Vec<MemoryId> = index
                .recall(&task.context, RECALLED)
                .into_iter()
                .map(|(id, _)| id)
                .collect();
            let candidates = ranked.iter().map(|&id| Candidate { id, tokens: 1 }).collect();
            let offer = Offer {
                task: Arc::new(KnownTask {
                    task: (*task).clone(),
                    embedding,
                }),
                memories: ranked.iter().map(|id| Arc::clone(&known[id])).collect(),
                ranked,
                pool: CandidatePool::new(candidates)?,
            };
            tasks.insert(task.id, offer);
        }
        Ok(Self {
            world,
            tasks,
            memories: known,
        })
    }

    /// The candidates of a task, most similar first.
    pub fn candidates(&self, task: &Task) -> &[MemoryId] {
        &self.tasks[&task.id].ranked
    }

    /// What a retrieval for the task may return.
    pub fn space(&self, task: &Task) -> SearchSpace<'_> {
        SearchSpace::new(&self.tasks[&task.id].pool, Limits::count(MEMORIES_MAX))
    }

    /// What recall offers for a task.
    pub(super) fn pool(&self, task: &Task) -> &CandidatePool {
        &self.tasks[&task.id].pool
    }

    /// A task as scorers see it.
    pub fn task_input(&self, task: &Task) -> TaskInput<'_> {
        self.tasks[&task.id].task.input()
    }

    /// The candidates of a task as scorers see them.
    pub fn memory_inputs(&self, task: &Task) -> Vec<MemoryInput<'_>> {
        inputs(&self.tasks[&task.id].memories)
    }

    /// A task of which a set was tried, as acquisition sees it.
    pub(super) fn scene(&self, task: &Task, tried: &MemorySet) -> Scene {
        let offer = &self.tasks[&task.id];
        Scene {
            entry: WindowEntry {
                task: task.id,
                pool: offer.pool.clone(),
                incumbent: tried.clone(),
                prefixes: Vec::new(),
                limits: Limits::count(MEMORIES_MAX),
            },
            task: Arc::clone(&offer.task),
            memories: offer.memories.clone(),
        }
    }

    /// The embedding of a memory.
    pub fn memory_embedding(&self, id: MemoryId) -> &Embedding {
        &self.memories[&id].embedding
    }

    /// The utility of one execution: all that learning ever sees of the truth.
    pub(super) fn execute(&self, task: &Task, set: &MemorySet, seed: u64) -> Result<f64> {
        let (performance, cost) = self.world.execute(task, set, seed)?;
        Ok(self.world.utility_rule().utility(performance, cost)?.get())
    }
}
