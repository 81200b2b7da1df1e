//! How labels are gathered, and the scorer that gathers them.
//!
//! A stream of tasks whose sets are sampled by the engine from the scorer of the time, then more executions of the
//! stream's tasks: probes, planned by the engine in rounds by any of its strategies. Every task has one reference.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use rand::{Rng, RngExt, SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;
use upliftmem_core::{MemorySet, ReferenceId, Task, TaskId};
use upliftmem_engine::{ProbeSettings, Result, RetrievalSettings, Scene, Strategy, plan, sample};
use upliftmem_scorer::{
    CompactLearner, CompactScorer, CompactSettings, FitReport, Label, LabelKind, SetScorer,
};

use super::arena::{Arena, MEMORIES_MAX};

const STREAM: usize = 300;
/// New labels that make another fit worthwhile: so many, and such a share of those that were fitted.
const REFIT_AFTER: f64 = 10.0;
const REFIT_GROWTH: f64 = 0.4;
/// Labels after which a new version is published.
const PUBLISH_EVERY: usize = 5;
/// Probes that are planned together: so many, and such a share of the labels there are; and tasks of the stream that
/// they are planned for.
const ROUND_PROBES: usize = 50;
const ROUND_GROWTH: f64 = 0.125;
const ROUND_TASKS: usize = 100;

/// One label: an execution with memories, and the reference of its task.
#[derive(Debug, Clone, PartialEq)]
pub struct Execution {
    /// The task.
    pub task: Task,
    /// The set used.
    pub set: MemorySet,
    /// What it was worth.
    pub utility: f64,
    /// What the reference was worth.
    pub reference: f64,
}

/// A compact scorer that gathers labels as it learns.
#[derive(Clone)]
pub struct Gathering<'a> {
    arena: &'a Arena,
    rng: ChaCha8Rng,
    labelled: LabelKind,
    retrieval: RetrievalSettings,
    learner: CompactLearner,
    scorer: Arc<CompactScorer>,
    referenced: BTreeSet<TaskId>,
    published: usize,
    fitted: usize,
    /// All labels so far.
    pub labels: Vec<Execution>,
    /// What the last fit did.
    pub report: Option<FitReport>,
}

impl<'a> Gathering<'a> {
    /// The stream: the first 300 labels.
    pub fn begin(
        arena: &'a Arena,
        settings: CompactSettings,
        retrieval: &RetrievalSettings,
        seed: u64,
    ) -> Result<Self> {
        let mut learner = CompactLearner::new(settings)?;
        for memory in arena.world.memories() {
            learner.add_memory(memory.id, arena.memory_embedding(memory.id))?;
        }
        let scorer = learner.publish();
        let mut gathering = Self {
            arena,
            rng: ChaCha8Rng::seed_from_u64(seed),
            labelled: settings.labels,
            retrieval: retrieval.clone(),
            learner,
            scorer,
            referenced: BTreeSet::new(),
            published: 0,
            fitted: 0,
            labels: Vec::new(),
            report: None,
        };
        for task in gathering.stream() {
            let reference = arena.execute(task, &MemorySet::EMPTY, gathering.rng.random())?;
            gathering.refit_if_due()?;
            let bound = gathering
                .scorer
                .bind(arena.task_input(task), &arena.memory_inputs(task))?;
            let path = sample(
                bound.as_ref(),
                arena.pool(task),
                retrieval,
                retrieval.policy()?,
                &mut gathering.rng,
            )?;
            drop(bound);
            let set = if path.terminal.is_empty() {
                random_set(arena, task, &mut gathering.rng)
            } else {
                path.terminal
            };
            gathering.label(task, set, reference)?;
        }
        Ok(gathering)
    }

    /// The tasks that labels are about: the last of training, so that a world that changes has changed by then.
    fn stream(&self) -> &'a [Task] {
        let tasks = self.arena.world.train_tasks();
        &tasks[tasks.len().saturating_sub(STREAM)..]
    }

    /// Buys probes until there are `count` labels.
    pub fn extend(&mut self, strategy: Strategy, count: usize) -> Result<()> {
        let first = self.labels.len().min(STREAM);
        let window: BTreeMap<TaskId, Execution> = self.labels[..first]
            .iter()
            .map(|label| (label.task.id, label.clone()))
            .collect();
        let mut tasks: Vec<&Execution> = window.values().collect();
        let settings = ProbeSettings {
            strategy,
            ..ProbeSettings::default()
        };
        while self.labels.len() < count {
            self.refit_if_due()?;
            tasks.shuffle(&mut self.rng);
            let scenes: Vec<Scene> = tasks
                .iter()
                .take(ROUND_TASKS)
                .map(|label| self.arena.scene(&label.task, &label.set))
                .collect();
            let round = ROUND_PROBES.max((ROUND_GROWTH * self.labels.len() as f64) as usize);
            let budget = round.min(count - self.labels.len());
            let scorer = Arc::clone(&self.scorer);
            let planned = plan(
                scorer.as_ref(),
                &scenes,
                &self.retrieval,
                &settings,
                budget,
                &mut self.rng,
            )?;
            // A strategy that finds nothing worth a probe ends the round with what it has.
            if planned.chosen.is_empty() {
                break;
            }
            for chosen in planned.chosen {
                let origin = &window[&chosen.task];
                self.label(&origin.task, chosen.set, origin.reference)?;
            }
        }
        Ok(())
    }

    /// The labels beyond the stream.
    pub fn probes(&self) -> &[Execution] {
        &self.labels[self.labels.len().min(STREAM)..]
    }

    fn refit_if_due(&mut self) -> Result<()> {
        let new = (self.labels.len() - self.fitted) as f64;
        if new >= REFIT_AFTER.max(REFIT_GROWTH * self.fitted as f64) {
            self.refit()?;
        } else if self.labels.len() >= self.published + PUBLISH_EVERY {
            self.scorer = self.learner.publish();
            self.published = self.labels.len();
        }
        Ok(())
    }

    /// Learns from all labels so far, anew.
    pub fn refit(&mut self) -> Result<Arc<CompactScorer>> {
        if self.fitted != self.labels.len() {
            self.report = Some(self.learner.refit()?);
            self.scorer = self.learner.publish();
            self.fitted = self.labels.len();
        }
        Ok(Arc::clone(&self.scorer))
    }

    /// Executes and takes the outcome: conditioned on at once, once there is something to condition.
    fn label(&mut self, task: &Task, set: MemorySet, reference: f64) -> Result<()> {
        let utility = self.arena.execute(task, &set, self.rng.random())?;
        let time = self.labels.len() as f64;
        self.learner
            .add_task(task.id, self.arena.task_input(task).embedding)?;
        let of = |set: MemorySet, value: f64, reference| Label {
            task: task.id,
            set,
            value,
            reference,
            time,
        };
        let mut arrived = Vec::new();
        match self.labelled {
            LabelKind::Smoothed => {
                if self.referenced.insert(task.id) {
                    arrived.push(of(MemorySet::EMPTY, reference, None));
                }
                arrived.push(of(set.clone(), utility, None));
            }
            LabelKind::Paired => {
                let shared = ReferenceId::from_u128(task.id.as_u128());
                arrived.push(of(set.clone(), utility - reference, Some(shared)));
            }
        }
        for label in &arrived {
            if self.fitted == 0 {
                self.learner.hold(label)?;
            } else {
                self.learner.observe(label)?;
            }
        }
        self.labels.push(Execution {
            task: task.clone(),
            set,
            utility,
            reference,
        });
        Ok(())
    }
}

/// One to three candidates.
pub(super) fn random_set(arena: &Arena, task: &Task, rng: &mut impl Rng) -> MemorySet {
    let candidates = arena.candidates(task);
    let size = rng.random_range(1..=3);
    (0..size)
        .map(|_| candidates[rng.random_range(0..candidates.len())])
        .collect()
}

/// One removal, addition, replacement, or a single memory.
pub(super) fn edited(arena: &Arena, task: &Task, set: &MemorySet, rng: &mut impl Rng) -> MemorySet {
    let candidates = arena.candidates(task);
    let other = candidates[rng.random_range(0..candidates.len())];
    let member = set.members()[rng.random_range(0..set.len())];
    match rng.random_range(0..4) {
        0 => set.without(member),
        1 if set.len() < MEMORIES_MAX => set.with(other),
        2 => set.without(member).with(other),
        _ => std::iter::once(other).collect(),
    }
}
