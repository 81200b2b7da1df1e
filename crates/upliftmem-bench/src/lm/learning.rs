//! LoRA on a world with text: how well sets are ranked before and after.

use std::sync::{Arc, atomic::AtomicU64};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;
use upliftmem_core::{MemoryId, MemorySet, ReferenceId, Task, Uplift, objectives::ValueLabel};
use upliftmem_scorer::{
    Ask, Corpus, Embedding, LossParts, MemoryInput, Progress, Result, ScorerVersion, SetScorer, TaskInput,
    Trainer, TrainerSettings, ValueExample,
    lm::{Calibration, LmBase, LmModel, LmScorer},
};

use crate::{
    LexicalIndex,
    worlds::{World, WorldKind},
};

/// Candidates that sets are drawn from: the most similar memories.
const RECALLED: usize = 24;
/// Uplifts nearer to zero have no sign worth predicting.
const SIGN_MIN: f64 = 0.02;

/// What to learn from and to judge by.
#[derive(Debug, Clone, Copy)]
pub struct LearningPlan {
    /// The world.
    pub world: WorldKind,
    /// Its seed, and that of everything random.
    pub seed: u64,
    /// Labels to learn from; each is one execution and its reference.
    pub labels: usize,
    /// Sets to judge by, on tasks that were never learned from.
    pub tests: usize,
    /// How it is trained.
    pub trainer: TrainerSettings,
}

/// How well sets are ranked.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Ranking {
    /// Chance that a set that helps has a larger value than one that harms; 0.5 is chance.
    pub sign_auc: f64,
    /// Share of pairs of sets of one task whose order is right; 0.5 is chance.
    pub pair_accuracy: f64,
    /// Share of sets whose sign is right.
    pub sign_accuracy: f64,
    /// Correlation of value and true uplift.
    pub correlation: f64,
    /// Sets judged.
    pub sets: usize,
}

/// Before and after.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LearningReport {
    /// The base without an adapter.
    pub before: Ranking,
    /// With the trained adapter, if one was trained.
    pub after: Option<Ranking>,
    /// Mean losses of the last epoch.
    pub losses: Option<LossParts>,
    /// Labels learned from.
    pub labels: usize,
}

struct Scene<'a> {
    task: &'a Task,
    candidates: Vec<MemoryId>,
}

/// The texts of a world; the language model needs no embeddings, so there is one for all.
struct Texts {
    world: World,
    index: LexicalIndex,
    blank: Embedding,
}

impl Texts {
    fn scene<'a>(&self, task: &'a Task) -> Scene<'a> {
        let ranked = self.index.recall(&task.context, RECALLED);
        Scene {
            task,
            candidates: ranked.into_iter().map(|(id, _)| id).collect(),
        }
    }

    fn set(scene: &Scene<'_>, rng: &mut ChaCha8Rng) -> MemorySet {
        let size = rng.random_range(1..=2);
        (0..size)
            .map(|_| scene.candidates[rng.random_range(0..scene.candidates.len())])
            .collect()
    }

    fn uplift(&self, task: &Task, set: &MemorySet) -> Result<f64> {
        Ok(self.world.expected_utility(task, set)? - self.world.expected_utility(task, &MemorySet::EMPTY)?)
    }

    fn executed(&self, task: &Task, set: &MemorySet, seed: u64) -> Result<f64> {
        let (performance, cost) = self.world.execute(task, set, seed)?;
        Ok(self.world.utility_rule().utility(performance, cost)?.get())
    }
}

/// Trains an adapter; with no epochs, only ranks with the base. `tokens` is told how many tokens have been read; `progress`
/// is told every epoch.
pub fn learn(
    base: &Arc<LmBase>,
    plan: &LearningPlan,
    tokens: &mut dyn FnMut(Arc<AtomicU64>, u64),
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<(LearningReport, LmModel)> {
    let world = World::generate(plan.world, plan.seed)?;
    let texts = Texts {
        index: LexicalIndex::new(world.memories()),
        blank: Embedding::new(&[1.0])?,
        world,
    };
    let (corpus, labels) = labels(&texts, plan)?;
    let tests = tests(&texts, plan)?;
    let before = LmScorer::new(ScorerVersion(0), Arc::clone(base), None, Calibration::NONE);
    let before = ranking(&before, &texts, &tests)?;
    let model = LmModel::new(Arc::clone(base), plan.seed);
    if plan.trainer.epochs == 0 {
        let report = LearningReport {
            before,
            after: None,
            losses: None,
            labels: 0,
        };
        return Ok((report, model));
    }
    let mut length = 0;
    for example in &labels {
        let members = example
            .set
            .iter()
            .map(|&id| corpus.memory(id))
            .collect::<Result<Vec<_>>>()?;
        let members: Vec<&str> = members.iter().map(|memory| memory.text).collect();
        length += base.prompt_length(corpus.task(example.label.task)?.context, &members)? as u64;
    }
    tokens(model.tokens_read(), length * plan.trainer.epochs as u64);
    let mut trainer = Trainer::new(plan.trainer, vec![model])?;
    let update = trainer.warm_up(&corpus, &labels, progress)?;
    let after = ranking(update.scorer.as_ref(), &texts, &tests)?;
    let report = LearningReport {
        before,
        after: Some(after),
        losses: Some(update.report.training),
        labels: labels.len(),
    };
    let model = trainer.into_models().remove(0);
    Ok((report, model))
}

fn labels(texts: &Texts, plan: &LearningPlan) -> Result<(Corpus, Vec<ValueExample>)> {
    let mut rng = ChaCha8Rng::seed_from_u64(plan.seed);
    let mut corpus = Corpus::default();
    for memory in texts.world.memories() {
        corpus.add_memory(memory.id, memory.text.clone(), texts.blank.clone());
    }
    let tasks = texts.world.train_tasks();
    let mut labels = Vec::with_capacity(plan.labels);
    for at in 0..plan.labels {
        let task = &tasks[at % tasks.len()];
        corpus.add_task(task.id, task.context.clone(), texts.blank.clone());
        let scene = texts.scene(task);
        let set = Texts::set(&scene, &mut rng);
        let with = texts.executed(task, &set, rng.random())?;
        let alone = texts.executed(task, &MemorySet::EMPTY, rng.random())?;
        labels.push(ValueExample {
            set,
            label: ValueLabel {
                task: task.id,
                reference: ReferenceId::from_u128(at as u128),
                uplift: Uplift::new(with - alone)?,
            },
        });
    }
    Ok((corpus, labels))
}

/// Tasks that were not learned from, with sets and their true uplifts.
type Test<'a> = (Scene<'a>, Vec<(MemorySet, f64)>);

fn tests<'a>(texts: &'a Texts, plan: &LearningPlan) -> Result<Vec<Test<'a>>> {
    const SETS: usize = 5;
    let mut rng = ChaCha8Rng::seed_from_u64(plan.seed ^ 0x7e57);
    let mut tests = Vec::new();
    for task in texts.world.test_tasks().iter().take(plan.tests.div_ceil(SETS)) {
        let scene = texts.scene(task);
        let mut sets: Vec<MemorySet> = (0..SETS).map(|_| Texts::set(&scene, &mut rng)).collect();
        sets.sort_unstable();
        sets.dedup();
        let sets = sets
            .into_iter()
            .map(|set| Ok((set.clone(), texts.uplift(task, &set)?)))
            .collect::<Result<_>>()?;
        tests.push((scene, sets));
    }
    Ok(tests)
}

fn ranking(scorer: &dyn SetScorer, texts: &Texts, tests: &[Test<'_>]) -> Result<Ranking> {
    let by_id: std::collections::BTreeMap<MemoryId, &str> = texts
        .world
        .memories()
        .iter()
        .map(|memory| (memory.id, memory.text.as_str()))
        .collect();
    let mut judged: Vec<(f64, f64)> = Vec::new();
    let (mut right, mut pairs) = (0.0, 0.0);
    for (scene, sets) in tests {
        let task = TaskInput {
            id: scene.task.id,
            context: &scene.task.context,
            embedding: &texts.blank,
        };
        let memories: Vec<MemoryInput<'_>> = scene
            .candidates
            .iter()
            .map(|&id| MemoryInput {
                id,
                text: by_id[&id],
                embedding: &texts.blank,
            })
            .collect();
        let asked: Vec<MemorySet> = sets.iter().map(|(set, _)| set.clone()).collect();
        let values = scorer.bind(task, &memories)?.score(&asked, Ask::VALUES)?.values;
        for (at, (_, truth)) in sets.iter().enumerate() {
            for (other, (_, other_truth)) in sets.iter().enumerate().take(at) {
                if (truth - other_truth).abs() >= SIGN_MIN {
                    pairs += 1.0;
                    right += half_for_ties((values[at] - values[other]) * (truth - other_truth));
                }
            }
            judged.push((values[at], *truth));
        }
    }
    let (mut above, mut compared) = (0.0, 0.0);
    for (value, _) in judged.iter().filter(|(_, truth)| *truth >= SIGN_MIN) {
        for (other, _) in judged.iter().filter(|(_, truth)| *truth <= -SIGN_MIN) {
            compared += 1.0;
            above += half_for_ties(value - other);
        }
    }
    let signed: Vec<&(f64, f64)> = judged
        .iter()
        .filter(|(_, truth)| truth.abs() >= SIGN_MIN)
        .collect();
    let sign_right: f64 = signed
        .iter()
        .map(|(value, truth)| half_for_ties(value * truth))
        .sum();
    Ok(Ranking {
        sign_auc: above / compared,
        pair_accuracy: right / pairs,
        sign_accuracy: sign_right / signed.len() as f64,
        correlation: correlation(&judged),
        sets: judged.len(),
    })
}

fn half_for_ties(margin: f64) -> f64 {
    if margin > 0.0 {
        1.0
    } else if margin < 0.0 {
        0.0
    } else {
        0.5
    }
}

fn correlation(pairs: &[(f64, f64)]) -> f64 {
    let count = pairs.len() as f64;
    let (left, right) = pairs
        .iter()
        .fold((0.0, 0.0), |(l, r), (a, b)| (l + a / count, r + b / count));
    let (mut cross, mut first, mut second) = (0.0, 0.0, 0.0);
    for (a, b) in pairs {
        cross += (a - left) * (b - right);
        first += (a - left).powi(2);
        second += (b - right).powi(2);
    }
    cross / (first * second).sqrt()
}
