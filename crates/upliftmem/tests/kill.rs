//! A training run that is killed again and again ends as one that was not.
#![allow(clippy::unwrap_used)]

mod support;

use std::{path::Path, process::Stdio, time::Duration};

use support::{WORLD, succeeds, upliftmem, with_world};

const KILLS: usize = 20;

fn arguments() -> Vec<&'static str> {
    let train = ["--json", "train", "--tasks", "tasks.jsonl", "--seed-tasks", "20"];
    [&train[..], &WORLD[..]].concat()
}

/// The journal without its times.
fn journal(directory: &Path) -> Vec<serde_json::Value> {
    succeeds(directory, &["export", "journal"])
        .lines()
        .map(|line| {
            let mut entry: serde_json::Value = serde_json::from_str(line).unwrap();
            entry.as_object_mut().unwrap().remove("at");
            entry
        })
        .collect()
}

/// Every execution once, without its times and attempts.
fn executions(directory: &Path) -> Vec<serde_json::Value> {
    succeeds(directory, &["export", "executions"])
        .lines()
        .map(|line| {
            let mut execution: serde_json::Value = serde_json::from_str(line).unwrap();
            let fields = execution.as_object_mut().unwrap();
            fields.remove("completed_at");
            fields.remove("attempt");
            execution
        })
        .collect()
}

#[test]
fn killed_at_any_moment_it_ends_the_same() {
    let whole = with_world(60);
    let started = std::time::Instant::now();
    let expected = succeeds(whole.path(), &arguments());
    let took = started.elapsed();
    let broken = with_world(60);
    // Moments from the first milliseconds to the end of a whole run, and beyond it as less and less is left.
    for kill in 0..KILLS {
        let mut child = upliftmem(broken.path())
            .args(arguments())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(
            took.mul_f64((kill as f64 * 0.618).fract())
                .max(Duration::from_millis(3)),
        );
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert_eq!(succeeds(broken.path(), &arguments()), expected);
    assert_eq!(journal(broken.path()), journal(whole.path()));
    assert_eq!(executions(broken.path()), executions(whole.path()));
}
