//! Learning curves: each learner, at each budget, on one world.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use upliftmem_core::{MemorySet, Task};
use upliftmem_engine::{Result, RetrievalSettings, Strategy};
use upliftmem_scorer::CompactSettings;

use super::{
    arena::{Arena, MEMORIES_MAX},
    gather::{self, Execution, Gathering},
    learners::{Averages, Learner, LinearModel, Network, ScorerRetriever, SimilarityTop},
    texts::Texts,
};
use crate::worlds::{World, WorldKind};

/// Numbers of labels at which learners are measured.
pub const BUDGETS: [usize; 3] = [300, 700, 1_900];

/// Uplifts nearer to zero have no sign worth predicting.
const SIGN_MIN: f64 = 0.02;

/// How well one learner does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// The learner.
    pub learner: String,
    /// Labels it learned from.
    pub labels: usize,
    /// Share of the best set's gain over no memory, on unseen tasks.
    pub share: f64,
    /// Predicted minus true uplift of the chosen sets, on average.
    pub optimism: Option<f64>,
    /// Share of random sets whose uplift has the predicted sign.
    pub sign_accuracy: Option<f64>,
    /// Mean size of the chosen sets.
    pub size: f64,
    /// True uplift of the sets that were probed to get this far, on average: what probing did to the tasks it used.
    pub probed: Option<f64>,
    /// Where the rest of the best set's gain went.
    pub loss: Loss,
}

/// What is lost against the best sets, by cause, as shares of their gain.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Loss {
    /// Tasks that are best left alone: what memories do there.
    pub meddling: f64,
    /// No memory chosen where some would help.
    pub missed: f64,
    /// Members that can not help the task: what leaving them out would gain.
    pub useless: f64,
    /// The rest: helpful memories that are not the best ones, too many or too few.
    pub choice: f64,
}

/// One world with one seed, all learners, all budgets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The world.
    pub kind: WorldKind,
    /// Its seed.
    pub seed: u64,
    /// One a learner and budget.
    pub measurements: Vec<Measurement>,
}

/// A compact scorer that gathers its own labels.
#[derive(Clone)]
pub struct CompactRow {
    /// Its name in the table.
    pub name: String,
    /// Where vectors come from.
    pub texts: Texts,
    /// How it learns.
    pub settings: CompactSettings,
    /// How it samples sets.
    pub retrieval: RetrievalSettings,
}

impl CompactRow {
    /// The scorer as it is by default.
    pub fn new(name: &str, texts: Texts) -> Self {
        Self {
            name: name.to_owned(),
            texts,
            settings: CompactSettings::default(),
            retrieval: RetrievalSettings::default(),
        }
    }
}

/// Which rows a run has.
#[derive(Clone)]
pub struct Plan {
    /// Compact scorers that gather their own labels.
    pub compact: Vec<CompactRow>,
    /// How labels beyond the stream are chosen.
    pub strategies: Vec<Strategy>,
    /// Whether the other learners are measured, on the labels of the first compact scorer.
    pub baselines: bool,
    /// Where the curve ends.
    pub budgets: Vec<usize>,
}

impl Plan {
    /// The learner and the number of labels of each row that a run has, in order.
    pub fn rows(&self) -> Vec<(String, usize)> {
        let mut learners = Vec::new();
        for (row, compact) in self.compact.iter().enumerate() {
            for (place, strategy) in self.strategies.iter().enumerate() {
                learners.push(format!("{}, {strategy}", compact.name));
                if row == 0 && place == 0 && self.baselines {
                    learners.extend(baselines().iter().map(|learner| learner.name()));
                }
            }
        }
        learners
            .into_iter()
            .flat_map(|name| self.budgets.iter().map(move |&labels| (name.clone(), labels)))
            .collect()
    }
}

/// A task with its utility alone, the best there is, and sets to predict.
struct TestTask<'a> {
    task: &'a Task,
    alone: f64,
    best: f64,
    sets: Vec<MemorySet>,
}

/// Gathers labels in a world and measures every learner on them.
pub fn run(kind: WorldKind, seed: u64, plan: &Plan) -> Result<Run> {
    let mut measurements = Vec::new();
    for (row, compact) in plan.compact.iter().enumerate() {
        let arena = Arena::new(World::generate(kind, seed)?, &compact.texts)?;
        let tasks = test_tasks(&arena, seed)?;
        let begun = Gathering::begin(&arena, compact.settings, &compact.retrieval, seed)?;
        for (place, &strategy) in plan.strategies.iter().enumerate() {
            let mut gathering = begun.clone();
            for &budget in &plan.budgets {
                gathering.extend(strategy, budget)?;
                let learner =
                    ScorerRetriever::new(&format!("{}, {strategy}", compact.name), gathering.refit()?);
                let mut measured = measure(&arena, &learner, budget, &tasks)?;
                measured.probed = probed(&arena, gathering.probes())?;
                measurements.push(measured);
            }
            if row == 0 && place == 0 && plan.baselines {
                measurements.extend(others(&arena, &gathering.labels, &plan.budgets, &tasks)?);
            }
        }
    }
    Ok(Run {
        kind,
        seed,
        measurements,
    })
}

fn probed(arena: &Arena, probes: &[Execution]) -> Result<Option<f64>> {
    let mut sum = 0.0;
    for probe in probes {
        sum += arena.world.expected_utility(&probe.task, &probe.set)?
            - arena.world.expected_utility(&probe.task, &MemorySet::EMPTY)?;
    }
    Ok((!probes.is_empty()).then(|| sum / probes.len() as f64))
}

/// The other learners.
fn baselines() -> Vec<Box<dyn Learner>> {
    let mut learners: Vec<Box<dyn Learner>> = vec![
        Box::new(Network::default()),
        Box::new(LinearModel::default()),
        Box::new(Averages::default()),
    ];
    for count in [1, 3, 5] {
        learners.push(Box::new(SimilarityTop(count)));
    }
    learners
}

fn others(
    arena: &Arena,
    labels: &[Execution],
    budgets: &[usize],
    tasks: &[TestTask<'_>],
) -> Result<Vec<Measurement>> {
    let mut measurements = Vec::new();
    for mut learner in baselines() {
        for &budget in budgets {
            learner.learn(arena, &labels[..budget])?;
            measurements.push(measure(arena, learner.as_ref(), budget, tasks)?);
        }
    }
    Ok(measurements)
}

fn test_tasks(arena: &Arena, seed: u64) -> Result<Vec<TestTask<'_>>> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 0x7e57);
    let mut tasks = Vec::new();
    for task in arena.world.test_tasks() {
        let alone = arena.world.expected_utility(task, &MemorySet::EMPTY)?;
        let best = arena.world.best_set(task, arena.candidates(task), MEMORIES_MAX)?;
        let mut sets: Vec<MemorySet> = (0..6)
            .map(|_| gather::random_set(arena, task, &mut rng))
            .collect();
        if !best.set.is_empty() {
            sets.extend((0..2).map(|_| gather::edited(arena, task, &best.set, &mut rng)));
        }
        tasks.push(TestTask {
            task,
            alone,
            best: best.utility,
            sets,
        });
    }
    Ok(tasks)
}

fn measure(
    arena: &Arena,
    learner: &dyn Learner,
    labels: usize,
    tasks: &[TestTask<'_>],
) -> Result<Measurement> {
    let (mut gain, mut best_gain, mut optimism, mut predicted_any) = (0.0, 0.0, 0.0, false);
    let (mut right, mut judged, mut size) = (0.0, 0.0, 0.0);
    let mut loss = Loss::default();
    for test in tasks {
        let choice = learner.choose(arena, test.task)?;
        let uplift = arena.world.expected_utility(test.task, &choice.set)? - test.alone;
        gain += uplift;
        best_gain += test.best - test.alone;
        size += choice.set.len() as f64;
        loss.add(arena, test, &choice.set, uplift)?;
        if let Some(predicted) = choice.predicted {
            optimism += predicted - uplift;
            predicted_any = true;
        }
        if let Some(values) = learner.predict(arena, test.task, &test.sets)? {
            for (set, value) in test.sets.iter().zip(values) {
                let truth = arena.world.expected_utility(test.task, set)? - test.alone;
                if truth.abs() >= SIGN_MIN {
                    judged += 1.0;
                    right += if (value > 0.0) == (truth > 0.0) { 1.0 } else { 0.0 };
                }
            }
        }
    }
    let count = tasks.len() as f64;
    for part in [
        &mut loss.meddling,
        &mut loss.missed,
        &mut loss.useless,
        &mut loss.choice,
    ] {
        *part /= best_gain;
    }
    Ok(Measurement {
        learner: learner.name(),
        labels,
        share: gain / best_gain,
        optimism: predicted_any.then_some(optimism / count),
        sign_accuracy: (judged > 0.0).then_some(right / judged),
        size: size / count,
        probed: None,
        loss,
    })
}

impl Loss {
    fn add(&mut self, arena: &Arena, test: &TestTask<'_>, set: &MemorySet, uplift: f64) -> Result<()> {
        let best = test.best - test.alone;
        if best <= 1e-12 {
            self.meddling -= uplift;
        } else if set.is_empty() {
            self.missed += best;
        } else {
            let mut useful = MemorySet::EMPTY;
            for &id in set {
                if arena.world.can_help(test.task, id)? {
                    useful = useful.with(id);
                }
            }
            let without = arena.world.expected_utility(test.task, &useful)? - test.alone;
            self.useless += without - uplift;
            self.choice += best - without;
        }
        Ok(())
    }
}
