//! What a scorer that reads is bound to: the texts of a task's candidates.

use std::collections::BTreeMap;

use upliftmem_core::{MemoryId, MemorySet};

use super::SetReading;
use crate::{
    MemoryInput,
    error::{Result, invalid},
};

/// Texts by memory.
pub(super) struct CandidateTexts<'a>(BTreeMap<MemoryId, &'a str>);

impl<'a> CandidateTexts<'a> {
    pub(super) fn new(memories: &[MemoryInput<'a>]) -> Self {
        Self(memories.iter().map(|memory| (memory.id, memory.text)).collect())
    }

    /// The texts of a set's members, in canonical order.
    pub(super) fn of(&self, set: &MemorySet) -> Result<Vec<&'a str>> {
        let text = |id: &MemoryId| {
            self.0.get(id).copied().ok_or_else(|| {
                invalid(
                    format_args!("memory {id}"),
                    "was not bound; bind the task with all its candidates",
                )
            })
        };
        set.iter().map(text).collect()
    }
}

/// The values of what was read.
pub(super) fn values(readings: Vec<Option<SetReading>>) -> Vec<Option<f64>> {
    let value = |reading: Option<SetReading>| Some(reading?.value);
    readings.into_iter().map(value).collect()
}
