//! A benchmark as the protocol sees it: tasks in their parts, an executor, and what experience says.
//!
//! Everything that is measured goes through this trait, so a benchmark is added by implementing it.

mod agents;
mod alfworld;
mod bigcodebench;
mod executions;
mod memsyco;
mod webshop;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use upliftmem_agent::{Execution, Executor, prompts::Domain};
use upliftmem_core::Task;
use upliftmem_engine::UtilitySettings;
use upliftmem_scorer::CompactSettings;

use crate::{
    protocol::{self, MethodScores},
    tables::{Better, DataTable},
};

pub use agents::{Acting, Actor, ModelAgent};
pub use alfworld::AlfworldSuite;
pub use bigcodebench::BigCodeBenchSuite;
pub use executions::{Ended, Wanted, execute_all};
pub use memsyco::MemsycoSuite;
pub use webshop::WebshopSuite;

/// A benchmark.
pub trait Suite: Send + Sync {
    /// Its name in commands and files.
    fn name(&self) -> &'static str;

    /// Who executes its tasks.
    fn actor(&self) -> &Actor;

    /// What executes, in its own words for tables.
    fn agent(&self) -> &str {
        &self.actor().title
    }

    /// What decides executions besides the executor's name; null where nothing does.
    fn agent_settings(&self) -> &Value {
        &self.actor().settings
    }

    /// What runs its tasks.
    fn executor(&self) -> Arc<dyn Executor> {
        Arc::clone(&self.actor().executor)
    }

    /// Its tasks in their parts.
    fn partition(&self) -> &Partition;

    /// Tasks whose plays memories are made of.
    fn seed_tasks(&self) -> &[Task] {
        &self.partition().seed
    }

    /// Tasks that methods which learn learn from.
    fn runtime_tasks(&self) -> &[Task] {
        &self.partition().runtime
    }

    /// Tasks on which nothing is learned: what decides between checkpoints.
    fn validation_tasks(&self) -> &[Task] {
        &self.partition().validation
    }

    /// Parts of the evaluation, by name.
    fn evaluation(&self) -> &[Part] {
        &self.partition().evaluation
    }

    /// A hash of the data that was read.
    fn data_digest(&self) -> &str {
        &self.partition().digest
    }

    /// What an execution is worth.
    fn utility(&self) -> UtilitySettings;

    /// Whether an execution can be worth something without being a success: then its mean performance is reported too.
    fn is_graded(&self) -> bool {
        false
    }

    /// What the cost of an execution counts.
    fn cost_unit(&self) -> &'static str {
        "steps"
    }

    /// What else is looked for in the executions of a part of the evaluation, and whether more of it is better. Executions say
    /// in their diagnostics whether they show it, as `behaviour`.
    fn behaviour(&self, _part: &str) -> Option<(&'static str, Better)> {
        None
    }

    /// A table over all parts of the evaluation, where the benchmark has one.
    ///
    /// # Errors
    /// There is no run.
    fn summary(&self, _scores: &[MethodScores]) -> protocol::Result<Option<DataTable>> {
        Ok(None)
    }

    /// Most memories of a set. Paper: K.
    fn memories_max(&self) -> usize;

    /// What UpliftMem expects a memory to cost of which nothing is known. A suite that says otherwise has chosen it on its
    /// [validation tasks](Self::validation_tasks): it is a belief about the kind of memories that there are, before any label.
    fn member_cost(&self) -> f64 {
        CompactSettings::default().member_cost
    }

    /// Whether every task has a store of its own, made of what [it brings along](Self::own_experiences), instead of one that
    /// is made of what was lived through.
    fn has_own_stores(&self) -> bool {
        false
    }

    /// What a task itself brings along to remember, in order.
    fn own_experiences(&self, _task: &Task) -> Vec<Experience> {
        Vec::new()
    }

    /// What kind of memory a model writes of its executions.
    fn domain(&self) -> Domain;

    /// What experience says, in sentences. It stands where a language model would extract.
    fn lessons(&self, experience: &Experience) -> Vec<Lesson>;

    /// A play as it was, in the form in which an agent reads plays; none if an agent may not see it.
    fn transcript(&self, experience: &Experience) -> Option<String>;
}

/// The tasks of a benchmark.
#[derive(Clone, Debug, PartialEq)]
pub struct Partition {
    /// Tasks whose plays memories are made of.
    pub seed: Vec<Task>,
    /// Tasks that methods which learn learn from.
    pub runtime: Vec<Task>,
    /// Tasks on which nothing is learned: what decides between checkpoints.
    pub validation: Vec<Task>,
    /// Parts of the evaluation, by name.
    pub evaluation: Vec<Part>,
    /// A hash of the data that was read.
    pub digest: String,
}

/// A part of an evaluation.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// Its name in tables.
    pub name: String,
    /// Its tasks.
    pub tasks: Vec<Task>,
}

/// A task that was executed.
#[derive(Clone, Debug, PartialEq)]
pub struct Experience {
    /// The task.
    pub task: Task,
    /// How it went.
    pub execution: Execution,
}

impl Experience {
    /// Whether the task was solved.
    pub fn succeeded(&self) -> bool {
        self.execution.performance.get() >= 1.0
    }

    /// How it went: what was asked, every action, and which of two ways it ended.
    fn transcript(&self, asked: &str, succeeded: &str, failed: &str) -> String {
        let mut text = format!("{asked}\n");
        for step in &self.execution.trajectory {
            text += &format!("> {}\n", step.action);
        }
        text + if self.succeeded() { succeeded } else { failed }
    }
}

/// A word as it begins a sentence.
fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// What sort of thing was learned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LessonKind {
    /// How the world is.
    Fact,
    /// How a task was solved.
    Procedure,
    /// What went wrong.
    Reflection,
}

/// One thing that experience says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lesson {
    /// What sort of thing.
    pub kind: LessonKind,
    /// What it is about: lessons of the same kind about the same can be merged or replaced.
    pub subject: String,
    /// A topic that groups subjects.
    pub topic: String,
    /// The sentences.
    pub text: String,
    /// Texts of facts that it denies.
    pub denies: Vec<String>,
}
