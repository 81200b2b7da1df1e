//! An upper bound on the marginal value of every probe at once.
//!
//! With a line over each comparison, the bound of probe q is the sum of the intercepts plus
//! `l' P M P l / v`, where l is the row of its label, v the label's variance and M the sum of
//! `slope * contrast * contrast'`: one quadratic form instead of as many gains as there are comparisons.

use faer::{
    Accum, Mat, MatMut, MatRef, Par,
    linalg::matmul::{
        matmul,
        triangular::{self, BlockStructure},
    },
};
use rayon::prelude::*;

use super::{
    kernel::{inner_product, refresh_lines, squared_contrasts},
    problem::Problem,
    state::State,
};

/// Columns that are multiplied at a time: small enough for the cache, large enough for the multiplication.
const CHUNK: usize = 512;
/// Partial sums of M. Fixed, so that the bound does not depend on the number of threads.
const SHARDS: usize = 8;
/// The bound is raised by this share of itself to cover the rounding of its own sums.
const ROUNDING: f64 = 1e-9;
/// Marginal values are differences of sums as large as the value of the batch.
const DIFFERENCES: f64 = 1e-13;
/// A covariance of a margin with a label is a sum of products that may cancel; its rounding weighs more, the less
/// of the label's variance is left.
const CANCELLATION: f64 = 1e-14;

/// The upper lines of all comparisons, and the typical gain in resolved variance they are tight for.
pub(crate) struct Bound {
    pub(crate) slopes: Vec<f64>,
    pub(crate) intercepts: Vec<f64>,
    typical: Vec<f64>,
}

impl Bound {
    pub(crate) fn new(problem: &Problem<'_>) -> Self {
        Self {
            slopes: vec![0.0; problem.margins.len()],
            intercepts: vec![0.0; problem.margins.len()],
            // Until probes have been looked at: the share of a margin that one of `dimension` equally
            // informative directions would resolve.
            typical: problem
                .prior_variance
                .iter()
                .map(|variance| variance / (4.0 * problem.belief.dimension().max(1) as f64))
                .collect(),
        }
    }

    /// Makes the lines for the current state and returns the bound of every probe; scheduled ones have none.
    pub(crate) fn refresh(&mut self, problem: &Problem<'_>, state: &State) -> Vec<f64> {
        self.refresh_lines(problem, state);
        let root = self.root(problem, state);
        let intercepts: f64 = self.intercepts.iter().sum();
        let differences = DIFFERENCES * state.batch_value();
        let products: f64 = self
            .slopes
            .iter()
            .zip(&problem.prior_variance)
            .map(|(slope, prior)| slope * prior)
            .sum();
        let mut bounds = quadratic_forms(problem, state, &root);
        for (probe, bound) in bounds.iter_mut().enumerate() {
            *bound = if state.scheduled[probe] {
                f64::NEG_INFINITY
            } else {
                let inverse = state.inverse_label_variance(probe);
                if inverse > 0.0 {
                    let left = (state.prior_label_variance(probe) * inverse).sqrt();
                    let rounding = differences + CANCELLATION * products * left;
                    (intercepts + *bound * inverse).max(0.0) * (1.0 + ROUNDING) + rounding
                } else {
                    0.0
                }
            };
        }
        bounds
    }

    /// Learns what is typical from the probes that are worth looking at.
    pub(crate) fn learn_typical(&mut self, problem: &Problem<'_>, state: &State, probes: &[usize]) {
        let width = problem.belief.width();
        let mut directions = Mat::<f64>::zeros(width, probes.len());
        for (column, &probe) in probes.iter().enumerate() {
            let scale = (state.inverse_label_variance(probe) / probes.len() as f64).sqrt();
            let out = directions
                .col_mut(column)
                .try_as_col_major_mut()
                .expect("allocated here")
                .as_slice_mut();
            state.label_covariance(problem, probe, out);
            for value in out {
                *value *= scale;
            }
        }
        let mut moment = Mat::<f64>::zeros(width, width);
        matmul(
            &mut moment,
            Accum::Replace,
            &directions,
            directions.transpose(),
            1.0,
            Par::Seq,
        );
        let root = cholesky_above(moment);
        problem
            .split_blocks(&mut self.typical)
            .into_par_iter()
            .enumerate()
            .for_each(|(task, typical)| {
                let images = images(&root, problem.task_rows(task), width);
                squared_contrasts(
                    &images,
                    width,
                    &problem.sides[problem.blocks[task].clone()],
                    typical,
                );
            });
    }

    fn refresh_lines(&mut self, problem: &Problem<'_>, state: &State) {
        let reach = (0..problem.belief.len())
            .filter(|&probe| !state.scheduled[probe])
            .map(|probe| 1.0 - state.irreducible(problem, probe) * state.inverse_label_variance(probe))
            .fold(0.0, f64::max)
            .min(1.0);
        let typical = &self.typical;
        let slopes = problem.split_blocks(&mut self.slopes);
        let intercepts = problem.split_blocks(&mut self.intercepts);
        (slopes, intercepts)
            .into_par_iter()
            .enumerate()
            .with_min_len(8)
            .for_each(|(task, (slopes, intercepts))| {
                let block = problem.block(task, &state.resolved, &state.values);
                let typical = &typical[problem.blocks[task].clone()];
                refresh_lines(block, typical, reach, slopes, intercepts);
            });
    }

    /// The lower triangular R with R R' at least P M P.
    fn root(&self, problem: &Problem<'_>, state: &State) -> Mat<f64> {
        let width = problem.belief.width();
        let tasks = problem.tasks();
        let shards: Vec<Mat<f64>> = (0..SHARDS)
            .into_par_iter()
            .map(|shard| {
                let mut sum = Mat::<f64>::zeros(width, width);
                let mut contrasts: Vec<f64> = Vec::with_capacity(width * 2 * CHUNK);
                for task in tasks * shard / SHARDS..tasks * (shard + 1) / SHARDS {
                    for at in problem.blocks[task].clone().filter(|&at| self.slopes[at] > 0.0) {
                        problem.push_contrast(task, at, self.slopes[at].sqrt(), &mut contrasts);
                    }
                    if contrasts.len() >= CHUNK * width || task + 1 == tasks * (shard + 1) / SHARDS {
                        let columns =
                            MatRef::from_column_major_slice(&contrasts, width, contrasts.len() / width);
                        triangular::matmul(
                            sum.as_mut(),
                            BlockStructure::TriangularLower,
                            Accum::Add,
                            columns,
                            BlockStructure::Rectangular,
                            columns.transpose(),
                            BlockStructure::Rectangular,
                            1.0,
                            Par::Seq,
                        );
                        contrasts.clear();
                    }
                }
                sum
            })
            .collect();
        let mut moment = Mat::<f64>::zeros(width, width);
        for column in 0..width {
            for row in column..width {
                let sum: f64 = shards.iter().map(|shard| shard[(row, column)]).sum();
                moment[(row, column)] = sum;
                moment[(column, row)] = sum;
            }
        }
        let mut half = Mat::<f64>::zeros(width, width);
        let covariance = MatRef::from_column_major_slice(&state.covariance, width, width);
        matmul(&mut half, Accum::Replace, &moment, covariance, 1.0, Par::Seq);
        matmul(&mut moment, Accum::Replace, covariance, &half, 1.0, Par::Seq);
        cholesky_above(moment)
    }
}

/// A lower triangular R whose R R' is at least the given positive semi-definite matrix.
///
/// A little is added to the diagonal, enough to cover the rounding of the sums and of the factorisation.
fn cholesky_above(mut matrix: Mat<f64>) -> Mat<f64> {
    let width = matrix.nrows();
    let trace: f64 = (0..width).map(|index| matrix[(index, index)]).sum();
    let mut added = 1e-13 * trace.max(1e-280);
    loop {
        for index in 0..width {
            matrix[(index, index)] += added;
        }
        if let Ok(factor) = matrix.llt(faer::Side::Lower) {
            return factor.L().to_owned();
        }
        added *= 10.0;
    }
}

/// R' times each row, and a last column of zeros for the empty set.
fn images(root: &Mat<f64>, rows: &[f64], width: usize) -> Vec<f64> {
    let count = rows.len() / width;
    let mut images = vec![0.0; (count + 1) * width];
    triangular::matmul(
        MatMut::from_column_major_slice_mut(&mut images[..count * width], width, count),
        BlockStructure::Rectangular,
        Accum::Replace,
        root.transpose(),
        BlockStructure::TriangularUpper,
        MatRef::from_column_major_slice(rows, width, count),
        BlockStructure::Rectangular,
        1.0,
        Par::Seq,
    );
    images
}

/// |R' l|^2 for the label row l of every probe.
fn quadratic_forms(problem: &Problem<'_>, state: &State, root: &Mat<f64>) -> Vec<f64> {
    let width = problem.belief.width();
    let mut forms = vec![0.0; problem.belief.len()];
    forms
        .par_chunks_mut(CHUNK)
        .enumerate()
        .for_each(|(chunk, forms)| {
            // Label rows first, then the product: two nearly equal products would cancel.
            let mut rows = vec![0.0; forms.len() * width];
            for (offset, row) in rows.chunks_exact_mut(width).enumerate() {
                state.label_row(problem, chunk * CHUNK + offset, row);
            }
            let images = images(root, &rows, width);
            for (form, image) in forms.iter_mut().zip(images.chunks_exact(width)) {
                *form = inner_product(image, image);
            }
        });
    forms
}
