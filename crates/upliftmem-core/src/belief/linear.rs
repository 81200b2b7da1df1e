//! The linear-Gaussian belief: set values are linear in features, with an uncertain coefficient vector.
//! Paper: eqs. belief, measurement, baseline_noise, gaussian_parameter_update.
//!
//! The noise of a shared no-memory reference is one extra latent coordinate. Given the coefficients, references
//! are independent of each other, so each is kept as what the coefficients say of it and a variance of its own.

use std::collections::BTreeMap;

use faer::{Mat, Par, linalg::triangular_solve::solve_lower_triangular_in_place};

use super::{LinearPrior, PoolBelief, ReferenceBelief, fit::Evidence};
use crate::{
    ProbePool, ReferenceId,
    error::{InvalidInput, Result},
};

/// One label as the belief sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct LabelRow {
    /// Features of the executed set.
    pub features: Vec<f64>,
    /// The label, less what was predicted for it before any label was seen.
    pub residual: f64,
    /// The reference that it was measured against.
    pub reference: ReferenceId,
}

/// Posterior of the coefficient vector, and of the noise of every reference that labels were measured against.
#[derive(Debug, Clone)]
pub struct LinearBelief {
    prior: LinearPrior,
    /// Prior standard deviation of each coefficient.
    scale: Vec<f64>,
    /// Lower Cholesky factor of the posterior precision of the coefficients in units of their prior scale.
    factor: Mat<f64>,
    latent_mean: Vec<f64>,
    references: BTreeMap<ReferenceId, ReferenceSums>,
}

/// What labels say of their shared reference.
#[derive(Debug, Clone)]
struct ReferenceSums {
    /// Share of the summed features, so that `row . coefficients` is what the labels say of the noise.
    row: Vec<f64>,
    variance: f64,
}

impl LinearBelief {
    /// Conditions the prior on labels; none leaves the prior as it is.
    pub fn new(prior: LinearPrior, labels: &[LabelRow]) -> Result<Self> {
        let evidence = Evidence::new(prior.dimension(), labels)?;
        let scale: Vec<f64> = prior
            .coefficient_variances()
            .iter()
            .map(|variance| variance.sqrt())
            .collect();
        let posterior = evidence.posterior(&prior);
        let mut references: BTreeMap<ReferenceId, (Vec<f64>, f64)> = BTreeMap::new();
        for label in labels {
            let (sum, count) = references
                .entry(label.reference)
                .or_insert_with(|| (vec![0.0; prior.dimension()], 0.0));
            *count += 1.0;
            for (sum, feature) in sum.iter_mut().zip(&label.features) {
                *sum += feature;
            }
        }
        let references = references
            .into_iter()
            .map(|(id, (sum, count))| {
                // The share of the group's mean residual that is put down to the reference.
                let total = prior.run_variance() + count * prior.reference_variance();
                let share = prior.reference_variance() / total;
                let row = sum.into_iter().map(|sum| share * sum).collect();
                (
                    id,
                    ReferenceSums {
                        row,
                        variance: share * prior.run_variance(),
                    },
                )
            })
            .collect();
        let latent_mean = posterior
            .mean
            .iter()
            .zip(&scale)
            .map(|(mean, scale)| mean * scale)
            .collect();
        Ok(Self {
            prior,
            scale,
            factor: posterior.factor,
            latent_mean,
            references,
        })
    }

    /// The prior it started from.
    pub fn prior(&self) -> &LinearPrior {
        &self.prior
    }

    /// Posterior mean of the coefficients. Paper: eq. gaussian_parameter_update.
    pub fn latent_mean(&self) -> &[f64] {
        &self.latent_mean
    }

    /// Posterior covariance of the coefficients, row by row. Paper: Sigma.
    pub fn latent_covariance(&self) -> Vec<Vec<f64>> {
        let dimension = self.scale.len();
        let unit = |index: usize| {
            let mut unit = vec![0.0; dimension];
            unit[index] = 1.0;
            unit
        };
        let rows: Vec<Vec<f64>> = (0..dimension).map(|index| self.whitened(&unit(index))).collect();
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum();
        rows.iter()
            .map(|a| rows.iter().map(|b| dot(a, b)).collect())
            .collect()
    }

    /// Mean and standard deviation of the margin between two sets, beyond what was predicted for it before any
    /// label was seen. The empty set has features zero.
    pub fn predict_margin(&self, challenger: &[f64], incumbent: &[f64]) -> Result<(f64, f64)> {
        self.check("challenger", challenger)?;
        self.check("incumbent", incumbent)?;
        let contrast: Vec<f64> = challenger.iter().zip(incumbent).map(|(a, b)| a - b).collect();
        let mean = contrast.iter().zip(&self.latent_mean).map(|(a, b)| a * b).sum();
        let variance: f64 = self.whitened(&contrast).iter().map(|value| value * value).sum();
        Ok((mean, variance.sqrt()))
    }

    /// The belief over a pool. `features` has one row a probe and `predicted` what was predicted for each before
    /// any label was seen; `references` names, for each task, the reference that a new label would be measured
    /// against, or none if it has yet to be executed.
    pub fn over(
        &self,
        pool: &ProbePool,
        features: &[f64],
        predicted: &[f64],
        references: &[Option<ReferenceId>],
    ) -> Result<PoolBelief> {
        let dimension = self.scale.len();
        if predicted.len() != pool.len()
            || features.len() != pool.len() * dimension
            || references.len() != pool.tasks().len()
        {
            return Err(InvalidInput::new(
                "belief over a pool",
                format_args!(
                    "{} features, {} predictions and {} references for {} probes of dimension {dimension} and {} tasks",
                    features.len(),
                    predicted.len(),
                    references.len(),
                    pool.len(),
                    pool.tasks().len()
                ),
            ));
        }
        let mut belief = PoolBelief::with_capacity(dimension, pool.len());
        const CHUNK: usize = 512;
        for (features, predicted) in features
            .chunks(CHUNK * dimension.max(1))
            .zip(predicted.chunks(CHUNK))
        {
            let mut rows = Mat::from_fn(dimension, predicted.len(), |row, probe| {
                self.scale[row] * features[probe * dimension + row]
            });
            solve_lower_triangular_in_place(self.factor.as_ref(), rows.as_mut(), Par::Seq);
            for (probe, predicted) in predicted.iter().enumerate() {
                let own = &features[probe * dimension..(probe + 1) * dimension];
                let mean: f64 = own.iter().zip(&self.latent_mean).map(|(a, b)| a * b).sum();
                let row: Vec<f64> = rows.col(probe).iter().copied().collect();
                belief.push(predicted + mean, &row, self.prior.run_variance())?;
            }
        }
        for reference in references {
            belief.push_reference(self.reference(*reference))?;
        }
        Ok(belief)
    }

    /// What is believed of the noise of a reference.
    pub fn reference(&self, id: Option<ReferenceId>) -> ReferenceBelief {
        match id.and_then(|id| self.references.get(&id)) {
            Some(known) => ReferenceBelief {
                row: self.whitened(&known.row),
                variance: known.variance,
            },
            // Executed or not: nothing has been learned of its noise.
            None => ReferenceBelief {
                row: Vec::new(),
                variance: self.prior.reference_variance(),
            },
        }
    }

    /// Features in coordinates in which the coefficients are independent standard normals: the inner product of two
    /// vectors is the covariance of what they stand for.
    pub fn whitened(&self, features: &[f64]) -> Vec<f64> {
        let mut row = Mat::from_fn(features.len(), 1, |index, _| self.scale[index] * features[index]);
        solve_lower_triangular_in_place(self.factor.as_ref(), row.as_mut(), Par::Seq);
        row.col(0).iter().copied().collect()
    }

    fn check(&self, what: &str, features: &[f64]) -> Result<()> {
        if features.len() == self.scale.len() && features.iter().all(|value| value.is_finite()) {
            return Ok(());
        }
        Err(InvalidInput::new(
            format_args!("features of the {what}"),
            format_args!(
                "{} numbers; {} finite ones are needed",
                features.len(),
                self.scale.len()
            ),
        ))
    }
}

#[cfg(test)]
mod tests;
