//! Models behind an endpoint that speaks OpenAI's chat protocol: vLLM, llama.cpp, Ollama, hosted ones.

use std::{collections::BTreeMap, time::Duration};

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use upliftmem_core::InvalidInput;

use super::{ChatError, ChatModel, ChatReply, ChatRequest, Finish, ReplyCache, Usage};
use crate::{
    post::{PostError, PostSettings, Posts, WrongAnswer},
    text::excerpt,
};

/// An endpoint, and how patient we are with it.
#[derive(Clone)]
pub struct OpenAiSettings {
    /// Up to and with the version, for example `http://localhost:8000/v1`.
    pub base_url: String,
    /// What the endpoint calls the model.
    pub model: String,
    /// Sent as a bearer token.
    pub key: Option<String>,
    /// Sent with every request as well.
    pub headers: BTreeMap<String, String>,
    /// Fields that are added to every request, for example `{"chat_template_kwargs": {"enable_thinking": false}}`.
    pub extra: Map<String, Value>,
    /// How many requests are open at once.
    pub concurrency: usize,
    /// How many requests are begun in a minute, those that are sent again too; 0 is no limit.
    pub requests_per_minute: u32,
    /// Longest time for one attempt.
    pub timeout: Duration,
    /// How often a request is sent again.
    pub retries: u32,
    /// The first wait before a repetition, less some chance; each further wait is twice as long.
    pub backoff: Duration,
    /// The longest wait. Limits are counted by the minute; an endpoint that asks for more is not waited for: it counts as
    /// unavailable.
    pub backoff_max: Duration,
    /// Seed of the chance in the waits.
    pub seed: u64,
    /// Where answers are kept, so that nothing is paid for twice.
    pub replies: Option<ReplyCache>,
    /// A proxy for all requests; the environment is not consulted.
    pub proxy: Option<String>,
    /// A certificate authority (PEM) to trust instead of the public ones.
    pub authority: Option<Vec<u8>>,
}

impl OpenAiSettings {
    /// Usual patience: eight requests at once, five minutes for each, six repetitions.
    pub fn new(base_url: impl Into<String>, model: impl Into<String>) -> Self {
        Self {
            base_url: base_url.into(),
            model: model.into(),
            key: None,
            headers: BTreeMap::new(),
            extra: Map::new(),
            concurrency: 8,
            requests_per_minute: 0,
            timeout: Duration::from_secs(300),
            retries: 6,
            backoff: Duration::from_millis(500),
            backoff_max: Duration::from_secs(60),
            seed: 0,
            replies: None,
            proxy: None,
            authority: None,
        }
    }
}

/// A model behind an endpoint.
pub struct OpenAiChat {
    name: String,
    model: String,
    extra: Map<String, Value>,
    posts: Posts,
    replies: Option<ReplyCache>,
}

impl OpenAiChat {
    /// Checks the settings. Nothing is sent yet.
    pub fn new(settings: OpenAiSettings) -> Result<Self, InvalidInput> {
        if settings.model.trim().is_empty() {
            return Err(InvalidInput::new(
                "chat.model",
                "is empty; give what the endpoint calls its model",
            ));
        }
        let mut headers = settings.headers;
        if let Some(key) = &settings.key {
            headers.insert("authorization".into(), format!("Bearer {key}"));
        }
        let posts = Posts::new(PostSettings {
            section: "chat",
            requests_per_minute: settings.requests_per_minute,
            url: format!("{}/chat/completions", settings.base_url.trim_end_matches('/')),
            headers,
            concurrency: settings.concurrency,
            timeout: settings.timeout,
            retries: settings.retries,
            // Nothing happens in the world when a conversation is answered twice.
            repeat_timeouts: true,
            backoff: settings.backoff,
            backoff_max: settings.backoff_max,
            answer_bytes_max: 16 << 20,
            seed: settings.seed,
            proxy: settings.proxy,
            authority: settings.authority,
        })?;
        Ok(Self {
            name: format!("openai:{}@{}", settings.model, posts.shown),
            model: settings.model,
            extra: settings.extra,
            posts,
            replies: settings.replies,
        })
    }

    /// The request as the protocol has it. Ordered, so that equal requests are equal bytes.
    fn body(&self, request: &ChatRequest) -> Result<Vec<u8>, ChatError> {
        let sampling = &request.sampling;
        let mut body = json!({
            "model": self.model,
            "messages": request.messages,
            "stream": false,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "max_tokens": sampling.max_tokens,
            // Some endpoints know signed numbers only.
            "seed": sampling.seed >> 1,
        });
        if let Value::Object(body) = &mut body {
            if !sampling.stop.is_empty() {
                body.insert("stop".into(), json!(sampling.stop));
            }
            body.extend(self.extra.clone());
        }
        serde_json::to_vec(&body).map_err(|error| ChatError::Failed(error.to_string()))
    }
}

#[async_trait]
impl ChatModel for OpenAiChat {
    fn name(&self) -> &str {
        &self.name
    }

    async fn chat(&self, request: &ChatRequest) -> Result<ChatReply, ChatError> {
        let body = self.body(request)?;
        let key = ReplyCache::key(&self.name, &body);
        let kept = self.replies.as_ref().and_then(|replies| replies.find(&key));
        if let Some(reply) = kept.filter(is_worth_keeping) {
            return Ok(reply);
        }
        let id = u128::from_str_radix(&key[..32], 16).unwrap_or_default();
        let named = |problem: String| format!("{}: {problem}", self.name);
        let reply = self
            .posts
            .ask(id, body, read_reply)
            .await
            .map_err(|error| match error {
                PostError::Failed(problem) if speaks_of_length(&problem) => {
                    ChatError::TooLong(named(problem))
                }
                PostError::Failed(problem) => ChatError::Failed(named(problem)),
                PostError::Unavailable(problem) => ChatError::Unavailable(named(problem)),
            })?;
        if let Some(replies) = self.replies.as_ref().filter(|_| is_worth_keeping(&reply))
            && let Err(error) = replies.keep(&key, &reply)
        {
            tracing::warn!(target: "chat", "an answer was not kept and may be paid for again: {error}");
        }
        Ok(reply)
    }
}

/// What is empty may be so by accident; kept, it would stay so for good.
fn is_worth_keeping(reply: &ChatReply) -> bool {
    !reply.text.is_empty()
}

/// Endpoints have no common code for it, but common words.
fn speaks_of_length(problem: &str) -> bool {
    problem.contains("context_length_exceeded") || problem.contains("maximum context length")
}

#[derive(Deserialize)]
struct Answer {
    choices: Vec<Choice>,
    usage: Option<AnswerUsage>,
}

#[derive(Deserialize)]
struct Choice {
    message: AnswerMessage,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct AnswerMessage {
    content: Option<String>,
}

#[derive(Deserialize)]
struct AnswerUsage {
    #[serde(default)]
    prompt_tokens: u64,
    #[serde(default)]
    completion_tokens: u64,
    prompt_tokens_details: Option<PromptDetails>,
}

#[derive(Deserialize)]
struct PromptDetails {
    cached_tokens: Option<u64>,
}

/// Reads an answer. One that is cut off or has no message may be whole the next time.
fn read_reply(body: &[u8]) -> Result<ChatReply, WrongAnswer> {
    let answer: Answer = serde_json::from_slice(body).map_err(|error| {
        WrongAnswer::Passing(format!(
            "answered {:?}, which is not a chat completion: {error}",
            excerpt(body)
        ))
    })?;
    let choice = answer
        .choices
        .into_iter()
        .next()
        .ok_or_else(|| WrongAnswer::Passing("answered without a choice".into()))?;
    if choice.finish_reason.as_deref() == Some("content_filter") {
        return Err(WrongAnswer::Final(
            "the endpoint's content filter took the answer back".into(),
        ));
    }
    let is_cut = choice.finish_reason.as_deref() == Some("length");
    let text = match choice.message.content {
        Some(text) => text,
        // A model that thinks, and came to the end of its tokens before it said anything.
        None if is_cut => String::new(),
        None => return Err(WrongAnswer::Passing("answered without a text".into())),
    };
    let usage = answer.usage.map_or_else(Usage::default, |usage| Usage {
        prompt_tokens: usage.prompt_tokens,
        completion_tokens: usage.completion_tokens,
        cached_tokens: usage
            .prompt_tokens_details
            .and_then(|details| details.cached_tokens)
            .unwrap_or(0),
    });
    Ok(ChatReply {
        text,
        finish: if is_cut { Finish::Length } else { Finish::Stop },
        usage,
    })
}
