//! An upper bound on the marginal value of every probe at once.
//!
//! With a line over each comparison, the bound of probe q is the sum of the intercepts plus
//! `l' P M P l / v`, where l is the row of its label, v the label's variance and M the sum of
//! `slope * contrast * contrast'`: one quadratic form instead of as many gains as there are comparisons.
//!
//! M and the quadratic forms are products of large matrices, and most of the work. They are computed in single
//! precision; the bound is raised by the most that this can lose.

use faer::{
    Accum, Mat, MatMut, MatRef, Par,
    linalg::matmul::{
        matmul,
        triangular::{self, BlockStructure},
    },
};
use rayon::prelude::*;

use super::{
    kernel::{inner_product, refresh_lines, single_squares, squared_contrasts},
    problem::Problem,
    state::State,
    table::Table,
};

/// Columns that are multiplied at a time: small enough for the cache and for little rounding, large enough for the
/// multiplication.
const CHUNK: usize = 256;
/// Partial sums of M. Fixed, so that the bound does not depend on the number of threads.
const SHARDS: usize = 8;
/// Comparisons whose line rises by less than this share of the steepest are left out of M.
const NEGLIGIBLE: f64 = 1e-10;
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
    rows: LabelRows,
}

/// The rows of all labels in single precision.
struct LabelRows {
    /// In units of `scale`, so that they are neither too large nor too small for single precision.
    rows: Vec<f32>,
    scale: f64,
    /// Length of each row.
    norms: Vec<f64>,
    /// How often the reference of each task had changed when its rows were made.
    changes: Vec<u32>,
}

impl Bound {
    pub(crate) fn new(problem: &Problem<'_>) -> Self {
        Self {
            rows: LabelRows::new(problem),
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
    pub(crate) fn refresh(
        &mut self,
        problem: &Problem<'_>,
        state: &State,
        table: Option<&Table>,
    ) -> Vec<f64> {
        self.refresh_lines(problem, state);
        let (mut bounds, negligible) = if let Some(table) = table {
            (table.lines(problem, state, &self.slopes), 0.0)
        } else {
            let (root, negligible) = self.root(problem, state);
            self.rows.refresh(problem, state);
            (self.rows.quadratic_forms(problem, &root), negligible)
        };
        let intercepts = self.intercepts.iter().sum::<f64>() + negligible;
        let differences = DIFFERENCES * state.batch_value();
        let products: f64 = self
            .slopes
            .iter()
            .zip(&problem.prior_variance)
            .map(|(slope, prior)| slope * prior)
            .sum();
        bounds
            .par_iter_mut()
            .enumerate()
            .with_min_len(1024)
            .for_each(|(probe, bound)| {
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
            });
        bounds
    }

    /// Learns what is typical from the probes that are worth looking at.
    pub(crate) fn learn_typical(
        &mut self,
        problem: &Problem<'_>,
        state: &State,
        table: Option<&Table>,
        probes: &[usize],
    ) {
        if let Some(table) = table {
            table.typical(problem, state, probes, &mut self.typical);
            return;
        }
        let width = problem.belief.width();
        let mut directions: Vec<f64> = probes
            .par_chunks(CHUNK)
            .flat_map_iter(|probes| state.label_covariances(problem, probes))
            .collect();
        for (direction, &probe) in directions.chunks_exact_mut(width).zip(probes) {
            let scale = (state.inverse_label_variance(probe) / probes.len() as f64).sqrt();
            for value in direction {
                *value *= scale;
            }
        }
        let directions = MatRef::from_column_major_slice(&directions, width, probes.len());
        let mut moment = Mat::<f64>::zeros(width, width);
        matmul(
            &mut moment,
            Accum::Replace,
            directions,
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

    /// The lower triangular R with R R' at least P M P, and the most that comparisons left out of M can add.
    fn root(&self, problem: &Problem<'_>, state: &State) -> (Mat<f64>, f64) {
        let width = problem.belief.width();
        let tasks = problem.tasks();
        // In units in which no entry is above one.
        let largest = self
            .slopes
            .iter()
            .zip(&problem.prior_variance)
            .map(|(slope, prior)| slope * prior);
        let unit = largest.fold(0.0, f64::max).sqrt();
        if unit <= 0.0 {
            return (Mat::zeros(width, width), 0.0);
        }
        // A probe resolves at most the whole variance. That is bound enough for what hardly counts, and keeps
        // numbers away that are too small for single precision.
        let most = |at: usize| self.slopes[at] * problem.prior_variance[at];
        let counts = |at: usize| most(at) > NEGLIGIBLE * unit * unit;
        let negligible: f64 = (0..self.slopes.len()).filter(|&at| !counts(at)).map(most).sum();
        let shards: Vec<Mat<f64>> = (0..SHARDS)
            .into_par_iter()
            .map(|shard| {
                let mut sum = Mat::<f64>::zeros(width, width);
                let mut contrasts: Vec<f32> = Vec::with_capacity(width * CHUNK);
                let mut product = Mat::<f32>::zeros(width, width);
                for task in tasks * shard / SHARDS..tasks * (shard + 1) / SHARDS {
                    for at in problem.blocks[task].clone().filter(|&at| counts(at)) {
                        problem.push_contrast(task, at, self.slopes[at].sqrt() / unit, &mut contrasts);
                        if contrasts.len() == CHUNK * width {
                            add_products(&mut sum, &mut product, &mut contrasts);
                        }
                    }
                }
                add_products(&mut sum, &mut product, &mut contrasts);
                sum
            })
            .collect();
        let mut moment = Mat::<f64>::zeros(width, width);
        for column in 0..width {
            for row in column..width {
                let sum: f64 = shards.iter().map(|shard| shard[(row, column)]).sum();
                moment[(row, column)] = sum * unit * unit;
                moment[(column, row)] = sum * unit * unit;
            }
        }
        // Each chunk is off by at most so many roundings of the product of the lengths of its rows.
        let trace: f64 = (0..width).map(|index| moment[(index, index)]).sum();
        for index in 0..width {
            moment[(index, index)] += single_rounding(CHUNK) * trace;
        }
        let mut half = Mat::<f64>::zeros(width, width);
        let covariance = MatRef::from_column_major_slice(&state.covariance, width, width);
        matmul(&mut half, Accum::Replace, &moment, covariance, 1.0, Par::Seq);
        matmul(&mut moment, Accum::Replace, covariance, &half, 1.0, Par::Seq);
        (cholesky_above(moment), negligible)
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

/// Adds the products of contrasts to the lower triangle of a sum.
fn add_products(sum: &mut Mat<f64>, product: &mut Mat<f32>, contrasts: &mut Vec<f32>) {
    let width = sum.nrows();
    let columns = MatRef::from_column_major_slice(contrasts, width, contrasts.len() / width);
    triangular::matmul(
        product.as_mut(),
        BlockStructure::TriangularLower,
        Accum::Replace,
        columns,
        BlockStructure::Rectangular,
        columns.transpose(),
        BlockStructure::Rectangular,
        1.0,
        Par::Seq,
    );
    for column in 0..width {
        let products = product
            .col(column)
            .try_as_col_major()
            .expect("allocated in columns")
            .as_slice();
        let sums = sum
            .col_mut(column)
            .try_as_col_major_mut()
            .expect("allocated in columns")
            .as_slice_mut();
        for (sum, &product) in sums[column..].iter_mut().zip(&products[column..]) {
            *sum += f64::from(product);
        }
    }
    contrasts.clear();
}

/// Most that an inner product of so many terms in single precision is off, in units of the product of the lengths,
/// with the rounding of the terms themselves.
pub(crate) fn single_rounding(terms: usize) -> f64 {
    (terms + 8) as f64 * f64::from(f32::EPSILON)
}

impl LabelRows {
    fn new(problem: &Problem<'_>) -> Self {
        let largest = problem
            .belief
            .rows()
            .iter()
            .fold(0.0, |largest: f64, value| largest.max(value.abs()));
        Self {
            rows: vec![0.0; problem.belief.rows().len()],
            scale: if largest > 0.0 { largest } else { 1.0 },
            norms: vec![0.0; problem.belief.len()],
            changes: vec![u32::MAX; problem.tasks()],
        }
    }

    /// Makes the rows of tasks whose reference has changed anew.
    fn refresh(&mut self, problem: &Problem<'_>, state: &State) {
        let width = problem.belief.width();
        let mut row = vec![0.0; width];
        for task in 0..problem.tasks() {
            if self.changes[task] == state.reference_changes[task] {
                continue;
            }
            self.changes[task] = state.reference_changes[task];
            for probe in problem.probes[task].clone() {
                state.label_row(problem, probe, &mut row);
                self.norms[probe] = inner_product(&row, &row).sqrt();
                let single = &mut self.rows[probe * width..(probe + 1) * width];
                for (single, value) in single.iter_mut().zip(&row) {
                    *single = (value / self.scale) as f32;
                }
            }
        }
    }

    /// At least |R' l|^2 for the label row l of every probe.
    fn quadratic_forms(&self, problem: &Problem<'_>, root: &Mat<f64>) -> Vec<f64> {
        let width = problem.belief.width();
        let length = root.squared_norm_l2().sqrt();
        let mut forms = vec![0.0; problem.belief.len()];
        if length <= 0.0 {
            return forms;
        }
        let single = Mat::from_fn(width, width, |row, column| (root[(row, column)] / length) as f32);
        forms
            .par_chunks_mut(CHUNK)
            .enumerate()
            .for_each(|(chunk, forms)| {
                let first = chunk * CHUNK;
                let rows = &self.rows[first * width..(first + forms.len()) * width];
                let mut images = vec![0.0_f32; forms.len() * width];
                triangular::matmul(
                    MatMut::from_column_major_slice_mut(&mut images, width, forms.len()),
                    BlockStructure::Rectangular,
                    Accum::Replace,
                    single.transpose(),
                    BlockStructure::TriangularUpper,
                    MatRef::from_column_major_slice(rows, width, forms.len()),
                    BlockStructure::Rectangular,
                    1.0,
                    Par::Seq,
                );
                single_squares(&images, width, forms);
                for (form, norm) in forms.iter_mut().zip(&self.norms[first..]) {
                    let lost = single_rounding(width) * norm;
                    *form = (length * (form.sqrt() * self.scale + lost)).powi(2);
                }
            });
        forms
    }
}
