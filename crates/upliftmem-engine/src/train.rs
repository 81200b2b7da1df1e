//! Algorithm 1: bootstrap, warm-up, the task stream, acquisition, updates. Paper: Algorithm 1.

use std::{collections::BTreeMap, sync::Arc};

use rand::{Rng, RngExt};
use rayon::prelude::*;
use serde::Serialize;
use serde_json::{Map, Value, json};
use tokio::task::JoinSet;
use upliftmem_core::{
    Ledger, MemorySet, Observation, Purpose, Reference, Rollout, RolloutId, Schedule, ScheduleRule,
    ScheduleStep, Task, TaskId,
};
use upliftmem_scorer::CompactSettings;
use upliftmem_store::{
    EntryKind, JournalEntry, ProbeBatchRecord, ProbeRecord, RecordedPath, Scope, ScorerVersion, Store,
    Timestamp,
};

use crate::{
    acquire::{Plan, Scene, plan},
    error::{Error, Result},
    learning::{Learning, LearningTexts},
    rollouts::{Rollouts, Settled},
    scoring::{BelievingScorer, sample, scorer_label},
    seeds::Seeds,
    serving::learning_texts,
    settings::EngineSettings,
    state::{Labelled, Learned, RunState, start_run},
    texts::{KnownTask, Offer, Texts},
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
    pub ledger: BTreeMap<String, upliftmem_core::LedgerLine>,
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
    /// How the scorer learns.
    pub compact: CompactSettings,
    /// The run's name: a run of the same name goes on where it stopped.
    pub run: String,
    /// Tasks that warm-up executes.
    pub seed_tasks: Vec<Task>,
    /// Tasks of the stream, in order.
    pub stream: Vec<Task>,
}

/// A run under way.
struct Running<'t> {
    trainer: &'t Trainer,
    seeds: Seeds,
    state: RunState,
    learning: Learning,
    scorer: Arc<dyn BelievingScorer>,
    tasks: BTreeMap<TaskId, Task>,
    ledger: Ledger,
    progress: OnProgress<'t>,
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
    fn fixed(&self) -> Result<Map<String, Value>> {
        let mut settings = self.settings.clone();
        // What only decides how fast and how far it goes may change.
        settings.execution = crate::settings::ExecutionSettings::default();
        settings.training.max_executions = 0;
        settings.training.max_cost = 0.0;
        let value = |settings: &dyn erased::Json| settings.json();
        let names = |tasks: &[Task]| -> Vec<Value> { tasks.iter().map(|task| json!(task.id)).collect() };
        let mut fixed = Map::new();
        fixed.insert("retrieval".into(), value(&settings.retrieval)?);
        fixed.insert("utility".into(), value(&settings.utility)?);
        fixed.insert("acquisition".into(), value(&settings.acquisition)?);
        fixed.insert("training".into(), value(&settings.training)?);
        fixed.insert("scorer".into(), value(&self.compact)?);
        fixed.insert("executor".into(), json!(self.rollouts.executor.name()));
        fixed.insert("seed tasks".into(), digest(&names(&self.seed_tasks)));
        fixed.insert("stream".into(), digest(&names(&self.stream)));
        Ok(fixed)
    }

    async fn resume<'t>(&'t self, progress: OnProgress<'t>) -> Result<Running<'t>> {
        let executor = self.rollouts.executor.name();
        let schedule = Schedule::new(self.rule())?;
        let mut state = RunState::new(&self.run, schedule, executor, &self.settings.retrieval);
        start_run(self.store.as_ref(), &self.scope, &state, &self.fixed()?).await?;
        let all: Vec<Task> = self.seed_tasks.iter().chain(&self.stream).cloned().collect();
        for tasks in all.chunks(self.store.limits().batch_items_max) {
            self.store.put_tasks(&self.scope, tasks.to_vec()).await?;
        }
        self.rollouts.take_back().await?;
        state.load(self.store.as_ref(), &self.scope).await?;
        let mut running = Running {
            trainer: self,
            seeds: Seeds::new(&self.run, self.settings.training.seed),
            learning: Learning::new(self.compact)?,
            scorer: Learning::new(self.compact)?.publish(),
            tasks: all.into_iter().map(|task| (task.id, task)).collect(),
            ledger: self.store.ledger(&self.scope).await?,
            state,
            progress,
        };
        let learned = running.state.learned;
        if learned.version > 0 {
            let texts = running.learning_texts(learned.labels).await?;
            running.learning.restore(&running.state.labels, learned, &texts)?;
            running.scorer = running.learning.publish();
        }
        Ok(running)
    }
}

/// Turning settings into JSON without naming their type.
mod erased {
    use serde::Serialize;

    pub(super) trait Json {
        fn json(&self) -> crate::error::Result<serde_json::Value>;
    }

    impl<T: Serialize> Json for T {
        fn json(&self) -> crate::error::Result<serde_json::Value> {
            serde_json::to_value(self).map_err(|error| {
                crate::error::Error::Internal(format!("settings can not be written: {error}"))
            })
        }
    }
}

/// A short name for a long list.
fn digest(values: &[Value]) -> Value {
    use sha2::{Digest, Sha256};
    let hash = Sha256::digest(Value::Array(values.to_vec()).to_string().as_bytes());
    let hex: String = hash[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    json!(format!("{} tasks, {hex}", values.len()))
}

impl Running<'_> {
    async fn go(&mut self) -> Result<RunEnd> {
        loop {
            let done = match self.state.schedule.due() {
                ScheduleStep::WarmUp => self.warm_up().await?,
                ScheduleStep::Task(_) => self.stream().await?,
                ScheduleStep::Acquire(count) => self.acquire(count).await?,
                ScheduleStep::Update(count) => {
                    self.update(Some(count), Vec::new()).await?;
                    true
                }
                ScheduleStep::Finished => {
                    self.learn_the_rest().await?;
                    return Ok(RunEnd::Finished);
                }
            };
            if !done {
                self.learn_the_rest().await?;
                return Ok(RunEnd::Budget);
            }
        }
    }

    /// Whatever was paid for is learned from.
    async fn learn_the_rest(&mut self) -> Result<()> {
        if self.state.learned.labels < self.state.labels.len() {
            self.update(None, Vec::new()).await?;
        }
        Ok(())
    }

    fn finish(self, end: RunEnd) -> Result<Trained> {
        let mean = |purpose: Purpose| {
            let uplifts: Vec<f64> = self
                .observations()
                .filter(|seen| seen.purpose == purpose)
                .map(|seen| seen.uplift.get())
                .collect();
            (!uplifts.is_empty()).then(|| uplifts.iter().sum::<f64>() / uplifts.len() as f64)
        };
        let ledger = Purpose::ALL.map(|purpose| {
            let name = serde_json::to_value(purpose).ok();
            let name = name
                .as_ref()
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned();
            (name, self.ledger.line(purpose))
        });
        let report = TrainingReport {
            run: self.trainer.run.clone(),
            end,
            tasks: self.state.tasks_done(),
            labels: self.observations().count(),
            references: self.state.references.len(),
            scorer: scorer_label(&self.scorer),
            ledger: ledger.into_iter().collect(),
            retrieval_uplift: mean(Purpose::Retrieval),
            probe_uplift: mean(Purpose::Probe),
        };
        Ok(Trained {
            scorer: self.scorer,
            report,
            state: self.state,
        })
    }

    fn observations(&self) -> impl Iterator<Item = &Observation> {
        self.state.labels.iter().filter_map(|label| match label {
            Labelled::Observation(seen) => Some(seen),
            Labelled::Reference(_) => None,
        })
    }

    /// Executions that the budget still allows.
    fn executions_left(&self) -> usize {
        let training = &self.trainer.settings.training;
        let spent = self.ledger.training();
        let by_count = match training.max_executions {
            0 => u64::MAX,
            most => most.saturating_sub(spent.executions),
        };
        // An execution may cost as much as the cap; only what fits even then is started.
        let by_cost = if training.max_cost > 0.0 {
            ((training.max_cost - spent.cost) / self.trainer.settings.utility.cost_max).max(0.0) as u64
        } else {
            u64::MAX
        };
        usize::try_from(by_count.min(by_cost)).unwrap_or(usize::MAX)
    }

    /// Gets executions done and pays for them.
    async fn settle(&mut self, what: &str, wanted: &[Rollout]) -> Result<BTreeMap<RolloutId, Settled>> {
        (self.progress)(Progress::Step {
            what: what.to_owned(),
            executions: wanted.len(),
        });
        let progress = self.progress;
        let on_settled = move |count: usize| progress(Progress::Executed(count));
        let settled = self
            .trainer
            .rollouts
            .settle(wanted, &self.tasks, &on_settled)
            .await?;
        for rollout in wanted {
            if let Some(Settled::Done(outcome)) = settled.get(&rollout.id) {
                self.ledger.enter(rollout.id, rollout.purpose, outcome.cost);
            }
        }
        Ok(settled)
    }

    /// Writes entries in one transaction, then takes them.
    async fn commit(&mut self, entries: Vec<JournalEntry>) -> Result<()> {
        let trainer = self.trainer;
        trainer
            .store
            .append(&trainer.scope, Timestamp::now(), entries.clone())
            .await?;
        for entry in &entries {
            self.state.take(entry)?;
        }
        Ok(())
    }

    /// The execution of a task without memory.
    fn reference_rollout(&self, task: TaskId) -> Rollout {
        let executor = self.trainer.rollouts.executor.name();
        self.seeds
            .rollout(Purpose::Reference, (0, 0), executor, task, &MemorySet::EMPTY)
    }

    /// The reference that a task needs, if it has none yet.
    fn missing_reference(&self, task: TaskId) -> Option<Rollout> {
        (!self.state.references.contains_key(&task)).then(|| self.reference_rollout(task))
    }

    /// The execution that is a task's reference, or will be.
    fn reference_of(&self, task: TaskId) -> RolloutId {
        match self.state.references.get(&task) {
            Some(reference) => reference.id.into(),
            None => self.reference_rollout(task).id,
        }
    }

    /// What executions taught, in order: references that are new, then labels. What failed teaches nothing.
    fn labels(
        &self,
        wanted: &[Rollout],
        settled: &BTreeMap<RolloutId, Settled>,
    ) -> Result<Vec<JournalEntry>> {
        let mut references: BTreeMap<TaskId, Reference> = BTreeMap::new();
        let mut entries = Vec::new();
        for rollout in wanted {
            let Some(Settled::Done(outcome)) = settled.get(&rollout.id) else {
                continue;
            };
            let utility = self.trainer.rollouts.worth(outcome)?;
            if rollout.set.is_empty() {
                let reference = Reference {
                    id: rollout.id.into(),
                    task: rollout.task,
                    executor: rollout.executor.clone(),
                    utility,
                };
                entries.push(JournalEntry::Reference(reference.clone()));
                references.insert(rollout.task, reference);
                continue;
            }
            let known = references.get(&rollout.task);
            let Some(reference) = known.or_else(|| self.state.references.get(&rollout.task)) else {
                continue;
            };
            let id = self.seeds.observation(rollout.id);
            entries.push(JournalEntry::Observation(Observation::new(
                id, rollout, utility, reference,
            )?));
        }
        Ok(entries)
    }

    /// Random sets of seed tasks, and the first version. Paper: Bootstrap and value-only warm-up.
    async fn warm_up(&mut self) -> Result<bool> {
        let tasks = self.trainer.seed_tasks.clone();
        let mut wanted = Vec::new();
        for (place, task) in (0..).zip(&tasks) {
            wanted.extend(self.missing_reference(task.id));
            let known = self
                .trainer
                .texts
                .tasks(std::slice::from_ref(task))
                .await?
                .remove(0);
            let offer = self.recall(&known).await?;
            let mut rng = self.seeds.rng("bootstrap", place);
            for index in 0..self.trainer.settings.training.bootstrap_sets as u64 {
                let set = self.random_set(&offer, &mut rng);
                if !set.is_empty() {
                    let executor = self.trainer.rollouts.executor.name();
                    wanted.push(self.seeds.rollout(
                        Purpose::Retrieval,
                        (place, index),
                        executor,
                        task.id,
                        &set,
                    ));
                }
            }
        }
        let mut seen = std::collections::BTreeSet::new();
        wanted.retain(|rollout| seen.insert(rollout.id));
        let left = self.executions_left();
        let new = |rollout: &Rollout| !self.ledger.contains(rollout.id);
        let affordable = affordable(&wanted, left, new);
        let complete = affordable == wanted.len();
        wanted.truncate(affordable);
        let settled = self.settle("warm-up", &wanted).await?;
        let mut entries = self.labels(&wanted, &settled)?;
        if !complete {
            self.commit(entries).await?;
            return Ok(false);
        }
        let done = self
            .state
            .event("warm-up", "warm-up", json!({ "tasks": tasks.len() }));
        if entries.is_empty() && self.state.labels.is_empty() {
            entries.push(done);
            self.commit(entries).await?;
            return Ok(true);
        }
        self.commit(entries).await?;
        self.update(None, vec![done]).await?;
        Ok(true)
    }

    fn random_set(&self, offer: &Offer, rng: &mut impl Rng) -> MemorySet {
        let candidates = offer.pool.candidates();
        let settings = &self.trainer.settings;
        let most = settings
            .training
            .bootstrap_members_max
            .min(settings.retrieval.memories_max)
            .min(candidates.len());
        if most == 0 {
            return MemorySet::EMPTY;
        }
        let size = rng.random_range(1..=most);
        let space = upliftmem_core::SearchSpace::new(&offer.pool, settings.retrieval.limits());
        let mut set = MemorySet::EMPTY;
        for _ in 0..size {
            let larger = set.with(candidates[rng.random_range(0..candidates.len())].id);
            if space.check(&larger).is_ok() {
                set = larger;
            }
        }
        set
    }

    async fn recall(&self, task: &KnownTask) -> Result<Offer> {
        self.trainer
            .texts
            .recall(task, &self.trainer.settings.retrieval)
            .await
    }

    /// Recalls for many tasks at once.
    async fn recall_all(&self, tasks: &[Arc<KnownTask>]) -> Result<Vec<Offer>> {
        let mut recalls = JoinSet::new();
        for (place, task) in tasks.iter().enumerate() {
            let (texts, task) = (Arc::clone(&self.trainer.texts), Arc::clone(task));
            let settings = self.trainer.settings.retrieval.clone();
            recalls.spawn(async move { (place, texts.recall(&task, &settings).await) });
        }
        let mut offers: BTreeMap<usize, Offer> = BTreeMap::new();
        while let Some(joined) = recalls.join_next().await {
            let (place, offer) =
                joined.map_err(|error| Error::Internal(format!("a recall stopped: {error}")))?;
            offers.insert(place, offer?);
        }
        Ok(offers.into_values().collect())
    }

    /// The next tasks of the stream, up to where the scorer or the window changes.
    fn next_counts(&self) -> Result<Vec<u64>> {
        let mut schedule = self.state.schedule.clone();
        let mut counts = Vec::new();
        while let ScheduleStep::Task(count) = schedule.due() {
            if counts.len() == self.trainer.settings.training.batch.max(1) {
                break;
            }
            counts.push(count);
            schedule.complete(ScheduleStep::Task(count))?;
        }
        Ok(counts)
    }

    /// Samples a path for each of the next tasks and executes it. Paper: SamplePath and Observe.
    async fn stream(&mut self) -> Result<bool> {
        let counts = self.next_counts()?;
        let stream = &self.trainer.stream;
        let tasks: Vec<Task> = counts
            .iter()
            .map(|&count| {
                let (_, place) = self.state.schedule.place(count);
                stream[usize::try_from(place).unwrap_or(usize::MAX)].clone()
            })
            .collect();
        let known = self.trainer.texts.tasks(&tasks).await?;
        let offers = self.recall_all(&known).await?;
        let policy = self.trainer.settings.retrieval.policy()?;
        let paths = counts
            .par_iter()
            .zip(&known)
            .zip(&offers)
            .map(|((&count, task), offer)| {
                let bound = self.scorer.bind(task.input(), &offer.inputs())?;
                let mut rng = self.seeds.rng("path", count);
                let settings = &self.trainer.settings.retrieval;
                sample(bound.as_ref(), &offer.pool, settings, policy, &mut rng)
            })
            .collect::<Result<Vec<_>>>()?;
        let executor = self.trainer.rollouts.executor.name();
        let mut wanted: Vec<Rollout> = Vec::new();
        let mut paths_taken = Vec::new();
        let mut done = 0;
        let mut left = self.executions_left();
        for (((&count, task), offer), path) in counts.iter().zip(&tasks).zip(&offers).zip(paths) {
            let rollout =
                self.seeds
                    .rollout(Purpose::Retrieval, (count, 0), executor, task.id, &path.terminal);
            let reference = self
                .missing_reference(task.id)
                .filter(|reference| wanted.iter().all(|other| other.id != reference.id));
            let needed: Vec<Rollout> = reference
                .into_iter()
                .chain((!path.terminal.is_empty()).then(|| rollout.clone()))
                .collect();
            let new = needed
                .iter()
                .filter(|rollout| !self.ledger.contains(rollout.id))
                .count();
            if new > left {
                break;
            }
            left -= new;
            done = count;
            wanted.extend(needed);
            let executed = if path.terminal.is_empty() {
                self.reference_of(task.id)
            } else {
                rollout.id
            };
            let recorded = RecordedPath {
                rollout: executed,
                count,
                task: task.id,
                scorer: scorer_label(&self.scorer),
                pool: offer.pool.clone(),
                path,
            };
            paths_taken.push(recorded);
        }
        if done == 0 {
            return Ok(false);
        }
        let settled = self.settle("stream", &wanted).await?;
        let mut entries = self.labels(&wanted, &settled)?;
        // A path that led to no outcome is nothing to learn from.
        paths_taken.retain(|path| {
            let known = self.state.references.get(&path.task);
            known.is_some_and(|reference| RolloutId::from(reference.id) == path.rollout)
                || matches!(settled.get(&path.rollout), Some(Settled::Done(_)))
        });
        entries.extend(paths_taken.into_iter().map(JournalEntry::Path));
        let failed = wanted
            .iter()
            .filter(|rollout| matches!(settled.get(&rollout.id), Some(Settled::Failed(_))))
            .count();
        entries.push(self.state.event(
            &format!("tasks/{done}"),
            "tasks",
            json!({ "last": done, "failed": failed }),
        ));
        self.commit(entries).await?;
        let rule = self.state.schedule.rule();
        (self.progress)(Progress::Stream {
            done,
            total: rule.tasks * rule.epochs,
        });
        Ok(counts.last() == Some(&done))
    }

    /// The window with all that deciding about it needs.
    async fn scenes(&self) -> Result<Vec<Scene>> {
        let mut scenes = Vec::with_capacity(self.state.window.len());
        for entry in &self.state.window {
            let Some(task) = self.tasks.get(&entry.task) else {
                continue;
            };
            let task = self
                .trainer
                .texts
                .tasks(std::slice::from_ref(task))
                .await?
                .remove(0);
            let ids: Vec<_> = entry
                .pool
                .candidates()
                .iter()
                .map(|candidate| candidate.id)
                .collect();
            let memories = self.trainer.texts.memories(&ids).await?;
            if memories.len() == ids.len() {
                scenes.push(Scene {
                    entry: entry.clone(),
                    task,
                    memories,
                });
            }
        }
        Ok(scenes)
    }

    /// Buys a batch of probes. Paper: SelectProbes and ObserveProbes.
    async fn acquire(&mut self, count: u64) -> Result<bool> {
        let trainer = self.trainer;
        let id = self.seeds.batch(count);
        let stored = trainer
            .store
            .entry(&trainer.scope, EntryKind::ProbeBatch, &id.to_string())
            .await?;
        let record = match stored.map(|stored| stored.entry) {
            Some(JournalEntry::ProbeBatch(record)) => record,
            _ => {
                let record = self.plan_batch(count).await?;
                self.commit(vec![JournalEntry::ProbeBatch(record.clone())])
                    .await?;
                record
            }
        };
        let executor = trainer.rollouts.executor.name();
        let wanted: Vec<Rollout> = (0..)
            .zip(&record.probes)
            .map(|(index, probe)| {
                self.seeds
                    .rollout(Purpose::Probe, (count, index), executor, probe.task, &probe.set)
            })
            .collect();
        let new = |rollout: &Rollout| !self.ledger.contains(rollout.id);
        if affordable(&wanted, self.executions_left(), new) < wanted.len() {
            return Ok(false);
        }
        let settled = self.settle("probes", &wanted).await?;
        let mut entries = self.labels(&wanted, &settled)?;
        entries.push(self.state.event(
            &format!("acquire/{count}"),
            "acquire",
            json!({ "count": count, "probes": wanted.len() }),
        ));
        self.commit(entries).await?;
        Ok(true)
    }

    async fn plan_batch(&mut self, count: u64) -> Result<ProbeBatchRecord> {
        let settings = &self.trainer.settings;
        let budget = settings.acquisition.probe_budget.min(self.executions_left());
        let scenes = self.scenes().await?;
        let mut rng = self.seeds.rng("acquire", count);
        let seed = rng.random();
        let plan = plan(
            self.scorer.as_ref(),
            &scenes,
            &settings.retrieval,
            &settings.acquisition,
            budget,
            &mut rng,
        )?;
        let executor = self.trainer.rollouts.executor.name();
        let probes = (0..).zip(&plan.chosen).map(|(index, chosen)| ProbeRecord {
            rollout: self
                .seeds
                .rollout(Purpose::Probe, (count, index), executor, chosen.task, &chosen.set)
                .id,
            task: chosen.task,
            set: chosen.set.clone(),
            marginal_value: chosen.pick.marginal_value,
        });
        Ok(ProbeBatchRecord {
            id: self.seeds.batch(count),
            strategy: settings.acquisition.strategy.name().to_owned(),
            scorer: scorer_label(&self.scorer),
            seed,
            probes: probes.collect(),
            decision: decision(&plan),
        })
    }

    /// Learns from everything so far and publishes a new version. Paper: Optimize.
    async fn update(&mut self, count: Option<u64>, mut also: Vec<JournalEntry>) -> Result<()> {
        let texts = self.learning_texts(self.state.labels.len()).await?;
        let (learned, report) = self.learning.update(&self.state.labels, &texts)?;
        self.scorer = self.learning.publish();
        let mut entries = vec![
            JournalEntry::ScorerVersion(self.version_record(learned, report.clone())),
            self.state.update_event(learned, count, report),
        ];
        entries.append(&mut also);
        self.commit(entries).await?;
        (self.progress)(Progress::Updated {
            version: learned.version,
            labels: learned.labels,
        });
        Ok(())
    }

    fn version_record(&self, learned: Learned, metrics: Map<String, Value>) -> ScorerVersion {
        use sha2::{Digest, Sha256};
        let mut hash = Sha256::new();
        for label in &self.state.labels[..learned.labels] {
            let (task, set, utility) = match label {
                Labelled::Reference(seen) => (seen.task, &MemorySet::EMPTY, seen.utility),
                Labelled::Observation(seen) => (seen.task, &seen.set, seen.utility),
            };
            hash.update(task.as_u128().to_le_bytes());
            for id in set {
                hash.update(id.as_u128().to_le_bytes());
            }
            hash.update(utility.get().to_le_bytes());
        }
        ScorerVersion {
            name: format!("{}/{}", self.trainer.run, self.scorer.name()),
            version: learned.version,
            digest: hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect(),
            location: String::new(),
            metrics,
        }
    }

    async fn learning_texts(&self, labels: usize) -> Result<LearningTexts> {
        let Trainer {
            store, scope, texts, ..
        } = self.trainer;
        learning_texts(store, scope, texts, &self.state.labels[..labels]).await
    }
}

/// How many of the first executions the budget allows; those already paid for are free.
fn affordable(wanted: &[Rollout], left: usize, new: impl Fn(&Rollout) -> bool) -> usize {
    let mut paid = 0;
    wanted
        .iter()
        .position(|rollout| {
            paid += usize::from(new(rollout));
            paid > left
        })
        .unwrap_or(wanted.len())
}

/// What a batch's record says of how it was chosen.
fn decision(plan: &Plan) -> Map<String, Value> {
    let mut decision = Map::new();
    decision.insert("pool".into(), json!(plan.pool));
    decision.insert("capped".into(), json!(plan.capped));
    decision.insert("comparisons".into(), json!(plan.comparisons));
    decision.insert("batch_value".into(), json!(plan.batch_value));
    decision.insert("residual_share".into(), json!(plan.residual_share));
    decision.insert(
        "picks".into(),
        plan.chosen
            .iter()
            .map(|chosen| json!({ "incumbent": chosen.incumbent, "pick": chosen.pick }))
            .collect(),
    );
    decision
}
