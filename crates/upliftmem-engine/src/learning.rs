//! The compact scorer, kept in step with the labels of a run.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Map, json};
use sha2::{Digest, Sha256};
use upliftmem_core::{MemoryId, MemorySet, TaskId};
use upliftmem_scorer::{
    CompactLearner, CompactSettings, FitReport, Label, LabelKind, Parameter, ScorerVersion,
};

use crate::{
    error::Result,
    scoring::BelievingScorer,
    seeds::hexadecimal,
    state::{Labelled, Learned},
    texts::{KnownMemory, KnownTask},
};

/// What learning needs to know of texts: the tasks of all labels, and the memories that are still there.
#[derive(Debug, Default)]
pub(crate) struct LearningTexts {
    /// By task.
    pub(crate) tasks: BTreeMap<TaskId, Arc<KnownTask>>,
    /// By memory.
    pub(crate) memories: BTreeMap<MemoryId, Arc<KnownMemory>>,
}

/// Learns from labels and publishes scorers.
pub(crate) struct Learning {
    settings: CompactSettings,
    learner: CompactLearner,
    learned: Learned,
    /// The last choice of hyper-parameters.
    fit: Option<FitReport>,
}

impl Learning {
    /// Knows nothing.
    pub(crate) fn new(settings: CompactSettings) -> Result<Self> {
        Ok(Self {
            learner: CompactLearner::new(settings)?,
            settings,
            learned: Learned::default(),
            fit: None,
        })
    }

    /// The scorer that `learned` says, from the labels it was made of.
    pub(crate) fn restore(
        &mut self,
        labels: &[Labelled],
        learned: Learned,
        texts: &LearningTexts,
    ) -> Result<()> {
        self.learner = CompactLearner::new(self.settings)?;
        // What was chosen for later labels is no part of an earlier version.
        self.fit = None;
        self.take(&labels[..learned.fitted], 0, texts, true)?;
        if learned.fitted > 0 {
            self.fit = Some(self.learner.refit()?);
        }
        let rest = &labels[learned.fitted..learned.labels];
        self.take(rest, learned.fitted, texts, false)?;
        self.learned = learned;
        Ok(())
    }

    /// Learns from labels that are new; chooses hyper-parameters anew when it is worth it.
    pub(crate) fn update(
        &mut self,
        labels: &[Labelled],
        texts: &LearningTexts,
    ) -> Result<(Learned, Map<String, serde_json::Value>)> {
        let mut fitted = self.learned.fitted;
        let mut report = Map::new();
        let grown = labels.len() as f64 >= self.settings.refit_growth * fitted.max(1) as f64;
        if grown {
            // A refit is a function of the labels alone, so a learner that starts afresh gives the same.
            self.learner = CompactLearner::new(self.settings)?;
            self.take(labels, 0, texts, true)?;
            let fit = self.learner.refit()?;
            fitted = labels.len();
            report.insert("log_evidence".into(), json!(fit.log_evidence));
            report.insert("evaluations".into(), json!(fit.evaluations));
            self.fit = Some(fit);
        } else {
            let new = &labels[self.learned.labels..];
            self.take(new, self.learned.labels, texts, false)?;
        }
        self.learned = Learned {
            version: self.learned.version + 1,
            labels: labels.len(),
            fitted,
        };
        Ok((self.learned, report))
    }

    /// A hash of all that decides the scorer's values: the labels it rests on and the hyper-parameters.
    pub(crate) fn digest(&self, labels: &[Labelled]) -> String {
        let mut hash = Sha256::new();
        for label in labels {
            let (task, set, utility) = match label {
                Labelled::Reference(seen) => (seen.task, &MemorySet::EMPTY, seen.utility),
                Labelled::Observation(seen) => (seen.task, &seen.set, seen.utility),
            };
            hash.update(task.as_u128().to_le_bytes());
            hash.update((set.len() as u64).to_le_bytes());
            for id in set {
                hash.update(id.as_u128().to_le_bytes());
            }
            hash.update(utility.get().to_le_bytes());
        }
        if let Some(fit) = &self.fit {
            hash.update(format!("{:?}", fit.sharpening));
            for value in Parameter::ALL.map(|parameter| fit.parameters.get(parameter)) {
                hash.update(value.to_le_bytes());
            }
        }
        hexadecimal(&hash.finalize())
    }

    /// The scorer as it stands.
    pub(crate) fn publish(&mut self) -> Arc<dyn BelievingScorer> {
        self.learner
            .publish()
            .numbered(ScorerVersion(self.learned.version))
    }

    /// The scorer as it stands, under the number of labels that it rests on: whoever serves it counts by those.
    pub(crate) fn publish_by_labels(&mut self) -> Arc<dyn BelievingScorer> {
        self.learned.version = self.learned.labels as u64;
        self.publish()
    }

    /// Takes labels in order; each makes its task and its memories known first, so that what is known depends on
    /// the labels alone. A label about a memory that is gone teaches nothing.
    fn take(&mut self, labels: &[Labelled], first: usize, texts: &LearningTexts, hold: bool) -> Result<()> {
        for (place, label) in labels.iter().enumerate() {
            let time = (first + place) as f64;
            let label = match (label, self.settings.labels) {
                (Labelled::Reference(reference), LabelKind::Smoothed) => Label::reference(reference, time),
                (Labelled::Reference(_), LabelKind::Paired) => continue,
                (Labelled::Observation(seen), LabelKind::Smoothed) => Label::smoothed(seen, time),
                (Labelled::Observation(seen), LabelKind::Paired) => Label::paired(seen, time),
            };
            if !self.admit(&label, texts)? {
                continue;
            }
            if hold {
                self.learner.hold(&label)?;
            } else {
                self.learner.observe(&label)?;
            }
        }
        Ok(())
    }

    /// Makes the texts of a label known; says whether they all are.
    fn admit(&mut self, label: &Label, texts: &LearningTexts) -> Result<bool> {
        let members: Option<Vec<_>> = label.set.iter().map(|id| texts.memories.get(id)).collect();
        let (Some(task), Some(members)) = (texts.tasks.get(&label.task), members) else {
            return Ok(false);
        };
        self.learner.add_task(task.task.id, &task.embedding)?;
        for memory in members {
            self.learner.add_memory(memory.id, &memory.embedding)?;
        }
        Ok(true)
    }
}

/// Every memory that labels speak of.
pub(crate) fn memories_of(labels: &[Labelled]) -> Vec<MemoryId> {
    let sets = labels.iter().filter_map(|label| match label {
        Labelled::Observation(seen) => Some(seen.set.iter().copied()),
        Labelled::Reference(_) => None,
    });
    let mut ids: Vec<MemoryId> = sets.flatten().collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}
