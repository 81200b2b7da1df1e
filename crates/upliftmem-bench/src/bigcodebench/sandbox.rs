//! Runs solutions of which nothing is known, and tells which tests they pass.
//!
//! A solution runs in a child process with bounded time, memory, processes and files, in a temporary directory. Where the
//! system allows it, the child has namespaces of its own: no network but its own loopback, no processes but its own, no
//! disk but the interpreter and the system's libraries, and no rights. [`Granted`] says what was allowed.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::error::SandboxError;

const HARNESS: &str = include_str!("harness.py");

/// The longest report and the longest complaint that are read.
const REPORT_MAX: u64 = 16 << 20;
const COMPLAINT_MAX: u64 = 64 << 10;

/// What a solution may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Time by the clock for all tests of a task.
    pub time: Duration,
    /// Address space of each process.
    pub memory_bytes: u64,
    /// Size of each file.
    pub file_bytes: u64,
    /// All files together, where the disk is hidden.
    pub disk_bytes: u64,
    /// Processes and threads at a time.
    pub processes: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            time: Duration::from_secs(60),
            memory_bytes: 4 << 30,
            file_bytes: 64 << 20,
            disk_bytes: 256 << 20,
            processes: 128,
        }
    }
}

/// How a test case ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CaseOutcome {
    /// It passed.
    Passed,
    /// It was not run, by its own decision.
    Skipped,
    /// An assertion did not hold.
    Failed,
    /// Something else was raised.
    Error,
}

impl CaseOutcome {
    /// Whether it says nothing against the solution.
    #[must_use]
    pub const fn is_good(self) -> bool {
        matches!(self, Self::Passed | Self::Skipped)
    }
}

/// One test case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// The method.
    pub name: String,
    /// How it ended.
    pub outcome: CaseOutcome,
    /// The end of the traceback.
    pub why: String,
}

/// What the system allowed to keep a solution apart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Granted {
    /// No network but a loopback of its own.
    pub network_off: bool,
    /// It sees no processes but its own, and none of them outlives it.
    pub processes_apart: bool,
    /// It sees nothing of the disk but the interpreter and the system's libraries, and those only to read.
    pub disk_hidden: bool,
    /// It runs as nobody.
    pub other_user: bool,
    /// No program it starts has more rights than it has.
    pub no_new_privileges: bool,
    /// Why there are no namespaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespaces_refused: Option<String>,
    /// Why the disk is not hidden.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_refused: Option<String>,
}

/// How a solution did.
#[derive(Clone, Debug, PartialEq)]
pub struct TestReport {
    /// Its test cases, in the order in which they ended; none if it never came to that.
    pub cases: Vec<Case>,
    /// Why the tests did not end: it does not compile, ran out of time, killed its process.
    pub broken: Option<String>,
    /// What kept it apart; nothing is known of it when time ran out.
    pub granted: Option<Granted>,
    /// By the clock.
    pub time: Duration,
}

impl TestReport {
    /// Whether every test case passed, and there was one.
    #[must_use]
    pub fn has_passed(&self) -> bool {
        let all_good = self.cases.iter().all(|case| case.outcome.is_good());
        self.broken.is_none() && !self.cases.is_empty() && all_good
    }
}

/// What the harness writes.
#[derive(Deserialize)]
struct RawReport {
    #[serde(default)]
    cases: Vec<(String, CaseOutcome, String)>,
    #[serde(default)]
    broken: Option<String>,
    granted: Granted,
}

/// A Python interpreter that runs solutions apart from everything else.
#[derive(Clone, Debug)]
pub struct PythonSandbox {
    python: PathBuf,
    version: String,
    /// Folders without which the interpreter does not run.
    interpreter: Vec<PathBuf>,
    limits: Limits,
    is_apart: bool,
}

/// What an interpreter says of itself.
#[derive(Deserialize)]
struct Interpreter {
    executable: PathBuf,
    version: String,
    folders: Vec<PathBuf>,
}

impl PythonSandbox {
    /// A sandbox around an interpreter, named by its path or as the shell finds it.
    ///
    /// # Errors
    /// It can not be run, or is older than 3.8.
    pub fn new(python: impl AsRef<Path>) -> Result<Self, SandboxError> {
        const QUESTION: &str = "import json, site, sys\nassert sys.version_info >= (3, 8), 'too old'\n\
            print(json.dumps({'executable': sys.executable, 'version': sys.version.split()[0], 'folders': \
            sorted({sys.prefix, sys.base_prefix, *site.getsitepackages()})}))";
        let python = python.as_ref();
        let failed = |why: String| SandboxError::NoPython {
            python: python.to_owned(),
            why,
        };
        let output = Command::new(python)
            .args(["-I", "-c", QUESTION])
            .stdin(Stdio::null())
            .output();
        let output = output.map_err(|error| failed(error.to_string()))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(failed(said.lines().next_back().unwrap_or("it failed").to_owned()));
        }
        let said: Interpreter =
            serde_json::from_slice(&output.stdout).map_err(|error| failed(error.to_string()))?;
        Ok(Self {
            python: said.executable,
            version: said.version,
            interpreter: said.folders,
            limits: Limits::default(),
            is_apart: true,
        })
    }

    /// The same with other limits.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// The same without asking for namespaces: limits only.
    #[must_use]
    pub fn without_namespaces(mut self) -> Self {
        self.is_apart = false;
        self
    }

    /// The interpreter's version.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Runs a solution against tests that define a unittest class `TestCases`. Whatever the solution does, this ends within
    /// the time limit and a moment, and leaves nothing behind.
    ///
    /// # Errors
    /// The sandbox itself could not be made.
    pub fn run(&self, code: &str, test: &str) -> Result<TestReport, SandboxError> {
        let folder = tempfile::tempdir()?;
        let job = json!({
            "code": code,
            "test": test,
            "root": folder.path(),
            "apart": self.is_apart,
            "interpreter": self.interpreter,
            "memory_bytes": self.limits.memory_bytes,
            "file_bytes": self.limits.file_bytes,
            "disk_bytes": self.limits.disk_bytes,
            "processes": self.limits.processes,
            "seconds": self.limits.time.as_secs().max(1),
        });
        let started = Instant::now();
        let mut child = Group(self.spawn(folder.path())?);
        let answer = converse(&mut child.0, job.to_string().into_bytes(), self.limits.time)?;
        drop(child);
        let time = started.elapsed();
        let Some(Said { report, complaint }) = answer else {
            return Ok(TestReport {
                cases: Vec::new(),
                broken: Some(format!("not done after {} s", self.limits.time.as_secs_f64())),
                granted: None,
                time,
            });
        };
        let raw: RawReport = serde_json::from_slice(&report).map_err(|error| {
            let said = String::from_utf8_lossy(&complaint);
            SandboxError::NoReport(format!("{error}; it said {:?}", said.trim()))
        })?;
        let case = |(name, outcome, why)| Case { name, outcome, why };
        Ok(TestReport {
            cases: raw.cases.into_iter().map(case).collect(),
            broken: raw.broken,
            granted: Some(raw.granted),
            time,
        })
    }

    fn spawn(&self, folder: &Path) -> Result<Child, SandboxError> {
        // Tests start `python` by its name: it should be this one.
        let beside = self.python.parent().map(Path::to_owned);
        let usual = ["/usr/local/bin", "/usr/bin", "/bin"].map(PathBuf::from);
        let path = std::env::join_paths(beside.into_iter().chain(usual)).unwrap_or_default();
        let mut command = Command::new(&self.python);
        command
            .args(["-I", "-B", "-c", HARNESS])
            .current_dir(folder)
            // Nothing of our own settings, no bytecode, one thread a library, no screen.
            .env_clear()
            .env("PATH", path)
            .envs([
                ("LANG", "C.UTF-8"),
                ("MPLBACKEND", "Agg"),
                ("OMP_NUM_THREADS", "1"),
                ("OPENBLAS_NUM_THREADS", "1"),
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        Ok(command.spawn()?)
    }
}

/// A child and all it has started that stayed in its group. They end with this.
struct Group(Child);

impl Drop for Group {
    fn drop(&mut self) {
        // It leads its group: the number stays taken until it is waited for.
        #[cfg(unix)]
        let _ = rustix::process::kill_process_group(
            rustix::process::Pid::from_child(&self.0),
            rustix::process::Signal::KILL,
        );
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a child has written: its report, and what it complained of.
struct Said {
    report: Vec<u8>,
    complaint: Vec<u8>,
}

/// Gives the job, and takes the report and the complaints; none if time runs out.
fn converse(child: &mut Child, job: Vec<u8>, time: Duration) -> Result<Option<Said>, SandboxError> {
    let no_pipe = || SandboxError::NoReport("a pipe is missing".to_owned());
    let mut stdin = child.stdin.take().ok_or_else(no_pipe)?;
    let stdout = child.stdout.take().ok_or_else(no_pipe)?;
    let stderr = child.stderr.take().ok_or_else(no_pipe)?;
    // A job that nobody reads shows as a report that is missing.
    thread::spawn(move || {
        let _ = stdin.write_all(&job);
    });
    let (sender, receiver) = mpsc::channel();
    let read = |mut pipe: Box<dyn Read + Send>, most: u64| {
        let sender = sender.clone();
        let is_report = most == REPORT_MAX;
        thread::spawn(move || {
            let mut text = Vec::new();
            let _ = pipe.by_ref().take(most).read_to_end(&mut text);
            let _ = sender.send((is_report, text));
        });
    };
    read(Box::new(stdout), REPORT_MAX);
    read(Box::new(stderr), COMPLAINT_MAX);
    let deadline = Instant::now() + time;
    let (mut report, mut complaint) = (Vec::new(), Vec::new());
    for _ in 0..2 {
        match receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok((true, text)) => report = text,
            Ok((false, text)) => complaint = text,
            Err(_) => return Ok(None),
        }
    }
    Ok(Some(Said { report, complaint }))
}
