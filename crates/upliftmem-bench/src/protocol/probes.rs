//! Probe strategies under growing budgets, from one warm-up checkpoint and a fixed store. Paper: sec. RQ4.

mod lab;

use serde::{Deserialize, Serialize};
use upliftmem_core::statistics::{Interval, Summary, cumulative_success};
use upliftmem_engine::Strategy;

use self::lab::Lab;
use super::{Bench, Error, Event, Result, methods::own_pool};

/// Tasks of the stream that probes are planned for. Paper: h.
pub(super) const WINDOW: usize = 400;

/// The paper's budgets.
pub const PROBE_BUDGETS: [usize; 7] = [20, 50, 80, 100, 120, 150, 200];

/// A strategy at one budget, over trials.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProbePoint {
    /// Probes bought so far; 0 is the warm-up checkpoint.
    pub budget: usize,
    /// Share of validation tasks that the checkpoint solves, in percent: mean over trials.
    pub success: f64,
    /// Its 95 % interval over trials; none with a single trial.
    pub interval: Option<Interval>,
    /// Share of tasks that some checkpoint up to this one solves in its first run: mean over trials.
    pub cumulative: f64,
    /// Mean utility of the checkpoint.
    pub utility: f64,
    /// Mean reward of the checkpoint, in percent of the largest.
    pub reward: f64,
    /// How much more than `random` the checkpoint solves, paired by trial, with its interval.
    pub over_random: Option<(f64, Option<Interval>)>,
}

/// A strategy at all budgets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProbeCurve {
    /// The strategy.
    pub strategy: String,
    /// Its points, by budget.
    pub points: Vec<ProbePoint>,
}

/// A checkpoint on the validation tasks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Checkpoint {
    /// Share of tasks solved, in percent, over all runs.
    success: f64,
    /// Mean utility over all runs.
    utility: f64,
    /// Mean reward over all runs, in percent.
    reward: f64,
    /// Which tasks the first run solved.
    solved: Vec<bool>,
}

/// What one strategy did in one trial: its checkpoints, the warm-up's first.
type Trace = Vec<Checkpoint>;

/// Buys probes by each strategy, trial by trial, and evaluates every checkpoint on the validation tasks.
///
/// # Errors
/// The first that stops; trials that were finished are kept.
pub async fn probe_curves(
    bench: &Bench,
    strategies: &[Strategy],
    budgets: &[usize],
    trials: usize,
) -> Result<Vec<ProbeCurve>> {
    let (warm_up, runtime) = (bench.sizes.warm_up, bench.suite.runtime_tasks().len());
    if warm_up >= runtime {
        return Err(Error::Input(format!(
            "warm-up takes {warm_up} tasks and there are {runtime} runtime tasks, so none is left to probe: give a smaller --warm-up"
        )));
    }
    let pool = own_pool(bench).await?;
    let mut traces: Vec<Vec<Trace>> = vec![Vec::new(); strategies.len()];
    for trial in 0..trials {
        let mut warm = None;
        for (place, &strategy) in strategies.iter().enumerate() {
            let key = format!("probes-{strategy}-{trial}");
            if let Some((done, trace)) = bench.recorded::<(Vec<usize>, Trace)>(&key)?
                && done == budgets
            {
                traces[place].push(trace);
                continue;
            }
            if warm.is_none() {
                warm = Some(Lab::warmed_up(bench, &pool, trial as u64).await?);
            }
            let Some(warm) = &warm else { continue };
            let mut lab = warm.clone();
            let mut trace: Trace = vec![lab.evaluate().await?];
            let mut spent = 0;
            for &budget in budgets {
                lab.probe(strategy, budget - spent).await?;
                spent = budget;
                trace.push(lab.evaluate().await?);
            }
            bench.tell(Event::Note(format!(
                "trial {}: {strategy:9} {:.1} % -> {:.1} %",
                trial + 1,
                trace[0].success,
                trace[budgets.len()].success
            )));
            bench.record(&key, &(budgets, &trace))?;
            traces[place].push(trace);
        }
    }
    let random = strategies
        .iter()
        .position(|strategy| *strategy == Strategy::Random);
    let curves = strategies.iter().zip(&traces).map(|(strategy, own)| {
        let compared = random.map(|place| traces[place].as_slice());
        Ok(ProbeCurve {
            strategy: strategy.name().to_owned(),
            points: points(own, compared, budgets)?,
        })
    });
    curves.collect()
}

fn points(own: &[Trace], random: Option<&[Trace]>, budgets: &[usize]) -> Result<Vec<ProbePoint>> {
    let cumulative: Vec<Vec<f64>> = own
        .iter()
        .map(|trace| {
            let solved: Vec<Vec<bool>> = trace.iter().map(|point| point.solved.clone()).collect();
            Ok(cumulative_success(&solved)?)
        })
        .collect::<Result<_>>()?;
    let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let all = std::iter::once(0).chain(budgets.iter().copied()).enumerate();
    all.map(|(checkpoint, budget)| {
        let success: Vec<f64> = own.iter().map(|trace| trace[checkpoint].success).collect();
        let summary = Summary::of(&success)?;
        let over_random = match random {
            Some(random) if random.len() == own.len() => {
                let differences: Vec<f64> = success
                    .iter()
                    .zip(random)
                    .map(|(own, random)| own - random[checkpoint].success)
                    .collect();
                let summary = Summary::of(&differences)?;
                Some((summary.mean, summary.t_interval(0.95)?))
            }
            _ => None,
        };
        Ok(ProbePoint {
            budget,
            success: summary.mean,
            interval: summary.t_interval(0.95)?,
            cumulative: 100.0 * mean(cumulative.iter().map(|trial| trial[checkpoint]).collect()),
            utility: mean(own.iter().map(|trace| trace[checkpoint].utility).collect()),
            reward: mean(own.iter().map(|trace| trace[checkpoint].reward).collect()),
            over_random,
        })
    })
    .collect()
}
