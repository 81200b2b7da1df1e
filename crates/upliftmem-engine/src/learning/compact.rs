//! The compact scorer, kept in step with labels.

use std::{path::Path, sync::Arc};

use sha2::{Digest, Sha256};
use upliftmem_scorer::{
    CompactLearner, CompactSettings, FitReport, Label, LabelKind, Parameter, ScorerVersion,
    checkpoint::{Manifest, Provenance},
    embedder::Generation,
};

use super::LearningTexts;
use crate::{
    error::Result,
    scoring::BelievingScorer,
    state::{Labelled, Learned},
};

/// The compact model and what it was made of.
pub(super) struct CompactLearning {
    settings: CompactSettings,
    learner: CompactLearner,
    /// The last choice of hyper-parameters.
    fit: Option<FitReport>,
}

impl CompactLearning {
    pub(super) fn new(settings: CompactSettings) -> Result<Self> {
        Ok(Self {
            learner: CompactLearner::new(settings)?,
            settings,
            fit: None,
        })
    }

    /// The scorer that `learned` says.
    pub(super) fn restore(
        &mut self,
        labels: &[Labelled],
        learned: Learned,
        texts: &LearningTexts,
        taught: &[Label],
    ) -> Result<()> {
        self.learner = CompactLearner::new(self.settings)?;
        // What was chosen for later labels is no part of an earlier version.
        self.fit = None;
        self.take(&labels[..learned.fitted], 0, texts, true)?;
        if learned.fitted > 0 {
            self.hold(taught, texts)?;
            self.fit = Some(self.learner.refit()?);
        }
        let rest = &labels[learned.fitted..learned.labels];
        self.take(rest, learned.fitted, texts, false)
    }

    /// Learns everything anew and chooses hyper-parameters: a function of the labels alone.
    pub(super) fn refit(
        &mut self,
        labels: &[Labelled],
        texts: &LearningTexts,
        taught: &[Label],
    ) -> Result<&FitReport> {
        self.learner = CompactLearner::new(self.settings)?;
        self.take(labels, 0, texts, true)?;
        self.hold(taught, texts)?;
        let fit = self.learner.refit()?;
        Ok(self.fit.insert(fit))
    }

    /// Learns from labels after those it has.
    pub(super) fn take_new(
        &mut self,
        labels: &[Labelled],
        first: usize,
        texts: &LearningTexts,
    ) -> Result<()> {
        self.take(labels, first, texts, false)
    }

    pub(super) fn publish(&mut self, version: u64) -> Arc<dyn BelievingScorer> {
        self.learner.publish_as(ScorerVersion(version))
    }

    pub(super) fn save(
        &mut self,
        version: u64,
        embedder: &Generation,
        data: Option<String>,
        directory: &Path,
    ) -> Result<Manifest> {
        self.publish(version);
        let metrics = self.fit.as_ref().map(|fit| {
            serde_json::json!({
                "labels": fit.labels,
                "log_evidence": fit.log_evidence,
                "evaluations": fit.evaluations,
                "sharpening": fit.sharpening,
            })
        });
        let provenance = Provenance {
            embedder: Some(embedder.clone()),
            data,
            metrics: metrics.unwrap_or_default(),
        };
        Ok(self.learner.save(directory, &provenance)?)
    }

    pub(super) fn hash_into(&self, hash: &mut Sha256) {
        if let Some(fit) = &self.fit {
            hash.update(format!("{:?}", fit.sharpening));
            for value in Parameter::ALL.map(|parameter| fit.parameters.get(parameter)) {
                hash.update(value.to_le_bytes());
            }
        }
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

    /// Takes labels that nobody executed.
    fn hold(&mut self, taught: &[Label], texts: &LearningTexts) -> Result<()> {
        for label in taught {
            if self.admit(label, texts)? {
                self.learner.hold(label)?;
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
