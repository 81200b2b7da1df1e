//! A network with everything a value depends on.

use std::collections::BTreeMap;

use upliftmem_core::{MemoryId, MemorySet};

use super::{
    algebra::add_scaled,
    frame::Frame,
    parameters::{Parameters, Part},
    pass::{Dropout, Member, TaskPass},
    settings::NetworkSettings,
};
use crate::{
    Embedding, MemoryInput, TaskInput,
    error::{Result, invalid},
};

/// Settings, frame, parameters, and which memories are known.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Body {
    pub(crate) settings: NetworkSettings,
    pub(crate) frame: Frame,
    /// The place of each known memory in the table of identities.
    pub(crate) slots: BTreeMap<MemoryId, usize>,
    pub(crate) parameters: Parameters,
}

/// A task and its memories, reduced to what the layers read; memories are in the order of their ids.
pub(super) struct Texts {
    pub(super) task: Vec<f64>,
    pub(super) ids: Vec<MemoryId>,
    pub(super) points: Vec<Vec<f64>>,
    pub(super) relevance: Vec<f64>,
    slots: Vec<Option<usize>>,
}

/// The reduced mean texts: subtracted after reduction, so that zeros of a text cost nothing.
pub(super) struct Offsets {
    task: Vec<f64>,
    memory: Vec<f64>,
}

impl Body {
    pub(super) fn offsets(&self) -> Offsets {
        Offsets {
            task: self.reduced(self.frame.task_mean.iter().copied()),
            memory: self.reduced(self.frame.memory_mean.iter().copied()),
        }
    }

    fn reduced(&self, text: impl Iterator<Item = f64>) -> Vec<f64> {
        let mut point = vec![0.0; self.settings.projection];
        let weights = &self.parameters[Part::Projection];
        for (value, row) in text.zip(weights.chunks_exact(self.settings.projection)) {
            if value != 0.0 {
                add_scaled(&mut point, value, row);
            }
        }
        point
    }

    fn point(&self, text: &Embedding, offset: &[f64]) -> Vec<f64> {
        let mut point = self.reduced(text.values().iter().map(|&value| f64::from(value)));
        add_scaled(&mut point, -1.0, offset);
        point
    }

    /// Reduces a task and its memories. Refuses texts of another embedder.
    pub(super) fn texts(
        &self,
        offsets: &Offsets,
        task: TaskInput<'_>,
        memories: &[MemoryInput<'_>],
    ) -> Result<Texts> {
        self.frame
            .check(format_args!("task {}", task.id), task.embedding)?;
        let mut memories: Vec<&MemoryInput<'_>> = memories.iter().collect();
        memories.sort_unstable_by_key(|memory| memory.id);
        memories.dedup_by_key(|memory| memory.id);
        let centred = self.frame.centred_task(task.embedding);
        let mut texts = Texts {
            task: self.point(task.embedding, &offsets.task),
            ids: Vec::with_capacity(memories.len()),
            points: Vec::with_capacity(memories.len()),
            relevance: Vec::with_capacity(memories.len()),
            slots: Vec::with_capacity(memories.len()),
        };
        for memory in memories {
            self.frame
                .check(format_args!("memory {}", memory.id), memory.embedding)?;
            texts.ids.push(memory.id);
            texts.points.push(self.point(memory.embedding, &offsets.memory));
            let own = self.frame.centred_memory(memory.embedding);
            texts.relevance.push(self.frame.relevance(&centred, &own));
            texts.slots.push(self.slots.get(&memory.id).copied());
        }
        Ok(texts)
    }

    /// The memories of a task through the lower layers.
    pub(super) fn pass<'a>(&'a self, texts: &'a Texts, dropout: Option<&'a Dropout>) -> TaskPass<'a> {
        let members = (0..texts.ids.len())
            .map(|at| Member {
                point: &texts.points[at],
                relevance: texts.relevance[at],
                slot: texts.slots[at].filter(|_| !dropout.is_some_and(|drawn| drawn.forgets(texts.ids[at]))),
            })
            .collect();
        TaskPass::new(&self.settings, &self.parameters, &texts.task, members, dropout)
    }
}

impl Texts {
    /// The places of a set's members. Refuses a memory that is not among the texts.
    pub(super) fn places(&self, set: &MemorySet) -> Result<Vec<usize>> {
        set.iter()
            .map(|id| {
                self.ids.binary_search(id).map_err(|_| {
                    invalid(
                        format_args!("set {set:?}"),
                        format_args!("memory {id} was not bound; bind every memory that is to be scored"),
                    )
                })
            })
            .collect()
    }
}
