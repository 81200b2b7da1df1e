//! The compact scorer searches and believes; a language model has the last word on what it found.

use std::{sync::Arc, time::Duration};

use upliftmem_core::{BeamResult, ReferenceBelief, ScoredSet, SearchEnd, TaskId};
use upliftmem_scorer::{
    FeatureMap, MemoryInput, ScorerError, ScorerVersion, SetScorer, TaskInput, TaskScorer, TaskSets,
    lm::Cascade,
};

use crate::{
    error::Result,
    scoring::{Believed, BelievingScorer},
};

/// Two scorers as one.
pub(crate) struct CascadeScorer {
    quick: Arc<dyn BelievingScorer>,
    cascade: Cascade,
}

impl CascadeScorer {
    pub(crate) const fn new(quick: Arc<dyn BelievingScorer>, cascade: Cascade) -> Self {
        Self { quick, cascade }
    }
}

impl SetScorer for CascadeScorer {
    fn version(&self) -> ScorerVersion {
        self.quick.version()
    }

    fn bind<'a>(
        &'a self,
        task: TaskInput<'a>,
        memories: &[MemoryInput<'a>],
    ) -> Result<Box<dyn TaskScorer + 'a>, ScorerError> {
        self.quick.bind(task, memories)
    }
}

impl BelievingScorer for CascadeScorer {
    fn name(&self) -> &'static str {
        "cascade"
    }

    fn feature_map(&self, items: &[TaskSets<'_>], dimension_max: usize) -> Result<FeatureMap> {
        self.quick.feature_map(items, dimension_max)
    }

    fn believe(&self, items: &[TaskSets<'_>], dimension_max: usize) -> Result<Believed> {
        self.quick.believe(items, dimension_max)
    }

    fn label_variance(&self) -> Result<f64> {
        self.quick.label_variance()
    }

    fn reference(&self, task: TaskId) -> Result<ReferenceBelief> {
        self.quick.reference(task)
    }

    /// What the language model read is in the archive with its value, before what it did not read.
    fn decide(
        &self,
        task: TaskInput<'_>,
        memories: &[MemoryInput<'_>],
        mut found: BeamResult,
        time: Option<Duration>,
    ) -> Result<BeamResult> {
        let seen = found
            .depths
            .iter()
            .flat_map(|depth| depth.kept.iter().chain(&depth.runners_up));
        let sets: Vec<ScoredSet> = seen
            .map(|step| ScoredSet {
                set: step.set.clone(),
                value: step.value,
            })
            .collect();
        let decided = self.cascade.decide(task, memories, &sets, time)?;
        if decided.left_out > 0 {
            found.end = SearchEnd::Interrupted;
        }
        if decided.rescored.is_empty() {
            return Ok(found);
        }
        let read: Vec<ScoredSet> = decided.rescored.into_iter().map(|one| one.scored).collect();
        let mut archive: Vec<ScoredSet> = found.archive.drain(..).filter(|one| one.set.is_empty()).collect();
        archive.extend(read);
        archive.sort_by(ScoredSet::preference);
        found.best = decided.best;
        found.archive = archive;
        Ok(found)
    }
}
