//! Writing memories: what an episode shows becomes a text, in the form that its domain asks for.
//!
//! A writer only proposes. Whether a memory helps is decided by executions, elsewhere.

mod contract;
mod diagnosis;
mod similar;
mod slices;

use std::sync::Arc;

use async_trait::async_trait;

pub use contract::read_memory;
pub use diagnosis::Diagnosis;
pub use similar::is_near_duplicate;
pub use slices::transcript;

use crate::{
    chat::{ChatError, ChatModel, ChatRequest, Sampling, Usage},
    prompts::{Contract, Domain, Episode, ValidatedMemory, construction, revision},
};

/// A memory that was proposed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    /// What it says.
    pub text: String,
    /// What proposing it took.
    pub usage: Usage,
}

/// Why no memory was proposed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WriterError {
    /// The model said nothing that has the form of a memory. Nothing is kept of it.
    #[error("no memory: {problem}; the model said {said:?}")]
    Malformed {
        /// What is missing.
        problem: String,
        /// What was said instead, shortened.
        said: String,
        /// What saying it took.
        usage: Usage,
    },
    /// The model gave no answer.
    #[error(transparent)]
    Chat(#[from] ChatError),
}

/// Proposes memories.
#[async_trait]
pub trait Writer: Send + Sync {
    /// A stable name for the records.
    fn name(&self) -> &str;

    /// A memory of an episode.
    async fn write(&self, episode: Episode<'_>, seed: u64) -> Result<Draft, WriterError>;

    /// A better version of a memory, from the episode that it was tried in.
    async fn revise(
        &self,
        episode: Episode<'_>,
        memory: ValidatedMemory<'_>,
        seed: u64,
    ) -> Result<Draft, WriterError>;
}

/// A writer that asks a language model.
pub struct LlmWriter {
    name: String,
    model: Arc<dyn ChatModel>,
    domain: Domain,
    sampling: Sampling,
}

impl LlmWriter {
    /// A writer of memories of a kind.
    pub fn new(model: Arc<dyn ChatModel>, domain: Domain, sampling: Sampling) -> Self {
        Self {
            name: format!("writer:{}", model.name()),
            model,
            domain,
            sampling,
        }
    }

    async fn ask(
        &self,
        (messages, contract): (Vec<crate::chat::ChatMessage>, Contract),
        seed: u64,
    ) -> Result<Draft, WriterError> {
        let request = ChatRequest {
            messages,
            sampling: Sampling {
                seed,
                ..self.sampling.clone()
            },
        };
        let reply = self.model.chat(&request).await?;
        let read = read_memory(contract, &reply.text, reply.finish);
        let text = read.map_err(|problem| WriterError::Malformed {
            problem,
            said: crate::text::excerpt(reply.text.as_bytes()),
            usage: reply.usage,
        })?;
        Ok(Draft {
            text,
            usage: reply.usage,
        })
    }
}

#[async_trait]
impl Writer for LlmWriter {
    fn name(&self) -> &str {
        &self.name
    }

    async fn write(&self, episode: Episode<'_>, seed: u64) -> Result<Draft, WriterError> {
        self.ask(construction(self.domain, episode), seed).await
    }

    async fn revise(
        &self,
        episode: Episode<'_>,
        memory: ValidatedMemory<'_>,
        seed: u64,
    ) -> Result<Draft, WriterError> {
        self.ask(revision(self.domain, episode, memory), seed).await
    }
}
