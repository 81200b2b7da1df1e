//! A scorer with the labels it has, and the means to buy more.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use rand::{Rng, RngExt, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;
use upliftmem_core::{Cost, MemorySet, Performance, Task, TaskId, WindowEntry};
use upliftmem_engine::{ProbeSettings, RetrievalSettings, Scene, Seeds, Strategy, Texts, plan};
use upliftmem_scorer::{CompactLearner, CompactScorer, Label};

use super::{
    super::{
        Bench, Pool, Result,
        uplift::{Place, choose},
    },
    Checkpoint, WINDOW,
};

/// Most members of a random set.
const RANDOM_MEMBERS: usize = 3;

/// A scorer with the labels it has.
#[derive(Clone)]
pub(super) struct Lab<'b> {
    bench: &'b Bench,
    seeds: Seeds,
    texts: Arc<Texts>,
    retrieval: RetrievalSettings,
    tasks: BTreeMap<TaskId, Task>,
    scenes: Vec<Scene>,
    learner: CompactLearner,
    scorer: Arc<CompactScorer>,
    referenced: BTreeSet<TaskId>,
    bought: usize,
    rng: ChaCha8Rng,
}

impl<'b> Lab<'b> {
    /// One random set of each warm-up task, the references of these tasks and of the window's, and what that teaches. Which tasks
    /// these are is drawn anew for every trial.
    pub(super) async fn warmed_up(bench: &'b Bench, pool: &Pool, trial: u64) -> Result<Self> {
        let place = Place::open(bench, "probes", pool).await?;
        let seeds = Seeds::new(format!("probes-{trial}"), bench.seed);
        let mut rng = seeds.rng("warm-up", 0);
        let mut tasks = bench.suite.runtime_tasks().to_vec();
        tasks.shuffle(&mut rng);
        let warm_up = bench.sizes.warm_up.min(tasks.len());
        tasks.truncate(warm_up + WINDOW);
        let known = place.texts.tasks(&tasks).await?;
        let retrieval = bench.engine.retrieval.clone();
        let mut learner = CompactLearner::new(bench.compact)?;
        let mut scenes = Vec::with_capacity(known.len());
        for task in &known {
            learner.add_task(task.task.id, &task.embedding)?;
            let offer = place.texts.recall(task, &retrieval).await?;
            for memory in &offer.ranked {
                learner.add_memory(memory.id, &memory.embedding)?;
            }
            scenes.push(Scene {
                entry: WindowEntry {
                    task: task.task.id,
                    pool: offer.pool,
                    incumbent: MemorySet::EMPTY,
                    prefixes: Vec::new(),
                    limits: retrieval.limits(),
                },
                task: Arc::clone(task),
                memories: offer.ranked,
            });
        }
        let mut lab = Self {
            bench,
            seeds,
            texts: place.texts,
            retrieval,
            tasks: tasks.iter().map(|task| (task.id, task.clone())).collect(),
            scorer: learner.publish(),
            learner,
            referenced: BTreeSet::new(),
            bought: 0,
            rng,
            scenes,
        };
        let window = lab.scenes.split_off(warm_up);
        let first: Vec<(TaskId, MemorySet)> = std::mem::replace(&mut lab.scenes, window)
            .iter()
            .map(|scene| (scene.entry.task, random_set(scene, &mut lab.rng)))
            .collect();
        lab.buy("warm-up", first).await?;
        // The stream has lived through the window: if a task's reference came with its first probe, a strategy that probes more tasks
        // would get more labels for the same number of probes.
        let references = lab
            .scenes
            .iter()
            .map(|scene| (scene.entry.task, MemorySet::EMPTY));
        lab.buy("references", references.collect()).await?;
        Ok(lab)
    }

    /// Executes sets and learns from them; each task's reference is executed with its first set.
    async fn buy(&mut self, what: &str, sets: Vec<(TaskId, MemorySet)>) -> Result<()> {
        let mut wanted: Vec<(TaskId, MemorySet)> = Vec::new();
        for (task, set) in sets {
            if self.referenced.insert(task) {
                wanted.push((task, MemorySet::EMPTY));
            }
            if !set.is_empty() {
                wanted.push((task, set));
            }
        }
        let mut tasks = Vec::with_capacity(wanted.len());
        let mut memories = Vec::with_capacity(wanted.len());
        for (task, set) in &wanted {
            let members = self.texts.memories(set.members()).await?;
            memories.push(members.iter().map(|memory| memory.text.clone()).collect());
            tasks.push(self.tasks[task].clone());
        }
        // Each purchase has randomness of its own: two executions of one set are two observations.
        let stream = format!("{}-{what}-{}", self.seeds.run(), self.bought);
        let lived = self.bench.live(&stream, &tasks, memories, 0).await?;
        let rule = self.bench.engine.utility.rule()?;
        for ((task, set), lived) in wanted.into_iter().zip(lived) {
            let value = rule
                .utility(lived.execution.performance, lived.execution.cost)?
                .get();
            self.learner.hold(&Label {
                task,
                set,
                value,
                reference: None,
                time: self.bought as f64,
            })?;
            self.bought += 1;
        }
        self.learner.refit()?;
        self.scorer = self.learner.publish();
        Ok(())
    }

    /// Buys probes by a strategy and learns from them.
    pub(super) async fn probe(&mut self, strategy: Strategy, count: usize) -> Result<()> {
        let settings = ProbeSettings {
            strategy,
            ..self.bench.engine.acquisition.clone()
        };
        let mut rng = self.seeds.rng(strategy.name(), self.bought as u64);
        let planned = plan(
            self.scorer.as_ref(),
            &self.scenes,
            &self.retrieval,
            &settings,
            count,
            &mut rng,
        )?;
        let chosen = planned.chosen.into_iter().map(|chosen| (chosen.task, chosen.set));
        self.buy(strategy.name(), chosen.collect()).await
    }

    /// How the scorer does on the validation tasks.
    pub(super) async fn evaluate(&self) -> Result<Checkpoint> {
        let (bench, tasks) = (self.bench, self.bench.suite.validation_tasks());
        let memories = choose(&self.texts, self.scorer.as_ref(), tasks, &self.retrieval).await?;
        let scores = bench.score("validation", tasks, &memories, None).await?;
        let rule = bench.engine.utility.rule()?;
        let mut utility = 0.0;
        let outcomes = scores.outcomes.iter().flatten();
        for &(performance, cost) in outcomes.clone() {
            utility += rule
                .utility(Performance::new(performance)?, Cost::new(cost)?)?
                .get();
        }
        Ok(Checkpoint {
            success: scores.success()?.mean,
            utility: utility / outcomes.count().max(1) as f64,
            reward: scores.reward()?.mean,
            solved: scores.solved(),
        })
    }
}

/// One to three candidates.
fn random_set(scene: &Scene, rng: &mut impl Rng) -> MemorySet {
    let candidates = scene.entry.pool.candidates();
    if candidates.is_empty() {
        return MemorySet::EMPTY;
    }
    let size = rng.random_range(1..=RANDOM_MEMBERS);
    (0..size)
        .map(|_| candidates[rng.random_range(0..candidates.len())].id)
        .collect()
}
