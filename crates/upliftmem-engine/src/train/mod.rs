//! Algorithm 1: bootstrap, warm-up, the task stream, acquisition, updates. Paper: Algorithm 1.
//!
//! One file a step; `run` goes from step to step and keeps the budget.

mod probes;
mod run;
mod stream;
mod update;
mod warm_up;
mod write;

use std::{collections::BTreeMap, sync::Arc};

use serde::Serialize;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use upliftmem_core::{LedgerLine, Schedule, ScheduleRule, ScheduleStep, Task};
use upliftmem_store::{Scope, Store};

use self::run::Running;
pub use self::write::{Writing, WritingSettings};
use crate::{
    error::Result,
    learning::{Learning, adapter_place},
    rollouts::Rollouts,
    scorers::ScorerPlan,
    scoring::BelievingScorer,
    seeds::{Seeds, hexadecimal},
    settings::{EngineSettings, ExecutionSettings},
    state::{RunState, start_run},
    texts::Texts,
};

/// What a run reports while it goes.
#[derive(Debug, Clone, PartialEq)]
pub enum Progress {
    /// A step begins that wants so many executions.
    Step {
        /// What it is, in words.
        what: String,
        /// Executions it wants.
        executions: usize,
    },
    /// So many executions ended.
    Executed(usize),
    /// The stream is so far.
    Stream {
        /// Tasks done.
        done: u64,
        /// Tasks in all.
        total: u64,
    },
    /// A language model learns; it has read so many tokens.
    Learning {
        /// Tokens read.
        tokens: u64,
        /// About how many it will read.
        total: u64,
    },
    /// A new version was published.
    Updated {
        /// Its number.
        version: u64,
        /// Labels it rests on.
        labels: usize,
    },
}

/// Called with every [`Progress`].
pub type OnProgress<'a> = &'a (dyn Fn(Progress) + Send + Sync);

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RunEnd {
    /// The stream is over.
    Finished,
    /// The budget is spent. The same run with a larger one goes on from here.
    Budget,
}

/// What a run has come to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TrainingReport {
    /// The run.
    pub run: String,
    /// Why it ended.
    pub end: RunEnd,
    /// Tasks of the stream that are done.
    pub tasks: u64,
    /// Labels with memories.
    pub labels: usize,
    /// References.
    pub references: usize,
    /// The scorer's version.
    pub scorer: String,
    /// What the executions of the whole scope cost, by purpose.
    pub ledger: BTreeMap<String, LedgerLine>,
    /// Mean observed uplift of ordinary retrievals.
    pub retrieval_uplift: Option<f64>,
    /// Mean observed uplift of probes.
    pub probe_uplift: Option<f64>,
}

/// A run of Algorithm 1.
pub struct Trainer {
    /// Where everything is kept.
    pub store: Arc<dyn Store>,
    /// Whose.
    pub scope: Scope,
    /// Where texts get their vectors.
    pub texts: Arc<Texts>,
    /// What executes.
    pub rollouts: Rollouts,
    /// How it goes.
    pub settings: EngineSettings,
    /// What predicts uplift, and how it learns.
    pub scorer: ScorerPlan,
    /// The run's name: a run of the same name goes on where it stopped.
    pub run: String,
    /// Tasks that warm-up executes.
    pub seed_tasks: Vec<Task>,
    /// Tasks of the stream, in order.
    pub stream: Vec<Task>,
    /// Who writes memories from the stream's episodes, if anyone does.
    pub writing: Option<Writing>,
}

/// A trained scorer with the report of its run.
pub struct Trained {
    /// What sets are worth.
    pub scorer: Arc<dyn BelievingScorer>,
    /// What it took.
    pub report: TrainingReport,
    /// Where the run stands.
    pub state: RunState,
}

impl Trainer {
    /// Runs to the end of the stream or of the budget, from wherever it stands.
    pub async fn train(&self, progress: OnProgress<'_>) -> Result<Trained> {
        let mut running = self.resume(progress).await?;
        let end = running.go().await?;
        running.finish(end)
    }

    /// The scorer as the run left it, without doing anything more.
    pub async fn restore(&self) -> Result<Trained> {
        let running = self.resume(&|_| {}).await?;
        let end = match running.state.schedule.due() {
            ScheduleStep::Finished => RunEnd::Finished,
            _ => RunEnd::Budget,
        };
        running.finish(end)
    }

    fn rule(&self) -> ScheduleRule {
        ScheduleRule {
            tasks: self.stream.len() as u64,
            epochs: self.settings.training.epochs,
            acquisition_interval: self.settings.acquisition.acquisition_interval,
            updates: self.settings.training.updates.clone(),
        }
    }

    /// What must not change between two parts of a run.
    fn fixed(&self) -> Map<String, Value> {
        let mut settings = self.settings.clone();
        // What only decides how fast and how far it goes may change.
        settings.execution = ExecutionSettings::default();
        settings.training.max_executions = 0;
        settings.training.max_cost = 0.0;
        let fixed = json!({
            "retrieval": settings.retrieval,
            "utility": settings.utility,
            "acquisition": settings.acquisition,
            "training": settings.training,
            "scorer": self.scorer.described(),
            "executor": self.rollouts.executor.name(),
            "seed tasks": digest(&self.seed_tasks),
            "stream": digest(&self.stream),
            "writer": self.writing.as_ref().map(|writing| json!({
                "name": writing.writer.name(),
                "settings": writing.settings,
            })),
        });
        match fixed {
            Value::Object(fixed) => fixed,
            _ => Map::new(),
        }
    }

    async fn resume<'t>(&'t self, progress: OnProgress<'t>) -> Result<Running<'t>> {
        let executor = self.rollouts.executor.name();
        let schedule = Schedule::new(self.rule())?;
        let mut state = RunState::new(&self.run, schedule, executor, &self.settings.retrieval);
        start_run(self.store.as_ref(), &self.scope, &state, &self.fixed()).await?;
        let all: Vec<Task> = self.seed_tasks.iter().chain(&self.stream).cloned().collect();
        for tasks in all.chunks(self.store.limits().batch_items_max) {
            self.store.put_tasks(&self.scope, tasks.to_vec()).await?;
        }
        self.rollouts.take_back().await?;
        state.load(self.store.as_ref(), &self.scope).await?;
        let mut running = Running {
            trainer: self,
            seeds: Seeds::new(&self.run, self.settings.training.seed),
            learning: Learning::training(&self.scorer, &adapter_place(&self.scope, &self.run))?,
            scorer: Learning::serving(
                &self.scorer,
                self.scorer.lm().and_then(|lm| lm.settings.adapter.as_ref()),
            )?
            .publish()?,
            tasks: all.into_iter().map(|task| (task.id, task)).collect(),
            ledger: self.store.ledger(&self.scope).await?,
            state,
            progress,
        };
        running.admit(&running.state.admitted).await?;
        let learned = running.state.learned;
        if learned.version > 0 {
            let texts = running.learning_texts(learned.labels).await?;
            running.learning.restore(&running.state.labels, learned, &texts)?;
            running.scorer = running.learning.publish()?;
        }
        Ok(running)
    }
}

/// A short name for a long list.
fn digest(tasks: &[Task]) -> String {
    let mut hash = Sha256::new();
    for task in tasks {
        hash.update(task.id.as_u128().to_le_bytes());
    }
    format!("{} tasks, {}", tasks.len(), hexadecimal(&hash.finalize()[..8]))
}
