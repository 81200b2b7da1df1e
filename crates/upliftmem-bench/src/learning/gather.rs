//! How labels are gathered, and the scorer that gathers them.
//!
//! A bootstrap of random sets, a stream of tasks whose sets are sampled from the scorer of the time, then more
//! executions of the stream's tasks: directed by the scorer's belief, or random edits of the sets tried before. Every
//! task has one reference.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use upliftmem_core::{MemoryId, MemorySet, ScoredSet, Task, TaskId};
use upliftmem_scorer::{CompactLearner, CompactScorer, CompactSettings, FitReport, Label, Result, SetScorer};

use super::{
    arena::{Arena, MEMORIES_MAX},
    retrieve,
};

const BOOTSTRAP: usize = 100;
const STREAM: usize = 200;
/// Growth of the number of labels that makes another fit worthwhile.
const REFIT_GROWTH: f64 = 2.0;
/// Labels after which a new version is published.
const PUBLISH_EVERY: usize = 5;
/// Tasks that are looked at for one directed execution, at most.
const TASKS_TRIED: usize = 6;

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

/// Where labels beyond the stream come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Further {
    /// Thompson sampling near the current best set.
    Directed,
    /// Random local edits of the stream's sets.
    Edits,
}

/// A compact scorer that gathers labels as it learns.
pub struct Gathering<'a> {
    arena: &'a Arena,
    rng: ChaCha8Rng,
    learner: CompactLearner,
    scorer: Arc<CompactScorer>,
    referenced: BTreeSet<TaskId>,
    tried: BTreeMap<MemoryId, usize>,
    published: usize,
    fitted: usize,
    /// All labels so far.
    pub labels: Vec<Execution>,
    /// What the last fit did.
    pub report: Option<FitReport>,
}

impl<'a> Gathering<'a> {
    /// Bootstrap and stream: the first 300 labels.
    pub fn begin(arena: &'a Arena, settings: CompactSettings, seed: u64) -> Result<Self> {
        let mut learner = CompactLearner::new(settings)?;
        for memory in arena.world.memories() {
            learner.add_memory(memory.id, arena.memory_embedding(memory.id))?;
        }
        let scorer = learner.publish();
        let mut gathering = Self {
            arena,
            rng: ChaCha8Rng::seed_from_u64(seed),
            learner,
            scorer,
            referenced: BTreeSet::new(),
            tried: BTreeMap::new(),
            published: 0,
            fitted: 0,
            labels: Vec::new(),
            report: None,
        };
        for (step, task) in gathering.stream().iter().enumerate() {
            let reference = arena.execute(task, &MemorySet::EMPTY, gathering.rng.random())?;
            let set = if step < BOOTSTRAP {
                random_set(arena, task, &mut gathering.rng)
            } else {
                gathering.refit_if_due()?;
                let bound = gathering
                    .scorer
                    .bind(arena.task_input(task), &arena.memory_inputs(task))?;
                let set = retrieve::sample(bound.as_ref(), arena.space(task), &mut gathering.rng)?;
                drop(bound);
                if set.is_empty() {
                    random_set(arena, task, &mut gathering.rng)
                } else {
                    set
                }
            };
            gathering.label(task, set, reference)?;
        }
        Ok(gathering)
    }

    /// The tasks that labels are about: the last of training, so that a world that changes has changed by then.
    fn stream(&self) -> &'a [Task] {
        let tasks = self.arena.world.train_tasks();
        &tasks[tasks.len().saturating_sub(BOOTSTRAP + STREAM)..]
    }

    /// Gathers until there are `count` labels.
    pub fn extend(&mut self, further: Further, count: usize) -> Result<()> {
        let first = self.labels.len().min(BOOTSTRAP + STREAM);
        let window: Vec<Execution> = self.labels[BOOTSTRAP.min(first)..first].to_vec();
        while self.labels.len() < count {
            let (origin, set) = match further {
                Further::Edits => {
                    let origin = &window[self.rng.random_range(0..window.len())];
                    let set = edited(self.arena, &origin.task, &origin.set, &mut self.rng);
                    (origin, set)
                }
                Further::Directed => {
                    self.refit_if_due()?;
                    self.directed(&window)?
                }
            };
            if !set.is_empty() {
                self.label(&origin.task, set, origin.reference)?;
            }
        }
        Ok(())
    }

    /// Goes through tasks at random until a value function drawn for one has a set above zero: where nothing is to be
    /// gained, nothing is tried.
    fn directed<'w>(&mut self, window: &'w [Execution]) -> Result<(&'w Execution, MemorySet)> {
        let arena = self.arena;
        let scorer = Arc::clone(&self.scorer);
        let mut best: Option<(&Execution, ScoredSet)> = None;
        for _ in 0..TASKS_TRIED {
            let origin = &window[self.rng.random_range(0..window.len())];
            let task = &origin.task;
            let bound = scorer.bind(arena.task_input(task), &arena.memory_inputs(task))?;
            let tried = |id| self.tried.get(&id).copied().unwrap_or(0);
            let drawn = retrieve::thompson(
                bound.as_ref(),
                arena.space(task),
                arena.candidates(task),
                tried,
                &mut self.rng,
            )?;
            if let Some(drawn) = drawn
                && best.as_ref().is_none_or(|(_, best)| drawn.value > best.value)
            {
                best = Some((origin, drawn));
            }
            if best.as_ref().is_some_and(|(_, best)| best.value > 0.0) {
                break;
            }
        }
        Ok(best.map_or((&window[0], MemorySet::EMPTY), |(origin, drawn)| {
            (origin, drawn.set)
        }))
    }

    fn refit_if_due(&mut self) -> Result<()> {
        if self.labels.len() as f64 >= REFIT_GROWTH * self.fitted as f64 {
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
        let of = |set: MemorySet, value: f64| Label {
            task: task.id,
            set,
            value,
            reference: None,
            time,
        };
        let mut arrived = Vec::new();
        if self.referenced.insert(task.id) {
            arrived.push(of(MemorySet::EMPTY, reference));
        }
        arrived.push(of(set.clone(), utility));
        for label in &arrived {
            if self.fitted == 0 {
                self.learner.hold(label)?;
            } else {
                self.learner.observe(label)?;
            }
        }
        for &id in &set {
            *self.tried.entry(id).or_default() += 1;
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
