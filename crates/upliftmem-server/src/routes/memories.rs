//! Memories: add, read, change, retire, remove.

use std::sync::Arc;

use axum::extract::State;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use upliftmem_agent::Said;
use upliftmem_core::MemoryId;
use upliftmem_engine::{Distilling, LiveScope};
use upliftmem_store::{
    ItemStatus, MemoryChange, MemoryFilter, MemoryStatus, NewMemory, Permission, RecallMode, RecallQuery,
    Scope, StoredMemory, Timestamp,
};

use crate::{
    app::Shared,
    auth::Caller,
    error::{ApiError, Code, Result},
    extract::{Answer, Asked, At, Body},
    scope::{InScope, ScopeFields, resolve},
    table::{Route, delete, get, patch, post},
    wire::{Id, MemoryView, Page, moment, parse_ids, parse_moment},
};

/// One message of a conversation.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Message {
    #[serde(default = "user")]
    pub(crate) role: String,
    pub(crate) content: Content,
}

fn user() -> String {
    "user".into()
}

/// What a message says: a text, or parts of which the texts count.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Content {
    Text(String),
    Parts(Vec<Map<String, Value>>),
}

impl Content {
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Parts(parts) => {
                let texts = parts
                    .iter()
                    .filter_map(|part| part.get("text").and_then(Value::as_str));
                texts.collect::<Vec<_>>().join("\n")
            }
        }
    }
}

/// A memory to be written.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct NewItem {
    /// What it says; or `messages`.
    pub(crate) text: Option<String>,
    /// Each message but the system's becomes a memory, as it is.
    pub(crate) messages: Option<Vec<Message>>,
    pub(crate) metadata: Option<Map<String, Value>>,
    /// What sort of experience it is; `note` if not given.
    #[schemars(length(min = 1, max = 256))]
    pub(crate) kind: Option<String>,
    /// From when on it is not recalled: a day or an RFC 3339 moment.
    #[serde(alias = "expiration_date")]
    pub(crate) expires_at: Option<String>,
    /// The memory whose place it takes.
    pub(crate) supersedes: Option<Id>,
    /// Whether a model is to write down what of it is worth knowing, in the background. What was said is kept at once, out
    /// of recall. Needs a server with a writer.
    pub(crate) infer: Option<bool>,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct AddRequest {
    #[serde(flatten)]
    pub(crate) scope: ScopeFields,
    #[serde(flatten)]
    pub(crate) item: NewItem,
    /// The same key again gets the same answer; the header `Idempotency-Key` says the same of any request that writes.
    #[serde(rename = "idempotency_key")]
    pub(crate) _idempotency_key: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct BatchRequest {
    #[serde(flatten)]
    scope: ScopeFields,
    memories: Vec<NewItem>,
    #[serde(rename = "idempotency_key")]
    _idempotency_key: Option<String>,
}

/// What became of one memory.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Added {
    pub(crate) id: Id,
    pub(crate) memory: String,
    /// `ADD`, or `NONE` if nothing was written.
    pub(crate) event: String,
    /// `stored`, `duplicate`, `quarantined`, `failed`, or `queued` for what is to be distilled.
    pub(crate) status: String,
    /// Why it failed or is quarantined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct AddResponse {
    pub(crate) results: Vec<Added>,
}

/// The memories of an item, before they are written.
fn new_memories(app: &Shared, live: &LiveScope, caller: &Caller, item: NewItem) -> Result<Vec<NewMemory>> {
    let distilled = item.infer == Some(true);
    if distilled && app.distilling.is_none() {
        return Err(ApiError::invalid(
            "infer",
            "this server has no model to distil with: start it with [writer] kind = \"llm\" and [chat], or send infer = false",
        ));
    }
    let texts: Vec<(Option<String>, String)> = match (item.text, item.messages) {
        (Some(text), None) => vec![(None, text)],
        (None, Some(messages)) => messages
            .into_iter()
            .filter(|message| message.role != "system")
            .map(|message| (Some(message.role), message.content.text()))
            .collect(),
        (Some(_), Some(_)) => {
            return Err(ApiError::invalid(
                "text",
                "text and messages are both given; give one",
            ));
        }
        (None, None) => return Err(ApiError::invalid("text", "neither text nor messages is given")),
    };
    if texts.is_empty() {
        return Err(ApiError::invalid("messages", "there is none to remember"));
    }
    let expires_at = item
        .expires_at
        .map(|text| parse_moment("expires_at", &text))
        .transpose()?;
    let supersedes: Option<MemoryId> = item.supersedes.map(|id| id.parse()).transpose()?;
    if supersedes.is_some() && (texts.len() > 1 || distilled) {
        return Err(ApiError::invalid(
            "supersedes",
            "one memory takes the place of one; send one text, without infer",
        ));
    }
    if distilled {
        let said: Vec<Said> = texts
            .into_iter()
            .map(|(role, text)| Said {
                role: role.unwrap_or_else(user),
                text,
            })
            .collect();
        if said.iter().all(|said| said.text.trim().is_empty()) {
            return Err(ApiError::invalid("messages", "nothing is said in them"));
        }
        let mut record = Distilling::record(live.mint_memory(), &said);
        record.memory.metadata = item.metadata.unwrap_or_default();
        record.expires_at = expires_at;
        record.provenance.insert("by".into(), caller.id.as_str().into());
        return Ok(vec![record]);
    }
    let made = texts.into_iter().map(|(role, text)| {
        let mut new = NewMemory::note(live.mint_memory(), text);
        new.memory.metadata = item.metadata.clone().unwrap_or_default();
        new.kind = item.kind.clone().unwrap_or_else(|| "note".into());
        new.expires_at = expires_at;
        new.supersedes = supersedes;
        new.provenance.insert("by".into(), caller.id.as_str().into());
        if let Some(role) = role {
            new.provenance.insert("role".into(), role.into());
        }
        new
    });
    Ok(made.collect())
}

/// Writes memories with their vectors; says what became of each.
pub(crate) async fn write(app: &Shared, live: &LiveScope, new: Vec<NewMemory>) -> Result<Vec<Added>> {
    if new.len() > app.settings.batch_items_max {
        return Err(ApiError::new(
            Code::LimitExceeded,
            format_args!(
                "{} memories are above batch_items_max = {}; send fewer at once",
                new.len(),
                app.settings.batch_items_max
            ),
        ));
    }
    let texts: Vec<String> = new.iter().map(|new| new.memory.text.clone()).collect();
    // A text that can not be stored is not worth a vector, and its error is better than the embedder's.
    let limit = app.store().limits().text_bytes_max;
    let (fit, unfit): (Vec<NewMemory>, Vec<NewMemory>) = new.into_iter().partition(|new| {
        let text = &new.memory.text;
        !text.trim().is_empty() && text.len() <= limit
    });
    let mut batch = live.texts().with_vectors(fit).await?;
    batch.extend(unfit);
    batch.sort_by_key(|new| new.memory.id);
    let results = app
        .store()
        .add_memories(live.scope(), Timestamp::now(), batch)
        .await?;
    let added = results.into_iter().zip(texts).map(|(result, memory)| {
        let (event, status, id, error) = match result.status {
            ItemStatus::Stored => ("ADD", "stored", result.id, None),
            ItemStatus::Duplicate { of } => ("NONE", "duplicate", of, None),
            ItemStatus::Quarantined { reason } if Distilling::is_waiting(&reason) => {
                if let Some(distilling) = &app.distilling {
                    distilling.soon(live.scope(), result.id);
                }
                ("NONE", "queued", result.id, None)
            }
            ItemStatus::Quarantined { reason } => ("ADD", "quarantined", result.id, Some(reason)),
            ItemStatus::Failed { reason } => ("NONE", "failed", result.id, Some(reason)),
        };
        app.metrics.memory(status);
        Added {
            id: Id::of(id),
            memory,
            event: event.into(),
            status: status.into(),
            error,
        }
    });
    Ok(added.collect())
}

pub(crate) async fn add_item(
    app: &Shared,
    caller: &Caller,
    scope: &Scope,
    item: NewItem,
) -> Result<AddResponse> {
    let live = app.live.scope(scope).await?;
    let new = new_memories(app, &live, caller, item)?;
    Ok(AddResponse {
        results: write(app, &live, new).await?,
    })
}

async fn add(
    State(app): State<Shared>,
    caller: Caller,
    Body(request): Body<AddRequest>,
) -> Result<Answer<AddResponse>> {
    let scope = resolve(&app, &caller, request.scope.parts()?)?;
    Ok(Answer(add_item(&app, &caller, &scope, request.item).await?))
}

async fn add_batch(
    State(app): State<Shared>,
    caller: Caller,
    Body(request): Body<BatchRequest>,
) -> Result<Answer<AddResponse>> {
    let scope = resolve(&app, &caller, request.scope.parts()?)?;
    let live = app.live.scope(&scope).await?;
    let mut new = Vec::new();
    for (place, item) in request.memories.into_iter().enumerate() {
        let made = new_memories(&app, &live, &caller, item).map_err(|mut error| {
            error.message = format!("memories[{place}].{}", error.message);
            error
        })?;
        new.extend(made);
    }
    Ok(Answer(AddResponse {
        results: write(&app, &live, new).await?,
    }))
}

#[derive(Debug, Deserialize, JsonSchema)]
struct ListQuery {
    /// Only those with this status.
    status: Option<StatusWord>,
    /// Active ones with these words, the best match first, in one page. Nothing is recorded; agents use search.
    words: Option<String>,
    /// Only these, in one page: their ids, separated by commas.
    ids: Option<String>,
    /// The `next` of the page before.
    after: Option<Id>,
    /// Rows of the page.
    #[schemars(range(min = 1, max = 500))]
    limit: Option<usize>,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum StatusWord {
    Active,
    Quarantined,
    Superseded,
    Expired,
}

impl From<StatusWord> for MemoryStatus {
    fn from(word: StatusWord) -> Self {
        match word {
            StatusWord::Active => Self::Active,
            StatusWord::Quarantined => Self::Quarantined,
            StatusWord::Superseded => Self::Superseded,
            StatusWord::Expired => Self::Expired,
        }
    }
}

async fn list(
    State(app): State<Shared>,
    InScope(scope): InScope,
    Asked(query): Asked<ListQuery>,
) -> Result<Answer<Page<MemoryView>>> {
    let rows = app.rows(query.limit)?;
    if let Some(words) = query.words.filter(|words| !words.trim().is_empty()) {
        return Ok(Answer(Page {
            results: with_words(&app, &scope, words, rows).await?,
            next: None,
        }));
    }
    if let Some(ids) = query.ids.filter(|ids| !ids.is_empty()) {
        let ids: Vec<MemoryId> = parse_ids(&ids, rows)?;
        let found = app.store().memories(&scope, &ids).await?;
        let views = found
            .into_iter()
            .map(|stored| MemoryView::of(stored, scope.parts()));
        return Ok(Answer(Page {
            results: views.collect(),
            next: None,
        }));
    }
    let filter = MemoryFilter {
        status: query.status.map(Into::into),
        after: query.after.map(|id| id.parse()).transpose()?,
    };
    let found = app.store().list_memories(&scope, filter, rows + 1).await?;
    let views = found
        .into_iter()
        .map(|stored| MemoryView::of(stored, scope.parts()))
        .collect();
    Ok(Answer(Page::of(views, rows, |view| view.id.0.clone())))
}

/// Active memories by their words, the best match first.
async fn with_words(app: &Shared, scope: &Scope, words: String, rows: usize) -> Result<Vec<MemoryView>> {
    let store = app.store();
    let query = RecallQuery {
        text: words,
        embedding: None,
        candidates: rows.min(store.limits().recall_candidates_max),
        mode: RecallMode::Lexical,
    };
    let hits = store.recall(scope, Timestamp::now(), query).await?.hits;
    let ids: Vec<MemoryId> = hits.iter().map(|hit| hit.id).collect();
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let mut found = store.memories(scope, &ids).await?;
    found.sort_by_key(|stored| ids.iter().position(|id| *id == stored.memory.id));
    let views = found
        .into_iter()
        .map(|stored| MemoryView::of(stored, scope.parts()));
    Ok(views.collect())
}

/// A memory of the scope.
pub(crate) async fn stored(app: &Shared, scope: &Scope, id: MemoryId) -> Result<StoredMemory> {
    let found = app.store().memories(scope, &[id]).await?.pop();
    found.ok_or_else(|| {
        ApiError::new(
            Code::NotFound,
            format_args!("memory {id} is not in scope {scope}; check the id and the scope"),
        )
    })
}

async fn read(State(app): State<Shared>, InScope(scope): InScope, At(id): At) -> Result<Answer<MemoryView>> {
    let found = stored(&app, &scope, id.parse()?).await?;
    Ok(Answer(MemoryView::of(found, scope.parts())))
}

/// What changes; what is not given stays.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct ChangeRequest {
    /// A new text makes a new memory that supersedes this one: what was learned is about the old text.
    pub(crate) text: Option<String>,
    pub(crate) metadata: Option<Map<String, Value>>,
    /// A day, an RFC 3339 moment, or null for never.
    #[serde(alias = "expiration_date", deserialize_with = "given")]
    #[schemars(with = "Option<String>")]
    pub(crate) expires_at: Option<Option<String>>,
}

/// Tells a null from an absent field.
fn given<'de, D: serde::Deserializer<'de>>(
    input: D,
) -> std::result::Result<Option<Option<String>>, D::Error> {
    Option::<String>::deserialize(input).map(Some)
}

/// Changes a memory; the one that is current afterwards.
pub(crate) async fn change_memory(
    app: &Shared,
    caller: &Caller,
    live: &Arc<LiveScope>,
    id: MemoryId,
    request: ChangeRequest,
) -> Result<MemoryId> {
    let scope = live.scope();
    let before = stored(app, scope, id).await?;
    let expires_at = match request.expires_at {
        None => None,
        Some(None) => Some(None),
        Some(Some(text)) => Some(Some(parse_moment("expires_at", &text)?)),
    };
    let mut current = id;
    if let Some(text) = request.text.filter(|text| *text != before.memory.text) {
        if before.superseded_by.is_some() {
            return Err(ApiError::new(
                Code::Conflict,
                format_args!("memory {id} was superseded; change the one that took its place"),
            ));
        }
        let mut new = NewMemory::note(live.mint_memory(), text);
        new.memory.metadata = before.memory.metadata;
        new.memory.source_task = before.memory.source_task;
        new.kind = before.kind;
        new.expires_at = before.expires_at;
        new.supersedes = Some(id);
        let first = before.provenance.get("first").cloned();
        new.provenance.insert("by".into(), caller.id.as_str().into());
        new.provenance.insert("previous".into(), json!(id));
        new.provenance
            .insert("first".into(), first.unwrap_or_else(|| json!(id)));
        let added = write(app, live, vec![new]).await?.remove(0);
        match added.status.as_str() {
            "stored" | "quarantined" => current = added.id.parse()?,
            "duplicate" => {
                return Err(ApiError::new(
                    Code::Conflict,
                    format_args!(
                        "memory {} has this text already; supersede {id} by it",
                        added.id.0
                    ),
                ));
            }
            _ => return Err(ApiError::invalid("text", added.error.unwrap_or_default())),
        }
    }
    if request.metadata.is_some() || expires_at.is_some() {
        let change = MemoryChange {
            metadata: request.metadata,
            expires_at,
        };
        app.store()
            .change_memory(scope, Timestamp::now(), current, change)
            .await?;
    }
    Ok(current)
}

async fn change(
    State(app): State<Shared>,
    caller: Caller,
    InScope(scope): InScope,
    At(id): At,
    Body(request): Body<ChangeRequest>,
) -> Result<Answer<MemoryView>> {
    let live = app.live.scope(&scope).await?;
    let current = change_memory(&app, &caller, &live, id.parse()?, request).await?;
    let found = stored(&app, &scope, current).await?;
    Ok(Answer(MemoryView::of(found, scope.parts())))
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Removed {
    pub(crate) id: Id,
    pub(crate) message: String,
}

async fn remove(State(app): State<Shared>, InScope(scope): InScope, At(id): At) -> Result<Answer<Removed>> {
    let id: MemoryId = id.parse()?;
    stored(&app, &scope, id).await?;
    let live = app.live.scope(&scope).await?;
    app.store().delete_memory(&scope, id).await?;
    live.forget(id);
    Ok(Answer(Removed {
        id: Id::of(id),
        message: "Memory deleted.".into(),
    }))
}

#[derive(Debug, Deserialize, JsonSchema)]
struct SupersedeRequest {
    /// The memory that takes its place.
    by: Id,
}

async fn supersede(
    State(app): State<Shared>,
    InScope(scope): InScope,
    At(id): At,
    Body(request): Body<SupersedeRequest>,
) -> Result<Answer<MemoryView>> {
    let id: MemoryId = id.parse()?;
    let by = request.by.parse()?;
    app.store()
        .supersede_memory(&scope, Timestamp::now(), id, by)
        .await?;
    let found = stored(&app, &scope, id).await?;
    Ok(Answer(MemoryView::of(found, scope.parts())))
}

#[derive(Debug, Deserialize, JsonSchema)]
struct QuarantineRequest {
    /// Why it is kept out of recall.
    #[schemars(length(min = 1, max = 256))]
    reason: String,
}

async fn quarantine(
    State(app): State<Shared>,
    InScope(scope): InScope,
    At(id): At,
    Body(request): Body<QuarantineRequest>,
) -> Result<Answer<MemoryView>> {
    let id: MemoryId = id.parse()?;
    app.store()
        .quarantine_memory(&scope, Timestamp::now(), id, &request.reason)
        .await?;
    let found = stored(&app, &scope, id).await?;
    Ok(Answer(MemoryView::of(found, scope.parts())))
}

async fn release(
    State(app): State<Shared>,
    InScope(scope): InScope,
    At(id): At,
) -> Result<Answer<MemoryView>> {
    let id: MemoryId = id.parse()?;
    app.store().release_memory(&scope, Timestamp::now(), id).await?;
    let found = stored(&app, &scope, id).await?;
    Ok(Answer(MemoryView::of(found, scope.parts())))
}

/// One text that a memory had.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Version {
    pub(crate) id: Id,
    pub(crate) memory: String,
    pub(crate) created_at: String,
    /// `active`, `superseded`, ...
    pub(crate) status: String,
}

/// Every version of a memory, the oldest first: forward along what superseded it, back along what it came from.
pub(crate) async fn versions(app: &Shared, scope: &Scope, id: MemoryId) -> Result<Vec<StoredMemory>> {
    /// More than any memory is changed; ends circles.
    const STEPS_MAX: usize = 1_000;
    let mut newest = stored(app, scope, id).await?;
    for _ in 0..STEPS_MAX {
        let Some(by) = newest.superseded_by else { break };
        match app.store().memories(scope, &[by]).await?.pop() {
            Some(next) => newest = next,
            None => break,
        }
    }
    let mut chain = vec![newest];
    while chain.len() < STEPS_MAX {
        let previous = chain[chain.len() - 1]
            .provenance
            .get("previous")
            .and_then(Value::as_str);
        let Some(previous) = previous.and_then(|id| id.parse::<MemoryId>().ok()) else {
            break;
        };
        match app.store().memories(scope, &[previous]).await?.pop() {
            Some(found) => chain.push(found),
            None => break,
        }
    }
    chain.reverse();
    Ok(chain)
}

#[derive(Debug, Serialize, JsonSchema)]
struct History {
    /// The oldest first.
    results: Vec<Version>,
}

async fn history(State(app): State<Shared>, InScope(scope): InScope, At(id): At) -> Result<Answer<History>> {
    let chain = versions(&app, &scope, id.parse()?).await?;
    let results = chain.into_iter().map(|found| Version {
        id: Id::of(found.memory.id),
        memory: found.memory.text,
        created_at: moment(found.created_at),
        status: found.status.as_str().into(),
    });
    Ok(Answer(History {
        results: results.collect(),
    }))
}

pub(super) fn routes() -> Vec<Route> {
    let tag = "memories";
    let (read_it, write_it) = (Permission::Read, Permission::Write);
    vec![
        post("/v1/memories", "add_memory", add)
            .about(tag, "Add a memory, or one for each message.")
            .needs(write_it)
            .takes::<AddRequest>()
            .answers::<AddResponse>(),
        post("/v1/memories/batch", "add_memories", add_batch)
            .about(tag, "Add many memories in one transaction.")
            .needs(write_it)
            .takes::<BatchRequest>()
            .answers::<AddResponse>(),
        get("/v1/memories", "list_memories", list)
            .about(tag, "List memories in creation order.")
            .needs(read_it)
            .scoped()
            .asks::<ListQuery>()
            .answers::<Page<MemoryView>>(),
        get("/v1/memories/{memory_id}", "get_memory", read)
            .about(tag, "Get a memory.")
            .needs(read_it)
            .scoped()
            .answers::<MemoryView>(),
        patch("/v1/memories/{memory_id}", "update_memory", change)
            .about(
                tag,
                "Change a memory; a new text makes a new one that supersedes it.",
            )
            .needs(write_it)
            .scoped()
            .takes::<ChangeRequest>()
            .answers::<MemoryView>(),
        delete("/v1/memories/{memory_id}", "delete_memory", remove)
            .about(tag, "Remove a memory for good. What was learned about it stays.")
            .needs(write_it)
            .scoped()
            .answers::<Removed>(),
        post(
            "/v1/memories/{memory_id}/supersede",
            "supersede_memory",
            supersede,
        )
        .about(tag, "Mark a memory as replaced by another.")
        .needs(write_it)
        .scoped()
        .takes::<SupersedeRequest>()
        .answers::<MemoryView>(),
        post(
            "/v1/memories/{memory_id}/quarantine",
            "quarantine_memory",
            quarantine,
        )
        .about(tag, "Keep a memory from being recalled.")
        .needs(write_it)
        .scoped()
        .takes::<QuarantineRequest>()
        .answers::<MemoryView>(),
        post("/v1/memories/{memory_id}/release", "release_memory", release)
            .about(tag, "Let a quarantined memory be recalled again.")
            .needs(write_it)
            .scoped()
            .answers::<MemoryView>(),
        get("/v1/memories/{memory_id}/history", "memory_history", history)
            .about(tag, "Every text that a memory had, the oldest first.")
            .needs(read_it)
            .scoped()
            .answers::<History>(),
    ]
}
