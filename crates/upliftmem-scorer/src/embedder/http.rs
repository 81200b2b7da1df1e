//! Vectors from a server that speaks the embeddings endpoint of OpenAI.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use upliftmem_core::InvalidInput;

use super::{Embedder, EmbedderError, Generation, Result, blank, head};
use crate::{
    Embedding,
    service::{Patience, Service},
};

/// Bytes of an answer that are read before it is refused.
const ANSWER_BYTES_MAX: u64 = 256 << 20;

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
    service: Service,
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
        let url = format!("{}/embeddings", settings.base_url.trim_end_matches('/'));
        let patience = Patience {
            timeout: settings.timeout,
            retries: settings.retries,
            backoff: settings.backoff,
            backoff_max: settings.backoff_max,
            answer_bytes_max: ANSWER_BYTES_MAX,
        };
        let mut embedder = Self {
            service: Service::new(url, settings.key.clone(), proxy, patience),
            generation: Generation::new(settings.model.clone(), 0, Sha256::new()),
            settings,
        };
        let dimension = embedder.request(&["dimension"])?[0].dimension();
        let method = Sha256::new_with_prefix(format!("http 1 {} {dimension}", embedder.settings.model));
        embedder.generation = Generation::new(embedder.settings.model.clone(), dimension, method);
        Ok(embedder)
    }

    fn request(&self, texts: &[&str]) -> Result<Vec<Embedding>> {
        let question = Question {
            model: &self.settings.model,
            input: texts,
            encoding_format: "float",
            dimensions: self.settings.dimensions,
        };
        let answer = self
            .service
            .ask(&question, |body| self.vectors(body, texts.len()));
        answer.map_err(|problem| EmbedderError::Service {
            url: self.service.url.clone(),
            problem,
        })
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
