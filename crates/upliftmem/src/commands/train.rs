//! `train` and `report`.

use std::{path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use upliftmem_agent::Executor;
use upliftmem_core::Task;
use upliftmem_engine::{
    Effect, EngineSettings, Error, HelpReport, Pause, RunEnd, Strategy, TrainingReport, adapt, help_report,
};
use upliftmem_store::Error as StoreError;

use crate::{
    config::{Config, ExecutorKind},
    context::{Context, is_postgres, open_world, read_tasks},
    figures,
    output::{Table, signed, strong},
    progress::Show,
};

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Preset {
    /// What works best.
    Default,
    /// Every choice as in the paper.
    Paper,
}

/// What part of the method is left out.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Ablation {
    /// No learning at all.
    Base,
    /// Warm-up, no stream.
    WarmUp,
    /// Probes are chosen at random.
    RandomProbes,
    /// No probes.
    NoProbes,
}

#[derive(Debug, Args)]
pub(crate) struct TrainArguments {
    /// The stream: a JSON Lines file of tasks {"id", "context"} [default: all tasks of the world].
    #[arg(long, value_name = "FILE")]
    tasks: Option<PathBuf>,
    /// How many of the first tasks are seed tasks, for warm-up.
    #[arg(long, default_value_t = 100)]
    seed_tasks: usize,
    /// The run's name: a run of the same name goes on where it stopped.
    #[arg(long, default_value = "main")]
    run: String,
    /// How probes are chosen.
    #[arg(long)]
    strategy: Option<Strategy>,
    /// Stop after so many executions.
    #[arg(long, value_name = "N")]
    max_executions: Option<u64>,
    /// Stop after so much cost.
    #[arg(long, value_name = "COST")]
    max_cost: Option<f64>,
    /// Randomness of the run.
    #[arg(long)]
    seed: Option<u64>,
    /// Times the stream is gone through.
    #[arg(long)]
    epochs: Option<u64>,
    /// A set of choices to start from.
    #[arg(long, value_enum, default_value = "default")]
    preset: Preset,
    /// Leave a part of the method out.
    #[arg(long, value_enum)]
    ablation: Option<Ablation>,
    /// Execute nothing here: `upliftmem worker` does it all.
    #[arg(long)]
    workers_only: bool,
    /// Execute nothing at all: train the language model's adapter on the
    /// labels there are.
    #[arg(long, conflicts_with_all = ["tasks", "workers_only", "max_executions", "max_cost", "ablation"])]
    labels_only: bool,
}

impl TrainArguments {
    fn apply(&self, config: &mut Config) {
        if matches!(self.preset, Preset::Paper) {
            let paper = EngineSettings::paper();
            config.retrieval.stop_prior = paper.retrieval.stop_prior;
            config.retrieval.exploration = paper.retrieval.exploration;
            config.retrieval.sampled_memories_max = paper.retrieval.sampled_memories_max;
            config.acquisition = paper.acquisition;
            config.training.epochs = paper.training.epochs;
            config.training.updates = paper.training.updates;
            config.scorer.labels = upliftmem_scorer::LabelKind::Paired;
            config.lm.losses = upliftmem_core::objectives::LossPreset::Paper;
            config.lm.learning_rate = 1e-5;
        }
        match self.ablation {
            Some(Ablation::Base | Ablation::WarmUp) => config.training.epochs = 0,
            Some(Ablation::RandomProbes) => config.acquisition.strategy = Strategy::Random,
            Some(Ablation::NoProbes) => config.acquisition.strategy = Strategy::None,
            None => {}
        }
        if let Some(strategy) = self.strategy {
            config.acquisition.strategy = strategy;
        }
        if let Some(most) = self.max_executions {
            config.training.max_executions = most;
        }
        if let Some(most) = self.max_cost {
            config.training.max_cost = most;
        }
        if let Some(seed) = self.seed {
            config.training.seed = seed;
        }
        if let Some(epochs) = self.epochs {
            config.training.epochs = epochs;
        }
    }
}

/// The tasks of a file, or of the world that is the executor.
pub(crate) fn tasks_of(config: &Config, file: Option<&PathBuf>, held_out: bool) -> Result<Vec<Task>> {
    match file {
        Some(file) => read_tasks(file),
        None if config.executor.kind == ExecutorKind::World => {
            let world = open_world(config)?;
            let tasks = if held_out {
                world.test_tasks()
            } else {
                world.train_tasks()
            };
            Ok(tasks.to_vec())
        }
        None => bail!("no tasks are given\n  --tasks FILE names a JSON Lines file of {{\"id\",\"context\"}}"),
    }
}

pub(crate) async fn train(mut context: Context, arguments: TrainArguments) -> Result<()> {
    arguments.apply(&mut context.config);
    if arguments.labels_only {
        return adapted(&context, &arguments.run).await;
    }
    let executor = context.executor()?;
    if arguments.workers_only {
        context.config.executor.concurrency = 0;
    }
    let tasks = tasks_of(&context.config, arguments.tasks.as_ref(), false)?;
    let seeds = if matches!(arguments.ablation, Some(Ablation::Base)) {
        0
    } else {
        arguments.seed_tasks.min(tasks.len())
    };
    let (seed_tasks, stream) = tasks.split_at(seeds);
    let show = Show::new(context.output);
    let run = Led {
        context: &context,
        run: &arguments.run,
        executor,
        seed_tasks,
        stream,
        show: &show,
    };
    let report = run.to_the_end().await?;
    show.finish();
    context.output.result(&report, || summary(&report))
}

/// Trains an adapter on the labels there are; its versions are counted apart from those of runs that execute.
async fn adapted(context: &Context, run: &str) -> Result<()> {
    let (plan, labels) = (context.scorer_plan()?, context.labels().await?);
    let show = Show::new(context.output);
    let run = format!("{run}-labels");
    let adapted = adapt(
        &context.store,
        &context.scope,
        &context.texts,
        (&plan, &run),
        &labels,
        &|progress| show.take(progress),
    )
    .await?;
    show.finish();
    context.output.result(&adapted, || {
        format!(
            "version {} of {:?} learned from {} labels\n{}\n`upliftmem search` uses it, and servers take it over",
            adapted.version, adapted.run, adapted.labels, adapted.location
        )
    })
}

/// How long a process waits before it asks again to lead a run that another leads.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// A run that one process leads at a time. Others wait, and go on with it where it stands when the leader is gone.
struct Led<'a> {
    context: &'a Context,
    run: &'a str,
    executor: Arc<dyn Executor>,
    seed_tasks: &'a [Task],
    stream: &'a [Task],
    show: &'a Show,
}

impl Led<'_> {
    async fn to_the_end(&self) -> Result<TrainingReport> {
        let mut pause = Pause::default();
        loop {
            let error = match self.once().await {
                Ok(report) => return Ok(report),
                Err(error) => error,
            };
            // Another leads now: this one waits with the others.
            if matches!(error, Error::Store(StoreError::Deposed { .. })) {
                tracing::warn!(%error, "waiting to lead again");
                continue;
            }
            // A file that is gone does not come back; a server that is away does.
            if !is_postgres(&self.context.config.store.location) {
                return Err(error.into());
            }
            match (&error, pause.after(&error)) {
                (Error::Store(_), Some(wait)) => {
                    tracing::warn!(%error, "waiting, then going on from where the run stands");
                    tokio::time::sleep(wait).await;
                }
                _ => return Err(error.into()),
            }
        }
    }

    /// Leads the run from where it stands to its end.
    async fn once(&self) -> Result<TrainingReport, Error> {
        let (store, scope) = (&self.context.store, &self.context.scope);
        let name = format!("run:{}", self.run);
        let mut told = false;
        let leadership = loop {
            if let Some(leadership) = store.lead(scope, &name).await? {
                break leadership;
            }
            if !told {
                tracing::warn!(
                    run = self.run,
                    "another process leads this run; waiting to take over"
                );
                told = true;
            }
            tokio::time::sleep(ASK_AGAIN).await;
        };
        tracing::info!(run = self.run, token = leadership.token, "leading");
        let context = self.context.through(Arc::clone(&leadership.store));
        let trainer = context
            .trainer(
                self.run,
                Arc::clone(&self.executor),
                self.seed_tasks.to_vec(),
                self.stream.to_vec(),
            )
            .map_err(|error| Error::Internal(format!("{error:#}")))?;
        let trained = trainer.train(&|progress| self.show.take(progress)).await?;
        Ok(trained.report)
    }
}

fn summary(report: &TrainingReport) -> String {
    let mut table = Table::new(&["executions for", "number", "cost"]);
    for (purpose, line) in &report.ledger {
        if line.executions > 0 {
            table.row(vec![
                purpose.clone(),
                line.executions.to_string(),
                format!("{:.1}", line.cost),
            ]);
        }
    }
    let mean = |uplift: Option<f64>| uplift.map_or_else(|| "-".to_owned(), signed);
    let end = match report.end {
        RunEnd::Finished => "finished",
        RunEnd::Budget => "stopped at its budget; a larger one goes on from here",
    };
    format!(
        "{}\n{} tasks, {} labels, {} references: {}\nmean uplift while training: {} by retrieval, {} by probes\n\n{}\n\
         `upliftmem search` uses it; `upliftmem eval` compares it on other tasks",
        strong(&format!("run {:?} {end}", report.run)),
        report.tasks,
        report.labels,
        report.references,
        report.scorer,
        mean(report.retrieval_uplift),
        mean(report.probe_uplift),
        table.text()
    )
}

#[derive(Debug, Args)]
pub(crate) struct ReportArguments {
    /// Memories to show at each end of the list.
    #[arg(long, default_value_t = 5)]
    memories: usize,
    /// Also write figures (SVG and PNG) into this folder: uplift, calibration, coverage, executions, learning.
    #[arg(long, value_name = "FOLDER")]
    figures: Option<PathBuf>,
}

pub(crate) async fn report(context: &Context, arguments: &ReportArguments) -> Result<()> {
    let report = help_report(&context.store, &context.scope).await?;
    if let Some(folder) = &arguments.figures {
        let mut all = figures::of_store(context).await?;
        all.push(figures::learning(&[("retrieval".into(), context)]).await?);
        for file in figures::write(folder, &all, context.output)? {
            context.output.note(&format!("wrote {}", file.display()));
        }
    }
    if context.output.json {
        return context.output.line(&serde_json::to_string(&report)?);
    }
    let shown = arguments.memories;
    let ids: Vec<_> = report.memories.iter().map(|effect| effect.id).collect();
    let mut texts = std::collections::BTreeMap::new();
    for memory in context.texts.memories(&ids).await? {
        texts.insert(memory.id, memory.text.clone());
    }
    let mut text = verdict(&report);
    let mut table = Table::new(&["effect", "runs", "memory"]);
    let count = report.memories.len();
    for (place, effect) in report.memories.iter().enumerate() {
        if place < shown || place + shown >= count {
            table.row(vec![
                signed(effect.effect),
                effect.executions.to_string(),
                texts
                    .get(&effect.id)
                    .cloned()
                    .unwrap_or_else(|| effect.id.to_string()),
            ]);
        }
    }
    if count > 0 {
        text += &format!("\nmost harmful and most helpful of {count} memories that were executed\n");
        text += &table.text();
    }
    context.output.line(text.trim_end())
}

fn verdict(report: &HelpReport) -> String {
    let mut table = Table::new(&["compared", "uplift", "pairs", "95 % interval"]);
    let mut row = |name: &str, effect: Option<&Effect>| {
        table.row(vec![
            name.to_owned(),
            effect.map_or_else(|| "-".into(), |effect| signed(effect.mean)),
            effect.map_or(0, |effect| effect.pairs).to_string(),
            effect
                .and_then(|effect| effect.interval)
                .map_or_else(String::new, |interval| {
                    format!("[{}, {}]", signed(interval.low), signed(interval.high))
                }),
        ]);
    };
    row("retrievals against no memory", report.retrievals.as_ref());
    row("probes against no memory", report.probes.as_ref());
    row("control, no memory against itself", report.control.as_ref());
    let answer = match report.retrievals.as_ref().and_then(|effect| effect.interval) {
        None => "not enough executions to say whether memory helps",
        Some(interval) if interval.low > 0.0 => "memory helps",
        Some(interval) if interval.high < 0.0 => "memory hurts",
        Some(_) => "it is not clear yet whether memory helps",
    };
    let mut text = format!("{}\n\n{}\n", strong(answer), table.text());
    if report.retrievals.is_some() {
        text += &format!("harmful retrievals: {:.0} %\n", 100.0 * report.harmed);
    }
    if let Some(abstained) = report.abstained {
        text += &format!("searches answered with no memory: {:.0} %\n", 100.0 * abstained);
    }
    text
}
