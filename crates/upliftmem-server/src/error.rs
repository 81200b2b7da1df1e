//! What a caller is told when something goes wrong: a stable code, what is wrong and what to do, where to read more.

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use schemars::JsonSchema;
use serde::Serialize;
use upliftmem_core::InvalidInput;
use upliftmem_engine::Error as EngineError;
use upliftmem_store::Error as StoreError;

/// Shorthand for what handlers return.
pub(crate) type Result<T, E = ApiError> = std::result::Result<T, E>;

/// Where every code is explained.
const DOCS: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/docs/server.md#");

macro_rules! codes {
    ($($name:ident, $word:literal, $status:ident;)+) => {
        /// Every way in which a request can fail. Words never change their meaning.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Code { $(#[doc = $word] $name,)+ }

        impl Code {
            /// All codes.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// The word in the answer.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $word,)+ }
            }

            /// The status it comes with.
            pub const fn status(self) -> StatusCode {
                match self { $(Self::$name => StatusCode::$status,)+ }
            }
        }
    };
}

codes! {
    InvalidJson, "invalid_json", BAD_REQUEST;
    ScopeMissing, "scope_missing", BAD_REQUEST;
    Unauthorized, "unauthorized", UNAUTHORIZED;
    Forbidden, "forbidden", FORBIDDEN;
    QuotaExceeded, "quota_exceeded", FORBIDDEN;
    ScopeForbidden, "scope_forbidden", FORBIDDEN;
    HostForbidden, "host_forbidden", FORBIDDEN;
    NotFound, "not_found", NOT_FOUND;
    RouteNotFound, "route_not_found", NOT_FOUND;
    MethodNotAllowed, "method_not_allowed", METHOD_NOT_ALLOWED;
    Conflict, "conflict", CONFLICT;
    IdempotencyConflict, "idempotency_conflict", CONFLICT;
    GenerationMismatch, "generation_mismatch", CONFLICT;
    BodyTooLarge, "body_too_large", PAYLOAD_TOO_LARGE;
    UnsupportedMediaType, "unsupported_media_type", UNSUPPORTED_MEDIA_TYPE;
    InvalidRequest, "invalid_request", UNPROCESSABLE_ENTITY;
    LimitExceeded, "limit_exceeded", UNPROCESSABLE_ENTITY;
    RateLimited, "rate_limited", TOO_MANY_REQUESTS;
    Internal, "internal", INTERNAL_SERVER_ERROR;
    UpstreamFailed, "upstream_failed", BAD_GATEWAY;
    NotConfigured, "not_configured", NOT_IMPLEMENTED;
    Overloaded, "overloaded", SERVICE_UNAVAILABLE;
    Timeout, "timeout", SERVICE_UNAVAILABLE;
    Unavailable, "unavailable", SERVICE_UNAVAILABLE;
}

/// A failed request.
#[derive(Debug)]
pub(crate) struct ApiError {
    pub(crate) code: Code,
    pub(crate) message: String,
    /// Seconds after which the same request may succeed.
    pub(crate) retry_after: Option<u64>,
}

impl ApiError {
    pub(crate) fn new(code: Code, message: impl std::fmt::Display) -> Self {
        let retry = matches!(
            code,
            Code::Overloaded | Code::Timeout | Code::Unavailable | Code::RateLimited
        );
        Self {
            code,
            message: message.to_string(),
            retry_after: retry.then_some(1),
        }
    }

    pub(crate) fn invalid(what: &str, problem: impl std::fmt::Display) -> Self {
        Self::new(Code::InvalidRequest, format_args!("{what}: {problem}"))
    }

    /// A defect or a broken machine: the caller learns that, the log learns what.
    fn hidden(error: &dyn std::fmt::Display) -> Self {
        tracing::error!(%error, "a request failed");
        Self::new(
            Code::Internal,
            "something broke on the server; its log has this request's id with the reason",
        )
    }
}

/// What the body of a failed request looks like.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ErrorBody {
    error: ErrorDetail,
    /// The message once more, where clients of mem0 look for it.
    detail: String,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ErrorDetail {
    /// A word that never changes its meaning.
    code: String,
    /// What is wrong, and what to do.
    message: String,
    /// Where the code is explained.
    docs: String,
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let body = ErrorBody {
            detail: self.message.clone(),
            error: ErrorDetail {
                code: self.code.as_str().into(),
                message: self.message,
                docs: format!("{DOCS}{}", self.code.as_str()),
            },
        };
        let mut response = (self.code.status(), Json(body)).into_response();
        let headers = response.headers_mut();
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.code == Code::Unauthorized {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl From<InvalidInput> for ApiError {
    fn from(error: InvalidInput) -> Self {
        Self::new(Code::InvalidRequest, error)
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        let code = match &error {
            StoreError::Invalid(_) | StoreError::Import { .. } => Code::InvalidRequest,
            StoreError::Limit { .. } => Code::LimitExceeded,
            StoreError::Quota { .. } => Code::QuotaExceeded,
            StoreError::NotFound { .. } => Code::NotFound,
            StoreError::Conflict { .. } | StoreError::Deposed { .. } => Code::Conflict,
            StoreError::Generation { .. } => Code::GenerationMismatch,
            StoreError::Busy(_) => Code::Overloaded,
            StoreError::Unavailable(problem) => {
                tracing::error!(%problem, "the store can not be reached");
                return Self::new(Code::Unavailable, "the store can not be reached; try again");
            }
            StoreError::NewerSchema { .. }
            | StoreError::Corrupt(_)
            | StoreError::Database(_)
            | StoreError::File { .. } => return Self::hidden(&error),
        };
        Self::new(code, error)
    }
}

impl From<EngineError> for ApiError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Invalid(error) => error.into(),
            EngineError::Store(error) => error.into(),
            EngineError::Embedder(error) => {
                tracing::error!(%error, "the embedder failed");
                Self::new(Code::Unavailable, "the embedder failed; try again")
            }
            other => Self::hidden(&other),
        }
    }
}
