//! Recall, writes and tickets, measured: `cargo bench -p upliftmem-store` prints Markdown tables.
//!
//! `UPLIFTMEM_BENCH_SIZES` (10000,100000) says how many memories, `UPLIFTMEM_BENCH_SENTENCES` names a file of texts, one
//! a line (else they are made from templates), `UPLIFTMEM_BENCH_VECTORS` the file of their vectors that `embed.py`
//! wrote (else all vectors are made), `UPLIFTMEM_BENCH_DUMP` a folder that gets vectors and queries for `peers.py`,
//! and with `UPLIFTMEM_TEST_POSTGRES` the PostgreSQL store is measured up to `UPLIFTMEM_BENCH_POSTGRES_MAX` (10000)
//! memories. `UPLIFTMEM_BENCH_FOLDER` keeps the SQLite stores, which a later run then finds written and built; the kind `build`
//! does nothing but that. `UPLIFTMEM_BENCH_KINDS` (recall,writes), `UPLIFTMEM_BENCH_STORES` (sqlite,postgres) and
//! `UPLIFTMEM_BENCH_TEXTS` (clustered,sentences) leave parts out.

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
#[path = "store/recalls.rs"]
mod recalls;
#[path = "store/writes.rs"]
mod writes;

use std::{path::Path, sync::Arc};

use upliftmem_store::*;

use crate::data::{Data, Kind};

/// Candidates a recall returns, and queries that are measured.
const CANDIDATES: usize = 50;
const QUERIES: usize = 1_000;

fn setting(name: &str, default: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| default.to_owned())
}

/// Whether a database is measured.
fn measured(store: &str) -> bool {
    setting("UPLIFTMEM_BENCH_STORES", "sqlite,postgres").contains(store)
}

fn now() -> Timestamp {
    Timestamp::from_millis(1_000)
}

async fn sqlite(path: &Path) -> Arc<dyn Store> {
    open_sqlite(SqlitePlace::File(path.to_owned()), StoreLimits::default())
        .await
        .unwrap()
}

/// A store in a schema of its own: where it is, and the store.
async fn postgres(name: &str) -> Option<(PostgresPlace, Arc<dyn Store>)> {
    if !measured("postgres") {
        return None;
    }
    let place = PostgresPlace {
        schema: format!("bench_{}_{name}", std::process::id()),
        ..PostgresPlace::new(std::env::var("UPLIFTMEM_TEST_POSTGRES").ok()?)
    };
    let store = open_postgres(place.clone(), StoreLimits::default())
        .await
        .unwrap();
    Some((place, store))
}

fn main() {
    let sizes: Vec<usize> = setting("UPLIFTMEM_BENCH_SIZES", "10000,100000")
        .split(',')
        .map(|size| size.trim().parse().unwrap())
        .collect();
    let postgres_max: usize = setting("UPLIFTMEM_BENCH_POSTGRES_MAX", "10000").parse().unwrap();
    let kinds = setting("UPLIFTMEM_BENCH_KINDS", "recall,writes");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    if kinds.contains("build") {
        for &size in &sizes {
            let data = Data::unchecked(Kind::Clustered, size, QUERIES);
            runtime.block_on(recalls::sqlite_build(&data));
        }
    }
    if kinds.contains("recall") {
        recalls::head();
        for &size in &sizes {
            for kind in [Kind::Clustered, Kind::Sentences] {
                let name = format!("{kind:?}").to_lowercase();
                if !setting("UPLIFTMEM_BENCH_TEXTS", "clustered,sentences").contains(&name)
                    || kind == Kind::Sentences && data::embedded_sentences().is_none()
                {
                    continue;
                }
                let data = Data::new(kind, size, QUERIES);
                if let Ok(folder) = std::env::var("UPLIFTMEM_BENCH_DUMP") {
                    data.dump(Path::new(&folder));
                }
                if measured("sqlite") {
                    runtime.block_on(recalls::sqlite_recalls(&data));
                }
                if size <= postgres_max {
                    runtime.block_on(recalls::postgres_recalls(&data));
                }
            }
        }
    }
    if kinds.contains("writes") {
        runtime.block_on(writes::all());
    }
}
