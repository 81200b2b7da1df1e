//! What the labels say: weights for the mean, and the precision for the covariance.

use std::sync::Arc;

use faer::{Accum, Mat, MatMut, MatRef, Par, linalg::matmul::matmul};
use rayon::prelude::*;

use super::{
    evidence::Problem,
    factor::Factor,
    kernel::{Carry, Kernel},
    query::Query,
    row::Row,
};

/// Columns that one thread solves at a time.
const CHUNK: usize = 256;
/// Columns of a matrix product that one thread forms at a time.
const BLOCK: usize = 128;

/// A Gaussian posterior. The mean at x is the sum over rows of weight times covariance with x; the covariance
/// of x and y is k(x, y) - k(x)' Q k(y).
#[derive(Debug, Clone)]
pub(crate) struct Posterior {
    pub(crate) rows: Vec<Arc<Row>>,
    /// Up to date once [`Self::weigh`] was called.
    pub(crate) weights: Vec<f64>,
    weighed: bool,
    precision: Precision,
    /// How many rows at the beginning, in whole blocks of the factor, have no members: what memories do does not covary with
    /// them, so that nothing need be computed there.
    silent: usize,
}

/// The matrix Q, factored.
#[derive(Debug, Clone)]
enum Precision {
    /// Q = K^-1 over all labels. `whitened` is L^-1 y.
    Exact { factor: Factor, whitened: Vec<f64> },
    /// Q = U^-1 - A^-1 over inducing rows: U their covariance, A = U + C N^-1 C' with C their covariance with all
    /// labels and N the labels' noise. `target` is C N^-1 y.
    Inducing {
        prior: Factor,
        data: Factor,
        target: Vec<f64>,
    },
}

impl Posterior {
    /// Before any label.
    pub(crate) fn empty() -> Self {
        Self {
            rows: Vec::new(),
            weights: Vec::new(),
            weighed: true,
            precision: Precision::Exact {
                factor: Factor::default(),
                whitened: Vec::new(),
            },
            silent: 0,
        }
    }

    /// Exact conditioning on all rows; `None` if their covariance is not positive definite.
    pub(crate) fn exact(
        problem: &Problem,
        kernel: &Kernel,
        rows: Vec<Arc<Row>>,
        values: &[f64],
    ) -> Option<Self> {
        let cells = problem.covariance(kernel, &problem.gated(kernel));
        let factor = Factor::of(&cells, rows.len())?;
        let mut whitened = values.to_vec();
        factor.forward(&mut whitened);
        let mut weights = whitened.clone();
        factor.backward(&mut weights);
        let silent = rows.iter().take_while(|row| row.members.is_empty()).count();
        Some(Self {
            rows,
            weights,
            weighed: true,
            precision: Precision::Exact { factor, whitened },
            silent: Factor::whole_blocks(silent),
        })
    }

    /// Conditioning through inducing rows, which are the first ones of `all`. Also returns the share of the
    /// labels' prior variance that the inducing rows can not express.
    pub(crate) fn inducing(
        problem: &Problem,
        kernel: &Kernel,
        all: &[Row],
        inducing: Vec<Arc<Row>>,
        values: &[f64],
    ) -> Option<(Self, f64)> {
        let few = inducing.len();
        let mut cells = problem.cross(kernel, all, few);
        let square = Mat::from_fn(few, few, |i, j| {
            cells[j * few + i] * if i == j { 1.0 + 1e-8 } else { 1.0 }
        });
        let prior = Factor::of(&columns(&square), few)?;
        let mut whitened = cells.clone();
        whitened.par_chunks_mut(few * CHUNK).for_each(|part| {
            let columns = part.len() / few;
            prior.forward_many(MatMut::from_column_major_slice_mut(part, few, columns), 0);
        });
        let total: f64 = all.iter().map(|row| problem.variance(kernel, row)).sum();
        let expressed = super::space::dot(&whitened, &whitened);
        // C N^-1/2, and the labels in the same units.
        let roots: Vec<f64> = all.iter().map(|row| kernel.noise_of(row).sqrt()).collect();
        for (column, root) in cells.chunks_mut(few).zip(&roots) {
            column.iter_mut().for_each(|cell| *cell /= root);
        }
        let cross = MatRef::from_column_major_slice(&cells, few, all.len());
        // The lower triangle of U + C N^-1 C', a block of columns a thread.
        let mut sum = columns(&square);
        sum.par_chunks_mut(few * BLOCK)
            .enumerate()
            .for_each(|(at, part)| {
                let (first, width) = (at * BLOCK, part.len() / few);
                let block = MatMut::from_column_major_slice_mut(part, few, width);
                matmul(
                    block.subrows_mut(first, few - first),
                    Accum::Add,
                    cross.subrows(first, few - first),
                    cross.subrows(first, width).transpose(),
                    1.0,
                    Par::Seq,
                );
            });
        let data = Factor::of(&sum, few)?;
        let mut target = vec![0.0; few];
        for (j, (value, root)) in values.iter().zip(&roots).enumerate() {
            for (sum, cell) in target.iter_mut().zip(cross.col(j).iter()) {
                *sum += cell * value / root;
            }
        }
        let mut posterior = Self {
            rows: inducing,
            weights: Vec::new(),
            weighed: false,
            precision: Precision::Inducing { prior, data, target },
            silent: 0,
        };
        posterior.weigh();
        Some((posterior, 1.0 - expressed / total))
    }

    /// Brings the weights up to date with the labels taken since they were last needed.
    pub(crate) fn weigh(&mut self) {
        if self.weighed {
            return;
        }
        self.weighed = true;
        match &self.precision {
            Precision::Exact { factor, whitened } => {
                self.weights = whitened.clone();
                factor.backward(&mut self.weights);
            }
            Precision::Inducing { data, target, .. } => {
                self.weights = target.clone();
                data.forward(&mut self.weights);
                data.backward(&mut self.weights);
            }
        }
    }

    /// Takes one more label; `cross` is its covariance with the rows. `None` (and no change) if it can not be.
    pub(crate) fn append(
        &mut self,
        kernel: &Kernel,
        row: Row,
        cross: Vec<f64>,
        variance: f64,
        value: f64,
    ) -> Option<()> {
        let noise = kernel.noise_of(&row);
        match &mut self.precision {
            Precision::Exact { factor, whitened } => {
                let new = factor.append(cross, variance + noise)?;
                let (own, old) = new.split_last()?;
                whitened.push((value - super::space::dot(old, whitened)) / own);
                self.rows.push(Arc::new(row));
            }
            Precision::Inducing { data, target, .. } => {
                for (sum, cell) in target.iter_mut().zip(&cross) {
                    *sum += cell * value / noise;
                }
                let scale = noise.sqrt();
                data.add_outer(cross.into_iter().map(|cell| cell / scale).collect());
            }
        }
        self.weighed = false;
        Some(())
    }

    /// The rows that what memories do covaries with, and perhaps some more.
    pub(crate) fn speaking(&self) -> &[Arc<Row>] {
        &self.rows[self.silent..]
    }

    /// Vectors whose inner products are the prior covariance that the labels explain; with inducing rows, those of the
    /// second matrix are to be taken off. Like all that follows, of covariances with [`Self::speaking`].
    pub(crate) fn whitened(&self, cross: Mat<f64>) -> (Mat<f64>, Option<Mat<f64>>) {
        let solved = |factor: &Factor, mut x: Mat<f64>| {
            factor.forward_many(x.as_mut(), self.silent);
            x
        };
        match &self.precision {
            Precision::Exact { factor, .. } => (solved(factor, cross), None),
            Precision::Inducing { prior, data, .. } => {
                let data = solved(data, cross.clone());
                (solved(prior, cross), Some(data))
            }
        }
    }

    /// The prior variance that the labels explain of each row of one query: k' Q k.
    pub(crate) fn explained(&self, cross: &Mat<f64>) -> Vec<f64> {
        let squares = |factor: &Factor| -> Vec<f64> {
            let mut x = cross.clone();
            factor.forward_many(x.as_mut(), self.silent);
            (0..x.ncols()).map(|j| x.col(j).squared_norm_l2()).collect()
        };
        match &self.precision {
            Precision::Exact { factor, .. } => squares(factor),
            Precision::Inducing { prior, data, .. } => squares(prior)
                .iter()
                .zip(squares(data))
                .map(|(prior, data)| prior - data)
                .collect(),
        }
    }

    /// The prior covariance that the labels explain between all rows of one query.
    pub(crate) fn explained_covariance(&self, cross: &Mat<f64>) -> Mat<f64> {
        let products = |factor: &Factor| {
            let mut x = cross.clone();
            factor.forward_many(x.as_mut(), self.silent);
            let mut out = Mat::zeros(x.ncols(), x.ncols());
            matmul(
                out.as_mut(),
                Accum::Replace,
                x.transpose(),
                x.as_ref(),
                1.0,
                Par::Seq,
            );
            out
        };
        match &self.precision {
            Precision::Exact { factor, .. } => products(factor),
            Precision::Inducing { prior, data, .. } => products(prior) - products(data),
        }
    }

    /// Covariance of the uplifts of a query's sets with labels: one column a set.
    pub(crate) fn cross(&self, kernel: &Kernel, query: &Query, sets: &[Row]) -> Mat<f64> {
        let mut cross = Mat::zeros(self.speaking().len(), sets.len());
        let Some(first) = sets.first() else {
            return cross;
        };
        let carries = self.carries(kernel, query, first);
        for (j, set) in sets.iter().enumerate() {
            self.covary(kernel, query, set, &carries, cross.col_mut(j).iter_mut());
        }
        cross
    }

    /// How far effects carry from each label to a query: the same for all its sets.
    pub(crate) fn carries(&self, kernel: &Kernel, query: &Query, any: &Row) -> Vec<Carry> {
        let rows = self.speaking().iter();
        rows.map(|row| kernel.carry(query, any, row)).collect()
    }

    /// Covariance of the uplift of one of a query's sets with labels.
    pub(crate) fn covary<'c>(
        &self,
        kernel: &Kernel,
        query: &Query,
        set: &Row,
        carries: &[Carry],
        column: impl Iterator<Item = &'c mut f64>,
    ) {
        for (cell, (row, &carry)) in column.zip(self.speaking().iter().zip(carries)) {
            *cell = if set.members.is_empty() || row.members.is_empty() {
                0.0
            } else {
                kernel.carried_effect(query, set, row, carry)
            };
        }
    }
}

fn columns(matrix: &Mat<f64>) -> Vec<f64> {
    (0..matrix.ncols())
        .flat_map(|j| (0..matrix.nrows()).map(move |i| matrix[(i, j)]))
        .collect()
}
