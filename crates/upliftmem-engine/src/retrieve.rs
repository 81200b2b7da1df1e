//! The request path: embed, recall, search, answer, record.

use std::{sync::Arc, time::Duration, time::Instant};

use serde::Serialize;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use upliftmem_core::{
    BeamResult, IdSequence, MemoryId, MemorySet, RetrievalId, SearchEnd, Task, TaskId, Uplift,
};
use upliftmem_scorer::Ask;
use upliftmem_store::{RetrievalRecord, Scope, Store, Timestamp};

use crate::{
    error::{Error, Result},
    scoring::{BelievingScorer, scorer_label, search},
    seeds::{fresh_rng, hexadecimal},
    settings::RetrievalSettings,
    texts::{Offer, Texts},
};

/// What is asked.
#[derive(Debug, Clone, Default)]
pub struct RetrievalRequest {
    /// The text that memories are wanted for.
    pub query: String,
    /// What the caller calls the task; outcomes of the same task are compared.
    pub task: Option<String>,
    /// The candidates, if the caller recalled them already.
    pub candidates: Option<Vec<MemoryId>>,
    /// Memories to recall as candidates, if another number than configured.
    pub candidates_max: Option<usize>,
    /// Time after which the best set found so far is the answer.
    pub budget: Option<Duration>,
    /// Most members, if fewer than configured.
    pub memories_max: Option<usize>,
    /// Most tokens, if fewer than configured.
    pub tokens_max: Option<u64>,
}

/// A memory that was chosen.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RetrievedMemory {
    /// Which memory.
    pub id: MemoryId,
    /// What it says.
    pub text: String,
    /// What it added to the predicted uplift when it was chosen. Paper: g(m given c, S).
    pub gain: f64,
}

/// A set that was considered.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Alternative {
    /// Its members.
    pub set: MemorySet,
    /// The uplift predicted for it.
    pub predicted_uplift: f64,
}

/// Where the time went.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Timings {
    /// Making the query's vector.
    pub embed_ms: f64,
    /// Recalling candidates.
    pub recall_ms: f64,
    /// Searching the best set.
    pub search_ms: f64,
}

/// The answer: a set, or the advice to use none.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Retrieval {
    /// Outcomes are reported against it.
    pub id: RetrievalId,
    /// The task it was for.
    pub task: TaskId,
    /// The chosen memories, in the order in which they were chosen; none if it abstained.
    pub memories: Vec<RetrievedMemory>,
    /// How much better the agent is expected to do than without memory.
    pub predicted_uplift: f64,
    /// Whether no memory is the answer.
    pub abstained: bool,
    /// Candidates that were searched.
    pub candidates: usize,
    /// Sets that were scored.
    pub sets_scored: usize,
    /// The best sets that were not chosen.
    pub runners_up: Vec<Alternative>,
    /// The scorer that chose, as `name@version`.
    pub scorer: String,
    /// Whether the search was cut by its time budget.
    pub interrupted: bool,
    /// Where the time went.
    pub timings: Timings,
}

/// Answers retrievals of one scope with one scorer version.
pub struct Retriever {
    /// Where memories are and answers are recorded.
    pub store: Arc<dyn Store>,
    /// Whose memories.
    pub scope: Scope,
    /// Where texts get their vectors.
    pub texts: Arc<Texts>,
    /// How sets are searched for.
    pub settings: RetrievalSettings,
    /// What sets are worth.
    pub scorer: Arc<dyn BelievingScorer>,
}

impl Retriever {
    /// Searches a set for a task and records the answer before it is given.
    pub async fn retrieve(&self, request: RetrievalRequest) -> Result<Retrieval> {
        let name = request
            .task
            .clone()
            .unwrap_or_else(|| self.name_of(&request.query));
        let task = Task::new(name, request.query.clone());
        let mut timings = Timings::default();
        let (offer, result) = self.search(&task, &request, &mut timings).await?;
        let retrieval = self.answer(&task, &offer, &result, timings);
        self.record(task, &retrieval, offer, &request, &result).await?;
        Ok(retrieval)
    }

    /// What each memory alone is expected to do for a task, and how similar it is to it.
    pub async fn alone(&self, query: &str, ids: &[MemoryId]) -> Result<Vec<(f64, f64)>> {
        let task = Task::new(self.name_of(query), query);
        let known = self.texts.tasks(&[task]).await?.remove(0);
        let offer = self.texts.offer(ids).await?;
        let scorer = Arc::clone(&self.scorer);
        let work = tokio::task::spawn_blocking(move || {
            let bound = scorer.bind(known.input(), &offer.inputs())?;
            let sets: Vec<MemorySet> = offer
                .ranked
                .iter()
                .map(|memory| std::iter::once(memory.id).collect())
                .collect();
            let values = bound.score(&sets, Ask::VALUES)?.values;
            let cosines = offer.ranked.iter().map(|memory| known.similarity(memory));
            Ok(values.into_iter().zip(cosines).collect())
        });
        work.await
            .map_err(|error| Error::Internal(format!("scoring stopped: {error}")))?
    }

    /// Candidates and the best set among them.
    async fn search(
        &self,
        task: &Task,
        request: &RetrievalRequest,
        timings: &mut Timings,
    ) -> Result<(Offer, BeamResult)> {
        let clock = Instant::now();
        let known = self.texts.tasks(std::slice::from_ref(task)).await?.remove(0);
        timings.embed_ms = milliseconds(clock);
        let clock = Instant::now();
        let settings = self.narrowed(request);
        let offer = match &request.candidates {
            Some(ids) => self.texts.offer(ids).await?,
            None => self.texts.recall(&known, &settings).await?,
        };
        timings.recall_ms = milliseconds(clock);
        let clock = Instant::now();
        // The search is all computation: others get their turn meanwhile.
        let (scorer, budget) = (Arc::clone(&self.scorer), request.budget);
        let work = tokio::task::spawn_blocking(move || {
            let (task, memories) = (known.input(), offer.inputs());
            let result = search(scorer.as_ref(), task, &memories, &offer.pool, &settings, budget)?;
            drop(memories);
            Ok((offer, result))
        });
        let found = work
            .await
            .map_err(|error| Error::Internal(format!("a search stopped: {error}")))?;
        timings.search_ms = milliseconds(clock);
        found
    }

    /// What a task without a name is called: its text, or the hash of it where a name can not be so long.
    fn name_of(&self, query: &str) -> String {
        let fits = query.len() <= self.store.limits().name_bytes_max;
        if fits && !query.is_empty() && !query.chars().any(char::is_control) {
            return query.to_owned();
        }
        format!("sha256:{}", hexadecimal(&Sha256::digest(query.as_bytes())))
    }

    fn narrowed(&self, request: &RetrievalRequest) -> RetrievalSettings {
        let mut settings = self.settings.clone();
        if let Some(most) = request.candidates_max {
            settings.candidates = most;
        }
        if let Some(most) = request.memories_max {
            settings.memories_max = settings.memories_max.min(most);
        }
        if let Some(most) = request.tokens_max.filter(|&most| most > 0) {
            let configured = Some(settings.tokens_max).filter(|&tokens| tokens > 0);
            settings.tokens_max = configured.map_or(most, |tokens| tokens.min(most));
        }
        settings
    }

    fn answer(&self, task: &Task, offer: &Offer, result: &BeamResult, timings: Timings) -> Retrieval {
        let text = |id: MemoryId| {
            let found = offer.ranked.iter().find(|memory| memory.id == id);
            found.map(|memory| memory.text.clone()).unwrap_or_default()
        };
        let steps = result.steps().into_iter();
        let memories: Vec<RetrievedMemory> = steps
            .map(|step| RetrievedMemory {
                id: step.added,
                text: text(step.added),
                gain: step.gain,
            })
            .collect();
        let runners_up = result.archive.iter().filter(|set| set.set != result.best.set);
        Retrieval {
            id: mint(),
            task: task.id,
            abstained: memories.is_empty(),
            memories,
            predicted_uplift: result.best.value,
            candidates: offer.pool.len(),
            sets_scored: result.scores,
            runners_up: runners_up
                .take(self.settings.runners_up)
                .map(|set| Alternative {
                    set: set.set.clone(),
                    predicted_uplift: set.value,
                })
                .collect(),
            scorer: scorer_label(&self.scorer),
            interrupted: result.end == SearchEnd::Interrupted,
            timings,
        }
    }

    async fn record(
        &self,
        task: Task,
        retrieval: &Retrieval,
        offer: Offer,
        request: &RetrievalRequest,
        result: &BeamResult,
    ) -> Result<()> {
        let mut trace = Map::new();
        trace.insert("steps".into(), json!(result.depths));
        trace.insert("end".into(), json!(result.end));
        trace.insert("scored".into(), json!(result.scores));
        trace.insert("timings".into(), json!(retrieval.timings));
        let gains = retrieval.memories.iter().map(|memory| json!(memory.gain));
        trace.insert("gains".into(), Value::Array(gains.collect()));
        let record = RetrievalRecord {
            id: retrieval.id,
            task: Some(retrieval.task),
            query: request.query.clone(),
            pool: offer.pool,
            set: retrieval.memories.iter().map(|memory| memory.id).collect(),
            predicted_uplift: Uplift::new(retrieval.predicted_uplift)?,
            scorer: retrieval.scorer.clone(),
            trace,
        };
        self.store
            .record_retrieval(&self.scope, Timestamp::now(), task, record)
            .await?;
        Ok(())
    }
}

fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

/// A new name, after all that this process has given.
fn mint() -> RetrievalId {
    static SEQUENCE: std::sync::Mutex<Option<(IdSequence, rand_chacha::ChaCha8Rng)>> =
        std::sync::Mutex::new(None);
    let mut sequence = SEQUENCE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let (sequence, rng) = sequence.get_or_insert_with(|| (IdSequence::default(), fresh_rng()));
    RetrievalId::from_u128(sequence.mint(Timestamp::now().millis(), rng))
}
