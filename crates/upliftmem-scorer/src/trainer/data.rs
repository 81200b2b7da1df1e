//! What one member of an update learns from.

use std::collections::BTreeSet;

use upliftmem_core::{MemoryId, TaskId};

use super::{Corpus, Question};
use crate::{
    error::Result,
    losses::{PathExample, SetsOfTask, ValueExample},
};

/// Labels and paths, with the texts they speak of.
#[derive(Debug, Clone, Copy)]
pub struct TrainingData<'a> {
    /// The texts.
    pub corpus: &'a Corpus,
    /// Labels: the whole value buffer. Paper: D_v.
    pub values: &'a [&'a ValueExample],
    /// Paths that were sampled since the last update. Paper: the latest batch of D_pi.
    pub paths: &'a [&'a PathExample],
}

impl TrainingData<'_> {
    /// Every task with a label or a path.
    pub fn tasks(&self) -> BTreeSet<TaskId> {
        let labelled = self.values.iter().map(|example| example.label.task);
        labelled
            .chain(self.paths.iter().map(|example| example.task))
            .collect()
    }

    /// Every memory of a labelled set, or that a path could have added.
    pub fn memories(&self) -> BTreeSet<MemoryId> {
        let labelled = self.values.iter().flat_map(|example| example.set.iter().copied());
        let allowed = self
            .paths
            .iter()
            .flat_map(|example| &example.path.steps)
            .flat_map(|step| step.mask.iter().copied());
        labelled.chain(allowed).collect()
    }
}

/// Gives every task of a batch its texts.
pub(super) fn questions<'a>(corpus: &'a Corpus, asked: &'a [SetsOfTask]) -> Result<Vec<Question<'a>>> {
    asked
        .iter()
        .map(|SetsOfTask { task, sets }| {
            let needed: BTreeSet<MemoryId> = sets.iter().flat_map(|set| set.iter().copied()).collect();
            Ok(Question {
                task: corpus.task(*task)?,
                memories: needed
                    .into_iter()
                    .map(|id| corpus.memory(id))
                    .collect::<Result<_>>()?,
                sets,
            })
        })
        .collect()
}
