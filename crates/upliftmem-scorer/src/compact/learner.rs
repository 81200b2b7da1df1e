//! Learning: labels in, hyper-parameters by marginal likelihood, immutable versions out.

mod parts;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use upliftmem_core::{MemoryId, MemorySet, Observation, Reference, ReferenceId, TaskId};

use super::{
    evidence::Problem,
    kernel::{Kernel, LabelKind},
    lbfgs::minimise,
    parameters::{Parameters, first_steps, penalty},
    posterior::Posterior,
    query::Query,
    registry::Registry,
    row::{RelevanceScale, Row, Standard},
    snapshot::CompactScorer,
    space::{Sharpening, Space},
};
use crate::{
    Embedding, ScorerError, ScorerVersion,
    error::{Result, invalid},
};

pub(crate) use parts::{CompactParts, Fitted, LabelParts};

/// How the compact model learns.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CompactSettings {
    /// What labels measure.
    pub labels: LabelKind,
    /// Whether gains stay within what a task has left to gain (smoothed labels only).
    pub headroom: bool,
    /// Labels up to which conditioning is exact; beyond, it goes through inducing rows.
    pub exact_max: usize,
    /// Number of inducing rows.
    pub inducing_max: usize,
    /// Labels that hyper-parameters are chosen on: evenly spaced ones, if there are more.
    pub evidence_max: usize,
    /// Evaluations of the marginal likelihood in the final search.
    pub evaluations_max: usize,
    /// How texts are placed among tasks; chosen by marginal likelihood if not given.
    pub sharpening: Option<Sharpening>,
    /// Growth of the number of labels that makes a refit worthwhile.
    pub refit_growth: f64,
}

impl Default for CompactSettings {
    fn default() -> Self {
        Self {
            labels: LabelKind::Smoothed,
            headroom: true,
            exact_max: 4_000,
            inducing_max: 1_500,
            evidence_max: 700,
            evaluations_max: 30,
            sharpening: None,
            refit_growth: 1.25,
        }
    }
}

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

/// What a refit did.
#[derive(Debug, Clone, PartialEq)]
pub struct FitReport {
    /// Labels in all.
    pub labels: usize,
    /// Labels that the hyper-parameters were chosen on.
    pub evidence_labels: usize,
    /// Evaluations of the marginal likelihood.
    pub evaluations: usize,
    /// Log marginal likelihood of those labels, at the hyper-parameters chosen.
    pub log_evidence: f64,
    /// How texts are compared: chosen by marginal likelihood too.
    pub sharpening: Sharpening,
    /// The hyper-parameters.
    pub parameters: Parameters,
    /// With inducing rows, the share of the labels' prior variance that they can not express.
    pub inexpressible: Option<f64>,
}

/// A label with positions in the registry.
#[derive(Debug, Clone)]
struct Stored {
    task: u32,
    memories: Vec<u32>,
    value: f64,
    reference: Option<u32>,
    time: f64,
    /// Whether it was conditioned on when it came.
    observed: bool,
}

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
        self.registry.memory(id, embedding);
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
        let value = stored.value - self.level;
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
        self.version += 1;
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
        let search = self.search(&registry, &frame, &chosen, self.settings.evaluations_max)?;
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

    /// What the posterior was conditioned on, in the order of its labels.
    #[cfg(test)]
    pub(super) fn centred_values(&self) -> Vec<f64> {
        self.labels.iter().map(|label| label.value - self.level).collect()
    }

    /// Compares ways of placing texts on a few labels.
    fn choose_space(&self, frame: &Frame) -> Result<(Sharpening, Trial)> {
        let tasks: Vec<Embedding> = self.registry.tasks.iter().map(|t| t.embedding.clone()).collect();
        let memories: Vec<Embedding> = self
            .registry
            .memories
            .iter()
            .map(|m| m.embedding.clone())
            .collect();
        let few = spaced(self.labels.len(), self.settings.evidence_max.min(TRIAL_LABELS));
        let mut best: Option<(Sharpening, f64, Registry)> = None;
        let mut evaluations = 0;
        for steps in Sharpening::ALL {
            if self.settings.sharpening.is_some_and(|given| given != steps) {
                continue;
            }
            let space = Space::fit(self.dimension.unwrap_or(0), &tasks, &memories, steps);
            let registry = self.registry.moved(space);
            let found = self.search(&registry, frame, &few, TRIAL_EVALUATIONS)?;
            evaluations += found.evaluations;
            if best
                .as_ref()
                .is_none_or(|(_, evidence, _)| found.objective > *evidence)
            {
                best = Some((steps, found.objective, registry));
            }
        }
        best.map(|(steps, _, registry)| {
            let trial = Trial {
                registry,
                evaluations,
            };
            (steps, trial)
        })
        .ok_or_else(|| ScorerError::Numerical {
            step: "choosing the space of texts",
            problem: "no candidate could be evaluated".into(),
        })
    }

    fn relevance_scale(&self, registry: &Registry) -> RelevanceScale {
        let pairs = || {
            self.labels
                .iter()
                .flat_map(|label| label.memories.iter().map(|&memory| (label.task, memory)))
        };
        RelevanceScale {
            sharp: Standard::fit(pairs().map(|(task, memory)| registry.relevance(task, memory))),
            plain: Standard::fit(pairs().map(|(task, memory)| registry.plain_similarity(task, memory))),
        }
    }

    fn problem(
        &self,
        registry: &Registry,
        kernel: &Kernel,
        scale: RelevanceScale,
        frame: &Frame,
        chosen: &[usize],
    ) -> Problem {
        let rows = chosen
            .iter()
            .map(|&at| self.row(registry, kernel, scale, &self.labels[at]));
        let values = chosen
            .iter()
            .map(|&at| self.labels[at].value - frame.level)
            .collect();
        Problem::new(registry, rows, values)
    }

    fn search(
        &self,
        registry: &Registry,
        frame: &Frame,
        chosen: &[usize],
        evaluations_max: usize,
    ) -> Result<Search> {
        let centre = Parameters::centre(frame.unit);
        let scale = self.relevance_scale(registry);
        let problem = self.problem(registry, &frame.kernel(&centre), scale, frame, chosen);
        let mut log_evidence = f64::NEG_INFINITY;
        let mut best = f64::INFINITY;
        let objective = |point: &[f64; super::parameters::COUNT]| {
            let kernel = frame.kernel(&Parameters { point: *point });
            let (log, gradient) = problem.log_evidence(&kernel)?;
            let mut downhill = gradient.map(|slope| -slope);
            let value = penalty(point, &centre, &mut downhill) - log;
            if value < best {
                best = value;
                log_evidence = log;
            }
            Some((value, downhill))
        };
        let found = minimise(
            objective,
            centre.point,
            &first_steps(chosen.len()),
            evaluations_max,
        );
        let found = found.ok_or_else(|| ScorerError::Numerical {
            step: "marginal likelihood",
            problem: format!(
                "the covariance of {} labels is not positive definite",
                chosen.len()
            ),
        })?;
        Ok(Search {
            parameters: Parameters { point: found.point },
            evaluations: found.evaluations,
            objective: -found.value,
            log_evidence,
        })
    }

    fn condition(
        &self,
        registry: &Registry,
        kernel: &Kernel,
        scale: RelevanceScale,
        frame: &Frame,
    ) -> Result<(Posterior, Option<f64>)> {
        let count = self.labels.len();
        let exact = count <= self.settings.exact_max;
        let order: Vec<usize> = if exact {
            (0..count).collect()
        } else {
            inducing_first(count, self.settings.inducing_max)
        };
        let problem = self.problem(registry, kernel, scale, frame, &order);
        let values: Vec<f64> = order
            .iter()
            .map(|&at| self.labels[at].value - frame.level)
            .collect();
        let shared = |at: &[usize]| -> Vec<Arc<Row>> {
            at.iter()
                .map(|&at| Arc::new(self.row(registry, kernel, scale, &self.labels[at])))
                .collect()
        };
        let found = if exact {
            Posterior::exact(&problem, kernel, shared(&order), &values).map(|posterior| (posterior, None))
        } else {
            let few = self.settings.inducing_max.min(count);
            let all = problem.gated(kernel);
            Posterior::inducing(&problem, kernel, &all, shared(&order[..few]), &values)
                .map(|(posterior, left)| (posterior, Some(left)))
        };
        found.ok_or_else(|| ScorerError::Numerical {
            step: "conditioning on all labels",
            problem: format!("the covariance of {count} labels is not positive definite"),
        })
    }
}

/// Labels on which degrees of sharpening are compared, and evaluations for each.
const TRIAL_LABELS: usize = 400;
const TRIAL_EVALUATIONS: usize = 8;

/// The winner of the comparison of spaces.
struct Trial {
    registry: Registry,
    evaluations: usize,
}

/// Where a search over hyper-parameters ended.
struct Search {
    parameters: Parameters,
    evaluations: usize,
    /// Log evidence plus log prior.
    objective: f64,
    log_evidence: f64,
}

/// What is taken from the labels as they are, before any modelling.
struct Frame {
    kind: LabelKind,
    /// Utility around which everything varies: the mean of the references, or of all labels.
    level: f64,
    /// Scale of utilities, in units of those in [0, 1].
    unit: f64,
    /// The best utility there is to reach.
    ceiling: Option<f64>,
    /// Time that the labels span.
    span: f64,
}

impl Frame {
    fn of(settings: &CompactSettings, labels: &[Stored]) -> Self {
        let kind = settings.labels;
        let mean = |values: &mut dyn Iterator<Item = f64>| {
            let (sum, count) = values.fold((0.0, 0_u32), |(sum, count), value| (sum + value, count + 1));
            (count > 0).then(|| sum / f64::from(count))
        };
        let level = match kind {
            LabelKind::Paired => 0.0,
            LabelKind::Smoothed => {
                let mut references = labels
                    .iter()
                    .filter(|label| label.memories.is_empty())
                    .map(|label| label.value);
                mean(&mut references)
                    .or_else(|| mean(&mut labels.iter().map(|label| label.value)))
                    .unwrap_or(0.0)
            }
        };
        let average = mean(&mut labels.iter().map(|label| label.value)).unwrap_or(0.0);
        let spread = mean(&mut labels.iter().map(|label| (label.value - average).powi(2)))
            .unwrap_or(0.0)
            .sqrt();
        let largest = labels
            .iter()
            .map(|label| label.value)
            .fold(f64::NEG_INFINITY, f64::max);
        let smallest = labels
            .iter()
            .map(|label| label.value)
            .fold(f64::INFINITY, f64::min);
        let near_best = largest - NEAR_BEST * (largest - smallest);
        let mut best = labels
            .iter()
            .map(|label| label.value)
            .filter(|&value| value >= near_best);
        let ceiling = (settings.headroom && kind == LabelKind::Smoothed && largest > smallest)
            .then(|| mean(&mut best))
            .flatten();
        let times = labels.iter().map(|label| label.time);
        let (first, last) = times.fold((f64::INFINITY, f64::NEG_INFINITY), |(first, last), time| {
            (first.min(time), last.max(time))
        });
        Self {
            kind,
            level,
            unit: if spread > 0.0 {
                spread / TYPICAL_SPREAD
            } else {
                1.0
            },
            ceiling,
            span: if last > first { last - first } else { 1.0 },
        }
    }

    fn kernel(&self, parameters: &Parameters) -> Kernel {
        Kernel::new(self.kind, parameters, self.unit, self.span)
    }
}

/// Utilities within this share of the range below the largest count as the best there is.
const NEAR_BEST: f64 = 0.1;
/// Standard deviation of utilities in [0, 1], for which the priors are written.
const TYPICAL_SPREAD: f64 = 0.45;

/// At most `limit` of the first `count` numbers, evenly spaced.
fn spaced(count: usize, limit: usize) -> Vec<usize> {
    if count <= limit {
        (0..count).collect()
    } else {
        (0..limit).map(|i| i * count / limit).collect()
    }
}

/// All labels, the inducing ones first: the newest half, and evenly spaced ones of those before.
fn inducing_first(count: usize, limit: usize) -> Vec<usize> {
    let newest = (limit / 2).min(count);
    let mut order: Vec<usize> = (count - newest..count).collect();
    order.extend(spaced(count - newest, limit - newest));
    let mut taken = vec![false; count];
    for &at in &order {
        taken[at] = true;
    }
    order.extend((0..count).filter(|&at| !taken[at]));
    order
}
