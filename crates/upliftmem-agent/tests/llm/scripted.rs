//! A model that says what it is told to, and remembers what it was asked.

use std::sync::Mutex;

use async_trait::async_trait;
use upliftmem_agent::{
    ExecutionRequest, MemoryText,
    chat::{ChatError, ChatMessage, ChatModel, ChatReply, ChatRequest, ChoiceLikelihood, Finish, Usage},
};
use upliftmem_core::{MemoryId, Purpose, RolloutId, Task};

type Says = Box<dyn Fn(&ChatRequest) -> Result<String, ChatError> + Send + Sync>;

pub(crate) struct Scripted {
    says: Says,
    /// Why its answers end.
    pub(crate) finish: Finish,
    pub(crate) asked: Mutex<Vec<ChatRequest>>,
}

impl Scripted {
    pub(crate) fn new(
        says: impl Fn(&ChatRequest) -> Result<String, ChatError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            says: Box::new(says),
            finish: Finish::Stop,
            asked: Mutex::default(),
        }
    }

    /// Says these one after another, the last one for ever.
    pub(crate) fn lines(lines: &[&str]) -> Self {
        let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        let place = Mutex::new(0);
        Self::new(move |_| {
            let mut place = place.lock().unwrap();
            *place += 1;
            Ok(lines[(*place - 1).min(lines.len() - 1)].clone())
        })
    }

    /// Says no more than it may.
    pub(crate) fn cut(mut self) -> Self {
        self.finish = Finish::Length;
        self
    }

    /// Everything that it was ever shown.
    pub(crate) fn read(&self) -> String {
        let asked = self.asked.lock().unwrap();
        let contents = asked.iter().flat_map(|request| &request.messages);
        contents
            .map(|message| message.content.as_str())
            .collect::<Vec<_>>()
            .join("\n")
    }
}

#[async_trait]
impl ChatModel for Scripted {
    fn name(&self) -> &str {
        "scripted"
    }

    async fn chat(&self, request: &ChatRequest) -> Result<ChatReply, ChatError> {
        self.asked.lock().unwrap().push(request.clone());
        Ok(ChatReply {
            text: (self.says)(request)?,
            finish: self.finish,
            usage: Usage {
                prompt_tokens: 10,
                completion_tokens: 2,
                cached_tokens: 0,
            },
        })
    }

    /// Finds an answer likely that the conversation holds.
    async fn choices(
        &self,
        messages: &[ChatMessage],
        answers: &[String],
    ) -> Result<(Vec<ChoiceLikelihood>, Usage), ChatError> {
        let likelihood = |answer: &String| ChoiceLikelihood {
            log_likelihood: if messages
                .iter()
                .any(|message| message.content.contains(answer.as_str()))
            {
                -1.0
            } else {
                -5.0
            },
            tokens: 1,
        };
        Ok((answers.iter().map(likelihood).collect(), Usage::default()))
    }
}

pub(crate) fn request(task: Task, memories: &[&str]) -> ExecutionRequest {
    ExecutionRequest {
        id: RolloutId::from_u128(1),
        task,
        memories: (1..)
            .zip(memories)
            .map(|(id, text)| MemoryText {
                id: MemoryId::from_u128(id),
                text: (*text).to_owned(),
            })
            .collect(),
        seed: 5,
        purpose: Purpose::Retrieval,
    }
}
