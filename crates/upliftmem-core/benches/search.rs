//! What search costs besides the scorer: `cargo bench -p upliftmem-core --bench search`.
//!
//! Values come from a table that is as cheap as a scorer can be, so the figures are overhead. The plain lines
//! after the table are the medians once more, per set or per probe.
#![allow(clippy::print_stdout, reason = "a benchmark reports on the terminal")]

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use divan::{Bencher, counter::ItemsCount};
use rand::{RngExt, SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;
use upliftmem_core::{
    AcquisitionWindow, BeamSearch, BeamSettings, Candidate, CandidatePool, CoverageQuestion, Limits,
    MemoryId, MemorySet, Neighbourhood, PathPolicy, SamplePath, SearchSpace, TaskId, WindowEntry,
    local_comparisons,
};

const CANDIDATES: u128 = 50;
const LIMITS: Limits = Limits::count(5);

fn main() {
    divan::main();
    // `cargo test` runs benchmarks once to see that they run; only `cargo bench` measures.
    if std::env::args().any(|argument| argument == "--bench") {
        println!();
        report(
            "beam, 50 candidates, 5 members, width 2",
            "scored set",
            &mut beam_work(),
        );
        report("beam, the same at width 8", "scored set", &mut wide_beam_work());
        report("sample_path, temperature 0.05", "scored set", &mut sample_work());
        report(
            "path_likelihood with its gradient",
            "scored set",
            &mut likelihood_work(),
        );
        report("coverage of a set of 5", "scored set", &mut coverage_work());
        report(
            "local_comparisons, incumbents",
            "probe",
            &mut window_work(Neighbourhood::Incumbent),
        );
        report(
            "local_comparisons, prefixes",
            "probe",
            &mut window_work(Neighbourhood::Prefixes),
        );
    }
}

/// Prints the median time of the work, whole and for one of the items it returns the number of.
fn report(name: &str, item: &str, work: &mut dyn FnMut() -> usize) {
    let items = work();
    let start = Instant::now();
    let mut times = Vec::new();
    while times.len() < 20 || start.elapsed() < Duration::from_secs(1) {
        let begin = Instant::now();
        black_box(work());
        times.push(begin.elapsed());
    }
    times.sort_unstable();
    let median = times[times.len() / 2].as_secs_f64();
    println!(
        "{name}: {:.1} ns per {item} ({items} in {:.3} ms)",
        median * 1e9 / items as f64,
        median * 1e3
    );
}

fn bench(bencher: Bencher<'_, '_>, mut work: impl FnMut() -> usize) {
    let items = work();
    bencher.counter(ItemsCount::new(items)).bench_local(work);
}

#[divan::bench]
fn beam(bencher: Bencher<'_, '_>) {
    bench(bencher, beam_work());
}

#[divan::bench]
fn beam_width_8(bencher: Bencher<'_, '_>) {
    bench(bencher, wide_beam_work());
}

#[divan::bench]
fn sample_path(bencher: Bencher<'_, '_>) {
    bench(bencher, sample_work());
}

#[divan::bench]
fn path_likelihood(bencher: Bencher<'_, '_>) {
    bench(bencher, likelihood_work());
}

#[divan::bench]
fn coverage(bencher: Bencher<'_, '_>) {
    bench(bencher, coverage_work());
}

#[divan::bench(args = [Neighbourhood::Incumbent, Neighbourhood::Prefixes], sample_count = 20)]
fn window(bencher: Bencher<'_, '_>, neighbourhood: Neighbourhood) {
    bench(bencher, window_work(neighbourhood));
}

/// Ids as they are minted: a time in front, then noise.
fn pool(rng: &mut ChaCha8Rng) -> CandidatePool {
    let candidates = (0..CANDIDATES).map(|at| Candidate {
        id: MemoryId::from_u128((at + 1_700_000_000_000) << 80 | rng.random::<u128>() >> 48),
        tokens: 100,
    });
    CandidatePool::new(candidates.collect()).unwrap_or_default()
}

/// A value for the n-th set that is asked for; sets differ, so ties are rare.
fn values(table: &[f64], offset: usize, sets: &[MemorySet]) -> Vec<f64> {
    (0..sets.len())
        .map(|at| table[(offset + at) % table.len()])
        .collect()
}

fn table(rng: &mut ChaCha8Rng, range: std::ops::Range<f64>) -> Vec<f64> {
    (0..4_096).map(|_| rng.random_range(range.clone())).collect()
}

fn beam_work() -> impl FnMut() -> usize {
    beam_of(BeamSettings::default())
}

fn wide_beam_work() -> impl FnMut() -> usize {
    beam_of(BeamSettings::new(8))
}

fn beam_of(settings: BeamSettings) -> impl FnMut() -> usize {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let pool = pool(&mut rng);
    let table = table(&mut rng, -1.0..1.0);
    move || {
        let mut search = BeamSearch::new(SearchSpace::new(&pool, LIMITS), settings).expect("a width above 0");
        let mut offset = 0;
        while let Some(sets) = search.to_score() {
            let values = values(&table, offset, sets);
            offset += values.len();
            search.take_values(&values).expect("finite values");
        }
        black_box(search.finish()).scores
    }
}

/// A hundred paths with gains around zero, so that most go to the limit of five members.
fn sample_work() -> impl FnMut() -> usize {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    let pool = pool(&mut rng);
    let table = table(&mut rng, -0.1..0.1);
    let policy = PathPolicy::new(0.05, 0.0).expect("a valid policy");
    move || {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let mut scored = 0;
        for _ in 0..100 {
            let mut sampling = SamplePath::new(SearchSpace::new(&pool, LIMITS), policy);
            while let Some(sets) = sampling.to_score() {
                let values = values(&table, scored, sets);
                scored += values.len();
                sampling.take_values(&values, &mut rng).expect("finite values");
            }
            black_box(sampling.finish().expect("a finished path"));
        }
        scored
    }
}

fn likelihood_work() -> impl FnMut() -> usize {
    let mut rng = ChaCha8Rng::seed_from_u64(4);
    let pool = pool(&mut rng);
    let policy = PathPolicy::new(0.05, 0.0).expect("a valid policy");
    let mut sampling = SamplePath::new(SearchSpace::new(&pool, LIMITS), policy);
    while let Some(sets) = sampling.to_score() {
        // Large sets are good, so that the path is as long as can be.
        let values: Vec<f64> = sets.iter().map(|set| set.len() as f64).collect();
        sampling.take_values(&values, &mut rng).expect("finite values");
    }
    let path = sampling.finish().expect("a finished path");
    let table = table(&mut rng, -0.1..0.1);
    let values = values(&table, 0, &path.sets_to_score());
    move || {
        let likelihood = policy.path_likelihood(&path, &values).expect("a valid path");
        black_box(likelihood).gradient.len()
    }
}

fn coverage_work() -> impl FnMut() -> usize {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let pool = pool(&mut rng);
    let policy = PathPolicy::new(0.05, 0.0).expect("a valid policy");
    let target: MemorySet = pool
        .candidates()
        .iter()
        .step_by(10)
        .map(|candidate| candidate.id)
        .collect();
    let table = table(&mut rng, -0.1..0.1);
    move || {
        let question =
            CoverageQuestion::new(SearchSpace::new(&pool, LIMITS), policy, &target).expect("a small target");
        let values = values(&table, 0, question.to_score());
        black_box(question.answer(&values).expect("finite values"));
        values.len()
    }
}

/// The paper's window: 400 tasks, 50 candidates each, sets of four and five members.
fn window_work(neighbourhood: Neighbourhood) -> impl FnMut() -> usize {
    let mut rng = ChaCha8Rng::seed_from_u64(6);
    let entries = (0..400).map(|name| {
        let pool = pool(&mut rng);
        let mut ids: Vec<MemoryId> = pool.candidates().iter().map(|candidate| candidate.id).collect();
        ids.shuffle(&mut rng);
        ids.truncate(4 + name % 2);
        WindowEntry {
            task: TaskId::from_u128(rng.random()),
            incumbent: ids.iter().copied().collect(),
            prefixes: (0..ids.len())
                .map(|end| ids[..end].iter().copied().collect())
                .collect(),
            limits: LIMITS,
            pool,
        }
    });
    let window = AcquisitionWindow {
        entries: entries.collect(),
    };
    move || {
        let (pool, family) = local_comparisons(&window, neighbourhood).expect("a valid window");
        black_box(family);
        pool.len()
    }
}
