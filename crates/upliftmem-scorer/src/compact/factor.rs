//! A Cholesky factor that grows row by row and is shared between versions.
//!
//! Rows are kept in blocks behind shared pointers: a reader's version keeps its blocks, and the learner copies
//! only the last one when a row is appended.

use std::sync::Arc;

use faer::{
    Accum, MatMut, MatRef, Par,
    linalg::{matmul::matmul, triangular_solve as triangular},
    reborrow::{Reborrow, ReborrowMut},
};

use super::space::dot;

/// Rows a block.
const BLOCK: usize = 64;

/// The lower-triangular L of a positive definite matrix L L'.
#[derive(Debug, Clone, Default)]
pub(crate) struct Factor {
    blocks: Vec<Arc<Block>>,
    len: usize,
}

/// Up to [`BLOCK`] rows, one after the other; each has room for all columns up to the block's end.
#[derive(Debug, Clone)]
struct Block {
    start: usize,
    cells: Vec<f64>,
}

impl Block {
    fn stride(&self) -> usize {
        self.start + BLOCK
    }

    fn rows(&self) -> usize {
        self.cells.len() / self.stride()
    }

    fn row(&self, offset: usize) -> &[f64] {
        let at = offset * self.stride();
        &self.cells[at..=at + self.start + offset]
    }

    fn view(&self) -> MatRef<'_, f64> {
        MatRef::from_row_major_slice(&self.cells, self.rows(), self.stride())
    }
}

impl Factor {
    /// The factor of a symmetric matrix given by its lower triangle, column by column; `None` if it is not
    /// positive definite.
    pub(crate) fn of(cells: &[f64], len: usize) -> Option<Self> {
        if len == 0 {
            return Some(Self::default());
        }
        let solver = faer::linalg::solvers::Llt::new(
            MatRef::from_column_major_slice(cells, len, len),
            faer::Side::Lower,
        )
        .ok()?;
        let lower = solver.L();
        let mut factor = Self::default();
        let mut row = vec![0.0; len];
        for i in 0..len {
            for (j, cell) in row[..=i].iter_mut().enumerate() {
                *cell = lower[(i, j)];
            }
            factor.push(&row[..=i]);
        }
        Some(factor)
    }

    fn push(&mut self, row: &[f64]) {
        debug_assert_eq!(row.len(), self.len + 1);
        if self.len.is_multiple_of(BLOCK) {
            self.blocks.push(Arc::new(Block {
                start: self.len,
                cells: Vec::new(),
            }));
        }
        if let Some(block) = self.blocks.last_mut() {
            let block = Arc::make_mut(block);
            block.cells.extend_from_slice(row);
            let padded = block.cells.len().next_multiple_of(block.stride());
            block.cells.resize(padded, 0.0);
        }
        self.len += 1;
    }

    /// Grows the factored matrix by one row and column: `cross` with the old ones, `own` on the diagonal.
    /// Returns the new row of L, or `None` if the grown matrix is not positive definite.
    pub(crate) fn append(&mut self, mut cross: Vec<f64>, own: f64) -> Option<Vec<f64>> {
        self.forward(&mut cross);
        let rest = own - dot(&cross, &cross);
        if rest.is_nan() || rest <= 1e-12 * own {
            return None;
        }
        cross.push(rest.sqrt());
        self.push(&cross);
        Some(cross)
    }

    /// Solves L x = b in place.
    pub(crate) fn forward(&self, b: &mut [f64]) {
        for block in &self.blocks {
            for offset in 0..block.rows() {
                let row = block.row(offset);
                let i = row.len() - 1;
                b[i] = (b[i] - dot(&row[..i], &b[..i])) / row[i];
            }
        }
    }

    /// Solves L' x = b in place.
    pub(crate) fn backward(&self, b: &mut [f64]) {
        for block in self.blocks.iter().rev() {
            for offset in (0..block.rows()).rev() {
                let row = block.row(offset);
                let i = row.len() - 1;
                let x = b[i] / row[i];
                b[i] = x;
                for (target, cell) in b[..i].iter_mut().zip(row) {
                    *target -= cell * x;
                }
            }
        }
    }

    /// The largest number of rows up to `rows` that is one of whole blocks.
    pub(crate) fn whole_blocks(rows: usize) -> usize {
        rows / BLOCK * BLOCK
    }

    /// Solves L X = B in place for many right-hand sides whose first rows, `zeros` in whole blocks, are zero and not given.
    pub(crate) fn forward_many(&self, mut b: MatMut<'_, f64>, zeros: usize) {
        for block in &self.blocks[zeros / BLOCK..] {
            let rows = block.rows();
            let view = block.view();
            let (done, rest) = b.rb_mut().split_at_row_mut(block.start - zeros);
            let mut own = rest.subrows_mut(0, rows);
            matmul(
                own.rb_mut(),
                Accum::Add,
                view.subcols(zeros, block.start - zeros),
                done.rb(),
                -1.0,
                Par::Seq,
            );
            triangular::solve_lower_triangular_in_place(view.subcols(block.start, rows), own, Par::Seq);
        }
    }

    /// Adds x x' to the factored matrix.
    pub(crate) fn add_outer(&mut self, mut x: Vec<f64>) {
        let mut rotations: Vec<(f64, f64)> = Vec::with_capacity(self.len);
        for block in &mut self.blocks {
            let block = Arc::make_mut(block);
            let (start, stride, rows) = (block.start, block.stride(), block.rows());
            for offset in 0..rows {
                let i = start + offset;
                let row = &mut block.cells[offset * stride..offset * stride + i + 1];
                let mut rest = x[i];
                for (cell, &(cosine, sine)) in row.iter_mut().zip(&rotations) {
                    let old = *cell;
                    *cell = cosine * old + sine * rest;
                    rest = cosine * rest - sine * old;
                }
                let length = row[i].hypot(rest);
                rotations.push((row[i] / length, rest / length));
                row[i] = length;
                x[i] = rest;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use faer::Mat;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    fn matrix(len: usize, seed: u64) -> Mat<f64> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let half = Mat::from_fn(len, len, |_, _| rng.random_range(-1.0..1.0));
        let mut full = &half * half.transpose();
        for i in 0..len {
            full[(i, i)] += 1.0;
        }
        full
    }

    fn cells(matrix: &Mat<f64>) -> Vec<f64> {
        let len = matrix.nrows();
        (0..len * len).map(|at| matrix[(at % len, at / len)]).collect()
    }

    fn product(factor: &Factor, i: usize, j: usize) -> f64 {
        let row = |i: usize| factor.blocks[i / BLOCK].row(i % BLOCK).to_vec();
        row(i).iter().zip(row(j)).map(|(a, b)| a * b).sum()
    }

    #[test]
    fn rows_appended_one_by_one_equal_the_factor_of_the_whole() {
        let whole = matrix(150, 1);
        let direct = Factor::of(&cells(&whole), 150).unwrap();
        let mut grown = Factor::default();
        for i in 0..150 {
            let cross = (0..i).map(|j| whole[(i, j)]).collect();
            grown.append(cross, whole[(i, i)]).unwrap();
        }
        for i in 0..150 {
            for j in 0..=i {
                assert!((product(&direct, i, j) - whole[(i, j)]).abs() < 1e-10);
                assert!((product(&grown, i, j) - whole[(i, j)]).abs() < 1e-10);
            }
        }
    }

    #[test]
    fn solves_invert_the_matrix() {
        let whole = matrix(130, 2);
        let factor = Factor::of(&cells(&whole), 130).unwrap();
        let truth: Vec<f64> = (0..130).map(|i| f64::from(i % 7) - 3.0).collect();
        let mut b: Vec<f64> = (0..130)
            .map(|i| (0..130).map(|j| whole[(i, j)] * truth[j]).sum())
            .collect();
        let mut many = Mat::from_fn(130, 3, |i, _| b[i]);
        factor.forward(&mut b);
        factor.forward_many(many.as_mut(), 0);
        let mut late = Mat::from_fn(66, 2, |i, j| (i + j) as f64);
        let mut padded = Mat::from_fn(130, 2, |i, j| if i < 64 { 0.0 } else { late[(i - 64, j)] });
        factor.forward_many(padded.as_mut(), 0);
        factor.forward_many(late.as_mut(), 64);
        for i in 0..130 {
            let expected = if i < 64 { 0.0 } else { late[(i - 64, 1)] };
            assert!((padded[(i, 1)] - expected).abs() < 1e-9);
        }
        for i in 0..130 {
            assert!((many[(i, 2)] - b[i]).abs() < 1e-9);
        }
        factor.backward(&mut b);
        for (x, y) in b.iter().zip(&truth) {
            assert!((x - y).abs() < 1e-8);
        }
    }

    #[test]
    fn an_outer_product_is_added() {
        let whole = matrix(90, 3);
        let mut factor = Factor::of(&cells(&whole), 90).unwrap();
        let kept = factor.clone();
        let x: Vec<f64> = (0..90).map(|i| f64::from(i).sin()).collect();
        factor.add_outer(x.clone());
        for i in 0..90 {
            for j in 0..=i {
                assert!((product(&factor, i, j) - whole[(i, j)] - x[i] * x[j]).abs() < 1e-10);
                assert!((product(&kept, i, j) - whole[(i, j)]).abs() < 1e-10);
            }
        }
    }

    #[test]
    fn a_matrix_that_is_not_positive_is_refused() {
        assert!(Factor::of(&[1.0, 2.0, 2.0, 1.0], 2).is_none());
        let mut factor = Factor::of(&[1.0], 1).unwrap();
        assert!(factor.append(vec![1.0], 1.0).is_none());
        assert_eq!(factor.len, 1);
    }
}
