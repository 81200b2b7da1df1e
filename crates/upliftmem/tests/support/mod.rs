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
    settled(directory, &errors)
}

/// What a person reads, without what is another every time: where it is, ids and secrets. As wide as it was.
pub(crate) fn settled(directory: &Path, text: &str) -> String {
    let text = text.replace(&directory.display().to_string(), "DIR");
    let word = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
    let mut settled = String::new();
    for piece in text.split_inclusive(|letter| !word(letter)) {
        let name = piece.trim_end_matches(|letter| !word(letter));
        let hexadecimal = name.chars().filter(char::is_ascii_hexdigit).count();
        let dashes = name.matches('-').count();
        let id = name.len() == 36 && hexadecimal == 32 && dashes == 4;
        let secret = name.len() >= 12 && hexadecimal == name.len();
        if id || secret {
            settled += &name.replace(|letter| letter != '-', "x");
            settled += &piece[name.len()..];
        } else {
            settled += piece;
        }
    }
    settled
}

/// A line without its numbers, and with one space where there are several; of a line that begins with a number, only that
/// it does.
fn numberless(line: &str) -> String {
    let mut text = String::new();
    let mut letters = line.trim_start().chars().peekable();
    while let Some(letter) = letters.next() {
        let is_next_digit = letters.peek().is_some_and(char::is_ascii_digit);
        if letter.is_ascii_digit() || matches!(letter, '+' | '-' | '.') && is_next_digit {
            if !text.ends_with('#') {
                text.push('#');
            }
        } else if letter != ' ' || !text.ends_with(' ') {
            text.push(letter);
        }
    }
    if line.starts_with(' ') && text.starts_with('#') {
        return "# ...".into();
    }
    text
}

/// Commands one after another, and all that a person sees of them. Lines of standard error begin with `!`.
pub(crate) struct Session<'p> {
    place: &'p Path,
    /// Flags that every command gets and that are not shown.
    flags: &'p [&'p str],
    seen: String,
}

impl<'p> Session<'p> {
    pub(crate) fn new(place: &'p Path, flags: &'p [&'p str]) -> Self {
        Self {
            place,
            flags,
            seen: String::new(),
        }
    }

    /// Runs a command that must succeed and print nothing wider than a terminal; says what it printed.
    pub(crate) fn run(&mut self, arguments: &[&str]) -> String {
        let output = run(self.place, &[arguments, self.flags].concat());
        let seen = self.see(arguments, &output);
        assert!(output.status.success(), "{seen}");
        for line in seen.lines().skip(1) {
            // Lines of JSON and of TOML can not be broken.
            let data = line.starts_with('{') || line.starts_with("instruction = ");
            let wide = line.trim_start_matches("! ").chars().count() > 80;
            assert!(!wide || data, "wider than 80 columns: {line}");
        }
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs a command that must fail, and say why in one place.
    pub(crate) fn refused(&mut self, arguments: &[&str]) {
        let output = run(self.place, &[arguments, self.flags].concat());
        let seen = self.see(arguments, &output);
        assert_eq!(output.status.code(), Some(1), "{seen}");
        assert!(seen.contains("\n! error: "), "{seen}");
    }

    /// Keeps what a person saw of a command.
    pub(crate) fn see(&mut self, arguments: &[&str], output: &Output) -> String {
        let words = arguments.iter().map(|word| {
            let plain = !word.is_empty() && !word.contains([' ', '"', '\'']);
            if plain {
                (*word).to_owned()
            } else {
                format!("'{word}'")
            }
        });
        let mut seen = format!("$ upliftmem {}\n", words.collect::<Vec<_>>().join(" "));
        seen += &String::from_utf8_lossy(&output.stdout);
        for line in String::from_utf8_lossy(&output.stderr).lines() {
            seen += &format!("! {line}\n");
        }
        let seen = settled(self.place, &seen);
        self.seen += &format!("{seen}\n");
        seen
    }

    /// All of it.
    pub(crate) fn seen(&self) -> &str {
        self.seen.trim_end()
    }

    /// All of it but what was learned, which every change of a scorer changes: numbers are `#`, of a table the heading is
    /// left, tasks and memories that are shown are any, and `query` is what was asked about, whole or cut.
    pub(crate) fn shape(&self, query: &str) -> String {
        let mut shape = String::new();
        let mut in_rows = false;
        let begun: String = query.chars().take(60).collect();
        for line in self.seen().replace(query, "QUERY").lines() {
            let line = match line {
                line if line.starts_with(&begun) => "QUERY",
                line if line.trim_start().starts_with("task  ") => "task ...",
                line if line.trim_start().starts_with("memory  ") => "memory ...",
                line => line,
            };
            let is_rule = line.contains("--") && line.chars().all(|letter| letter == '-' || letter == ' ');
            in_rows = is_rule || in_rows && !(line.is_empty() || line.starts_with(['$', '!']));
            let line = if is_rule { "(rows)" } else { line };
            let mut line = numberless(line);
            line.push('\n');
            // How many memories a set has was learned.
            let again = ["memory ...\n", "# ...\n"].contains(&line.as_str()) && shape.ends_with(&line);
            if is_rule || !(in_rows || again) {
                shape += &line;
            }
        }
        shape
    }
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
