//! The tasks as an environment: the one action is an answer with a program.

use std::{collections::BTreeMap, sync::Arc};

use upliftmem_agent::{Environment, EnvironmentError, Turn};
use upliftmem_core::{Performance, Task};

use super::{
    data::CodeTask,
    executor::told,
    prompt::{instruct_prompt, solution_of},
    sandbox::PythonSandbox,
};

/// BigCodeBench as an [`Environment`]: a task is shown its instruction, and its first answer is tested. Performance is 1 where
/// every test passes.
#[derive(Clone, Debug)]
pub struct CodeEnvironment {
    tasks: Arc<BTreeMap<String, CodeTask>>,
    sandbox: PythonSandbox,
    running: Option<String>,
}

impl CodeEnvironment {
    /// An environment of these tasks, and where programs run.
    #[must_use]
    pub fn new(tasks: impl IntoIterator<Item = CodeTask>, sandbox: PythonSandbox) -> Self {
        let named = tasks.into_iter().map(|task| (task.task_id.clone(), task));
        Self {
            tasks: Arc::new(named.collect()),
            sandbox,
            running: None,
        }
    }

    /// The tasks, in the order of their names: instructions, and nothing of tests or solutions.
    #[must_use]
    pub fn tasks(&self) -> Vec<Task> {
        self.tasks.values().map(CodeTask::task).collect()
    }
}

impl Environment for CodeEnvironment {
    fn reset(&mut self, task: &Task) -> Result<Turn, EnvironmentError> {
        self.running = None;
        let found = self
            .tasks
            .get(&task.name)
            .ok_or_else(|| EnvironmentError::UnknownTask {
                environment: "BigCodeBench".to_owned(),
                task: task.name.clone(),
                why: "tasks are named as in `tasks.jsonl.gz`, like \"BigCodeBench/17\"".to_owned(),
            })?;
        self.running = Some(task.name.clone());
        Ok(Turn {
            observation: instruct_prompt(found),
            actions: None,
            performance: Performance::FAILURE,
            done: false,
        })
    }

    fn step(&mut self, action: &str) -> Result<Turn, EnvironmentError> {
        let name = self.running.take().ok_or(EnvironmentError::NotRunning)?;
        let task = self.tasks.get(&name).ok_or(EnvironmentError::NotRunning)?;
        let report = self
            .sandbox
            .run(solution_of(action, &task.entry_point), &task.test)
            .map_err(|error| EnvironmentError::Broken(format!("BigCodeBench: {error}")))?;
        Ok(Turn {
            observation: told(&report),
            actions: None,
            performance: if report.has_passed() {
                Performance::SUCCESS
            } else {
                Performance::FAILURE
            },
            done: true,
        })
    }
}
