//! What needs no caller: health, metrics, and the documents that describe this server.

use axum::{
    Json, Router,
    extract::State,
    http::{HeaderName, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use serde_json::{Value, json};
use upliftmem_store::KeyHash;

use crate::{
    app::Shared,
    error::{ApiError, Code},
    traces::Traces,
};

/// No page of this server loads anything from elsewhere.
const POLICY: (HeaderName, &str) = (
    header::CONTENT_SECURITY_POLICY,
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; frame-ancestors 'none'",
);

async fn health() -> &'static str {
    "ok\n"
}

/// Ready once the store answers; says if a scorer version that was announced could not be taken over.
async fn ready(State(app): State<Shared>) -> Response {
    match app.store().find_key(&KeyHash::of("")).await {
        Ok(_) => match app.live.behind() {
            behind if behind.is_empty() => "ready\n".into_response(),
            // It answers, with what it had: taking it out of service would help nobody.
            behind => {
                let reasons: std::collections::BTreeSet<String> = behind.iter().cloned().collect();
                let reasons: Vec<String> = reasons.into_iter().take(5).collect();
                format!(
                    "ready, but {} scopes answer with an older scorer version: {}\n",
                    behind.len(),
                    reasons.join("; ")
                )
                .into_response()
            }
        },
        Err(error) => {
            tracing::warn!(%error, "not ready");
            ApiError::new(Code::Unavailable, "the store does not answer").into_response()
        }
    }
}

async fn metrics(State(app): State<Shared>) -> Response {
    let dropped = app.traces.as_ref().map_or(0, Traces::dropped);
    let waiting = app.store().waiting_tickets().await.unwrap_or_default();
    let text = app.metrics.text(app.live.kept_scopes(), waiting, dropped);
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response()
}

async fn docs() -> Response {
    let headers = [(header::CONTENT_TYPE, "text/html; charset=utf-8"), POLICY];
    (headers, include_str!("../docs/page.html")).into_response()
}

async fn docs_script() -> Response {
    let headers = [(header::CONTENT_TYPE, "text/javascript; charset=utf-8")];
    (headers, include_str!("../docs/page.js")).into_response()
}

async fn docs_style() -> Response {
    let headers = [(header::CONTENT_TYPE, "text/css; charset=utf-8")];
    (headers, include_str!("../docs/page.css")).into_response()
}

/// A route that does not exist.
pub(crate) async fn nowhere() -> Response {
    ApiError::new(
        Code::RouteNotFound,
        "there is no such route; /docs lists those there are",
    )
    .into_response()
}

/// A route that does not take this method.
pub(crate) async fn other_method() -> Response {
    let status = StatusCode::METHOD_NOT_ALLOWED;
    let mut response = ApiError::new(
        Code::MethodNotAllowed,
        "this route does not take this method; /docs lists those it takes",
    )
    .into_response();
    *response.status_mut() = status;
    response
}

/// The routes, given the document that describes the others.
pub(crate) fn router(openapi: Value) -> Router<Shared> {
    let document = std::sync::Arc::new(openapi);
    let version = json!({ "name": "upliftmem", "version": env!("CARGO_PKG_VERSION") });
    Router::new()
        .route("/healthz", get(health))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .route("/version", get(move || async move { Json(version) }))
        .route(
            "/openapi.json",
            get(move || async move { Json(Value::clone(&document)) }),
        )
        .route("/docs", get(docs))
        .route("/docs/page.js", get(docs_script))
        .route("/docs/page.css", get(docs_style))
}
