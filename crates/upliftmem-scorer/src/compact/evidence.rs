//! The marginal likelihood of labels, and its gradient in the hyper-parameters.

use std::collections::BTreeMap;

use faer::{
    Mat, MatRef, Side,
    linalg::solvers::{DenseSolveCore, Llt, Solve},
};
use rayon::prelude::*;

use super::{
    kernel::{Kernel, Likeness},
    parameters::COUNT,
    registry::Registry,
    row::Row,
};

/// Labels with all their mutual similarities. Tasks and memories are renumbered from zero.
pub(crate) struct Problem {
    rows: Vec<Row>,
    values: Vec<f64>,
    tasks: Square,
    memories: Square,
}

/// A symmetric table of numbers.
struct Square {
    side: usize,
    cells: Vec<f64>,
}

impl Square {
    fn new(points: &[u32], similarity: impl Fn(u32, u32) -> f64 + Sync) -> Self {
        let side = points.len();
        let mut cells = vec![0.0; side * side];
        fill(&mut cells, side, |a, b| similarity(points[a], points[b]));
        Self { side, cells }
    }

    /// The same of every number.
    fn mapped<T: Copy + Default + Send + Sync>(&self, of: impl Fn(f64) -> T + Sync) -> Vec<T> {
        let mut cells = vec![T::default(); self.cells.len()];
        fill(&mut cells, self.side, |a, b| of(self.cells[a * self.side + b]));
        cells
    }

    fn at(&self, a: u32, b: u32) -> f64 {
        self.cells[a as usize * self.side + b as usize]
    }
}

/// Fills a symmetric table, evaluating every pair once.
fn fill<T: Copy + Send>(cells: &mut [T], side: usize, of: impl Fn(usize, usize) -> T + Sync) {
    cells
        .par_chunks_mut(side.max(1))
        .enumerate()
        .with_min_len(8)
        .for_each(|(a, row)| {
            for (b, cell) in row[..=a].iter_mut().enumerate() {
                *cell = of(a, b);
            }
        });
    for a in 1..side {
        let (above, row) = cells.split_at_mut(a * side);
        for (b, &cell) in row[..a].iter().enumerate() {
            above[b * side + a] = cell;
        }
    }
}

/// Likeness with all that a kernel says of a pair of tasks or memories evaluated once for every pair.
struct Tabulated<'a> {
    tasks: &'a Square,
    /// Shared base and fading of every pair of tasks.
    carried: Vec<(f64, f64)>,
    side: usize,
    texts: Vec<(f64, f64)>,
}

impl Tabulated<'_> {
    fn carried(&self, a: u32, b: u32) -> (f64, f64) {
        self.carried[a as usize * self.tasks.side + b as usize]
    }
}

impl Likeness for Tabulated<'_> {
    fn tasks(&self, a: u32, b: u32) -> f64 {
        self.tasks.at(a, b)
    }

    fn memories(&self, a: u32, b: u32) -> (f64, f64) {
        self.texts[a as usize * self.side + b as usize]
    }

    fn near_base(&self, _: &Kernel, a: u32, b: u32) -> f64 {
        self.carried(a, b).0
    }

    fn fade(&self, _: &Kernel, a: u32, b: u32) -> f64 {
        self.carried(a, b).1
    }
}

/// Likeness that evaluates the text kernel when it is asked: for single rows.
struct Untabulated<'a> {
    problem: &'a Problem,
    kernel: &'a Kernel,
}

impl Likeness for Untabulated<'_> {
    fn tasks(&self, a: u32, b: u32) -> f64 {
        self.problem.tasks.at(a, b)
    }

    fn memories(&self, a: u32, b: u32) -> (f64, f64) {
        self.kernel.text_covariance(self.problem.memories.at(a, b))
    }
}

impl Problem {
    /// The rows and the values observed for them, already centred.
    pub(crate) fn new(registry: &Registry, rows: impl Iterator<Item = Row>, values: Vec<f64>) -> Self {
        let mut rows: Vec<Row> = rows.collect();
        let mut tasks = BTreeMap::new();
        let mut memories = BTreeMap::new();
        for row in &rows {
            tasks.insert(row.task, 0);
            memories.extend(row.members.iter().map(|member| (member.memory, 0)));
        }
        for (local, index) in tasks.values_mut().chain(memories.values_mut()).zip(0_u32..) {
            *local = index;
        }
        let first_memory = u32::try_from(tasks.len()).unwrap_or(u32::MAX);
        for row in &mut rows {
            row.task = tasks[&row.task];
            for member in &mut row.members {
                member.memory = memories[&member.memory] - first_memory;
            }
        }
        let tasks: Vec<u32> = tasks.into_keys().collect();
        let memories: Vec<u32> = memories.into_keys().collect();
        Self {
            rows,
            values,
            tasks: Square::new(&tasks, |a, b| registry.task_similarity(a, b)),
            memories: Square::new(&memories, |a, b| registry.memory_similarity(a, b)),
        }
    }

    /// The observed values.
    #[cfg(test)]
    pub(crate) fn values(&self) -> &[f64] {
        &self.values
    }

    fn tabulate(&self, kernel: &Kernel) -> Tabulated<'_> {
        Tabulated {
            tasks: &self.tasks,
            carried: self
                .tasks
                .mapped(|similarity| (kernel.near_base(similarity), kernel.fade(similarity))),
            side: self.memories.side,
            texts: self
                .memories
                .mapped(|similarity| kernel.text_covariance(similarity)),
        }
    }

    /// The covariance of all labels, column by column; only the lower triangle is filled.
    pub(crate) fn covariance(&self, kernel: &Kernel, rows: &[Row]) -> Vec<f64> {
        let like = self.tabulate(kernel);
        self.covariance_with(kernel, rows, &like)
    }

    fn covariance_with(&self, kernel: &Kernel, rows: &[Row], like: &Tabulated<'_>) -> Vec<f64> {
        let count = rows.len();
        let mut cells = vec![0.0; count * count];
        cells
            .par_chunks_mut(count.max(1))
            .enumerate()
            .for_each(|(j, column)| {
                for i in j..count {
                    column[i] = kernel.covariance(like, &rows[i], &rows[j]);
                }
                column[j] += kernel.noise_of(&rows[j]);
            });
        cells
    }

    /// Covariance of the first `few` rows with all rows, one column a row; without noise.
    pub(crate) fn cross(&self, kernel: &Kernel, rows: &[Row], few: usize) -> Vec<f64> {
        let like = self.tabulate(kernel);
        let mut cells = vec![0.0; few * rows.len()];
        cells
            .par_chunks_mut(few.max(1))
            .enumerate()
            .for_each(|(j, column)| {
                for (cell, row) in column.iter_mut().zip(rows) {
                    *cell = kernel.covariance(&like, row, &rows[j]);
                }
            });
        cells
    }

    /// Prior variance of one row, without noise.
    pub(crate) fn variance(&self, kernel: &Kernel, row: &Row) -> f64 {
        kernel.covariance(
            &Untabulated {
                problem: self,
                kernel,
            },
            row,
            row,
        )
    }

    /// The rows with the gates this kernel opens.
    pub(crate) fn gated(&self, kernel: &Kernel) -> Vec<Row> {
        let mut rows = self.rows.clone();
        for row in &mut rows {
            row.open_gates(kernel);
        }
        rows
    }

    /// The log marginal likelihood of the labels and its gradient; `None` where the covariance is not positive.
    ///
    /// log p = -1/2 y' K^-1 y - 1/2 log |K| - n/2 log 2 pi, and
    /// d log p = 1/2 sum over i, j of (a_i a_j - K^-1_ij) dK_ij with a = K^-1 y.
    pub(crate) fn log_evidence(&self, kernel: &Kernel) -> Option<(f64, [f64; COUNT])> {
        let count = self.rows.len();
        let rows = self.gated(kernel);
        let like = self.tabulate(kernel);
        let cells = self.covariance_with(kernel, &rows, &like);
        let factor = Llt::new(MatRef::from_column_major_slice(&cells, count, count), Side::Lower).ok()?;
        let values = Mat::from_fn(count, 1, |i, _| self.values[i]);
        let solved = factor.solve(&values);
        let inverse = factor.inverse();
        let mut log = -0.5 * count as f64 * (2.0 * std::f64::consts::PI).ln();
        for i in 0..count {
            log -= 0.5 * self.values[i] * solved[(i, 0)] + factor.L()[(i, i)].ln();
        }
        if !log.is_finite() {
            return None;
        }
        let columns: Vec<[f64; COUNT]> = (0..count)
            .into_par_iter()
            .map(|j| {
                let mut gradient = [0.0; COUNT];
                for i in j..count {
                    let twice = if i == j { 0.5 } else { 1.0 };
                    let weight = twice * (solved[(i, 0)] * solved[(j, 0)] - inverse[(i, j)]);
                    kernel.add_gradient(&like, &rows[i], &rows[j], weight, &mut gradient);
                    if i == j {
                        gradient[super::parameters::Parameter::NoiseSd as usize] +=
                            weight * 2.0 * kernel.noise_of(&rows[j]);
                    }
                }
                gradient
            })
            .collect();
        // Summed in order: the same bits whatever the number of threads.
        let mut gradient = [0.0; COUNT];
        for column in columns {
            for (sum, part) in gradient.iter_mut().zip(column) {
                *sum += part;
            }
        }
        Some((log, gradient))
    }
}
