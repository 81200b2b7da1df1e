//! The program as a person runs it.
#![allow(dead_code)] // Each test file uses some of it.

use std::{
    path::Path,
    process::{Command, Output},
};

use upliftmem_bench::worlds::{World, WorldKind};

/// The program, in a directory, without settings from outside.
pub(crate) fn upliftmem(directory: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_upliftmem"));
    command
        .current_dir(directory)
        .env("UPLIFTMEM_MODELS", directory.join("models"));
    for (name, _) in std::env::vars() {
        if name.starts_with("UPLIFTMEM_") && name != "UPLIFTMEM_MODELS" {
            command.env_remove(name);
        }
    }
    command.env("UPLIFTMEM_MODELS", directory.join("models"));
    command
}

/// Runs the program with these arguments.
pub(crate) fn run(directory: &Path, arguments: &[&str]) -> Output {
    upliftmem(directory).args(arguments).output().unwrap()
}

/// Standard output of a run that must succeed.
pub(crate) fn succeeds(directory: &Path, arguments: &[&str]) -> String {
    let output = run(directory, arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "upliftmem {arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// Standard error of a run that must fail with this code.
pub(crate) fn fails(directory: &Path, code: i32, arguments: &[&str]) -> String {
    let output = run(directory, arguments);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        output.status.code(),
        Some(code),
        "upliftmem {arguments:?}: {errors}"
    );
    assert!(
        output.stdout.is_empty(),
        "a failure prints nothing to standard output"
    );
    // Where a test runs is not part of what a person reads.
    errors.replace(&directory.display().to_string(), "DIR")
}

/// A directory with a configuration, a store, and a world's memories and first tasks.
pub(crate) fn with_world(tasks: usize) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    succeeds(place, &["init"]);
    let world = World::generate(WorldKind::LookAlikes, 3).unwrap();
    let memories: String = world
        .memories()
        .iter()
        .map(|memory| serde_json::json!({ "id": memory.id, "text": memory.text }).to_string() + "\n")
        .collect();
    std::fs::write(place.join("memories.jsonl"), memories).unwrap();
    let tasks: String = world
        .train_tasks()
        .iter()
        .take(tasks)
        .map(|task| serde_json::json!({ "id": task.name, "context": task.context }).to_string() + "\n")
        .collect();
    std::fs::write(place.join("tasks.jsonl"), tasks).unwrap();
    succeeds(place, &["import", "memories.jsonl"]);
    directory
}

/// Flags that make the world of [`with_world`] the executor, with small batches.
pub(crate) const WORLD: [&str; 14] = [
    "--set",
    "executor.kind=world",
    "--set",
    "executor.world_seed=3",
    "--set",
    "acquisition.acquisition_interval=20",
    "--set",
    "acquisition.probe_budget=10",
    "--set",
    "training.updates={ every = 20 }",
    "--set",
    "training.batch=8",
    "--set",
    "utility.cost_max=1000",
];
