//! A model on another machine: a server that speaks vLLM's score endpoint.
//!
//! The server gets the same prompt in two halves that it joins, and answers with the probability of yes (or the margin
//! itself); calibration is done here.

use std::{
    collections::BTreeMap,
    thread,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};
use upliftmem_core::{MemoryId, MemorySet};
use ureq::Agent;

use super::{
    Calibration,
    prompt::{self, INSTRUCTION},
};
use crate::{
    Ask, MemoryInput, ScorerVersion, Scores, SetScorer, TaskInput, TaskScorer,
    error::{Result, ScorerError, invalid},
};

/// Bytes of an answer that are read before it is refused.
const ANSWER_BYTES_MAX: u64 = 64 << 20;
/// Characters of an error answer that are shown.
const SHOWN_MAX: usize = 300;
/// Probabilities nearer to 0 or 1 than this say no more in single precision.
const PROBABILITY_EDGE: f64 = 1e-7;

/// What the numbers of the server are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RemoteScore {
    /// Probability of yes among yes and no.
    #[default]
    Probability,
    /// The logit of yes minus that of no.
    Margin,
}

/// Where the server is and how patient we are with it.
#[derive(Clone)]
pub struct RemoteSettings {
    /// The whole address, for example `http://localhost:8000/score`.
    pub url: String,
    /// The model's name, as the server knows it; adapters have their own.
    pub model: String,
    /// Sent as a bearer token.
    pub key: Option<String>,
    /// What the prompt asks.
    pub instruction: String,
    /// What the numbers of the server are.
    pub score: RemoteScore,
    /// Sets in one request.
    pub batch_size: usize,
    /// Longest time for one request, the answer included.
    pub timeout: Duration,
    /// How often a request is repeated after status 429, 5xx or a broken connection.
    pub retries: u32,
    /// The first wait before a repetition; each further wait is twice as long.
    pub backoff: Duration,
    /// The longest wait. A server that asks for more is not waited for.
    pub backoff_max: Duration,
}

impl RemoteSettings {
    /// Usual patience: 32 sets a request, a minute for each, four repetitions.
    pub fn new(url: impl Into<String>, model: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            model: model.into(),
            key: None,
            instruction: INSTRUCTION.to_owned(),
            score: RemoteScore::default(),
            batch_size: 32,
            timeout: Duration::from_secs(60),
            retries: 4,
            backoff: Duration::from_millis(500),
            backoff_max: Duration::from_secs(60),
        }
    }
}

/// A scorer whose model is elsewhere.
pub struct RemoteScorer {
    version: ScorerVersion,
    settings: RemoteSettings,
    calibration: Calibration,
    agent: Agent,
}

#[derive(Serialize)]
struct Question<'a> {
    model: &'a str,
    text_1: &'a str,
    text_2: &'a [String],
}

#[derive(Deserialize)]
struct Answer {
    data: Vec<AnswerRow>,
}

#[derive(Deserialize)]
struct AnswerRow {
    index: usize,
    score: f64,
}

/// Why a request failed, and whether to try again.
enum Failure {
    Final(String),
    Passing { problem: String, wait: Option<Duration> },
}

impl RemoteScorer {
    /// A scorer that asks this server. Nothing is sent yet.
    pub fn new(version: ScorerVersion, settings: RemoteSettings, calibration: Calibration) -> Result<Self> {
        if settings.batch_size == 0 {
            return Err(invalid(
                "remote.batch_size",
                "0 sets a request is too few; 32 is usual",
            ));
        }
        let agent = Agent::config_builder()
            .timeout_global(Some(settings.timeout))
            .http_status_as_error(false)
            .proxy(None)
            .build()
            .new_agent();
        Ok(Self {
            version,
            settings,
            calibration,
            agent,
        })
    }

    fn error(&self, problem: impl std::fmt::Display) -> ScorerError {
        ScorerError::Service {
            url: self.settings.url.clone(),
            problem: problem.to_string(),
        }
    }

    /// The margins of documents for one query, one request at a time, each repeated while it makes sense.
    fn margins(&self, query: &str, documents: &[String]) -> Result<Vec<f64>> {
        let mut margins = Vec::with_capacity(documents.len());
        for part in documents.chunks(self.settings.batch_size) {
            let mut backoff = self.settings.backoff;
            let started = Instant::now();
            let mut attempts = 0;
            let found = loop {
                attempts += 1;
                let (problem, wait) = match self.attempt(query, part) {
                    Ok(found) => break found,
                    Err(Failure::Final(problem)) => return Err(self.error(problem)),
                    Err(Failure::Passing { problem, wait }) => (problem, wait),
                };
                if attempts > self.settings.retries {
                    let seconds = started.elapsed().as_secs_f64();
                    return Err(self.error(format_args!(
                        "{problem}; gave up after {attempts} attempts in {seconds:.1} s"
                    )));
                }
                let longest = self.settings.backoff_max;
                if let Some(wait) = wait.filter(|&wait| wait > longest) {
                    return Err(self.error(format_args!(
                        "{problem}; the server asks to wait {} s, the limit is {} s; try later",
                        wait.as_secs(),
                        longest.as_secs_f64()
                    )));
                }
                thread::sleep(wait.unwrap_or(backoff.min(longest)));
                backoff = backoff.saturating_mul(2);
            };
            margins.extend(found);
        }
        Ok(margins)
    }

    fn attempt(&self, query: &str, documents: &[String]) -> Result<Vec<f64>, Failure> {
        let question = Question {
            model: &self.settings.model,
            text_1: query,
            text_2: documents,
        };
        let body = serde_json::to_vec(&question).map_err(|error| Failure::Final(error.to_string()))?;
        let mut request = self
            .agent
            .post(&self.settings.url)
            .content_type("application/json");
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
            return self.read(&body, documents.len()).map_err(Failure::Final);
        }
        let shown: String = String::from_utf8_lossy(&body)
            .trim()
            .chars()
            .take(SHOWN_MAX)
            .collect();
        let problem = format!("status {}: {shown}", status.as_u16());
        if status.as_u16() == 429 || status.is_server_error() {
            return Err(Failure::Passing { problem, wait });
        }
        Err(Failure::Final(problem))
    }

    /// One margin for each document, in order, whatever order the answer has.
    fn read(&self, body: &[u8], count: usize) -> Result<Vec<f64>, String> {
        let answer: Answer =
            serde_json::from_slice(body).map_err(|error| format!("the answer is not scores: {error}"))?;
        let mut margins = vec![None; count];
        for row in answer.data {
            let margin = match self.settings.score {
                RemoteScore::Margin => row.score,
                RemoteScore::Probability if (0.0..=1.0).contains(&row.score) => {
                    let share = row.score.clamp(PROBABILITY_EDGE, 1.0 - PROBABILITY_EDGE);
                    (share / (1.0 - share)).ln()
                }
                RemoteScore::Probability => {
                    return Err(format!(
                        "score {} is no probability; does the server answer with logits?",
                        row.score
                    ));
                }
            };
            if !margin.is_finite() {
                return Err(format!("score {} is not a number", row.score));
            }
            match margins.get_mut(row.index) {
                Some(place @ None) => *place = Some(margin),
                Some(Some(_)) => return Err(format!("the answer has index {} twice", row.index)),
                None => {
                    return Err(format!(
                        "the answer has index {} for {count} documents",
                        row.index
                    ));
                }
            }
        }
        let missing = margins.iter().filter(|margin| margin.is_none()).count();
        let margins: Option<Vec<f64>> = margins.into_iter().collect();
        margins.ok_or_else(|| format!("{missing} of {count} documents got no score"))
    }
}

struct BoundRemote<'a> {
    scorer: &'a RemoteScorer,
    query: String,
    memories: BTreeMap<MemoryId, &'a str>,
}

impl SetScorer for RemoteScorer {
    fn version(&self) -> ScorerVersion {
        self.version
    }

    fn bind<'a>(
        &'a self,
        task: TaskInput<'a>,
        memories: &[MemoryInput<'a>],
    ) -> Result<Box<dyn TaskScorer + 'a>> {
        Ok(Box::new(BoundRemote {
            scorer: self,
            query: prompt::query_half(
                &self.settings.instruction,
                &prompt::without_chat_marks(task.context),
            ),
            memories: memories.iter().map(|memory| (memory.id, memory.text)).collect(),
        }))
    }
}

impl TaskScorer for BoundRemote<'_> {
    /// A server has one function: every draw is that one, and deviations are zero.
    fn score(&self, sets: &[MemorySet], ask: Ask) -> Result<Scores> {
        let mut documents = Vec::new();
        for set in sets.iter().filter(|set| !set.is_empty()) {
            let members = set
                .iter()
                .map(|id| {
                    self.memories.get(id).copied().ok_or_else(|| {
                        invalid(
                            format_args!("memory {id}"),
                            "was not bound; bind the task with all its candidates",
                        )
                    })
                })
                .collect::<Result<Vec<&str>>>()?;
            documents.push(prompt::document_half(&prompt::without_chat_marks(
                &prompt::document(members),
            )));
        }
        let mut margins = self.scorer.margins(&self.query, &documents)?.into_iter();
        let value = |set: &MemorySet| {
            if set.is_empty() {
                return 0.0;
            }
            margins
                .next()
                .map_or(0.0, |margin| self.scorer.calibration.value(margin))
        };
        let values: Vec<f64> = sets.iter().map(value).collect();
        Ok(Scores {
            version: self.scorer.version,
            deviations: if ask.deviations {
                vec![0.0; sets.len()]
            } else {
                Vec::new()
            },
            draws: vec![values.clone(); ask.draws],
            values,
        })
    }
}
