//! Finds the probe of the largest key without evaluating them all, and without ever being wrong.
//!
//! A key rises with the probe's marginal value: the value itself for a greedy pick, value / temperature + Gumbel
//! noise for a draw from the softmax (the largest such key is distributed exactly like the softmax). Probes are
//! taken in order of an upper bound on their key. Bounds are lowered step by step, first by the comparisons of the
//! probe's own task, then by those of all tasks where the upper lines are loosest, until the best evaluated key is
//! beyond every bound.

use std::ops::Range;

use rayon::prelude::*;

use super::{
    bound::Bound,
    kernel::{add_block_slacks, block_gains},
    problem::Problem,
    sampling::Samples,
    state::State,
    table::Table,
};

/// Probes whose own task is evaluated before the first whole evaluation.
const FRONT: usize = 256;
/// Probes, each of another task, that are evaluated whole to have something to beat and to learn where the lines
/// are loose.
const FIRST: usize = 4;
/// Probes that are evaluated whole together, so that rows are read once for all of them.
const BATCH: usize = 16;
/// Comparisons of the first sample; each next one doubles what was sampled, up to the last.
const SAMPLE_FIRST: usize = 512;
const SAMPLE_LAST: usize = 4_096;
/// Comparisons that are sampled before a probe's own task is looked at.
const SAMPLED_EARLY: usize = 7 * SAMPLE_FIRST;
/// Samples cover this share of all comparisons at most; what survives them is evaluated whole.
const SAMPLED_MOST: f64 = 0.3;

/// How much work a batch took.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Work {
    /// Probes whose own task was evaluated.
    pub(crate) near: u64,
    /// Pairs of probe and comparison that were evaluated beyond that.
    pub(crate) pairs: u64,
    /// Probes that were evaluated whole.
    pub(crate) whole: u64,
}

/// A probe with its key and its value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Choice {
    pub(crate) probe: usize,
    pub(crate) value: f64,
    key: f64,
}

impl Choice {
    /// Larger key, then the smaller probe.
    fn beats(&self, other: &Self) -> bool {
        self.key > other.key || (self.key >= other.key && self.probe < other.probe)
    }
}

/// The marginal values of one step, known exactly for some probes and bounded for the others.
pub(crate) struct Round<'r> {
    problem: &'r Problem<'r>,
    state: &'r State,
    bound: &'r Bound,
    /// Covariances of all pairs, if they are kept: whole evaluations are cheap then, and nothing comes before them.
    table: Option<&'r Table>,
    /// Upper bound on each probe's marginal value.
    bounds: Vec<f64>,
    /// Whether the comparisons of the probe's own task, or all, are in the bound as they are.
    own: Vec<bool>,
    exact: Vec<f64>,
    known: Vec<usize>,
    /// How many of the loosest comparisons are in the bound of a probe as they are.
    sampled: Vec<u32>,
    /// The comparisons whose lines are loosest.
    samples: Samples,
    pub(crate) work: Work,
}

impl<'r> Round<'r> {
    pub(crate) fn new(
        problem: &'r Problem<'r>,
        state: &'r State,
        bound: &'r Bound,
        table: Option<&'r Table>,
        bounds: Vec<f64>,
    ) -> Self {
        let mut round = Self {
            problem,
            state,
            bound,
            table,
            own: vec![false; bounds.len()],
            exact: vec![f64::NAN; bounds.len()],
            known: Vec::new(),
            sampled: vec![0; bounds.len()],
            samples: Samples::default(),
            bounds,
            work: Work::default(),
        };
        for probe in 0..round.bounds.len() {
            if !state.scheduled[probe] && state.inverse_label_variance(probe) <= 0.0 {
                round.settle(probe, 0.0);
            }
        }
        round
    }

    fn settle(&mut self, probe: usize, value: f64) {
        self.exact[probe] = value;
        self.known.push(probe);
    }

    /// The probe of the largest key among those not scheduled; ties go to the smaller probe.
    pub(crate) fn choose(&mut self, key: impl Fn(usize, f64) -> f64 + Sync) -> Option<Choice> {
        let front = self.front(&key);
        if self.samples.is_empty() && self.table.is_none() {
            self.evaluate_and_rank(front);
        } else {
            self.evaluate(&front);
        }
        loop {
            let best = self.best_known(&key);
            let hopeful =
                |bounds: &[f64], probe: usize| best.is_none_or(|best| key(probe, bounds[probe]) >= best.key);
            let mut pending: Vec<usize> = (0..self.bounds.len())
                .into_par_iter()
                .filter(|&probe| self.exact[probe].is_nan() && !self.state.scheduled[probe])
                .filter(|&probe| hopeful(&self.bounds, probe))
                .collect();
            if self.table.is_none() {
                self.sample(&mut pending, 0..SAMPLED_EARLY, |bounds, probe| {
                    hopeful(bounds, probe)
                });
                self.evaluate_own(&pending);
                pending.retain(|&probe| hopeful(&self.bounds, probe));
                self.sample(&mut pending, SAMPLED_EARLY..usize::MAX, |bounds, probe| {
                    hopeful(bounds, probe)
                });
            }
            if pending.is_empty() {
                return best;
            }
            self.sort_by_key(&mut pending, &key);
            pending.truncate(BATCH);
            self.evaluate(&pending);
        }
    }

    /// Bounds on the sum of the weights of all probes that are not scheduled. A value that is not known lies
    /// between zero and its bound.
    pub(crate) fn weight_range(&self, weight: &impl Fn(f64) -> f64) -> (f64, f64) {
        let (mut least, mut most) = (0.0, 0.0);
        for probe in (0..self.bounds.len()).filter(|&probe| !self.state.scheduled[probe]) {
            let exact = self.exact[probe];
            least += weight(if exact.is_nan() { 0.0 } else { exact });
            most += weight(if exact.is_nan() {
                self.bounds[probe].max(0.0)
            } else {
                exact
            });
        }
        (least, most)
    }

    fn sort_by_key(&self, probes: &mut [usize], key: &impl Fn(usize, f64) -> f64) {
        let key = |probe: usize| key(probe, self.bounds[probe]);
        probes.sort_unstable_by(|&a, &b| key(b).total_cmp(&key(a)).then(a.cmp(&b)));
    }

    fn best_known(&self, key: &impl Fn(usize, f64) -> f64) -> Option<Choice> {
        let mut best: Option<Choice> = None;
        for &probe in &self.known {
            let value = self.exact[probe];
            let choice = Choice {
                probe,
                value,
                key: key(probe, value),
            };
            if best.is_none_or(|best| choice.beats(&best)) {
                best = Some(choice);
            }
        }
        best
    }

    /// The most promising probes, each of another task.
    fn front(&mut self, key: &(impl Fn(usize, f64) -> f64 + Sync)) -> Vec<usize> {
        let mut keyed: Vec<(f64, usize)> = (0..self.bounds.len())
            .into_par_iter()
            .filter(|&probe| self.exact[probe].is_nan() && !self.state.scheduled[probe])
            .map(|probe| (key(probe, self.bounds[probe]), probe))
            .collect();
        if keyed.len() > FRONT {
            keyed.select_nth_unstable_by(FRONT, |a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
            keyed.truncate(FRONT);
        }
        let mut front: Vec<usize> = keyed.into_iter().map(|(_, probe)| probe).collect();
        if self.table.is_none() {
            self.evaluate_own(&front);
        }
        self.sort_by_key(&mut front, key);
        let mut tasks = std::collections::BTreeSet::new();
        front.retain(|&probe| tasks.insert(self.problem.task_of[probe]));
        front.truncate(FIRST);
        front
    }

    /// Evaluates probes, and ranks comparisons by how loose their lines turn out to be.
    fn evaluate_and_rank(&mut self, front: Vec<usize>) {
        let (directions, inverses) = self.directions(&front);
        let width = self.problem.belief.width();
        let mut slack = vec![0.0; self.problem.margins.len()];
        let gains: Vec<Vec<f64>> = self
            .problem
            .split_blocks(&mut slack)
            .into_par_iter()
            .enumerate()
            .map(|(task, slack)| {
                let probes = directions.chunks_exact(width).zip(&inverses);
                probes
                    .map(|(direction, &inverse)| self.evaluate_block(task, direction, inverse, slack).0)
                    .collect()
            })
            .collect();
        self.work.whole += front.len() as u64;
        for (index, probe) in front.into_iter().enumerate() {
            self.settle(probe, gains.iter().map(|gains| gains[index]).sum());
        }
        let looser = |&a: &u32, &b: &u32| slack[b as usize].total_cmp(&slack[a as usize]).then(a.cmp(&b));
        let mut loosest: Vec<u32> = (0..slack.len() as u32)
            .filter(|&at| slack[at as usize] > 0.0)
            .collect();
        let most = (SAMPLED_MOST * slack.len() as f64) as usize;
        if loosest.len() > most {
            loosest.select_nth_unstable_by(most, looser);
            loosest.truncate(most);
        }
        loosest.par_sort_unstable_by(looser);
        self.samples = Samples::new(loosest);
    }

    /// Replaces the lines of each probe's own task by the true gain.
    fn evaluate_own(&mut self, probes: &[usize]) {
        let mut probes: Vec<usize> = probes.iter().copied().filter(|&probe| !self.own[probe]).collect();
        self.work.near += probes.len() as u64;
        probes.sort_unstable();
        let by_task: Vec<&[usize]> = probes
            .chunk_by(|&a, &b| self.problem.task_of[a] == self.problem.task_of[b])
            .collect();
        let width = self.problem.belief.width();
        let slacks: Vec<Vec<f64>> = by_task
            .par_iter()
            .map(|probes| {
                let task = self.problem.task_of[probes[0]] as usize;
                let directions = self.state.label_covariances(self.problem, probes);
                let mut slack = vec![0.0; self.problem.blocks[task].len()];
                directions
                    .chunks_exact(width)
                    .zip(probes.iter())
                    .map(|(direction, &probe)| {
                        let inverse = self.state.inverse_label_variance(probe);
                        let (gain, line) = self.evaluate_block(task, direction, inverse, &mut slack);
                        line - gain
                    })
                    .collect()
            })
            .collect();
        for (probes, slacks) in by_task.iter().zip(slacks) {
            for (&probe, slack) in probes.iter().zip(slacks) {
                self.own[probe] = true;
                self.bounds[probe] -= slack.max(0.0);
            }
        }
    }

    /// True gain and upper line of a task's comparisons for one direction; adds their difference to `slack`.
    fn evaluate_block(&self, task: usize, direction: &[f64], inverse: f64, slack: &mut [f64]) -> (f64, f64) {
        let block = self.problem.block(task, &self.state.resolved, &self.state.values);
        let at = self.problem.blocks[task].clone();
        let lines = (&self.bound.slopes[at.clone()], &self.bound.intercepts[at]);
        add_block_slacks(
            block,
            lines,
            self.problem.task_rows(task),
            direction,
            inverse,
            slack,
        )
    }

    /// Lowers the bounds of probes by the loosest comparisons within a range, a sample at a time, and drops the
    /// hopeless.
    fn sample(
        &mut self,
        probes: &mut Vec<usize>,
        range: Range<usize>,
        hopeful: impl Fn(&[f64], usize) -> bool,
    ) {
        let last = range.end.min(self.samples.len());
        let mut start = range.start;
        while start < last && !probes.is_empty() {
            let end = (2 * start)
                .clamp(start + SAMPLE_FIRST, start + SAMPLE_LAST)
                .min(last);
            let behind: Vec<usize> = probes
                .iter()
                .copied()
                .filter(|&probe| self.sampled[probe] as usize <= start)
                .collect();
            if !behind.is_empty() {
                self.work.pairs += (behind.len() * (end - start)) as u64;
                let scene = (self.problem, self.state, self.bound);
                let slacks = self.samples.slacks(scene, start..end, &behind);
                for (probe, slack) in behind.into_iter().zip(slacks) {
                    self.bounds[probe] -= slack;
                    self.sampled[probe] = end as u32;
                }
            }
            probes.retain(|&probe| hopeful(&self.bounds, probe));
            start = end;
        }
    }

    /// Evaluates probes on every comparison.
    fn evaluate(&mut self, probes: &[usize]) {
        self.work.whole += probes.len() as u64;
        let values = if let Some(table) = self.table {
            table.values(self.problem, self.state, probes)
        } else {
            let (directions, inverses) = self.directions(probes);
            marginal_values(self.problem, self.state, &directions, &inverses)
        };
        for (&probe, value) in probes.iter().zip(values) {
            self.settle(probe, value);
        }
    }

    /// Covariances of the latent vector with the labels of probes, and the inverse variances of these labels.
    fn directions(&self, probes: &[usize]) -> (Vec<f64>, Vec<f64>) {
        directions(self.problem, self.state, probes)
    }
}

fn directions(problem: &Problem<'_>, state: &State, probes: &[usize]) -> (Vec<f64>, Vec<f64>) {
    let width = problem.belief.width();
    let mut directions = vec![0.0; probes.len() * width];
    for (out, &probe) in directions.chunks_exact_mut(width).zip(probes) {
        state.label_covariance(problem, probe, out);
    }
    (
        directions,
        probes
            .iter()
            .map(|&probe| state.inverse_label_variance(probe))
            .collect(),
    )
}

/// Marginal values of probes by their directions: the sum over tasks, in order, of the gain of each.
fn marginal_values(problem: &Problem<'_>, state: &State, directions: &[f64], inverses: &[f64]) -> Vec<f64> {
    let gains: Vec<Vec<f64>> = (0..problem.tasks())
        .into_par_iter()
        .map(|task| {
            let mut gains = vec![0.0; inverses.len()];
            let block = problem.block(task, &state.resolved, &state.values);
            block_gains(block, problem.task_rows(task), directions, inverses, &mut gains);
            gains
        })
        .collect();
    (0..inverses.len())
        .map(|index| gains.iter().map(|gains| gains[index]).sum())
        .collect()
}

/// The marginal value of every probe, by evaluating every comparison: what [`Round::choose`] must agree with.
/// Scheduled probes have none.
pub(crate) fn sweep(problem: &Problem<'_>, state: &State) -> Vec<f64> {
    let mut values = vec![f64::NEG_INFINITY; problem.belief.len()];
    let live: Vec<usize> = (0..values.len())
        .filter(|&probe| !state.scheduled[probe])
        .collect();
    for probes in live.chunks(BATCH) {
        let (directions, inverses) = directions(problem, state, probes);
        for (&probe, value) in probes
            .iter()
            .zip(marginal_values(problem, state, &directions, &inverses))
        {
            values[probe] = value;
        }
    }
    values
}
