//! A world with all that retrievers may know of it: texts as vectors, and what recall offers for each task.

use std::collections::BTreeMap;

use upliftmem_core::{Candidate, CandidatePool, Limits, MemoryId, MemorySet, SearchSpace, Task, TaskId};
use upliftmem_scorer::{Embedding, MemoryInput, Result, TaskInput};

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
    memories: BTreeMap<MemoryId, (String, Embedding)>,
}

/// What is known of a task.
struct Offer {
    embedding: Embedding,
    /// Most similar first.
    ranked: Vec<MemoryId>,
    pool: CandidatePool,
}

impl Arena {
    /// Embeds all texts and recalls candidates for all tasks.
    pub fn new(world: World, texts: &Texts) -> Result<Self> {
        let index = LexicalIndex::new(world.memories());
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
                embedding,
                ranked,
                pool: CandidatePool::new(candidates)?,
            };
            tasks.insert(task.id, offer);
        }
        let embeddings = texts.of_memories(&world)?;
        let memories = world
            .memories()
            .iter()
            .zip(embeddings)
            .map(|(memory, embedding)| (memory.id, (memory.text.clone(), embedding)))
            .collect();
        Ok(Self {
            world,
            tasks,
            memories,
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

    /// A task as scorers see it.
    pub fn task_input<'a>(&'a self, task: &'a Task) -> TaskInput<'a> {
        TaskInput {
            id: task.id,
            context: &task.context,
            embedding: &self.tasks[&task.id].embedding,
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

    /// The utility of one execution: all that learning ever sees of the truth.
    pub(super) fn execute(&self, task: &Task, set: &MemorySet, seed: u64) -> Result<f64> {
        let (performance, cost) = self.world.execute(task, set, seed)?;
        Ok(self.world.utility_rule().utility(performance, cost)?.get())
    }
}
