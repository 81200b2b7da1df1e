//! Durable writes, tickets, and readers beside a writer.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use upliftmem_core::{Cost, MemorySet, Outcome, Performance, Purpose, Rollout, RolloutId, TaskId};
use upliftmem_store::*;

use crate::{
    CANDIDATES,
    data::{self, Data, Kind, scope},
    measure::Latencies,
    measured, now, postgres, sqlite,
};

/// Memories that readers search.
const MEMORIES: usize = 10_000;
/// How long readers and a writer run side by side.
const SIDE_BY_SIDE: Duration = Duration::from_secs(3);

pub(crate) async fn all() {
    let folder = tempfile::tempdir().unwrap();
    let data = Data::new(Kind::Clustered, MEMORIES, 1_000);
    if measured("sqlite") {
        measure("SQLite", sqlite(&folder.path().join("bench.db")).await, &data).await;
    }
    if let Some((_, store)) = postgres("writes").await {
        measure("PostgreSQL", store, &data).await;
    }
}

async fn measure(name: &str, store: Arc<dyn Store>, data: &Data) {
    println!("\n| {name}: durable writes | a second |\n|---|---|");
    let row = |what: &str, rate: f64| println!("| {what} | {rate:.0} |");
    row("one memory, 1 at a time", memories(&store, 1, 400, 1).await);
    row("one memory, 32 at a time", memories(&store, 32, 50, 1).await);
    row(
        "memories in batches of 100, 1 at a time",
        memories(&store, 1, 40, 100).await,
    );
    for (tasks, batch) in [(1, 1), (32, 1), (1, 100)] {
        let [enqueue, lease, complete] = tickets(&store, tasks, batch).await;
        let how = format!("in batches of {batch}, {tasks} at a time");
        row(&format!("tickets enqueued {how}"), enqueue);
        row(&format!("tickets leased {how}"), lease);
        row(&format!("tickets completed {how}"), complete);
    }
    row(
        "tasks of an instant executor: enqueue, lease, complete, append; 16 at a time",
        loops(&store, 16).await,
    );
    for first in (0..MEMORIES).step_by(1_000) {
        let batch = (first..first + 1_000).map(|number| data.memory(number)).collect();
        store.add_memories(&scope(), now(), batch).await.unwrap();
    }
    println!(
        "\n| {name}: readers beside a writer | reads/s | read p50 ms | read p99 ms | writes/s | write p50 ms | \
         write p99 ms |\n|---|---|---|---|---|---|---|"
    );
    for readers in [1, 2, 4] {
        side_by_side(&store, data, readers).await;
    }
}

/// Runs `each` in several tasks at once; says how many items a second were done.
async fn rate<F: Future<Output = ()> + Send + 'static>(
    tasks: usize,
    items: usize,
    each: impl Fn(usize) -> F,
) -> f64 {
    let start = Instant::now();
    let mut running = tokio::task::JoinSet::new();
    for task in 0..tasks {
        running.spawn(each(task));
    }
    while let Some(done) = running.join_next().await {
        done.unwrap();
    }
    items as f64 / start.elapsed().as_secs_f64()
}

fn fresh() -> u64 {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1_000_000);
    NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
}

async fn memories(store: &Arc<dyn Store>, tasks: usize, writes: usize, batch: usize) -> f64 {
    rate(tasks, tasks * writes * batch, |_| {
        let store = Arc::clone(store);
        async move {
            for _ in 0..writes {
                let memories = (0..batch).map(|_| data::embedded(fresh() as usize)).collect();
                store.add_memories(&scope(), now(), memories).await.unwrap();
            }
        }
    })
    .await
}

fn ticket() -> NewTicket {
    let number = fresh();
    NewTicket {
        rollout: Rollout {
            id: RolloutId::from_u128(number.into()),
            task: TaskId::from_name("bench"),
            set: MemorySet::EMPTY,
            purpose: Purpose::Reference,
            executor: "bench".into(),
            seed: number,
        },
        attempts_max: 3,
    }
}

fn report(rollout: RolloutId) -> ExecutionReport {
    ExecutionReport {
        outcome: Outcome {
            rollout,
            performance: Performance::new(0.5).unwrap(),
            cost: Cost::new(3.0).unwrap(),
        },
        trajectory: Vec::new(),
        diagnostics: serde_json::Map::new(),
    }
}

fn request(tickets: usize) -> LeaseRequest {
    LeaseRequest {
        worker: "bench".into(),
        tickets,
        duration: Duration::from_secs(3_600),
        purpose: None,
    }
}

/// Tickets enqueued, leased and completed a second.
async fn tickets(store: &Arc<dyn Store>, tasks: usize, batch: usize) -> [f64; 3] {
    let calls = if tasks == 1 && batch == 1 { 300 } else { 40 };
    let items = tasks * calls * batch;
    let enqueued = rate(tasks, items, |_| {
        let store = Arc::clone(store);
        async move {
            for _ in 0..calls {
                let tickets = (0..batch).map(|_| ticket()).collect();
                store.enqueue(&scope(), now(), tickets).await.unwrap();
            }
        }
    })
    .await;
    let held = Arc::new(tokio::sync::Mutex::new(Vec::new()));
    let leased = rate(tasks, items, |_| {
        let (store, held) = (Arc::clone(store), Arc::clone(&held));
        async move {
            for _ in 0..calls {
                let leased = store.lease(&scope(), now(), request(batch)).await.unwrap();
                held.lock().await.push(leased);
            }
        }
    })
    .await;
    let completed = rate(tasks, items, |_| {
        let (store, held) = (Arc::clone(store), Arc::clone(&held));
        async move {
            loop {
                let Some(leased) = held.lock().await.pop() else {
                    return;
                };
                let reports: Vec<_> = leased
                    .iter()
                    .map(|leased| (leased.lease, report(leased.rollout.id)))
                    .collect();
                for answer in store.complete_many(&scope(), now(), reports).await.unwrap() {
                    answer.unwrap();
                }
            }
        }
    })
    .await;
    [enqueued, leased, completed]
}

/// Tasks a second of a training loop whose executions take no time: four durable writes each.
async fn loops(store: &Arc<dyn Store>, tasks: usize) -> f64 {
    const ROUNDS: usize = 40;
    rate(tasks, tasks * ROUNDS, |_| {
        let store = Arc::clone(store);
        async move {
            for _ in 0..ROUNDS {
                store.enqueue(&scope(), now(), vec![ticket()]).await.unwrap();
                let leased = store.lease(&scope(), now(), request(1)).await.unwrap();
                for leased in leased {
                    let report = report(leased.rollout.id);
                    store
                        .complete(&scope(), now(), leased.lease, report)
                        .await
                        .unwrap();
                }
                let event = TrainingEvent {
                    key: fresh().to_string(),
                    event: "bench".into(),
                    detail: serde_json::Map::new(),
                };
                let entry = JournalEntry::TrainingEvent(event);
                store.append(&scope(), now(), vec![entry]).await.unwrap();
            }
        }
    })
    .await
}

/// Readers (hybrid) beside one writer of single memories.
async fn side_by_side(store: &Arc<dyn Store>, data: &Data, readers: usize) {
    let end = Instant::now() + SIDE_BY_SIDE;
    let mut running = tokio::task::JoinSet::new();
    for reader in 0..readers {
        let store = Arc::clone(store);
        let queries: Vec<RecallQuery> = (0..1_000)
            .map(|number| data.query((number + reader * 250) % 1_000, CANDIDATES, RecallMode::Hybrid))
            .collect();
        running.spawn(async move {
            let mut latencies = Latencies::default();
            for query in queries.iter().cycle() {
                let start = Instant::now();
                if start >= end {
                    break;
                }
                store.recall(&scope(), now(), query.clone()).await.unwrap();
                latencies.add(start.elapsed());
            }
            latencies
        });
    }
    let mut writes = Latencies::default();
    while Instant::now() < end {
        let memory = data::embedded(fresh() as usize);
        let start = Instant::now();
        store.add_memories(&scope(), now(), vec![memory]).await.unwrap();
        writes.add(start.elapsed());
    }
    let mut reads = Latencies::default();
    while let Some(latencies) = running.join_next().await {
        reads.extend(latencies.unwrap());
    }
    let seconds = SIDE_BY_SIDE.as_secs_f64();
    let (read, write) = (reads.p50_p99(), writes.p50_p99());
    println!(
        "| {readers} | {:.0} | {:.2} | {:.2} | {:.0} | {:.2} | {:.2} |",
        reads.len() as f64 / seconds,
        read.0,
        read.1,
        writes.len() as f64 / seconds,
        write.0,
        write.1
    );
}
