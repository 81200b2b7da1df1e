//! How long the set network takes: `cargo bench -p upliftmem-scorer --bench network`.
//!
//! Labels as in a deployment: 450 tasks of 30 kinds, 250 memories, 50 candidates a task, sets of 1 to 5; embeddings of
//! 384 entries are given. One thread; times are the best of several runs.

#![allow(clippy::print_stdout, reason = "a report for people")]

use std::time::Instant;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use upliftmem_core::{MemoryId, MemorySet, ReferenceId, TaskId, Uplift, objectives::ValueLabel};
use upliftmem_scorer::{
    Ask, Corpus, Embedding, MemoryInput, NetworkModel, NetworkSettings, Result, SetScorer, Trainer,
    TrainerSettings, ValueExample,
};

const TASKS: u128 = 450;
const MEMORIES: u128 = 250;
const LABELS: usize = 2_000;
const EPOCHS: usize = 5;

fn corpus() -> Result<Corpus> {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut text = |at: u128| {
        let mut values: Vec<f32> = (0..384).map(|_| rng.random_range(-0.1..0.1)).collect();
        values[(at % 30) as usize] += 0.8;
        Embedding::new(&values)
    };
    let mut corpus = Corpus::default();
    for at in 0..TASKS {
        corpus.add_task(TaskId::from_u128(at), "", text(at)?);
    }
    for at in 0..MEMORIES {
        corpus.add_memory(MemoryId::from_u128(at), "", text(at)?);
    }
    Ok(corpus)
}

fn labels() -> Result<Vec<ValueExample>> {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    (0..LABELS)
        .map(|_| {
            let task = rng.random_range(0..TASKS);
            let set: MemorySet = (0..rng.random_range(1..=5))
                .map(|_| MemoryId::from_u128(rng.random_range(0..MEMORIES)))
                .collect();
            let chance = 0.5 + 0.1 * set.iter().filter(|id| id.as_u128() % 5 == 0).count() as f64;
            let uplift = if rng.random::<f64>() < chance { 0.6 } else { -0.4 };
            Ok(ValueExample {
                set,
                label: ValueLabel {
                    task: TaskId::from_u128(task),
                    reference: ReferenceId::from_u128(task),
                    uplift: Uplift::new(uplift)?,
                },
            })
        })
        .collect()
}

/// 50 singles, then pairs and larger sets: as many as a beam search of width 2 asks for.
fn beam_sets() -> Vec<MemorySet> {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    (0..430)
        .map(|at| {
            let size = 1 + at / 90;
            (0..size)
                .map(|_| MemoryId::from_u128(rng.random_range(0..50)))
                .collect()
        })
        .collect()
}

/// The best of several times, in seconds.
fn best(runs: usize, mut work: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut best = f64::INFINITY;
    for _ in 0..runs {
        let start = Instant::now();
        work()?;
        best = best.min(start.elapsed().as_secs_f64());
    }
    Ok(best)
}

fn main() -> Result<()> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build();
    match pool {
        Ok(pool) => pool.install(run),
        Err(_) => run(),
    }
}

fn run() -> Result<()> {
    let (corpus, labels) = (corpus()?, labels()?);
    let settings = TrainerSettings {
        epochs: EPOCHS,
        patience: EPOCHS,
        ..TrainerSettings::default()
    };
    let one = best(3, || {
        let models = NetworkModel::several(NetworkSettings::default(), 1, 1)?;
        Trainer::new(settings, models)?.warm_up(&corpus, &labels, &|_| {})?;
        Ok(())
    })?;
    println!("one member, {LABELS} labels: {:.1} epochs/s", EPOCHS as f64 / one);
    let mut scorer = None;
    let five = best(1, || {
        let models = NetworkModel::several(NetworkSettings::default(), 5, 1)?;
        let settings = TrainerSettings::default();
        let update = Trainer::new(settings, models)?.warm_up(&corpus, &labels, &|_| {})?;
        scorer = Some(update.scorer);
        Ok(())
    })?;
    println!("five members, 15 epochs at most: {five:.2} s");
    let Some(scorer) = scorer else { return Ok(()) };
    let sets = beam_sets();
    let task = corpus.task(TaskId::from_u128(0))?;
    let memories: Vec<MemoryInput<'_>> = (0..50)
        .map(|at| corpus.memory(MemoryId::from_u128(at)))
        .collect::<Result<_>>()?;
    let bind = best(50, || scorer.bind(task, &memories).map(drop))?;
    println!("five members, binding 50 candidates: {:.2} ms", 1e3 * bind);
    for (name, ask) in [
        ("values", Ask::VALUES),
        (
            "values and deviations",
            Ask {
                deviations: true,
                ..Ask::VALUES
            },
        ),
    ] {
        let time = best(20, || {
            scorer.bind(task, &memories)?.score(&sets, ask)?;
            Ok(())
        })?;
        println!(
            "five members, 430 sets of a new task, {name}: {:.2} ms",
            1e3 * time
        );
    }
    Ok(())
}
