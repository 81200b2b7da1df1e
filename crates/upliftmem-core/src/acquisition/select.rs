//! The strategies, and the record of what each pick was worth.

use rand::Rng;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::{
    bound::Bound,
    chooser::{Round, sweep},
    gumbel::{gumbel, normal, uniform},
    kernel::inner_product,
    problem::{PADDING, Problem},
    state::State,
    table::Table,
};
use crate::{
    ComparisonFamily, ProbePool,
    belief::PoolBelief,
    error::{InvalidInput, Result, non_negative},
};

/// The upper lines are made anew for what is typical at every step of the first few, then every so many steps.
const TYPICAL_EVERY: usize = 10;
/// Probes that say what is typical: so many at most, and such a share of the pool.
const TYPICAL_PROBES: usize = 1_500;
const TYPICAL_SHARE: usize = 8;
/// Windows of so few probes keep all their covariances: bounds would cost more than they save.
const TABLE_PROBES_MAX: usize = 2_000;

/// What a batch is to be selected from.
#[derive(Debug, Clone, Copy)]
pub struct ProbeQuestion<'a> {
    /// The executions that can be bought.
    pub pool: &'a ProbePool,
    /// The decisions they should improve.
    pub family: &'a ComparisonFamily,
    /// What is believed of the values and the labels of the pool.
    pub belief: &'a PoolBelief,
    /// Standard deviation of each probe's value over dropout passes, for [`ProbeStrategy::McStd`]; without it the
    /// belief's own is taken.
    pub deviations: Option<&'a [f64]>,
}

/// How probes are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProbeStrategy {
    /// By expected value of sample information, summed over all comparisons. The paper's, and the default.
    Evsi,
    /// Uniformly.
    Random,
    /// By the standard deviation of the set's value.
    McStd,
    /// By the information that the label carries about the latent vector.
    Eig,
    /// A value function is drawn from the belief, and its best set of a task is executed.
    Thompson,
}

/// How marginal values are found. All give the same picks, but that a table may break ties otherwise which rounding decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Evaluation {
    /// With a table for small windows, without for large ones.
    Auto,
    /// Evaluate only probes whose upper bound is within reach of the best.
    Bounded,
    /// The same with the covariances of all labels with all values kept in a table.
    Table,
    /// Evaluate every comparison for every probe at every step.
    Sweep,
}

/// How a batch is selected.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AcquisitionSettings {
    /// How probes are chosen.
    pub strategy: ProbeStrategy,
    /// Most probes of a batch. Paper: B_p.
    pub probe_budget: usize,
    /// Temperature of the softmax in units of the largest score: 0.1 is a tenth of it, 0 is greedy.
    /// Paper: tau_evsi.
    pub acquisition_temperature: f64,
    /// How marginal values are found.
    pub evaluation: Evaluation,
    /// How many of the comparisons that a pick helps most are recorded with it.
    pub explained: usize,
}

impl Default for AcquisitionSettings {
    fn default() -> Self {
        Self {
            strategy: ProbeStrategy::Evsi,
            probe_budget: 300,
            acquisition_temperature: 0.1,
            evaluation: Evaluation::Auto,
            explained: 3,
        }
    }
}

/// The probability that a pick had. A range where it rests on bounds instead of on every probe's value.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Probability {
    /// It was no smaller.
    pub at_least: f64,
    /// It was no larger.
    pub at_most: f64,
}

impl Probability {
    fn exactly(value: f64) -> Self {
        Self {
            at_least: value,
            at_most: value,
        }
    }
}

/// A comparison and how much a pick adds to its EVSI.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct HelpedComparison {
    /// Place in the [`ComparisonFamily`].
    pub comparison: u32,
    /// What the pick adds, in units of utility.
    pub gain: f64,
}

/// Why a probe was picked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProbePick {
    /// Place in the [`ProbePool`].
    pub probe: u32,
    /// What the strategy valued: utility for `evsi`, a standard deviation for `mc-std`, nats for `eig`, the drawn
    /// value for `thompson`, nothing for `random`.
    pub score: f64,
    /// V_t(q): what the pick adds to the EVSI of all comparisons, given those before it. Paper: eq.
    /// batch_acquisition.
    pub marginal_value: f64,
    /// How likely this pick was.
    pub probability: Probability,
    /// The comparisons it helps most, most helped first.
    pub helps: Vec<HelpedComparison>,
}

/// How much work a selection took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SelectionWork {
    /// Probes that were evaluated on every comparison, summed over steps.
    pub probes_evaluated: u64,
    /// Pairs of probe and comparison that were evaluated beyond those.
    pub pairs_evaluated: u64,
}

/// A batch of probes, all to be executed before any of them is learned from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProbeBatch {
    /// The picks, in order.
    pub picks: Vec<ProbePick>,
    /// H(Q): EVSI of the whole batch, summed over all comparisons.
    pub batch_value: f64,
    /// What it took.
    pub work: SelectionWork,
}

/// Selects a batch. Paper: SelectProbes of Algorithm 1, app. probe_algorithm.
///
/// Takes one number from `rng`; the same number gives the same batch, whatever the evaluation and the number of
/// threads. Fewer probes than the budget are picked only when the pool is exhausted.
pub fn select_probes(
    question: ProbeQuestion<'_>,
    settings: &AcquisitionSettings,
    rng: &mut impl Rng,
) -> Result<ProbeBatch> {
    non_negative("acquisition_temperature", settings.acquisition_temperature)?;
    let problem = Problem::new(question.pool, question.family, question.belief)?;
    let mut selection = Selection {
        state: State::new(&problem),
        bound: Bound::new(&problem),
        table: None,
        promising: Vec::new(),
        deviations: question.checked_deviations()?,
        problem: &problem,
        settings,
        seed: rng.next_u64(),
        work: SelectionWork::default(),
    };
    if selection.tabulated() {
        selection.table = Some(Table::new(&problem, &selection.state));
    }
    let mut picks = Vec::new();
    for step in 0..settings.probe_budget.min(question.pool.len()) {
        let Some(drawn) = selection.draw(step) else { break };
        picks.push(selection.record(drawn));
        let direction = selection.state.schedule(&problem, drawn.probe);
        if let Some(table) = &mut selection.table {
            table.follow(&problem, &selection.state, drawn.probe, &direction);
        }
    }
    Ok(ProbeBatch {
        picks,
        batch_value: selection.state.batch_value(),
        work: selection.work,
    })
}

impl ProbeQuestion<'_> {
    /// V_t(q) of every probe after the given ones are scheduled, by a full sweep; those scheduled have none.
    /// Paper: eq. batch_marginal_formula.
    pub fn marginal_values(&self, scheduled: &[u32]) -> Result<Vec<Option<f64>>> {
        let (problem, state) = self.after(scheduled)?;
        let values = sweep(&problem, &state);
        Ok(values
            .into_iter()
            .map(|value| (value > f64::NEG_INFINITY).then_some(value))
            .collect())
    }

    /// s_j^2(Q) of every comparison for the given batch. Paper: eqs. preposterior, incremental_resolved.
    pub fn resolved_variances(&self, scheduled: &[u32]) -> Result<Vec<f64>> {
        let (problem, state) = self.after(scheduled)?;
        let mut variances = vec![0.0; self.family.len()];
        for (&index, &resolved) in problem.family_index.iter().zip(&state.resolved) {
            if index != PADDING {
                variances[index as usize] = resolved;
            }
        }
        Ok(variances)
    }

    fn after(&self, scheduled: &[u32]) -> Result<(Problem<'_>, State)> {
        let problem = Problem::new(self.pool, self.family, self.belief)?;
        let mut state = State::new(&problem);
        for &probe in scheduled {
            if state
                .scheduled
                .get(probe as usize)
                .is_none_or(|&scheduled| scheduled)
            {
                return Err(InvalidInput::new(
                    format_args!("scheduled probe {probe}"),
                    format_args!("is not in a pool of {}, or is scheduled twice", self.pool.len()),
                ));
            }
            state.schedule(&problem, probe as usize);
        }
        Ok((problem, state))
    }

    fn checked_deviations(&self) -> Result<Vec<f64>> {
        let Some(deviations) = self.deviations else {
            return Ok((0..self.pool.len())
                .map(|probe| self.belief.value_covariance(probe, probe).sqrt())
                .collect());
        };
        if deviations.len() != self.pool.len() {
            return Err(InvalidInput::new(
                "deviations",
                format_args!("{} for a pool of {} probes", deviations.len(), self.pool.len()),
            ));
        }
        deviations
            .iter()
            .map(|&deviation| non_negative("deviation", deviation))
            .collect()
    }
}

/// A probe that was drawn, its score and its probability.
#[derive(Clone, Copy)]
struct Drawn {
    probe: usize,
    score: f64,
    probability: Probability,
}

struct Selection<'s> {
    problem: &'s Problem<'s>,
    settings: &'s AcquisitionSettings,
    state: State,
    bound: Bound,
    table: Option<Table>,
    /// Probes of the largest bounds at the last step.
    promising: Vec<usize>,
    deviations: Vec<f64>,
    seed: u64,
    work: SelectionWork,
}

impl Selection<'_> {
    fn draw(&mut self, step: usize) -> Option<Drawn> {
        match self.settings.strategy {
            ProbeStrategy::Evsi if self.settings.evaluation == Evaluation::Sweep => {
                let scores = sweep(self.problem, &self.state);
                self.work.probes_evaluated += scores.len() as u64;
                self.draw_from(step, &scores)
            }
            ProbeStrategy::Evsi => self.draw_bounded(step),
            ProbeStrategy::Random => self.draw_from(step, &self.live(|_| 0.0)),
            ProbeStrategy::McStd => self.draw_from(step, &self.live(|probe| self.deviations[probe])),
            ProbeStrategy::Eig => self.draw_from(
                step,
                &self.live(|probe| self.state.information(self.problem, probe)),
            ),
            ProbeStrategy::Thompson => self.draw_thompson(step),
        }
    }

    fn tabulated(&self) -> bool {
        let probes = self.problem.belief.len();
        let small = probes <= TABLE_PROBES_MAX;
        self.settings.strategy == ProbeStrategy::Evsi
            && probes > 0
            && match self.settings.evaluation {
                Evaluation::Auto => small,
                Evaluation::Table => true,
                Evaluation::Bounded | Evaluation::Sweep => false,
            }
    }

    /// Scores of probes that are not scheduled; the others have none.
    fn live(&self, score: impl Fn(usize) -> f64) -> Vec<f64> {
        let scheduled = self.state.scheduled.iter().enumerate();
        scheduled
            .map(|(probe, &done)| if done { f64::NEG_INFINITY } else { score(probe) })
            .collect()
    }

    /// Key of a probe: the largest is the pick.
    fn key(&self, step: usize, largest: f64) -> impl Fn(usize, f64) -> f64 + Sync + use<> {
        let (seed, temperature) = (self.seed, self.temperature(largest));
        move |probe, score| temperature.key(score, || gumbel(seed, step, probe))
    }

    fn temperature(&self, largest: f64) -> Temperature {
        let temperature = self.settings.acquisition_temperature * largest;
        if self.settings.strategy == ProbeStrategy::Random {
            Temperature::Uniform
        } else if self.settings.acquisition_temperature <= 0.0 {
            Temperature::Greedy
        } else if temperature > 0.0 && largest.is_finite() {
            Temperature::Softmax(temperature)
        } else if largest > 0.0 {
            // Scores without bound: the largest decide.
            Temperature::Greedy
        } else {
            Temperature::Uniform
        }
    }

    /// Draws from the softmax of scores that are all known.
    fn draw_from(&self, step: usize, scores: &[f64]) -> Option<Drawn> {
        let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let key = self.key(step, largest);
        let mut best: Option<(f64, usize)> = None;
        for (probe, &score) in scores
            .iter()
            .enumerate()
            .filter(|(probe, _)| !self.state.scheduled[*probe])
        {
            let key = key(probe, score);
            if best.is_none_or(|(best, _)| key > best) {
                best = Some((key, probe));
            }
        }
        let (_, probe) = best?;
        let weight = self.temperature(largest).weights(largest);
        let sum: f64 = scores
            .iter()
            .filter(|score| **score > f64::NEG_INFINITY)
            .map(|&score| weight(score))
            .sum();
        let probability = match self.temperature(largest) {
            Temperature::Greedy => Probability::exactly(1.0),
            _ => Probability::exactly(weight(scores[probe]) / sum),
        };
        Some(Drawn {
            probe,
            score: scores[probe],
            probability,
        })
    }

    /// Learns what is typical from the probes that looked best a step ago; at first, from those that look best while
    /// next to nothing is known of what is typical, twice.
    fn learn_typical(&mut self, step: usize) {
        for _ in 0..if step == 0 { 2 } else { 1 } {
            if step == 0 {
                let bounds = self.bound.refresh(self.problem, &self.state, self.table.as_ref());
                self.promising = largest(&bounds, typical_probes(bounds.len()));
            }
            self.promising.retain(|&probe| !self.state.scheduled[probe]);
            self.bound
                .learn_typical(self.problem, &self.state, self.table.as_ref(), &self.promising);
        }
    }

    fn draw_bounded(&mut self, step: usize) -> Option<Drawn> {
        if step < TYPICAL_EVERY || step.is_multiple_of(TYPICAL_EVERY) {
            self.learn_typical(step);
        }
        let table = self.table.as_ref();
        let bounds = self.bound.refresh(self.problem, &self.state, table);
        self.promising = largest(&bounds, typical_probes(bounds.len()));
        let mut round = Round::new(self.problem, &self.state, &self.bound, table, bounds);
        let greedy = round.choose(|_, value| value)?;
        let temperature = self.temperature(greedy.value);
        let choice = match temperature {
            Temperature::Greedy => greedy,
            _ => {
                // Every probe's key is asked for several times, its noise is drawn once.
                let noise: Vec<f64> = (0..self.problem.belief.len())
                    .into_par_iter()
                    .with_min_len(1_024)
                    .map(|probe| gumbel(self.seed, step, probe))
                    .collect();
                round.choose(|probe, value| temperature.key(value, || noise[probe]))?
            }
        };
        let probability = match temperature {
            Temperature::Greedy => Probability::exactly(1.0),
            _ => {
                let weight = temperature.weights(greedy.value);
                let (least, most) = round.weight_range(&weight);
                let own = weight(choice.value);
                Probability {
                    at_least: own / most,
                    at_most: (own / least).min(1.0),
                }
            }
        };
        self.work.probes_evaluated += round.work.whole;
        self.work.pairs_evaluated += round.work.pairs;
        Some(Drawn {
            probe: choice.probe,
            score: choice.value,
            probability,
        })
    }

    /// Goes through the tasks in a random order, round after round; draws a value function for each and takes its
    /// best set, unless that is the empty set, whose execution would be a reference.
    fn draw_thompson(&self, step: usize) -> Option<Drawn> {
        let tasks = self.problem.tasks();
        let round = (step / tasks.max(1)) as u64;
        let mut order: Vec<usize> = (0..tasks).collect();
        order.sort_by(|&a, &b| {
            let place = |task: usize| uniform(self.seed, u64::MAX - round, task as u64);
            place(a).total_cmp(&place(b)).then(a.cmp(&b))
        });
        order.rotate_left(step % tasks.max(1));
        let width = self.problem.belief.width();
        let mut fallback: Option<Drawn> = None;
        for task in order {
            let stream = (step * tasks + task) as u64;
            let latent: Vec<f64> = (0..width)
                .map(|index| normal(self.seed, stream, index as u64))
                .collect();
            for probe in self.problem.probes[task]
                .clone()
                .filter(|&probe| !self.state.scheduled[probe])
            {
                let belief = self.problem.belief;
                let score = belief.value_mean(probe) + inner_product(belief.row(probe), &latent);
                // The draw itself is random; which set it favours is not known without integrating over it.
                let probability = Probability {
                    at_least: 0.0,
                    at_most: 1.0,
                };
                if fallback.is_none_or(|best| score > best.score) {
                    fallback = Some(Drawn {
                        probe,
                        score,
                        probability,
                    });
                }
            }
            if fallback.is_some_and(|best| best.score > 0.0) {
                return fallback;
            }
        }
        fallback
    }

    fn record(&self, drawn: Drawn) -> ProbePick {
        let gains = self.state.gains(self.problem, drawn.probe);
        // No comparison below this can be among the most helped: so many tasks have one that is helped more.
        let mut most: Vec<f64> = (self.problem.blocks.iter())
            .map(|block| gains[block.clone()].iter().copied().fold(0.0, f64::max))
            .collect();
        most.sort_unstable_by(|a, b| b.total_cmp(a));
        let least = (self.settings.explained.checked_sub(1))
            .and_then(|last| most.get(last).copied())
            .unwrap_or(0.0);
        let mut helps: Vec<HelpedComparison> = gains
            .iter()
            .zip(&self.problem.family_index)
            .filter(|&(&gain, &index)| index != PADDING && gain > 0.0 && gain >= least)
            .map(|(&gain, &comparison)| HelpedComparison { comparison, gain })
            .collect();
        let most_helped = |a: &HelpedComparison, b: &HelpedComparison| {
            b.gain.total_cmp(&a.gain).then(a.comparison.cmp(&b.comparison))
        };
        if helps.len() > self.settings.explained {
            helps.select_nth_unstable_by(self.settings.explained, most_helped);
            helps.truncate(self.settings.explained);
        }
        helps.shrink_to_fit();
        helps.sort_unstable_by(most_helped);
        ProbePick {
            probe: drawn.probe as u32,
            score: if self.settings.strategy == ProbeStrategy::Random {
                0.0
            } else {
                drawn.score
            },
            marginal_value: gains.iter().sum(),
            probability: drawn.probability,
            helps,
        }
    }
}

#[derive(Clone, Copy)]
enum Temperature {
    Greedy,
    Uniform,
    Softmax(f64),
}

impl Temperature {
    /// The largest key is the pick.
    fn key(self, score: f64, noise: impl Fn() -> f64) -> f64 {
        match self {
            Self::Greedy => score,
            Self::Uniform => noise(),
            Self::Softmax(temperature) => score / temperature + noise(),
        }
    }

    /// Unnormalised probability of a score.
    fn weights(self, largest: f64) -> impl Fn(f64) -> f64 {
        move |score| match self {
            Self::Greedy => f64::from(u8::from(score >= largest)),
            Self::Uniform => 1.0,
            Self::Softmax(temperature) => ((score - largest) / temperature).exp(),
        }
    }
}

fn typical_probes(pool: usize) -> usize {
    TYPICAL_PROBES.min(pool.div_ceil(TYPICAL_SHARE))
}

/// The indices of the largest values.
fn largest(values: &[f64], count: usize) -> Vec<usize> {
    let mut indices: Vec<usize> = (0..values.len())
        .filter(|&index| values[index] > f64::NEG_INFINITY)
        .collect();
    if indices.len() > count {
        indices.select_nth_unstable_by(count, |&a, &b| values[b].total_cmp(&values[a]).then(a.cmp(&b)));
        indices.truncate(count);
    }
    indices
}
