//! The space in which texts are compared: centred, and sharpened by what texts have in common.
//!
//! Words that many texts share (topics, kinds of task) span the directions of large variance; chance overlap
//! spreads thinly over all others. Multiplying every centred embedding by the texts' second-moment matrix
//! once or twice replaces a text by the texts it resembles, which suppresses the chance part. Tasks and
//! memories are centred apart, because they are written in different styles, and sharpened alike.

use std::sync::Arc;

use faer::{Mat, Par, linalg::matmul::matmul};

use crate::Embedding;

/// A unit vector of the space, cheap to clone.
pub(crate) type Point = Arc<[f64]>;

/// Whether a text is a task's or a memory's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Task,
    Memory,
}

/// The map from embeddings to points. Fitted with the hyper-parameters, then frozen with them.
#[derive(Debug, Clone)]
pub(crate) struct Space {
    dimension: usize,
    task_mean: Vec<f64>,
    memory_mean: Vec<f64>,
    /// The sharpening matrix; `None` compares the centred embeddings as they are.
    sharpen: Option<Mat<f64>>,
}

impl Space {
    /// The space before any data: nothing to centre by, nothing to sharpen by.
    pub(crate) fn plain(dimension: usize) -> Self {
        Self {
            dimension,
            task_mean: vec![0.0; dimension],
            memory_mean: vec![0.0; dimension],
            sharpen: None,
        }
    }

    /// Centres by these texts and sharpens `steps` times by their second moments.
    pub(crate) fn fit(dimension: usize, tasks: &[Embedding], memories: &[Embedding], steps: u32) -> Self {
        let task_mean = mean(dimension, tasks);
        let memory_mean = mean(dimension, memories);
        let sharpen = (steps > 0 && tasks.len() + memories.len() > 2).then(|| {
            let rows = tasks.len() + memories.len();
            let texts = Mat::from_fn(rows, dimension, |row, column| {
                if row < tasks.len() {
                    f64::from(tasks[row].values()[column]) - task_mean[column]
                } else {
                    f64::from(memories[row - tasks.len()].values()[column]) - memory_mean[column]
                }
            });
            let mut moments = Mat::zeros(dimension, dimension);
            multiply(&mut moments, texts.transpose(), texts.as_ref());
            let scale = (0..dimension)
                .map(|i| moments[(i, i)])
                .sum::<f64>()
                .max(f64::MIN_POSITIVE);
            let moments = Mat::from_fn(dimension, dimension, |i, j| moments[(i, j)] / scale);
            let mut power = moments.clone();
            for _ in 1..steps {
                let mut next = Mat::zeros(dimension, dimension);
                multiply(&mut next, power.as_ref(), moments.as_ref());
                power = next;
            }
            power
        });
        Self {
            dimension,
            task_mean,
            memory_mean,
            sharpen,
        }
    }

    /// Where the text lies. A text that equals the mean has no direction and lies at the origin.
    pub(crate) fn point(&self, embedding: &Embedding, side: Side) -> Point {
        let mean = match side {
            Side::Task => &self.task_mean,
            Side::Memory => &self.memory_mean,
        };
        let centred: Vec<f64> = embedding
            .values()
            .iter()
            .zip(mean)
            .map(|(&value, mean)| f64::from(value) - mean)
            .collect();
        let mut point = match &self.sharpen {
            None => centred,
            // The matrix is symmetric, so its columns, which are contiguous, serve as rows.
            Some(matrix) => (0..self.dimension)
                .map(|column| matrix.col(column).iter().zip(&centred).map(|(a, b)| a * b).sum())
                .collect(),
        };
        let norm = dot(&point, &point).sqrt();
        let length = if norm > 1e-150 { norm } else { f64::INFINITY };
        for value in &mut point {
            *value /= length;
        }
        point.into()
    }
}

fn mean(dimension: usize, texts: &[Embedding]) -> Vec<f64> {
    let mut mean = vec![0.0; dimension];
    // One text alone would centre itself to nothing.
    if texts.len() < 2 {
        return mean;
    }
    for text in texts {
        for (sum, &value) in mean.iter_mut().zip(text.values()) {
            *sum += f64::from(value);
        }
    }
    for value in &mut mean {
        *value /= texts.len() as f64;
    }
    mean
}

fn multiply(out: &mut Mat<f64>, left: faer::MatRef<'_, f64>, right: faer::MatRef<'_, f64>) {
    matmul(out.as_mut(), faer::Accum::Replace, left, right, 1.0, Par::Seq);
}

/// The inner product, summed in eight lanes: the same on every machine and fast on all.
pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut lanes = [0.0; 8];
    let (a_chunks, a_rest) = a.as_chunks::<8>();
    let (b_chunks, b_rest) = b.as_chunks::<8>();
    for (x, y) in a_chunks.iter().zip(b_chunks) {
        for lane in 0..8 {
            lanes[lane] += x[lane] * y[lane];
        }
    }
    let rest: f64 = a_rest.iter().zip(b_rest).map(|(x, y)| x * y).sum();
    lanes.iter().sum::<f64>() + rest
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    /// Texts of two kinds: a shared direction and much chance.
    fn texts(count: usize, seed: u64) -> Vec<Embedding> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        (0..count)
            .map(|i| {
                let mut values: Vec<f32> = (0..64).map(|_| rng.random_range(-1.0..1.0)).collect();
                values[i % 2] += 2.5;
                Embedding::new(&values).unwrap()
            })
            .collect()
    }

    fn contrast(space: &Space, tasks: &[Embedding]) -> f64 {
        let points: Vec<Point> = tasks.iter().map(|text| space.point(text, Side::Task)).collect();
        let (mut same, mut other, mut pairs) = (0.0, 0.0, 0.0);
        for i in 0..points.len() {
            for j in (0..i).step_by(2) {
                let [near, far] = if i % 2 == 0 { [j, j + 1] } else { [j + 1, j] };
                if near < i && far < i {
                    same += dot(&points[i], &points[near]);
                    other += dot(&points[i], &points[far]);
                    pairs += 1.0;
                }
            }
        }
        (same - other) / pairs
    }

    #[test]
    fn sharpening_separates_kinds_of_text() {
        let tasks = texts(60, 1);
        let memories = texts(60, 2);
        let plain = contrast(&Space::fit(64, &tasks, &memories, 0), &tasks);
        let sharp = contrast(&Space::fit(64, &tasks, &memories, 1), &tasks);
        assert!(sharp > 1.5 * plain, "{sharp} is not well above {plain}");
    }

    #[test]
    fn points_have_length_one_and_the_mean_lies_at_the_origin() {
        let tasks = texts(10, 3);
        let space = Space::fit(64, &tasks, &[], 2);
        let point = space.point(&tasks[0], Side::Task);
        assert!((dot(&point, &point) - 1.0).abs() < 1e-12);
        let twins = [tasks[0].clone(), tasks[0].clone()];
        let space = Space::fit(64, &twins, &[], 1);
        let origin = space.point(&tasks[0], Side::Task);
        assert!(dot(&origin, &origin).abs() < 1e-12);
    }
}
