//! BigCodeBench's division, and reference solutions in the sandbox.
//!
//! Needs the data: a folder `UPLIFTMEM_BENCH_DIR` with `bigcodebench/` in it (see `docs/environments.md`). Without it, or without
//! a Python interpreter, these tests say so and stop.
#![allow(clippy::unwrap_used)]

use std::{
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use upliftmem_agent::{
    ExecutionRequest, Executor, ExecutorError, MemoryText,
    chat::{ChatError, ChatMessage, ChatModel, ChatReply, ChatRequest, ChoiceLikelihood, Finish, Usage},
};
use upliftmem_bench::bigcodebench::{
    Benchmark, CaseOutcome, CodeExecutor, CodeSettings, CodeTask, Limits, PythonSandbox, instruct_prompt,
};
use upliftmem_core::{MemoryId, Purpose, RolloutId, Task};

/// Reference solutions that are run: every so many of those that need the standard library only.
const EVERY: usize = 8;

/// Reference solutions that are not run here: one goes through all orders of ten numbers, one asks a name server, of which
/// the sandbox has none, and one waits for a minute.
const LEFT_OUT: [&str; 3] = ["BigCodeBench/0", "BigCodeBench/314", "BigCodeBench/1104"];

fn benchmark() -> Option<Benchmark> {
    let folder = std::env::var_os("UPLIFTMEM_BENCH_DIR").map(|data| PathBuf::from(data).join("bigcodebench"));
    let folder = folder.filter(|folder| folder.is_dir());
    if folder.is_none() {
        skipped::<()>("UPLIFTMEM_BENCH_DIR does not name a folder with `bigcodebench` in it");
    }
    Some(Benchmark::load(folder?).unwrap())
}

fn sandbox() -> Option<PythonSandbox> {
    match PythonSandbox::new("python3") {
        Ok(sandbox) if cfg!(target_os = "linux") => Some(sandbox),
        Ok(_) => skipped("the sandbox is made for Linux"),
        Err(error) => skipped(&error.to_string()),
    }
}

#[allow(clippy::print_stderr)]
fn skipped<T>(why: &str) -> Option<T> {
    eprintln!("skipped: {why}");
    None
}

#[test]
fn the_division_is_the_papers() {
    let Some(benchmark) = benchmark() else { return };
    assert_eq!(benchmark.tasks().len(), 1140);
    assert_eq!(
        (benchmark.train().count(), benchmark.held_out().count()),
        (798, 342)
    );
    let hard = |task: &&CodeTask| benchmark.is_hard(task);
    assert_eq!(benchmark.tasks().iter().filter(hard).count(), 148);
    assert_eq!(benchmark.held_out().filter(hard).count(), 44);
    assert_eq!(
        benchmark
            .tasks()
            .iter()
            .filter(|task| task.is_standard_library_only())
            .count(),
        327
    );
    for task in benchmark.tasks() {
        let prompt = instruct_prompt(task);
        assert!(
            prompt.contains(&format!("def {}", task.entry_point)),
            "{}",
            task.task_id
        );
        assert!(
            !prompt.contains("TestCases"),
            "{}: tests are not for the agent",
            task.task_id
        );
    }
}

/// A sample of the reference solutions; `cargo run --release --example bigcodebench` runs all.
#[test]
fn reference_solutions_pass() {
    let (Some(benchmark), Some(sandbox)) = (benchmark(), sandbox()) else {
        return;
    };
    let sandbox = sandbox.with_limits(Limits {
        time: Duration::from_secs(120),
        ..Limits::default()
    });
    let tasks = benchmark
        .tasks()
        .iter()
        .filter(|task| task.is_standard_library_only());
    let (mut passed, mut failed, mut lacking) = (0, Vec::new(), 0);
    for task in tasks.skip(1).step_by(EVERY) {
        if LEFT_OUT.contains(&task.task_id.as_str()) {
            continue;
        }
        let report = sandbox.run(&task.reference_solution(), &task.test).unwrap();
        let why = report.broken.clone().unwrap_or_default();
        if report.has_passed() {
            passed += 1;
        } else if why.starts_with("ModuleNotFoundError") {
            // Some tests need more than their solutions do.
            lacking += 1;
        } else {
            failed.push(format!("{}: {report:?}", task.task_id));
        }
    }
    println!(
        "{passed} passed, {} failed, {lacking} lack a module",
        failed.len()
    );
    assert!(passed >= 33, "{passed}");
    assert!(failed.len() <= 1, "{failed:#?}");
}

const TEST: &str = "import unittest\nclass TestCases(unittest.TestCase):\n    def test_a(self):\n        \
    self.assertEqual(task_func(1), 2)\n    def test_b(self):\n        self.assertEqual(task_func(2), 4)\n    \
    def test_c(self):\n        for n in (1, 3):\n            with self.subTest(n=n):\n                \
    self.assertEqual(task_func(n), 2 * n)\n";

#[test]
fn every_test_case_is_told() {
    let Some(sandbox) = sandbox() else { return };
    let outcomes = |code: &str| {
        let report = sandbox.run(code, TEST).unwrap();
        assert_eq!(report.broken, None, "{code}");
        let has_passed = report.has_passed();
        (
            report
                .cases
                .into_iter()
                .map(|case| (case.name, case.outcome))
                .collect::<Vec<_>>(),
            has_passed,
        )
    };
    let named = |outcomes: [CaseOutcome; 3]| {
        let names = ["test_a", "test_b", "test_c"].map(str::to_owned);
        names.into_iter().zip(outcomes).collect::<Vec<_>>()
    };
    use CaseOutcome::{Error, Failed, Passed};
    assert_eq!(
        outcomes("def task_func(n): return 2 * n"),
        (named([Passed; 3]), true)
    );
    assert_eq!(
        outcomes("def task_func(n): return 2"),
        (named([Passed, Failed, Failed]), false)
    );
    assert_eq!(
        outcomes("def task_func(n): return 4 // (n - 1)"),
        (named([Error, Passed, Error]), false)
    );
    assert_eq!(
        outcomes("import sys\ndef task_func(n): print('x' * 10**6, file=sys.stderr); return n * 2")
            .0
            .len(),
        3
    );
}

#[test]
fn whatever_a_solution_does_the_sandbox_ends() {
    let Some(sandbox) = sandbox() else { return };
    let sandbox = sandbox.with_limits(Limits {
        time: Duration::from_secs(10),
        memory_bytes: 512 << 20,
        ..Limits::default()
    });
    let broken = |code: &str| {
        let report = sandbox.run(code, TEST).unwrap();
        assert!(!report.has_passed(), "{code}");
        assert!(report.time < Duration::from_secs(30), "{code}: {:?}", report.time);
        report.broken.unwrap_or_else(|| format!("{:?}", report.cases))
    };
    assert!(broken("while True: pass").contains("not done after 10 s"));
    assert!(broken("def task_func(n): return n +").starts_with("SyntaxError"));
    assert!(broken("x = 'x' * (1 << 40)").starts_with("MemoryError"));
    assert!(broken("import os\nos._exit(3)").contains("exit code 3"));
    assert!(broken("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)").contains("signal 9"));
    assert!(broken("import sys\nsys.exit(0)").starts_with("SystemExit"));
    assert!(broken("open('large', 'wb').write(b'x' * (100 << 20))").contains("File too large"));
    assert!(broken("raise KeyboardInterrupt").starts_with("KeyboardInterrupt"));
    assert!(broken("\0").contains("null"));
    // A report that is forged by closing everything is none.
    assert!(broken("import os\nos.closerange(3, 200)").contains("exit code"));
}

#[test]
fn processes_do_not_outlive_their_solution() {
    let Some(sandbox) = sandbox() else { return };
    let marker = format!("{}.25", 4000 + std::process::id() % 1000);
    let code = format!(
        "import subprocess\nsubprocess.Popen(['sleep', '{marker}'], start_new_session=True)\ndef task_func(n): return 2 * n"
    );
    let report = sandbox.run(&code, TEST).unwrap();
    assert!(report.has_passed(), "{report:?}");
    if !report.granted.unwrap().processes_apart {
        skipped::<()>("this system grants no namespaces");
        return;
    }
    let mut alive = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let line = std::fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default();
        if line.contains(&marker) {
            alive.push(line);
        }
    }
    assert!(alive.is_empty(), "{alive:?}");
}

/// Where namespaces are granted: no network, no disk of ours, no rights, and a loopback of its own.
#[test]
fn a_solution_sees_nothing_of_the_system() {
    let Some(sandbox) = sandbox() else { return };
    let home = tempfile::tempdir().unwrap();
    let secret = home.path().join("secret");
    std::fs::write(&secret, "text").unwrap();
    let test = format!(
        "import os, socket, unittest\nclass TestCases(unittest.TestCase):\n    \
         def test_disk(self):\n        self.assertFalse(os.path.exists({secret:?}))\n    \
         def test_network(self):\n        with self.assertRaises(OSError):\n            \
         socket.create_connection(('192.0.2.1', 80), timeout=5)\n    \
         def test_loopback(self):\n        with socket.create_server(('127.0.0.1', 0)) as server:\n            \
         socket.create_connection(server.getsockname()).close()\n    \
         def test_processes(self):\n        self.assertLess(len([n for n in os.listdir('/proc') if n.isdigit()]), 5)\n    \
         def test_system(self):\n        with self.assertRaises(OSError):\n            open('/usr/bin/new', 'w')\n    \
         def test_work(self):\n        open('file', 'w').write('x'); open('/tmp/file', 'w').write('x')\n"
    );
    let report = sandbox.run("", &test).unwrap();
    let granted = report.granted.clone().unwrap();
    if !(granted.disk_hidden && granted.network_off) {
        skipped::<()>(&format!("this system grants only {granted:?}"));
        return;
    }
    assert!(report.has_passed(), "{report:?}");
    // The same without namespaces: limits only, and the report says so.
    let open = sandbox
        .without_namespaces()
        .run("def task_func(n): return 2 * n", TEST)
        .unwrap();
    assert!(
        open.has_passed() && !open.granted.clone().unwrap().network_off,
        "{open:?}"
    );
}

/// Says one thing, and remembers what it was asked.
struct Says(&'static str, Arc<Mutex<String>>);

#[async_trait]
impl ChatModel for Says {
    fn name(&self) -> &str {
        "says"
    }

    async fn chat(&self, request: &ChatRequest) -> Result<ChatReply, ChatError> {
        let contents = request.messages.iter().map(|message| message.content.as_str());
        *self.1.lock().unwrap() = contents.collect::<Vec<_>>().join("\n");
        Ok(ChatReply {
            text: self.0.to_owned(),
            finish: Finish::Stop,
            usage: Usage::default(),
        })
    }

    async fn choices(
        &self,
        _: &[ChatMessage],
        _: &[String],
    ) -> Result<(Vec<ChoiceLikelihood>, Usage), ChatError> {
        Err(ChatError::Unsupported("it only says one thing".into()))
    }

    fn count_tokens(&self, text: &str) -> usize {
        text.split_whitespace().count()
    }
}

fn doubling() -> CodeTask {
    serde_json::from_value(serde_json::json!({
        "task_id": "Own/1",
        "instruct_prompt": "Double a number.",
        "complete_prompt": "def task_func(x):\n",
        "canonical_solution": "    return 2 * x",
        "code_prompt": "def task_func(x):\n",
        "test": "import unittest\nclass TestCases(unittest.TestCase):\n    def test_seven(self):\n        \
            self.assertEqual(task_func(7), 14)\n",
        "entry_point": "task_func",
        "libs": "[]",
    }))
    .unwrap()
}

#[tokio::test]
async fn a_model_writes_programs_and_their_tests_judge() {
    let Some(sandbox) = sandbox() else { return };
    let record = "[MEMORY TYPE] SUCCESS_PROCEDURE\n[TASK]\nTriple\n\n[EXECUTION TRAJECTORY]\nContract: its own\n\
        Implementation: multiply by three\nBoundary: none";
    let run = |answer: &'static str, task: Task| {
        let asked = Arc::new(Mutex::new(String::new()));
        let model = Arc::new(Says(answer, Arc::clone(&asked)));
        let executor = CodeExecutor::new(model, sandbox.clone(), [doubling()], CodeSettings::default());
        async move {
            let request = ExecutionRequest {
                id: RolloutId::from_u128(1),
                task,
                // The second has no end.
                memories: [record.to_owned(), "y".repeat(50_000)]
                    .into_iter()
                    .zip(1..)
                    .map(|(text, id)| MemoryText {
                        id: MemoryId::from_u128(id),
                        text,
                    })
                    .collect(),
                purpose: Purpose::Probe,
                seed: 3,
            };
            (executor.execute(&request).await, asked)
        }
    };
    let (done, asked) = run(
        "```python\ndef task_func(x):\n    return x + x\n```",
        doubling().task(),
    )
    .await;
    let done = done.unwrap();
    assert_eq!((done.performance.get(), done.cost.get()), (1.0, 5.0));
    assert_eq!(done.trajectory[0].observation, "All 1 tests passed.");
    let asked = asked.lock().unwrap().clone();
    assert!(
        asked.contains("Double a number.") && asked.contains("multiply by three"),
        "{asked}"
    );
    for hidden in ["assertEqual", "2 * x", "its own"] {
        assert!(!asked.contains(hidden), "{hidden} was shown: {asked}");
    }
    assert_eq!(done.diagnostics["memories_cut"], 1);
    assert!(asked.len() < 10_000, "{}", asked.len());
    let (wrong, _) = run(
        "```python\ndef task_func(x):\n    return 3 * x\n```",
        doubling().task(),
    )
    .await;
    let wrong = wrong.unwrap();
    assert_eq!(wrong.performance.get(), 0.0);
    assert_eq!(wrong.trajectory[0].observation, "1 of 1 tests failed: test_seven");
    let (broken, _) = run("I can not do that.", doubling().task()).await;
    let broken = broken.unwrap();
    assert_eq!(broken.performance.get(), 0.0);
    assert!(
        broken.trajectory[0]
            .observation
            .starts_with("The tests did not end: ")
    );
    let (unknown, _) = run("", Task::new("another", "x")).await;
    assert!(matches!(unknown, Err(ExecutorError::Failed(why)) if why.contains("another")));
}
