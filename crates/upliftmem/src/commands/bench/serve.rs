//! `bench serve`: the server under load, over real sockets.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use upliftmem_core::{Cost, MemoryId, MemorySet, Outcome, Performance, Purpose, Rollout, RolloutId, Task};
use upliftmem_engine::{LiveScope, Outcomes, ReferencePolicy};
use upliftmem_server::{bind, listen, router};
use upliftmem_store::{ExecutionReport, NewMemory, Timestamp};

use crate::{
    config::Config,
    context::Context,
    output::{Output, Table},
};

/// Searches a second that a server is asked before it is measured.
const WARM_UP_RATE: u64 = 50;
/// How long the index over vectors may take to be built.
const INDEX_PATIENCE: Duration = Duration::from_secs(600);

#[derive(Debug, Args)]
pub(super) struct ServeArguments {
    /// Memories in the store.
    #[arg(long, value_delimiter = ',', default_value = "1000,100000")]
    memories: Vec<usize>,
    /// Labels that the scorer has learned from.
    #[arg(long, default_value_t = 500)]
    labels: usize,
    /// Searches a second that are asked for; as fast as they are answered, if 0.
    #[arg(long, value_delimiter = ',', default_value = "200,0")]
    rate: Vec<u64>,
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// Seconds that a server is asked, 50 times a second, before it is measured: the first searches read the index, make the
    /// scorer, and meet most memories for the first time.
    #[arg(long, default_value_t = 3, value_name = "SECONDS")]
    warm_up: u64,
    /// Connections that are kept open.
    #[arg(long, default_value_t = 16)]
    connections: usize,
    /// Which queries: no query comes twice with one seed, so another seed goes on asking what the server has not met.
    #[arg(long, default_value_t = 7)]
    seed: u64,
    /// The store to fill and serve, e.g. postgres://user@host/database [default: a file that is removed].
    #[arg(long, value_name = "PLACE")]
    store: Option<String>,
    /// Servers that run already and share what was filled before, instead of one in this process.
    #[arg(long, value_delimiter = ',', value_name = "HTTP://HOST:PORT", conflicts_with_all = ["memories", "store"])]
    url: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Measured {
    memories: usize,
    labels: usize,
    /// Searches a second that were asked for.
    rate: u64,
    searches: usize,
    failed: u64,
    per_second: f64,
    p50_ms: f64,
    p90_ms: f64,
    p99_ms: f64,
    max_ms: f64,
    /// Memory and open files of the process before and after: a long run shows whether they grow.
    before: Resources,
    after: Resources,
}

/// What the process holds; nothing where the system does not say.
#[derive(Debug, Clone, Copy, Default, Serialize)]
struct Resources {
    resident_mib: f64,
    files: usize,
}

impl Resources {
    fn now() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kibibytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
        Self {
            resident_mib: kibibytes.unwrap_or_default() / 1024.0,
            files: std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count),
        }
    }
}

/// What is asked: a new query each time, from the first of the warm-up to the last.
#[derive(Debug)]
struct Queries {
    seed: u64,
    asked: AtomicU64,
}

impl Queries {
    fn new(seed: u64) -> Self {
        Self {
            seed,
            asked: AtomicU64::new(0),
        }
    }

    fn next(&self) -> String {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        rng.set_stream(self.asked.fetch_add(1, Ordering::Relaxed));
        sentence(&mut rng, 10)
    }
}

pub(super) async fn serve(arguments: &ServeArguments, config: &Config, output: Output) -> Result<()> {
    let mut table = Table::new(&[
        "memories", "asked/s", "done/s", "p50 ms", "p90 ms", "p99 ms", "max ms", "failed", "MiB", "files",
    ]);
    let mut all = Vec::new();
    if arguments.url.is_empty() {
        for &memories in &arguments.memories {
            all.extend(measure(arguments, memories, config, output).await?);
        }
    } else {
        let addresses = arguments.url.iter().map(|url| {
            let address = url
                .strip_prefix("http://")
                .context("--url: give http://HOST:PORT")?;
            Ok(address.trim_end_matches('/').to_owned())
        });
        let addresses = addresses.collect::<Result<Vec<_>>>()?;
        all = rates(&addresses, arguments, &Arc::new(Queries::new(arguments.seed)), 0).await?;
    }
    for measured in &all {
        table.row(vec![
            match measured.memories {
                0 => "-".into(),
                memories => memories.to_string(),
            },
            match measured.rate {
                0 => "max".into(),
                rate => rate.to_string(),
            },
            format!("{:.0}", measured.per_second),
            format!("{:.2}", measured.p50_ms),
            format!("{:.2}", measured.p90_ms),
            format!("{:.2}", measured.p99_ms),
            format!("{:.2}", measured.max_ms),
            measured.failed.to_string(),
            format!("{:.0}", measured.after.resident_mib),
            measured.after.files.to_string(),
        ]);
    }
    output.result(&all, || table.text())
}

/// Fills a store, serves it in this process, and measures that.
async fn measure(
    arguments: &ServeArguments,
    memories: usize,
    config: &Config,
    output: Output,
) -> Result<Vec<Measured>> {
    let directory = std::env::temp_dir().join(format!("upliftmem-bench-{}-{memories}", std::process::id()));
    std::fs::create_dir_all(&directory)?;
    let mut config = config.clone();
    match &arguments.store {
        Some(place) => config.store.location.clone_from(place),
        None => {
            config.directory.clone_from(&directory);
            config.store.location = "bench.db".into();
        }
    }
    drop(crate::context::open_store(&config, true).await?);
    let context = Context::open(config, output).await?;
    let app = crate::commands::serve::app(&context, false)?;
    let live = context.live()?.scope(&context.scope).await?;
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let ids = fill(&context, &live, memories, &mut rng).await?;
    teach(&context, &ids, arguments.labels, &mut rng).await?;
    drop(live);
    let listening = bind("127.0.0.1:0", None).await?;
    let address = listening.address()?.to_string();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = tokio::spawn(async move {
        let stop = async {
            let _ = stopped.await;
        };
        listen(&app, router(&app), listening, stop).await
    });
    let addresses = [address];
    let queries = Arc::new(Queries::new(arguments.seed));
    // The first search begins the index.
    let second = Duration::from_secs(1);
    load(&addresses, arguments.connections, &queries, WARM_UP_RATE, second).await?;
    indexed(&context).await?;
    let measured = rates(&addresses, arguments, &queries, memories).await?;
    let _ = stop.send(());
    serving.await??;
    drop(context);
    std::fs::remove_dir_all(&directory)?;
    Ok(measured)
}

/// Waits until the index covers every vector: until then all are compared, by the cores that build it.
async fn indexed(context: &Context) -> Result<()> {
    let began = Instant::now();
    while context.store.unindexed(&context.scope).await? > 0 {
        if began.elapsed() > INDEX_PATIENCE {
            bail!("the index over vectors was not ready after {INDEX_PATIENCE:?}");
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    Ok(())
}

/// Measures servers at every rate that is asked for.
async fn rates(
    addresses: &[String],
    arguments: &ServeArguments,
    queries: &Arc<Queries>,
    memories: usize,
) -> Result<Vec<Measured>> {
    let mut measured = Vec::new();
    let (connections, warm_up) = (arguments.connections, Duration::from_secs(arguments.warm_up));
    load(addresses, connections, queries, WARM_UP_RATE, warm_up).await?;
    for &rate in &arguments.rate {
        let (before, began) = (Resources::now(), Instant::now());
        let duration = Duration::from_secs(arguments.seconds);
        let (mut times, failed) = load(addresses, connections, queries, rate, duration).await?;
        let seconds = began.elapsed().as_secs_f64();
        if times.is_empty() {
            bail!("no search was answered; the log says why");
        }
        times.sort_unstable();
        let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
        measured.push(Measured {
            memories,
            labels: arguments.labels,
            rate,
            searches: times.len(),
            failed,
            per_second: times.len() as f64 / seconds,
            p50_ms: at(0.5),
            p90_ms: at(0.9),
            p99_ms: at(0.99),
            max_ms: at(1.0),
            before,
            after: Resources::now(),
        });
    }
    Ok(measured)
}

fn sentence(rng: &mut impl Rng, words: usize) -> String {
    const PARTS: [&str; 16] = [
        "ka", "lo", "mi", "ner", "tu", "sa", "ri", "von", "pel", "da", "gor", "hin", "bes", "zu", "fa", "wex",
    ];
    let word = |rng: &mut dyn FnMut() -> usize| -> String { (0..3).map(|_| PARTS[rng()]).collect() };
    let mut draw = || rng.random_range(0..PARTS.len());
    (0..words).map(|_| word(&mut draw)).collect::<Vec<_>>().join(" ")
}

/// Writes random memories.
async fn fill(
    context: &Context,
    live: &LiveScope,
    memories: usize,
    rng: &mut ChaCha8Rng,
) -> Result<Vec<MemoryId>> {
    let bar = context.output.bar(memories as u64, "writing memories");
    let mut ids = Vec::with_capacity(memories);
    while ids.len() < memories {
        let count = 1_000.min(memories - ids.len());
        let new: Vec<NewMemory> = (0..count)
            .map(|_| NewMemory::note(live.mint_memory(), sentence(rng, 14)))
            .collect();
        ids.extend(new.iter().map(|new| new.memory.id));
        let batch = context.texts.with_vectors(new).await?;
        context
            .store
            .add_memories(&context.scope, Timestamp::now(), batch)
            .await?;
        bar.set_position(ids.len() as u64);
    }
    bar.finish_and_clear();
    Ok(ids)
}

/// Writes random labels, half of them about no memory.
async fn teach(context: &Context, ids: &[MemoryId], labels: usize, rng: &mut ChaCha8Rng) -> Result<()> {
    let outcomes = Outcomes {
        store: Arc::clone(&context.store),
        scope: context.scope.clone(),
        utility: context.config.utility.rule()?,
        agent: context.agent()?,
        references: ReferencePolicy::Wait,
        attempts_max: 1,
    };
    let bar = context.output.bar(labels as u64, "writing labels");
    for number in 0..labels / 2 {
        let task = Task::new(format!("task {number}"), sentence(rng, 10));
        context
            .store
            .put_tasks(&context.scope, vec![task.clone()])
            .await?;
        let member = ids[rng.random_range(0..ids.len())];
        for set in [MemorySet::EMPTY, std::iter::once(member).collect()] {
            let rollout = Rollout {
                id: RolloutId::from_u128(rng.random()),
                task: task.id,
                purpose: if set.is_empty() {
                    Purpose::Reference
                } else {
                    Purpose::Retrieval
                },
                set,
                executor: outcomes.agent.clone(),
                seed: 0,
            };
            let outcome = Outcome {
                rollout: rollout.id,
                performance: Performance::new(f64::from(rng.random_range(0..2_u8)))?,
                cost: Cost::new(1.0)?,
            };
            let report = ExecutionReport {
                outcome,
                trajectory: Vec::new(),
                diagnostics: serde_json::Map::new(),
            };
            context
                .store
                .record_execution(&context.scope, Timestamp::now(), rollout.clone(), report)
                .await?;
            outcomes.learn(rollout, outcome).await?;
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    Ok(())
}

/// Searches on several connections for a while. A search is timed from the moment it was due, so that a server that
/// falls behind is seen to.
async fn load(
    addresses: &[String],
    connections: usize,
    queries: &Arc<Queries>,
    rate: u64,
    duration: Duration,
) -> Result<(Vec<Duration>, u64)> {
    let (next, failed) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let began = Instant::now();
    let mut workers = tokio::task::JoinSet::new();
    for worker in 0..connections.max(1) {
        let address = addresses[worker % addresses.len()].clone();
        let (next, failed, queries) = (Arc::clone(&next), Arc::clone(&failed), Arc::clone(queries));
        workers.spawn(async move {
            let mut connection = TcpStream::connect(&address).await?;
            connection.set_nodelay(true)?;
            let mut times = Vec::new();
            loop {
                let mut due = Instant::now();
                if let Some(per_second) = std::num::NonZeroU64::new(rate) {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    due = began + Duration::from_secs_f64(number as f64 / per_second.get() as f64);
                    tokio::time::sleep_until(due.into()).await;
                }
                if began.elapsed() >= duration {
                    return Ok::<_, anyhow::Error>(times);
                }
                let body = json!({ "query": queries.next() }).to_string();
                if search(&mut connection, &body).await? {
                    times.push(due.elapsed());
                } else {
                    failed.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
    }
    let mut times = Vec::new();
    while let Some(done) = workers.join_next().await {
        times.extend(done??);
    }
    Ok((times, failed.load(Ordering::Relaxed)))
}

/// One search on an open connection; whether it was answered with 200.
async fn search(connection: &mut TcpStream, body: &str) -> Result<bool> {
    let request = format!(
        "POST /v1/memories/search HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    connection.write_all(request.as_bytes()).await?;
    let mut seen = Vec::with_capacity(4_096);
    loop {
        if connection.read_buf(&mut seen).await? == 0 {
            bail!("the server closed a connection");
        }
        let Some(end) = seen.windows(4).position(|bytes| bytes == b"\r\n\r\n") else {
            continue;
        };
        let head = std::str::from_utf8(&seen[..end])?.to_ascii_lowercase();
        let length: usize = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "))
            .context("an answer has no length")?
            .parse()?;
        if seen.len() >= end + 4 + length {
            return Ok(head.starts_with("http/1.1 200"));
        }
    }
}
