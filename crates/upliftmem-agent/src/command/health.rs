//! What a child did so far, in numbers.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Violations that are logged one by one; later ones only when their number is a power of two.
const LOGGED_MAX: u64 = 10;

/// What an executor's children did so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandHealth {
    /// How often a child was started.
    pub starts: u64,
    /// Requests that were answered, with an execution, an error, or wrongly.
    pub answers: u64,
    /// Lines that broke the protocol: no JSON, out of range, for an unknown id, a second answer. None became an
    /// outcome.
    pub violations: u64,
    /// What was wrong with the last of them.
    pub last_violation: Option<String>,
}

/// The numbers, shared between an executor and its workers.
#[derive(Clone, Default)]
pub(super) struct Health(Arc<Mutex<CommandHealth>>);

impl Health {
    fn lock(&self) -> MutexGuard<'_, CommandHealth> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn snapshot(&self) -> CommandHealth {
        self.lock().clone()
    }

    pub(super) fn started(&self) {
        self.lock().starts += 1;
    }

    pub(super) fn answered(&self) {
        self.lock().answers += 1;
    }

    pub(super) fn violation(&self, executor: &str, problem: &str) {
        let mut health = self.lock();
        health.violations += 1;
        health.last_violation = Some(problem.to_owned());
        let count = health.violations;
        drop(health);
        if count <= LOGGED_MAX || count.is_power_of_two() {
            tracing::warn!(target: "executor", executor, violations = count, "protocol violation: {problem}");
        }
    }

    /// The violations, to be appended to a message; nothing if there were none.
    pub(super) fn said(&self) -> String {
        let health = self.lock();
        match &health.last_violation {
            Some(last) => format!(
                "; {} lines broke the protocol, the last: {last}",
                health.violations
            ),
            None => String::new(),
        }
    }
}
