//! Whose data a request is about: what it says, within what its key allows.

use axum::{
    extract::{FromRequestParts, Query},
    http::{HeaderMap, request::Parts},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use upliftmem_store::{Scope, ScopeParts};

use crate::{
    app::Shared,
    auth::Caller,
    error::{ApiError, Code, Result},
};

/// The parts of a scope as a request gives them.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct ScopeFields {
    #[schemars(length(min = 1, max = 256))]
    pub(crate) user_id: Option<String>,
    #[schemars(length(min = 1, max = 256))]
    pub(crate) agent_id: Option<String>,
    #[schemars(length(min = 1, max = 256))]
    pub(crate) run_id: Option<String>,
    #[schemars(length(min = 1, max = 256))]
    pub(crate) app_id: Option<String>,
    /// The same as an object, or as `{"AND": [...]}`.
    pub(crate) filters: Option<Map<String, Value>>,
}

impl ScopeFields {
    /// The parts, from the fields or the filters; both may be given if they agree.
    pub(crate) fn parts(&self) -> Result<ScopeParts> {
        let mut parts = ScopeParts {
            user_id: self.user_id.clone(),
            agent_id: self.agent_id.clone(),
            run_id: self.run_id.clone(),
            app_id: self.app_id.clone(),
        };
        if let Some(filters) = &self.filters {
            take_filters(&mut parts, filters)?;
        }
        Ok(parts)
    }
}

fn take_filters(parts: &mut ScopeParts, filters: &Map<String, Value>) -> Result<()> {
    for (name, value) in filters {
        if name == "AND" {
            let list = value
                .as_array()
                .ok_or_else(|| ApiError::invalid("filters.AND", "it is not a list"))?;
            for filter in list {
                let filter = filter
                    .as_object()
                    .ok_or_else(|| ApiError::invalid("filters.AND", "an element is not an object"))?;
                // One level is what clients send; deeper nesting would mean alternatives.
                if filter.contains_key("AND") {
                    return Err(ApiError::invalid(
                        "filters.AND",
                        "it is nested; write one flat list",
                    ));
                }
                take_filters(parts, filter)?;
            }
            continue;
        }
        let slot = match name.as_str() {
            "user_id" => &mut parts.user_id,
            "agent_id" => &mut parts.agent_id,
            "run_id" => &mut parts.run_id,
            "app_id" => &mut parts.app_id,
            _ => {
                return Err(ApiError::invalid(
                    "filters",
                    format_args!("{name:?} is not one of user_id, agent_id, run_id, app_id and AND"),
                ));
            }
        };
        let value = match value {
            Value::Null => continue,
            Value::String(value) if value != "*" => value,
            _ => {
                return Err(ApiError::invalid(
                    &format!("filters.{name}"),
                    "it must be one exact text; there are no wildcards",
                ));
            }
        };
        if slot.as_ref().is_some_and(|before| before != value) {
            return Err(ApiError::invalid(name, "it is given twice, differently"));
        }
        *slot = Some(value.clone());
    }
    Ok(())
}

/// The parts of a scope that headers give, for callers whose bodies have a shape of their own.
pub(crate) fn header_parts(headers: &HeaderMap) -> ScopeParts {
    let part = |name: &str| {
        let value = headers.get(format!("x-upliftmem-{name}-id"))?.to_str().ok()?;
        Some(value.to_owned()).filter(|value| !value.is_empty())
    };
    ScopeParts {
        user_id: part("user"),
        agent_id: part("agent"),
        run_id: part("run"),
        app_id: part("app"),
    }
}

/// The scope of a request: every part that the key fixes, and what the request adds.
pub(crate) fn resolve(app: &Shared, caller: &Caller, asked: ScopeParts) -> Result<Scope> {
    let mut forbidden = None;
    let mut merge = |name: &'static str, fixed: &Option<String>, asked: Option<String>| {
        match (fixed, &asked) {
            (Some(fixed), Some(asked)) if fixed != asked => forbidden = Some(name),
            _ => {}
        }
        fixed.clone().or(asked)
    };
    let tenant = &caller.tenant;
    let parts = ScopeParts {
        user_id: merge("user_id", &tenant.user_id, asked.user_id),
        agent_id: merge("agent_id", &tenant.agent_id, asked.agent_id),
        run_id: merge("run_id", &tenant.run_id, asked.run_id),
        app_id: merge("app_id", &tenant.app_id, asked.app_id),
    };
    if let Some(name) = forbidden {
        return Err(ApiError::new(
            Code::ScopeForbidden,
            format_args!("this key reaches one {name} only, and it is another; leave {name} out"),
        ));
    }
    let parts = if parts != ScopeParts::default() {
        parts
    } else if let (true, Some(default)) = (caller.anonymous, &app.default_scope) {
        default.clone()
    } else {
        return Err(ApiError::new(
            Code::ScopeMissing,
            "no scope is given; give at least one of user_id, agent_id, run_id, app_id",
        ));
    };
    let scope = Scope::new(parts)?;
    // Whatever happened above: nothing outside the tenant is ever addressed.
    if !scope.within(tenant) {
        return Err(ApiError::new(Code::ScopeForbidden, "the scope is not this key's"));
    }
    Ok(scope)
}

/// The scope of a request that says it in its query string.
pub(crate) struct InScope(pub(crate) Scope);

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ScopeQuery {
    user_id: Option<String>,
    agent_id: Option<String>,
    run_id: Option<String>,
    app_id: Option<String>,
}

/// The parts of a scope that a query string gives.
pub(crate) fn query_parts(parts: &Parts) -> Result<ScopeParts> {
    let Query(query) = Query::<ScopeQuery>::try_from_uri(&parts.uri)
        .map_err(|error| ApiError::invalid("query", error.body_text()))?;
    Ok(ScopeParts {
        user_id: query.user_id,
        agent_id: query.agent_id,
        run_id: query.run_id,
        app_id: query.app_id,
    })
}

impl FromRequestParts<Shared> for InScope {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Shared) -> Result<Self> {
        let caller = Caller::of(parts)?;
        let asked = query_parts(parts)?;
        resolve(app, &caller, asked).map(Self)
    }
}
