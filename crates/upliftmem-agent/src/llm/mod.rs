//! Executors that are a language model: answering questions, acting in worlds.

mod answers;
mod attached;
mod episode;
mod question;

pub use answers::{AnswerScoring, ExpectedAnswer};
pub use attached::{AttachedEnvironment, AttachedSettings, AttachedWorlds};
pub use episode::{ActExecutor, ActSettings, EnvironmentSource};
pub use question::{QuestionExecutor, QuestionSettings};

use serde_json::{Map, Value, json};

use crate::{
    ExecutorError,
    chat::{ChatError, Usage},
};

/// What an error of the model means for an execution.
fn execution_error(error: ChatError) -> ExecutorError {
    match error {
        ChatError::Failed(problem) | ChatError::TooLong(problem) => ExecutorError::Failed(problem),
        ChatError::Unavailable(problem) | ChatError::Unsupported(problem) => {
            ExecutorError::Unavailable(problem)
        }
    }
}

/// What every execution by a model tells.
fn diagnostics(model: &str, usage: Usage) -> Map<String, Value> {
    let mut diagnostics = Map::new();
    diagnostics.insert("model".into(), json!(model));
    diagnostics.insert("prompt_tokens".into(), json!(usage.prompt_tokens));
    diagnostics.insert("completion_tokens".into(), json!(usage.completion_tokens));
    diagnostics.insert("cached_tokens".into(), json!(usage.cached_tokens));
    diagnostics
}
