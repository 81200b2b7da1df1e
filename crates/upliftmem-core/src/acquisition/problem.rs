//! One batch to select: the pool, the comparisons and the belief, laid out task by task.

use std::ops::Range;

use super::kernel::{Block, LANES, padded};
use crate::{
    belief::PoolBelief,
    error::{InvalidInput, Result},
    window::{ComparisonFamily, ProbePool, Side},
};

/// Everything that stays fixed while a batch is selected.
pub(crate) struct Problem<'a> {
    pub(crate) belief: &'a PoolBelief,
    /// Probes of each task.
    pub(crate) probes: Vec<Range<usize>>,
    /// Task of each probe.
    pub(crate) task_of: Vec<u32>,
    /// Padded positions of each task's comparisons in the arrays below.
    pub(crate) blocks: Vec<Range<usize>>,
    /// Index in the family of each position; padding has none.
    pub(crate) family_index: Vec<Option<u32>>,
    pub(crate) sides: Vec<[u16; 2]>,
    pub(crate) margins: Vec<f64>,
    /// Variance of each margin under the belief at batch entry.
    pub(crate) prior_variance: Vec<f64>,
}

impl<'a> Problem<'a> {
    pub(crate) fn new(pool: &ProbePool, family: &ComparisonFamily, belief: &'a PoolBelief) -> Result<Self> {
        check_sizes(pool, belief)?;
        let probes = probe_ranges(pool)?;
        let mut by_task: Vec<Vec<u32>> = vec![Vec::new(); probes.len()];
        for (index, comparison) in family.comparisons.iter().enumerate() {
            let task = by_task.get_mut(comparison.task as usize).ok_or_else(|| {
                InvalidInput::new(
                    format_args!("comparison {index}"),
                    format_args!("task {} is not in the probe pool", comparison.task),
                )
            })?;
            task.push(index as u32);
        }
        let mut problem = Self {
            belief,
            task_of: pool.probes.iter().map(|probe| probe.task).collect(),
            probes,
            blocks: Vec::new(),
            family_index: Vec::new(),
            sides: Vec::new(),
            margins: Vec::new(),
            prior_variance: Vec::new(),
        };
        for (task, comparisons) in by_task.into_iter().enumerate() {
            problem.push_block(task, &comparisons, family)?;
        }
        Ok(problem)
    }

    fn push_block(&mut self, task: usize, comparisons: &[u32], family: &ComparisonFamily) -> Result<()> {
        let start = self.margins.len();
        let probes = self.probes[task].clone();
        let empty = probes.len() as u16;
        let mut contrast = vec![0.0; self.belief.width()];
        for &index in comparisons {
            let comparison = family.comparisons[index as usize];
            contrast.fill(0.0);
            let mut mean = 0.0;
            let mut sides = [empty; 2];
            for (slot, (side, sign)) in
                [(comparison.challenger, 1.0), (comparison.incumbent, -1.0)].into_iter().enumerate()
            {
                let Side::Probe(probe) = side else { continue };
                let probe = probe as usize;
                if !probes.contains(&probe) {
                    return Err(InvalidInput::new(
                        format_args!("comparison {index}"),
                        format_args!("probe {probe} is not one of task {task}"),
                    ));
                }
                sides[slot] = (probe - probes.start) as u16;
                mean += sign * self.belief.value_mean(probe);
                for (sum, value) in contrast.iter_mut().zip(self.belief.row(probe)) {
                    *sum += sign * value;
                }
            }
            self.family_index.push(Some(index));
            self.sides.push(sides);
            self.margins.push(mean.abs());
            self.prior_variance.push(contrast.iter().map(|value| value * value).sum());
        }
        let end = start + padded(comparisons.len());
        self.family_index.resize(end, None);
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

fn split<'b>(mut array: &'b mut [f64], ranges: &[Range<usize>]) -> Vec<&'b mut [f64]> {
    ranges
        .iter()
        .map(|range| array.split_off_mut(..range.len()).expect("the ranges cover the array"))
        .collect()
}

fn check_sizes(pool: &ProbePool, belief: &PoolBelief) -> Result<()> {
    if belief.len() != pool.probes.len() || belief.references().len() != pool.tasks.len() {
        return Err(InvalidInput::new(
            "belief",
            format_args!(
                "{} probes and {} references for a pool of {} probes and {} tasks",
                belief.len(),
                belief.references().len(),
                pool.probes.len(),
                pool.tasks.len()
            ),
        ));
    }
    Ok(())
}

fn probe_ranges(pool: &ProbePool) -> Result<Vec<Range<usize>>> {
    let mut ranges = Vec::with_capacity(pool.tasks.len());
    let mut start = 0;
    for task in 0..pool.tasks.len() {
        let count = pool.probes[start..].iter().take_while(|probe| probe.task as usize == task).count();
        if count + LANES >= usize::from(u16::MAX) {
            return Err(InvalidInput::new(
                format_args!("probe pool, task {task}"),
                format_args!("{count} probes of one task; at most {} are supported", u16::MAX),
            ));
        }
        ranges.push(start..start + count);
        start += count;
    }
    if start < pool.probes.len() {
        return Err(InvalidInput::new("probe pool", "probes are not grouped by task, in the order of tasks"));
    }
    Ok(ranges)
}
