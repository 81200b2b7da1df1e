//! A frozen matrix, packed once, that multiplies in both directions.
//!
//! One layout serves the way forth (`x W^T`) and the way back (`dy W`): a second copy for the way back would double the
//! memory of a model. The matrix is cut into blocks of [`DEPTH`] inputs, each block into panels of outputs.

use rayon::prelude::*;

use super::{
    kernel::{Panels, Shape, Strided, Target, cut_and_multiply, grow, multiply, panels_of, tiles_of},
    turn::{Rows, turn},
};

/// Most inputs of a block: a panel of one block and a few rows stay in the nearest cache together.
const DEPTH: usize = 192;
/// Rows multiplied with a block at a time: their tiles stay in the second cache.
const ROWS: usize = 384;
/// Outputs summed at a time on the way back.
const BACK: usize = 192;
/// Entries of a line of the cache.
const LINE: usize = 16;
/// Multiplications below which a second thread costs more than it gives.
const PARALLEL: usize = 1 << 20;

/// A frozen matrix of `outputs` rows of `inputs` entries, laid out for products.
#[derive(Debug)]
pub(crate) struct PackedMatrix {
    inputs: usize,
    outputs: usize,
    /// Block after block, panel after panel, input after input, from `start` on.
    panels: Vec<f32>,
    /// The first entry that begins a line of the cache: a vector of a panel is then read from one line, not from two.
    start: usize,
}

impl PackedMatrix {
    /// From rows of `inputs` entries, one for each output.
    pub(crate) fn new(rows: &[f32], outputs: usize, inputs: usize) -> Self {
        debug_assert_eq!(rows.len(), outputs * inputs);
        let width = outputs.next_multiple_of(Shape::here().panel);
        let mut panels: Vec<f32> = Vec::with_capacity(inputs * width + LINE);
        let start = panels.as_ptr().align_offset(LINE * size_of::<f32>()).min(LINE);
        panels.resize(start, 0.0);
        let mut block = Vec::new();
        for first in (0..inputs).step_by(DEPTH) {
            let depth = DEPTH.min(inputs - first);
            let part = Strided::rows(&rows[first..], inputs).transposed();
            panels_of(part, depth, outputs, &mut block);
            panels.extend_from_slice(&block[..depth * width]);
        }
        Self {
            inputs,
            outputs,
            panels,
            start,
        }
    }

    pub(crate) const fn inputs(&self) -> usize {
        self.inputs
    }

    pub(crate) const fn outputs(&self) -> usize {
        self.outputs
    }

    /// Blocks with their first input and their depth.
    fn blocks(&self) -> impl Iterator<Item = (usize, usize, &[f32])> {
        let width = self.outputs.next_multiple_of(Shape::here().panel);
        let panels = &self.panels[self.start..];
        (0..self.inputs).step_by(DEPTH).map(move |first| {
            let depth = DEPTH.min(self.inputs - first);
            (first, depth, &panels[first * width..(first + depth) * width])
        })
    }

    /// `x W^T`: rows of `inputs` entries to rows of `outputs` entries.
    pub(crate) fn forward(&self, x: &[f32]) -> Vec<f32> {
        let mut out = vec![0.0; x.len() / self.inputs.max(1) * self.outputs];
        self.forward_into(x, &mut out, false);
        out
    }

    /// The same in place of what is there, or added to it.
    pub(crate) fn forward_into(&self, x: &[f32], out: &mut [f32], add: bool) {
        if out.is_empty() {
            return;
        }
        let work = |(x, out): (&[f32], &mut [f32])| {
            let mut tiles = Vec::new();
            for (x, out) in x
                .chunks(ROWS * self.inputs)
                .zip(out.chunks_mut(ROWS * self.outputs))
            {
                let height = x.len() / self.inputs;
                for (first, depth, panels) in self.blocks() {
                    let left = Strided::rows(&x[first..], self.inputs);
                    let panels = Panels::of(panels, depth);
                    let mut target = Target {
                        out: &mut *out,
                        stride: self.outputs,
                        columns: self.outputs,
                        add: add || first > 0,
                    };
                    cut_and_multiply((height, depth), left, panels, &mut target, &mut tiles);
                }
            }
        };
        let chunk = self.rows_of_a_thread(x.len() / self.inputs.max(1));
        x.par_chunks(chunk * self.inputs)
            .zip(out.par_chunks_mut(chunk * self.outputs))
            .for_each(work);
    }

    /// `dy W`: slopes by the outputs to slopes by the inputs.
    pub(crate) fn backward(&self, dy: &[f32]) -> Vec<f32> {
        let rows = dy.len() / self.outputs.max(1);
        let mut dx = vec![0.0; rows * self.inputs];
        if dx.is_empty() {
            return dx;
        }
        let chunk = self.rows_of_a_thread(rows);
        dy.par_chunks(chunk * self.outputs)
            .zip(dx.par_chunks_mut(chunk * self.inputs))
            .for_each(|(dy, dx)| self.backward_rows(dy, dx));
        dx
    }

    /// The matrix is turned panel by panel on the way: its layout serves sums over inputs, these are over outputs.
    fn backward_rows(&self, dy: &[f32], dx: &mut [f32]) {
        let Shape { panel, .. } = Shape::here();
        let (mut tiles, mut turned) = (Vec::new(), Vec::new());
        for (dy, dx) in dy
            .chunks(ROWS * self.outputs)
            .zip(dx.chunks_mut(ROWS * self.inputs))
        {
            let rows = dy.len() / self.outputs;
            for start in (0..self.outputs).step_by(BACK) {
                let width = BACK.min(self.outputs - start);
                tiles_of(Strided::rows(&dy[start..], self.outputs), rows, width, &mut tiles);
                for (first, depth, panels) in self.blocks() {
                    let part = &panels[start * depth..];
                    for at in (0..depth).step_by(panel) {
                        let columns = panel.min(depth - at);
                        turn_panel(part, depth, at, columns, width, &mut turned);
                        let mut target = Target {
                            out: &mut dx[first + at..],
                            stride: self.inputs,
                            columns,
                            add: start > 0,
                        };
                        multiply(rows, width, &tiles, Panels::of(&turned, width), &mut target);
                    }
                }
            }
        }
    }

    /// Rows are divided among threads: every sum is taken in one order, whatever the number of threads.
    fn rows_of_a_thread(&self, rows: usize) -> usize {
        let threads = rayon::current_num_threads();
        if rows * self.inputs * self.outputs < PARALLEL {
            return rows;
        }
        rows.div_ceil(threads).next_multiple_of(Shape::here().tile)
    }
}

/// A panel of `columns` inputs from `at` on, `width` outputs deep, from panels of outputs.
fn turn_panel(panels: &[f32], depth: usize, at: usize, columns: usize, width: usize, turned: &mut Vec<f32>) {
    let Shape { panel, .. } = Shape::here();
    grow(turned, width.next_multiple_of(panel) * panel);
    let squares = turned.chunks_exact_mut(panel * panel);
    for (source, square) in panels
        .chunks_exact(depth * panel)
        .zip(squares)
        .take(width.div_ceil(panel))
    {
        let inputs = Rows {
            entries: &source[at * panel..],
            stride: panel,
            count: columns,
            columns: panel,
        };
        turn(inputs, square, panel);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ops::tests::entries;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn both_directions_are_sums_of_products(rows in 0_usize..230, inputs in 1_usize..600, outputs in 1_usize..300) {
            let weights = entries(outputs * inputs, 1);
            let packed = PackedMatrix::new(&weights, outputs, inputs);
            let (x, dy) = (entries(rows * inputs, 2), entries(rows * outputs, 3));
            let (y, dx) = (packed.forward(&x), packed.backward(&dy));
            prop_assert_eq!((y.len(), dx.len()), (dy.len(), x.len()));
            // Every entry would take long; a diagonal of them meets every tile, panel and block.
            for row in 0..rows {
                let output = (row * 7) % outputs;
                let expected: f64 = (0..inputs)
                    .map(|k| f64::from(x[row * inputs + k]) * f64::from(weights[output * inputs + k]))
                    .sum();
                prop_assert!((f64::from(y[row * outputs + output]) - expected).abs() < 1e-4);
                let input = (row * 11) % inputs;
                let expected: f64 = (0..outputs)
                    .map(|n| f64::from(dy[row * outputs + n]) * f64::from(weights[n * inputs + input]))
                    .sum();
                prop_assert!((f64::from(dx[row * inputs + input]) - expected).abs() < 1e-4);
            }
        }

        #[test]
        fn a_row_has_the_same_product_alone(rows in 1_usize..20, inputs in 1_usize..400, outputs in 1_usize..40) {
            let packed = PackedMatrix::new(&entries(outputs * inputs, 1), outputs, inputs);
            let x = entries(rows * inputs, 2);
            let together = packed.forward(&x);
            for (row, expected) in x.chunks(inputs).zip(together.chunks(outputs)) {
                prop_assert_eq!(packed.forward(row), expected);
            }
        }
    }
}
