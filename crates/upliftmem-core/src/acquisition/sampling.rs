//! Comparisons from all over the window, loosest lines first, copied next to each other.
//!
//! Covariances of their margins with the labels of many probes are one product of matrices. It is computed in single
//! precision; a line is then taken at the least, and the true gain at the most, that the covariance can be.

use std::{collections::BTreeMap, ops::Range};

use faer::{Accum, MatMut, MatRef, Par, linalg::matmul::matmul};
use rayon::prelude::*;

use super::{
    bound::{Bound, single_rounding},
    kernel::{inner_product, padded, sample_slack},
    problem::Problem,
    state::State,
};

/// Probes whose covariances with a sample are computed in one multiplication.
const TILE: usize = 128;
/// Entries of a vector of length one that are too small to count: their products would leave the range in which
/// single precision is fast.
const TINY: f64 = 1e-18;

/// What samples are taken of.
type Scene<'s> = (&'s Problem<'s>, &'s State, &'s Bound);

/// The loosest comparisons, and what has been computed of them and of probes so far.
#[derive(Default)]
pub(crate) struct Samples {
    loosest: Vec<u32>,
    /// By where they start among the loosest.
    gathered: BTreeMap<usize, Sample>,
    directions: Directions,
}

/// Some comparisons with their upper lines; padded like a block.
pub(crate) struct Sample {
    /// Feature contrasts, each of length one.
    contrasts: Vec<f32>,
    pub(crate) tasks: Vec<u32>,
    /// Squared lengths of the contrasts.
    pub(crate) squares: Vec<f64>,
    pub(crate) margins: Vec<f64>,
    pub(crate) resolved: Vec<f64>,
    pub(crate) values: Vec<f64>,
    pub(crate) slopes: Vec<f64>,
    pub(crate) intercepts: Vec<f64>,
}

/// Covariances of the latent vector with the labels of probes, each of length one.
#[derive(Default)]
struct Directions {
    /// Where each probe's is, if it has been computed.
    places: BTreeMap<usize, usize>,
    units: Vec<f32>,
    /// Squared length times the inverse variance of the label.
    scales: Vec<f64>,
}

impl Samples {
    pub(crate) fn new(loosest: Vec<u32>) -> Self {
        Self {
            loosest,
            ..Self::default()
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.loosest.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.loosest.len()
    }

    /// By how much at least the lines of a range of the loosest comparisons exceed the true gains, for each probe.
    pub(crate) fn slacks(&mut self, scene: Scene<'_>, range: Range<usize>, probes: &[usize]) -> Vec<f64> {
        let (problem, state, _) = scene;
        self.directions.add(problem, state, probes);
        let sample = self
            .gathered
            .entry(range.start)
            .or_insert_with(|| Sample::gather(scene, &self.loosest[range]));
        let directions = &self.directions;
        probes
            .par_chunks(TILE)
            .flat_map_iter(|probes| sample.slacks(problem, directions, probes))
            .collect()
    }
}

impl Sample {
    fn gather((problem, state, bound): Scene<'_>, comparisons: &[u32]) -> Self {
        let width = problem.belief.width();
        let length = padded(comparisons.len());
        let mut contrasts = vec![0.0_f32; length * width];
        let mut tasks = vec![0; length];
        contrasts
            .par_chunks_exact_mut(width)
            .zip(&mut tasks)
            .zip(comparisons)
            .with_min_len(64)
            .for_each_init(
                || Vec::with_capacity(width),
                |contrast, ((unit, task), &at)| {
                    let at = at as usize;
                    *task = problem.blocks.partition_point(|block| block.end <= at) as u32;
                    contrast.clear();
                    problem.push_contrast(*task as usize, at, 1.0, contrast);
                    to_unit(contrast, problem.prior_variance[at], unit);
                },
            );
        let column = |of: &[f64]| {
            let mut column: Vec<f64> = comparisons.iter().map(|&at| of[at as usize]).collect();
            column.resize(length, 0.0);
            column
        };
        Self {
            contrasts,
            tasks,
            squares: column(&problem.prior_variance),
            margins: column(&problem.margins),
            resolved: column(&state.resolved),
            values: column(&state.values),
            slopes: column(&bound.slopes),
            intercepts: column(&bound.intercepts),
        }
    }

    fn slacks(&self, problem: &Problem<'_>, directions: &Directions, probes: &[usize]) -> Vec<f64> {
        let (width, length) = (problem.belief.width(), self.margins.len());
        let places: Vec<usize> = probes.iter().map(|probe| directions.places[probe]).collect();
        let mut units = Vec::with_capacity(probes.len() * width);
        for &place in &places {
            units.extend_from_slice(&directions.units[place * width..(place + 1) * width]);
        }
        let mut cosines = vec![0.0_f32; probes.len() * length];
        matmul(
            MatMut::from_column_major_slice_mut(&mut cosines, length, probes.len()),
            Accum::Replace,
            MatRef::from_column_major_slice(&self.contrasts, width, length).transpose(),
            MatRef::from_column_major_slice(&units, width, probes.len()),
            1.0,
            Par::Seq,
        );
        let off = single_rounding(width);
        probes
            .iter()
            .zip(places)
            .zip(cosines.chunks_exact(length))
            .map(|((&probe, place), cosines)| {
                sample_slack(
                    self,
                    cosines,
                    off,
                    directions.scales[place],
                    problem.task_of[probe],
                )
            })
            .collect()
    }
}

impl Directions {
    /// Computes those that are missing.
    fn add(&mut self, problem: &Problem<'_>, state: &State, probes: &[usize]) {
        let width = problem.belief.width();
        let missing: Vec<usize> = probes
            .iter()
            .copied()
            .filter(|probe| !self.places.contains_key(probe))
            .collect();
        let first = self.scales.len();
        self.places
            .extend(missing.iter().enumerate().map(|(at, &probe)| (probe, first + at)));
        self.units.resize((first + missing.len()) * width, 0.0);
        self.scales.resize(first + missing.len(), 0.0);
        self.units[first * width..]
            .par_chunks_mut(TILE * width)
            .zip(self.scales[first..].par_chunks_mut(TILE))
            .zip(missing.par_chunks(TILE))
            .for_each(|((units, scales), probes)| {
                let covariances = state.label_covariances(problem, probes);
                let columns = covariances.chunks_exact(width).zip(units.chunks_exact_mut(width));
                for (((direction, unit), scale), &probe) in columns.zip(scales).zip(probes) {
                    let square = inner_product(direction, direction);
                    to_unit(direction, square, unit);
                    *scale = square * state.inverse_label_variance(probe);
                }
            });
    }
}

/// A vector of the given squared length, brought to length one.
fn to_unit(vector: &[f64], square: f64, unit: &mut [f32]) {
    let inverse = if square > 0.0 { 1.0 / square.sqrt() } else { 0.0 };
    for (unit, value) in unit.iter_mut().zip(vector) {
        let value = value * inverse;
        *unit = if value.abs() < TINY { 0.0 } else { value as f32 };
    }
}
