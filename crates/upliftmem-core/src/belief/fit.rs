//! Prior scales and noise variances, fitted by marginal likelihood.

use std::collections::BTreeMap;

use faer::{Mat, Side, linalg::solvers::Solve};
use serde::{Deserialize, Serialize};

use super::LabelRow;
use crate::{
    ReferenceId,
    error::{InvalidInput, Result, finite, non_negative, positive},
};

/// Prior variances of coefficients, group by group, and the variances of the two kinds of noise.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinearPrior {
    /// Number of features and prior variance of each group, in the order of the features: hidden state, constant
    /// and identities have scales of their own.
    groups: Vec<(usize, f64)>,
    run_variance: f64,
    reference_variance: f64,
}

impl LinearPrior {
    /// `run_variance` is the noise of an execution with memory, `reference_variance` that of one without.
    /// Paper: nu^2 and nu_0^2.
    pub fn new(groups: Vec<(usize, f64)>, run_variance: f64, reference_variance: f64) -> Result<Self> {
        for &(_, variance) in &groups {
            non_negative("prior variance", variance)?;
        }
        Ok(Self {
            groups,
            run_variance: positive("run_variance", run_variance)?,
            reference_variance: non_negative("reference_variance", reference_variance)?,
        })
    }

    /// Number of features.
    pub fn dimension(&self) -> usize {
        self.groups.iter().map(|&(size, _)| size).sum()
    }

    /// Prior variance of each group.
    pub fn group_variances(&self) -> impl Iterator<Item = f64> + '_ {
        self.groups.iter().map(|&(_, variance)| variance)
    }

    /// Noise of an execution with memory.
    pub fn run_variance(&self) -> f64 {
        self.run_variance
    }

    /// Noise of an execution without memory.
    pub fn reference_variance(&self) -> f64 {
        self.reference_variance
    }

    /// Prior variance of each coefficient.
    pub(super) fn coefficient_variances(&self) -> Vec<f64> {
        self.groups
            .iter()
            .flat_map(|&(size, variance)| std::iter::repeat_n(variance, size))
            .collect()
    }

    /// Log marginal likelihood of the labels.
    pub fn log_evidence(&self, labels: &[LabelRow]) -> Result<f64> {
        Ok(Evidence::new(self.dimension(), labels)?.log_likelihood(self))
    }

    /// The prior within bounds under which the labels are most likely, found by coordinate search from this one.
    ///
    /// Costs nothing that grows with the labels once they are summed up. Deterministic.
    pub fn fitted(&self, labels: &[LabelRow], bounds: &FitBounds) -> Result<Self> {
        let evidence = Evidence::new(self.dimension(), labels)?;
        let parameters = self.groups.len() + 2;
        let limits = |index: usize| match index {
            _ if index < self.groups.len() => bounds.prior,
            _ if index == self.groups.len() => bounds.run,
            _ => bounds.reference,
        };
        for index in 0..parameters {
            let (low, high) = limits(index);
            if positive("lower bound", low)? > positive("upper bound", high)? {
                return Err(InvalidInput::new(
                    "fit bounds",
                    format_args!("{low} is above {high}"),
                ));
            }
        }
        let mut best = self.clone();
        for index in 0..parameters {
            let (low, high) = limits(index);
            *best.parameter(index) = best.parameter(index).clamp(low, high);
        }
        let mut likelihood = evidence.log_likelihood(&best);
        for _ in 0..CYCLES {
            let before = likelihood;
            for index in 0..parameters {
                let (low, high) = limits(index);
                let at = |logarithm: f64| {
                    let mut prior = best.clone();
                    *prior.parameter(index) = logarithm.exp().clamp(low, high);
                    prior
                };
                let logarithm = maximum(low.ln(), high.ln(), |logarithm| {
                    evidence.log_likelihood(&at(logarithm))
                });
                let (candidate, reached) = (at(logarithm), evidence.log_likelihood(&at(logarithm)));
                if reached > likelihood {
                    (best, likelihood) = (candidate, reached);
                }
            }
            if likelihood - before < 1e-6 * (1.0 + likelihood.abs()) {
                break;
            }
        }
        Ok(best)
    }

    fn parameter(&mut self, index: usize) -> &mut f64 {
        let groups = self.groups.len();
        match index {
            _ if index < groups => &mut self.groups[index].1,
            _ if index == groups => &mut self.run_variance,
            _ => &mut self.reference_variance,
        }
    }
}

/// Passes over all parameters.
const CYCLES: usize = 12;

/// Where each variance may lie.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FitBounds {
    /// Prior variances.
    pub prior: (f64, f64),
    /// Noise of an execution with memory.
    pub run: (f64, f64),
    /// Noise of an execution without memory.
    pub reference: (f64, f64),
}

impl Default for FitBounds {
    /// Wide for utilities between 0 and about 1: a noise of 1e-4 is a standard deviation of a hundredth.
    fn default() -> Self {
        Self {
            prior: (1e-8, 1e2),
            run: (1e-4, 4.0),
            reference: (1e-6, 4.0),
        }
    }
}

/// The best of a coarse grid, refined by golden sections between its neighbours: the likelihood of one variance
/// can have more than one peak.
fn maximum(low: f64, high: f64, value: impl Fn(f64) -> f64) -> f64 {
    const GRID: usize = 12;
    const GOLDEN: f64 = 0.618_033_988_749_894_8;
    let point = |index: usize| low + (high - low) * index as f64 / GRID as f64;
    let best = (0..=GRID)
        .map(|index| (value(point(index)), index))
        .reduce(|best, next| if next.0 > best.0 { next } else { best })
        .map_or(0, |(_, index)| index);
    let (mut left, mut right) = (point(best.saturating_sub(1)), point((best + 1).min(GRID)));
    let mut inner = (right - GOLDEN * (right - left), left + GOLDEN * (right - left));
    let mut values = (value(inner.0), value(inner.1));
    for _ in 0..24 {
        if values.0 > values.1 {
            right = inner.1;
            inner = (right - GOLDEN * (right - left), inner.0);
            values = (value(inner.0), values.0);
        } else {
            left = inner.0;
            inner = (inner.1, left + GOLDEN * (right - left));
            values = (values.1, value(inner.1));
        }
    }
    0.5 * (left + right)
}

/// Labels summed up: all that any prior and noise need to know of them.
pub(super) struct Evidence {
    count: usize,
    /// Sum of f f', of f y and of y^2 over all labels.
    moment: Mat<f64>,
    cross: Vec<f64>,
    square: f64,
    /// The same sums over references of (sum of f, sum of y), for each number of labels that share a reference.
    shared: BTreeMap<usize, Shared>,
}

struct Shared {
    references: usize,
    moment: Mat<f64>,
    cross: Vec<f64>,
    square: f64,
}

/// Posterior of the coefficients in units of their prior standard deviations.
pub(super) struct Posterior {
    pub(super) factor: Mat<f64>,
    pub(super) mean: Vec<f64>,
    explained: f64,
}

impl Evidence {
    pub(super) fn new(dimension: usize, labels: &[LabelRow]) -> Result<Self> {
        let mut groups: BTreeMap<ReferenceId, (usize, Vec<f64>, f64)> = BTreeMap::new();
        let mut moment = Mat::zeros(dimension, dimension);
        let (mut cross, mut square) = (vec![0.0; dimension], 0.0);
        for (index, label) in labels.iter().enumerate() {
            let at = |problem: InvalidInput| InvalidInput::new(format_args!("label {index}"), problem);
            if label.features.len() != dimension {
                return Err(InvalidInput::new(
                    format_args!("label {index}"),
                    format_args!(
                        "{} features in a belief of dimension {dimension}",
                        label.features.len()
                    ),
                ));
            }
            for &feature in &label.features {
                finite("feature", feature).map_err(at)?;
            }
            let residual = finite("residual", label.residual).map_err(at)?;
            add(&mut moment, &mut cross, &label.features, residual);
            square += residual * residual;
            let (count, sum, total) = groups
                .entry(label.reference)
                .or_insert_with(|| (0, vec![0.0; dimension], 0.0));
            *count += 1;
            *total += residual;
            for (sum, feature) in sum.iter_mut().zip(&label.features) {
                *sum += feature;
            }
        }
        let mut shared = BTreeMap::new();
        for (count, sum, total) in groups.into_values() {
            let sums = shared.entry(count).or_insert_with(|| Shared {
                references: 0,
                moment: Mat::zeros(dimension, dimension),
                cross: vec![0.0; dimension],
                square: 0.0,
            });
            sums.references += 1;
            sums.square += total * total;
            add(&mut sums.moment, &mut sums.cross, &sum, total);
        }
        Ok(Self {
            count: labels.len(),
            moment,
            cross,
            square,
            shared,
        })
    }

    pub(super) fn posterior(&self, prior: &LinearPrior) -> Posterior {
        let scale: Vec<f64> = prior
            .coefficient_variances()
            .iter()
            .map(|variance| variance.sqrt())
            .collect();
        let inverse = 1.0 / prior.run_variance;
        let mut precision = Mat::from_fn(scale.len(), scale.len(), |row, column| {
            let mut entry = self.moment[(row, column)] * inverse;
            for (&count, shared) in &self.shared {
                entry -= self.shared_weight(prior, count) * shared.moment[(row, column)];
            }
            scale[row] * scale[column] * entry
        });
        let right = Mat::from_fn(scale.len(), 1, |row, _| {
            let mut entry = self.cross[row] * inverse;
            for (&count, shared) in &self.shared {
                entry -= self.shared_weight(prior, count) * shared.cross[row];
            }
            scale[row] * entry
        });
        for index in 0..scale.len() {
            precision[(index, index)] += 1.0;
        }
        // The identity plus a positive semi-definite matrix; rounding of huge entries could still break it.
        let mut jitter = 0.0;
        let factor = loop {
            match precision.llt(Side::Lower) {
                Ok(factor) => break factor,
                Err(_) => {
                    let largest = (0..scale.len())
                        .map(|index| precision[(index, index)])
                        .fold(1.0, f64::max);
                    jitter = if jitter > 0.0 {
                        10.0 * jitter
                    } else {
                        1e-15 * largest
                    };
                    for index in 0..scale.len() {
                        precision[(index, index)] += jitter;
                    }
                }
            }
        };
        let mean = factor.solve(&right);
        Posterior {
            explained: (0..scale.len())
                .map(|index| right[(index, 0)] * mean[(index, 0)])
                .sum(),
            mean: mean.col(0).iter().copied().collect(),
            factor: factor.L().to_owned(),
        }
    }

    /// Paper: the labels are Gaussian with covariance Phi Sigma Phi' + D + Z D_0 Z'.
    fn log_likelihood(&self, prior: &LinearPrior) -> f64 {
        let posterior = self.posterior(prior);
        let (run, reference) = (prior.run_variance, prior.reference_variance);
        let mut determinant: f64 = 2.0
            * (0..posterior.mean.len())
                .map(|index| posterior.factor[(index, index)].ln())
                .sum::<f64>();
        let mut distance = self.square / run - posterior.explained;
        for (&count, shared) in &self.shared {
            let size = count as f64;
            determinant +=
                shared.references as f64 * ((size - 1.0) * run.ln() + (run + size * reference).ln());
            distance -= self.shared_weight(prior, count) * shared.square;
        }
        -0.5 * (self.count as f64 * (2.0 * std::f64::consts::PI).ln() + determinant + distance)
    }

    /// Weight of a shared sum in the inverse of the noise covariance of labels that share a reference.
    fn shared_weight(&self, prior: &LinearPrior, count: usize) -> f64 {
        let (run, reference) = (prior.run_variance, prior.reference_variance);
        reference / (run * (run + count as f64 * reference))
    }
}

fn add(moment: &mut Mat<f64>, cross: &mut [f64], features: &[f64], label: f64) {
    for (column, &right) in features.iter().enumerate() {
        if right == 0.0 {
            // One-hot identities leave most of a row empty.
            continue;
        }
        cross[column] += right * label;
        for (row, &left) in features.iter().enumerate() {
            moment[(row, column)] += left * right;
        }
    }
}
