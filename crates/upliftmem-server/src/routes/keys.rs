//! Keys, and the scopes that a key reaches.

use axum::extract::State;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use upliftmem_store::{ApiKey, Permission, Timestamp};

use crate::{
    app::Shared,
    auth::{Caller, create_key, tenant_within},
    error::{ApiError, Code, Result},
    extract::{Answer, Asked, At, Body},
    scope::ScopeFields,
    table::{Route, delete, get, post},
    wire::{Page, ScopeView, moment},
};

#[derive(Debug, Serialize, JsonSchema)]
struct KeyView {
    id: String,
    name: String,
    permission: String,
    /// Every scope it reaches has these parts; none is every scope.
    tenant: ScopeView,
    created_at: String,
    revoked_at: Option<String>,
}

impl From<ApiKey> for KeyView {
    fn from(key: ApiKey) -> Self {
        Self {
            id: key.id,
            name: key.name,
            permission: key.permission.as_str().into(),
            tenant: (&key.tenant).into(),
            created_at: moment(key.created_at),
            revoked_at: key.revoked_at.map(moment),
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
struct KeysView {
    results: Vec<KeyView>,
}

async fn list(State(app): State<Shared>, caller: Caller) -> Result<Answer<KeysView>> {
    let mut keys = app.store().list_keys().await?;
    keys.retain(|key| tenant_within(&key.tenant, &caller.tenant));
    Ok(Answer(KeysView {
        results: keys.into_iter().map(Into::into).collect(),
    }))
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum PermissionWord {
    Read,
    Write,
    Admin,
}

impl From<PermissionWord> for Permission {
    fn from(word: PermissionWord) -> Self {
        match word {
            PermissionWord::Read => Self::Read,
            PermissionWord::Write => Self::Write,
            PermissionWord::Admin => Self::Admin,
        }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
struct KeyRequest {
    /// What to call it.
    #[schemars(length(min = 1, max = 256))]
    name: String,
    permission: PermissionWord,
    /// Every scope that it reaches has these parts; those of the calling key are always among them.
    #[serde(flatten)]
    scope: ScopeFields,
}

#[derive(Debug, Serialize, JsonSchema)]
struct NewKeyView {
    /// Shown once; only its hash is kept.
    key: String,
    #[serde(flatten)]
    view: KeyView,
}

async fn create(
    State(app): State<Shared>,
    caller: Caller,
    Body(request): Body<KeyRequest>,
) -> Result<Answer<NewKeyView>> {
    let mut tenant = request.scope.parts()?;
    let fixed = &caller.tenant;
    for (asked, fixed) in [
        (&mut tenant.user_id, &fixed.user_id),
        (&mut tenant.agent_id, &fixed.agent_id),
        (&mut tenant.run_id, &fixed.run_id),
        (&mut tenant.app_id, &fixed.app_id),
    ] {
        if asked.is_none() {
            asked.clone_from(fixed);
        }
    }
    if !tenant_within(&tenant, &caller.tenant) {
        return Err(ApiError::new(
            Code::ScopeForbidden,
            "a key can be made for what the calling key reaches only",
        ));
    }
    let made = create_key(
        app.store().as_ref(),
        &request.name,
        tenant,
        request.permission.into(),
    )
    .await;
    let (key, secret) = made.map_err(|error| ApiError::invalid("key", error))?;
    Ok(Answer(NewKeyView {
        key: secret,
        view: key.into(),
    }))
}

#[derive(Debug, Serialize, JsonSchema)]
struct Revoked {
    id: String,
    revoked: bool,
}

async fn revoke(State(app): State<Shared>, caller: Caller, At(id): At) -> Result<Answer<Revoked>> {
    let keys = app.store().list_keys().await?;
    let ours = keys
        .iter()
        .any(|key| key.id == id && tenant_within(&key.tenant, &caller.tenant));
    if !ours {
        return Err(ApiError::new(
            Code::NotFound,
            format_args!("there is no key {id:?}"),
        ));
    }
    let revoked = app.store().revoke_key(&id, Timestamp::now()).await?;
    app.keys.clear();
    Ok(Answer(Revoked { id, revoked }))
}

#[derive(Debug, Deserialize, JsonSchema)]
struct ScopesQuery {
    /// The `next` of the page before.
    after: Option<u64>,
    #[schemars(range(min = 1, max = 500))]
    limit: Option<usize>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ListedScope {
    #[serde(flatten)]
    scope: ScopeView,
    place: u64,
}

async fn scopes(
    State(app): State<Shared>,
    caller: Caller,
    Asked(query): Asked<ScopesQuery>,
) -> Result<Answer<Page<ListedScope>>> {
    let rows = app.rows(query.limit)?;
    let found = app
        .store()
        .scopes(&caller.tenant, query.after.unwrap_or(0), rows + 1)
        .await?;
    let views = found.into_iter().map(|(place, scope)| ListedScope {
        scope: scope.parts().into(),
        place,
    });
    Ok(Answer(Page::of(views.collect(), rows, |view| {
        view.place.to_string()
    })))
}

pub(super) fn routes() -> Vec<Route> {
    let (tag, admin) = ("keys", Permission::Admin);
    vec![
        get("/v1/keys", "list_keys", list)
            .about(tag, "List keys within what the calling key reaches.")
            .needs(admin)
            .answers::<KeysView>(),
        post("/v1/keys", "create_key", create)
            .about(tag, "Make a key; it is shown once.")
            .needs(admin)
            .not_kept()
            .takes::<KeyRequest>()
            .answers::<NewKeyView>(),
        delete("/v1/keys/{key_id}", "revoke_key", revoke)
            .about(tag, "Make a key invalid.")
            .needs(admin)
            .answers::<Revoked>(),
        get("/v1/scopes", "list_scopes", scopes)
            .about(
                tag,
                "List scopes in which anything was written, within what the key reaches.",
            )
            .needs(Permission::Read)
            .asks::<ScopesQuery>()
            .answers::<Page<ListedScope>>(),
    ]
}
