//! Search and rerank: which memories, if any, help with a task.

use std::{collections::BTreeMap, time::Duration};

use axum::extract::State;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use upliftmem_core::MemoryId;
use upliftmem_engine::{Brought, LiveScope, Retrieval, RetrievalRequest};
use upliftmem_store::{Permission, Scope};

use crate::{
    app::Shared,
    auth::Caller,
    error::{ApiError, Code, Result},
    extract::{Answer, Body},
    scope::{ScopeFields, resolve},
    table::{Route, post},
    traces::Trace,
    wire::{Id, ScopeView, moment},
};

/// What to choose from.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Candidates {
    /// So many, recalled here.
    Count(#[schemars(range(min = 1, max = 1_000))] usize),
    /// These memories.
    Ids(Vec<Id>),
    /// Texts from a store of the caller's own.
    Texts(Vec<BroughtText>),
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub(crate) struct BroughtText {
    /// What the caller calls it; it comes back as `external_id`.
    #[schemars(length(max = 256))]
    id: Option<String>,
    #[serde(alias = "memory")]
    text: String,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub(crate) struct SearchRequest {
    /// What the agent is about to do.
    #[schemars(length(min = 1))]
    pub(crate) query: String,
    #[serde(flatten)]
    pub(crate) scope: ScopeFields,
    /// What the task is called; outcomes of the same task are compared. Without it, the query is its name.
    #[schemars(length(min = 1, max = 256))]
    pub(crate) task: Option<String>,
    /// Most memories of the answer.
    #[serde(alias = "limit")]
    pub(crate) top_k: Option<usize>,
    /// What to choose from: a number to recall, ids, or texts that are brought.
    pub(crate) candidates: Option<Candidates>,
    /// Most tokens of the answer.
    pub(crate) token_budget: Option<u64>,
    /// Answer with the best set found within this time.
    pub(crate) budget_ms: Option<u64>,
    /// Whether the answer shows the runners-up.
    #[serde(default)]
    pub(crate) explain: bool,
}

/// A memory that was chosen.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Found {
    pub(crate) id: Id,
    pub(crate) memory: String,
    /// The same as `gain`, under the name that other clients read.
    pub(crate) score: f64,
    /// What it added to the predicted uplift when it was chosen.
    pub(crate) gain: f64,
    /// When it was chosen, counted from 1.
    pub(crate) step: usize,
    pub(crate) metadata: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) external_id: Option<String>,
    pub(crate) created_at: String,
    pub(crate) updated_at: String,
    #[serde(flatten)]
    pub(crate) scope: ScopeView,
}

/// A set that was not chosen.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RunnerUp {
    memories: Vec<Id>,
    predicted_uplift: f64,
}

/// Where the time went, in milliseconds.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct TimingsMs {
    embed: f64,
    recall: f64,
    score: f64,
    total: f64,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SearchResponse {
    /// Outcomes are reported against it.
    pub(crate) retrieval_id: Id,
    pub(crate) task_id: Id,
    /// Whether no memory is the advice.
    pub(crate) abstained: bool,
    /// Why, if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    /// How much better the agent is expected to do than without memory.
    pub(crate) predicted_uplift: f64,
    /// What predicted it, as `name@version`.
    pub(crate) scorer: String,
    pub(crate) results: Vec<Found>,
    /// Candidates that were searched.
    pub(crate) candidates: usize,
    pub(crate) sets_scored: usize,
    /// Whether time ran out before the search was over.
    pub(crate) budget_hit: bool,
    pub(crate) timings_ms: TimingsMs,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) runners_up: Option<Vec<RunnerUp>>,
}

/// What was searched, with the names that a caller gave to what was brought.
struct Searched {
    retrieval: Retrieval,
    names: BTreeMap<MemoryId, String>,
    milliseconds: f64,
}

async fn search_in(
    app: &Shared,
    caller: &Caller,
    scope: &Scope,
    request: &SearchRequest,
) -> Result<Searched> {
    let began = std::time::Instant::now();
    if request.query.trim().is_empty() {
        return Err(ApiError::invalid("query", "it is empty"));
    }
    let live = app.live.scope(scope).await?;
    let mut names = BTreeMap::new();
    let mut asked = RetrievalRequest {
        query: request.query.clone(),
        task: request.task.clone(),
        budget: request.budget_ms.map(Duration::from_millis),
        memories_max: request.top_k,
        tokens_max: request.token_budget,
        ..RetrievalRequest::default()
    };
    match &request.candidates {
        None => {}
        Some(Candidates::Count(count)) => {
            let most = app.store().limits().recall_candidates_max;
            if *count == 0 || *count > most {
                return Err(ApiError::invalid(
                    "candidates",
                    format_args!("ask for 1 to {most}"),
                ));
            }
            asked.candidates_max = Some(*count);
        }
        Some(Candidates::Ids(ids)) => {
            check_count(app, ids.len())?;
            let mut ids: Vec<MemoryId> = ids.iter().map(Id::parse).collect::<Result<_>>()?;
            let mut seen = std::collections::BTreeSet::new();
            ids.retain(|id| seen.insert(*id));
            live.check_candidates(&ids).await?;
            asked.candidates = Some(ids);
        }
        Some(Candidates::Texts(texts)) => {
            caller.require(Permission::Write)?;
            let (ids, given) = bring(app, &live, texts).await?;
            (asked.candidates, names) = (Some(ids), given);
        }
    }
    caller.trace.content("upliftmem.query", &request.query);
    let started = std::time::SystemTime::now();
    let retrieval = live.retriever()?.retrieve(asked).await?;
    note(&caller.trace, started, &retrieval);
    app.metrics.search(retrieval.abstained, retrieval.sets_scored);
    Ok(Searched {
        retrieval,
        names,
        milliseconds: began.elapsed().as_secs_f64() * 1e3,
    })
}

/// What a trace says about a search.
fn note(trace: &Trace, started: std::time::SystemTime, retrieval: &Retrieval) {
    let timings = &retrieval.timings;
    let steps = [
        ("embed", timings.embed_ms),
        ("recall", timings.recall_ms),
        ("search sets", timings.search_ms),
    ];
    trace.steps(started, &steps);
    trace.note("upliftmem.scorer", retrieval.scorer.as_str().into());
    trace.note("upliftmem.abstained", retrieval.abstained.into());
    trace.note("upliftmem.candidates", retrieval.candidates.into());
    trace.note("upliftmem.sets_scored", retrieval.sets_scored.into());
    for memory in &retrieval.memories {
        trace.content("upliftmem.memory", &memory.text);
    }
}

fn check_count(app: &Shared, count: usize) -> Result<()> {
    let most = app.settings.batch_items_max;
    if count <= most {
        return Ok(());
    }
    Err(ApiError::new(
        Code::LimitExceeded,
        format_args!("{count} candidates are above batch_items_max = {most}; bring fewer"),
    ))
}

/// The memories behind texts that were brought, once each, and what the caller calls them.
async fn bring(
    app: &Shared,
    live: &LiveScope,
    texts: &[BroughtText],
) -> Result<(Vec<MemoryId>, BTreeMap<MemoryId, String>)> {
    check_count(app, texts.len())?;
    let brought: Vec<Brought> = texts
        .iter()
        .map(|item| Brought {
            id: item.id.clone(),
            text: item.text.clone(),
        })
        .collect();
    let mut ids = Vec::new();
    let mut names = BTreeMap::new();
    for (item, id) in brought.iter().zip(live.bring(&brought).await?) {
        let Some(id) = id else { continue };
        if !ids.contains(&id) {
            ids.push(id);
        }
        if let Some(name) = &item.id {
            names.entry(id).or_insert_with(|| name.clone());
        }
    }
    Ok((ids, names))
}

/// Searches, and tells what was found.
pub(crate) async fn search_memories(
    app: &Shared,
    caller: &Caller,
    scope: &Scope,
    request: &SearchRequest,
) -> Result<SearchResponse> {
    let searched = search_in(app, caller, scope, request).await?;
    let retrieval = searched.retrieval;
    let ids: Vec<MemoryId> = retrieval.memories.iter().map(|memory| memory.id).collect();
    let stored = if ids.is_empty() {
        Vec::new()
    } else {
        app.store().memories(scope, &ids).await?
    };
    let mut names = searched.names;
    let results = retrieval.memories.into_iter().zip(1..).map(|(memory, step)| {
        let found = stored.iter().find(|stored| stored.memory.id == memory.id);
        let created_at = found.map(|stored| moment(stored.created_at)).unwrap_or_default();
        Found {
            id: Id::of(memory.id),
            external_id: names.remove(&memory.id),
            memory: memory.text,
            score: memory.gain,
            gain: memory.gain,
            step,
            metadata: found
                .map(|stored| stored.memory.metadata.clone())
                .unwrap_or_default(),
            updated_at: found
                .and_then(|stored| stored.updated_at)
                .map_or_else(|| created_at.clone(), moment),
            created_at,
            scope: scope.parts().into(),
        }
    });
    let reason = retrieval.abstained.then(|| match retrieval.candidates {
        0 => "there is no candidate".to_owned(),
        count => format!("none of {count} candidates is expected to help"),
    });
    let runners_up = retrieval.runners_up.into_iter().map(|set| RunnerUp {
        memories: set.set.iter().map(Id::of).collect(),
        predicted_uplift: set.predicted_uplift,
    });
    Ok(SearchResponse {
        retrieval_id: Id::of(retrieval.id),
        task_id: Id::of(retrieval.task),
        abstained: retrieval.abstained,
        reason,
        predicted_uplift: retrieval.predicted_uplift,
        scorer: retrieval.scorer,
        results: results.collect(),
        candidates: retrieval.candidates,
        sets_scored: retrieval.sets_scored,
        budget_hit: retrieval.interrupted,
        timings_ms: TimingsMs {
            embed: retrieval.timings.embed_ms,
            recall: retrieval.timings.recall_ms,
            score: retrieval.timings.search_ms,
            total: searched.milliseconds,
        },
        runners_up: request.explain.then(|| runners_up.collect()),
    })
}

async fn search(
    State(app): State<Shared>,
    caller: Caller,
    Body(request): Body<SearchRequest>,
) -> Result<Answer<SearchResponse>> {
    let scope = resolve(&app, &caller, request.scope.parts()?)?;
    Ok(Answer(search_memories(&app, &caller, &scope, &request).await?))
}

/// A document to be ranked.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Document {
    Text(String),
    Object { text: String },
}

impl Document {
    fn text(&self) -> &str {
        match self {
            Self::Text(text) | Self::Object { text } => text,
        }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
struct RerankRequest {
    #[schemars(length(min = 1))]
    query: String,
    documents: Vec<Document>,
    /// Most results.
    top_n: Option<usize>,
    /// Accepted and not needed: the scope's scorer ranks.
    #[serde(default)]
    #[expect(dead_code, reason = "stock clients send it")]
    model: Option<String>,
    #[serde(default)]
    return_documents: bool,
    #[serde(flatten)]
    scope: ScopeFields,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Ranked {
    /// Place in `documents`.
    index: usize,
    /// From 0 to 1: 0.5 is no effect, more helps, less harms.
    relevance_score: f64,
    /// The predicted uplift of the document alone.
    predicted_uplift: f64,
    /// Whether it is in the set that search would return.
    selected: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    document: Option<RankedText>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct RankedText {
    text: String,
}

#[derive(Debug, Serialize, JsonSchema)]
struct RerankResponse {
    /// The retrieval; outcomes are reported against it.
    id: Id,
    /// What ranked.
    model: String,
    results: Vec<Ranked>,
}

async fn rerank(
    State(app): State<Shared>,
    caller: Caller,
    Body(request): Body<RerankRequest>,
) -> Result<Answer<RerankResponse>> {
    let scope = resolve(&app, &caller, request.scope.parts()?)?;
    if request.query.trim().is_empty() {
        return Err(ApiError::invalid("query", "it is empty"));
    }
    if request.documents.is_empty() {
        return Err(ApiError::invalid("documents", "there is none"));
    }
    check_count(&app, request.documents.len())?;
    let live = app.live.scope(&scope).await?;
    let brought: Vec<Brought> = request
        .documents
        .iter()
        .map(|document| Brought {
            id: None,
            text: document.text().to_owned(),
        })
        .collect();
    let places = live.bring(&brought).await?;
    let mut ids: Vec<MemoryId> = Vec::new();
    for id in places.iter().flatten() {
        if !ids.contains(id) {
            ids.push(*id);
        }
    }
    let retriever = live.retriever()?;
    let asked = RetrievalRequest {
        query: request.query.clone(),
        candidates: Some(ids.clone()),
        ..RetrievalRequest::default()
    };
    let values = retriever.alone(&asked.query, &ids).await?;
    let retrieval = retriever.retrieve(asked).await?;
    app.metrics.search(retrieval.abstained, retrieval.sets_scored);
    let mut results: Vec<Ranked> = places
        .iter()
        .enumerate()
        .filter_map(|(index, id)| {
            let id = (*id)?;
            let place = ids.iter().position(|known| *known == id)?;
            let predicted_uplift = values[place].0;
            Some((index, id, predicted_uplift, values[place].1))
        })
        .map(|(index, id, predicted_uplift, cosine)| Ranked {
            index,
            // A thousandth of the similarity orders what the scorer can not tell apart, and nothing else.
            relevance_score: 1.0 / (1.0 + (-4.0 * predicted_uplift - 1e-3 * cosine).exp()),
            predicted_uplift,
            selected: retrieval.memories.iter().any(|memory| memory.id == id),
            document: request.return_documents.then(|| RankedText {
                text: brought[index].text.clone(),
            }),
        })
        .collect();
    results.sort_by(|a, b| {
        let order = b.relevance_score.total_cmp(&a.relevance_score);
        order.then(a.index.cmp(&b.index))
    });
    results.truncate(request.top_n.unwrap_or(usize::MAX));
    Ok(Answer(RerankResponse {
        id: Id::of(retrieval.id),
        model: retrieval.scorer,
        results,
    }))
}

pub(super) fn routes() -> Vec<Route> {
    vec![
        post("/v1/memories/search", "search_memories", search)
            .about(
                "search",
                "Search the set of memories that helps with a task, if any does.",
            )
            .needs(Permission::Read)
            .takes::<SearchRequest>()
            .answers::<SearchResponse>(),
        post("/v1/rerank", "rerank", rerank)
            .about(
                "search",
                "Rank documents by what they are expected to do for a task.",
            )
            .needs(Permission::Write)
            .takes::<RerankRequest>()
            .answers::<RerankResponse>(),
    ]
}
