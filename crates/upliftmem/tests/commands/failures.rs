//! What goes wrong around the program: places that can not be written, disks that are full. Errors name the thing, the place and
//! the way out.
#![cfg(unix)]

use std::{
    path::Path,
    process::{Command, Output, Stdio},
};

use crate::support::{Session, fails, run, settled, succeeds, upliftmem};

/// Runs a script with file systems of its own, so that nothing is mounted for anybody else and nobody has to be root. `$1` is a
/// directory, `$2` the program. None where the system does not allow it, which is printed.
fn apart(place: &Path, script: &str) -> Option<Output> {
    let alone = |script: &str| {
        let program = upliftmem(place);
        let mut command = Command::new("unshare");
        command
            .args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"])
            .args([place.as_os_str(), program.get_program()])
            .current_dir(place)
            .env("UPLIFTMEM_MODELS", place.join("models"))
            .stdin(Stdio::null());
        command.output()
    };
    match alone("mount -t tmpfs none \"$1\"") {
        Ok(output) if output.status.success() => Some(alone(script).unwrap()),
        other => {
            eprintln!("skipped: this system does not let a user mount a file system: {other:?}");
            None
        }
    }
}

fn said(place: &Path, output: &Output) -> String {
    let (out, errors) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    settled(place, &format!("{out}{errors}"))
}

#[test]
fn a_place_that_can_not_be_written_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    succeeds(place, &["init"]);
    std::fs::write(place.join("file"), "not a folder\n").unwrap();
    let mut session = Session::new(place, &[]);
    session.refused(&["init", "file/below"]);
    session.refused(&["report", "--figures", "file"]);
    session.refused(&["report", "--figures", "file/below"]);
    session.refused(&["export", "memories", "--out", "file/below"]);
    session.refused(&["export", "memories", "--out", "."]);
    session.refused(&["man", "file/below"]);
    session.refused(&["demo", "--out", "file/below"]);
    session.refused(&["list", "--set", "store.location=."]);
    session.refused(&["list", "--set", "store.location=file"]);
    insta::assert_snapshot!(session.seen());
}

#[test]
fn what_can_not_be_read_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    succeeds(place, &["init"]);
    std::fs::write(
        place.join("cut.jsonl"),
        "{\"text\":\"whole\"}\n{\"text\": \"cut of\n",
    )
    .unwrap();
    let mut session = Session::new(place, &[]);
    session.refused(&["import", "cut.jsonl"]);
    session.refused(&["import", "."]);
    session.refused(&["list", "--config", "nowhere.toml"]);
    session.refused(&["list", "--limit", "0"]);
    session.refused(&[
        "outcome",
        "01a1e575-34b2-73ce-a60e-8fe64bbb6a44",
        "--performance",
        "1",
    ]);
    session.refused(&["explain", "01a1e575-34b2-73ce-a60e-8fe64bbb6a44"]);
    session.refused(&["eval"]);
    session.refused(&["score", "--scorer", "compact", "nowhere.jsonl"]);
    insta::assert_snapshot!(session.seen());
}

/// A store with one memory, all of it in one file: what a process that stopped leaves beside it is not always the same.
fn store_with_a_memory(place: &Path) {
    succeeds(place, &["init"]);
    succeeds(place, &["add", "The spare key is under the blue pot."]);
    let store = rusqlite::Connection::open(place.join("upliftmem.db")).unwrap();
    store
        .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        .unwrap();
    drop(store);
    assert!(!place.join("upliftmem.db-wal").exists());
}

#[test]
fn a_folder_that_may_only_be_read_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    store_with_a_memory(place);
    let script = "mount --bind \"$1\" \"$1\" && mount -o remount,bind,ro \"$1\" && cd \"$1\" || exit 9
        \"$2\" init below
        \"$2\" add 'Another.'
        \"$2\" man pages";
    if let Some(output) = apart(place, script) {
        insta::assert_snapshot!(said(place, &output));
    }
}

#[test]
fn a_full_disk_is_named_and_nothing_is_lost() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    store_with_a_memory(place);
    std::fs::create_dir(place.join("disk")).unwrap();
    // At last there is room for what SQLite keeps beside a store, and not for the memory.
    let script = "mount -t tmpfs -o size=1m none disk && cp upliftmem.db disk || exit 9
        head -c 2000000 /dev/zero > disk/rest 2>/dev/null
        exec 2>&1
        \"$2\" export memories --out disk/out.jsonl
        \"$2\" report --figures disk/figures
        \"$2\" list --set store.location=disk/upliftmem.db
        rm -f disk/out.jsonl && truncate -s -48K disk/rest || exit 9
        head -c 30000 /dev/zero | tr '\\0' x | \"$2\" add - --set store.location=disk/upliftmem.db
        rm disk/rest
        \"$2\" list --set store.location=disk/upliftmem.db";
    if let Some(output) = apart(place, script) {
        insta::assert_snapshot!(said(place, &output));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_that_takes_no_more_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    succeeds(place, &["init"]);
    succeeds(place, &["add", "The spare key is under the blue pot."]);
    let mut session = Session::new(place, &[]);
    session.refused(&["export", "memories", "--out", "/dev/full"]);
    for arguments in [&["export", "memories"][..], &["list"], &["completions", "fish"]] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let output = upliftmem(place).args(arguments).stdout(full).output().unwrap();
        session.see(&[arguments, &[">", "/dev/full"]].concat(), &output);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
    }
    insta::assert_snapshot!(session.seen());
}

#[test]
fn a_store_that_another_process_writes_can_be_read_and_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    succeeds(place, &["init"]);
    succeeds(place, &["add", "The spare key is under the blue pot."]);
    let holder = rusqlite::Connection::open(place.join("upliftmem.db")).unwrap();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert!(
        succeeds(place, &["list"]).contains("The spare key"),
        "reading needs no lock"
    );
    let output = run(place, &["add", "Another."]);
    assert_eq!(output.status.code(), Some(1));
    insta::assert_snapshot!(said(place, &output));
    holder.execute_batch("COMMIT").unwrap();
    succeeds(place, &["add", "Another."]);
}

#[test]
fn a_suite_without_its_tasks_is_refused_and_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    std::fs::create_dir(place.join("empty")).unwrap();
    for data in ["empty", "nowhere"] {
        let error = fails(
            place,
            1,
            &[
                "bench", "run", "--suite", "alfworld", "--data", data, "--out", "results",
            ],
        );
        assert!(error.contains(data) && error.contains("--data names"), "{error}");
    }
    assert!(!place.join("results").exists());
}
