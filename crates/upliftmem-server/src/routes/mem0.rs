//! The paths that mem0's own clients call, answered in the shapes that they read.
//!
//! Their memories keep one id for life. Here a changed text is a new memory, so these routes speak of a memory by the
//! id of its first version and answer with its newest.

use axum::{Json, extract::State};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use upliftmem_core::MemoryId;
use upliftmem_store::{MemoryFilter, MemoryStatus, Permission, Scope, StoredMemory};

use super::{
    memories::{AddRequest, ChangeRequest, add_item, change_memory, versions},
    search::{SearchRequest, search_memories},
};
use crate::{
    app::Shared,
    auth::Caller,
    error::{ApiError, Code, Result},
    extract::{Asked, At, Body},
    scope::{InScope, ScopeFields, resolve},
    table::{Route, delete, get, post, put},
    wire::moment,
};

/// The id by which mem0's clients know a memory.
fn lasting_id(stored: &StoredMemory) -> String {
    let first = stored.provenance.get("first").and_then(Value::as_str);
    first.map_or_else(|| stored.memory.id.to_string(), ToOwned::to_owned)
}

fn view(stored: &StoredMemory, scope: &Scope, created_at: Option<String>) -> Value {
    let parts = scope.parts();
    let metadata = Some(&stored.memory.metadata).filter(|metadata| !metadata.is_empty());
    json!({
        "id": lasting_id(stored),
        "memory": stored.memory.text,
        "user_id": parts.user_id,
        "agent_id": parts.agent_id,
        "run_id": parts.run_id,
        "app_id": parts.app_id,
        "metadata": metadata,
        "categories": Value::Null,
        "created_at": created_at.unwrap_or_else(|| moment(stored.created_at)),
        "updated_at": moment(stored.updated_at.unwrap_or(stored.created_at)),
        "expiration_date": stored.expires_at.map(|end| moment(end)[..10].to_owned()),
    })
}

/// Every version of a memory that the caller reaches, and the scope it is in. Their clients name no scope with an id.
async fn chain_of(app: &Shared, caller: &Caller, id: &str) -> Result<(Scope, Vec<StoredMemory>)> {
    let missing = || ApiError::new(Code::NotFound, format_args!("Memory {id} not found"));
    let memory: MemoryId = id.parse().map_err(|_| missing())?;
    let scope = app.store().scope_of_memory(&caller.tenant, memory).await?;
    let scope = scope.ok_or_else(missing)?;
    let chain = versions(app, &scope, memory).await?;
    Ok((scope, chain))
}

fn newest(chain: &[StoredMemory]) -> Result<&StoredMemory> {
    chain
        .last()
        .ok_or_else(|| ApiError::new(Code::NotFound, "Memory not found"))
}

/// Their clients refuse to start without an organisation and a project: a key stands for both.
async fn ping(caller: Caller) -> Json<Value> {
    Json(json!({ "status": "ok", "user_email": null, "org_id": "upliftmem", "project_id": caller.id }))
}

async fn add(
    State(app): State<Shared>,
    caller: Caller,
    Body(mut request): Body<AddRequest>,
) -> Result<Json<Value>> {
    let scope = resolve(&app, &caller, request.scope.parts()?)?;
    // Their clients ask for distilling by default; what is stored here is what was said.
    request.item.infer = None;
    let answer = add_item(&app, &caller, &scope, request.item).await?;
    Ok(Json(json!(answer)))
}

async fn search(
    State(app): State<Shared>,
    caller: Caller,
    Body(request): Body<SearchRequest>,
) -> Result<Json<Value>> {
    let scope = resolve(&app, &caller, request.scope.parts()?)?;
    let answer = search_memories(&app, &caller, &scope, &request).await?;
    let ids: Vec<MemoryId> = answer
        .results
        .iter()
        .map(|found| found.id.parse())
        .collect::<Result<_>>()?;
    let stored = if ids.is_empty() {
        Vec::new()
    } else {
        app.store().memories(&scope, &ids).await?
    };
    let mut answer = json!(answer);
    if let Some(results) = answer["results"].as_array_mut() {
        for found in results {
            let own = stored
                .iter()
                .find(|stored| found["id"] == stored.memory.id.to_string());
            if let Some(own) = own {
                found["id"] = json!(lasting_id(own));
            }
        }
    }
    Ok(Json(answer))
}

#[derive(Debug, Deserialize, JsonSchema)]
struct PageQuery {
    /// Counted from 1.
    #[schemars(range(min = 1))]
    page: Option<usize>,
    #[schemars(range(min = 1))]
    page_size: Option<usize>,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct AllRequest {
    #[serde(flatten)]
    scope: ScopeFields,
}

async fn get_all(
    State(app): State<Shared>,
    caller: Caller,
    Asked(query): Asked<PageQuery>,
    Body(request): Body<AllRequest>,
) -> Result<Json<Value>> {
    let scope = resolve(&app, &caller, request.scope.parts()?)?;
    // Their clients may ask for more than a page has; they follow the links.
    let size = app.rows(query.page_size.map(|size| size.min(app.rows_max())))?;
    let page = query.page.unwrap_or(1);
    if page == 0 {
        return Err(ApiError::invalid("page", "the first is 1"));
    }
    let mut all = Vec::new();
    let mut after = None;
    loop {
        let filter = MemoryFilter {
            status: Some(MemoryStatus::Active),
            after,
        };
        let rows = app.store().list_memories(&scope, filter, 1_000).await?;
        let Some(last) = rows.last() else { break };
        after = Some(last.memory.id);
        all.extend(rows.iter().map(|stored| view(stored, &scope, None)));
    }
    let count = all.len();
    let from = (page - 1).saturating_mul(size).min(count);
    let results: Vec<Value> = all.drain(from..(from.saturating_add(size)).min(count)).collect();
    let link = |page: usize| format!("/v3/memories/?page={page}&page_size={size}");
    let next = (from + results.len() < count).then(|| link(page + 1));
    let previous = (page > 1).then(|| link(page - 1));
    Ok(Json(
        json!({ "count": count, "next": next, "previous": previous, "results": results }),
    ))
}

async fn read(State(app): State<Shared>, caller: Caller, At(id): At) -> Result<Json<Value>> {
    let (scope, chain) = chain_of(&app, &caller, &id).await?;
    let created_at = chain.first().map(|first| moment(first.created_at));
    Ok(Json(view(newest(&chain)?, &scope, created_at)))
}

async fn update(
    State(app): State<Shared>,
    caller: Caller,
    At(id): At,
    Body(request): Body<ChangeRequest>,
) -> Result<Json<Value>> {
    let (scope, chain) = chain_of(&app, &caller, &id).await?;
    let live = app.live.scope(&scope).await?;
    change_memory(&app, &caller, &live, newest(&chain)?.memory.id, request).await?;
    let (scope, chain) = chain_of(&app, &caller, &id).await?;
    let created_at = chain.first().map(|first| moment(first.created_at));
    Ok(Json(view(newest(&chain)?, &scope, created_at)))
}

async fn remove(State(app): State<Shared>, caller: Caller, At(id): At) -> Result<Json<Value>> {
    let (scope, chain) = chain_of(&app, &caller, &id).await?;
    let live = app.live.scope(&scope).await?;
    for version in chain {
        app.store().delete_memory(&scope, version.memory.id).await?;
        live.forget(version.memory.id);
    }
    Ok(Json(json!({ "message": "Memory deleted successfully!" })))
}

async fn remove_all(State(app): State<Shared>, InScope(scope): InScope) -> Result<Json<Value>> {
    let live = app.live.scope(&scope).await?;
    loop {
        let page = app
            .store()
            .list_memories(&scope, MemoryFilter::default(), 1_000)
            .await?;
        if page.is_empty() {
            return Ok(Json(json!({ "message": "Memories deleted successfully!" })));
        }
        for stored in page {
            app.store().delete_memory(&scope, stored.memory.id).await?;
            live.forget(stored.memory.id);
        }
    }
}

async fn history(State(app): State<Shared>, caller: Caller, At(id): At) -> Result<Json<Value>> {
    let (scope, chain) = chain_of(&app, &caller, &id).await?;
    let lasting = lasting_id(newest(&chain)?);
    let mut before = Value::Null;
    let mut events = Vec::with_capacity(chain.len());
    for version in &chain {
        let event = if before.is_null() { "ADD" } else { "UPDATE" };
        events.push(json!({
            "id": version.memory.id,
            "memory_id": lasting,
            "old_memory": before,
            "new_memory": version.memory.text,
            "event": event,
            "user_id": scope.parts().user_id,
            "metadata": version.memory.metadata,
            "created_at": moment(version.created_at),
            "updated_at": moment(version.updated_at.unwrap_or(version.created_at)),
        }));
        before = json!(version.memory.text);
    }
    Ok(Json(json!(events)))
}

async fn entities(State(app): State<Shared>, caller: Caller) -> Result<Json<Value>> {
    let rows = app.rows_max();
    let mut results = std::collections::BTreeSet::new();
    let mut after = 0;
    loop {
        let page = app.store().scopes(&caller.tenant, after, rows).await?;
        let Some((last, _)) = page.last() else { break };
        after = *last;
        for (_, scope) in page {
            let parts = scope.parts();
            let named = [
                ("user", &parts.user_id),
                ("agent", &parts.agent_id),
                ("run", &parts.run_id),
                ("app", &parts.app_id),
            ];
            let given = named
                .into_iter()
                .filter_map(|(kind, name)| Some((kind, name.clone()?)));
            results.extend(given);
        }
    }
    let results: Vec<Value> = results
        .into_iter()
        .map(|(kind, name)| json!({ "type": kind, "name": name, "id": name }))
        .collect();
    Ok(Json(
        json!({ "count": results.len(), "next": null, "previous": null, "results": results }),
    ))
}

pub(super) fn routes() -> Vec<Route> {
    let (tag, may_read, may_write) = ("mem0", Permission::Read, Permission::Write);
    let adds = |path, id| {
        post(path, id, add)
            .about(tag, "mem0: add.")
            .needs(may_write)
            .takes::<AddRequest>()
    };
    let searches = |path, id| {
        post(path, id, search)
            .about(tag, "mem0: search.")
            .needs(may_read)
            .takes::<SearchRequest>()
    };
    let lists = |path, id| {
        post(path, id, get_all)
            .about(tag, "mem0: get_all.")
            .needs(may_read)
            .asks::<PageQuery>()
            .takes::<AllRequest>()
    };
    vec![
        get("/v1/ping/", "mem0_ping", ping)
            .about(tag, "mem0: is the key valid?")
            .needs(may_read),
        adds("/v3/memories/add/", "mem0_add"),
        adds("/v1/memories/", "mem0_add_v1"),
        searches("/v3/memories/search/", "mem0_search"),
        searches("/v2/memories/search/", "mem0_search_v2"),
        lists("/v3/memories/", "mem0_get_all"),
        lists("/v2/memories/", "mem0_get_all_v2"),
        get("/v1/memories/{memory_id}/", "mem0_get", read)
            .about(tag, "mem0: get.")
            .needs(may_read),
        put("/v1/memories/{memory_id}/", "mem0_update", update)
            .about(tag, "mem0: update.")
            .needs(may_write)
            .takes::<ChangeRequest>(),
        delete("/v1/memories/{memory_id}/", "mem0_delete", remove)
            .about(tag, "mem0: delete.")
            .needs(may_write),
        delete("/v1/memories/", "mem0_delete_all", remove_all)
            .about(tag, "mem0: delete_all.")
            .needs(may_write)
            .scoped(),
        get("/v1/memories/{memory_id}/history/", "mem0_history", history)
            .about(tag, "mem0: history.")
            .needs(may_read),
        get("/v1/entities/", "mem0_users", entities)
            .about(tag, "mem0: users.")
            .needs(may_read),
    ]
}
