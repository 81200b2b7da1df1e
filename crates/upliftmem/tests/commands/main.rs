//! Every command, end to end, and what a person sees.
#![allow(clippy::unwrap_used, clippy::print_stderr)] // It says what it can not try here.

#[path = "../support/mod.rs"]
mod support;

mod failures;
mod stories;

use std::path::Path;

use support::{WORLD, fails, succeeds, upliftmem, with_world};

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text.trim()).unwrap()
}

#[test]
fn the_help_of_every_command_fits_and_names_its_flags() {
    let directory = tempfile::tempdir().unwrap();
    let help = succeeds(directory.path(), &["--help"]);
    insta::assert_snapshot!("help", help);
    for command in help
        .lines()
        .skip_while(|line| !line.starts_with("Commands:"))
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|command| *command != "help")
    {
        let help = succeeds(directory.path(), &[command, "--help"]);
        assert!(help.contains("Usage:"), "{command}");
        assert!(
            help.lines().all(|line| line.chars().count() <= 80),
            "{command}\n{help}"
        );
    }
}

#[test]
fn a_memory_is_added_listed_searched_and_its_outcome_reported() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    succeeds(place, &["init"]);
    let id = succeeds(place, &["add", "The spare key is under the blue pot."]);
    let again = succeeds(place, &["add", "The  spare key is under the blue pot."]);
    assert_eq!(again.trim(), format!("already known as {}", id.trim()));
    let list = succeeds(place, &["list"]);
    assert!(
        list.contains(id.trim()) && list.contains("The spare key"),
        "{list}"
    );
    let found = json(&succeeds(place, &["--json", "search", "Where is the spare key?"]));
    assert_eq!(found["abstained"], true, "nothing is known yet: {found}");
    assert_eq!(found["candidates"], 1);
    let retrieval = found["id"].as_str().unwrap();
    let outcome = json(&succeeds(
        place,
        &[
            "--json",
            "outcome",
            retrieval,
            "--performance",
            "0.5",
            "--cost",
            "3",
        ],
    ));
    assert_eq!(outcome["became"], "reference");
    let explained = succeeds(place, &["explain", retrieval]);
    assert!(explained.contains("so none was returned"), "{explained}");
    let report = json(&succeeds(place, &["--json", "report"]));
    assert_eq!(report["abstained"], 1.0);
    let error = fails(place, 1, &["outcome", retrieval, "--performance", "1.5"]);
    assert!(error.contains("--performance"), "{error}");
}

#[test]
fn a_run_trains_explains_itself_and_is_compared() {
    let directory = with_world(60);
    let place = directory.path();
    let arguments = |rest: &[&'static str]| [rest, &WORLD[..]].concat();
    let trained = json(&succeeds(
        place,
        &arguments(&["--json", "train", "--tasks", "tasks.jsonl", "--seed-tasks", "20"]),
    ));
    assert_eq!(trained["end"], "finished");
    assert_eq!(trained["tasks"], 40);
    assert_eq!(trained["ledger"]["probe"]["executions"], 20);
    assert_eq!(trained["ledger"]["reference"]["executions"], 60);
    let again = json(&succeeds(
        place,
        &arguments(&["--json", "train", "--tasks", "tasks.jsonl", "--seed-tasks", "20"]),
    ));
    assert_eq!(trained, again, "a run that is over does nothing more");
    let plans = succeeds(
        place,
        &arguments(&[
            "--json",
            "probe",
            "--strategy",
            "evsi,random",
            "--budget",
            "3",
            "--limit",
            "12",
        ]),
    );
    assert_eq!(plans.lines().count(), 2);
    let plan = json(plans.lines().next().unwrap());
    assert_eq!(plan["chosen"].as_array().unwrap().len(), 3);
    assert!(plan["batch_value"].as_f64().unwrap() > 0.0);
    let bought = json(&succeeds(
        place,
        &arguments(&["--json", "probe", "--run", "--budget", "3", "--limit", "12"]),
    ));
    for probe in bought["bought"].as_array().unwrap() {
        assert!(probe["uplift"].is_f64(), "{bought}");
    }
    let shown = succeeds(
        place,
        &arguments(&["probe", "--run", "--budget", "2", "--limit", "12"]),
    );
    assert!(shown.contains("came to"), "{shown}");
    let error = fails(
        place,
        1,
        &arguments(&["probe", "--run", "--strategy", "evsi,random"]),
    );
    assert!(error.contains("--strategy"), "{error}");
    let evaluate = ["eval", "--limit", "15", "--runs", "2"];
    let table = succeeds(place, &arguments(&evaluate));
    for method in ["none", "random", "bm25", "dense", "per-memory", "uplift"] {
        assert!(table.lines().any(|line| line.starts_with(method)), "{table}");
    }
    assert!(
        table.lines().take(9).all(|line| line.chars().count() <= 80),
        "{table}"
    );
    details_agree_with_the_table(place, &arguments(&evaluate));
    let report = succeeds(place, &["report", "--figures", "figures"]);
    assert!(report.contains("retrievals against no memory"), "{report}");
    for name in ["uplift", "calibration", "coverage", "ledger", "learning"] {
        let svg = std::fs::read_to_string(place.join("figures").join(format!("{name}.svg"))).unwrap();
        assert!(svg.starts_with("<svg") && !svg.contains("NaN"), "{name}: {svg}");
    }
    let batches = succeeds(place, &["--json", "list", "batches"]);
    assert_eq!(
        batches.lines().count(),
        4,
        "two of the run, two that were bought by hand"
    );
}

/// A line for each task and method; their means are what the comparison says.
fn details_agree_with_the_table(place: &Path, evaluate: &[&str]) {
    let with = |extra: &[&'static str]| [evaluate, extra].concat();
    let evaluation = json(&succeeds(place, &with(&["--json", "--details", "details.jsonl"])));
    let text = std::fs::read_to_string(place.join("details.jsonl")).unwrap();
    let details: Vec<serde_json::Value> = text.lines().map(json).collect();
    let arms = evaluation["arms"].as_array().unwrap();
    assert_eq!(details.len(), 15 * arms.len());
    let alone: Vec<&str> = details
        .iter()
        .filter(|detail| detail["method"] == "none" && detail["performance"] == 1.0)
        .map(|detail| detail["task"].as_str().unwrap())
        .collect();
    assert_eq!(evaluation["solved_alone"], alone.len());
    for arm in arms {
        let of: Vec<_> = details
            .iter()
            .filter(|detail| detail["method"] == arm["name"])
            .collect();
        let utility: f64 = of.iter().map(|detail| detail["utility"].as_f64().unwrap()).sum();
        assert!(
            (utility / 15.0 - arm["utility"].as_f64().unwrap()).abs() < 1e-9,
            "{arm}"
        );
        let left = of
            .iter()
            .filter(|detail| alone.contains(&detail["task"].as_str().unwrap()))
            .filter(|detail| detail["memories"].as_array().unwrap().is_empty())
            .count();
        let share = left as f64 / alone.len() as f64;
        assert!(
            (arm["left_alone"].as_f64().unwrap() - share).abs() < 1e-9,
            "{arm}"
        );
    }
    let error = fails(place, 1, &with(&["--details", "nowhere/details.jsonl"]));
    assert!(
        error.contains("nowhere/details.jsonl can not be written"),
        "{error}"
    );
}

#[test]
fn files_that_are_wrong_are_refused_whole_with_their_place() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    succeeds(place, &["init"]);
    std::fs::write(
        place.join("bad.jsonl"),
        "{\"text\":\"fine\"}\n{\"txt\":\"oops\"}\n",
    )
    .unwrap();
    insta::assert_snapshot!("bad_line", fails(place, 1, &["import", "bad.jsonl"]));
    assert_eq!(
        succeeds(place, &["--json", "list"]),
        "",
        "nothing of it was imported"
    );
    std::fs::write(place.join("tasks.jsonl"), "{\"id\":\"a\"}\n").unwrap();
    insta::assert_snapshot!(
        "bad_task",
        fails(
            place,
            1,
            &["train", "--tasks", "tasks.jsonl", "--set", "executor.kind=world"]
        )
    );
    insta::assert_snapshot!("missing_file", fails(place, 1, &["import", "nowhere.jsonl"]));
}

#[test]
fn wrong_usage_says_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    insta::assert_snapshot!("no_store", fails(place, 1, &["list"]));
    succeeds(place, &["init"]);
    insta::assert_snapshot!("no_executor", fails(place, 1, &["train", "--tasks", "x.jsonl"]));
    insta::assert_snapshot!(
        "unknown_key",
        fails(place, 1, &["list", "--set", "retrieval.candidats=3"])
    );
    let output = upliftmem(place).args(["lst"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("list"));
    insta::assert_snapshot!(
        "unknown_method",
        fails(
            place,
            1,
            &[
                "eval",
                "--methods",
                "magic",
                "--limit",
                "2",
                "--set",
                "executor.kind=world"
            ]
        )
    );
}

#[test]
fn a_model_that_is_not_here_is_downloaded_only_after_it_was_said() {
    let directory = tempfile::tempdir().unwrap();
    let output = upliftmem(directory.path())
        .args(["demo", "--llm"])
        .env("UPLIFTMEM_MODELS", directory.path().join("models"))
        // Nobody listens there.
        .env("UPLIFTMEM_HUB", "http://127.0.0.1:9")
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    let (before, after) = said.split_once("could not be downloaded").unwrap();
    assert!(before.contains("downloading 98 MB once"), "{said}");
    assert!(after.contains("--model"), "{said}");
}

#[test]
fn the_doctor_finds_what_is_wrong() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    succeeds(place, &["init"]);
    let checks = json(&succeeds(
        place,
        &["--json", "doctor", "--set", "executor.kind=world"],
    ));
    assert!(
        checks
            .as_array()
            .unwrap()
            .iter()
            .all(|check| check["fine"] == true),
        "{checks}"
    );
    let output = upliftmem(place).args(["doctor"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("NO  executor"), "{text}");
}

#[test]
fn what_is_exported_is_imported_again() {
    let directory = with_world(5);
    let place = directory.path();
    succeeds(place, &["export", "memories", "--out", "out.jsonl"]);
    let other = tempfile::tempdir().unwrap();
    succeeds(other.path(), &["init"]);
    let file = place.join("out.jsonl").display().to_string();
    succeeds(other.path(), &["import", &file]);
    assert_eq!(
        succeeds(other.path(), &["export", "memories"]),
        std::fs::read_to_string(place.join("out.jsonl")).unwrap()
    );
}

#[test]
fn completions_and_manual_pages_are_made() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    assert!(succeeds(place, &["completions", "bash"]).contains("_upliftmem"));
    succeeds(place, &["man", "pages"]);
    assert!(place.join("pages/upliftmem-train.1").is_file());
    assert!(succeeds(place, &["config", "--reference"]).contains("[acquisition]"));
    assert!(succeeds(place, &["models", "list"]).contains("potion"));
}
