//! Fitting: the space of texts and the hyper-parameters by marginal likelihood, then conditioning on all labels.

use std::sync::Arc;

use rayon::prelude::*;

use super::{
    super::{
        evidence::Problem,
        kernel::Kernel,
        lbfgs::minimise,
        parameters::{COUNT, Parameters, first_steps, penalty},
        posterior::Posterior,
        registry::Registry,
        row::{RelevanceScale, Row, Standard},
        space::{Sharpening, Space},
    },
    CompactLearner,
    frame::Frame,
    label::Stored,
};
use crate::{ScorerError, error::Result};

/// Labels on which degrees of sharpening are compared, and evaluations for each.
const TRIAL_LABELS: usize = 150;
const TRIAL_EVALUATIONS: usize = 4;

/// The winner of the comparison of spaces.
pub(super) struct Trial {
    pub(super) registry: Registry,
    /// Where its search ended.
    pub(super) parameters: Parameters,
    pub(super) evaluations: usize,
}

/// Where a search over hyper-parameters ended.
pub(super) struct Search {
    pub(super) parameters: Parameters,
    pub(super) evaluations: usize,
    /// Log evidence plus log prior.
    objective: f64,
    pub(super) log_evidence: f64,
}

impl CompactLearner {
    /// Compares ways of placing texts on a few labels.
    pub(super) fn choose_space(&self, frame: &Frame) -> Result<(Sharpening, Trial)> {
        let [tasks, memories] = self.registry.embeddings();
        let few = spaced(self.labels.len(), self.settings.evidence_max.min(TRIAL_LABELS));
        let centre = Parameters::centre(frame.unit);
        let wanted: Vec<Sharpening> = Sharpening::ALL
            .into_iter()
            .filter(|&steps| self.settings.sharpening.is_none_or(|given| given == steps))
            .collect();
        let placed = |steps| {
            let space = Space::fit(self.dimension.unwrap_or(0), &tasks, &memories, steps);
            self.registry.moved(space)
        };
        // Spaces by shared directions differ in their landmarks only.
        let shared = wanted.iter().find(|&&steps| steps != Sharpening::Plain);
        let shared: Option<Registry> = shared.map(|&steps| placed(steps));
        let trials: Vec<(Sharpening, Search, Registry)> = wanted
            .into_par_iter()
            .map(|steps| {
                let registry = match &shared {
                    Some(known) if steps != Sharpening::Plain => {
                        known.replaced(known.space().with_landmarks(&tasks, steps))
                    }
                    _ => placed(steps),
                };
                let found = self.search(&registry, frame, &few, centre, TRIAL_EVALUATIONS)?;
                Ok((steps, found, registry))
            })
            .collect::<Result<_>>()?;
        let evaluations = trials.iter().map(|(_, found, _)| found.evaluations).sum();
        // The plainest of equals.
        let best = trials.into_iter().reduce(|best, next| {
            if next.1.objective > best.1.objective {
                next
            } else {
                best
            }
        });
        best.map(|(steps, found, registry)| {
            let trial = Trial {
                registry,
                parameters: found.parameters,
                evaluations,
            };
            (steps, trial)
        })
        .ok_or_else(|| ScorerError::Numerical {
            step: "choosing the space of texts",
            problem: "no candidate could be evaluated".into(),
        })
    }

    pub(super) fn relevance_scale(&self, registry: &Registry) -> RelevanceScale {
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

    pub(super) fn problem(
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
            .map(|&at| self.labels[at].centred(frame.level, kernel))
            .collect();
        Problem::new(registry, rows, values)
    }

    pub(super) fn search(
        &self,
        registry: &Registry,
        frame: &Frame,
        chosen: &[usize],
        start: Parameters,
        evaluations_max: usize,
    ) -> Result<Search> {
        let centre = Parameters::centre(frame.unit);
        let scale = self.relevance_scale(registry);
        let problem = self.problem(registry, &frame.kernel(&centre), scale, frame, chosen);
        let mut log_evidence = f64::NEG_INFINITY;
        let mut best = f64::INFINITY;
        let objective = |point: &[f64; COUNT]| {
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
            start.point,
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

    pub(super) fn condition(
        &self,
        registry: &Registry,
        kernel: &Kernel,
        scale: RelevanceScale,
        frame: &Frame,
    ) -> Result<(Posterior, Option<f64>)> {
        let count = self.labels.len();
        let exact = count <= self.settings.exact_max;
        let order = if exact {
            references_first(&self.labels)
        } else {
            inducing_first(count, self.settings.inducing_max)
        };
        let problem = self.problem(registry, kernel, scale, frame, &order);
        let values: Vec<f64> = order
            .iter()
            .map(|&at| self.labels[at].centred(frame.level, kernel))
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

/// At most `limit` of the first `count` numbers, evenly spaced.
pub(super) fn spaced(count: usize, limit: usize) -> Vec<usize> {
    if count <= limit {
        (0..count).collect()
    } else {
        (0..limit).map(|i| i * count / limit).collect()
    }
}

/// All labels, those without memories first: what memories do does not covary with them, and what comes first in a factor
/// can be left out where it is zero.
pub(super) fn references_first(labels: &[Stored]) -> Vec<usize> {
    let (references, others): (Vec<usize>, Vec<usize>) =
        (0..labels.len()).partition(|&at| labels[at].memories.is_empty());
    references.into_iter().chain(others).collect()
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
