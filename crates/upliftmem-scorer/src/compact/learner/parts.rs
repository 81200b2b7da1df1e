//! The learner as plain data, and back: what it was told, in order, and what the last refit chose. The posterior is
//! not kept: conditioning again on the same labels in the same order gives the same bits.

use serde::{Deserialize, Serialize};
use upliftmem_core::{MemoryId, ReferenceId, TaskId};

use super::{
    super::{
        parameters::Parameters,
        registry::Registry,
        space::{Sharpening, Space},
    },
    CompactLearner, CompactSettings, Frame, Stored,
};
use crate::{
    Embedding,
    error::{Result, invalid},
};

/// What a refit chose, and how much was known then.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fitted {
    pub(crate) labels: usize,
    pub(crate) tasks: usize,
    pub(crate) memories: usize,
    pub(crate) sharpening: Sharpening,
    pub(crate) parameters: Parameters,
}

/// One label by positions.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LabelParts {
    pub(crate) task: u32,
    pub(crate) memories: Vec<u32>,
    pub(crate) value: f64,
    pub(crate) reference: Option<u32>,
    pub(crate) time: f64,
    /// Whether it was conditioned on when it came; if not, the next refit will.
    pub(crate) observed: bool,
}

/// Everything a learner was told, in order.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CompactParts {
    pub(crate) settings: CompactSettings,
    pub(crate) version: u64,
    pub(crate) tasks: Vec<(TaskId, Embedding)>,
    pub(crate) memories: Vec<(MemoryId, Embedding)>,
    pub(crate) references: Vec<ReferenceId>,
    pub(crate) labels: Vec<LabelParts>,
    pub(crate) fitted: Option<Fitted>,
}

impl CompactLearner {
    pub(crate) fn to_parts(&self) -> CompactParts {
        let mut references: Vec<(u32, ReferenceId)> =
            self.references.iter().map(|(&id, &at)| (at, id)).collect();
        references.sort_unstable();
        CompactParts {
            settings: self.settings,
            version: self.version,
            tasks: self.registry.task_texts(),
            memories: self.registry.memory_texts(),
            references: references.into_iter().map(|(_, id)| id).collect(),
            labels: self
                .labels
                .iter()
                .map(|label| LabelParts {
                    task: label.task,
                    memories: label.memories.clone(),
                    value: label.value,
                    reference: label.reference,
                    time: label.time,
                    observed: label.observed,
                })
                .collect(),
            fitted: self.fitted,
        }
    }

    /// Tells a new learner the same, in the same order.
    pub(crate) fn from_parts(parts: &CompactParts) -> Result<Self> {
        let mut learner = Self::new(parts.settings)?;
        let before = parts
            .fitted
            .map_or((0, 0, 0), |fitted| (fitted.tasks, fitted.memories, fitted.labels));
        if before.0 > parts.tasks.len() || before.1 > parts.memories.len() || before.2 > parts.labels.len() {
            return Err(invalid("compact scorer", "its last fit knew more than there is"));
        }
        for (id, text) in &parts.tasks[..before.0] {
            learner.add_task(*id, text)?;
        }
        for (id, text) in &parts.memories[..before.1] {
            learner.add_memory(*id, text)?;
        }
        for (at, &id) in parts.references.iter().enumerate() {
            learner
                .references
                .insert(id, u32::try_from(at).unwrap_or(u32::MAX));
        }
        let (first, later) = parts.labels.split_at(before.2);
        for label in first {
            let stored = learner.stored(label, parts.references.len())?;
            learner.labels.push(stored);
        }
        if let Some(fitted) = parts.fitted {
            learner.adopt(fitted)?;
        }
        for (id, text) in &parts.tasks[before.0..] {
            learner.add_task(*id, text)?;
        }
        for (id, text) in &parts.memories[before.1..] {
            learner.add_memory(*id, text)?;
        }
        for label in later {
            let stored = learner.stored(label, parts.references.len())?;
            if stored.observed {
                learner.condition_on(&stored)?;
            }
            learner.labels.push(stored);
        }
        learner.version = parts.version;
        Ok(learner)
    }

    fn stored(&self, label: &LabelParts, references: usize) -> Result<Stored> {
        let tasks = self.registry.tasks.len();
        let memories = self.registry.memories.len();
        let known = (label.task as usize) < tasks
            && label.memories.iter().all(|&memory| (memory as usize) < memories)
            && label
                .reference
                .is_none_or(|reference| (reference as usize) < references);
        if !known || !label.value.is_finite() || !label.time.is_finite() {
            return Err(invalid(
                format_args!("label {} of the compact scorer", self.labels.len()),
                "speaks of a task, memory, reference or number that is not there",
            ));
        }
        Ok(Stored {
            task: label.task,
            memories: label.memories.clone(),
            value: label.value,
            reference: label.reference,
            time: label.time,
            observed: label.observed,
        })
    }

    /// A refit whose result is known: conditions on all labels with these hyper-parameters, in this space.
    fn adopt(&mut self, fitted: Fitted) -> Result<()> {
        let [tasks, memories] = self.registry.embeddings();
        let space = Space::fit(self.dimension.unwrap_or(0), &tasks, &memories, fitted.sharpening);
        let registry: Registry = self.registry.moved(space);
        let frame = Frame::of(&self.settings, &self.labels);
        let kernel = frame.kernel(&fitted.parameters);
        let scale = self.relevance_scale(&registry);
        let (posterior, _) = self.condition(&registry, &kernel, scale, &frame)?;
        self.take(registry, kernel, scale, posterior, &frame, fitted);
        Ok(())
    }
}
