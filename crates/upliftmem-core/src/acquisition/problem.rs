//! One batch to select: the pool, the comparisons and the belief, laid out task by task.

use std::ops::Range;

use super::kernel::{Block, padded};
use crate::{
    ComparisonFamily, ProbePool, Side,
    belief::PoolBelief,
    error::{InvalidInput, Result},
};

/// Stands where a block is longer than its comparisons.
pub(crate) const PADDING: u32 = u32::MAX;

/// Everything that stays fixed while a batch is selected.
pub(crate) struct Problem<'a> {
    pub(crate) belief: &'a PoolBelief,
    /// Probes of each task.
    pub(crate) probes: Vec<Range<usize>>,
    /// Task of each probe.
    pub(crate) task_of: Vec<u32>,
    /// Padded positions of each task's comparisons in the arrays below.
    pub(crate) blocks: Vec<Range<usize>>,
    /// Index in the family of each position, or [`PADDING`].
    pub(crate) family_index: Vec<u32>,
    pub(crate) sides: Vec<[u16; 2]>,
    pub(crate) margins: Vec<f64>,
    /// Variance of each margin under the belief at batch entry.
    pub(crate) prior_variance: Vec<f64>,
}

impl<'a> Problem<'a> {
    pub(crate) fn new(pool: &ProbePool, family: &ComparisonFamily, belief: &'a PoolBelief) -> Result<Self> {
        check_sizes(pool, belief)?;
        let tasks = 0..pool.tasks().len() as u32;
        let mut problem = Self {
            belief,
            task_of: pool.probes().iter().map(|probe| probe.task).collect(),
            probes: tasks.clone().map(|task| pool.range_of(task)).collect(),
            blocks: Vec::with_capacity(pool.tasks().len()),
            family_index: Vec::with_capacity(family.len()),
            sides: Vec::with_capacity(family.len()),
            margins: Vec::with_capacity(family.len()),
            prior_variance: Vec::with_capacity(family.len()),
        };
        for task in tasks {
            problem.push_block(task, family)?;
        }
        Ok(problem)
    }

    fn push_block(&mut self, task: u32, family: &ComparisonFamily) -> Result<()> {
        let start = self.margins.len();
        let probes = self.probes[task as usize].clone();
        // One position is left for the empty set.
        let Ok(empty) = u16::try_from(probes.len()) else {
            return Err(InvalidInput::new(
                format_args!("probe pool, task {task}"),
                format_args!(
                    "{} probes of one task; at most {} are supported",
                    probes.len(),
                    u16::MAX
                ),
            ));
        };
        let mut contrast = vec![0.0; self.belief.width()];
        let range = family.range_of(task);
        for (index, comparison) in range.clone().zip(&family.comparisons()[range]) {
            contrast.fill(0.0);
            let mut mean = 0.0;
            let mut sides = [empty; 2];
            let signed = [(comparison.challenger, 1.0), (comparison.incumbent, -1.0)];
            for (slot, (side, sign)) in signed.into_iter().enumerate() {
                let Side::Probe(probe) = side else { continue };
                let probe = probe as usize;
                sides[slot] = (probe - probes.start) as u16;
                mean += sign * self.belief.value_mean(probe);
                for (sum, value) in contrast.iter_mut().zip(self.belief.row(probe)) {
                    *sum += sign * value;
                }
            }
            self.family_index.push(index as u32);
            self.sides.push(sides);
            self.margins.push(mean.abs());
            self.prior_variance
                .push(contrast.iter().map(|value| value * value).sum());
        }
        let end = start + padded(self.margins.len() - start);
        self.family_index.resize(end, PADDING);
        self.sides.resize(end, [empty; 2]);
        self.margins.resize(end, 0.0);
        self.prior_variance.resize(end, 0.0);
        self.blocks.push(start..end);
        Ok(())
    }

    pub(crate) fn tasks(&self) -> usize {
        self.probes.len()
    }

    /// Rows of a task's probes.
    pub(crate) fn task_rows(&self, task: usize) -> &[f64] {
        let probes = &self.probes[task];
        &self.belief.rows()[probes.start * self.belief.width()..probes.end * self.belief.width()]
    }

    /// Appends the feature contrast of the comparison at a position of a task's block, times a factor.
    pub(crate) fn push_contrast<T: FromF64>(&self, task: usize, at: usize, factor: f64, out: &mut Vec<T>) {
        let width = self.belief.width();
        let [challenger, incumbent] = self.sides[at].map(usize::from);
        let (rows, count) = (self.task_rows(task), self.probes[task].len());
        let row = |side: usize| &rows[side * width..(side + 1) * width];
        if challenger >= count {
            out.extend(row(incumbent).iter().map(|value| T::from_f64(-factor * value)));
        } else if incumbent >= count {
            out.extend(row(challenger).iter().map(|value| T::from_f64(factor * value)));
        } else {
            let pair = row(challenger).iter().zip(row(incumbent));
            out.extend(pair.map(|(left, right)| T::from_f64(factor * (left - right))));
        }
    }

    /// Splits an array over all comparisons into one part a task.
    pub(crate) fn split_blocks<'b>(&self, array: &'b mut [f64]) -> Vec<&'b mut [f64]> {
        split(array, &self.blocks)
    }

    /// Splits an array over all probes into one part a task.
    pub(crate) fn split_probes<'b>(&self, array: &'b mut [f64]) -> Vec<&'b mut [f64]> {
        split(array, &self.probes)
    }

    /// The comparisons of a task with the given state of resolution.
    pub(crate) fn block<'b>(&'b self, task: usize, resolved: &'b [f64], values: &'b [f64]) -> Block<'b> {
        let range = self.blocks[task].clone();
        Block {
            sides: &self.sides[range.clone()],
            margins: &self.margins[range.clone()],
            prior: &self.prior_variance[range.clone()],
            resolved: &resolved[range.clone()],
            values: &values[range],
        }
    }
}

/// A number in the precision that is wanted.
pub(crate) trait FromF64 {
    fn from_f64(value: f64) -> Self;
}

impl FromF64 for f64 {
    fn from_f64(value: f64) -> Self {
        value
    }
}

impl FromF64 for f32 {
    fn from_f64(value: f64) -> Self {
        value as Self
    }
}

fn split<'b>(mut array: &'b mut [f64], ranges: &[Range<usize>]) -> Vec<&'b mut [f64]> {
    ranges
        .iter()
        .map(|range| {
            array
                .split_off_mut(..range.len())
                .expect("the ranges cover the array")
        })
        .collect()
}

fn check_sizes(pool: &ProbePool, belief: &PoolBelief) -> Result<()> {
    if belief.len() != pool.len() || belief.references().len() != pool.tasks().len() {
        return Err(InvalidInput::new(
            "belief",
            format_args!(
                "{} probes and {} references for a pool of {} probes and {} tasks",
                belief.len(),
                belief.references().len(),
                pool.len(),
                pool.tasks().len()
            ),
        ));
    }
    Ok(())
}
