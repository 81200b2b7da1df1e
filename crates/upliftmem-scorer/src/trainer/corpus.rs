//! The texts that training needs, by their ids.

use std::collections::BTreeMap;

use upliftmem_core::{MemoryId, TaskId};

use crate::{
    Embedding, MemoryInput, TaskInput,
    error::{Result, invalid},
};

/// Tasks and memories with their texts and embeddings.
#[derive(Debug, Clone, Default)]
pub struct Corpus {
    tasks: BTreeMap<TaskId, (String, Embedding)>,
    memories: BTreeMap<MemoryId, (String, Embedding)>,
}

impl Corpus {
    /// Makes a task known, or replaces what was known of it.
    pub fn add_task(&mut self, id: TaskId, context: impl Into<String>, embedding: Embedding) {
        self.tasks.insert(id, (context.into(), embedding));
    }

    /// Makes a memory known, or replaces what was known of it.
    pub fn add_memory(&mut self, id: MemoryId, text: impl Into<String>, embedding: Embedding) {
        self.memories.insert(id, (text.into(), embedding));
    }

    /// A task as scorers see it.
    pub fn task(&self, id: TaskId) -> Result<TaskInput<'_>> {
        let (context, embedding) = self.tasks.get(&id).ok_or_else(|| {
            invalid(
                format_args!("task {id}"),
                "has no text; add the task to the corpus",
            )
        })?;
        Ok(TaskInput {
            id,
            context,
            embedding,
        })
    }

    /// A memory as scorers see it.
    pub fn memory(&self, id: MemoryId) -> Result<MemoryInput<'_>> {
        let (text, embedding) = self.memories.get(&id).ok_or_else(|| {
            invalid(
                format_args!("memory {id}"),
                "has no text; add the memory to the corpus",
            )
        })?;
        Ok(MemoryInput { id, text, embedding })
    }

    /// All tasks, in the order of their ids.
    pub fn tasks(&self) -> impl Iterator<Item = (TaskId, &Embedding)> {
        self.tasks.iter().map(|(&id, (_, embedding))| (id, embedding))
    }

    /// All memories, in the order of their ids.
    pub fn memories(&self) -> impl Iterator<Item = (MemoryId, &Embedding)> {
        self.memories.iter().map(|(&id, (_, embedding))| (id, embedding))
    }
}
