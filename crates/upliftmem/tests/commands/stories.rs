//! What a person does with the program, and all they see of it.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use crate::support::{Session, WORLD, succeeds, upliftmem, with_world};

/// The id that a command printed after this word.
fn id_after(word: &str, printed: &str) -> String {
    let (_, rest) = printed.split_once(word).unwrap();
    rest.split_whitespace().next().unwrap().to_owned()
}

/// Width and height that the header of a PNG file states.
fn png_size(file: &Path) -> (u32, u32) {
    let bytes = std::fs::read(file).unwrap();
    assert!(bytes.starts_with(b"\x89PNG\r\n\x1a\n"), "{}", file.display());
    let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    (number(16), number(20))
}

#[test]
fn an_agent_keeps_memories_and_tells_how_it_went() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    std::fs::write(
        place.join("memories.jsonl"),
        "{\"text\":\"Ask for the invoice number before anything else.\"}\n\
         {\"text\":\"The router in building 4 needs a long press.\\nThen wait.\"}\n\
         {\"text\":\"The spare key is under the blue pot.\"}\n\
         {\"text\":\"Pay \\u202eeverything at once.\"}\n",
    )
    .unwrap();
    std::fs::write(place.join("notes.txt"), "Visitors park in row C.\n").unwrap();
    let mut session = Session::new(place, &[]);
    session.run(&["init"]);
    session.run(&["list"]);
    let key = session.run(&["add", "The spare key is under the blue pot."]);
    session.run(&["add", "The spare key  is under the blue pot."]);
    session.run(&["import", "memories.jsonl"]);
    session.run(&["import", "--format", "text", "notes.txt"]);
    session.run(&["list"]);
    let found = session.run(&["search", "Where is the spare key?"]);
    let retrieval = id_after("retrieval ", &found);
    session.run(&["explain", &retrieval, "--memories", key.trim()]);
    session.run(&["outcome", &retrieval, "--performance", "0.5", "--cost", "3"]);
    session.run(&["list", "retrievals"]);
    session.run(&["list", "tasks"]);
    session.run(&["list", "executions"]);
    session.run(&["list", "batches"]);
    session.run(&["report"]);
    session.run(&["export", "tasks"]);
    session.run(&["export", "memories", "--out", "out.jsonl"]);
    std::fs::write(
        place.join("sets.jsonl"),
        "{\"task\":{\"id\":\"t1\",\"context\":\"open the door\"},\"memories\":[{\"id\":\"a\",\"text\":\"take the key\"}]}\n",
    )
    .unwrap();
    session.run(&["score", "--scorer", "compact", "sets.jsonl"]);
    insta::assert_snapshot!(session.seen());
    // Settings are for every command.
    succeeds(place, &["--set", "retrieval.candidates=2", "explain", &retrieval]);
}

#[test]
fn a_run_learns_is_asked_and_is_compared() {
    let directory = with_world(60);
    let place = directory.path();
    let mut session = Session::new(place, &WORLD);
    session.run(&["train", "--tasks", "tasks.jsonl", "--seed-tasks", "20"]);
    let query = helped_task(place);
    let found = session.run(&["search", &query]);
    let retrieval = id_after("retrieval ", &found);
    session.run(&["explain", &retrieval]);
    session.run(&["outcome", &retrieval, "--performance", "1", "--cost", "4"]);
    session.run(&["report", "--memories", "2", "--figures", "figures"]);
    session.run(&["list", "executions", "--limit", "3"]);
    session.run(&["list", "batches"]);
    session.run(&[
        "probe",
        "--strategy",
        "evsi,random",
        "--budget",
        "2",
        "--limit",
        "12",
    ]);
    session.run(&["probe", "--run", "--budget", "2", "--limit", "12"]);
    session.run(&["eval", "--limit", "15", "--runs", "2"]);
    insta::assert_snapshot!(session.shape(&query));
    for name in ["uplift", "calibration", "coverage", "ledger", "learning"] {
        let file = place.join("figures").join(name);
        let svg = std::fs::read_to_string(file.with_extension("svg")).unwrap();
        let (width, height) = png_size(&file.with_extension("png"));
        let size = format!(" width=\"{}\" height=\"{}\" ", width / 2, height / 2);
        assert!(svg.contains(&size), "{name}: {size} in {svg}");
    }
}

/// A task for which the trained scorer returns memories.
fn helped_task(place: &Path) -> String {
    let tasks = std::fs::read_to_string(place.join("tasks.jsonl")).unwrap();
    let queries = tasks.lines().map(|line| {
        let task: serde_json::Value = serde_json::from_str(line).unwrap();
        task["context"].as_str().unwrap().to_owned()
    });
    for query in queries {
        let arguments = [&["--json", "search", &query][..], &WORLD].concat();
        let found: serde_json::Value = serde_json::from_str(&succeeds(place, &arguments)).unwrap();
        if found["abstained"] == false {
            return query;
        }
    }
    panic!("no task of the world is helped");
}

#[test]
fn figures_are_drawn_as_svg_where_there_are_no_fonts() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    std::fs::create_dir(place.join("empty")).unwrap();
    let fonts = format!(
        "<fontconfig><dir>{}</dir></fontconfig>",
        place.join("empty").display()
    );
    std::fs::write(place.join("fonts.conf"), fonts).unwrap();
    succeeds(place, &["init"]);
    let arguments = ["report", "--figures", "figures"];
    let output = upliftmem(place)
        .args(arguments)
        .env("FONTCONFIG_FILE", place.join("fonts.conf"))
        .output()
        .unwrap();
    assert!(output.status.success());
    let mut session = Session::new(place, &[]);
    session.see(&arguments, &output);
    insta::assert_snapshot!(session.seen());
    assert!(place.join("figures/uplift.svg").is_file());
    assert!(!place.join("figures/uplift.png").exists());
}

#[test]
fn the_demo_shows_what_this_is_about() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    // A few executions and candidates, so that it takes seconds.
    let small = [
        "--set",
        "training.max_executions=200",
        "--set",
        "retrieval.candidates=8",
    ];
    let mut session = Session::new(place, &small);
    session.run(&["demo", "--seed", "3"]);
    insta::assert_snapshot!(session.shape("no query"));
    let page = std::fs::read_to_string(place.join("upliftmem-demo/report.html")).unwrap();
    assert_eq!(page.matches("<svg").count(), 6, "a comparison and five figures");
    assert_eq!(png_size(&place.join("upliftmem-demo/learning.png")).0, 1440);
}

#[cfg(unix)]
#[test]
fn a_worker_executes_what_a_run_wants() {
    let directory = with_world(12);
    let place = directory.path();
    let worker = upliftmem(place)
        .args(["worker", "--look-after-seconds", "1"])
        .args(WORLD)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut session = Session::new(place, &WORLD);
    session.run(&[
        "train",
        "--tasks",
        "tasks.jsonl",
        "--seed-tasks",
        "4",
        "--workers-only",
    ]);
    let id = worker.id().to_string();
    let told = Command::new("kill").args(["-TERM", &id]).status().unwrap();
    assert!(told.success());
    let output = worker.wait_with_output().unwrap();
    assert!(output.status.success(), "a stop in good order is a success");
    session.see(&["worker", "--look-after-seconds", "1"], &output);
    insta::assert_snapshot!(session.shape("no query"));
}

#[test]
fn an_operator_gives_keys_and_quotas() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    succeeds(place, &["init"]);
    let mut session = Session::new(place, &[]);
    session.run(&["keys", "list"]);
    let made = session.run(&["keys", "create", "laptop", "--agent-id", "default"]);
    session.run(&[
        "keys",
        "create",
        "backup",
        "--all-scopes",
        "--permission",
        "admin",
    ]);
    session.run(&["keys", "revoke", &id_after("This is ", &made)]);
    session.run(&["keys", "list"]);
    session.refused(&["keys", "create", "anyone"]);
    session.refused(&["keys", "revoke", "key_000"]);
    session.run(&["quotas", "list"]);
    session.run(&["quotas", "set", "--agent-id", "default", "--memories", "1"]);
    session.run(&["add", "The first."]);
    session.refused(&["add", "One too many."]);
    session.run(&["quotas", "list"]);
    session.run(&["quotas", "remove", "--agent-id", "default"]);
    session.refused(&["quotas", "remove", "--agent-id", "default"]);
    session.refused(&["quotas", "set", "--agent-id", "default"]);
    insta::assert_snapshot!(session.seen());
}

#[test]
fn the_program_says_what_it_has_and_what_is_missing() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    succeeds(place, &["init"]);
    let mut session = Session::new(place, &[]);
    session.run(&["doctor", "--set", "executor.kind=world"]);
    session.refused(&["doctor"]);
    session.run(&["config"]);
    session.run(&["models", "list"]);
    session.run(&["models", "path", "potion-base-8M"]);
    session.refused(&["models", "path", "potion"]);
    session.run(&["man", "pages"]);
    insta::assert_snapshot!(session.seen());
    assert!(place.join("pages/upliftmem-train.1").is_file());
    for (shell, sign) in [
        ("bash", "_upliftmem()"),
        ("zsh", "#compdef upliftmem"),
        ("fish", "complete -c upliftmem"),
    ] {
        let script = succeeds(place, &["completions", shell]);
        assert!(script.contains(sign) && script.contains("outcome"), "{shell}");
    }
}

#[cfg(unix)]
#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    for arguments in [["completions", "bash"], ["config", "--reference"]] {
        let mut child = upliftmem(place)
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            output.status.success() && said.is_empty(),
            "{arguments:?}: {said}"
        );
    }
}
