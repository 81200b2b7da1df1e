//! A model in this process.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use serde_json::Value;
use tokio::sync::Semaphore;
use upliftmem_core::InvalidInput;
use upliftmem_lm::{Base, KvCache, LmError, LmTokenizer, PrefixCache};

use super::{
    ChatError, ChatMessage, ChatModel, ChatReply, ChatRequest, ChoiceLikelihood, Finish, Usage,
    decode::{Chooser, log_likelihood},
    template::ChatTemplate,
};

/// Marks that end a message in the families that are known here.
const ENDS: [&str; 4] = ["<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|end_of_text|>"];

/// A model file, and how much it may take.
#[derive(Debug, Clone)]
pub struct LocalSettings {
    /// A GGUF file, or a directory of the Hugging Face hub.
    pub model: PathBuf,
    /// What executes, for the records; `local:` and the name of the file if none.
    pub name: Option<String>,
    /// Most tokens of a conversation with its answer; never more than the model was made for.
    pub context_tokens: usize,
    /// Bytes of keys and values that are kept, so that what conversations begin with is read once.
    pub cache_bytes: usize,
    /// Conversations that are answered at once. One alone already uses all cores.
    pub concurrency: usize,
}

impl LocalSettings {
    /// Usual bounds: 4096 tokens, half a gigabyte, one conversation at a time.
    pub fn new(model: impl Into<PathBuf>) -> Self {
        Self {
            model: model.into(),
            name: None,
            context_tokens: 4096,
            cache_bytes: 512 << 20,
            concurrency: 1,
        }
    }
}

/// A model in this process.
pub struct LocalChat {
    inner: Arc<Inner>,
    places: Arc<Semaphore>,
}

struct Inner {
    name: String,
    /// Bytes of the file: models of one name may be of several sizes.
    bytes: u64,
    base: Base,
    tokenizer: LmTokenizer,
    template: ChatTemplate,
    /// Tokens that end a message.
    ends: Vec<u32>,
    context_tokens: usize,
    /// Starts of conversations that were read. Shared by all: a turn continues the one before it, and a set of memories
    /// whatever sets share its first members.
    prefixes: Mutex<PrefixCache>,
}

impl LocalChat {
    /// Reads the model. Takes seconds.
    pub fn load(settings: &LocalSettings) -> Result<Self, LmError> {
        if !(1..=1024).contains(&settings.concurrency) {
            let problem = format_args!("{} is outside 1 to 1024", settings.concurrency);
            return Err(InvalidInput::new("chat.concurrency", problem).into());
        }
        let (base, tokenizer) = Base::load_in_few_bits(&settings.model)?;
        let template = tokenizer
            .chat_template()
            .map(str::to_owned)
            .or_else(|| template_beside(&settings.model));
        let template = ChatTemplate::new(template.as_deref()).map_err(|problem| {
            upliftmem_lm::problem(&settings.model, format_args!("chat template: {problem}"))
        })?;
        let mut ends: Vec<u32> = ENDS.iter().filter_map(|mark| tokenizer.mark(mark)).collect();
        ends.extend(tokenizer.end_of_text());
        let file = settings.model.file_stem().unwrap_or_default().to_string_lossy();
        let kept = settings.cache_bytes / base.kept_bytes().max(1);
        Ok(Self {
            places: Arc::new(Semaphore::new(settings.concurrency)),
            inner: Arc::new(Inner {
                name: settings.name.clone().unwrap_or_else(|| format!("local:{file}")),
                bytes: file_bytes(&settings.model),
                context_tokens: settings.context_tokens.min(base.config().positions),
                prefixes: Mutex::new(PrefixCache::new(kept)),
                ends,
                template,
                tokenizer,
                base,
            }),
        })
    }

    /// Work of the processor, off the threads that wait for the world.
    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Inner) -> Result<T, ChatError> + Send + 'static,
    ) -> Result<T, ChatError> {
        let gone = || ChatError::Failed(format!("{} is going away", self.inner.name));
        let place = Arc::clone(&self.places)
            .acquire_owned()
            .await
            .map_err(|_| gone())?;
        let inner = Arc::clone(&self.inner);
        tokio::task::spawn_blocking(move || {
            let result = work(&inner);
            drop(place);
            result
        })
        .await
        .map_err(|_| gone())?
    }
}

impl Inner {
    fn failed(&self, problem: &dyn std::fmt::Display) -> ChatError {
        ChatError::Failed(format!("{}: {problem}", self.name))
    }

    /// The conversation as tokens. What is said can not pose as the structure around it: marks in it are broken.
    fn tokens(&self, messages: &[ChatMessage]) -> Result<Vec<u32>, ChatError> {
        let plain: Vec<ChatMessage> = messages
            .iter()
            .map(|message| ChatMessage {
                role: message.role,
                content: self.tokenizer.without_marks(&message.content),
            })
            .collect();
        let text = self
            .template
            .render(&plain)
            .map_err(|error| self.failed(&error))?;
        self.tokenizer.encode(&text).map_err(|error| self.failed(&error))
    }

    /// Reads a conversation but for its last token, which is where the answer is read from.
    fn read(&self, tokens: &[u32], room: usize) -> Result<(KvCache, u32, Usage), ChatError> {
        let Some((&last, start)) = tokens.split_last() else {
            return Err(self.failed(&"the chat template wrote nothing"));
        };
        if tokens.len() + room > self.context_tokens {
            return Err(ChatError::TooLong(format!(
                "{}: a conversation of {} tokens with an answer of at least {room} does not fit into {}",
                self.name,
                tokens.len(),
                self.context_tokens
            )));
        }
        let known = self.prefixes().find(start);
        let mut cache = KvCache::from_spans(known);
        let from = cache.len();
        if from < start.len() {
            self.base
                .forward(&start[from..], &mut cache, None)
                .map_err(|error| self.failed(&error))?;
            if let Some(layers) = cache.newest(start.len() - from) {
                self.prefixes().keep(start, from, layers);
            }
        }
        let usage = Usage {
            prompt_tokens: tokens.len() as u64,
            completion_tokens: 0,
            cached_tokens: from as u64,
        };
        Ok((cache, last, usage))
    }

    fn prefixes(&self) -> std::sync::MutexGuard<'_, PrefixCache> {
        self.prefixes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn chat(&self, request: &ChatRequest) -> Result<ChatReply, ChatError> {
        let tokens = self.tokens(&request.messages)?;
        let (mut cache, mut last, mut usage) = self.read(&tokens, 1)?;
        let sampling = &request.sampling;
        let mut chooser = Chooser::new(sampling);
        let most = sampling.max_tokens.min(self.context_tokens - tokens.len());
        let mut said = Vec::new();
        let (mut text, mut finish) = (String::new(), Finish::Length);
        while said.len() < most {
            let hidden = self
                .base
                .forward(&[last], &mut cache, None)
                .map_err(|error| self.failed(&error))?;
            let logits = self
                .base
                .logits(&hidden)
                .and_then(|logits| {
                    logits
                        .flatten_all()
                        .and_then(|logits| logits.to_vec1::<f32>())
                        .map_err(upliftmem_lm::numerical)
                })
                .map_err(|error| self.failed(&error))?;
            let next = chooser
                .next(&logits)
                .ok_or_else(|| self.failed(&"the model gave no numbers"))?;
            usage.completion_tokens += 1;
            if self.ends.contains(&next) {
                finish = Finish::Stop;
                break;
            }
            said.push(next);
            last = next;
            text = self
                .tokenizer
                .decode(&said, false)
                .map_err(|error| self.failed(&error))?;
            if let Some(end) = sampling.stop.iter().filter_map(|stop| text.find(stop)).min() {
                text.truncate(end);
                finish = Finish::Stop;
                break;
            }
        }
        Ok(ChatReply { text, finish, usage })
    }

    fn choices(
        &self,
        messages: &[ChatMessage],
        answers: &[String],
    ) -> Result<(Vec<ChoiceLikelihood>, Usage), ChatError> {
        let tokens = self.tokens(messages)?;
        let mut ways = Vec::with_capacity(answers.len());
        for answer in answers {
            let own = self
                .tokenizer
                .encode(&self.tokenizer.without_marks(answer))
                .map_err(|error| self.failed(&error))?;
            if own.is_empty() {
                return Err(self.failed(&format_args!("answer {answer:?} has no tokens")));
            }
            ways.push(own);
        }
        let longest = ways.iter().map(Vec::len).max().unwrap_or(0);
        let (cache, last, mut usage) = self.read(&tokens, longest)?;
        // Each way begins with the last token of the conversation: after it comes the first of the answer.
        let read: Vec<Vec<u32>> = ways
            .iter()
            .map(|way| {
                std::iter::once(last)
                    .chain(way[..way.len() - 1].iter().copied())
                    .collect()
            })
            .collect();
        let hidden = self
            .base
            .branches(&read, &cache)
            .map_err(|error| self.failed(&error))?;
        let mut found = Vec::with_capacity(ways.len());
        for (way, hidden) in ways.iter().zip(hidden) {
            let logits = self
                .base
                .logits(&hidden)
                .and_then(|logits| logits.to_vec2::<f32>().map_err(upliftmem_lm::numerical))
                .map_err(|error| self.failed(&error))?;
            let total = way
                .iter()
                .zip(&logits)
                .map(|(&token, logits)| log_likelihood(logits, token as usize))
                .sum();
            usage.completion_tokens += way.len() as u64;
            found.push(ChoiceLikelihood {
                log_likelihood: total,
                tokens: way.len(),
            });
        }
        Ok((found, usage))
    }
}

#[async_trait]
impl ChatModel for LocalChat {
    fn name(&self) -> &str {
        &self.inner.name
    }

    fn version(&self) -> String {
        format!("{} bytes, {} tokens", self.inner.bytes, self.inner.context_tokens)
    }

    async fn chat(&self, request: &ChatRequest) -> Result<ChatReply, ChatError> {
        let request = request.clone();
        self.run(move |inner| inner.chat(&request)).await
    }

    async fn choices(
        &self,
        messages: &[ChatMessage],
        answers: &[String],
    ) -> Result<(Vec<ChoiceLikelihood>, Usage), ChatError> {
        let (messages, answers) = (messages.to_vec(), answers.to_vec());
        self.run(move |inner| inner.choices(&messages, &answers)).await
    }

    fn count_tokens(&self, text: &str) -> usize {
        let plain = self.inner.tokenizer.without_marks(text);
        self.inner
            .tokenizer
            .encode(&plain)
            .map_or_else(|_| text.chars().count().div_ceil(4), |tokens| tokens.len())
    }
}

/// The size of a file; a directory has none.
fn file_bytes(path: &Path) -> u64 {
    let file = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file);
    file.map_or(0, |file| file.len())
}

/// The template of a directory of the hub: a file of its own, or a field of the tokenizer's configuration.
fn template_beside(model: &Path) -> Option<String> {
    if let Ok(text) = std::fs::read_to_string(model.join("chat_template.jinja")) {
        return Some(text);
    }
    let bytes = std::fs::read(model.join("tokenizer_config.json")).ok()?;
    let config: Value = serde_json::from_slice(&bytes).ok()?;
    Some(config.get("chat_template")?.as_str()?.to_owned())
}
