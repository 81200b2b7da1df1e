//! Retrievals that were answered, and why they were answered so.

use std::collections::BTreeMap;

use axum::extract::State;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use upliftmem_core::{MemoryId, RetrievalId, RolloutId};
use upliftmem_store::{EntryKind, JournalEntry, JournalFilter, Permission, RetrievalRecord, Timestamp};

use crate::{
    app::Shared,
    error::{ApiError, Code, Result},
    extract::{Answer, Asked, At},
    journal::JournalQuery,
    scope::InScope,
    table::{Route, get},
    wire::{Id, Page, moment},
};

#[derive(Debug, Serialize, JsonSchema)]
struct RetrievalView {
    id: Id,
    task_id: Option<Id>,
    query: String,
    memories: Vec<Id>,
    abstained: bool,
    predicted_uplift: f64,
    scorer: String,
    candidates: usize,
    at: String,
    sequence: u64,
}

impl RetrievalView {
    fn of(record: &RetrievalRecord, at: Timestamp, sequence: u64) -> Self {
        Self {
            id: Id::of(record.id),
            task_id: record.task.map(Id::of),
            query: record.query.clone(),
            memories: record.set.iter().map(Id::of).collect(),
            abstained: record.set.is_empty(),
            predicted_uplift: record.predicted_uplift.get(),
            scorer: record.scorer.clone(),
            candidates: record.pool.len(),
            at: moment(at),
            sequence,
        }
    }
}

async fn list(
    State(app): State<Shared>,
    InScope(scope): InScope,
    Asked(query): Asked<JournalQuery>,
) -> Result<Answer<Page<RetrievalView>>> {
    let (rows, found) = query.entries(&app, &scope, EntryKind::Retrieval).await?;
    let views = found.into_iter().filter_map(|found| match found.entry {
        JournalEntry::Retrieval(record) => Some(RetrievalView::of(&record, found.at, found.sequence)),
        _ => None,
    });
    Ok(Answer(Page::of(views.collect(), rows, |view| {
        view.sequence.to_string()
    })))
}

#[derive(Debug, Serialize, JsonSchema)]
struct OutcomeView {
    performance: f64,
    cost: f64,
    at: String,
    /// The label that it became, once the task has a reference.
    uplift: Option<f64>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Explanation {
    #[serde(flatten)]
    retrieval: RetrievalView,
    /// What each chosen memory added, in the order in which they were chosen.
    gains: Value,
    /// For each size of set: what was kept and the runners-up.
    steps: Value,
    /// Where the time went.
    timings: Value,
    /// Texts of the memories above that are still there.
    texts: BTreeMap<String, String>,
    outcome: Option<OutcomeView>,
    /// Everything else that was recorded.
    trace: Map<String, Value>,
}

async fn explain(
    State(app): State<Shared>,
    InScope(scope): InScope,
    At(id): At,
) -> Result<Answer<Explanation>> {
    let id: RetrievalId = id.parse()?;
    let store = app.store();
    let found = store.entry(&scope, EntryKind::Retrieval, &id.to_string()).await?;
    let Some((JournalEntry::Retrieval(mut record), at, sequence)) =
        found.map(|found| (found.entry, found.at, found.sequence))
    else {
        return Err(ApiError::new(
            Code::NotFound,
            format_args!("retrieval {id} is not in scope {scope}; check the id and the scope"),
        ));
    };
    let ids: Vec<MemoryId> = record.pool.candidates().iter().map(|found| found.id).collect();
    let stored = if ids.is_empty() {
        Vec::new()
    } else {
        store.memories(&scope, &ids).await?
    };
    let texts = stored
        .into_iter()
        .map(|found| (found.memory.id.to_string(), found.memory.text));
    let rollout = RolloutId::from_u128(id.as_u128());
    let report = store.report(&scope, rollout).await?;
    let mut outcome = report.map(|stored| OutcomeView {
        performance: stored.report.outcome.performance.get(),
        cost: stored.report.outcome.cost.get(),
        at: moment(stored.completed_at),
        uplift: None,
    });
    if let (Some(outcome), Some(task)) = (&mut outcome, record.task) {
        let filter = JournalFilter {
            kind: Some(EntryKind::Observation),
            task: Some(task),
            after: 0,
        };
        let rows = store.limits().page_rows_max;
        for found in store.list_entries(&scope, filter, rows).await? {
            if let JournalEntry::Observation(seen) = found.entry
                && seen.rollout == rollout
            {
                outcome.uplift = Some(seen.uplift.get());
            }
        }
    }
    let mut part = |name: &str| record.trace.remove(name).unwrap_or_default();
    let (gains, steps, timings) = (part("gains"), part("steps"), part("timings"));
    Ok(Answer(Explanation {
        gains,
        steps,
        timings,
        texts: texts.collect(),
        outcome,
        trace: std::mem::take(&mut record.trace),
        retrieval: RetrievalView::of(&record, at, sequence),
    }))
}

pub(super) fn routes() -> Vec<Route> {
    vec![
        get("/v1/retrievals", "list_retrievals", list)
            .about("retrievals", "List answered searches.")
            .needs(Permission::Read)
            .scoped()
            .asks::<JournalQuery>()
            .answers::<Page<RetrievalView>>(),
        get("/v1/retrievals/{retrieval_id}", "explain_retrieval", explain)
            .about(
                "retrievals",
                "Explain a search: gains, runners-up, timings, outcome.",
            )
            .needs(Permission::Read)
            .scoped()
            .answers::<Explanation>(),
    ]
}
