//! Random operations in a process that is killed with SIGKILL again and again, against a plain model.
//!
//! After every kill the store is opened again and compared with the model, row by row: what was acknowledged is
//! there, what was not is there whole or not at all. `UPLIFTMEM_SOAK_KILLS` says how often (20), and
//! `UPLIFTMEM_SOAK_SEED` where the random numbers start (1); a failure prints both. The seed fixes the operations and
//! the moments of the kills; whether the operation in flight was still committed is up to the machine.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test says what fails by failing"
)]

mod child;
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
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("soak.db");
    soak(&format!("sqlite:{}", file.display()), kills, seed);
    check_file(&file);
    match std::env::var("UPLIFTMEM_TEST_POSTGRES") {
        Ok(url) => soak(
            &format!("postgres:{url}#soak_{}", std::process::id()),
            kills,
            seed,
        ),
        Err(_) => {
            eprintln!("skipped: UPLIFTMEM_TEST_POSTGRES is not set; `cargo xtask ci` starts a PostgreSQL");
        }
    }
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

fn soak(place: &str, kills: u64, seed: u64) {
    let kind = place.split(':').next().unwrap();
    let replay = format!("replay with UPLIFTMEM_SOAK_SEED={seed} UPLIFTMEM_SOAK_KILLS={kills}, on {kind}");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let mut model = Model::default();
    let (mut acknowledged, mut in_flight) = (0, 0);
    for kill in 0..kills {
        let mut rng = ChaCha8Rng::seed_from_u64(seed.wrapping_mul(1_000_003).wrapping_add(kill));
        let mut process = Process::start(place);
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
            acknowledged += answers.iter().flatten().count();
            in_flight += answers.iter().filter(|answer| answer.is_none()).count();
            model.apply(operations, answers);
        }
        process.child.wait().unwrap();
        let problem = runtime.block_on(async {
            let store = open(place).await;
            model.compare(&*store, &mut rng).await
        });
        assert!(
            problem.is_ok(),
            "after kill {kill}: {}; {replay}",
            problem.unwrap_err()
        );
    }
    eprintln!(
        "{kind}: {kills} kills, {acknowledged} acknowledged operations kept, {in_flight} in flight at a kill, \
         {} memories, {} tickets, seed {seed}",
        model.memories(),
        model.tickets()
    );
    // Connections to a server close on threads of their own.
    drop(runtime);
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
            .env(PLACE, place)
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

    /// The answers to a group's operations; `None` for one that was not acknowledged before the end.
    fn answers(&mut self, operations: usize) -> Vec<Option<Answer>> {
        let mut answers: Vec<Option<Answer>> = (0..operations).map(|_| None).collect();
        for _ in 0..operations {
            // The channel closes when the process has ended and everything it wrote is read.
            let Ok((position, answer)) = self.output.recv() else {
                break;
            };
            answers[position] = Some(answer);
        }
        answers
    }
}
