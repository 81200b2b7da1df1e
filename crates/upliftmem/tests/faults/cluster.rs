//! The processes of one run, and what can be done to them.

use std::{
    io::{BufRead, BufReader, Read},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use rand::{Rng, RngExt};
use serde_json::{Value, json};

use crate::{
    proxy::Proxy,
    support::{succeeds, upliftmem},
};

/// Trains on the tasks of [`directory`].
pub(crate) const TRAIN: [&str; 6] = ["--json", "train", "--tasks", "tasks.jsonl", "--seed-tasks", "16"];
/// Long enough for a whole run on a busy machine.
const PATIENCE: Duration = Duration::from_secs(240);

/// Hours by which the clocks of workers, replicas and trainers are ahead of the database's.
const WORKERS_AHEAD: [i64; 4] = [0, 30, -3, 5];
const REPLICAS_AHEAD: [i64; 2] = [7, -4];
const TRAINERS_AHEAD: [i64; 2] = [-26, 2];

/// An agent that always does the same with the same, and takes its time.
const AGENT: &str = r#"
import hashlib, json, sys, time
for line in sys.stdin:
    request = json.loads(line)
    time.sleep(0.03)
    words = [request["task"]["id"], str(request["seed"])] + [memory["id"] for memory in request["memories"]]
    digest = hashlib.sha256("|".join(words).encode()).digest()
    answer = {"v": 1, "id": request["id"], "performance": digest[0] % 2, "cost": 1 + digest[1] % 9}
    print(json.dumps(answer), flush=True)
"#;

/// A database of the test server, dropped at the end.
pub(crate) struct Database {
    server: String,
    name: String,
}

impl Database {
    pub(crate) fn new(server: &str, name: &str) -> Self {
        let name = format!("{name}_{}", std::process::id());
        let database = Self {
            server: server.to_owned(),
            name,
        };
        database.operate(&format!("CREATE DATABASE {}", database.name));
        database
    }

    fn operate(&self, statement: &str) {
        let mut client = postgres::Client::connect(&self.server, postgres::NoTls).unwrap();
        client.batch_execute(statement).unwrap();
    }

    /// Where the server listens.
    pub(crate) fn port(&self) -> u16 {
        let config: postgres::Config = self.server.parse().unwrap();
        config.get_ports()[0]
    }

    /// The address of the database by way of a port.
    pub(crate) fn url(&self, port: u16) -> String {
        let config: postgres::Config = self.server.parse().unwrap();
        let user = config.get_user().unwrap();
        format!(
            "postgresql://{user}@127.0.0.1:{port}/{}?connect_timeout=5",
            self.name
        )
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        self.operate(&format!("DROP DATABASE {} WITH (FORCE)", self.name));
    }
}

/// A directory with a configuration, memories and tasks.
pub(crate) fn directory(url: &str) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    std::fs::write(place.join("agent.py"), AGENT).unwrap();
    let config = format!(
        "[store]\nlocation = \"{url}\"\n[executor]\nkind = \"command\"\nname = \"agent\"\n\
         command = [\"python3\", \"agent.py\"]\nconcurrency = 2\nretries = 20\n\
         [acquisition]\nacquisition_interval = 16\nprobe_budget = 8\n\
         [training]\nupdates = {{ every = 16 }}\nbatch = 8\n[utility]\ncost_max = 10\n"
    );
    std::fs::write(place.join("upliftmem.toml"), config).unwrap();
    let lines = |count: usize, line: &dyn Fn(usize) -> Value| -> String {
        (0..count).map(|number| line(number).to_string() + "\n").collect()
    };
    let memory = |number: usize| {
        let id = format!("00000000-0000-7000-8000-{number:012}");
        json!({ "id": id, "text": format!("hint {number} about room {}", number % 7), "created_at": 0 })
    };
    let task = |number: usize| json!({ "id": format!("t{number}"), "context": format!("clean room {}", number % 7) });
    std::fs::write(place.join("memories.jsonl"), lines(30, &memory)).unwrap();
    std::fs::write(place.join("tasks.jsonl"), lines(80, &task)).unwrap();
    succeeds(place, &["import", "memories.jsonl"]);
    directory
}

fn lines_without(text: &str, fields: &[&str]) -> Vec<Value> {
    let lines = text.lines().map(|line| {
        let mut value: Value = serde_json::from_str(line).unwrap();
        for field in fields {
            value.as_object_mut().unwrap().remove(*field);
        }
        value
    });
    lines.collect()
}

/// What was learned, without its times.
pub(crate) fn journal(directory: &Path) -> Vec<Value> {
    lines_without(&succeeds(directory, &["export", "journal"]), &["at"])
}

/// Every execution once, without its times and attempts.
pub(crate) fn executions(directory: &Path) -> Vec<Value> {
    let text = succeeds(directory, &["export", "executions"]);
    lines_without(&text, &["completed_at", "attempt"])
}

/// What a run says that it paid and learned.
pub(crate) fn ledger(report: &str) -> Value {
    serde_json::from_str(report).unwrap()
}

/// A server among others.
pub(crate) struct Replica {
    process: Child,
    pub(crate) url: String,
}

impl Drop for Replica {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// Four workers, two replicas, two trainers of which one leads.
pub(crate) struct Cluster {
    directory: tempfile::TempDir,
    proxy: Proxy,
    workers: Vec<Child>,
    replicas: Vec<Replica>,
    trainers: Vec<Child>,
    report: Option<String>,
    acknowledged: Vec<(String, String)>,
    agent: ureq::Agent,
}

impl Cluster {
    pub(crate) fn start(database: &Database) -> Self {
        let proxy = Proxy::to(format!("127.0.0.1:{}", database.port()));
        let directory = directory(&database.url(proxy.port));
        let place = directory.path();
        Self {
            workers: (0..4).map(|which| worker(place, which)).collect(),
            replicas: (0..2)
                .map(|which| replica(place, REPLICAS_AHEAD[which]))
                .collect(),
            trainers: (0..2).map(|which| trainer(place, which)).collect(),
            report: None,
            acknowledged: Vec::new(),
            agent: http(),
            directory,
            proxy,
        }
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    pub(crate) fn kill_worker(&mut self, which: usize) {
        end(&mut self.workers[which]);
        self.workers[which] = worker(self.directory.path(), which);
    }

    pub(crate) fn kill_replica(&mut self, which: usize) {
        end(&mut self.replicas[which].process);
        self.replicas[which] = replica(self.directory.path(), REPLICAS_AHEAD[which]);
    }

    /// Kills one of the trainers, or both.
    pub(crate) fn kill_trainers(&mut self, which: usize) {
        self.look();
        if self.report.is_some() {
            return;
        }
        for (place, trainer) in self.trainers.iter_mut().enumerate() {
            if which == place || which > 1 {
                end(trainer);
                *trainer = self::trainer(self.directory.path(), place);
            }
        }
    }

    /// Stops a worker for longer than its lease, then lets it go on as if nothing had been.
    pub(crate) fn pause_worker(&mut self, which: usize, duration: Duration) {
        signal(&self.workers[which], "-STOP");
        std::thread::sleep(duration);
        signal(&self.workers[which], "-CONT");
    }

    pub(crate) fn can_restart_database(&self) -> bool {
        std::env::var_os("UPLIFTMEM_TEST_POSTGRES_RESTART").is_some()
    }

    pub(crate) fn restart_database(&self) {
        let command = std::env::var("UPLIFTMEM_TEST_POSTGRES_RESTART").unwrap();
        let status = Command::new("sh").args(["-c", &command]).status().unwrap();
        assert!(status.success(), "{command}");
    }

    /// Adds memories by way of the replicas, in a scope that nobody trains in; remembers what was acknowledged.
    pub(crate) fn write_memories(&mut self, rng: &mut impl Rng) {
        for replica in &self.replicas {
            let text = format!("note {}", rng.random::<u64>());
            let body = json!({ "text": text, "user_id": "writer" });
            let request = self
                .agent
                .post(format!("{}/v1/memories", replica.url))
                .header("content-type", "application/json");
            let Ok(mut response) = request.send(body.to_string()) else {
                continue;
            };
            let answer = response.body_mut().read_to_string().unwrap_or_default();
            let answer: Value = serde_json::from_str(&answer).unwrap_or_default();
            if let Some(id) = answer["results"][0]["id"].as_str() {
                self.acknowledged.push((id.to_owned(), text));
            }
        }
    }

    fn look(&mut self) {
        for trainer in &mut self.trainers {
            if self.report.is_some() {
                return;
            }
            if let Some(status) = trainer.try_wait().unwrap() {
                assert!(status.success(), "a trainer failed: {status}");
                let mut report = String::new();
                trainer
                    .stdout
                    .take()
                    .unwrap()
                    .read_to_string(&mut report)
                    .unwrap();
                self.report = Some(report);
            }
        }
    }

    /// Whether the run is over.
    pub(crate) fn finished(&mut self) -> bool {
        self.look();
        self.report.is_some()
    }

    /// Waits for the end of the run; what it says.
    pub(crate) fn trained(&mut self) -> String {
        let began = Instant::now();
        while !self.finished() {
            assert!(began.elapsed() < PATIENCE, "the run did not end");
            std::thread::sleep(Duration::from_millis(100));
        }
        self.report.clone().unwrap()
    }

    /// Every memory whose writing was acknowledged is there.
    pub(crate) fn check_acknowledged(&self) {
        assert!(!self.acknowledged.is_empty(), "no replica ever took a memory");
        for (id, text) in &self.acknowledged {
            let url = format!("{}/v1/memories/{id}?user_id=writer", self.replicas[0].url);
            let found = self
                .agent
                .get(url)
                .call()
                .unwrap()
                .body_mut()
                .read_to_string()
                .unwrap();
            let found: Value = serde_json::from_str(&found).unwrap();
            assert_eq!(found["memory"], *text, "{found}");
        }
    }

    /// Tells workers and replicas to stop; they must do so without a complaint.
    pub(crate) fn stop_in_good_order(&mut self) {
        let servers = self.replicas.iter_mut().map(|replica| &mut replica.process);
        for process in self.workers.iter_mut().chain(servers) {
            signal(process, "-TERM");
            assert!(
                process.wait().unwrap().success(),
                "a process did not stop in good order"
            );
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for process in self.workers.iter_mut().chain(&mut self.trainers) {
            drop(process.kill());
            drop(process.wait());
        }
    }
}

/// Says little, and believes that it is so many hours later than it is.
fn quiet(command: &mut Command, ahead: i64) -> &mut Command {
    command
        .env("UPLIFTMEM_LOG", "error")
        .env("UPLIFTMEM_TEST_CLOCK_AHEAD_SECONDS", (ahead * 3_600).to_string())
        .stdin(Stdio::null())
}

fn worker(place: &Path, which: usize) -> Child {
    let mut command = upliftmem(place);
    command.args([
        "--json",
        "worker",
        "--lease-seconds",
        "2",
        "--look-after-seconds",
        "1",
    ]);
    quiet(&mut command, WORKERS_AHEAD[which])
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

fn trainer(place: &Path, which: usize) -> Child {
    let mut command = upliftmem(place);
    command.args(TRAIN).arg("--workers-only");
    quiet(&mut command, TRAINERS_AHEAD[which])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Starts a replica; the database may be away, so it is tried until it starts.
pub(crate) fn replica(place: &Path, ahead: i64) -> Replica {
    for _ in 0..50 {
        let mut command = upliftmem(place);
        command.args(["--json", "serve", "--address", "127.0.0.1:0"]);
        let command = quiet(&mut command, ahead).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        if let Ok(told) = serde_json::from_str::<Value>(&line) {
            let url = told["url"].as_str().unwrap().to_owned();
            return Replica { process, url };
        }
        process.wait().unwrap();
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("a replica did not start");
}

/// Asks servers and takes any answer.
pub(crate) fn http() -> ureq::Agent {
    ureq::Agent::config_builder()
        .http_status_as_error(false)
        .timeout_global(Some(Duration::from_secs(20)))
        .build()
        .into()
}

fn end(process: &mut Child) {
    process.kill().unwrap();
    process.wait().unwrap();
}

fn signal(process: &Child, name: &str) {
    let id = process.id().to_string();
    assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
}
