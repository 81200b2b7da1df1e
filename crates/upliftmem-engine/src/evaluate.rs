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
    /// The same of the tasks that succeed without memory, with full performance in every run; none if there are none.
    pub left_alone: Option<f64>,
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
    /// Tasks that the first method does with full performance in every run.
    pub solved_alone: usize,
    /// One line a method, in the order given.
    pub arms: Vec<ArmResult>,
    /// What each method did on each task that counts, in the order of tasks.
    #[serde(skip)]
    pub details: Vec<Detail>,
}

/// What one method did on one task.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Detail {
    /// The task's name.
    pub task: String,
    /// The method.
    pub method: String,
    /// What was injected.
    pub memories: MemorySet,
    /// The uplift it predicted, if it predicts.
    pub predicted: Option<f64>,
    /// Mean utility over runs.
    pub utility: f64,
    /// Mean performance over runs.
    pub performance: f64,
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
    let details = (0..counted.len())
        .flat_map(|place| arms.iter().zip(&table).map(move |of| (place, of)))
        .map(|(place, (arm, outcomes))| {
            let task = counted[place];
            Detail {
                task: by_id[&task].name.clone(),
                method: arm.name.clone(),
                memories: set_of(arm, task).clone(),
                predicted: arm.predicted.get(&task).copied(),
                utility: mean(outcomes.iter().map(|run| run[place].0)),
                performance: mean(outcomes.iter().map(|run| run[place].1)),
            }
        })
        .collect();
    let alone = Alone {
        utility: over_runs(&table[0]),
        solved: (0..counted.len())
            .map(|task| table[0].iter().all(|run| run[task].1 >= 1.0))
            .collect(),
    };
    Ok(Evaluation {
        tasks: counted.len(),
        runs,
        executions: wanted.len(),
        failed,
        solved_alone: alone.solved.iter().filter(|&&solved| solved).count(),
        arms: arms
            .iter()
            .zip(&table)
            .map(|(arm, outcomes)| result(arm, &counted, outcomes, &alone))
            .collect::<Result<_>>()?,
        details,
    })
}

/// How tasks go with the first method, which is what the others are compared with.
struct Alone {
    /// Mean utility of each task over runs.
    utility: Vec<f64>,
    /// Whether its performance is full in every run.
    solved: Vec<bool>,
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

fn result(arm: &Arm, tasks: &[TaskId], outcomes: &[Vec<(f64, f64)>], alone: &Alone) -> Result<ArmResult> {
    let runs: Vec<f64> = outcomes
        .iter()
        .map(|run| mean(run.iter().map(|outcome| outcome.0)))
        .collect();
    let performance = mean(
        outcomes
            .iter()
            .map(|run| mean(run.iter().map(|outcome| outcome.1))),
    );
    let differences = paired_differences(&over_runs(outcomes), &alone.utility)?;
    let summary = Summary::of(&differences)?;
    let sizes: Vec<usize> = tasks.iter().map(|&task| set_of(arm, task).len()).collect();
    let used = sizes.iter().filter(|&&size| size > 0).count();
    let solved = sizes.iter().zip(&alone.solved).filter(|(_, solved)| **solved);
    let left: Vec<f64> = solved.map(|(&size, _)| f64::from(u8::from(size == 0))).collect();
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
        left_alone: (!left.is_empty()).then(|| mean(left.iter().copied())),
        memories: sizes.iter().sum::<usize>() as f64 / used.max(1) as f64,
        optimism: (predicted.len() == tasks.len()).then(|| mean(predicted.iter().copied()) - summary.mean),
    })
}
