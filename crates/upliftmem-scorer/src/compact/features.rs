//! A finite feature map of the posterior over many sets of many tasks, for the selection of probes.

use std::sync::Arc;

use faer::Mat;
use rayon::prelude::*;
use upliftmem_core::MemorySet;

use super::{
    row::Row,
    snapshot::{BoundTask, CompactScorer},
    space::dot,
};
use crate::{MemoryInput, TaskInput, error::Result};

/// Sets of one task whose values are to be believed in together.
#[derive(Debug, Clone, Copy)]
pub struct TaskSets<'a> {
    /// The task.
    pub task: TaskInput<'a>,
    /// The memories that its sets contain.
    pub memories: &'a [MemoryInput<'a>],
    /// The sets; an empty set has the zero vector.
    pub sets: &'a [MemorySet],
}

/// Vectors whose inner products are the posterior covariances of the sets' uplifts. Paper: varphi, with
/// Sigma the identity.
#[derive(Debug, Clone)]
pub struct FeatureMap {
    /// One vector a set, in the order asked; all of the same dimension.
    pub features: Vec<Vec<f64>>,
    /// The posterior variance of each set that the features leave out.
    pub residual: Vec<f64>,
    /// The share of all posterior variance that the features leave out.
    pub residual_share: f64,
}

impl CompactScorer {
    /// The feature map of at most `dimension_max` dimensions that a pivoted Cholesky decomposition finds: it
    /// takes the set whose variance is explained worst, until the share of variance left out is at most
    /// `tolerance`.
    pub fn feature_map(
        &self,
        items: &[TaskSets<'_>],
        dimension_max: usize,
        tolerance: f64,
    ) -> Result<FeatureMap> {
        let Some(first) = items.first() else {
            return Ok(FeatureMap {
                features: Vec::new(),
                residual: Vec::new(),
                residual_share: 0.0,
            });
        };
        // All visitors get their places before any is bound, so that every query knows of all.
        let mut registry = self.visitors(first.task);
        let mut places = Vec::with_capacity(items.len());
        for item in items {
            let (ids, candidates) = self.admit(&mut registry, item.task, item.memories)?;
            places.push((registry.task(item.task.id, item.task.embedding), ids, candidates));
        }
        let registry = Arc::new(registry);
        let tasks: Vec<BoundTask<'_>> = places
            .into_par_iter()
            .map(|(task, ids, candidates)| self.bind_known(&registry, task, ids, candidates))
            .collect();
        let slots: Vec<Vec<Vec<u32>>> = tasks
            .iter()
            .zip(items)
            .map(|(task, item)| item.sets.iter().map(|set| task.slots(set)).collect())
            .collect::<Result<_>>()?;
        let rows: Vec<(usize, Row)> = tasks
            .iter()
            .zip(&slots)
            .enumerate()
            .flat_map(|(at, (task, sets))| sets.iter().map(move |set| (at, task.row(set))))
            .collect();
        let seen = Seen::new(self, &tasks, &rows);
        let mut residual: Vec<f64> = rows
            .par_iter()
            .enumerate()
            .map(|(set, (task, row))| {
                let prior = self.kernel.effect_covariance(&tasks[*task].query, row, row);
                (prior - seen.explained(set, set)).max(0.0)
            })
            .collect();
        let total: f64 = residual.iter().sum();
        let mut features = vec![Vec::new(); rows.len()];
        for _ in 0..dimension_max {
            let Some((pivot, &largest)) = residual.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1))
            else {
                break;
            };
            if largest <= 1e-12 || residual.iter().sum::<f64>() <= tolerance * total {
                break;
            }
            let (task, pivot_row) = &rows[pivot];
            let query = &tasks[*task].query;
            let root = largest.sqrt();
            let pivot_features: Vec<f64> = features[pivot].clone();
            features
                .par_iter_mut()
                .zip(&mut residual)
                .enumerate()
                .for_each(|(set, (features, residual))| {
                    let prior = self.kernel.effect_covariance(query, pivot_row, &rows[set].1);
                    let known = seen.explained(set, pivot) + dot(features, &pivot_features);
                    let next = (prior - known) / root;
                    *residual = (*residual - next * next).max(0.0);
                    features.push(next);
                });
            residual[pivot] = 0.0;
        }
        let left: f64 = residual.iter().sum();
        let reaches: Vec<f64> = tasks.iter().map(BoundTask::reach).collect();
        for ((task, _), (features, residual)) in rows.iter().zip(features.iter_mut().zip(&mut residual)) {
            let reach = reaches[*task];
            features.iter_mut().for_each(|feature| *feature *= reach);
            *residual *= reach * reach;
        }
        Ok(FeatureMap {
            features,
            residual,
            residual_share: if total > 0.0 { left / total } else { 0.0 },
        })
    }
}

/// What the labels say of many sets, whitened: the covariance that they explain is an inner product.
///
/// In single precision: a number a label and set, which is much for the largest windows.
struct Seen {
    /// One vector a set; with inducing rows, what is explained is a difference of two inner products.
    whitened: Vec<Vec<f32>>,
    taken_back: Vec<Vec<f32>>,
}

impl Seen {
    fn new(scorer: &CompactScorer, tasks: &[BoundTask<'_>], rows: &[(usize, Row)]) -> Self {
        let parts: Vec<[Vec<Vec<f32>>; 2]> = rows
            .par_chunks(64)
            .map(|rows| {
                let (posterior, kernel) = (&scorer.posterior, &scorer.kernel);
                let mut cross = Mat::zeros(posterior.speaking().len(), rows.len());
                let mut j = 0;
                for of_task in rows.chunk_by(|a, b| a.0 == b.0) {
                    let (task, first) = &of_task[0];
                    let query = &tasks[*task].query;
                    let carries = posterior.carries(kernel, query, first);
                    for (_, row) in of_task {
                        posterior.covary(kernel, query, row, &carries, cross.col_mut(j).iter_mut());
                        j += 1;
                    }
                }
                let (whitened, taken_back) = posterior.whitened(cross);
                [
                    columns(&whitened),
                    taken_back.as_ref().map(columns).unwrap_or_default(),
                ]
            })
            .collect();
        let mut seen = Self {
            whitened: Vec::with_capacity(rows.len()),
            taken_back: Vec::new(),
        };
        for [whitened, taken_back] in parts {
            seen.whitened.extend(whitened);
            seen.taken_back.extend(taken_back);
        }
        seen
    }

    /// The prior covariance of two sets that the labels explain.
    fn explained(&self, a: usize, b: usize) -> f64 {
        let mut explained = dot_single(&self.whitened[a], &self.whitened[b]);
        if let (Some(a), Some(b)) = (self.taken_back.get(a), self.taken_back.get(b)) {
            explained -= dot_single(a, b);
        }
        explained
    }
}

#[expect(clippy::cast_possible_truncation, reason = "single precision is what is kept")]
fn columns(matrix: &Mat<f64>) -> Vec<Vec<f32>> {
    (0..matrix.ncols())
        .map(|j| matrix.col(j).iter().map(|&cell| cell as f32).collect())
        .collect()
}

/// The inner product of numbers in single precision, summed in double.
fn dot_single(a: &[f32], b: &[f32]) -> f64 {
    let mut lanes = [0.0_f64; 8];
    let (a_chunks, a_rest) = a.as_chunks::<8>();
    let (b_chunks, b_rest) = b.as_chunks::<8>();
    for (x, y) in a_chunks.iter().zip(b_chunks) {
        for lane in 0..8 {
            lanes[lane] += f64::from(x[lane]) * f64::from(y[lane]);
        }
    }
    let rest: f64 = a_rest
        .iter()
        .zip(b_rest)
        .map(|(&x, &y)| f64::from(x) * f64::from(y))
        .sum();
    lanes.iter().sum::<f64>() + rest
}

/// A root R of a positive semi-definite matrix, R R' = A, by pivoted Cholesky decomposition.
pub(crate) fn pivoted(matrix: &Mat<f64>) -> Mat<f64> {
    let count = matrix.nrows();
    let mut left: Vec<f64> = (0..count).map(|i| matrix[(i, i)]).collect();
    let largest = left.iter().fold(0.0_f64, |a, &b| a.max(b));
    let mut columns: Vec<Vec<f64>> = Vec::new();
    for _ in 0..count {
        let Some((pivot, &rest)) = left.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)) else {
            break;
        };
        // Below this the rest is rounding.
        if rest <= 1e-10 * largest {
            break;
        }
        let root = rest.sqrt();
        let column: Vec<f64> = (0..count)
            .map(|i| {
                let known: f64 = columns.iter().map(|c| c[i] * c[pivot]).sum();
                (matrix[(i, pivot)] - known) / root
            })
            .collect();
        for (rest, cell) in left.iter_mut().zip(&column) {
            *rest -= cell * cell;
        }
        left[pivot] = 0.0;
        columns.push(column);
    }
    Mat::from_fn(count, columns.len(), |i, k| columns[k][i])
}
