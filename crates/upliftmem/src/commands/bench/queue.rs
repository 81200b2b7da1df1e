//! `bench queue`: how many executions a second workers get through when executing takes no time.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use clap::Args;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;
use upliftmem_agent::Executor;
use upliftmem_bench::{
    WorldExecutor,
    worlds::{World, WorldKind},
};
use upliftmem_core::{MemorySet, Purpose, Rollout, RolloutId};
use upliftmem_engine::{Worker, WorkerSettings};
use upliftmem_store::{NewTicket, Scope, Store, Timestamp};

use crate::{
    config::Config,
    context::open_store,
    output::{Output, Table},
};

#[derive(Debug, Args)]
pub(super) struct QueueArguments {
    /// The store: a file, or postgres://user@host/database. It is filled with tickets of scopes of their own.
    #[arg(long, value_name = "PLACE", default_value = "bench-queue.db")]
    store: String,
    /// Workers at once, each with connections of its own.
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8")]
    workers: Vec<usize>,
    /// Executions at once of each worker.
    #[arg(long, default_value_t = 16)]
    concurrency: usize,
    /// Tickets of each measurement.
    #[arg(long, default_value_t = 2_000)]
    tickets: usize,
}

#[derive(Debug, Serialize)]
struct Measured {
    workers: usize,
    concurrency: usize,
    tickets: usize,
    enqueued_per_second: f64,
    executed_per_second: f64,
}

pub(super) async fn queue(arguments: &QueueArguments, config: &Config, output: Output) -> Result<()> {
    let mut config = config.clone();
    config.store.location.clone_from(&arguments.store);
    let world = Arc::new(World::generate(WorldKind::LookAlikes, 0)?);
    let mut table = Table::new(&["workers", "at once", "tickets", "enqueued/s", "executed/s"]);
    let mut all = Vec::new();
    for &workers in &arguments.workers {
        let measured = measure(arguments, workers, &config, &world).await?;
        table.row(vec![
            measured.workers.to_string(),
            measured.concurrency.to_string(),
            measured.tickets.to_string(),
            format!("{:.0}", measured.enqueued_per_second),
            format!("{:.0}", measured.executed_per_second),
        ]);
        all.push(measured);
    }
    output.result(&all, || table.text())
}

async fn measure(
    arguments: &QueueArguments,
    workers: usize,
    config: &Config,
    world: &Arc<World>,
) -> Result<Measured> {
    let store = open_store(config, true).await?;
    let mut rng = ChaCha8Rng::seed_from_u64(Timestamp::now().millis());
    let scope = Scope::agent(format!("bench-{:016x}", rng.random::<u64>()))?;
    let executor: Arc<dyn Executor> = Arc::new(WorldExecutor::new(Arc::clone(world)));
    let tasks = world.train_tasks();
    store.put_tasks(&scope, tasks.to_vec()).await?;
    let tickets: Vec<NewTicket> = (0..arguments.tickets)
        .map(|number| NewTicket {
            rollout: Rollout {
                id: RolloutId::from_u128(rng.random()),
                task: tasks[number % tasks.len()].id,
                set: MemorySet::EMPTY,
                purpose: Purpose::Evaluation,
                executor: executor.name().to_owned(),
                seed: number as u64,
            },
            attempts_max: 1,
        })
        .collect();
    let began = Instant::now();
    for some in tickets.chunks(500) {
        store.enqueue(&scope, Timestamp::now(), some.to_vec()).await?;
    }
    let enqueued = began.elapsed();
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let mut running = tokio::task::JoinSet::new();
    let began = Instant::now();
    for number in 0..workers {
        let worker = Worker {
            store: open_store(config, false).await?,
            executor: Arc::clone(&executor),
            utility: config.utility.rule()?,
            settings: WorkerSettings {
                name: format!("bench-{number}-{:x}", rng.random::<u32>()),
                concurrency: arguments.concurrency.max(1),
                lease: Duration::from_secs(60),
                look_after: Duration::from_secs(1),
                patience: Duration::from_secs(10),
                tenant: scope.parts().clone(),
            },
        };
        let mut stopped = stopped.clone();
        running.spawn(async move {
            let stop = async move {
                // Whoever holds the other end is gone only at the end.
                let _ = stopped.wait_for(|stop| *stop).await;
            };
            worker.run(stop).await
        });
    }
    // Counting what waits is cheap; what was executed is counted once little is left.
    while store.waiting_tickets().await? > 0
        || executed(store.as_ref(), &scope).await? < arguments.tickets as u64
    {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let elapsed = began.elapsed();
    stop.send(true)?;
    let mut reported = 0;
    while let Some(done) = running.join_next().await {
        reported += done??.executed;
    }
    ensure!(
        reported == arguments.tickets as u64,
        "{reported} executions were reported of {} tickets",
        arguments.tickets
    );
    Ok(Measured {
        workers,
        concurrency: arguments.concurrency,
        tickets: arguments.tickets,
        enqueued_per_second: arguments.tickets as f64 / enqueued.as_secs_f64(),
        executed_per_second: arguments.tickets as f64 / elapsed.as_secs_f64(),
    })
}

async fn executed(store: &dyn Store, scope: &Scope) -> Result<u64> {
    Ok(store.ledger(scope).await?.total().executions)
}
