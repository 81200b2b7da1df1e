//! Which tasks and memories the model knows, where their texts lie, and how similar the memories are.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, PoisonError, RwLock},
};

use upliftmem_core::{MemoryId, TaskId};

use super::space::{Point, Side, Space, dot, products};
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
    pub(crate) tasks: Vec<Arc<Text>>,
    pub(crate) memories: Vec<Arc<Text>>,
    /// Row i has the similarities of memory i to the memories before it.
    similarity: Vec<Arc<[f64]>>,
    /// Memories that were asked about without being known: placing a text costs more than all else about it.
    visitors: Arc<RwLock<HashMap<MemoryId, Arc<Text>>>>,
}

/// Memories that are compared with the known ones together.
const PUSHED_TOGETHER: usize = 64;
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
        let [tasks, memories] = self.embeddings();
        moved.tasks = moved.place(&tasks, Side::Task);
        moved.push_memories(moved.place(&memories, Side::Memory));
        moved
    }

    /// The same texts, compared by the same directions and placed by other landmarks.
    pub(crate) fn replaced(&self, space: Space) -> Self {
        let mut replaced = self.clone();
        replaced.space = Arc::new(space);
        replaced.visitors = Arc::default();
        for texts in [&mut replaced.tasks, &mut replaced.memories] {
            let centred: Vec<Point> = texts.iter().map(|text| Arc::clone(&text.centred)).collect();
            for (text, point) in texts.iter_mut().zip(replaced.space.place(&centred)) {
                Arc::make_mut(text).point = point;
            }
        }
        replaced
    }

    /// The space that texts are compared in.
    pub(crate) fn space(&self) -> &Space {
        &self.space
    }

    /// The embeddings of all tasks and of all memories.
    pub(crate) fn embeddings(&self) -> [Vec<Embedding>; 2] {
        [&self.tasks, &self.memories].map(|texts| texts.iter().map(|text| text.embedding.clone()).collect())
    }

    /// All tasks as they were embedded, in the order in which they became known.
    pub(crate) fn task_texts(&self) -> Vec<(TaskId, Embedding)> {
        in_order(&self.task_ids, &self.tasks)
    }

    /// All memories as they were embedded, in the order in which they became known.
    pub(crate) fn memory_texts(&self) -> Vec<(MemoryId, Embedding)> {
        in_order(&self.memory_ids, &self.memories)
    }

    fn place(&self, embeddings: &[Embedding], side: Side) -> Vec<Arc<Text>> {
        let texts: Vec<&Embedding> = embeddings.iter().collect();
        let centred = self.space.centred(&texts, side);
        let points = self.space.place(&centred);
        let texts = embeddings.iter().zip(centred).zip(points);
        texts
            .map(|((embedding, centred), point)| {
                Arc::new(Text {
                    embedding: embedding.clone(),
                    centred,
                    point,
                })
            })
            .collect()
    }

    fn push_memories(&mut self, texts: Vec<Arc<Text>>) {
        let mut texts = texts.into_iter().peekable();
        while texts.peek().is_some() {
            let some: Vec<Arc<Text>> = texts.by_ref().take(PUSHED_TOGETHER).collect();
            let centred: Vec<&[f64]> = some.iter().map(|text| &*text.centred).collect();
            let known = self.memories.iter().map(|known| &*known.centred);
            let with_known = products(&centred, known).into_iter();
            let among = products(&centred, centred.iter().copied());
            for (at, (mut row, others)) in with_known.zip(among).enumerate() {
                row.extend_from_slice(&others[..at]);
                self.similarity.push(row.into());
            }
            self.memories.extend(some);
        }
    }

    /// The task's position; a task never seen is added.
    pub(crate) fn task(&mut self, id: TaskId, embedding: &Embedding) -> u32 {
        if let Some(&known) = self.task_ids.get(&id) {
            return known;
        }
        let position = position(self.tasks.len());
        self.push_task(embedding);
        Arc::make_mut(&mut self.task_ids).insert(id, position);
        position
    }

    /// A task that is only asked about: its known position, or a new one that no later look-up finds.
    pub(crate) fn visiting_task(&mut self, id: TaskId, embedding: &Embedding) -> u32 {
        if let Some(&known) = self.task_ids.get(&id) {
            return known;
        }
        self.push_task(embedding);
        position(self.tasks.len() - 1)
    }

    fn push_task(&mut self, embedding: &Embedding) {
        let placed = self.place(std::slice::from_ref(embedding), Side::Task);
        self.tasks.extend(placed);
    }

    /// The memories' positions; memories never seen are added.
    pub(crate) fn memories(&mut self, asked: &[(MemoryId, &Embedding)]) -> Vec<u32> {
        let mut new: Vec<(MemoryId, Embedding)> = asked
            .iter()
            .filter(|(id, _)| !self.memory_ids.contains_key(id))
            .map(|&(id, embedding)| (id, embedding.clone()))
            .collect();
        new.sort_by_key(|(id, _)| *id);
        new.dedup_by_key(|(id, _)| *id);
        if !new.is_empty() {
            let first = self.memories.len();
            self.push_memories(self.visitors(&new));
            let ids = Arc::make_mut(&mut self.memory_ids);
            for (at, (id, _)) in new.iter().enumerate() {
                ids.insert(*id, position(first + at));
            }
        }
        asked.iter().map(|(id, _)| self.memory_ids[id]).collect()
    }

    /// Where memories lie of which nothing is known: from an earlier visit, or placed now.
    fn visitors(&self, new: &[(MemoryId, Embedding)]) -> Vec<Arc<Text>> {
        // Whoever stopped while holding the lock left whole entries.
        let kept = self.visitors.read().unwrap_or_else(PoisonError::into_inner);
        let known = new.iter().map(|(id, embedding)| {
            let text = kept.get(id).filter(|text| text.embedding == *embedding);
            text.cloned()
        });
        let mut texts: Vec<Option<Arc<Text>>> = known.collect();
        drop(kept);
        let missing: Vec<usize> = (0..new.len()).filter(|&at| texts[at].is_none()).collect();
        if !missing.is_empty() {
            let embeddings: Vec<Embedding> = missing.iter().map(|&at| new[at].1.clone()).collect();
            let placed = self.place(&embeddings, Side::Memory);
            let mut kept = self.visitors.write().unwrap_or_else(PoisonError::into_inner);
            let full = kept.len() + placed.len() > VISITORS_MAX;
            let forgotten = if full {
                std::mem::take(&mut *kept)
            } else {
                HashMap::new()
            };
            for (&at, text) in missing.iter().zip(placed) {
                kept.insert(new[at].0, Arc::clone(&text));
                texts[at] = Some(text);
            }
            // Forgetting many takes a while: nobody else waits for it.
            drop(kept);
            drop(forgotten);
        }
        texts.into_iter().flatten().collect()
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

fn in_order<I: Copy>(ids: &BTreeMap<I, u32>, texts: &[Arc<Text>]) -> Vec<(I, Embedding)> {
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
