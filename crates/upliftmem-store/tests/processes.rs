//! A SQLite file between processes, and where there is no room or no right to write: a clear error, and nothing lost.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a test says what fails by failing, and processes talk by printing"
)]

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::Path,
    process::{Command, Output, Stdio},
    sync::Arc,
    time::Duration,
};

use upliftmem_core::{MemoryId, MemorySet, Purpose, Rollout, RolloutId, TaskId};
use upliftmem_store::*;

/// What the other process does, and with which file.
const ROLE: &str = "UPLIFTMEM_PROCESSES_ROLE";
const FILE: &str = "UPLIFTMEM_PROCESSES_FILE";
/// An account without rights, for a test that is run by root.
const NOBODY: u32 = 65_534;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    if let Ok(role) = std::env::var(ROLE) {
        return runtime.block_on(other_process(&role, Path::new(&std::env::var(FILE).unwrap())));
    }
    runtime.block_on(async {
        two_processes_share_a_file().await;
        eprintln!("two_processes_share_a_file ... ok");
        a_file_that_another_process_holds_is_busy_and_then_is_not().await;
        eprintln!("a_file_that_another_process_holds_is_busy_and_then_is_not ... ok");
        a_full_disk_loses_nothing_that_was_acknowledged().await;
        eprintln!("a_full_disk_loses_nothing_that_was_acknowledged ... ok");
        what_may_not_be_written_is_named().await;
        eprintln!("what_may_not_be_written_is_named ... ok");
    });
}

async fn other_process(role: &str, file: &Path) {
    match role {
        "share" => {
            let store = open(file).await.unwrap();
            for taken in work_through(&store, 1_000).await {
                println!("{taken}");
            }
        }
        "fill" => fill(file).await,
        "open" => match open(file).await {
            Ok(_) => println!("opened"),
            Err(error) => println!("{:?}: {error}", error.actor()),
        },
        other => panic!("no such role: {other}"),
    }
}

async fn open(file: &Path) -> Result<Arc<dyn Store>> {
    open_sqlite(SqlitePlace::File(file.to_owned()), StoreLimits::default()).await
}

fn scope() -> Scope {
    Scope::user("alice").unwrap()
}

fn now() -> Timestamp {
    Timestamp::from_millis(1_000)
}

fn note(number: u128, size: usize) -> NewMemory {
    let text = format!("memory {number} {}", "x".repeat(size));
    NewMemory::note(MemoryId::from_u128(number), text)
}

/// This program as another process.
fn other(role: &str, file: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env(ROLE, role).env(FILE, file).stdin(Stdio::null());
    command
}

fn lines(output: &Output) -> Vec<String> {
    assert!(
        output.status.success(),
        "{}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(ToOwned::to_owned)
        .collect()
}

/// Adds fifty memories and takes a ticket after each; says which.
async fn work_through(store: &Arc<dyn Store>, first: u128) -> Vec<String> {
    let mut taken = Vec::new();
    for number in first..first + 50 {
        let results = store
            .add_memories(&scope(), now(), vec![note(number, 0)])
            .await
            .unwrap();
        assert_eq!(results[0].status, ItemStatus::Stored);
        let request = LeaseRequest {
            worker: format!("worker {first}"),
            tickets: 1,
            duration: Duration::from_secs(60),
            purpose: None,
        };
        for leased in store.lease(&scope(), now(), request).await.unwrap() {
            taken.push(leased.rollout.id.to_string());
        }
        let query = RecallQuery {
            text: format!("{number}"),
            embedding: None,
            candidates: 1,
            mode: RecallMode::Lexical,
        };
        let found = store.recall(&scope(), now(), query).await.unwrap();
        assert_eq!(found.hits[0].id, MemoryId::from_u128(number));
    }
    taken
}

async fn two_processes_share_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("shared.db");
    let store = open(&file).await.unwrap();
    let tickets = (1..=80_u64).map(|number| NewTicket {
        rollout: Rollout {
            id: RolloutId::from_u128(number.into()),
            task: TaskId::from_name("t"),
            set: MemorySet::EMPTY,
            purpose: Purpose::Reference,
            executor: "e".into(),
            seed: number,
        },
        attempts_max: 3,
    });
    store.enqueue(&scope(), now(), tickets.collect()).await.unwrap();
    let child = other("share", &file).stdout(Stdio::piped()).spawn().unwrap();
    let mut taken = work_through(&store, 1).await;
    taken.extend(lines(&child.wait_with_output().unwrap()));
    let different: BTreeSet<&String> = taken.iter().collect();
    assert_eq!(
        (taken.len(), different.len()),
        (80, 80),
        "each ticket went to one worker"
    );
    let query = RecallQuery {
        text: "memory".into(),
        embedding: None,
        candidates: 500,
        mode: RecallMode::Lexical,
    };
    let found = store.recall(&scope(), now(), query).await.unwrap();
    assert_eq!(found.hits.len(), 100, "memories of both are found");
}

async fn a_file_that_another_process_holds_is_busy_and_then_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("held.db");
    let store = open(&file).await.unwrap();
    let holder = rusqlite::Connection::open(&file).unwrap();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = store
        .add_memories(&scope(), now(), vec![note(1, 0)])
        .await
        .unwrap_err();
    assert_eq!(error.actor(), Actor::Retry, "{error}");
    assert!(error.to_string().contains("held.db"), "{error}");
    let reader = open(&file).await.unwrap();
    for store in [store.clone(), reader] {
        let all = store.list_memories(&scope(), MemoryFilter::default(), 9).await;
        assert_eq!(all.unwrap(), [], "whoever only reads need not wait");
    }
    holder.execute_batch("COMMIT").unwrap();
    let results = store
        .add_memories(&scope(), now(), vec![note(1, 0)])
        .await
        .unwrap();
    assert_eq!(
        results[0].status,
        ItemStatus::Stored,
        "nothing of the first attempt is left"
    );
}

/// Writes until it can not, printing what was acknowledged and then the error.
async fn fill(file: &Path) {
    let store = open(file).await.unwrap();
    for number in 1.. {
        match store
            .add_memories(&scope(), now(), vec![note(number, 10_000)])
            .await
        {
            Ok(results) => assert_eq!(results[0].status, ItemStatus::Stored),
            Err(error) => {
                println!("{:?}: {error}", error.actor());
                break;
            }
        }
        println!("{number}");
    }
    // What is there can still be read.
    let all = store
        .list_memories(&scope(), MemoryFilter::default(), 9_999)
        .await
        .unwrap();
    println!("{}", all.len());
}

async fn a_full_disk_loses_nothing_that_was_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("full.db");
    // No file may grow beyond some blocks; without the signal, writing more fails as on a full disk.
    let limited = r#"trap '' XFSZ; ulimit -f 2000 && exec "$0""#;
    let output = Command::new("sh")
        .args(["-c", limited])
        .arg(std::env::current_exe().unwrap())
        .env(ROLE, "fill")
        .env(FILE, &file)
        .output()
        .unwrap();
    let mut said = lines(&output);
    let readable: usize = said.pop().unwrap().parse().unwrap();
    let error = said.pop().unwrap();
    assert!(
        error.starts_with("Operator: ") && error.contains("full.db"),
        "{error}"
    );
    assert!(error.contains("nothing was written"), "{error}");
    let acknowledged = said.len();
    assert!(acknowledged > 10, "{acknowledged}");
    assert_eq!(readable, acknowledged);
    let store = open(&file).await.unwrap();
    let all = store
        .list_memories(&scope(), MemoryFilter::default(), 9_999)
        .await
        .unwrap();
    let ids: Vec<String> = all
        .iter()
        .map(|stored| stored.memory.id.as_u128().to_string())
        .collect();
    assert_eq!(ids, said);
    // With room again it goes on, also with the one that was refused.
    let next = note(acknowledged as u128 + 1, 10_000);
    let results = store.add_memories(&scope(), now(), vec![next]).await.unwrap();
    assert_eq!(results[0].status, ItemStatus::Stored);
}

async fn what_may_not_be_written_is_named() {
    let folder = tempfile::tempdir().unwrap();
    set_mode(folder.path(), 0o755);
    let locked = folder.path().join("locked");
    fs::create_dir(&locked).unwrap();
    set_mode(&locked, 0o555);
    let Some(said) = opened_without_rights(&locked.join("new.db")) else {
        return;
    };
    assert!(
        said.starts_with("Operator: ") && said.contains("new.db"),
        "{said}"
    );
    assert!(said.contains("folder"), "{said}");
    // A store that is there, and may only be read.
    let file = folder.path().join("old.db");
    let store = open(&file).await.unwrap();
    store
        .add_memories(&scope(), now(), vec![note(1, 0)])
        .await
        .unwrap();
    set_mode(&file, 0o444);
    set_mode(folder.path(), 0o555);
    // With its log beside it, while this process has it open, and without.
    let while_open = opened_without_rights(&file).unwrap();
    drop(store);
    let alone = opened_without_rights(&file).unwrap();
    set_mode(folder.path(), 0o755);
    set_mode(&file, 0o644);
    for said in [while_open, alone] {
        assert!(
            said.starts_with("Operator: ") && said.contains("old.db"),
            "{said}"
        );
        assert!(said.contains("write"), "{said}");
    }
    let all = open(&file).await.unwrap();
    let all = all.list_memories(&scope(), MemoryFilter::default(), 9).await;
    assert_eq!(all.unwrap().len(), 1, "it is as it was");
}

/// What another process without rights says when it opens a store; none if there can be no such process here.
fn opened_without_rights(file: &Path) -> Option<String> {
    let mut command = other("open", file);
    if fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0) {
        std::os::unix::process::CommandExt::uid(&mut command, NOBODY);
    }
    match command.output() {
        Ok(output) => Some(lines(&output).remove(0)),
        Err(error) => {
            eprintln!("skipped: this program can not be run by user {NOBODY}: {error}");
            None
        }
    }
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}
