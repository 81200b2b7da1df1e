//! Models that answer a conversation, wherever they run.

#[cfg(feature = "lm")]
mod decode;
#[cfg(feature = "lm")]
mod local;
mod openai;
mod replies;
#[cfg(feature = "lm")]
mod template;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::ExecutorError;

#[cfg(feature = "lm")]
pub use local::{LocalChat, LocalSettings};
pub use openai::{OpenAiChat, OpenAiSettings};
pub use replies::ReplyCache;

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Instructions of the program.
    System,
    /// The task, the world.
    User,
    /// The model.
    Assistant,
}

impl Role {
    /// Its name in every protocol.
    pub const fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatMessage {
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub content: String,
}

impl ChatMessage {
    /// Instructions.
    pub fn system(content: impl Into<String>) -> Self {
        Self {
            role: Role::System,
            content: content.into(),
        }
    }

    /// The task or the world.
    pub fn user(content: impl Into<String>) -> Self {
        Self {
            role: Role::User,
            content: content.into(),
        }
    }

    /// The model.
    pub fn assistant(content: impl Into<String>) -> Self {
        Self {
            role: Role::Assistant,
            content: content.into(),
        }
    }
}

/// How an answer is drawn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sampling {
    /// 0 takes the likeliest token every time.
    pub temperature: f64,
    /// Share of probability that is drawn from, the likeliest tokens first.
    pub top_p: f64,
    /// Most tokens of an answer.
    pub max_tokens: usize,
    /// Texts before which an answer ends.
    pub stop: Vec<String>,
    /// Randomness.
    pub seed: u64,
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            temperature: 0.0,
            top_p: 1.0,
            max_tokens: 256,
            stop: Vec::new(),
            seed: 0,
        }
    }
}

/// A conversation whose next message is wanted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChatRequest {
    /// What was said so far.
    pub messages: Vec<ChatMessage>,
    /// How the answer is drawn.
    pub sampling: Sampling,
}

/// What an answer took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the conversation.
    pub prompt_tokens: u64,
    /// Tokens of the answer.
    pub completion_tokens: u64,
    /// Tokens of the conversation that had not to be read again.
    #[serde(default)]
    pub cached_tokens: u64,
}

impl Usage {
    /// What every execution by a model tells.
    pub fn told(self, model: &str) -> Map<String, Value> {
        let mut told = Map::new();
        told.insert("model".into(), json!(model));
        told.insert("prompt_tokens".into(), json!(self.prompt_tokens));
        told.insert("completion_tokens".into(), json!(self.completion_tokens));
        told.insert("cached_tokens".into(), json!(self.cached_tokens));
        told
    }
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.prompt_tokens += other.prompt_tokens;
        self.completion_tokens += other.completion_tokens;
        self.cached_tokens += other.cached_tokens;
    }
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Finish {
    /// The model had said all, or came to a stop text.
    Stop,
    /// It had said as much as it may.
    Length,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatReply {
    /// What the model said.
    pub text: String,
    /// Why it ended.
    pub finish: Finish,
    /// What it took.
    pub usage: Usage,
}

impl ChatReply {
    /// What was said outside of thoughts. An answer that was cut off before anything was said is none: neither right nor
    /// wrong can be read from it.
    pub fn said(&self) -> Result<&str, ChatError> {
        let said = spoken(&self.text).trim();
        if said.is_empty() && self.finish == Finish::Length {
            return Err(ChatError::Failed(format!(
                "the answer was cut off after {} tokens, before anything but thoughts was said; raise chat.max_tokens or \
                 turn thoughts off",
                self.usage.completion_tokens
            )));
        }
        Ok(said)
    }
}

/// What is said outside of thoughts. A thought that was never closed is not said.
pub fn spoken(answer: &str) -> &str {
    let after = answer
        .rsplit_once("</think>")
        .map_or(answer, |(_, spoken)| spoken);
    after.split_once("<think>").map_or(after, |(spoken, _)| spoken)
}

/// How likely a given answer is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ChoiceLikelihood {
    /// Natural logarithm of the probability of the whole answer.
    pub log_likelihood: f64,
    /// Its tokens.
    pub tokens: usize,
}

impl ChoiceLikelihood {
    /// Per token, so that long answers are not held against themselves.
    pub fn per_token(self) -> f64 {
        self.log_likelihood / self.tokens.max(1) as f64
    }
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChatError {
    /// This conversation got none.
    #[error("{0}")]
    Failed(String),
    /// The conversation is longer than the model can read.
    #[error("{0}")]
    TooLong(String),
    /// No conversation would get one: the owner must act.
    #[error("{0}")]
    Unavailable(String),
    /// The model can not do this.
    #[error("{0}")]
    Unsupported(String),
}

/// What an error of the model means for an execution.
impl From<ChatError> for ExecutorError {
    fn from(error: ChatError) -> Self {
        match error {
            ChatError::Failed(problem) | ChatError::TooLong(problem) => Self::Failed(problem),
            ChatError::Unavailable(problem) | ChatError::Unsupported(problem) => Self::Unavailable(problem),
        }
    }
}

/// A model that answers conversations.
#[async_trait]
pub trait ChatModel: Send + Sync {
    /// A stable name: answers of different names are never compared.
    fn name(&self) -> &str;

    /// What tells models of this name apart, as the size of a file does; empty if the name says all that is known.
    fn version(&self) -> String {
        String::new()
    }

    /// The next message. Many may be asked for at once.
    async fn chat(&self, request: &ChatRequest) -> Result<ChatReply, ChatError>;

    /// How likely the model would give each of these answers.
    async fn choices(
        &self,
        messages: &[ChatMessage],
        answers: &[String],
    ) -> Result<(Vec<ChoiceLikelihood>, Usage), ChatError> {
        let _ = (messages, answers);
        Err(ChatError::Unsupported(format!(
            "{} does not tell how likely answers are; use a local model, or another scoring",
            self.name()
        )))
    }

    /// Tokens of a text, or a guess.
    fn count_tokens(&self, text: &str) -> usize {
        text.chars().count().div_ceil(4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(text: &str, finish: Finish) -> ChatReply {
        ChatReply {
            text: text.into(),
            finish,
            usage: Usage::default(),
        }
    }

    #[test]
    fn thoughts_are_not_said_whether_they_end_or_not() {
        assert_eq!(spoken("open the door"), "open the door");
        assert_eq!(spoken("<think>hm</think>open"), "open");
        assert_eq!(spoken("hm</think>open"), "open");
        assert_eq!(spoken("<think>\n1. The answer"), "");
        assert_eq!(spoken("<think>a</think>open <think>b"), "open ");
    }

    #[test]
    fn what_was_cut_off_before_anything_was_said_is_no_answer() {
        assert_eq!(reply(" Mara ", Finish::Length).said(), Ok("Mara"));
        assert_eq!(reply("", Finish::Stop).said(), Ok(""));
        for cut in ["", "<think>\nIt may be Mara"] {
            let error = reply(cut, Finish::Length).said().unwrap_err();
            assert!(matches!(&error, ChatError::Failed(problem) if problem.contains("chat.max_tokens")));
        }
    }
}
