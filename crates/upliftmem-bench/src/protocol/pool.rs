//! The texts that UpliftMem chooses from.

use std::collections::BTreeMap;

use upliftmem_core::{MemoryId, TaskId};

use crate::systems::MemorySystem;

/// Texts in the order in which they were written, and which of them are a task's own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pool {
    /// The texts.
    pub texts: Vec<String>,
    /// Tasks with stores of their own: the places of what they may be given.
    pub own: BTreeMap<TaskId, Vec<usize>>,
}

impl Pool {
    /// The store of a system.
    pub fn of(system: &dyn MemorySystem) -> Self {
        Self {
            texts: system.memories().to_vec(),
            own: system.own(),
        }
    }

    /// The name of the memory at a place.
    pub(super) fn id(place: usize) -> MemoryId {
        MemoryId::from_u128(place as u128 + 1)
    }

    /// Which memories tasks with stores of their own may be given.
    pub(super) fn own_memories(&self) -> BTreeMap<TaskId, Vec<MemoryId>> {
        let own = self.own.iter();
        own.map(|(task, places)| (*task, places.iter().copied().map(Self::id).collect()))
            .collect()
    }
}
