//! A chat model that writes programs, which their tests judge. Paper: E3.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use serde_json::json;
use upliftmem_agent::{
    Execution, ExecutionRequest, Executor, ExecutorError,
    chat::{ChatModel, ChatRequest, Sampling},
    prompts::{ImplementationNote, InjectedMemories, MemoryBudget, PublicTask, code_messages},
};
use upliftmem_core::{Cost, Performance, Task, TaskId, TrajectoryStep};

use super::{
    data::CodeTask,
    prompt::{instruct_prompt, solution_of},
    sandbox::{PythonSandbox, TestReport},
};

/// How programs are asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct CodeSettings {
    /// How answers are drawn; the seed is the execution's.
    pub sampling: Sampling,
    /// How much of the prompt memories may take.
    pub budget: MemoryBudget,
}

impl Default for CodeSettings {
    fn default() -> Self {
        Self {
            sampling: Sampling {
                max_tokens: 1_024,
                ..Sampling::default()
            },
            budget: MemoryBudget::default(),
        }
    }
}

/// Writes programs. Only the instruction of a task is in the [`Task`]; its tests and its solution stay in here. The cost of
/// an execution is the number of tokens of the implementation evidence that was shown. Paper: app. protocol.
pub struct CodeExecutor {
    name: String,
    model: Arc<dyn ChatModel>,
    sandbox: PythonSandbox,
    tasks: BTreeMap<TaskId, CodeTask>,
    settings: CodeSettings,
}

impl CodeTask {
    /// The task as an agent sees it.
    #[must_use]
    pub fn task(&self) -> Task {
        Task::new(self.task_id.clone(), instruct_prompt(self))
    }
}

impl CodeExecutor {
    /// A model that writes programs for these tasks, and where they run.
    pub fn new(
        model: Arc<dyn ChatModel>,
        sandbox: PythonSandbox,
        tasks: impl IntoIterator<Item = CodeTask>,
        settings: CodeSettings,
    ) -> Self {
        Self {
            name: format!("code:{}", model.name()),
            model,
            sandbox,
            tasks: tasks.into_iter().map(|task| (task.task().id, task)).collect(),
            settings,
        }
    }

    async fn tested(&self, code: String, test: String) -> Result<TestReport, ExecutorError> {
        let sandbox = self.sandbox.clone();
        let work = tokio::task::spawn_blocking(move || sandbox.run(&code, &test));
        let report = work
            .await
            .map_err(|error| ExecutorError::Failed(format!("a sandbox stopped: {error}")))?;
        report.map_err(|error| ExecutorError::Failed(error.to_string()))
    }
}

#[async_trait]
impl Executor for CodeExecutor {
    fn name(&self) -> &str {
        &self.name
    }

    async fn execute(&self, request: &ExecutionRequest) -> Result<Execution, ExecutorError> {
        let task = self.tasks.get(&request.task.id).ok_or_else(|| {
            ExecutorError::Failed(format!("task {:?} is none of this benchmark", request.task.name))
        })?;
        let memories = InjectedMemories::new(&request.memories, self.settings.budget);
        let notes = ImplementationNote::all(&memories);
        let asked = ChatRequest {
            messages: code_messages(&PublicTask::of(&request.task), &notes),
            sampling: Sampling {
                seed: request.seed,
                ..self.settings.sampling.clone()
            },
        };
        let reply = self.model.chat(&asked).await?;
        let code = solution_of(reply.said()?, &task.entry_point).to_owned();
        let report = self.tested(code.clone(), task.test.clone()).await?;
        let tokens: usize = notes
            .iter()
            .map(|note| self.model.count_tokens(&note.implementation))
            .sum();
        let mut diagnostics = reply.usage.told(self.model.name());
        diagnostics.insert("notes".into(), json!(notes.len()));
        diagnostics.insert("memories_cut".into(), json!(memories.cut()));
        let invalid = |error: upliftmem_core::InvalidInput| ExecutorError::Failed(error.to_string());
        Ok(Execution {
            performance: Performance::new(f64::from(u8::from(report.has_passed()))).map_err(invalid)?,
            cost: Cost::new(tokens as f64).map_err(invalid)?,
            trajectory: vec![TrajectoryStep {
                action: code,
                observation: told(&report),
            }],
            diagnostics,
        })
    }
}

/// What the tests said, as a developer would be told: names and failures, not the tests themselves.
pub(super) fn told(report: &TestReport) -> String {
    if let Some(why) = &report.broken {
        return format!("The tests did not end: {why}");
    }
    let failed: Vec<String> = report
        .cases
        .iter()
        .filter(|case| !case.outcome.is_good())
        .map(|case| case.name.clone())
        .collect();
    if failed.is_empty() {
        format!("All {} tests passed.", report.cases.len())
    } else {
        format!(
            "{} of {} tests failed: {}",
            failed.len(),
            report.cases.len(),
            failed.join(", ")
        )
    }
}
