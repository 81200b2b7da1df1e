//! What to run, and how patient to be with it.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use upliftmem_core::InvalidInput;

/// The longest time any setting may ask for; beyond it a limit is none.
const DURATION_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

/// A program that executes tasks, and the limits it is held to.
#[derive(Clone)]
pub struct CommandSettings {
    /// The program: a path, or a name that is looked up in `PATH`. No shell is involved.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Where it runs; where we run if none.
    pub directory: Option<PathBuf>,
    /// Added to the environment it inherits.
    pub environment: BTreeMap<String, String>,
    /// What executes, for the records; `command:` and the command line if none. Give one if the command line holds
    /// a secret or changes without changing what executes.
    pub name: Option<String>,
    /// How many children run at once.
    pub processes: usize,
    /// How many requests one child has at once; 1 for a child that works on one request after another.
    pub in_flight: usize,
    /// Longest time for one execution, from the moment its request is handed to the child.
    pub timeout: Duration,
    /// How often a request is sent again because its child stopped.
    pub retries: u32,
    /// After so many stops in a row without one answer the executor is unavailable.
    pub crashes_max: u32,
    /// The wait before the first restart after a stop; each further wait is twice as long.
    pub backoff: Duration,
    /// The longest wait before a restart.
    pub backoff_max: Duration,
    /// How long a child may take to end once its input is closed.
    pub grace: Duration,
    /// Bytes of the longest line a child may write.
    pub line_bytes_max: usize,
}

impl CommandSettings {
    /// Usual patience: one child with four requests at once, ten minutes for each, sent again twice.
    pub fn new<T: Into<String>>(program: impl Into<String>, arguments: impl IntoIterator<Item = T>) -> Self {
        Self {
            program: program.into(),
            arguments: arguments.into_iter().map(Into::into).collect(),
            directory: None,
            environment: BTreeMap::new(),
            name: None,
            processes: 1,
            in_flight: 4,
            timeout: Duration::from_secs(600),
            retries: 2,
            crashes_max: 5,
            backoff: Duration::from_millis(200),
            backoff_max: Duration::from_secs(10),
            grace: Duration::from_secs(5),
            line_bytes_max: 16 << 20,
        }
    }

    /// The name under which outcomes are kept.
    pub(super) fn name(&self) -> String {
        self.name.clone().unwrap_or_else(|| {
            let words: Vec<&str> = std::iter::once(&self.program)
                .chain(&self.arguments)
                .map(String::as_str)
                .collect();
            format!("command:{}", words.join(" "))
        })
    }

    /// Refuses what could never run.
    pub(super) fn check(&self) -> Result<(), InvalidInput> {
        let refuse =
            |what: &str, problem: &str| Err(InvalidInput::new(format_args!("executor.{what}"), problem));
        if self.program.is_empty() {
            return refuse("program", "is empty; name a program");
        }
        if self.name.as_deref().is_some_and(str::is_empty) {
            return refuse("name", "is empty; leave it out or give one");
        }
        for (what, value) in [
            ("processes", self.processes),
            ("in_flight", self.in_flight),
            ("crashes_max", self.crashes_max as usize),
        ] {
            if !(1..=10_000).contains(&value) {
                return refuse(what, &format!("{value} is outside 1 to 10000"));
            }
        }
        if !(64..=1 << 30).contains(&self.line_bytes_max) {
            return refuse(
                "line_bytes_max",
                &format!("{} is outside 64 to 1073741824", self.line_bytes_max),
            );
        }
        if self.timeout.is_zero() {
            return refuse("timeout", "is 0; nothing could be executed");
        }
        for (what, value) in [
            ("timeout", self.timeout),
            ("backoff", self.backoff),
            ("backoff_max", self.backoff_max),
            ("grace", self.grace),
        ] {
            if value > DURATION_MAX {
                return refuse(what, "is longer than 30 days");
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_the_command_line_unless_one_is_given() {
        let mut settings = CommandSettings::new("python3", ["executor.py", "--fast"]);
        assert_eq!(settings.name(), "command:python3 executor.py --fast");
        settings.name = Some("mine".into());
        assert_eq!(settings.name(), "mine");
    }

    fn refused(change: impl FnOnce(&mut CommandSettings), expected: &str) {
        let mut settings = CommandSettings::new("true", [""; 0]);
        assert_eq!(settings.check(), Ok(()));
        change(&mut settings);
        assert_eq!(settings.check().unwrap_err().to_string(), expected);
    }

    #[test]
    fn settings_that_could_never_run_are_refused_by_name() {
        refused(
            |settings| settings.program.clear(),
            "executor.program: is empty; name a program",
        );
        refused(
            |settings| settings.in_flight = 0,
            "executor.in_flight: 0 is outside 1 to 10000",
        );
        refused(
            |settings| settings.timeout = Duration::ZERO,
            "executor.timeout: is 0; nothing could be executed",
        );
        refused(
            |settings| settings.grace = Duration::MAX,
            "executor.grace: is longer than 30 days",
        );
        refused(
            |settings| settings.line_bytes_max = 1,
            "executor.line_bytes_max: 1 is outside 64 to 1073741824",
        );
        refused(
            |settings| settings.name = Some(String::new()),
            "executor.name: is empty; leave it out or give one",
        );
    }
}
