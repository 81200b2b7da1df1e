//! Every route of the OpenAPI document, tried with another tenant's key and with the owner's ids: a new route is
//! tried the day it is written.
#![allow(clippy::unwrap_used)]

mod support;

use std::collections::BTreeSet;

use axum::http::StatusCode;
use serde_json::{Map, Value, json};
use support::{Server, Wanted, server};
use upliftmem_store::{ExportKind, Permission, Scope};

/// A word that is in everything of the owner's and in nothing of the stranger's.
const SECRET: &str = "xyzzy-secret";

/// The owner's things, by the name of the path parameter or field that takes them.
struct Owned(Map<String, Value>);

async fn fill(server: &Server, key: &str) -> Owned {
    let post = async |path: &str, body: Value| server.call("POST", path, Some(key), Some(&body)).await.ok();
    let added = post("/v1/memories", json!({ "text": format!("{SECRET} memory") })).await;
    let memory = added["results"][0]["id"].clone();
    let other = post("/v1/memories", json!({ "text": format!("{SECRET} other") })).await;
    post(
        "/v1/tasks",
        json!({ "tasks": [{ "id": SECRET, "context": format!("{SECRET} task") }] }),
    )
    .await;
    let search = post(
        "/v1/memories/search",
        json!({ "query": format!("{SECRET} query") }),
    )
    .await;
    let retrieval = search["retrieval_id"].clone();
    post(
        "/v1/outcomes",
        json!({ "retrieval_id": retrieval, "performance": 1.0 }),
    )
    .await;
    post("/v1/references", json!({ "task": SECRET })).await;
    let queue = server.call("GET", "/v1/probes", Some(key), None).await.ok();
    let waiting = queue["results"]
        .as_array()
        .unwrap()
        .iter()
        .find(|ticket| ticket["state"] == "waiting");
    let rollout = waiting.unwrap()["rollout_id"].clone();
    // What the owner's outcome teaches is written in the background; it is not to be mistaken for a stranger's work.
    post("/v1/training/refit", json!({})).await;
    let made = post("/v1/keys", json!({ "name": SECRET, "permission": "read" })).await;
    let own = [
        ("memory_id", memory.clone()),
        ("by", other["results"][0]["id"].clone()),
        ("supersedes", memory),
        ("retrieval_id", retrieval),
        ("rollout_id", rollout),
        ("task", json!(SECRET)),
        ("key_id", made["id"].clone()),
    ];
    Owned(
        own.into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
    )
}

/// Everything of a scope that can be exported, as one text.
async fn everything(server: &Server, scope: &Scope) -> String {
    let mut all = String::new();
    for kind in [
        ExportKind::Memories,
        ExportKind::Tasks,
        ExportKind::Executions,
        ExportKind::Tickets,
        ExportKind::Journal,
    ] {
        let file = tempfile::NamedTempFile::new().unwrap();
        let sink = Box::new(file.reopen().unwrap());
        server
            .store
            .export(scope, kind, sink, Box::new(|_| ()))
            .await
            .unwrap();
        all += &std::fs::read_to_string(file.path()).unwrap();
    }
    all
}

/// A body that the schema accepts and that names the owner's things wherever it can.
fn body_of(document: &Value, operation: &Value, owned: &Owned) -> Option<Value> {
    let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
    let name = schema["$ref"].as_str()?.rsplit('/').next()?;
    let schema = &document["components"]["schemas"][name];
    let mut body = Map::new();
    let parts = schema["allOf"].as_array().into_iter().flatten().chain([schema]);
    for part in parts {
        for (field, _) in part["properties"].as_object().into_iter().flatten() {
            let value = match field.as_str() {
                "query" | "reason" | "name" => json!("mug"),
                "text" => json!("a stranger's text"),
                "attempt" => json!(1),
                "performance" => json!(0.5),
                "permission" => json!("read"),
                "documents" => json!(["one"]),
                "memories" => json!([{ "text": "mine" }]),
                "tasks" => json!([{ "id": "mine", "context": "mine" }]),
                "messages" => continue,
                "candidates" => json!([owned.0["memory_id"]]),
                known => match owned.0.get(known) {
                    Some(value) => value.clone(),
                    None => continue,
                },
            };
            body.insert(field.clone(), value);
        }
    }
    if name == "ChatRequest" {
        body.insert("messages".into(), json!([{ "role": "user", "content": "mug" }]));
    }
    Some(Value::Object(body))
}

#[tokio::test]
async fn no_route_shows_or_changes_what_is_another_tenants() {
    let server = server(Wanted {
        authenticated: true,
        ..Wanted::default()
    })
    .await;
    let alice = server.key(Some("alice"), Permission::Admin).await;
    let bob = server.key(Some("bob"), Permission::Admin).await;
    let owned = fill(&server, &alice).await;
    let scope = Scope::user("alice").unwrap();
    let before = everything(&server, &scope).await;
    assert!(before.contains(SECRET));

    let document = upliftmem_server::openapi();
    let mut tried = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let mut filled = path.clone();
            for (name, value) in &owned.0 {
                filled = filled.replace(&format!("{{{name}}}"), value.as_str().unwrap());
            }
            assert!(
                !filled.contains('{'),
                "{path}: the test owns nothing to put there"
            );
            let mut body = body_of(&document, operation, &owned);
            for scope_named in [false, true] {
                let mut at = filled.clone();
                if scope_named {
                    at += "?user_id=alice";
                    if let Some(Value::Object(body)) = &mut body {
                        body.insert("user_id".into(), json!("alice"));
                    }
                }
                let answer = server
                    .call(&method.to_uppercase(), &at, Some(&bob), body.as_ref())
                    .await;
                let text = String::from_utf8_lossy(&answer.body).into_owned();
                assert_ne!(
                    answer.status,
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "{method} {at}: {text}"
                );
                // An answer may repeat the id that was asked for, and nothing that is the owner's.
                assert!(
                    !text.contains(&format!("{SECRET} ")),
                    "{method} {at} shows: {text}"
                );
                let without = server
                    .call(&method.to_uppercase(), &at, None, body.as_ref())
                    .await;
                assert_eq!(without.code(), "unauthorized", "{method} {at}");
            }
            tried.insert(operation["operationId"].as_str().unwrap().to_owned());
        }
    }
    assert!(tried.len() > 50, "{tried:?}");
    assert_eq!(
        everything(&server, &scope).await,
        before,
        "something was changed from outside"
    );
    let keys = server.call("GET", "/v1/keys", Some(&alice), None).await.ok();
    let revoked = keys["results"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|key| !key["revoked_at"].is_null());
    assert_eq!(revoked.count(), 0, "{keys}");
}

#[tokio::test]
async fn a_read_key_changes_nothing_on_any_route() {
    let server = server(Wanted {
        authenticated: true,
        ..Wanted::default()
    })
    .await;
    let admin = server.key(Some("alice"), Permission::Admin).await;
    let read = server.key(Some("alice"), Permission::Read).await;
    let owned = fill(&server, &admin).await;
    let document = upliftmem_server::openapi();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            if operation["x-permission"] == "read" {
                continue;
            }
            let mut at = path.clone();
            for (name, value) in &owned.0 {
                at = at.replace(&format!("{{{name}}}"), value.as_str().unwrap());
            }
            let body = body_of(&document, operation, &owned);
            let answer = server
                .call(&method.to_uppercase(), &at, Some(&read), body.as_ref())
                .await;
            assert_eq!(answer.code(), "forbidden", "{method} {at}");
        }
    }
}
