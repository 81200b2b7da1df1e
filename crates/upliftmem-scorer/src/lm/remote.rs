//! A model on another machine: a server that speaks vLLM's score endpoint.
//!
//! The server gets the same prompt in two halves that it joins, and answers with the probability of yes (or the margin
//! itself); calibration is done here.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use upliftmem_core::MemorySet;

use super::{
    Calibration, SetReading,
    candidates::{CandidateTexts, values},
    prompt::{self, INSTRUCTION},
};
use crate::{
    Ask, MemoryInput, ScorerVersion, Scores, SetScorer, TaskInput, TaskScorer,
    error::{Result, ScorerError, invalid},
    service::{Patience, Service},
};

/// Bytes of an answer that are read before it is refused.
const ANSWER_BYTES_MAX: u64 = 64 << 20;
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
    service: Service,
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

impl RemoteScorer {
    /// A scorer that asks this server. Nothing is sent yet.
    pub fn new(version: ScorerVersion, settings: RemoteSettings, calibration: Calibration) -> Result<Self> {
        if settings.batch_size == 0 {
            return Err(invalid(
                "remote.batch_size",
                "0 sets a request is too few; 32 is usual",
            ));
        }
        let patience = Patience {
            timeout: settings.timeout,
            retries: settings.retries,
            backoff: settings.backoff,
            backoff_max: settings.backoff_max,
            answer_bytes_max: ANSWER_BYTES_MAX,
        };
        Ok(Self {
            version,
            service: Service::new(settings.url.clone(), settings.key.clone(), None, patience),
            settings,
            calibration,
        })
    }

    /// Prepares a task, as [`SetScorer::bind`] does.
    pub fn bind_task<'a>(&'a self, task: TaskInput<'a>, memories: &[MemoryInput<'a>]) -> BoundRemote<'a> {
        BoundRemote {
            scorer: self,
            query: prompt::query_half(
                &self.settings.instruction,
                &prompt::without_chat_marks(task.context),
            ),
            memories: CandidateTexts::new(memories),
        }
    }

    /// The margins of documents for one query, in requests of the size that is allowed, as long as there is time.
    fn margins(&self, query: &str, documents: &[String], deadline: Option<Instant>) -> Result<Vec<f64>> {
        let mut margins = Vec::with_capacity(documents.len());
        for part in documents.chunks(self.settings.batch_size) {
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                break;
            }
            let question = Question {
                model: &self.settings.model,
                text_1: query,
                text_2: part,
            };
            let answer = self.service.ask(&question, |body| self.read(body, part.len()));
            margins.extend(answer.map_err(|problem| ScorerError::Service {
                url: self.service.url.clone(),
                problem,
            })?);
        }
        Ok(margins)
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

/// A remote scorer bound to a task and its candidates.
pub struct BoundRemote<'a> {
    scorer: &'a RemoteScorer,
    query: String,
    memories: CandidateTexts<'a>,
}

impl BoundRemote<'_> {
    /// Asks for sets until there is no time left; what was not asked for is `None`. The server gives no features.
    pub fn read(&self, sets: &[MemorySet], deadline: Option<Instant>) -> Result<Vec<Option<SetReading>>> {
        let mut documents = Vec::new();
        for set in sets.iter().filter(|set| !set.is_empty()) {
            let document = prompt::document(self.memories.of(set)?);
            documents.push(prompt::document_half(&prompt::without_chat_marks(&document)));
        }
        let mut margins = self
            .scorer
            .margins(&self.query, &documents, deadline)?
            .into_iter();
        let read = |value, logit_margin| SetReading {
            value,
            logit_margin,
            features: Vec::new(),
        };
        Ok(sets
            .iter()
            .map(|set| {
                if set.is_empty() {
                    return Some(read(0.0, 0.0));
                }
                let margin = margins.next()?;
                Some(read(self.scorer.calibration.value(margin), margin))
            })
            .collect())
    }
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
        Ok(Box::new(self.bind_task(task, memories)))
    }
}

impl TaskScorer for BoundRemote<'_> {
    /// A server has one function: every draw is that one, and deviations are zero.
    fn score(&self, sets: &[MemorySet], ask: Ask) -> Result<Scores> {
        let values: Vec<f64> = values(self.read(sets, None)?)
            .into_iter()
            .map(Option::unwrap_or_default)
            .collect();
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

    /// Time is looked at between requests.
    fn score_until(&self, sets: &[MemorySet], deadline: Instant) -> Result<Vec<Option<f64>>> {
        Ok(values(self.read(sets, Some(deadline))?))
    }
}
