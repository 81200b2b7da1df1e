//! `/v1/chat/completions`: an existing agent gets memories by changing its base URL.

use axum::{
    body::Body as AxumBody,
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use upliftmem_store::{Permission, ScopeParts};

use super::{
    memories::Message,
    search::{SearchRequest, search_memories},
};
use crate::{
    app::Shared,
    auth::Caller,
    error::{ApiError, Code, Result},
    extract::Body,
    fence::memory_block,
    scope::{ScopeFields, header_parts, resolve},
    table::{Route, post},
};

/// What is forwarded, whatever else it has.
#[derive(Debug, Deserialize, JsonSchema)]
struct ChatRequest {
    messages: Vec<Map<String, Value>>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

fn header_text(headers: &HeaderMap, name: &str) -> Option<String> {
    let value = headers.get(name)?.to_str().ok()?;
    Some(value.to_owned()).filter(|value| !value.is_empty())
}

/// Whose memories: named by headers, or by the `user` that the agent sends anyway.
fn asked_scope(headers: &HeaderMap, caller: &Caller, rest: &Map<String, Value>) -> ScopeParts {
    let mut parts = header_parts(headers);
    if parts == ScopeParts::default() && caller.tenant.user_id.is_none() {
        parts.user_id = rest.get("user").and_then(Value::as_str).map(ToOwned::to_owned);
    }
    parts
}

/// What the user said last.
fn last_question(messages: &[Map<String, Value>]) -> Option<String> {
    let last = messages
        .iter()
        .rev()
        .find(|message| message.get("role") == Some(&json!("user")))?;
    let message: Message = serde_json::from_value(Value::Object(last.clone())).ok()?;
    Some(message.content.text()).filter(|text| !text.trim().is_empty())
}

/// Puts a block of memories after the instructions and before the conversation.
fn inject(messages: &mut Vec<Map<String, Value>>, block: &str) {
    let instructions = messages.iter().take_while(|message| {
        matches!(
            message.get("role").and_then(Value::as_str),
            Some("system" | "developer")
        )
    });
    let place = instructions.count();
    let message = json!({ "role": "system", "content": block });
    if let Value::Object(message) = message {
        messages.insert(place, message);
    }
}

async fn complete(
    State(app): State<Shared>,
    caller: Caller,
    headers: HeaderMap,
    Body(mut request): Body<ChatRequest>,
) -> Result<Response> {
    let Some(upstream) = app.upstream.clone() else {
        return Err(ApiError::new(
            Code::NotConfigured,
            "no upstream is configured; set server.upstream_url to an OpenAI-compatible address",
        ));
    };
    let mut retrieval = None;
    if let Some(query) = last_question(&request.messages) {
        let scope = resolve(&app, &caller, asked_scope(&headers, &caller, &request.rest))?;
        let asked = SearchRequest {
            query,
            scope: ScopeFields::default(),
            task: header_text(&headers, "x-upliftmem-task"),
            top_k: None,
            candidates: None,
            token_budget: None,
            budget_ms: None,
            explain: false,
        };
        let found = search_memories(&app, &caller, &scope, &asked).await?;
        let block = memory_block(found.results.iter().map(|found| found.memory.as_str()));
        if !block.is_empty() {
            inject(&mut request.messages, &block);
        }
        retrieval = Some((found.retrieval_id.0, found.abstained));
    }
    let mut body = request.rest;
    body.insert("messages".into(), json!(request.messages));
    // The key of this server is nobody else's business.
    let own = (!app.authenticated)
        .then(|| header_text(&headers, header::AUTHORIZATION.as_str()))
        .flatten();
    let forwarded = upstream
        .chat(Value::Object(body).to_string().into_bytes(), own)
        .await?;
    let mut chunks = forwarded.chunks;
    let stream = futures_util::stream::poll_fn(move |context| chunks.poll_recv(context));
    let status = StatusCode::from_u16(forwarded.status).unwrap_or(StatusCode::BAD_GATEWAY);
    let mut response = (status, AxumBody::from_stream(stream)).into_response();
    let answer = response.headers_mut();
    if let Ok(value) = HeaderValue::from_str(&forwarded.content_type) {
        answer.insert(header::CONTENT_TYPE, value);
    }
    if let Some((id, abstained)) = retrieval {
        if let Ok(value) = HeaderValue::from_str(&id) {
            answer.insert("x-upliftmem-retrieval-id", value);
        }
        let word = if abstained { "true" } else { "false" };
        answer.insert("x-upliftmem-abstained", HeaderValue::from_static(word));
    }
    Ok(response)
}

pub(super) fn routes() -> Vec<Route> {
    vec![
        post("/v1/chat/completions", "chat_completions", complete)
            .about(
                "chat",
                "Retrieve for the last user message, inject, and forward to the configured upstream.",
            )
            .needs(Permission::Read)
            .unhurried()
            .not_kept()
            .takes::<ChatRequest>(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(list: Value) -> Vec<Map<String, Value>> {
        serde_json::from_value(list).unwrap()
    }

    #[test]
    fn memories_go_between_the_instructions_and_the_conversation() {
        let mut list = messages(json!([
            { "role": "system", "content": "be kind" },
            { "role": "user", "content": [{ "type": "text", "text": "where is the mug?" }] },
            { "role": "assistant", "content": "hm" },
        ]));
        assert_eq!(last_question(&list).as_deref(), Some("where is the mug?"));
        inject(&mut list, "block");
        assert_eq!(list[1]["content"], "block");
        assert_eq!(list[2]["role"], "user");
    }

    #[test]
    fn without_a_question_nothing_is_searched() {
        for list in [
            json!([]),
            json!([{ "role": "system", "content": "x" }]),
            json!([{ "role": "user", "content": " " }]),
            json!([{ "role": "user", "content": 3 }]),
        ] {
            assert_eq!(last_question(&messages(list)), None);
        }
    }
}
