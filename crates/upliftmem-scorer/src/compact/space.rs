//! The space in which texts are compared: what tasks and memories both speak of, by the kinds of task there are.
//!
//! Two tasks of the same kind share a few words that matter and differ in many that do not. Two steps bring out what
//! matters, and neither needs an outcome:
//!
//! * Shared directions. What only tasks say (forms of request, circumstances) can not tell which memory applies, and
//!   what only memories say can not either. With T and M the second moments of tasks and memories, the parallel sum
//!   P = T - T (T + M)^-1 T is large only where both vary, and texts are compared by x' P (P + r)^-1 y.
//! * Placing. One step of mean shift moves a text to the weighted mean of the known tasks around it: what tasks of one
//!   kind have in common stays, what the text says by the way averages out. Memories are placed among the tasks too, so
//!   that the similarity of a task and a memory says whether the memory speaks of such tasks.
//!
//! How sharply the nearest tasks count is chosen by marginal likelihood.

use std::sync::Arc;

use faer::{
    Mat, MatRef, Side as Triangle,
    linalg::solvers::{DenseSolveCore, Llt},
};

use pulp::Simd;

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
const LANDMARKS_MAX: usize = 400;
/// Texts of either side that second moments are taken of, and the fewest that have any to speak of.
const MOMENT_TEXTS_MAX: usize = 1_000;
const MOMENT_TEXTS_MIN: usize = 8;
/// Shared variance that counts half, in units of the mean variance of an entry.
const HALF_SHARED: f64 = 0.1;

/// How texts are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sharpening {
    /// Embeddings as they are, centred.
    Plain,
    /// By shared directions alone.
    Shared,
    /// Placed among tasks, whose kinds are wide.
    Wide,
    /// Placed among tasks, whose kinds are narrow.
    Narrow,
}

impl Sharpening {
    /// All of them, plainest first.
    pub const ALL: [Self; 4] = [Self::Plain, Self::Shared, Self::Wide, Self::Narrow];

    /// Similarity that makes a known task count e times more.
    const fn temperature(self) -> Option<f64> {
        match self {
            Self::Plain | Self::Shared => None,
            Self::Wide => Some(0.3),
            Self::Narrow => Some(0.15),
        }
    }
}

/// The map from embeddings to points. Fitted with the hyper-parameters, then frozen with them.
#[derive(Debug, Clone)]
pub(crate) struct Space {
    task_mean: Vec<f64>,
    memory_mean: Vec<f64>,
    /// The map to shared directions, lower triangular; `None` compares all directions alike.
    shared: Option<Arc<Mat<f64>>>,
    landmarks: Option<Landmarks>,
}

/// Known tasks that texts are placed among.
#[derive(Debug, Clone)]
struct Landmarks {
    /// Similarity that makes a task count e times more.
    temperature: f64,
    tasks: Vec<Point>,
    /// The same numbers, an entry of all tasks a column.
    entries: Mat<f64>,
}

impl Space {
    /// The space before any data: nothing to centre by, nothing to place by.
    pub(crate) fn plain(dimension: usize) -> Self {
        Self {
            task_mean: vec![0.0; dimension],
            memory_mean: vec![0.0; dimension],
            shared: None,
            landmarks: None,
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
            shared: None,
            landmarks: None,
        };
        if sharpening != Sharpening::Plain {
            space.shared = space.shared_directions(tasks, memories).map(Arc::new);
        }
        space.with_landmarks(tasks, sharpening)
    }

    /// The same directions, and texts placed by these tasks.
    pub(crate) fn with_landmarks(&self, tasks: &[Embedding], sharpening: Sharpening) -> Self {
        let mut space = Self {
            landmarks: None,
            ..self.clone()
        };
        if let Some(temperature) = sharpening.temperature().filter(|_| !tasks.is_empty()) {
            let stride = tasks.len().div_ceil(LANDMARKS_MAX).max(1);
            let texts: Vec<&Embedding> = tasks.iter().step_by(stride).collect();
            let tasks = space.centred(&texts, Side::Task);
            space.landmarks = Some(Landmarks {
                temperature,
                entries: Mat::from_fn(tasks.len(), tasks[0].len(), |task, entry| tasks[task][entry]),
                tasks,
            });
        }
        space
    }

    /// The centred embeddings at length one, by shared directions. A text that equals the mean has no direction and
    /// lies at the origin.
    pub(crate) fn centred(&self, texts: &[&Embedding], side: Side) -> Vec<Point> {
        let mean = match side {
            Side::Task => &self.task_mean,
            Side::Memory => &self.memory_mean,
        };
        let centred: Vec<Point> = texts
            .iter()
            .map(|text| {
                let values = text.values().iter().zip(mean);
                unit(values.map(|(&value, mean)| f64::from(value) - mean).collect())
            })
            .collect();
        match &self.shared {
            None => centred,
            Some(map) => units(products(&centred, lower(map))),
        }
    }

    /// A root of P (P + r)^-1, a direction a column; `None` for too few texts, or texts that share nothing.
    fn shared_directions(&self, tasks: &[Embedding], memories: &[Embedding]) -> Option<Mat<f64>> {
        if tasks.len().min(memories.len()) < MOMENT_TEXTS_MIN {
            return None;
        }
        let dimension = self.task_mean.len();
        let moment = |texts: &[Embedding], side: Side| -> Mat<f64> {
            let stride = texts.len().div_ceil(MOMENT_TEXTS_MAX).max(1);
            let texts: Vec<&Embedding> = texts.iter().step_by(stride).collect();
            let points = self.centred(&texts, side);
            let cells: Vec<f64> = points.iter().flat_map(|point| point.iter().copied()).collect();
            let matrix = MatRef::from_column_major_slice(&cells, dimension, points.len());
            matrix * matrix.transpose() * faer::Scale(1.0 / points.len() as f64)
        };
        let of_tasks = moment(tasks, Side::Task);
        let mut both = &of_tasks + moment(memories, Side::Memory);
        // Directions that no text has would make the sum singular.
        for i in 0..dimension {
            both[(i, i)] += 1e-3 / dimension as f64;
        }
        let both = Llt::new(both.as_ref(), Triangle::Lower).ok()?;
        let mut parallel = &of_tasks - &of_tasks * both.inverse() * &of_tasks;
        let half = HALF_SHARED / dimension as f64;
        for i in 0..dimension {
            parallel[(i, i)] += half;
        }
        // P (P + r)^-1 = 1 - r (P + r)^-1, and a little more on the diagonal where rounding makes it negative.
        let inverse = Llt::new(parallel.as_ref(), Triangle::Lower).ok()?.inverse();
        let metric = Mat::from_fn(dimension, dimension, |i, j| {
            let same = if i == j { 1.0 + 1e-6 } else { 0.0 };
            same - half * 0.5 * (inverse[(i, j)] + inverse[(j, i)])
        });
        let root = Llt::new(metric.as_ref(), Triangle::Lower).ok()?;
        Some(root.L().to_owned())
    }

    /// Where centred texts lie among the tasks.
    pub(crate) fn place(&self, centred: &[Point]) -> Vec<Point> {
        let Some(landmarks) = &self.landmarks else {
            return centred.to_vec();
        };
        let mut weights = products(centred, landmarks.tasks.iter().map(AsRef::as_ref));
        for weight in weights.iter_mut().flatten() {
            // Shifted by one, the largest similarity, so that nothing overflows.
            *weight = ((*weight - 1.0) / landmarks.temperature).exp();
        }
        units(products(&weights, columns(&landmarks.entries)))
    }
}

fn columns(matrix: &Mat<f64>) -> impl Iterator<Item = &[f64]> {
    (0..matrix.ncols()).map(|column| matrix.col_as_slice(column))
}

/// The columns of a lower triangular matrix without most of their zeros.
fn lower(matrix: &Mat<f64>) -> impl Iterator<Item = &[f64]> {
    columns(matrix)
        .enumerate()
        .map(|(at, column)| &column[at / LANES * LANES..])
}

fn units(vectors: Vec<Vec<f64>>) -> Vec<Point> {
    vectors.into_iter().map(unit).collect()
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

/// Texts whose inner products with a row are formed together.
const TOGETHER: usize = 4;
/// Rows that all texts meet before the next rows: all of them do not stay near the processor, these do.
const ROWS_AT_HAND: usize = 32;
/// Sums that an inner product is made of.
const LANES: usize = 8;

/// The inner products of each text with each row, the same as [`dot`] gives, bit for bit. A row that is shorter than a
/// text, by a multiple of the lanes, is taken to begin with zeros.
pub(crate) fn products<'r>(
    texts: &[impl AsRef<[f64]>],
    rows: impl Iterator<Item = &'r [f64]>,
) -> Vec<Vec<f64>> {
    let rows: Vec<&[f64]> = rows.collect();
    let texts: Vec<&[f64]> = texts.iter().map(AsRef::as_ref).collect();
    let mut all = vec![Vec::with_capacity(rows.len()); texts.len()];
    for rows in rows.chunks(ROWS_AT_HAND) {
        let (together, rest) = texts.as_chunks::<TOGETHER>();
        let (of_together, of_rest) = all.as_chunks_mut::<TOGETHER>();
        for (texts, products) in together.iter().zip(of_together) {
            for row in rows {
                let ends = texts.map(|text| &text[text.len() - row.len()..]);
                for (products, product) in products.iter_mut().zip(dots(ends, row)) {
                    products.push(product);
                }
            }
        }
        for (text, products) in rest.iter().zip(of_rest) {
            products.extend(rows.iter().map(|row| dot(&text[text.len() - row.len()..], row)));
        }
    }
    all
}

/// The inner product, summed in eight lanes with every product rounded: the same on every machine and fast on all.
#[pulp::with_simd(dot = pulp::Arch::new())]
#[inline(always)]
pub(crate) fn dot_simd<'a, S: Simd>(simd: S, a: &'a [f64], b: &'a [f64]) -> f64 {
    let [sum] = lanes(simd, [a], b);
    sum
}

/// The inner products of some texts with a row.
#[pulp::with_simd(dots = pulp::Arch::new())]
#[inline(always)]
fn dots_simd<'a, S: Simd>(simd: S, texts: [&'a [f64]; TOGETHER], row: &'a [f64]) -> [f64; TOGETHER] {
    lanes(simd, texts, row)
}

#[inline(always)]
fn lanes<S: Simd, const TEXTS: usize>(simd: S, texts: [&[f64]; TEXTS], row: &[f64]) -> [f64; TEXTS] {
    // The lanes of a processor's register are no more than these.
    let registers = LANES / S::F64_LANES;
    let mut sums = [[simd.splat_f64s(0.0); LANES]; TEXTS];
    let (row_chunks, row_rest) = row.as_chunks::<LANES>();
    let parts = texts.map(|text| text[..row.len()].as_chunks::<LANES>());
    for (at, y) in row_chunks.iter().enumerate() {
        let (y, _) = S::as_simd_f64s(y);
        for (sums, (chunks, _)) in sums.iter_mut().zip(parts) {
            let (x, _) = S::as_simd_f64s(&chunks[at]);
            for register in 0..registers {
                sums[register] = simd.add_f64s(sums[register], simd.mul_f64s(x[register], y[register]));
            }
        }
    }
    std::array::from_fn(|text| {
        let mut lanes = [0.0; LANES];
        S::as_mut_simd_f64s(&mut lanes)
            .0
            .copy_from_slice(&sums[text][..registers]);
        let rest: f64 = parts[text].1.iter().zip(row_rest).map(|(x, y)| x * y).sum();
        lanes.iter().sum::<f64>() + rest
    })
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
        let texts: Vec<&Embedding> = tasks.iter().collect();
        let points = space.place(&space.centred(&texts, Side::Task));
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
        let placed = contrast(&Space::fit(64, &known, &[], Sharpening::Narrow), &new);
        assert!(placed > 1.3 * plain, "{placed} is not well above {plain}");
    }

    /// Texts of four kinds in one of six forms, which only one side uses.
    fn formed(count: usize, forms: usize, seed: u64) -> Vec<Embedding> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        (0..count)
            .map(|i| {
                let mut values: Vec<f32> = (0..64).map(|_| rng.random_range(-0.5..0.5)).collect();
                values[i % 4] += 3.0;
                values[forms + rng.random_range(0..6)] += 4.0;
                Embedding::new(&values).unwrap()
            })
            .collect()
    }

    #[test]
    fn what_only_one_side_says_counts_little() {
        let (tasks, memories, new) = (formed(120, 10, 4), formed(120, 20, 5), formed(40, 10, 6));
        let by = |sharpening| contrast(&Space::fit(64, &tasks, &memories, sharpening), &new);
        let (plain, shared) = (by(Sharpening::Plain), by(Sharpening::Shared));
        assert!(shared > 1.3 * plain, "{shared} is not well above {plain}");
        let few = contrast(&Space::fit(64, &tasks, &memories[..4], Sharpening::Shared), &new);
        assert!(
            (few - plain).abs() < 0.1,
            "four memories share nothing yet: {few}, {plain}"
        );
    }

    #[test]
    fn points_have_length_one_and_the_mean_lies_at_the_origin() {
        let tasks = texts(10, 3);
        for sharpening in Sharpening::ALL {
            let space = Space::fit(64, &tasks, &tasks, sharpening);
            let point = &space.place(&space.centred(&[&tasks[0]], Side::Memory))[0];
            assert!((dot(point, point) - 1.0).abs() < 1e-12);
        }
        let twins = [tasks[0].clone(), tasks[0].clone(), tasks[0].clone()];
        let origin = &Space::fit(64, &twins, &twins, Sharpening::Wide).centred(&[&tasks[0]], Side::Task)[0];
        assert!(dot(origin, origin).abs() < 1e-12);
    }

    #[test]
    fn a_text_lies_at_the_same_place_whatever_is_placed_beside_it() {
        let (tasks, new) = (texts(30, 7), texts(11, 8));
        let new: Vec<&Embedding> = new.iter().collect();
        for sharpening in Sharpening::ALL {
            let space = Space::fit(64, &tasks, &tasks, sharpening);
            let together = space.place(&space.centred(&new, Side::Memory));
            for (text, point) in new.iter().zip(together) {
                let alone = space.place(&space.centred(&[text], Side::Memory));
                assert_eq!(alone[0], point, "{sharpening:?}");
            }
        }
    }
}
