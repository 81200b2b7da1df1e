//! Which tasks and memories the model knows, where their texts lie, and how similar the memories are.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, PoisonError, RwLock},
};

use upliftmem_core::{MemoryId, TaskId};

use super::space::{Point, Side, Space, dot};
use crate::{
    Embedding,
    error::{Result, invalid},
};

/// Known texts. Cloning copies pointers, so that a query can extend its own copy by texts never seen.
#[derive(Debug, Clone)]
pub(crate) struct Registry {
    space: Arc<Space>,
    task_ids: Arc<BTreeMap<TaskId, u32>>,
    memory_ids: Arc<BTreeMap<MemoryId, u32>>,
    pub(crate) tasks: Vec<Text>,
    pub(crate) memories: Vec<Text>,
    /// Row i has the similarities of memory i to the memories before it.
    similarity: Vec<Arc<[f64]>>,
    /// Memories that were asked about without being known: placing a text costs more than all else about it.
    visitors: Arc<RwLock<HashMap<MemoryId, Text>>>,
}

/// Memories whose places are kept though nothing is known of them.
const VISITORS_MAX: usize = 50_000;

/// One text: as it was embedded, and where it lies.
#[derive(Debug, Clone)]
pub(crate) struct Text {
    pub(crate) embedding: Embedding,
    /// The centred embedding.
    centred: Point,
    /// Where it lies among the tasks.
    pub(crate) point: Point,
}

impl Registry {
    pub(crate) fn new(space: Space) -> Self {
        Self {
            space: Arc::new(space),
            task_ids: Arc::default(),
            memory_ids: Arc::default(),
            tasks: Vec::new(),
            memories: Vec::new(),
            similarity: Vec::new(),
            visitors: Arc::default(),
        }
    }

    /// The same texts, placed in another space.
    pub(crate) fn moved(&self, space: Space) -> Self {
        let mut moved = Self::new(space);
        moved.task_ids = Arc::clone(&self.task_ids);
        moved.memory_ids = Arc::clone(&self.memory_ids);
        for text in &self.tasks {
            let placed = moved.place(&text.embedding, Side::Task);
            moved.tasks.push(placed);
        }
        for text in &self.memories {
            let placed = moved.place(&text.embedding, Side::Memory);
            moved.push_memory(placed);
        }
        moved
    }

    /// All tasks as they were embedded, in the order in which they became known.
    pub(crate) fn task_texts(&self) -> Vec<(TaskId, Embedding)> {
        in_order(&self.task_ids, &self.tasks)
    }

    /// All memories as they were embedded, in the order in which they became known.
    pub(crate) fn memory_texts(&self) -> Vec<(MemoryId, Embedding)> {
        in_order(&self.memory_ids, &self.memories)
    }

    fn place(&self, embedding: &Embedding, side: Side) -> Text {
        let centred = self.space.centred(embedding, side);
        Text {
            embedding: embedding.clone(),
            point: self.space.place(&centred),
            centred,
        }
    }

    fn push_memory(&mut self, text: Text) {
        let row = self
            .memories
            .iter()
            .map(|known| dot(&known.centred, &text.centred))
            .collect();
        self.similarity.push(row);
        self.memories.push(text);
    }

    /// The task's position; a task never seen is added.
    pub(crate) fn task(&mut self, id: TaskId, embedding: &Embedding) -> u32 {
        if let Some(&known) = self.task_ids.get(&id) {
            return known;
        }
        let position = position(self.tasks.len());
        let text = self.place(embedding, Side::Task);
        self.tasks.push(text);
        Arc::make_mut(&mut self.task_ids).insert(id, position);
        position
    }

    /// A task that is only asked about: its known position, or a new one that no later look-up finds.
    pub(crate) fn visiting_task(&mut self, id: TaskId, embedding: &Embedding) -> u32 {
        if let Some(&known) = self.task_ids.get(&id) {
            return known;
        }
        let text = self.place(embedding, Side::Task);
        self.tasks.push(text);
        position(self.tasks.len() - 1)
    }

    /// The memory's position; a memory never seen is added.
    pub(crate) fn memory(&mut self, id: MemoryId, embedding: &Embedding) -> u32 {
        if let Some(&known) = self.memory_ids.get(&id) {
            return known;
        }
        let position = position(self.memories.len());
        let text = self.visitor(id, embedding);
        self.push_memory(text);
        Arc::make_mut(&mut self.memory_ids).insert(id, position);
        position
    }

    /// Where a memory lies of which nothing is known: from an earlier visit, or placed now.
    fn visitor(&self, id: MemoryId, embedding: &Embedding) -> Text {
        // Whoever stopped while holding it left whole entries.
        let kept = self.visitors.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(text) = kept.get(&id).filter(|text| text.embedding == *embedding) {
            return text.clone();
        }
        drop(kept);
        let text = self.place(embedding, Side::Memory);
        let mut kept = self.visitors.write().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= VISITORS_MAX {
            kept.clear();
        }
        kept.insert(id, text.clone());
        text
    }

    /// The position of a known memory.
    pub(crate) fn known_memory(&self, id: MemoryId) -> Option<u32> {
        self.memory_ids.get(&id).copied()
    }

    /// The position of a known task.
    pub(crate) fn known_task(&self, id: TaskId) -> Option<u32> {
        self.task_ids.get(&id).copied()
    }

    /// How similar two memories' texts are, in [-1, 1]; exactly 1 for one memory with itself.
    pub(crate) fn memory_similarity(&self, a: u32, b: u32) -> f64 {
        match a.cmp(&b) {
            std::cmp::Ordering::Equal => 1.0,
            std::cmp::Ordering::Less => self.similarity[b as usize][a as usize],
            std::cmp::Ordering::Greater => self.similarity[a as usize][b as usize],
        }
    }

    /// How similar two tasks' texts are; exactly 1 for one task with itself.
    pub(crate) fn task_similarity(&self, a: u32, b: u32) -> f64 {
        if a == b {
            1.0
        } else {
            dot(&self.tasks[a as usize].point, &self.tasks[b as usize].point)
        }
    }

    /// How similar a memory's text is to a task's.
    pub(crate) fn relevance(&self, task: u32, memory: u32) -> f64 {
        dot(
            &self.tasks[task as usize].point,
            &self.memories[memory as usize].point,
        )
    }

    /// How similar a memory's text is to a task's, word for word.
    pub(crate) fn plain_similarity(&self, task: u32, memory: u32) -> f64 {
        dot(
            &self.tasks[task as usize].centred,
            &self.memories[memory as usize].centred,
        )
    }

    /// Refuses an embedding of another dimension than the model's.
    pub(crate) fn check(
        &self,
        dimension: usize,
        what: &dyn std::fmt::Display,
        embedding: &Embedding,
    ) -> Result<()> {
        if embedding.dimension() == dimension {
            Ok(())
        } else {
            Err(invalid(
                what,
                format_args!(
                    "its embedding has {} entries and the model's have {dimension}; use one embedder for all texts",
                    embedding.dimension()
                ),
            ))
        }
    }
}

fn in_order<I: Copy>(ids: &BTreeMap<I, u32>, texts: &[Text]) -> Vec<(I, Embedding)> {
    let mut places: Vec<(u32, I)> = ids.iter().map(|(&id, &at)| (at, id)).collect();
    places.sort_unstable_by_key(|(at, _)| *at);
    places
        .into_iter()
        .map(|(at, id)| (id, texts[at as usize].embedding.clone()))
        .collect()
}

/// Positions fit 32 bits: a model of four thousand million texts would not fit a machine.
fn position(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}
