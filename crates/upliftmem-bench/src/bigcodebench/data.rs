//! The tasks and how they are divided.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use serde::Deserialize;

use super::error::LoadError;

/// One programming task.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct CodeTask {
    /// `BigCodeBench/17`.
    pub task_id: String,
    /// The task in words, for a model that follows instructions.
    pub instruct_prompt: String,
    /// The task as the beginning of a file: imports, signature, docstring.
    pub complete_prompt: String,
    /// The body of the reference solution. Never for an agent.
    pub canonical_solution: String,
    /// Imports and signature.
    pub code_prompt: String,
    /// A unittest class `TestCases`. Never for an agent.
    pub test: String,
    /// The function that is asked for.
    pub entry_point: String,
    /// Libraries that the reference solution uses.
    #[serde(deserialize_with = "python_list")]
    pub libs: Vec<String>,
}

impl CodeTask {
    /// The reference solution as a whole file.
    #[must_use]
    pub fn reference_solution(&self) -> String {
        format!("{}\n{}", self.complete_prompt, self.canonical_solution)
    }

    /// Whether the libraries of the task are all of Python's standard library. Its tests may still need others.
    #[must_use]
    pub fn is_standard_library_only(&self) -> bool {
        let top = |name: &String| name.split('.').next().unwrap_or_default().to_owned();
        self.libs
            .iter()
            .all(|name| STANDARD_LIBRARY.binary_search(&top(name).as_str()).is_ok())
    }
}

/// The parts of Python's standard library that tasks use.
const STANDARD_LIBRARY: [&str; 77] = [
    "array",
    "ast",
    "base64",
    "binascii",
    "bisect",
    "calendar",
    "cgi",
    "cmath",
    "codecs",
    "collections",
    "configparser",
    "csv",
    "ctypes",
    "datetime",
    "decimal",
    "difflib",
    "email",
    "enum",
    "errno",
    "fnmatch",
    "ftplib",
    "functools",
    "getpass",
    "glob",
    "gzip",
    "hashlib",
    "heapq",
    "hmac",
    "html",
    "http",
    "importlib",
    "inspect",
    "io",
    "ipaddress",
    "itertools",
    "json",
    "logging",
    "math",
    "mimetypes",
    "multiprocessing",
    "operator",
    "os",
    "pathlib",
    "pickle",
    "pkgutil",
    "platform",
    "queue",
    "random",
    "re",
    "secrets",
    "select",
    "shlex",
    "shutil",
    "signal",
    "smtplib",
    "socket",
    "sqlite3",
    "ssl",
    "statistics",
    "string",
    "struct",
    "subprocess",
    "sys",
    "tarfile",
    "textwrap",
    "threading",
    "time",
    "turtle",
    "types",
    "typing",
    "unicodedata",
    "urllib",
    "uuid",
    "warnings",
    "xml",
    "zipfile",
    "zlib",
];

/// How the tasks are divided: the paper's manifest.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct Split {
    train_ids: BTreeSet<String>,
    val_ids: BTreeSet<String>,
}

/// All tasks, and which of them are learned from, held out and hard.
#[derive(Clone, Debug)]
pub struct Benchmark {
    tasks: Vec<CodeTask>,
    held_out: BTreeSet<String>,
    hard: BTreeSet<String>,
}

impl Benchmark {
    /// Reads `tasks.jsonl.gz`, `split.json` and `hard.json` of a folder.
    ///
    /// # Errors
    /// A file is missing or broken, or a division names a task that is not there, or leaves one out.
    pub fn load(folder: impl AsRef<Path>) -> Result<Self, LoadError> {
        let folder = folder.as_ref();
        let tasks = read_tasks(&folder.join("tasks.jsonl.gz"))?;
        let known: BTreeSet<&String> = tasks.iter().map(|task| &task.task_id).collect();
        let split_file = folder.join("split.json");
        let split = read_split(&split_file)?;
        let divided: BTreeSet<&String> = split.train_ids.union(&split.val_ids).collect();
        if divided != known || !split.train_ids.is_disjoint(&split.val_ids) || known.len() != tasks.len() {
            return Err(LoadError::Inconsistent {
                file: split_file,
                message: "does not divide the tasks of `tasks.jsonl.gz`: each must be in one list, once"
                    .to_owned(),
            });
        }
        let hard_file = folder.join("hard.json");
        let hard = read_split(&hard_file)?;
        let hard: BTreeSet<String> = hard.train_ids.into_iter().chain(hard.val_ids).collect();
        if let Some(unknown) = hard.iter().find(|id| !known.contains(id)) {
            return Err(LoadError::Inconsistent {
                file: hard_file,
                message: format!("names {unknown}, which is not in `tasks.jsonl.gz`"),
            });
        }
        Ok(Self {
            held_out: split.val_ids,
            tasks,
            hard,
        })
    }

    /// All tasks in the order of the file.
    #[must_use]
    pub fn tasks(&self) -> &[CodeTask] {
        &self.tasks
    }

    /// Tasks to learn from.
    pub fn train(&self) -> impl Iterator<Item = &CodeTask> {
        self.tasks
            .iter()
            .filter(|task| !self.held_out.contains(&task.task_id))
    }

    /// Tasks to be measured on.
    pub fn held_out(&self) -> impl Iterator<Item = &CodeTask> {
        self.tasks
            .iter()
            .filter(|task| self.held_out.contains(&task.task_id))
    }

    /// Whether a task is of the hard subset.
    #[must_use]
    pub fn is_hard(&self, task: &CodeTask) -> bool {
        self.hard.contains(&task.task_id)
    }
}

fn read_tasks(file: &Path) -> Result<Vec<CodeTask>, LoadError> {
    let unreadable = |source| LoadError::Read {
        file: file.to_owned(),
        source,
    };
    let opened = File::open(file).map_err(unreadable)?;
    let mut tasks = Vec::new();
    for (number, line) in BufReader::new(MultiGzDecoder::new(BufReader::new(opened)))
        .lines()
        .enumerate()
    {
        let line = line.map_err(unreadable)?;
        if !line.trim().is_empty() {
            tasks.push(serde_json::from_str(&line).map_err(|source| LoadError::Json {
                file: file.to_owned(),
                line: number + 1,
                source,
            })?);
        }
    }
    Ok(tasks)
}

fn read_split(file: &Path) -> Result<Split, LoadError> {
    let json = fs::read(file).map_err(|source| LoadError::Read {
        file: file.to_owned(),
        source,
    })?;
    serde_json::from_slice(&json).map_err(|source| LoadError::Json {
        file: file.to_owned(),
        line: source.line(),
        source,
    })
}

/// The text of a Python list of names, `['os', 're']`.
fn python_list<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let inside = text
        .trim()
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'));
    let inside =
        inside.ok_or_else(|| serde::de::Error::custom(format!("{text:?} is not a list of names")))?;
    let names = inside
        .split(',')
        .map(|name| name.trim().trim_matches(['\'', '"']).to_owned());
    Ok(names.filter(|name| !name.is_empty()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(libs: &str) -> Result<CodeTask, serde_json::Error> {
        serde_json::from_value(serde_json::json!({
            "task_id": "BigCodeBench/1", "instruct_prompt": "", "complete_prompt": "a", "canonical_solution": "b",
            "code_prompt": "", "test": "", "entry_point": "task_func", "libs": libs,
        }))
    }

    #[test]
    fn libraries_are_read_and_told_apart() {
        assert!(STANDARD_LIBRARY.is_sorted());
        assert_eq!(task("['os', 're']").unwrap().libs, ["os", "re"]);
        assert!(task("[]").unwrap().libs.is_empty());
        assert!(task("os").is_err());
        assert!(task("['os', 'urllib.parse']").unwrap().is_standard_library_only());
        assert!(!task("['os', 'numpy']").unwrap().is_standard_library_only());
        assert_eq!(task("[]").unwrap().reference_solution(), "a\nb");
    }
}
