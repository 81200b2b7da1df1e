//! Recall by mode, beside what it costs to have it.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use upliftmem_store::*;

use crate::{
    CANDIDATES, QUERIES,
    data::{Data, scope},
    measure::{Latencies, disk, memory_mib, processor_ms},
    now, postgres, sqlite,
};

pub(crate) fn head() {
    println!(
        "| store | vectors | memories | mode | p50 ms | p99 ms | processor p50 | processor p99 | recall@50 |\n\
         |---|---|---|---|---|---|---|---|---|"
    );
}

/// Where a store is measured: in a folder that is kept, or in one that goes away.
struct Place {
    folder: PathBuf,
    _temporary: Option<tempfile::TempDir>,
}

impl Place {
    fn new(data: &Data) -> Self {
        if let Some(kept) = std::env::var_os("UPLIFTMEM_BENCH_FOLDER") {
            let name = format!("{:?}-{}", data.kind, data.len()).to_lowercase();
            let folder = PathBuf::from(kept).join(name);
            std::fs::create_dir_all(&folder).unwrap();
            return Self {
                folder,
                _temporary: None,
            };
        }
        let temporary = tempfile::tempdir().unwrap();
        Self {
            folder: temporary.path().to_owned(),
            _temporary: Some(temporary),
        }
    }

    fn file(&self) -> PathBuf {
        self.folder.join("bench.db")
    }
}

/// Writes and builds, and waits until the graph is saved.
pub(crate) async fn sqlite_build(data: &Data) {
    let place = Place::new(data);
    let store = sqlite(&place.file()).await;
    let written = load(&*store, data).await;
    let built = build(&*store, data).await;
    println!(
        "\n* SQLite, {:?}, {}: written in {written:.0} s, built in {built:.0} s\n",
        data.kind,
        data.len()
    );
    saved(data).await;
}

/// The builder saves a large graph after its last node, on a thread of its own.
async fn saved(data: &Data) {
    tokio::time::sleep(Duration::from_secs(data.len() as u64 / 50_000)).await;
}

pub(crate) async fn sqlite_recalls(data: &Data) {
    let place = Place::new(data);
    let path = place.file();
    let before = memory_mib();
    let found = path.exists();
    let store = sqlite(&path).await;
    let written = if found {
        f64::NAN
    } else {
        load(&*store, data).await
    };
    let processor = processor_ms();
    let built = build(&*store, data).await;
    let build_processor = (processor_ms() - processor) / 1e3;
    let used = memory_mib() - before;
    saved(data).await;
    recalls("SQLite", &*store, data).await;
    drop(store);
    let disk = disk(&place.folder);
    let start = Instant::now();
    let store = sqlite(&path).await;
    let query = data.query(0, CANDIDATES, RecallMode::Dense);
    store.recall(&scope(), now(), query).await.unwrap();
    let first = start.elapsed().as_secs_f64();
    let rebuilt = build(&*store, data).await;
    println!(
        "\n* SQLite, {:?}, {}: {:.0} memories/s written in batches of 1000; index built in {built:.1} s \
         ({build_processor:.1} s of processors); {used:.0} MiB more resident memory; {disk:.0} MiB on disk; after a \
         restart the first answer in {first:.1} s and the whole index {rebuilt:.1} s later\n",
        data.kind,
        data.len(),
        data.len() as f64 / written
    );
}

pub(crate) async fn postgres_recalls(data: &Data) {
    let name = format!("{:?}_{}", data.kind, data.len()).to_lowercase();
    let Some((place, store)) = postgres(&name).await else {
        return;
    };
    let written = load(&*store, data).await;
    let start = Instant::now();
    let query = data.query(0, CANDIDATES, RecallMode::Hybrid);
    store.recall(&scope(), now(), query).await.unwrap();
    let first = start.elapsed().as_secs_f64();
    let built = build(&*store, data).await;
    recalls("PostgreSQL", &*store, data).await;
    // The same database, searched by its own indexes.
    let place = PostgresPlace {
        in_process_max: 0,
        ..place
    };
    let searched = open_postgres(place, StoreLimits::default()).await.unwrap();
    let made = build(&*searched, data).await;
    recalls("PostgreSQL, pgvector and tsvector", &*searched, data).await;
    println!(
        "\n* PostgreSQL, {:?}, {}: {:.0} memories/s written in batches of 1000, the server's indexes included; first answer \
         of a process after {first:.1} s, its index built {built:.1} s later; pgvector's graph in {made:.1} s\n",
        data.kind,
        data.len(),
        data.len() as f64 / written
    );
}

/// Writes everything in batches; says how many seconds it took.
async fn load(store: &dyn Store, data: &Data) -> f64 {
    let mut seconds = 0.0;
    for first in (0..data.len()).step_by(1_000) {
        let batch = (first..data.len().min(first + 1_000))
            .map(|number| data.memory(number))
            .collect();
        let start = Instant::now();
        let results = store.add_memories(&scope(), now(), batch).await.unwrap();
        seconds += start.elapsed().as_secs_f64();
        assert!(results.iter().all(|result| result.status == ItemStatus::Stored));
    }
    seconds
}

/// Asks once and waits until the index covers everything; says how many seconds it took.
async fn build(store: &dyn Store, data: &Data) -> f64 {
    let start = Instant::now();
    let query = data.query(0, CANDIDATES, RecallMode::Dense);
    store.recall(&scope(), now(), query).await.unwrap();
    while store.unindexed(&scope()).await.unwrap() > 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    start.elapsed().as_secs_f64()
}

async fn recalls(name: &str, store: &dyn Store, data: &Data) {
    for mode in [RecallMode::Dense, RecallMode::Lexical, RecallMode::Hybrid] {
        let mut latencies = Latencies::default();
        let (mut found, mut wanted) = (0, 0);
        let mut processor = Latencies::default();
        for number in 0..QUERIES {
            let query = data.query(number, CANDIDATES, mode);
            let (before, start) = (processor_ms(), Instant::now());
            let recall = store.recall(&scope(), now(), query).await.unwrap();
            latencies.add(start.elapsed());
            processor.add_ms(processor_ms() - before);
            let (hits, all) = data.count_true(number, mode, &recall);
            found += hits;
            wanted += all;
        }
        let share = if wanted > 0 {
            format!("{:.4}", found as f64 / wanted as f64)
        } else {
            "-".to_owned()
        };
        let ((p50, p99), (own50, own99)) = (latencies.p50_p99(), processor.p50_p99());
        println!(
            "| {name} | {:?} | {} | {mode:?} | {p50:.2} | {p99:.2} | {own50:.2} | {own99:.2} | {share} |",
            data.kind,
            data.len()
        );
    }
}
