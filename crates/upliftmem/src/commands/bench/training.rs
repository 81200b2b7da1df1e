//! `bench train`: training tasks a second when executing takes no time, and what the time goes to.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use clap::Args;
use serde::Serialize;
use upliftmem_bench::{
    WorldExecutor,
    worlds::{World, WorldKind},
};
use upliftmem_engine::{Progress, Strategy};

use crate::{
    config::{Config, ExecutorKind},
    context::Context,
    output::{Output, Table},
};

#[derive(Debug, Args)]
pub(super) struct TrainingArguments {
    /// The world whose tasks are learned from; executing one takes no time.
    #[arg(long, default_value = "look_alikes")]
    world: WorldKind,
    /// Times its tasks are gone through.
    #[arg(long, default_value_t = 3)]
    epochs: u64,
    /// How probes are chosen, one run after the other.
    #[arg(long, value_delimiter = ',', default_value = "none,random,evsi")]
    strategies: Vec<Strategy>,
    /// Where the stores are written.
    #[arg(long, default_value = "bench-train")]
    out: PathBuf,
}

#[derive(Debug, Serialize)]
struct Measured {
    strategy: Strategy,
    tasks: u64,
    executions: u64,
    seconds: f64,
    tasks_per_second: f64,
    executions_per_second: f64,
    /// Seconds by what they went to.
    spent: BTreeMap<&'static str, f64>,
}

pub(super) async fn training(arguments: &TrainingArguments, config: &Config, output: Output) -> Result<()> {
    std::fs::create_dir_all(&arguments.out)
        .with_context(|| format!("{} can not be made", arguments.out.display()))?;
    let world = Arc::new(World::generate(arguments.world, 1)?);
    let mut all = Vec::new();
    for &strategy in &arguments.strategies {
        let mut config = config.clone();
        config.directory = std::path::absolute(&arguments.out)?;
        config.executor.kind = ExecutorKind::World;
        config.executor.world = arguments.world.name().into();
        config.executor.world_seed = 1;
        config.executor.concurrency = 64;
        config.training.epochs = arguments.epochs;
        config.acquisition.strategy = strategy;
        config.utility = serde_json::from_value(serde_json::to_value(world.utility_rule())?)?;
        all.push(measure(&config, &world, strategy, output).await?);
    }
    let mut table = Table::new(&["probes", "tasks", "executions", "s", "tasks/s", "time went to"]);
    for measured in &all {
        let spent = measured.spent.iter();
        let spent: Vec<String> = spent
            .map(|(what, seconds)| format!("{what} {:.0} %", 100.0 * seconds / measured.seconds))
            .collect();
        table.row(vec![
            measured.strategy.to_string(),
            measured.tasks.to_string(),
            measured.executions.to_string(),
            format!("{:.1}", measured.seconds),
            format!("{:.0}", measured.tasks_per_second),
            spent.join(", "),
        ]);
    }
    output.result(&all, || table.text())
}

async fn measure(
    config: &Config,
    world: &Arc<World>,
    strategy: Strategy,
    output: Output,
) -> Result<Measured> {
    let context = Context::fresh(config.clone(), &format!("{strategy}.db"), output).await?;
    context.fill(world.memories()).await?;
    let executor = Arc::new(WorldExecutor::new(Arc::clone(world)));
    let trainer = context.trainer("bench", executor, Vec::new(), world.train_tasks().to_vec())?;
    let clock = Mutex::new(PhaseClock {
        last: Instant::now(),
        spent: BTreeMap::new(),
    });
    let began = Instant::now();
    let trained = trainer
        .train(&|progress| {
            // A clock is right whoever stopped while holding it.
            clock
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take(&progress);
        })
        .await?;
    let seconds = began.elapsed().as_secs_f64();
    let executions: u64 = trained.report.ledger.values().map(|line| line.executions).sum();
    let clock = clock.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(Measured {
        strategy,
        tasks: trained.report.tasks,
        executions,
        seconds,
        tasks_per_second: trained.report.tasks as f64 / seconds,
        executions_per_second: executions as f64 / seconds,
        spent: clock
            .spent
            .into_iter()
            .map(|(what, time)| (what, time.as_secs_f64()))
            .collect(),
    })
}

/// Time between what a run reports, by what came of it.
struct PhaseClock {
    last: Instant,
    spent: BTreeMap<&'static str, Duration>,
}

impl PhaseClock {
    fn take(&mut self, progress: &Progress) {
        let what = match progress {
            Progress::Step { what, .. } if what == "probes" => "planning probes",
            Progress::Step { .. } => "choosing sets",
            Progress::Executed(_) => "executing",
            Progress::Learning { .. } | Progress::Updated { .. } => "learning",
            Progress::Stream { .. } => "recording",
        };
        let now = Instant::now();
        *self.spent.entry(what).or_default() += now - self.last;
        self.last = now;
    }
}
