//! A finite feature map of the posterior over many sets of many tasks, for the selection of probes.

use std::sync::Arc;

use faer::Mat;
use rayon::prelude::*;
use upliftmem_core::MemorySet;

use super::{
    row::Row,
    snapshot::{BoundTask, CompactScorer},
    terms::Terms,
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
            .into_iter()
            .map(|(task, ids, candidates)| self.bind_known(&registry, task, ids, candidates))
            .collect();
        let slots: Vec<Vec<Vec<u32>>> = tasks
            .iter()
            .zip(items)
            .map(|(task, item)| item.sets.iter().map(|set| task.slots(set)).collect())
            .collect::<Result<_>>()?;
        let variances: Vec<Vec<f64>> = tasks
            .par_iter()
            .zip(&slots)
            .map(|(task, sets)| self.variances(task, sets))
            .collect();
        let places: Vec<(usize, usize)> = slots
            .iter()
            .enumerate()
            .flat_map(|(task, sets)| (0..sets.len()).map(move |set| (task, set)))
            .collect();
        let mut residual: Vec<f64> = variances.into_iter().flatten().collect();
        let total: f64 = residual.iter().sum();
        let mut features = vec![Vec::new(); places.len()];
        for _ in 0..dimension_max {
            let Some((pivot, &largest)) = residual.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1))
            else {
                break;
            };
            if largest <= 1e-12 || residual.iter().sum::<f64>() <= tolerance * total {
                break;
            }
            let column = self.covariance_with(&tasks, &slots, places[pivot]);
            let root = largest.sqrt();
            let pivot_features = features[pivot].clone();
            features.par_iter_mut().zip(&mut residual).zip(column).for_each(
                |((features, residual), covariance): ((&mut Vec<f64>, &mut f64), f64)| {
                    let known = super::space::dot(features, &pivot_features);
                    let next = (covariance - known) / root;
                    *residual = (*residual - next * next).max(0.0);
                    features.push(next);
                },
            );
            residual[pivot] = 0.0;
        }
        let left: f64 = residual.iter().sum();
        Ok(FeatureMap {
            features,
            residual,
            residual_share: if total > 0.0 { left / total } else { 0.0 },
        })
    }

    fn variances(&self, task: &BoundTask<'_>, sets: &[Vec<u32>]) -> Vec<f64> {
        let rows: Vec<Row> = sets.iter().map(|set| task.row(set)).collect();
        let cross = self.posterior.cross(&self.kernel, &task.query, &rows);
        let explained = self.posterior.explained(&cross);
        rows.iter()
            .zip(explained)
            .map(|(row, explained)| {
                (self.kernel.effect_covariance(&task.query, row, row) - explained).max(0.0)
            })
            .collect()
    }

    /// Posterior covariance of every set with one of them: a value function like the mean, with other weights.
    fn covariance_with(
        &self,
        tasks: &[BoundTask<'_>],
        slots: &[Vec<Vec<u32>>],
        (task, set): (usize, usize),
    ) -> Vec<f64> {
        let pivot = Arc::new(tasks[task].row(&slots[task][set]));
        let query = &tasks[task].query;
        let cross = self
            .posterior
            .cross(&self.kernel, query, std::slice::from_ref(pivot.as_ref()));
        let cross: Vec<f64> = cross.col(0).iter().copied().collect();
        let weights = self.posterior.reduce(&cross);
        tasks
            .par_iter()
            .zip(slots)
            .flat_map_iter(|(other, sets)| {
                let labels = self.posterior.rows.iter().cloned();
                let terms = Terms::new(
                    self.kind,
                    &self.kernel,
                    &other.registry,
                    self.scale,
                    &other.query,
                    other.registry.memories.len(),
                    labels
                        .zip(weights.iter().map(|weight| -weight))
                        .chain(std::iter::once((Arc::clone(&pivot), 1.0))),
                );
                sets.iter().map(|set| terms.linear(set)).collect::<Vec<f64>>()
            })
            .collect()
    }
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
