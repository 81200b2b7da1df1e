//! UpliftMem over HTTP.
//!
//! [`router`] answers; [`listen`] puts it on a socket. Handlers translate between requests and
//! [`upliftmem_engine::Live`], and decide nothing themselves.

mod app;
mod auth;
mod dashboard;
mod error;
mod extract;
mod fence;
mod idempotency;
mod inflow;
mod jobs;
mod journal;
mod limits;
mod listen;
mod mcp;
mod metrics;
mod openapi;
mod routes;
mod scope;
mod settings;
mod table;
mod traces;
mod upstream;
mod wire;

use std::sync::Arc;

use axum::{
    Router,
    extract::DefaultBodyLimit,
    http::{HeaderValue, Method, header},
    middleware::from_fn_with_state,
};
use serde_json::Value;

pub use app::{App, Setup};
pub use auth::{KeyError, create_key};
pub use error::Code;
pub use fence::memory_block;
pub use listen::{Listening, TlsFiles, bind, listen};
pub use mcp::serve_stdio;
pub use settings::{AuthMode, ServerSettings, ToolChoice};

/// The OpenAPI document of every route that needs a caller.
pub fn openapi() -> Value {
    openapi::document(&routes::all())
}

/// Everything that can be asked.
pub fn router(app: &Arc<App>) -> Router {
    let routes = routes::all();
    let document = openapi::document(&routes);
    let router = table::router(app, routes)
        .merge(mcp::router(app))
        .merge(routes::system::router(document))
        .merge(dashboard::router())
        .fallback(dashboard::page_or_nowhere)
        .method_not_allowed_fallback(routes::system::other_method);
    router
        .layer(DefaultBodyLimit::max(app.settings.body_bytes_max))
        .layer(from_fn_with_state(Arc::clone(app), cors))
        .layer(from_fn_with_state(Arc::clone(app), limits::admit))
        .with_state(Arc::clone(app))
}

/// Lets the configured origins call from a browser; without any, does nothing.
async fn cors(
    axum::extract::State(app): axum::extract::State<Arc<App>>,
    request: axum::extract::Request,
    next: axum::middleware::Next,
) -> axum::response::Response {
    let origin = request.headers().get(header::ORIGIN).cloned();
    let allowed = origin.filter(|origin| {
        let origins = &app.settings.cors_origins;
        origins
            .iter()
            .any(|allowed| allowed.as_bytes() == origin.as_bytes())
    });
    let Some(origin) = allowed else {
        return next.run(request).await;
    };
    let mut response = if request.method() == Method::OPTIONS {
        axum::response::Response::default()
    } else {
        next.run(request).await
    };
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(header::VARY, HeaderValue::from_static("origin"));
    headers.insert(
        header::ACCESS_CONTROL_ALLOW_METHODS,
        HeaderValue::from_static("GET, POST, PUT, PATCH, DELETE"),
    );
    headers.insert(
        header::ACCESS_CONTROL_ALLOW_HEADERS,
        HeaderValue::from_static("authorization, content-type, idempotency-key, x-request-id"),
    );
    headers.insert(
        header::ACCESS_CONTROL_EXPOSE_HEADERS,
        HeaderValue::from_static(
            "x-request-id, x-upliftmem-retrieval-id, x-upliftmem-abstained, retry-after",
        ),
    );
    response
}
