//! Learning: labels in, hyper-parameters by marginal likelihood, immutable versions out.

mod fit;
mod frame;
mod label;
mod parts;
mod settings;

use std::sync::Arc;

use upliftmem_core::{MemoryId, ReferenceId, TaskId};

use super::{
    kernel::{Kernel, LabelKind},
    parameters::Parameters,
    posterior::Posterior,
    query::Query,
    registry::Registry,
    row::{RelevanceScale, Row},
    snapshot::CompactScorer,
    space::Space,
};
use crate::{
    Embedding, ScorerError, ScorerVersion,
    error::{Result, invalid},
};

pub use label::Label;
pub(crate) use parts::{CompactParts, Fitted, LabelParts};
pub use settings::{CompactSettings, FitReport};

use self::{fit::spaced, frame::Frame, label::Stored};

/// Collects labels, and keeps the posterior given all of them.
#[derive(Debug, Clone)]
pub struct CompactLearner {
    settings: CompactSettings,
    version: u64,
    dimension: Option<usize>,
    registry: Registry,
    references: std::collections::BTreeMap<ReferenceId, u32>,
    labels: Vec<Stored>,
    fitted_labels: usize,
    /// What the last refit chose.
    fitted: Option<Fitted>,
    kernel: Arc<Kernel>,
    scale: RelevanceScale,
    posterior: Posterior,
    level: f64,
    ceiling: Option<f64>,
}

impl CompactLearner {
    /// A learner that knows nothing.
    pub fn new(settings: CompactSettings) -> Result<Self> {
        for (what, value) in [
            ("exact_max", settings.exact_max),
            ("inducing_max", settings.inducing_max),
            ("evidence_max", settings.evidence_max),
            ("evaluations_max", settings.evaluations_max),
        ] {
            if value == 0 {
                return Err(invalid(what, "must be at least 1"));
            }
        }
        if settings.refit_growth.is_nan() || settings.refit_growth <= 1.0 {
            return Err(invalid("refit_growth", "must be above 1"));
        }
        for (what, cost) in [
            ("member_cost", settings.member_cost),
            ("meddling_cost", settings.meddling_cost),
        ] {
            if !(cost.is_finite() && cost >= 0.0) {
                return Err(invalid(what, "must be a number that is not below 0"));
            }
        }
        if !(settings.reference_noise > 0.0 && settings.reference_noise <= 1.0) {
            return Err(invalid("reference_noise", "must be above 0 and at most 1"));
        }
        // Before the first fit the scale of utilities is unknown, and nothing is said about any set.
        let kernel = Kernel::new(settings.labels, &Parameters::centre(1.0), 1.0, 1.0);
        Ok(Self {
            settings,
            version: 0,
            dimension: None,
            registry: Registry::new(Space::plain(0)),
            references: std::collections::BTreeMap::new(),
            labels: Vec::new(),
            fitted_labels: 0,
            fitted: None,
            kernel: Arc::new(kernel),
            scale: RelevanceScale::UNKNOWN,
            posterior: Posterior::empty(),
            level: 0.0,
            ceiling: None,
        })
    }

    fn admit(&mut self, what: &str, embedding: &Embedding) -> Result<()> {
        match self.dimension {
            Some(dimension) => self.registry.check(dimension, &what, embedding),
            None => {
                self.dimension = Some(embedding.dimension());
                self.registry = Registry::new(Space::plain(embedding.dimension()));
                Ok(())
            }
        }
    }

    /// Makes a task known. A task already known keeps the embedding it has.
    pub fn add_task(&mut self, id: TaskId, embedding: &Embedding) -> Result<()> {
        self.admit(&format!("task {id}"), embedding)?;
        self.registry.task(id, embedding);
        Ok(())
    }

    /// Makes a memory known. A memory already known keeps the embedding it has.
    pub fn add_memory(&mut self, id: MemoryId, embedding: &Embedding) -> Result<()> {
        self.admit(&format!("memory {id}"), embedding)?;
        self.registry.memories(&[(id, embedding)]);
        Ok(())
    }

    /// Number of labels taken.
    pub fn labels(&self) -> usize {
        self.labels.len()
    }

    /// Whether enough labels have arrived since the last refit to make another worthwhile.
    pub fn refit_due(&self) -> bool {
        self.labels.len() as f64 >= self.settings.refit_growth * self.fitted_labels.max(1) as f64
    }

    /// Takes one more label and conditions on it at once, with the hyper-parameters as they are.
    ///
    /// Refuses, without any change, numbers that are not finite, tasks and memories that were not added, and
    /// labels that do not fit the kind the learner was set up for.
    pub fn observe(&mut self, label: &Label) -> Result<()> {
        let stored = self.checked(label)?;
        self.remember_reference(label);
        self.condition_on(&stored)?;
        self.labels.push(stored);
        Ok(())
    }

    fn condition_on(&mut self, stored: &Stored) -> Result<()> {
        let row = self.row(&self.registry, &self.kernel, self.scale, stored);
        let candidates = stored.memories.clone();
        let query = Query::new(&self.registry, &self.kernel, stored.task, candidates, stored.time);
        let cross = self
            .posterior
            .rows
            .iter()
            .map(|other| self.kernel.covariance(&query, &row, other))
            .collect();
        let variance = self.kernel.covariance(&query, &row, &row);
        let value = stored.centred(self.level, &self.kernel);
        self.posterior
            .append(&self.kernel, row, cross, variance, value)
            .ok_or_else(|| ScorerError::Numerical {
                step: "conditioning on a label",
                problem: format!("the covariance of {} labels is singular", self.labels.len() + 1),
            })
    }

    /// Takes one more label without conditioning on it: the next refit will. For bringing in many at once.
    pub fn hold(&mut self, label: &Label) -> Result<()> {
        let mut stored = self.checked(label)?;
        stored.observed = false;
        self.remember_reference(label);
        self.labels.push(stored);
        Ok(())
    }

    fn remember_reference(&mut self, label: &Label) {
        if let Some(reference) = label.reference {
            let next = u32::try_from(self.references.len()).unwrap_or(u32::MAX);
            self.references.entry(reference).or_insert(next);
        }
    }

    fn checked(&self, label: &Label) -> Result<Stored> {
        let what = || format!("label of task {} with {:?}", label.task, label.set);
        if !label.value.is_finite() || !label.time.is_finite() {
            return Err(invalid(
                what(),
                format_args!(
                    "value {} at time {}: both must be finite numbers",
                    label.value, label.time
                ),
            ));
        }
        match (self.settings.labels, label.reference) {
            (LabelKind::Smoothed, Some(_)) => {
                return Err(invalid(
                    what(),
                    "a smoothed label is a utility and names no reference",
                ));
            }
            (LabelKind::Paired, None) => {
                return Err(invalid(
                    what(),
                    "a paired label must name the reference it was measured against",
                ));
            }
            (LabelKind::Paired, Some(_)) if label.set.is_empty() => {
                return Err(invalid(
                    what(),
                    "the empty set has uplift 0 by definition and is no paired label",
                ));
            }
            _ => {}
        }
        let task = self
            .registry
            .known_task(label.task)
            .ok_or_else(|| invalid(what(), "its task has no embedding; add the task first"))?;
        let memories = label
            .set
            .iter()
            .map(|&id| {
                self.registry.known_memory(id).ok_or_else(|| {
                    invalid(
                        what(),
                        format_args!("memory {id} has no embedding; add the memory first"),
                    )
                })
            })
            .collect::<Result<_>>()?;
        let reference = label.reference.map(|reference| {
            let next = u32::try_from(self.references.len()).unwrap_or(u32::MAX);
            self.references.get(&reference).copied().unwrap_or(next)
        });
        Ok(Stored {
            task,
            memories,
            value: label.value,
            reference,
            time: label.time,
            observed: true,
        })
    }

    #[expect(clippy::unused_self, reason = "reads as a step of the learner")]
    fn row(&self, registry: &Registry, kernel: &Kernel, scale: RelevanceScale, label: &Stored) -> Row {
        let memories = label.memories.iter().copied();
        let mut row = Row::new(registry, kernel, scale, label.task, memories);
        row.reference = label.reference;
        row.time = label.time;
        row
    }

    /// When the latest label was observed.
    fn now(&self) -> f64 {
        self.labels
            .iter()
            .map(|label| label.time)
            .fold(f64::NEG_INFINITY, f64::max)
    }

    /// An immutable version of what has been learned so far. Cheap: large parts are shared.
    pub fn publish(&mut self) -> Arc<CompactScorer> {
        self.publish_as(ScorerVersion(self.version + 1))
    }

    /// The same under the number that whoever publishes it counts by.
    pub fn publish_as(&mut self, version: ScorerVersion) -> Arc<CompactScorer> {
        self.version = version.0;
        self.posterior.weigh();
        let now = self.now();
        Arc::new(CompactScorer {
            version: ScorerVersion(self.version),
            kind: self.settings.labels,
            dimension: self.dimension,
            registry: self.registry.clone(),
            kernel: Arc::clone(&self.kernel),
            scale: self.scale,
            posterior: self.posterior.clone(),
            level: self.level,
            ceiling: self.ceiling,
            now: if now.is_finite() { now } else { 0.0 },
        })
    }

    /// Chooses the hyper-parameters by marginal likelihood and conditions on all labels anew.
    ///
    /// A function of the labels alone: not of earlier fits, nor of the number of threads. If it fails, nothing
    /// is changed.
    pub fn refit(&mut self) -> Result<FitReport> {
        let frame = Frame::of(&self.settings, &self.labels);
        let (sharpening, trial) = self.choose_space(&frame)?;
        let registry = trial.registry;
        let chosen = spaced(self.labels.len(), self.settings.evidence_max);
        let most = self.settings.evaluations_max;
        let search = self.search(&registry, &frame, &chosen, trial.parameters, most)?;
        let parameters = search.parameters;
        let kernel = frame.kernel(&parameters);
        let scale = self.relevance_scale(&registry);
        let (posterior, inexpressible) = self.condition(&registry, &kernel, scale, &frame)?;
        let fitted = Fitted {
            labels: self.labels.len(),
            tasks: registry.tasks.len(),
            memories: registry.memories.len(),
            sharpening,
            parameters,
        };
        self.take(registry, kernel, scale, posterior, &frame, fitted);
        Ok(FitReport {
            labels: self.labels.len(),
            evidence_labels: chosen.len(),
            evaluations: search.evaluations + trial.evaluations,
            log_evidence: search.log_evidence,
            sharpening,
            parameters,
            inexpressible,
        })
    }

    /// Makes the result of a refit the present state.
    fn take(
        &mut self,
        registry: Registry,
        kernel: Kernel,
        scale: RelevanceScale,
        posterior: Posterior,
        frame: &Frame,
        fitted: Fitted,
    ) {
        self.registry = registry;
        self.kernel = Arc::new(kernel);
        self.scale = scale;
        self.posterior = posterior;
        self.level = frame.level;
        self.ceiling = frame.ceiling;
        self.fitted_labels = fitted.labels;
        self.fitted = Some(fitted);
    }

    /// Conditions on all labels anew, with the hyper-parameters as they are.
    #[cfg(test)]
    pub(super) fn recondition(&mut self) -> Result<()> {
        let mut frame = Frame::of(&self.settings, &self.labels);
        frame.level = self.level;
        let kernel = Arc::clone(&self.kernel);
        self.posterior = self.condition(&self.registry, &kernel, self.scale, &frame)?.0;
        Ok(())
    }

    /// What the posterior was conditioned on by the last refit, in the order of its rows.
    #[cfg(test)]
    pub(super) fn centred_values(&self) -> Vec<f64> {
        let order = fit::references_first(&self.labels).into_iter();
        order
            .map(|at| self.labels[at].centred(self.level, &self.kernel))
            .collect()
    }
}
