//! The space in which texts are compared: every text is placed where the known tasks it resembles lie.
//!
//! Two tasks of the same kind share a few words that matter and differ in many that do not, so their embeddings
//! are only half similar. One step of mean shift moves a text to the weighted mean of the known tasks around it:
//! what tasks of one kind have in common stays, what the text says by the way averages out. A known task is its own
//! nearest neighbour and hardly moves; a new task moves to its kind. Memories are placed among the tasks too, so
//! that the similarity of a task and a memory says whether the memory speaks of such tasks. How sharply the nearest
//! tasks count is chosen by marginal likelihood.

use std::sync::Arc;

use crate::Embedding;

/// A unit vector of the space, cheap to clone.
pub(crate) type Point = Arc<[f64]>;

/// Whether a text is a task's or a memory's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Task,
    Memory,
}

/// Known tasks that texts are placed among: evenly spaced ones, if there are more.
const LANDMARKS_MAX: usize = 1_000;

/// How texts are placed among the known tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sharpening {
    /// Embeddings are compared as they are, centred.
    Plain,
    /// Kinds of task are wide.
    Wide,
    /// Kinds of task are of middling width.
    Middling,
    /// Kinds of task are narrow.
    Narrow,
}

impl Sharpening {
    /// All of them, plainest first.
    pub const ALL: [Self; 4] = [Self::Plain, Self::Wide, Self::Middling, Self::Narrow];

    /// Similarity that makes a known task count e times more.
    const fn temperature(self) -> Option<f64> {
        match self {
            Self::Plain => None,
            Self::Wide => Some(0.16),
            Self::Middling => Some(0.08),
            Self::Narrow => Some(0.04),
        }
    }
}

/// The map from embeddings to points. Fitted with the hyper-parameters, then frozen with them.
#[derive(Debug, Clone)]
pub(crate) struct Space {
    task_mean: Vec<f64>,
    memory_mean: Vec<f64>,
    temperature: Option<f64>,
    landmarks: Vec<Point>,
}

impl Space {
    /// The space before any data: nothing to centre by, nothing to place by.
    pub(crate) fn plain(dimension: usize) -> Self {
        Self {
            task_mean: vec![0.0; dimension],
            memory_mean: vec![0.0; dimension],
            temperature: None,
            landmarks: Vec::new(),
        }
    }

    /// Centres by these texts and places by these tasks.
    pub(crate) fn fit(
        dimension: usize,
        tasks: &[Embedding],
        memories: &[Embedding],
        sharpening: Sharpening,
    ) -> Self {
        let mut space = Self {
            task_mean: mean(dimension, tasks),
            memory_mean: mean(dimension, memories),
            temperature: sharpening.temperature(),
            landmarks: Vec::new(),
        };
        if space.temperature.is_some() {
            let stride = tasks.len().div_ceil(LANDMARKS_MAX).max(1);
            space.landmarks = tasks
                .iter()
                .step_by(stride)
                .map(|task| space.centred(task, Side::Task))
                .collect();
        }
        space
    }

    /// The centred embedding at length one. A text that equals the mean has no direction and lies at the origin.
    pub(crate) fn centred(&self, embedding: &Embedding, side: Side) -> Point {
        let mean = match side {
            Side::Task => &self.task_mean,
            Side::Memory => &self.memory_mean,
        };
        let values = embedding.values().iter().zip(mean);
        unit(values.map(|(&value, mean)| f64::from(value) - mean).collect())
    }

    /// Where a centred text lies among the tasks.
    pub(crate) fn place(&self, centred: &Point) -> Point {
        let Some(temperature) = self.temperature.filter(|_| !self.landmarks.is_empty()) else {
            return Arc::clone(centred);
        };
        let mut sum = vec![0.0; centred.len()];
        for landmark in &self.landmarks {
            // Shifted by one, the largest similarity, so that nothing overflows.
            let weight = ((dot(centred, landmark) - 1.0) / temperature).exp();
            for (total, value) in sum.iter_mut().zip(landmark.iter()) {
                *total += weight * value;
            }
        }
        unit(sum)
    }
}

fn unit(mut values: Vec<f64>) -> Point {
    let norm = dot(&values, &values).sqrt();
    let length = if norm > 1e-150 { norm } else { f64::INFINITY };
    for value in &mut values {
        *value /= length;
    }
    values.into()
}

fn mean(dimension: usize, texts: &[Embedding]) -> Vec<f64> {
    let mut mean = vec![0.0; dimension];
    // Few texts would centre themselves to nothing.
    if texts.len() < 3 {
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

    /// Texts of four kinds: a shared direction and much chance.
    fn texts(count: usize, seed: u64) -> Vec<Embedding> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        (0..count)
            .map(|i| {
                let mut values: Vec<f32> = (0..64).map(|_| rng.random_range(-1.0..1.0)).collect();
                values[i % 4] += 4.0;
                Embedding::new(&values).unwrap()
            })
            .collect()
    }

    /// Mean similarity within kinds minus that between kinds.
    fn contrast(space: &Space, tasks: &[Embedding]) -> f64 {
        let points: Vec<Point> = tasks
            .iter()
            .map(|text| space.place(&space.centred(text, Side::Task)))
            .collect();
        let (mut sums, mut counts) = ([0.0; 2], [0.0; 2]);
        for i in 0..points.len() {
            for j in 0..i {
                let other = usize::from(i % 4 != j % 4);
                sums[other] += dot(&points[i], &points[j]);
                counts[other] += 1.0;
            }
        }
        sums[0] / counts[0] - sums[1] / counts[1]
    }

    #[test]
    fn placing_separates_kinds_of_new_tasks() {
        let known = texts(80, 1);
        let new = texts(40, 2);
        let plain = contrast(&Space::fit(64, &known, &[], Sharpening::Plain), &new);
        let placed = contrast(&Space::fit(64, &known, &[], Sharpening::Middling), &new);
        assert!(placed > 1.3 * plain, "{placed} is not well above {plain}");
    }

    #[test]
    fn points_have_length_one_and_the_mean_lies_at_the_origin() {
        let tasks = texts(10, 3);
        for sharpening in Sharpening::ALL {
            let space = Space::fit(64, &tasks, &tasks, sharpening);
            let point = space.place(&space.centred(&tasks[0], Side::Memory));
            assert!((dot(&point, &point) - 1.0).abs() < 1e-12);
        }
        let twins = [tasks[0].clone(), tasks[0].clone(), tasks[0].clone()];
        let origin = Space::fit(64, &twins, &twins, Sharpening::Wide).centred(&tasks[0], Side::Task);
        assert!(dot(&origin, &origin).abs() < 1e-12);
    }
}
