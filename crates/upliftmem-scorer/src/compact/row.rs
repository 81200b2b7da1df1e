//! One label as the model sees it.

use smallvec::SmallVec;

use super::{kernel::Kernel, registry::Registry};

/// A task with a set, and what was observed about them.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) task: u32,
    pub(crate) members: SmallVec<[Member; 5]>,
    /// Sum of the members' gates, with derivatives in the gate's centre and log width.
    pub(crate) open: [f64; 3],
    /// The same of the members' nearness.
    pub(crate) near: [f64; 3],
    /// The reference the label was measured against (paired labels).
    pub(crate) reference: Option<u32>,
    /// When the label was observed.
    pub(crate) time: f64,
}

/// A member of the set.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Member {
    pub(crate) memory: u32,
    /// Standardised similarity to the task.
    pub(crate) relevance: f64,
    /// Standardised plain similarity to the task.
    pub(crate) similarity: f64,
    /// How far the relevance gate is open, with its derivatives in centre and log width.
    pub(crate) gate: [f64; 3],
}

/// How similarities of task and memory are put on a common scale for the gate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Standard {
    mean: f64,
    sd: f64,
}

/// The scales of both similarities of task and memory: in the space of texts, and plain.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RelevanceScale {
    pub(crate) sharp: Standard,
    pub(crate) plain: Standard,
}

impl RelevanceScale {
    /// Before any label.
    pub(crate) const UNKNOWN: Self = Self {
        sharp: Standard { mean: 0.0, sd: 0.1 },
        plain: Standard { mean: 0.0, sd: 0.1 },
    };

    /// The standardised similarities of a task and a memory.
    pub(crate) fn relevance(&self, registry: &Registry, task: u32, memory: u32) -> [f64; 2] {
        [
            self.sharp.of(registry.relevance(task, memory)),
            self.plain.of(registry.plain_similarity(task, memory)),
        ]
    }
}

impl Standard {
    /// The value in standard deviations from the mean.
    fn of(&self, value: f64) -> f64 {
        (value - self.mean) / self.sd
    }

    /// The scale of these similarities.
    pub(crate) fn fit(similarities: impl Iterator<Item = f64>) -> Self {
        let (mut count, mut mean, mut squares) = (0.0, 0.0, 0.0);
        for value in similarities {
            count += 1.0;
            let step = value - mean;
            mean += step / count;
            squares += step * (value - mean);
        }
        if count < 2.0 {
            return Self { mean: 0.0, sd: 0.1 };
        }
        Self {
            mean,
            sd: f64::sqrt(squares / count).max(1e-3),
        }
    }
}

impl Row {
    /// Builds the row of a task with these members, known to the registry.
    pub(crate) fn new(
        registry: &Registry,
        kernel: &Kernel,
        scale: RelevanceScale,
        task: u32,
        memories: impl Iterator<Item = u32>,
    ) -> Self {
        let members = memories
            .map(|memory| {
                let [relevance, similarity] = scale.relevance(registry, task, memory);
                Member {
                    memory,
                    relevance,
                    similarity,
                    gate: [0.0; 3],
                }
            })
            .collect();
        let mut row = Self {
            task,
            members,
            open: [0.0; 3],
            near: [0.0; 3],
            reference: None,
            time: 0.0,
        };
        row.open_gates(kernel);
        row
    }

    /// Sets the gates to what this kernel says of the members' relevance.
    pub(crate) fn open_gates(&mut self, kernel: &Kernel) {
        self.open = [0.0; 3];
        self.near = [0.0; 3];
        for member in &mut self.members {
            for (sum, part) in self.near.iter_mut().zip(kernel.nearness(member.similarity)) {
                *sum += part;
            }
            member.gate = kernel.gate(member.relevance);
            for (sum, part) in self.open.iter_mut().zip(member.gate) {
                *sum += part;
            }
        }
    }

    /// Number of members.
    pub(crate) fn size(&self) -> f64 {
        self.members.len() as f64
    }
}
