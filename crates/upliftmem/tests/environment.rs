//! `bench env` over a pipe: the games of the data folder, or none where there is no data.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod support;

use std::{
    io::{BufRead, BufReader, Write},
    path::PathBuf,
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
