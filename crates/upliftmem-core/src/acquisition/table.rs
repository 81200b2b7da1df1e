//! Windows of moderate size: every covariance of a label with a value is kept, and moved by one rank when a probe is
//! scheduled. Bounds and values are then sums over comparisons, without an inner product.

use rayon::prelude::*;

use super::{
    kernel::{Block, add_squares, all_gains, all_lines, inner_product, inner_products, take_off},
    problem::Problem,
    state::State,
};

/// Covariances of the labels of all probes with the values of all probes, given what is scheduled.
pub(crate) struct Table {
    /// One row a label. A row has the values of task after task, and a zero, the empty set's, after each.
    cells: Vec<f64>,
    stride: usize,
}

impl Table {
    pub(crate) fn new(problem: &Problem<'_>, state: &State) -> Self {
        let stride = problem.belief.len() + problem.tasks();
        let mut table = Self {
            cells: vec![0.0; problem.belief.len() * stride],
            stride,
        };
        table.refresh(problem, state, 0..problem.belief.len());
        table
    }

    /// Makes the rows of some probes anew.
    fn refresh(&mut self, problem: &Problem<'_>, state: &State, probes: std::ops::Range<usize>) {
        let rows = &mut self.cells[probes.start * self.stride..probes.end * self.stride];
        rows.par_chunks_mut(self.stride)
            .zip(probes)
            .for_each(|(row, probe)| {
                let mut direction = vec![0.0; problem.belief.width()];
                state.label_covariance(problem, probe, &mut direction);
                project(problem, &direction, row);
            });
    }

    fn row(&self, probe: usize) -> &[f64] {
        &self.cells[probe * self.stride..(probe + 1) * self.stride]
    }

    /// The marginal value of each of these probes.
    pub(crate) fn values(&self, problem: &Problem<'_>, state: &State, probes: &[usize]) -> Vec<f64> {
        let blocks = blocks(problem, state);
        probes
            .par_iter()
            .map(|&probe| all_gains(&blocks, self.row(probe), state.inverse_label_variance(probe)))
            .collect()
    }

    /// The upper lines of all comparisons, without their intercepts, summed for every probe; in units of its label's variance.
    pub(crate) fn lines(&self, problem: &Problem<'_>, state: &State, slopes: &[f64]) -> Vec<f64> {
        let blocks = blocks(problem, state);
        (0..problem.belief.len())
            .into_par_iter()
            .with_min_len(16)
            .map(|probe| all_lines(&blocks, slopes, self.row(probe)))
            .collect()
    }

    /// What each of these probes would resolve of every comparison, on average.
    pub(crate) fn typical(&self, problem: &Problem<'_>, state: &State, probes: &[usize], out: &mut [f64]) {
        let blocks = blocks(problem, state);
        out.fill(0.0);
        for &probe in probes {
            let factor = state.inverse_label_variance(probe) / probes.len() as f64;
            add_squares(&blocks, self.row(probe), factor, out);
        }
    }

    /// Follows the scheduling of a probe, whose label moved the belief by `direction`.
    pub(crate) fn follow(&mut self, problem: &Problem<'_>, state: &State, probe: usize, direction: &[f64]) {
        let mut moved = vec![0.0; self.stride];
        project(problem, direction, &mut moved);
        // Before the reference of the probe's task was learned of; rows of that task are made anew below.
        self.cells
            .par_chunks_mut(self.stride)
            .enumerate()
            .with_min_len(16)
            .for_each(|(label, row)| {
                let task = problem.task_of[label] as usize;
                let reference = state.reference_row(problem, task);
                let shared = inner_product(reference, direction);
                take_off(row, moved[label + task] - shared, &moved);
            });
        let task = problem.task_of[probe] as usize;
        if state.reference_changes[task] > 0 {
            self.refresh(problem, state, problem.probes[task].clone());
        }
    }
}

/// The comparisons of all tasks, and where the values of their probes begin in a row.
fn blocks<'b>(problem: &'b Problem<'_>, state: &'b State) -> Vec<(usize, Block<'b>)> {
    let block = |task| problem.block(task, &state.resolved, &state.values);
    (0..problem.tasks())
        .map(|task| (first(problem, task), block(task)))
        .collect()
}

/// Where a task's values begin in a row.
fn first(problem: &Problem<'_>, task: usize) -> usize {
    problem.probes[task].start + task
}

/// Inner products of a direction with the rows of all probes.
fn project(problem: &Problem<'_>, direction: &[f64], out: &mut [f64]) {
    for task in 0..problem.tasks() {
        let at = first(problem, task);
        let count = problem.probes[task].len();
        inner_products(problem.task_rows(task), direction, &mut out[at..at + count]);
    }
}
