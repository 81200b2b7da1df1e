//! Vectors from a server that speaks the embeddings endpoint of OpenAI.

use std::{
    thread,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use upliftmem_core::InvalidInput;
use ureq::Agent;

use super::{Embedder, EmbedderError, Generation, Result, blank, head};
use crate::Embedding;

/// Bytes of an answer that are read before it is refused.
const ANSWER_BYTES_MAX: u64 = 256 << 20;
/// Characters of an error answer that are shown.
const SHOWN_MAX: usize = 300;

/// Where the server is and how patient we are with it.
#[derive(Clone)]
pub struct HttpSettings {
    /// The address up to and without `/embeddings`, for example `http://localhost:8080/v1`.
    pub base_url: String,
    /// The model's name, as the server knows it.
    pub model: String,
    /// Sent as a bearer token.
    pub key: Option<String>,
    /// Asks the server for vectors of so many entries; not every model can.
    pub dimensions: Option<usize>,
    /// Texts in one request.
    pub batch_size: usize,
    /// Longest time for one request, the answer included.
    pub timeout: Duration,
    /// How often a request is repeated after status 429, 5xx or a broken connection.
    pub retries: u32,
    /// The first wait before a repetition; each further wait is twice as long.
    pub backoff: Duration,
    /// The longest wait. A server that asks for more is not waited for.
    pub backoff_max: Duration,
    /// A proxy for all requests; the environment is not consulted.
    pub proxy: Option<String>,
}

impl HttpSettings {
    /// Usual patience: 64 texts a request, a minute for each, four repetitions.
    pub fn new(base_url: impl Into<String>, model: impl Into<String>) -> Self {
        Self {
            base_url: base_url.into(),
            model: model.into(),
            key: None,
            dimensions: None,
            batch_size: 64,
            timeout: Duration::from_secs(60),
            retries: 4,
            backoff: Duration::from_millis(500),
            backoff_max: Duration::from_secs(60),
            proxy: None,
        }
    }
}

/// A model behind `POST {base_url}/embeddings`.
pub struct HttpEmbedder {
    settings: HttpSettings,
    url: String,
    agent: Agent,
    generation: Generation,
}

#[derive(Serialize)]
struct Question<'a> {
    model: &'a str,
    input: &'a [&'a str],
    encoding_format: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    dimensions: Option<usize>,
}

#[derive(Deserialize)]
struct Answer {
    data: Vec<AnswerRow>,
}

#[derive(Deserialize)]
struct AnswerRow {
    index: usize,
    embedding: Vec<f32>,
}

/// Why a request failed, and whether to try again.
enum Failure {
    Final(String),
    Passing { problem: String, wait: Option<Duration> },
}

impl HttpEmbedder {
    /// Asks the server for one vector to learn how many entries it has.
    ///
    /// A server can not prove which weights it uses: the generation is the model's name and dimension, so the same
    /// model behind another address is the same generation.
    pub fn connect(settings: HttpSettings) -> Result<Self> {
        if settings.batch_size == 0 {
            return Err(InvalidInput::new("batch_size", "0 texts a request is too few; 64 is usual").into());
        }
        let proxy = settings
            .proxy
            .as_deref()
            .map(ureq::Proxy::new)
            .transpose()
            .map_err(|error| InvalidInput::new("proxy", error))?;
        let agent = Agent::config_builder()
            .timeout_global(Some(settings.timeout))
            .http_status_as_error(false)
            .proxy(proxy)
            .build()
            .new_agent();
        let mut embedder = Self {
            url: format!("{}/embeddings", settings.base_url.trim_end_matches('/')),
            generation: Generation::new(settings.model.clone(), 0, Sha256::new()),
            settings,
            agent,
        };
        let dimension = embedder.request(&["dimension"])?[0].dimension();
        let method = Sha256::new_with_prefix(format!("http 1 {} {dimension}", embedder.settings.model));
        embedder.generation = Generation::new(embedder.settings.model.clone(), dimension, method);
        Ok(embedder)
    }

    /// One request, repeated while it makes sense.
    fn request(&self, texts: &[&str]) -> Result<Vec<Embedding>> {
        let mut backoff = self.settings.backoff;
        let started = Instant::now();
        for attempt in 0.. {
            let (problem, wait) = match self.attempt(texts) {
                Ok(vectors) => return Ok(vectors),
                Err(Failure::Final(problem)) => return Err(self.error(problem)),
                Err(Failure::Passing { problem, wait }) => (problem, wait),
            };
            let longest = self.settings.backoff_max;
            if attempt >= self.settings.retries {
                let seconds = started.elapsed().as_secs_f64();
                return Err(self.error(format_args!(
                    "{problem}; gave up after {} attempts in {seconds:.1} s",
                    attempt + 1
                )));
            }
            if let Some(wait) = wait.filter(|&wait| wait > longest) {
                return Err(self.error(format_args!(
                    "{problem}; the server asks to wait {} s, the limit is {} s; try later",
                    wait.as_secs(),
                    longest.as_secs_f64()
                )));
            }
            thread::sleep(wait.unwrap_or(backoff.min(longest)));
            backoff = backoff.saturating_mul(2);
        }
        unreachable!("the loop has no end but its returns")
    }

    fn attempt(&self, texts: &[&str]) -> Result<Vec<Embedding>, Failure> {
        let question = Question {
            model: &self.settings.model,
            input: texts,
            encoding_format: "float",
            dimensions: self.settings.dimensions,
        };
        let body = serde_json::to_vec(&question).map_err(|error| Failure::Final(error.to_string()))?;
        let mut request = self.agent.post(&self.url).content_type("application/json");
        if let Some(key) = &self.settings.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        let passing = |error: ureq::Error| Failure::Passing {
            problem: error.to_string(),
            wait: None,
        };
        let mut response = request.send(&body).map_err(|error| match error {
            ureq::Error::BadUri(_) | ureq::Error::Http(_) => Failure::Final(error.to_string()),
            other => passing(other),
        })?;
        let status = response.status();
        let wait = response
            .headers()
            .get("retry-after")
            .and_then(|value| value.to_str().ok()?.trim().parse().ok())
            .map(Duration::from_secs);
        let body = response
            .body_mut()
            .with_config()
            .limit(ANSWER_BYTES_MAX)
            .read_to_vec()
            .map_err(passing)?;
        if status.is_success() {
            return self.vectors(&body, texts.len()).map_err(Failure::Final);
        }
        let shown: String = String::from_utf8_lossy(&body)
            .trim()
            .chars()
            .take(SHOWN_MAX)
            .collect();
        let problem = format!("answered {status}: {shown}");
        if status.as_u16() == 429 || status.is_server_error() {
            Err(Failure::Passing { problem, wait })
        } else {
            Err(Failure::Final(problem))
        }
    }

    /// The answer's vectors in the order of the texts, if it has exactly one of the right length for each.
    fn vectors(&self, body: &[u8], count: usize) -> Result<Vec<Embedding>, String> {
        let answer: Answer = serde_json::from_slice(body)
            .map_err(|error| format!("did not answer with a list of embeddings: {error}"))?;
        let mut rows = answer.data;
        rows.sort_by_key(|row| row.index);
        if !rows.iter().map(|row| row.index).eq(0..count) {
            return Err(format!(
                "answered with {} vectors for {count} texts, or some twice",
                rows.len()
            ));
        }
        rows.into_iter()
            .map(|row| {
                let found = row.embedding.len();
                let asked = match self.generation.dimension {
                    0 => self.settings.dimensions.unwrap_or(found),
                    known => known,
                };
                if found != asked {
                    return Err(format!(
                        "answered with a vector of {found} entries, expected {asked}"
                    ));
                }
                Embedding::new(&row.embedding).map_err(|error| error.to_string())
            })
            .collect()
    }

    fn error(&self, problem: impl std::fmt::Display) -> EmbedderError {
        EmbedderError::Service {
            url: self.url.clone(),
            problem: problem.to_string(),
        }
    }
}

impl Embedder for HttpEmbedder {
    fn generation(&self) -> &Generation {
        &self.generation
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Embedding>> {
        // Servers refuse texts without content: they get their vector here.
        let nothing = Embedding::new(&blank(self.generation.dimension))?;
        let mut vectors = vec![nothing; texts.len()];
        let asked: Vec<(usize, &str)> = texts
            .iter()
            .map(|text| head(text, usize::MAX))
            .enumerate()
            .filter(|(_, text)| !text.trim().is_empty())
            .collect();
        for batch in asked.chunks(self.settings.batch_size) {
            let texts: Vec<&str> = batch.iter().map(|&(_, text)| text).collect();
            for (&(position, _), vector) in batch.iter().zip(self.request(&texts)?) {
                vectors[position] = vector;
            }
        }
        Ok(vectors)
    }
}
