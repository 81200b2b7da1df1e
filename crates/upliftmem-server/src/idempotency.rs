//! The same request sent twice is done once. Its answer is kept in the store for a day, so this holds across restarts and
//! replicas. It is a layer around every route that writes, so that no handler has to think of it.

use std::time::Duration;

use axum::{
    body::{Body, Bytes, to_bytes},
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use upliftmem_store::{AnswerKey, Claim, KeptAnswer, Timestamp};

use crate::{
    app::Shared,
    auth::Caller,
    error::{ApiError, Code, Result},
};

/// Bytes of a key.
const KEY_BYTES_MAX: usize = 255;
/// How long answers are kept.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);
/// Bytes of an answer that is kept; a larger one is given once.
const ANSWER_BYTES_MAX: usize = 8 << 20;
/// Says that an answer was given before.
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// What the body of a request says about its key, and whose it is: keys of different scopes are different ones.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Keyed {
    idempotency_key: Option<String>,
    user_id: Value,
    agent_id: Value,
    run_id: Value,
    app_id: Value,
}

impl Keyed {
    /// What is wrong with a body is for the handler to say.
    fn read(body: &Bytes) -> Self {
        serde_json::from_slice(body).unwrap_or_default()
    }

    fn scope(&self) -> String {
        json!([self.user_id, self.agent_id, self.run_id, self.app_id]).to_string()
    }
}

/// The key of a request, from its header or its body.
fn key_of(headers: &HeaderMap, body: &Bytes) -> Result<Option<String>> {
    let key = match headers.get("idempotency-key") {
        Some(value) => {
            let text = value.to_str().map_err(|_| {
                ApiError::invalid("Idempotency-Key", "it has characters that are not plain text")
            })?;
            Some(text.to_owned())
        }
        // Few bodies have one: most are not read twice.
        None if find(body, b"\"idempotency_key\"") => Keyed::read(body).idempotency_key,
        None => None,
    };
    if key
        .as_ref()
        .is_some_and(|key| key.is_empty() || key.len() > KEY_BYTES_MAX)
    {
        return Err(ApiError::invalid(
            "idempotency key",
            format_args!("it must have 1 to {KEY_BYTES_MAX} bytes"),
        ));
    }
    Ok(key)
}

fn find(bytes: &[u8], word: &[u8]) -> bool {
    bytes.windows(word.len()).any(|window| window == word)
}

/// Does a request, unless the same was done before: then its answer is given again.
pub(crate) async fn once(
    State((app, operation)): State<(Shared, &'static str)>,
    request: Request,
    next: Next,
) -> Response {
    match once_or_error(&app, operation, request, next).await {
        Ok(response) => response,
        Err(error) => error.into_response(),
    }
}

async fn once_or_error(app: &Shared, operation: &str, request: Request, next: Next) -> Result<Response> {
    let (parts, body) = request.into_parts();
    let most = app.settings.body_bytes_max;
    let body = to_bytes(body, most).await.map_err(|_| {
        ApiError::new(
            Code::BodyTooLarge,
            format_args!("the body is above body_bytes_max = {most}, or ended early"),
        )
    })?;
    let Some(key) = key_of(&parts.headers, &body)? else {
        return Ok(next.run(Request::from_parts(parts, Body::from(body))).await);
    };
    let caller = Caller::of(&parts)?;
    let tenant = serde_json::to_vec(&caller.tenant).unwrap_or_default();
    let (query, scope) = (parts.uri.query().unwrap_or_default(), Keyed::read(&body).scope());
    let whose = [caller.id.as_bytes(), &tenant, query.as_bytes(), scope.as_bytes()];
    let key = AnswerKey {
        key: hash(&[&whose[..], &[operation.as_bytes(), key.as_bytes()]].concat()),
        request: hash(&[parts.uri.path().as_bytes(), &body]),
    };
    let store = app.store();
    // Replicas whose clocks are apart must agree on what was abandoned.
    let now = store.clock().await?;
    // Nobody works longer on a request than twice its time.
    let abandoned = before(now, app.settings.timeout().max(Duration::from_secs(30)) * 2);
    match store.claim_answer(&key, now, abandoned).await? {
        Claim::Answered(answer) => return again(answer),
        Claim::OtherRequest => {
            return Err(ApiError::new(
                Code::IdempotencyConflict,
                "this idempotency key was used for another request; choose a new one",
            ));
        }
        Claim::Underway => {
            let mut error = ApiError::new(Code::Conflict, "the same request is being worked on; ask again");
            error.retry_after = Some(1);
            return Err(error);
        }
        Claim::Granted => {}
    }
    // Now and then whoever comes forgets what is old.
    if key.key[0] == 0 {
        store.forget_answers(before(now, KEPT)).await?;
    }
    let response = next.run(Request::from_parts(parts, Body::from(body))).await;
    kept(app, &key, response).await
}

/// Keeps an answer that is good, and gives the claim back after one that is not.
async fn kept(app: &Shared, key: &AnswerKey, response: Response) -> Result<Response> {
    let (parts, body) = response.into_parts();
    let body = to_bytes(body, ANSWER_BYTES_MAX).await.map_err(|error| {
        tracing::error!(%error, "an answer was not read");
        ApiError::new(
            Code::Internal,
            "the answer is too large to be kept; send no idempotency key",
        )
    })?;
    let answer = parts.status.is_success().then(|| KeptAnswer {
        status: parts.status.as_u16(),
        body: String::from_utf8_lossy(&body).into_owned(),
    });
    let now = app.store().clock().await?;
    app.store().settle_answer(key, now, answer).await?;
    Ok(Response::from_parts(parts, Body::from(body)))
}

/// An answer that was given before.
fn again(answer: KeptAnswer) -> Result<Response> {
    let status = StatusCode::from_u16(answer.status)
        .map_err(|_| ApiError::new(Code::Internal, "an answer was kept without its status"))?;
    let mut response = (status, answer.body).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(REPLAYED, HeaderValue::from_static("true"));
    Ok(response)
}

fn before(now: Timestamp, duration: Duration) -> Timestamp {
    let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    Timestamp::from_millis(now.millis().saturating_sub(millis))
}

fn hash(parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_comes_from_the_header_or_the_body() {
        let of = |header: Option<&'static str>, body: &'static str| {
            let mut headers = HeaderMap::new();
            if let Some(value) = header {
                headers.insert("idempotency-key", HeaderValue::from_static(value));
            }
            key_of(&headers, &Bytes::from_static(body.as_bytes()))
        };
        assert_eq!(of(None, "{}").unwrap(), None);
        assert_eq!(of(Some("a"), "").unwrap().as_deref(), Some("a"));
        assert_eq!(
            of(Some("a"), r#"{"idempotency_key": "b"}"#).unwrap().as_deref(),
            Some("a")
        );
        assert_eq!(
            of(None, r#"{"idempotency_key": "b"}"#).unwrap().as_deref(),
            Some("b")
        );
        assert_eq!(of(None, r#"{"idempotency_key": 1}"#).unwrap(), None);
        assert_eq!(of(None, r#"broken "idempotency_key""#).unwrap(), None);
        assert!(of(Some(""), "").is_err());
    }
}
