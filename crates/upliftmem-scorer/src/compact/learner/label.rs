//! What is observed: the value of a set for a task.

use upliftmem_core::{MemorySet, Observation, Reference, ReferenceId, TaskId};

use super::super::kernel::Kernel;

/// One observed value of a set for a task.
#[derive(Debug, Clone, PartialEq)]
pub struct Label {
    /// The task.
    pub task: TaskId,
    /// The complete set that was used; empty for a reference.
    pub set: MemorySet,
    /// Utility (smoothed labels) or uplift (paired labels).
    pub value: f64,
    /// The reference that a paired label was measured against.
    pub reference: Option<ReferenceId>,
    /// When it was observed, in any unit that grows; the number of the execution will do.
    pub time: f64,
}

impl Label {
    /// The utility of an execution with memories, as a smoothed label.
    pub fn smoothed(observation: &Observation, time: f64) -> Self {
        Self {
            task: observation.task,
            set: observation.set.clone(),
            value: observation.utility.get(),
            reference: None,
            time,
        }
    }

    /// The utility of an execution without memory, as a smoothed label.
    pub fn reference(reference: &Reference, time: f64) -> Self {
        Self {
            task: reference.task,
            set: MemorySet::EMPTY,
            value: reference.utility.get(),
            reference: None,
            time,
        }
    }

    /// The uplift over a reference, as a paired label. Paper: eq. observed_uplift, eq. baseline_noise.
    pub fn paired(observation: &Observation, time: f64) -> Self {
        Self {
            task: observation.task,
            set: observation.set.clone(),
            value: observation.uplift.get(),
            reference: Some(observation.reference),
            time,
        }
    }
}

/// A label with positions in the registry.
#[derive(Debug, Clone)]
pub(super) struct Stored {
    pub(super) task: u32,
    pub(super) memories: Vec<u32>,
    pub(super) value: f64,
    pub(super) reference: Option<u32>,
    pub(super) time: f64,
    /// Whether it was conditioned on when it came.
    pub(super) observed: bool,
}

impl Stored {
    /// What the model explains: the value relative to the overall level and to what its members are expected to cost.
    pub(super) fn centred(&self, level: f64, kernel: &Kernel) -> f64 {
        self.value - level + kernel.member_cost * self.memories.len() as f64
    }
}
