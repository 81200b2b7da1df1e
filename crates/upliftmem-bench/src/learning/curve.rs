//! Learning curves: each learner, at each budget, on one world.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use upliftmem_core::MemorySet;
use upliftmem_scorer::{CompactSettings, LabelKind, Result};

use super::{
    learners::{Averages, CompactRetriever, Learner, LinearModel, SimilarityTop},
    protocol::Arena,
    search,
};
use crate::worlds::{World, WorldKind};

/// Numbers of labels at which learners are measured.
pub const BUDGETS: [usize; 3] = [300, 700, 1_900];

/// Uplifts nearer to zero have no sign worth predicting.
const SIGN_MIN: f64 = 0.02;

/// How well one learner does.
#[derive(Debug, Clone)]
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
    /// Seconds to learn.
    pub seconds: f64,
}

/// One world with one seed, all learners, all budgets.
#[derive(Debug, Clone)]
pub struct Run {
    /// The world.
    pub kind: WorldKind,
    /// Its seed.
    pub seed: u64,
    /// One a learner and budget.
    pub measurements: Vec<Measurement>,
}

/// Gathers labels in a world and measures every learner on them.
pub fn run(kind: WorldKind, seed: u64, only_compact: bool) -> Result<Run> {
    let arena = Arena::new(World::generate(kind, seed)?)?;
    let labels = arena.gather(seed, BUDGETS[BUDGETS.len() - 1])?;
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 0x7e57);
    let mut tasks = Vec::new();
    for task in arena.world.test_tasks() {
        let alone = arena.world.expected_utility(task, &MemorySet::EMPTY)?;
        let best = arena
            .world
            .best_set(task, arena.candidates(task), search::MEMORIES_MAX)?;
        let mut sets: Vec<MemorySet> = (0..6).map(|_| arena.random_set(task, &mut rng)).collect();
        if !best.set.is_empty() {
            sets.extend((0..2).map(|_| arena.edited(task, &best.set, &mut rng)));
        }
        tasks.push((task, alone, best.utility, sets));
    }
    let mut learners: Vec<Box<dyn Learner>> = vec![
        Box::new(CompactRetriever::default()),
        Box::new(CompactRetriever::averaged()),
    ];
    if !only_compact {
        learners.push(Box::new(CompactRetriever::new(CompactSettings {
            labels: LabelKind::Paired,
            ..CompactSettings::default()
        })));
        learners.push(Box::new(LinearModel::default()));
        learners.push(Box::new(Averages::default()));
        for count in [1, 3, 5] {
            learners.push(Box::new(SimilarityTop(count)));
        }
    }
    let mut measurements = Vec::new();
    for learner in &mut learners {
        for budget in BUDGETS {
            let start = std::time::Instant::now();
            learner.learn(&arena, &labels[..budget])?;
            let seconds = start.elapsed().as_secs_f64();
            measurements.push(Measurement {
                seconds,
                ..measure(&arena, learner.as_ref(), budget, &tasks)?
            });
        }
    }
    Ok(Run {
        kind,
        seed,
        measurements,
    })
}

type TestTask<'a> = (&'a upliftmem_core::Task, f64, f64, Vec<MemorySet>);

fn measure(
    arena: &Arena,
    learner: &dyn Learner,
    labels: usize,
    tasks: &[TestTask<'_>],
) -> Result<Measurement> {
    let (mut gain, mut best_gain, mut optimism, mut predicted_any) = (0.0, 0.0, 0.0, false);
    let (mut right, mut judged, mut size) = (0.0, 0.0, 0.0);
    for (task, alone, best, sets) in tasks {
        let choice = learner.choose(arena, task)?;
        let uplift = arena.world.expected_utility(task, &choice.set)? - alone;
        gain += uplift;
        best_gain += best - alone;
        size += choice.set.len() as f64;
        if let Some(predicted) = choice.predicted {
            optimism += predicted - uplift;
            predicted_any = true;
        }
        if let Some(values) = learner.predict(arena, task, sets)? {
            for (set, value) in sets.iter().zip(values) {
                let truth = arena.world.expected_utility(task, set)? - alone;
                if truth.abs() >= SIGN_MIN {
                    judged += 1.0;
                    right += if (value > 0.0) == (truth > 0.0) { 1.0 } else { 0.0 };
                }
            }
        }
    }
    let count = tasks.len() as f64;
    Ok(Measurement {
        learner: learner.name(),
        labels,
        share: gain / best_gain,
        optimism: predicted_any.then_some(optimism / count),
        sign_accuracy: (judged > 0.0).then_some(right / judged),
        size: size / count,
        seconds: 0.0,
    })
}
