//! `bench env` over a pipe: the games of the data folder, or none where there is no data.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod support;

use std::{
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Stdio},
};

use serde_json::{Value, json};
use support::{fails, upliftmem};

/// A served environment and the two ends of its pipe.
struct Served {
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Served {
    fn start(arguments: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut child = upliftmem(directory.path())
            .args(["bench", "env"])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let requests = child.stdin.take().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        Self {
            child,
            requests,
            answers,
        }
    }

    fn ask(&mut self, request: &Value) -> Value {
        writeln!(self.requests, "{request}").unwrap();
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// Ends the requests: the program must end too, and without a fault.
    fn end(mut self) {
        drop(self.requests);
        assert!(self.child.wait().unwrap().success());
    }
}

/// The data folder, if it has this environment.
fn data(name: &str) -> Option<String> {
    let folder = std::env::var_os("UPLIFTMEM_BENCH_DIR").map(PathBuf::from);
    let folder = folder.filter(|folder| folder.join(name).is_dir());
    if folder.is_none() {
        eprintln!("skipped: UPLIFTMEM_BENCH_DIR does not name a folder with `{name}` in it");
    }
    Some(folder?.display().to_string())
}

#[test]
fn a_customer_buys_over_a_pipe() {
    let Some(data) = data("webshop") else { return };
    let mut served = Served::start(&["webshop", "--data", &data, "--actions-max", "4"]);
    let unknown = served.ask(&json!({"reset": {"id": "webshop/many"}}));
    assert!(
        unknown["error"]
            .as_str()
            .unwrap()
            .contains("`webshop/0` to `webshop/6909`"),
        "{unknown}"
    );
    let opening = served.ask(&json!({"reset": {"id": "webshop/0", "context": "whatever"}}));
    assert_eq!(opening["actions"], json!(["search[keywords]"]));
    let results = served.ask(&json!({"step": "search[decorative pillows 28 x 28]"}));
    let first = results["actions"][2].as_str().unwrap();
    assert!(first.starts_with("click[b0"), "{first}");
    served.ask(&json!({"step": first}));
    let end = served.ask(&json!({"step": "click[buy now]"}));
    assert_eq!(end["done"], true);
    assert!(end["performance"].as_f64().unwrap() > 0.0, "{end}");
    let after = served.ask(&json!({"step": "click[buy now]"}));
    assert!(after["error"].as_str().unwrap().contains("reset"), "{after}");
    served.end();
}

#[test]
fn a_program_is_tested_over_a_pipe() {
    let Some(data) = data("bigcodebench") else { return };
    let mut served = Served::start(&["bigcodebench", "--data", &data]);
    let task = json!({"reset": {"id": "BigCodeBench/13"}});
    let opening = served.ask(&task);
    let shown = opening["observation"].as_str().unwrap();
    assert!(
        shown.contains("task_func") && !shown.contains("unittest"),
        "{shown}"
    );
    let end = served.ask(&json!({"step": "```python\ndef task_func(*_): return None\n```"}));
    assert_eq!(
        (&end["done"], &end["performance"]),
        (&json!(true), &json!(0.0)),
        "{end}"
    );
    let unknown = served.ask(&json!({"reset": {"id": "BigCodeBench/none"}}));
    assert!(
        unknown["error"].as_str().unwrap().contains("BigCodeBench/17"),
        "{unknown}"
    );
    served.end();
}

#[test]
fn a_game_is_played_over_a_pipe() {
    let Some(data) = data("alfworld") else { return };
    let directory = tempfile::tempdir().unwrap();
    let listed = support::succeeds(
        directory.path(),
        &[
            "bench",
            "env",
            "alfworld",
            "--data",
            &data,
            "--split",
            "valid_unseen",
            "--tasks",
        ],
    );
    let tasks: Vec<Value> = listed
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(tasks.len(), 134);
    let mut served = Served::start(&["alfworld", "--data", &data, "--split", "valid_unseen"]);
    let opening = served.ask(&json!({"reset": tasks[0]}));
    let asked = format!("Your task is to: {}", tasks[0]["context"].as_str().unwrap());
    assert!(
        opening["observation"].as_str().unwrap().ends_with(&asked),
        "{opening}"
    );
    for action in 1..=30 {
        let turn = served.ask(&json!({"step": "look"}));
        assert_eq!(turn["done"], action == 30, "{action}");
    }
    served.end();
}

/// A small evaluation in a folder of its own, with these further flags.
fn evaluates(suite: &str, data: &str, place: &Path, flags: &[&str]) {
    let out = place.to_str().unwrap();
    let mut arguments = vec!["bench", "run", "--suite", suite, "--data", data, "--out", out];
    arguments.extend(["--methods", "react,dense-rag", "--runs", "1", "--limit", "4"]);
    arguments.extend(["--seed-tasks", "6", "--runtime-tasks", "6"]);
    arguments.extend(flags);
    support::succeeds(place, &arguments);
}

/// The outcomes of a method.
fn outcomes(place: &Path, method: &str) -> Value {
    let file = place.join(format!("results/main-{method}.json"));
    let record: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    record["result"].clone()
}

#[test]
fn an_evaluation_is_the_same_in_an_attached_environment() {
    for suite in ["alfworld", "webshop"] {
        let Some(data) = data(suite) else { continue };
        let (native, attached) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        evaluates(suite, &data, native.path(), &[]);
        let program = env!("CARGO_BIN_EXE_upliftmem");
        let environment = ["--environment", program, "bench", "env", suite, "--data", &data];
        evaluates(suite, &data, attached.path(), &environment);
        for method in ["react", "dense-rag"] {
            assert_eq!(
                outcomes(native.path(), method),
                outcomes(attached.path(), method),
                "{suite} {method}"
            );
        }
        let made_from = |place: &Path| -> Value {
            serde_json::from_slice(&std::fs::read(place.join("manifest.json")).unwrap()).unwrap()
        };
        let agent = made_from(attached.path())["made_from"]["agent"].to_string();
        assert!(agent.contains("bench env"), "{agent}");
        let (native, attached) = (native.path().join("traces"), attached.path().join("traces"));
        for trace in std::fs::read_dir(&native).unwrap() {
            let name = trace.unwrap().file_name();
            let text = |folder: &Path| std::fs::read_to_string(folder.join(&name)).unwrap();
            assert_eq!(text(&native), text(&attached), "{name:?}");
        }
    }
}

#[test]
fn an_environment_that_breaks_is_named() {
    let Some(data) = data("webshop") else { return };
    let place = tempfile::tempdir().unwrap();
    let mut arguments = vec![
        "bench", "run", "--suite", "webshop", "--data", &data, "--out", "out",
    ];
    arguments.extend([
        "--methods",
        "react",
        "--limit",
        "2",
        "--seed-tasks",
        "1",
        "--runtime-tasks",
        "1",
    ]);
    arguments.extend(["--environment", "true"]);
    let shown = fails(place.path(), 1, &arguments);
    assert!(shown.contains("environment true: "), "{shown}");
    for (suite, flags) in [
        ("memsyco", ["--environment", "true"]),
        ("bigcodebench", ["--agent", "scripted"]),
        ("alfworld", ["--judge", "smollm2"]),
    ] {
        let arguments = [&["bench", "run", "--data", ".", "--suite", suite][..], &flags].concat();
        let shown = fails(place.path(), 1, &arguments);
        assert!(shown.contains(flags[0]), "{shown}");
    }
}

#[test]
fn a_folder_without_data_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    let shown = fails(
        place,
        1,
        &["bench", "env", "webshop", "--data", place.to_str().unwrap()],
    );
    assert!(shown.contains("DIR: no WebShop catalogue here"), "{shown}");
    let shown = fails(
        place,
        1,
        &["bench", "env", "alfworld", "--data", place.to_str().unwrap()],
    );
    assert!(shown.contains("DIR: no `game.tw-pddl` file here"), "{shown}");
}
