//! What can be wrong with a game file, told with file and place.

use std::io;

/// A game or a collection of games that can not be read.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file or folder could not be read at all.
    #[error(
        "{file}: can not be read: {source}; point to ALFWorld's games (folders train, valid_seen, ...) or an archive of them"
    )]
    Read {
        /// The file or folder.
        file: String,
        /// What the system said.
        source: io::Error,
    },
    /// The file is not the JSON of a game.
    #[error("{file}: not a game.tw-pddl file: {source}")]
    Json {
        /// The file.
        file: String,
        /// What is wrong, with line and column.
        source: serde_json::Error,
    },
    /// The PDDL problem inside the file says something the game can not be made of.
    #[error("{file}: pddl_problem, line {line}, column {column}: {message}")]
    Problem {
        /// The file.
        file: String,
        /// Line within the problem text, from 1.
        line: usize,
        /// Column within that line in bytes, from 1.
        column: usize,
        /// What is wrong there.
        message: String,
    },
    /// The grammar or domain is of another release, whose games follow other rules.
    #[error("{file}: {message}; get the current games with `alfworld-download`")]
    Release {
        /// The file.
        file: String,
        /// What is missing.
        message: String,
    },
}

/// A fault at a byte of the problem text; [`Fault::located`] gives it file, line and column.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) at: usize,
    pub(super) message: String,
}

impl Fault {
    pub(super) fn new(at: usize, message: impl Into<String>) -> Self {
        Self {
            at,
            message: message.into(),
        }
    }

    pub(super) fn located(self, file: &str, text: &str) -> LoadError {
        let before = &text.as_bytes()[..self.at.min(text.len())];
        let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
        let column = 1 + before.iter().rev().take_while(|&&byte| byte != b'\n').count();
        LoadError::Problem {
            file: file.to_owned(),
            line,
            column,
            message: self.message,
        }
    }
}
