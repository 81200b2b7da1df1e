//! One task as seen from the labels: its similarities to known tasks and memories, computed once.

use super::{
    kernel::{Kernel, Likeness},
    registry::Registry,
    row::{RelevanceScale, Row},
};

/// A task with the memories that may be asked about, ready to be compared with any label.
#[derive(Debug, Clone)]
pub(crate) struct Query {
    pub(crate) task: u32,
    /// The memories that may be asked about.
    pub(crate) candidates: Vec<u32>,
    /// Similarity to every known task.
    pub(crate) similarity: Vec<f64>,
    /// Text kernel of each candidate with every known memory, and where its row is.
    texts: Vec<Vec<f64>>,
    slots: Vec<u32>,
    /// When the question is asked.
    pub(crate) time: f64,
}

/// Marks a memory that is not a candidate.
pub(crate) const NOT_A_CANDIDATE: u32 = u32::MAX;

impl Query {
    pub(crate) fn new(
        registry: &Registry,
        kernel: &Kernel,
        task: u32,
        candidates: Vec<u32>,
        time: f64,
    ) -> Self {
        let known_tasks = u32::try_from(registry.tasks.len()).unwrap_or(u32::MAX);
        let known_memories = u32::try_from(registry.memories.len()).unwrap_or(u32::MAX);
        let mut slots = vec![NOT_A_CANDIDATE; registry.memories.len()];
        for (slot, &memory) in (0..).zip(&candidates) {
            slots[memory as usize] = slot;
        }
        Self {
            task,
            similarity: (0..known_tasks)
                .map(|other| registry.task_similarity(task, other))
                .collect(),
            texts: candidates
                .iter()
                .map(|&memory| {
                    (0..known_memories)
                        .map(|other| {
                            kernel
                                .text_covariance(registry.memory_similarity(memory, other))
                                .0
                        })
                        .collect()
                })
                .collect(),
            candidates,
            slots,
            time,
        }
    }

    /// The candidate's slot of a memory, or [`NOT_A_CANDIDATE`].
    pub(crate) fn slot(&self, memory: u32) -> u32 {
        self.slots[memory as usize]
    }

    /// Text kernel of a candidate with every known memory.
    pub(crate) fn texts(&self, slot: usize) -> &[f64] {
        &self.texts[slot]
    }

    /// The row of a set, given by the candidates' slots.
    pub(crate) fn row(
        &self,
        registry: &Registry,
        kernel: &Kernel,
        scale: RelevanceScale,
        set: &[u32],
    ) -> Row {
        let members = set.iter().map(|&slot| self.candidates[slot as usize]);
        let mut row = Row::new(registry, kernel, scale, self.task, members);
        row.time = self.time;
        row
    }
}

impl Likeness for Query {
    fn tasks(&self, a: u32, b: u32) -> f64 {
        self.similarity[if a == self.task { b } else { a } as usize]
    }

    fn memories(&self, a: u32, b: u32) -> (f64, f64) {
        let slot = self.slots[a as usize];
        let value = if slot == NOT_A_CANDIDATE {
            self.texts[self.slots[b as usize] as usize][a as usize]
        } else {
            self.texts[slot as usize][b as usize]
        };
        (value, 0.0)
    }
}
