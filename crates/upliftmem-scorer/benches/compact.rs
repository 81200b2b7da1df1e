//! How long the compact scorer takes: `cargo bench -p upliftmem-scorer`.
//!
//! Labels as in a deployment: 450 tasks of 30 kinds, 250 memories, 50 candidates a task, sets of 1 to 5, one label in
//! seven a reference; embeddings of 384 entries are given. Times are the best of several runs on one thread unless the
//! line says otherwise.

#![allow(clippy::print_stdout, reason = "a report for people")]

use std::time::Instant;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use upliftmem_core::{MemoryId, MemorySet, TaskId};
use upliftmem_scorer::{
    Ask, CompactLearner, CompactSettings, Embedding, Label, MemoryInput, Result, SetScorer, TaskInput,
    TaskSets,
};

const TASKS: usize = 450;
const MEMORIES: usize = 250;

struct Bench {
    tasks: Vec<Embedding>,
    memories: Vec<Embedding>,
}

impl Bench {
    fn new() -> Result<Self> {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mut text = |kind: usize| {
            let mut values: Vec<f32> = (0..384).map(|_| rng.random_range(-0.1..0.1)).collect();
            values[kind] += 0.8;
            Embedding::new(&values)
        };
        Ok(Self {
            tasks: (0..TASKS)
                .map(|at| text(at % 30))
                .collect::<std::result::Result<_, _>>()?,
            memories: (0..MEMORIES)
                .map(|at| text(at % 30))
                .collect::<std::result::Result<_, _>>()?,
        })
    }

    fn label(time: usize, rng: &mut ChaCha8Rng) -> Label {
        let task = rng.random_range(0..TASKS);
        let size = if time.is_multiple_of(7) {
            0
        } else {
            rng.random_range(1..=5)
        };
        let set: MemorySet = (0..size)
            .map(|_| MemoryId::from_u128(rng.random_range(0..MEMORIES) as u128))
            .collect();
        let chance = 0.4 + 0.1 * set.iter().filter(|id| id.as_u128() % 5 == 0).count() as f64;
        Label {
            task: TaskId::from_u128(task as u128),
            set,
            value: if rng.random::<f64>() < chance { 1.0 } else { 0.0 },
            reference: None,
            time: time as f64,
        }
    }

    fn learner(&self, labels: usize) -> Result<CompactLearner> {
        let mut learner = CompactLearner::new(CompactSettings::default())?;
        for (at, text) in self.tasks.iter().enumerate() {
            learner.add_task(TaskId::from_u128(at as u128), text)?;
        }
        for (at, text) in self.memories.iter().enumerate() {
            learner.add_memory(MemoryId::from_u128(at as u128), text)?;
        }
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        for time in 0..labels {
            learner.hold(&Self::label(time, &mut rng))?;
        }
        Ok(learner)
    }

    fn candidates(&self) -> Vec<MemoryInput<'_>> {
        (0..50)
            .map(|at| MemoryInput {
                id: MemoryId::from_u128(at),
                text: "",
                embedding: &self.memories[at as usize],
            })
            .collect()
    }
}

fn best(runs: usize, mut work: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut least = f64::INFINITY;
    for _ in 0..runs {
        let start = Instant::now();
        work()?;
        least = least.min(start.elapsed().as_secs_f64());
    }
    Ok(least)
}

fn main() -> Result<()> {
    // Numbers of labels may be given; cargo's own flags are passed over.
    let mut counts: Vec<usize> = std::env::args().filter_map(|word| word.parse().ok()).collect();
    if counts.is_empty() {
        counts = vec![300, 1_000, 2_000, 4_000, 10_000];
    }
    let bench = Bench::new()?;
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let candidates = bench.candidates();
    let sets: Vec<MemorySet> = (0..430)
        .map(|_| {
            let size = rng.random_range(1..=5);
            (0..size)
                .map(|_| MemoryId::from_u128(rng.random_range(0..50)))
                .collect()
        })
        .collect();
    let unseen = &bench.tasks[0];
    let task = TaskInput {
        id: TaskId::from_u128(9_999),
        context: "",
        embedding: unseen,
    };
    println!(
        "labels | fit s (1 thread) | fit s (2 threads) | evaluations | left out | 430 sets ms | with deviations ms | one label ms"
    );
    for labels in counts {
        let mut learner = bench.learner(labels)?;
        let pool = |threads: usize| rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let mut report = None;
        let mut fit = |threads: usize| -> Result<f64> {
            let start = Instant::now();
            let mut work = || learner.refit();
            report = Some(match pool(threads) {
                Ok(pool) => pool.install(work)?,
                Err(_) => work()?,
            });
            Ok(start.elapsed().as_secs_f64())
        };
        let (one, two) = (fit(1)?, fit(2)?);
        let scorer = learner.publish();
        let score = best(30, || {
            let bound = scorer.bind(task, &candidates)?;
            bound.score(&sets, Ask::VALUES).map(drop)
        })?;
        let deviations = best(3, || {
            let bound = scorer.bind(task, &candidates)?;
            let ask = Ask {
                deviations: true,
                ..Ask::VALUES
            };
            bound.score(&sets, ask).map(drop)
        })?;
        let mut time = labels;
        let observe = best(10, || {
            time += 1;
            learner.observe(&Bench::label(time, &mut rng))
        })?;
        let (evaluations, left) =
            report.map_or((0, None), |report| (report.evaluations, report.inexpressible));
        println!(
            "{labels} | {one:.2} | {two:.2} | {evaluations} | {} | {:.3} | {:.1} | {:.2}",
            left.map_or("-".into(), |share| format!("{share:.4}")),
            1e3 * score,
            1e3 * deviations,
            1e3 * observe
        );
    }
    feature_map(&bench, &candidates)
}

/// The feature map of a window of tasks.
fn feature_map(bench: &Bench, candidates: &[MemoryInput<'_>]) -> Result<()> {
    let mut learner = bench.learner(2_000)?;
    learner.refit()?;
    let scorer = learner.publish();
    let sets: Vec<MemorySet> = (0..50)
        .map(|at| std::iter::once(MemoryId::from_u128(at)).collect())
        .collect();
    let items: Vec<TaskSets<'_>> = (0..50)
        .map(|at| TaskSets {
            task: TaskInput {
                id: TaskId::from_u128(at as u128),
                context: "",
                embedding: &bench.tasks[at],
            },
            memories: candidates,
            sets: &sets,
        })
        .collect();
    for dimension in [16, 64, 256] {
        let start = Instant::now();
        let map = scorer.feature_map(&items, dimension, 0.0)?;
        println!(
            "feature map of 2,500 sets of 50 tasks, {dimension} dimensions: {:.2} s, {:.1} % of the variance left out",
            start.elapsed().as_secs_f64(),
            100.0 * map.residual_share
        );
    }
    Ok(())
}
