//! Scorer versions and learning.

use axum::extract::State;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use upliftmem_engine::ActiveVersion;
use upliftmem_store::{EntryKind, JournalEntry, Permission};

use crate::{
    app::Shared,
    auth::Caller,
    error::{ApiError, Code, Result},
    extract::{Answer, Asked, Body},
    journal::JournalQuery,
    scope::{InScope, ScopeFields, resolve},
    table::{Route, get, post},
    wire::{Page, moment},
};

#[derive(Debug, Serialize, JsonSchema)]
struct ActiveView {
    /// Labels that it rests on.
    version: u64,
    /// Labels there are.
    labels: u64,
    /// Whether it was chosen by hand and stays until another choice.
    pinned: bool,
}

impl From<ActiveVersion> for ActiveView {
    fn from(active: ActiveVersion) -> Self {
        Self {
            version: active.version,
            labels: active.labels,
            pinned: active.pinned,
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
struct VersionView {
    /// `compact`, or a training run's name before it.
    name: String,
    version: u64,
    /// A hash of all that decides its values.
    digest: String,
    metrics: Map<String, Value>,
    /// When it was first served.
    at: String,
    /// Whether it can be activated here: versions of training runs can not.
    servable: bool,
    sequence: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
struct VersionsView {
    active: ActiveView,
    #[serde(flatten)]
    page: Page<VersionView>,
}

async fn versions(
    State(app): State<Shared>,
    InScope(scope): InScope,
    Asked(query): Asked<JournalQuery>,
) -> Result<Answer<VersionsView>> {
    let live = app.live.scope(&scope).await?;
    let (rows, found) = query.entries(&app, &scope, EntryKind::ScorerVersion).await?;
    let views = found.into_iter().filter_map(|found| match found.entry {
        JournalEntry::ScorerVersion(record) => Some(VersionView {
            servable: !record.name.contains('/'),
            name: record.name,
            version: record.version,
            digest: record.digest,
            metrics: record.metrics,
            at: moment(found.at),
            sequence: found.sequence,
        }),
        _ => None,
    });
    Ok(Answer(VersionsView {
        active: live.active().into(),
        page: Page::of(views.collect(), rows, |view| view.sequence.to_string()),
    }))
}

#[derive(Debug, Deserialize, JsonSchema)]
struct ActivateRequest {
    #[serde(flatten)]
    scope: ScopeFields,
    /// The version that answers from now on; null follows the labels again.
    version: Option<u64>,
}

async fn activate(
    State(app): State<Shared>,
    caller: Caller,
    Body(request): Body<ActivateRequest>,
) -> Result<Answer<ActiveView>> {
    let scope = resolve(&app, &caller, request.scope.parts()?)?;
    let live = app.live.scope(&scope).await?;
    Ok(Answer(live.activate(request.version).await?.into()))
}

#[derive(Debug, Deserialize, JsonSchema)]
struct ScopeRequest {
    #[serde(flatten)]
    scope: ScopeFields,
}

async fn roll_back(
    State(app): State<Shared>,
    caller: Caller,
    Body(request): Body<ScopeRequest>,
) -> Result<Answer<ActiveView>> {
    let scope = resolve(&app, &caller, request.scope.parts()?)?;
    let live = app.live.scope(&scope).await?;
    let active = live.active().version;
    let mut before = None;
    let mut after = 0;
    loop {
        let page = live.versions(after, app.store().limits().page_rows_max).await?;
        let Some(last) = page.last() else { break };
        after = last.sequence;
        let served = page.iter().filter(|found| !found.record.name.contains('/'));
        let earlier = served
            .map(|found| found.record.version)
            .filter(|&version| version < active);
        before = before.max(earlier.max());
    }
    let Some(version) = before else {
        return Err(ApiError::new(
            Code::Conflict,
            "there is no earlier version to go back to",
        ));
    };
    Ok(Answer(live.activate(Some(version)).await?.into()))
}

#[derive(Debug, Serialize, JsonSchema)]
struct TrainingView {
    active: ActiveView,
    /// Whether it is learning now.
    learning: bool,
    /// How often it learned since the scope is in memory.
    refits: u64,
}

async fn status(State(app): State<Shared>, InScope(scope): InScope) -> Result<Answer<TrainingView>> {
    let live = app.live.scope(&scope).await?;
    Ok(Answer(TrainingView {
        active: live.active().into(),
        learning: live.learning(),
        refits: live.refits(),
    }))
}

async fn refit(
    State(app): State<Shared>,
    caller: Caller,
    Body(request): Body<ScopeRequest>,
) -> Result<Answer<TrainingView>> {
    let scope = resolve(&app, &caller, request.scope.parts()?)?;
    let live = app.live.scope(&scope).await?;
    let active = live.catch_up().await?;
    Ok(Answer(TrainingView {
        active: active.into(),
        learning: live.learning(),
        refits: live.refits(),
    }))
}

pub(super) fn routes() -> Vec<Route> {
    let (tag, read, admin) = ("training", Permission::Read, Permission::Admin);
    vec![
        get("/v1/scorers", "list_scorers", versions)
            .about(tag, "List scorer versions and the one that answers.")
            .needs(read)
            .scoped()
            .asks::<JournalQuery>()
            .answers::<VersionsView>(),
        post("/v1/scorers/activate", "activate_scorer", activate)
            .about(
                tag,
                "Answer with one version until another choice, or follow the labels again.",
            )
            .needs(admin)
            .takes::<ActivateRequest>()
            .answers::<ActiveView>(),
        post("/v1/scorers/rollback", "roll_back_scorer", roll_back)
            .about(tag, "Answer with the version before the one that answers now.")
            .needs(admin)
            .takes::<ScopeRequest>()
            .answers::<ActiveView>(),
        get("/v1/training", "training_status", status)
            .about(tag, "What the scorer rests on, and whether it is learning.")
            .needs(read)
            .scoped()
            .answers::<TrainingView>(),
        post("/v1/training/refit", "refit", refit)
            .about(tag, "Learn everything there is, now.")
            .needs(admin)
            .takes::<ScopeRequest>()
            .answers::<TrainingView>(),
    ]
}
