//! Who calls, and how the server that answers is set up.

use axum::extract::State;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};
use upliftmem_store::{Permission, Quota};

use crate::{
    app::Shared,
    auth::Caller,
    error::Result,
    extract::Answer,
    table::{Route, get},
    wire::ScopeView,
};

#[derive(Debug, Serialize, JsonSchema)]
struct CallerView {
    /// The key's id, or `anonymous`.
    id: String,
    permission: String,
    /// Every scope it reaches has these parts; none is every scope.
    tenant: ScopeView,
}

/// What a tenant may use, and what it has used; null is no limit.
#[derive(Debug, Serialize, JsonSchema)]
struct QuotaView {
    memories: u64,
    memories_max: Option<u64>,
    /// Executions that were asked for.
    executions: u64,
    executions_max: Option<u64>,
    /// Of all keys of the tenant together.
    requests_per_second: Option<f64>,
}

impl From<Quota> for QuotaView {
    fn from(quota: Quota) -> Self {
        Self {
            memories: quota.memories,
            memories_max: quota.limits.memories_max,
            executions: quota.executions,
            executions_max: quota.limits.executions_max,
            requests_per_second: quota.limits.requests_per_second,
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
struct SettingsView {
    version: String,
    /// Whether requests need a key.
    keys: bool,
    caller: CallerView,
    /// The quota of the caller's tenant, if it has one.
    quota: Option<QuotaView>,
    /// The scope of requests that name none; absent where they must name one.
    default_scope: Option<ScopeView>,
    /// How sets are searched for.
    retrieval: Map<String, Value>,
    /// How probes are bought.
    acquisition: Map<String, Value>,
    /// The cost at which nothing is saved.
    cost_max: f64,
    /// The name under which outcomes are compared.
    agent: String,
    /// Limits of requests.
    limits: Map<String, Value>,
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

async fn settings(State(app): State<Shared>, caller: Caller) -> Result<Answer<SettingsView>> {
    let (live, server) = (app.live.settings(), &app.settings);
    let default_scope = app.default_scope.as_ref().filter(|_| caller.anonymous);
    // What wider tenants have used is their own business.
    let mut quotas = app.store().quotas_over(&caller.tenant).await?.into_iter();
    let quota = quotas.find(|quota| quota.tenant == caller.tenant);
    Ok(Answer(SettingsView {
        version: env!("CARGO_PKG_VERSION").into(),
        keys: app.authenticated,
        quota: quota.map(Into::into),
        default_scope: default_scope.map(Into::into),
        retrieval: object(json!(live.retrieval)),
        acquisition: object(json!(live.acquisition)),
        cost_max: live.utility_cost_max,
        agent: live.agent.clone(),
        limits: object(json!({
            "body_bytes_max": server.body_bytes_max,
            "import_bytes_max": server.import_bytes_max,
            "batch_items_max": server.batch_items_max,
            "page_rows_max": server.page_rows_max,
            "requests_max": server.requests_max,
            "rate_per_second": server.rate_per_second,
            "timeout_seconds": server.timeout_seconds,
            "lease_seconds": server.lease_seconds,
        })),
        caller: CallerView {
            id: caller.id,
            permission: caller.permission.as_str().into(),
            tenant: (&caller.tenant).into(),
        },
    }))
}

pub(super) fn routes() -> Vec<Route> {
    vec![
        get("/v1/settings", "get_settings", settings)
            .about("settings", "Who calls, and how this server is set up.")
            .needs(Permission::Read)
            .answers::<SettingsView>(),
    ]
}
