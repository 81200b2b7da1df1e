//! What can go wrong with the tasks and with running them.

use std::io;
use std::path::PathBuf;

/// Tasks that can not be read.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A file could not be read at all.
    #[error(
        "{}: can not be read: {source}; the folder must hold BigCodeBench's `tasks.jsonl.gz`, `split.json` and `hard.json`",
        .file.display()
    )]
    Read {
        /// The file.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file is not the JSON that was expected.
    #[error("{}, line {line}: {source}", .file.display())]
    Json {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// Files do not belong together.
    #[error("{}: {message}", .file.display())]
    Inconsistent {
        /// The file.
        file: PathBuf,
        /// What does not fit.
        message: String,
    },
}

/// A sandbox that could not do its work. What a solution does wrong is no error but its result.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// There is no interpreter.
    #[error("{}: can not be run as a Python interpreter: {why}; name one of version 3.8 or later", .python.display())]
    NoPython {
        /// What was tried.
        python: PathBuf,
        /// What came of it.
        why: String,
    },
    /// The system refused something.
    #[error("the sandbox: {0}")]
    System(#[from] io::Error),
    /// The process in which the sandbox is made said nothing that could be understood.
    #[error("the sandbox gave no report: {0}")]
    NoReport(String),
}
