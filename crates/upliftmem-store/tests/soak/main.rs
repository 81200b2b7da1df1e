//! Random operations in a process that is killed with SIGKILL again and again, against a plain model.
//!
//! After every kill the store is opened again and compared with the model, row by row: what was acknowledged is
//! there, what was not is there whole or not at all. `UPLIFTMEM_SOAK_KILLS` says how often (20), and
//! `UPLIFTMEM_SOAK_SEED` where the random numbers start (1).
//!
//! Operations are a function of the seed, of what was acknowledged, and of what was found of the operations in
//! flight at a kill; the last two are the machine's, so they are written down ([`history`]). A failure keeps its history
//! in a file, and `UPLIFTMEM_SOAK_REPLAY=FILE` runs it again: the same operations in the order in which they were
//! acknowledged, one at a time, with a kill where there was one; an operation in flight is sent if it had taken
//! effect. Every run ends with the replay of its own history, which must lead to the same rows.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test says what fails by failing"
)]

mod child;
mod history;
mod model;
mod operation;

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc,
    time::Duration,
};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use upliftmem_store::*;

use crate::{
    history::{History, Life},
    model::Model,
    operation::{Answer, Group},
};

/// Groups of operations between two kills, at most.
const GROUPS_MAX: u32 = 25;
const PLACE: &str = "UPLIFTMEM_SOAK_CHILD";

fn main() {
    if let Ok(place) = std::env::var(PLACE) {
        child::run(&place);
        return;
    }
    let setting =
        |name: &str, default: u64| std::env::var(name).map_or(default, |value| value.parse().unwrap());
    let kills = setting("UPLIFTMEM_SOAK_KILLS", 20);
    let seed = setting("UPLIFTMEM_SOAK_SEED", 1);
    if let Ok(file) = std::env::var("UPLIFTMEM_SOAK_REPLAY") {
        let history = History::read(Path::new(&file));
        on(history.database, |place| drop(history::replay(place, &history)));
        return;
    }
    for database in [Database::Sqlite, Database::Postgres] {
        let mut run = None;
        on(database, |place| run = Some(soak(place, database, kills, seed)));
        let Some((model, history)) = run else { continue };
        on(database, |place| {
            assert_eq!(
                history::replay(place, &history),
                model,
                "a replay leads elsewhere"
            );
        });
        eprintln!("{database:?}: replayed, with the same end");
    }
}

/// Gives a new place in a database, unless there is no such database.
fn on(database: Database, work: impl FnOnce(&str)) {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    match database {
        Database::Sqlite => {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("soak.db");
            work(&format!("sqlite:{}", file.display()));
            check_file(&file);
        }
        Database::Postgres => match std::env::var("UPLIFTMEM_TEST_POSTGRES") {
            Ok(url) => {
                let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                work(&format!("postgres:{url}#soak_{}_{number}", std::process::id()));
            }
            Err(_) => {
                eprintln!(
                    "skipped: UPLIFTMEM_TEST_POSTGRES is not set; `cargo xtask ci` starts a PostgreSQL"
                );
            }
        },
    }
}

/// The databases that are tested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
enum Database {
    Sqlite,
    Postgres,
}

/// Opens `sqlite:PATH` or `postgres:URL#SCHEMA`.
async fn open(place: &str) -> std::sync::Arc<dyn Store> {
    let limits = StoreLimits::default();
    match place.split_once(':').unwrap() {
        ("sqlite", path) => open_sqlite(SqlitePlace::File(path.into()), limits).await.unwrap(),
        (_, address) => {
            let (url, schema) = address.rsplit_once('#').unwrap();
            let place = PostgresPlace {
                schema: schema.into(),
                ..PostgresPlace::new(url)
            };
            open_postgres(place, limits).await.unwrap()
        }
    }
}

fn soak(place: &str, database: Database, kills: u64, seed: u64) -> (Model, History) {
    let mut model = Model::default();
    let mut history = History {
        database,
        lives: Vec::new(),
    };
    let (mut acknowledged, mut in_flight) = (0, 0);
    for kill in 0..kills {
        let mut rng = ChaCha8Rng::seed_from_u64(seed.wrapping_mul(1_000_003).wrapping_add(kill));
        let mut process = Process::start(place);
        let mut life = Life::default();
        let groups = rng.random_range(1..=GROUPS_MAX);
        for group in 1..=groups {
            let operations = model.propose(&mut rng);
            process.send(&operations);
            if group == groups {
                // The kill falls somewhere into the work on this group.
                let most = rng.random_range(1..6_000);
                std::thread::sleep(Duration::from_micros(rng.random_range(0..most)));
                process.child.kill().unwrap();
            }
            let answers = process.answers(operations.0.len());
            acknowledged += answers.len();
            in_flight += operations.0.len() - answers.len();
            life.acknowledged.extend(
                answers
                    .iter()
                    .map(|(position, answer)| (operations.0[*position].clone(), answer.clone())),
            );
            model.apply(operations, answers);
        }
        process.child.wait().unwrap();
        let problem = compare(place, &mut model, &mut rng);
        life.found = std::mem::take(&mut model.found);
        history.lives.push(life);
        if let Err(problem) = problem {
            let file = history.keep(seed);
            panic!(
                "{database:?}, seed {seed}, after kill {kill}: {problem}; replay it with UPLIFTMEM_SOAK_REPLAY={}",
                file.display()
            );
        }
    }
    eprintln!(
        "{database:?}: {kills} kills, {acknowledged} acknowledged operations kept, {in_flight} in flight at a kill, \
         {} memories, {} tickets, seed {seed}",
        model.memories(),
        model.tickets()
    );
    (model, history)
}

/// What a child adds to the server's address, so that its connections can be told from others.
fn child_name(place: &str) -> String {
    let between = if place.contains('?') { '&' } else { '?' };
    format!("{between}application_name=soak_child_{}", std::process::id())
}

/// A server goes on with what it was sent after the one who sent it was killed: waits until it has noticed.
fn wait_for_server(place: &str) {
    let Some((url, _)) = place
        .strip_prefix("postgres:")
        .and_then(|address| address.rsplit_once('#'))
    else {
        return;
    };
    let mut client = postgres::Client::connect(url, postgres::NoTls).unwrap();
    let query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1";
    let name = format!("soak_child_{}", std::process::id());
    for _ in 0..6_000 {
        if client.query_one(query, &[&name]).unwrap().get::<_, i64>(0) == 0 {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("the server still works for a process that was killed a minute ago");
}

/// Opens the store as it was left, and compares.
fn compare(place: &str, model: &mut Model, rng: &mut ChaCha8Rng) -> std::result::Result<(), String> {
    wait_for_server(place);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    // Connections to a server close on threads of their own, which end with the runtime.
    runtime.block_on(async {
        let store = open(place).await;
        model.compare(&*store, rng).await
    })
}

fn check_file(file: &Path) {
    let database = rusqlite::Connection::open(file).unwrap();
    let verdict: String = database
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .unwrap();
    assert_eq!(verdict, "ok");
}

/// The process that writes.
struct Process {
    child: Child,
    input: ChildStdin,
    output: mpsc::Receiver<(usize, Answer)>,
}

impl Process {
    fn start(place: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .env(PLACE, place.replace('#', &format!("{}#", child_name(place))))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (send, output) = mpsc::channel();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        std::thread::spawn(move || {
            // A line that the kill cut in two is no acknowledgement.
            for line in lines.map_while(std::result::Result::ok) {
                let Ok(answer) = serde_json::from_str(&line) else {
                    break;
                };
                if send.send(answer).is_err() {
                    break;
                }
            }
        });
        Self {
            input: child.stdin.take().unwrap(),
            child,
            output,
        }
    }

    fn send(&mut self, group: &Group) {
        let line = serde_json::to_string(group).unwrap();
        writeln!(self.input, "{line}").unwrap();
    }

    /// The answers to a group's operations, by position, as they come. One that is missing was not acknowledged
    /// before the end.
    fn answers(&mut self, operations: usize) -> Vec<(usize, Answer)> {
        // The channel closes when the process has ended and everything it wrote is read.
        (0..operations).map_while(|_| self.output.recv().ok()).collect()
    }
}
