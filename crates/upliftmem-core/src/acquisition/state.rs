//! What the scheduled probes resolve, before any of their labels is known. Paper: app. batch.

use faer::{Accum, MatMut, MatRef, Par, linalg::matmul::matmul};
use rayon::prelude::*;

use super::{
    kernel::{comparison_gains, inner_product, inner_products, refresh_values},
    problem::Problem,
};

/// A probe whose label is already determined to this share of its prior variance teaches nothing more.
const REDUNDANT: f64 = 1e-10;

/// The belief conditioned on the scheduled probes.
///
/// The latent vector has covariance P. The noise of task c's reference is `reference[c] . x` plus an independent
/// part of variance `reference_variance[c]`; scheduling a probe touches the reference of its own task only, so
/// that nothing as large as tasks x tasks is kept.
pub(crate) struct State {
    /// P, one padded row after the other.
    pub(crate) covariance: Vec<f64>,
    /// One padded row a task.
    pub(crate) reference: Vec<f64>,
    pub(crate) reference_variance: Vec<f64>,
    /// How often each task's reference has changed.
    pub(crate) reference_changes: Vec<u32>,
    /// Variance of each probe's label.
    pub(crate) label_variance: Vec<f64>,
    prior_label_variance: Vec<f64>,
    /// Variance of each margin that is resolved, its value, and what is left of the variance.
    pub(crate) resolved: Vec<f64>,
    pub(crate) values: Vec<f64>,
    pub(crate) scheduled: Vec<bool>,
}

impl State {
    pub(crate) fn new(problem: &Problem<'_>) -> Self {
        let belief = problem.belief;
        let width = belief.width();
        let comparisons = problem.margins.len();
        let mut state = Self {
            covariance: identity(width),
            reference: Vec::with_capacity(problem.tasks() * width),
            reference_variance: Vec::with_capacity(problem.tasks()),
            reference_changes: vec![0; problem.tasks()],
            label_variance: vec![0.0; belief.len()],
            prior_label_variance: Vec::new(),
            resolved: vec![0.0; comparisons],
            values: vec![0.0; comparisons],
            scheduled: vec![false; belief.len()],
        };
        for reference in belief.references() {
            state.reference.extend_from_slice(&reference.row);
            state.reference_variance.push(reference.variance);
        }
        let mut row = vec![0.0; width];
        for probe in 0..belief.len() {
            state.label_row(problem, probe, &mut row);
            state.label_variance[probe] = inner_product(&row, &row) + state.irreducible(problem, probe);
        }
        state.prior_label_variance.clone_from(&state.label_variance);
        refresh_values(&state.resolved, &problem.margins, &mut state.values);
        state
    }

    /// What of a probe's label is signal: its row less that of its task's reference.
    pub(crate) fn label_row(&self, problem: &Problem<'_>, probe: usize, out: &mut [f64]) {
        let reference = self.reference_row(problem, problem.task_of[probe] as usize);
        for ((out, row), reference) in out.iter_mut().zip(problem.belief.row(probe)).zip(reference) {
            *out = row - reference;
        }
    }

    /// Covariance of the latent vector with a probe's label.
    pub(crate) fn label_covariance(&self, problem: &Problem<'_>, probe: usize, out: &mut [f64]) {
        let width = problem.belief.width();
        let mut row = vec![0.0; width];
        self.label_row(problem, probe, &mut row);
        // The covariance is symmetric: its columns are its rows.
        inner_products(&self.covariance, &row, out);
    }

    /// The same for many probes, one after the other. Fast, and rounded in no particular way: good for bounds, not
    /// for values.
    pub(crate) fn label_covariances(&self, problem: &Problem<'_>, probes: &[usize]) -> Vec<f64> {
        let width = problem.belief.width();
        let mut rows = vec![0.0; probes.len() * width];
        for (row, &probe) in rows.chunks_exact_mut(width).zip(probes) {
            self.label_row(problem, probe, row);
        }
        let mut out = vec![0.0; rows.len()];
        matmul(
            MatMut::from_column_major_slice_mut(&mut out, width, probes.len()),
            Accum::Replace,
            MatRef::from_column_major_slice(&self.covariance, width, width),
            MatRef::from_column_major_slice(&rows, width, probes.len()),
            1.0,
            Par::Seq,
        );
        out
    }

    pub(crate) fn reference_row(&self, problem: &Problem<'_>, task: usize) -> &[f64] {
        let width = problem.belief.width();
        &self.reference[task * width..(task + 1) * width]
    }

    /// 1 / variance of a probe's label, or zero if the label is already determined: an exactly redundant probe
    /// adds zero.
    pub(crate) fn inverse_label_variance(&self, probe: usize) -> f64 {
        let variance = self.label_variance[probe];
        if variance > REDUNDANT * self.prior_label_variance[probe] {
            1.0 / variance
        } else {
            0.0
        }
    }

    /// Variance of a probe's label before anything was scheduled.
    pub(crate) fn prior_label_variance(&self, probe: usize) -> f64 {
        self.prior_label_variance[probe]
    }

    /// Noise of a probe's label that no knowledge of the latent vector removes.
    pub(crate) fn irreducible(&self, problem: &Problem<'_>, probe: usize) -> f64 {
        problem.belief.noise()[probe] + self.reference_variance[problem.task_of[probe] as usize]
    }

    /// What the scheduled probes are worth together.
    pub(crate) fn batch_value(&self) -> f64 {
        self.values.iter().sum()
    }

    /// Nats that a probe's label carries about the latent vector; infinite for a label without noise.
    pub(crate) fn information(&self, problem: &Problem<'_>, probe: usize) -> f64 {
        let (variance, noise) = (self.label_variance[probe], self.irreducible(problem, probe));
        if self.inverse_label_variance(probe) > 0.0 {
            0.5 * (variance / noise).ln()
        } else {
            0.0
        }
    }

    /// What a probe adds to each comparison.
    pub(crate) fn gains(&self, problem: &Problem<'_>, probe: usize) -> Vec<f64> {
        let mut direction = vec![0.0; problem.belief.width()];
        self.label_covariance(problem, probe, &mut direction);
        let inverse = self.inverse_label_variance(probe);
        let mut gains = vec![0.0; problem.margins.len()];
        problem
            .split_blocks(&mut gains)
            .into_par_iter()
            .enumerate()
            .with_min_len(8)
            .for_each(|(task, gains)| {
                comparison_gains(
                    problem.block(task, &self.resolved, &self.values),
                    problem.task_rows(task),
                    &direction,
                    inverse,
                    gains,
                );
            });
        gains
    }

    /// Schedules a probe: every later question is asked as if its label were known. Returns the direction, of unit variance,
    /// in which the label moves the latent vector.
    pub(crate) fn schedule(&mut self, problem: &Problem<'_>, probe: usize) -> Vec<f64> {
        let width = problem.belief.width();
        let task = problem.task_of[probe] as usize;
        self.scheduled[probe] = true;
        let scale = self.inverse_label_variance(probe).sqrt();
        let mut direction = vec![0.0; width];
        self.label_covariance(problem, probe, &mut direction);
        for value in &mut direction {
            *value *= scale;
        }
        if scale > 0.0 {
            self.resolve(problem, &direction);
            for (row, &left) in self.covariance.chunks_exact_mut(width).zip(&direction) {
                for (entry, &right) in row.iter_mut().zip(&direction) {
                    *entry -= left * right;
                }
            }
        }
        self.learn_reference(problem, probe, task);
        self.refresh_label_variances(problem, task);
        direction
    }

    /// Moves resolved variances and label variances by one rank.
    fn resolve(&mut self, problem: &Problem<'_>, direction: &[f64]) {
        let width = problem.belief.width();
        let labels = problem.split_probes(&mut self.label_variance);
        let resolved = problem.split_blocks(&mut self.resolved);
        let values = problem.split_blocks(&mut self.values);
        let (reference, reference_variance) = (&self.reference, &self.reference_variance);
        (labels, resolved, values)
            .into_par_iter()
            .enumerate()
            .with_min_len(8)
            .for_each(|(task, (labels, resolved, values))| {
                let probes = problem.probes[task].clone();
                let mut dots = vec![0.0; probes.len() + 1];
                inner_products(problem.task_rows(task), direction, &mut dots);
                let shared = inner_product(&reference[task * width..(task + 1) * width], direction);
                for ((label, dot), noise) in labels.iter_mut().zip(&dots).zip(&problem.belief.noise()[probes])
                {
                    let seen = dot - shared;
                    *label = (*label - seen * seen).max(noise + reference_variance[task]);
                }
                let block = problem.blocks[task].clone();
                for ((resolved, [challenger, incumbent]), prior) in resolved
                    .iter_mut()
                    .zip(&problem.sides[block.clone()])
                    .zip(&problem.prior_variance[block.clone()])
                {
                    let seen = dots[usize::from(*challenger)] - dots[usize::from(*incumbent)];
                    *resolved = (*resolved + seen * seen).min(*prior);
                }
                refresh_values(resolved, &problem.margins[block], values);
            });
    }

    /// The label of a probe also tells of its task's reference, given the latent vector.
    fn learn_reference(&mut self, problem: &Problem<'_>, probe: usize, task: usize) {
        let width = problem.belief.width();
        let noise = problem.belief.noise()[probe];
        let variance = self.reference_variance[task];
        if variance <= 0.0 {
            return;
        }
        let gain = variance / (variance + noise);
        let reference = &mut self.reference[task * width..(task + 1) * width];
        for (reference, row) in reference.iter_mut().zip(problem.belief.row(probe)) {
            *reference += gain * (row - *reference);
        }
        self.reference_variance[task] = gain * noise;
        self.reference_changes[task] += 1;
    }

    /// Label variances of one task from scratch.
    fn refresh_label_variances(&mut self, problem: &Problem<'_>, task: usize) {
        let width = problem.belief.width();
        let probes = problem.probes[task].clone();
        let variances: Vec<f64> = probes
            .clone()
            .into_par_iter()
            .with_min_len(16)
            .map(|probe| {
                let mut row = vec![0.0; width];
                let mut seen = vec![0.0; width];
                self.label_row(problem, probe, &mut row);
                self.label_covariance(problem, probe, &mut seen);
                let signal = inner_product(&row, &seen).max(0.0);
                signal + self.irreducible(problem, probe)
            })
            .collect();
        self.label_variance[probes].copy_from_slice(&variances);
    }
}

fn identity(width: usize) -> Vec<f64> {
    let mut matrix = vec![0.0; width * width];
    matrix
        .iter_mut()
        .step_by(width + 1)
        .for_each(|entry| *entry = 1.0);
    matrix
}
