//! Recall and writes, measured: `cargo bench -p upliftmem-store` prints Markdown tables.
//!
//! `UPLIFTMEM_BENCH_SIZES` (10000,100000) says how many memories, `UPLIFTMEM_BENCH_SENTENCES` names a file of texts, one
//! a line (else they are made from templates), `UPLIFTMEM_BENCH_DUMP` a folder that gets vectors and queries for
//! `peers.py`, and with `UPLIFTMEM_TEST_POSTGRES` the PostgreSQL store is measured up to
//! `UPLIFTMEM_BENCH_POSTGRES_MAX` (10000) memories.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "it is a report"
)]

#[path = "store/data.rs"]
mod data;
#[path = "store/measure.rs"]
mod measure;

use std::{path::Path, sync::Arc, time::Instant};

use upliftmem_store::*;

use crate::{
    data::{Data, scope},
    measure::{Latencies, disk, memory_mib, processor_ms},
};

/// Candidates a recall returns, and queries that are measured.
const CANDIDATES: usize = 50;
const QUERIES: usize = 1_000;

fn main() {
    let setting = |name: &str, default: &str| std::env::var(name).unwrap_or_else(|_| default.to_owned());
    let sizes: Vec<usize> = setting("UPLIFTMEM_BENCH_SIZES", "10000,100000")
        .split(',')
        .map(|size| size.trim().parse().unwrap())
        .collect();
    let postgres_max: usize = setting("UPLIFTMEM_BENCH_POSTGRES_MAX", "10000").parse().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    println!(
        "| store | memories | mode | p50 ms | p99 ms | processor ms | recall@50 |\n|---|---|---|---|---|---|---|"
    );
    let mut notes = Vec::new();
    for size in sizes {
        let data = Data::new(size, QUERIES);
        if let Ok(folder) = std::env::var("UPLIFTMEM_BENCH_DUMP") {
            data.dump(Path::new(&folder));
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bench.db");
        let before = memory_mib();
        runtime.block_on(async {
            let store = open_sqlite(SqlitePlace::File(path.clone()), StoreLimits::default())
                .await
                .unwrap();
            let written = load(&*store, &data).await;
            let built = build(&*store, &data).await;
            let used = memory_mib() - before;
            let disk = disk(folder.path());
            recalls("SQLite", &*store, &data).await;
            notes.push(format!(
                "SQLite, {size}: {:.0} memories/s written in batches of 1000; index built in {built:.1} s; \
                 {used:.0} MiB more resident memory; {disk:.0} MiB on disk",
                size as f64 / written
            ));
            notes.push(format!(
                "SQLite, {size}: {}",
                single_writes(&store, size, 1).await
            ));
            notes.push(format!(
                "SQLite, {size}: {}",
                single_writes(&store, size, 32).await
            ));
            notes.push(format!(
                "SQLite, {size}: {}",
                readers_while_writing(&store, &data).await
            ));
        });
        if let Ok(url) = std::env::var("UPLIFTMEM_TEST_POSTGRES")
            && size <= postgres_max
        {
            runtime.block_on(async {
                let place = PostgresPlace {
                    schema: format!("bench_{}_{size}", std::process::id()),
                    ..PostgresPlace::new(url)
                };
                let store = open_postgres(place, StoreLimits::default()).await.unwrap();
                let written = load(&*store, &data).await;
                recalls("PostgreSQL", &*store, &data).await;
                let rate = size as f64 / written;
                notes.push(format!(
                    "PostgreSQL, {size}: {rate:.0} memories/s written, indexes included"
                ));
                notes.push(format!(
                    "PostgreSQL, {size}: {}",
                    single_writes(&store, size, 1).await
                ));
            });
        }
    }
    println!();
    for note in notes {
        println!("* {note}");
    }
}

fn now() -> Timestamp {
    Timestamp::from_millis(1_000)
}

/// Writes everything in batches; says how many seconds it took.
async fn load(store: &dyn Store, data: &Data) -> f64 {
    let start = Instant::now();
    for first in (0..data.len()).step_by(1_000) {
        let batch = (first..data.len().min(first + 1_000))
            .map(|number| data.memory(number))
            .collect();
        let results = store.add_memories(&scope(), now(), batch).await.unwrap();
        assert!(results.iter().all(|result| result.status == ItemStatus::Stored));
    }
    start.elapsed().as_secs_f64()
}

/// Asks once and waits until the index covers everything; says how many seconds it took.
async fn build(store: &dyn Store, data: &Data) -> f64 {
    let start = Instant::now();
    store
        .recall(&scope(), now(), data.query(0, CANDIDATES, RecallMode::Dense))
        .await
        .unwrap();
    while store.unindexed(&scope()).await.unwrap() > 0 {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    start.elapsed().as_secs_f64()
}

async fn recalls(name: &str, store: &dyn Store, data: &Data) {
    for mode in [RecallMode::Dense, RecallMode::Lexical, RecallMode::Hybrid] {
        let mut latencies = Latencies::default();
        let mut found = 0;
        let before = processor_ms();
        for number in 0..QUERIES {
            let query = data.query(number, CANDIDATES, mode);
            let start = Instant::now();
            let recall = store.recall(&scope(), now(), query).await.unwrap();
            latencies.add(start.elapsed());
            found += data.count_true(number, &recall);
        }
        let share = match mode {
            RecallMode::Dense => format!("{:.4}", found as f64 / data.count_wanted() as f64),
            _ => "-".to_owned(),
        };
        let processor = (processor_ms() - before) / QUERIES as f64;
        let (p50, p99) = latencies.p50_p99();
        println!(
            "| {name} | {} | {mode:?} | {p50:.2} | {p99:.2} | {processor:.2} | {share} |",
            data.len()
        );
    }
}

/// Durable writes of one memory each, from several tasks at once.
async fn single_writes(store: &Arc<dyn Store>, size: usize, tasks: usize) -> String {
    const WRITES: usize = 640;
    let start = Instant::now();
    let mut running = tokio::task::JoinSet::new();
    for task in 0..tasks {
        let store = Arc::clone(store);
        running.spawn(async move {
            for write in 0..WRITES / tasks {
                let number = size * 10 + tasks * 100_000 + task * 1_000 + write;
                let memory = data::plain(number);
                store.add_memories(&scope(), now(), vec![memory]).await.unwrap();
            }
        });
    }
    while let Some(done) = running.join_next().await {
        done.unwrap();
    }
    let rate = WRITES as f64 / start.elapsed().as_secs_f64();
    format!("{rate:.0} durable writes/s of one memory each, {tasks} at a time")
}

/// Two readers beside one writer of single memories, for three seconds.
async fn readers_while_writing(store: &Arc<dyn Store>, data: &Data) -> String {
    let end = Instant::now() + std::time::Duration::from_secs(3);
    let writer = {
        let store = Arc::clone(store);
        let first = data.len() * 20;
        tokio::spawn(async move {
            let mut written = 0;
            while Instant::now() < end {
                let memory = data::embedded(first + written);
                store.add_memories(&scope(), now(), vec![memory]).await.unwrap();
                written += 1;
            }
            written
        })
    };
    let read = async |offset: usize| {
        let mut latencies = Latencies::default();
        let mut number = offset;
        while Instant::now() < end {
            let query = data.query(number % QUERIES, CANDIDATES, RecallMode::Hybrid);
            let start = Instant::now();
            store.recall(&scope(), now(), query).await.unwrap();
            latencies.add(start.elapsed());
            number += 1;
        }
        latencies
    };
    let mut latencies = read(0).await;
    let written = writer.await.unwrap();
    let reads = latencies.len();
    let (p50, p99) = latencies.p50_p99();
    format!(
        "a reader (hybrid) beside a writer: {:.0} reads/s, p50 {p50:.2} ms, p99 {p99:.2} ms, {:.0} writes/s",
        reads as f64 / 3.0,
        f64::from(u32::try_from(written).unwrap()) / 3.0
    )
}
