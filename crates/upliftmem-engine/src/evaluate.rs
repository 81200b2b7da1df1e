//! Methods side by side on tasks that nothing was learned from. Paper: app. metrics.

use std::collections::BTreeMap;

use serde::Serialize;
use upliftmem_core::{
    InvalidInput, MemorySet, Purpose, Rollout, RolloutId, Task, TaskId,
    statistics::{Interval, Summary, paired_differences},
};

use crate::{
    error::Result,
    rollouts::{Rollouts, Settled},
    seeds::Seeds,
    train::{OnProgress, Progress},
};

/// What one method would inject into each task.
#[derive(Debug, Clone, PartialEq)]
pub struct Arm {
    /// The method's name.
    pub name: String,
    /// Its set for each task; a task that is missing gets none.
    pub sets: BTreeMap<TaskId, MemorySet>,
    /// The uplift it predicted, if it predicts.
    pub predicted: BTreeMap<TaskId, f64>,
}

/// How one method did.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ArmResult {
    /// The method.
    pub name: String,
    /// Mean utility over tasks, then over runs.
    pub utility: f64,
    /// Sample deviation of the mean over runs; none with a single run.
    pub deviation: Option<f64>,
    /// Mean performance.
    pub performance: f64,
    /// Mean uplift over no memory, and its interval over tasks.
    pub uplift: f64,
    /// 95 % interval of the uplift, paired by task.
    pub interval: Option<Interval>,
    /// Share of tasks that did worse than without memory, on average over runs.
    pub harmed: f64,
    /// Share of tasks that got no memory.
    pub abstained: f64,
    /// Mean number of memories of the others.
    pub memories: f64,
    /// Mean predicted minus mean observed uplift, of methods that predict.
    pub optimism: Option<f64>,
}

/// A whole comparison.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Evaluation {
    /// Tasks that every method was executed on in every run.
    pub tasks: usize,
    /// Times each task was executed with each set.
    pub runs: usize,
    /// Distinct executions that it took: methods that agree share one.
    pub executions: usize,
    /// Executions that failed; their tasks are left out for every method.
    pub failed: usize,
    /// One line a method, in the order given.
    pub arms: Vec<ArmResult>,
}

/// Executes every method's sets, `runs` times each, the same randomness for all. The first arm is what the others are
/// compared with.
pub async fn evaluate(
    rollouts: &Rollouts,
    seeds: &Seeds,
    tasks: &[Task],
    arms: &[Arm],
    runs: usize,
    progress: OnProgress<'_>,
) -> Result<Evaluation> {
    if arms.is_empty() || tasks.is_empty() || runs == 0 {
        return Err(InvalidInput::new("evaluation", "needs a method, a task and a run at least").into());
    }
    let by_id: BTreeMap<TaskId, Task> = tasks.iter().map(|task| (task.id, task.clone())).collect();
    let rollout = |run: usize, task: TaskId, set: &MemorySet| {
        let place = (run as u64, 0);
        seeds.rollout(Purpose::Evaluation, place, rollouts.executor.name(), task, set)
    };
    let mut wanted: BTreeMap<RolloutId, Rollout> = BTreeMap::new();
    for arm in arms {
        for &task in by_id.keys() {
            for run in 0..runs {
                let rollout = rollout(run, task, set_of(arm, task));
                wanted.insert(rollout.id, rollout);
            }
        }
    }
    let wanted: Vec<Rollout> = wanted.into_values().collect();
    progress(Progress::Step {
        what: "evaluation".into(),
        executions: wanted.len(),
    });
    let settled = rollouts
        .settle(&wanted, &by_id, &|count| progress(Progress::Executed(count)))
        .await?;
    let failed = settled
        .values()
        .filter(|end| matches!(end, Settled::Failed(_)))
        .count();
    // A task counts only if every method has an outcome in every run.
    let mut table: Vec<Vec<Vec<(f64, f64)>>> = vec![vec![Vec::new(); runs]; arms.len()];
    let mut counted = Vec::new();
    for &task in by_id.keys() {
        let mut outcomes = Vec::with_capacity(arms.len() * runs);
        for arm in arms {
            for run in 0..runs {
                if let Some(Settled::Done(outcome)) = settled.get(&rollout(run, task, set_of(arm, task)).id) {
                    outcomes.push((rollouts.worth(outcome)?.get(), outcome.performance.get()));
                }
            }
        }
        if outcomes.len() == arms.len() * runs {
            counted.push(task);
            for (place, outcome) in outcomes.into_iter().enumerate() {
                table[place / runs][place % runs].push(outcome);
            }
        }
    }
    if counted.is_empty() {
        return Err(InvalidInput::new("evaluation", "every task failed; see the executor's messages").into());
    }
    let base = over_runs(&table[0]);
    Ok(Evaluation {
        tasks: counted.len(),
        runs,
        executions: wanted.len(),
        failed,
        arms: arms
            .iter()
            .zip(&table)
            .map(|(arm, outcomes)| result(arm, &counted, outcomes, &base))
            .collect::<Result<_>>()?,
    })
}

fn set_of(arm: &Arm, task: TaskId) -> &MemorySet {
    static NOTHING: MemorySet = MemorySet::EMPTY;
    arm.sets.get(&task).unwrap_or(&NOTHING)
}

/// Mean utility of each task over runs.
fn over_runs(outcomes: &[Vec<(f64, f64)>]) -> Vec<f64> {
    let tasks = outcomes[0].len();
    (0..tasks)
        .map(|task| outcomes.iter().map(|run| run[task].0).sum::<f64>() / outcomes.len() as f64)
        .collect()
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len().max(1) as f64;
    values.sum::<f64>() / count
}

fn result(arm: &Arm, tasks: &[TaskId], outcomes: &[Vec<(f64, f64)>], base: &[f64]) -> Result<ArmResult> {
    let runs: Vec<f64> = outcomes
        .iter()
        .map(|run| mean(run.iter().map(|outcome| outcome.0)))
        .collect();
    let performance = mean(
        outcomes
            .iter()
            .map(|run| mean(run.iter().map(|outcome| outcome.1))),
    );
    let differences = paired_differences(&over_runs(outcomes), base)?;
    let summary = Summary::of(&differences)?;
    let sizes: Vec<usize> = tasks.iter().map(|&task| set_of(arm, task).len()).collect();
    let used = sizes.iter().filter(|&&size| size > 0).count();
    let predicted: Vec<f64> = tasks
        .iter()
        .filter_map(|task| arm.predicted.get(task).copied())
        .collect();
    Ok(ArmResult {
        name: arm.name.clone(),
        utility: mean(runs.iter().copied()),
        deviation: Summary::of(&runs)?.standard_deviation,
        performance,
        uplift: summary.mean,
        interval: summary.t_interval(0.95)?,
        harmed: differences.iter().filter(|&&difference| difference < 0.0).count() as f64
            / tasks.len() as f64,
        abstained: (tasks.len() - used) as f64 / tasks.len() as f64,
        memories: sizes.iter().sum::<usize>() as f64 / used.max(1) as f64,
        optimism: (predicted.len() == tasks.len()).then(|| mean(predicted.iter().copied()) - summary.mean),
    })
}
