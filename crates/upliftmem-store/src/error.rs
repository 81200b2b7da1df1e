//! Everything that can go wrong, sorted by who has to act.

use upliftmem_core::InvalidInput;

use crate::EmbedderGeneration;

/// Shorthand for what every method of a store returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a store refused or failed. A call that returns one has changed nothing.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The input can not be stored or searched as it is.
    #[error(transparent)]
    Invalid(#[from] InvalidInput),

    /// The input is larger than a configured limit.
    #[error("{what}: {got} is above the limit {limit} = {allowed}; send less or raise {limit}")]
    Limit {
        /// Which of [`crate::StoreLimits`] was hit.
        limit: &'static str,
        /// Its value.
        allowed: u64,
        /// What was sent.
        got: u64,
        /// What the number counts.
        what: String,
    },

    /// A tenant would use more than it may.
    #[error(
        "the quota of {tenant} is {allowed} {what}, and this would make {got}; delete what is not needed (memories), or \
         raise it with `upliftmem quotas set`"
    )]
    Quota {
        /// Whose quota it is.
        tenant: String,
        /// What is counted: `memories` or `executions`.
        what: &'static str,
        /// How much there may be.
        allowed: u64,
        /// How much there would be.
        got: u64,
    },

    /// Nothing of that name is in the scope.
    #[error("{kind} {id} is not in scope {scope}; check the id and the scope")]
    NotFound {
        /// The kind of thing.
        kind: &'static str,
        /// Its name.
        id: String,
        /// Where it was looked for.
        scope: String,
    },

    /// What is stored contradicts the request: someone else came first.
    #[error("{what}: {problem}")]
    Conflict {
        /// The thing.
        what: String,
        /// What is stored and what to do.
        problem: String,
    },

    /// The scope's embeddings were made by another embedder than the given one.
    #[error(
        "the scope's embeddings are of {stored}, the given one is of {given}; embed with {stored}, or move the \
         scope to the new embedder with `reembed`"
    )]
    Generation {
        /// The generation that the scope searches.
        stored: EmbedderGeneration,
        /// The generation of the input.
        given: EmbedderGeneration,
    },

    /// A line of an imported file is wrong. Nothing of the file was imported.
    #[error("{file}, line {line}{}: {problem}; nothing was imported", of_field(field))]
    Import {
        /// The file's name.
        file: String,
        /// Counted from 1.
        line: u64,
        /// The offending field, or `line` for the line as a whole.
        field: String,
        /// What is wrong with it.
        problem: String,
    },

    /// The database is busy; the same call may succeed in a moment.
    #[error("the store is busy: {0}; try again")]
    Busy(String),

    /// The database can not be reached, opened or written.
    #[error("the store can not be used: {0}")]
    Unavailable(String),

    /// The database was written by a newer version of this program.
    #[error(
        "the database has schema version {found}, this program knows up to {supported}; use the version of \
         upliftmem that wrote it, or a newer one"
    )]
    NewerSchema {
        /// Version of the database.
        found: i64,
        /// Newest version this program knows.
        supported: i64,
    },

    /// Another process leads now; what this one wanted to write is refused.
    #[error(
        "{name} is led by another process (token {now}, this one had {token}); nothing was written: stop, or wait to \
         lead again"
    )]
    Deposed {
        /// What was led.
        name: String,
        /// The token of the write.
        token: u64,
        /// The token of whoever leads.
        now: u64,
    },

    /// A row can not be understood.
    #[error("the store is damaged: {0}; restore a backup")]
    Corrupt(String),

    /// The database refused a statement: a defect of this program or of its environment.
    #[error("the database failed: {0}")]
    Database(String),

    /// A file could not be read or written.
    #[error("{file}: {problem}")]
    File {
        /// The file's name.
        file: String,
        /// What the operating system says.
        problem: std::io::Error,
    },
}

/// Where in a line, unless it is the line as a whole.
fn of_field(field: &str) -> String {
    match field {
        "line" => String::new(),
        field => format!(", field {field:?}"),
    }
}

/// Who can do something about an [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Actor {
    /// The caller: another input is needed.
    Caller,
    /// Time: the same call may succeed later.
    Retry,
    /// Whoever runs the database.
    Operator,
}

impl Error {
    /// Who has to act.
    pub fn actor(&self) -> Actor {
        match self {
            Self::Invalid(_)
            | Self::Limit { .. }
            | Self::Quota { .. }
            | Self::NotFound { .. }
            | Self::Conflict { .. }
            | Self::Generation { .. }
            | Self::Deposed { .. }
            | Self::Import { .. } => Actor::Caller,
            Self::Busy(_) => Actor::Retry,
            Self::Unavailable(_)
            | Self::NewerSchema { .. }
            | Self::Corrupt(_)
            | Self::Database(_)
            | Self::File { .. } => Actor::Operator,
        }
    }

    /// The same, with where it happened, if the database is to blame.
    pub(crate) fn at(self, place: &str) -> Self {
        let here = |problem: String| format!("{place}: {problem}");
        match self {
            Self::Busy(problem) => Self::Busy(here(problem)),
            Self::Unavailable(problem) => Self::Unavailable(here(problem)),
            Self::Corrupt(problem) => Self::Corrupt(here(problem)),
            Self::Database(problem) => Self::Database(here(problem)),
            other => other,
        }
    }

    pub(crate) fn conflict(what: impl std::fmt::Display, problem: impl std::fmt::Display) -> Self {
        Self::Conflict {
            what: what.to_string(),
            problem: problem.to_string(),
        }
    }

    pub(crate) fn invalid(what: impl std::fmt::Display, problem: impl std::fmt::Display) -> Self {
        Self::Invalid(InvalidInput::new(what, problem))
    }
}
