//! What each synthetic world is like, and how far the baselines get: `cargo run --release -p upliftmem-bench --example worlds`.
//!
//! An optional argument is the number of seeds (3). Every number is exact expected utility on the unseen tasks, with the
//! 50 most similar memories as candidates and sets of at most 5. A share is (utility - no memory) / (best - no memory).
#![allow(clippy::print_stdout)] // It is a report.

use rand::{RngExt, SeedableRng, seq::IndexedRandom};
use rand_chacha::ChaCha8Rng;
use upliftmem_bench::{
    LexicalIndex,
    baselines::{SharedCredit, similarity_top},
    worlds::{World, WorldKind},
};
use upliftmem_core::{MemoryId, MemorySet, Result, Task, Uplift, statistics::Summary};

const CANDIDATES: usize = 50;
const MEMORIES_MAX: usize = 5;

fn main() -> Result<()> {
    let seeds = std::env::args()
        .nth(1)
        .and_then(|text| text.parse().ok())
        .unwrap_or(3);
    println!("{}", COLUMNS.map(|(name, _)| format!("{name:>12}")).join(""));
    for kind in WorldKind::ALL {
        let reports: Vec<Report> = (0..seeds)
            .map(|seed| Report::of(&World::generate(kind, seed)?))
            .collect::<Result<_>>()?;
        let cells: Vec<String> = COLUMNS
            .iter()
            .map(|(_, column)| {
                let values: Vec<f64> = reports.iter().map(column).collect();
                Summary::of(&values).map(|summary| format!("{:>12.2}", summary.mean))
            })
            .collect::<Result<_>>()?;
        println!("{}  {kind}", cells.join(""));
    }
    Ok(())
}

type Column = (&'static str, fn(&Report) -> f64);

const COLUMNS: [Column; 12] = [
    ("memories", |report| report.memories),
    ("alone", |report| report.alone),
    ("best", |report| report.best),
    ("best empty", |report| report.best_empty),
    ("best size", |report| report.best_size),
    ("solo > .9", |report| report.solved_alone),
    ("in recall", |report| report.recall),
    ("top 1", |report| report.top[0]),
    ("top 3", |report| report.top[1]),
    ("top 5", |report| report.top[2]),
    ("credit 700", |report| report.credit[0]),
    ("credit 1900", |report| report.credit[1]),
];

#[derive(Default)]
struct Report {
    memories: f64,
    alone: f64,
    best: f64,
    best_empty: f64,
    best_size: f64,
    solved_alone: f64,
    recall: f64,
    top: [f64; 3],
    credit: [f64; 2],
}

impl Report {
    fn of(world: &World) -> Result<Self> {
        let index = LexicalIndex::new(world.memories());
        let everything: Vec<MemoryId> = world.memories().iter().map(|memory| memory.id).collect();
        let credits = [
            learned_credit(world, &index, 700)?,
            learned_credit(world, &index, 1_900)?,
        ];
        let mut report = Self {
            memories: world.memories().len() as f64,
            ..Self::default()
        };
        let mut within_reach = 0.0;
        for task in world.test_tasks() {
            let ranked = recall(&index, task);
            let alone = world.expected_utility(task, &MemorySet::EMPTY)?;
            let best = world.best_set(task, &ranked, MEMORIES_MAX)?;
            report.alone += alone;
            report.best += best.utility;
            report.best_empty += f64::from(u8::from(best.set.is_empty()));
            report.best_size += best.set.len() as f64;
            report.solved_alone += f64::from(u8::from(alone > 0.9));
            within_reach += world.best_set(task, &everything, MEMORIES_MAX)?.utility - alone;
            for (share, count) in report.top.iter_mut().zip([1, 3, 5]) {
                *share += world.expected_utility(task, &similarity_top(&ranked, count))? - alone;
            }
            for (share, credit) in report.credit.iter_mut().zip(&credits) {
                *share += world.expected_utility(task, &credit.choose(&ranked))? - alone;
            }
        }
        let gain = report.best - report.alone;
        let tasks = world.test_tasks().len() as f64;
        report.recall = gain / within_reach;
        report.best_size /= tasks - report.best_empty;
        for value in report.top.iter_mut().chain(&mut report.credit) {
            *value /= gain;
        }
        for value in [
            &mut report.alone,
            &mut report.best,
            &mut report.best_empty,
            &mut report.solved_alone,
        ] {
            *value /= tasks;
        }
        Ok(report)
    }
}

fn recall(index: &LexicalIndex, task: &Task) -> Vec<MemoryId> {
    let ranked = index.recall(&task.context, CANDIDATES);
    ranked.into_iter().map(|(id, _)| id).collect()
}

/// Shared credit after so many sets on training tasks, each against one reference: one to three at random of those that
/// it would consider.
fn learned_credit(world: &World, index: &LexicalIndex, labels: u64) -> Result<SharedCredit> {
    let mut rng = ChaCha8Rng::seed_from_u64(world.seed());
    let mut credit = SharedCredit::default();
    for (number, task) in (0..labels).zip(world.train_tasks().iter().cycle()) {
        let ranked = recall(index, task);
        let size = rng.random_range(1..=3);
        let set: MemorySet = ranked[..SharedCredit::CONSIDERED]
            .sample(&mut rng, size)
            .copied()
            .collect();
        let utility = |set: &MemorySet, seed| {
            let (performance, cost) = world.execute(task, set, seed)?;
            world.utility_rule().utility(performance, cost)
        };
        let uplift = utility(&set, number)?.get() - utility(&MemorySet::EMPTY, 0)?.get();
        credit.observe(&set, Uplift::new(uplift)?);
    }
    Ok(credit)
}
