//! Requests that come again, on every route that writes; and what a change leaves behind.
#![allow(clippy::unwrap_used)]

mod support;

use axum::{
    body::Body,
    http::{Request, StatusCode, header},
};
use serde_json::{Value, json};
use support::{Answer, Server, Wanted, open_server, server};
use upliftmem_server::ServerSettings;
use upliftmem_store::Permission;

async fn keyed(server: &Server, method: &str, path: &str, key: &str, body: Option<Value>) -> Answer {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::CONTENT_TYPE, "application/json")
        .header("Idempotency-Key", key);
    let body = body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
    server.send(request.body(body).unwrap()).await
}

async fn add(server: &Server, text: &str) -> String {
    let added = server.post("/v1/memories", &json!({ "text": text })).await.ok();
    added["results"][0]["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn every_write_is_done_once_for_one_key() {
    let server = open_server().await;
    let (first, second, third) = (
        add(&server, "one").await,
        add(&server, "two").await,
        add(&server, "three").await,
    );
    let reference = json!({ "tasks": [{ "id": "t", "context": "do it" }] });
    let writes = [
        (
            "PATCH",
            format!("/v1/memories/{first}"),
            Some(json!({ "text": "changed" })),
        ),
        (
            "POST",
            format!("/v1/memories/{second}/quarantine"),
            Some(json!({ "reason": "it lied" })),
        ),
        ("POST", format!("/v1/memories/{second}/release"), None),
        (
            "POST",
            format!("/v1/memories/{second}/supersede"),
            Some(json!({ "by": third })),
        ),
        ("DELETE", format!("/v1/memories/{second}"), None),
        ("POST", "/v1/tasks".to_owned(), Some(reference)),
        (
            "POST",
            "/v1/memories/search".to_owned(),
            Some(json!({ "query": "three" })),
        ),
        ("POST", "/v1/training/refit".to_owned(), Some(json!({}))),
    ];
    for (number, (method, path, body)) in writes.iter().enumerate() {
        let key = format!("key-{number}");
        let done = keyed(&server, method, path, &key, body.clone()).await;
        let again = keyed(&server, method, path, &key, body.clone()).await;
        assert_eq!(done.ok(), again.ok(), "{method} {path}");
        assert!(
            !done.headers.contains_key("idempotent-replayed"),
            "{method} {path}"
        );
        assert_eq!(again.headers["idempotent-replayed"], "true", "{method} {path}");
        let other = keyed(&server, method, path, &key, Some(json!({ "text": "other" }))).await;
        assert_eq!(other.code(), "idempotency_conflict", "{method} {path}");
    }
    // Without the key a second deletion finds nothing: the answer above came from memory.
    let gone = keyed(&server, "DELETE", &format!("/v1/memories/{second}"), "new", None).await;
    assert_eq!(gone.code(), "not_found");
}

#[tokio::test]
async fn what_failed_may_be_tried_again_with_the_same_key() {
    let server = open_server().await;
    let wrong = keyed(&server, "POST", "/v1/memories", "k", Some(json!({ "text": "" }))).await;
    let stays = keyed(&server, "POST", "/v1/memories", "k", Some(json!({ "text": "" }))).await;
    assert_eq!((wrong.status, wrong.body), (stays.status, stays.body));
    let id = add(&server, "kept").await;
    let path = format!("/v1/memories/{id}/supersede");
    let missing = json!({ "by": "00000000-0000-0000-0000-000000000001" });
    for _ in 0..2 {
        let refused = keyed(&server, "POST", &path, "s", Some(missing.clone())).await;
        assert_eq!(refused.code(), "not_found");
    }
    let by = add(&server, "better").await;
    // Nothing was kept of the failure, so the key is free.
    let done = keyed(&server, "POST", &path, "s", Some(json!({ "by": by }))).await;
    assert_eq!(done.ok()["status"], "superseded");
}

#[tokio::test]
async fn keys_of_callers_are_apart_and_secrets_are_never_kept() {
    let wanted = Wanted {
        authenticated: true,
        ..Wanted::default()
    };
    let server = server(wanted).await;
    let (alice, bob) = (
        server.key(Some("alice"), Permission::Admin).await,
        server.key(Some("bob"), Permission::Admin).await,
    );
    let send = async |key: &str, path: &str, body: Value| {
        let request = Request::post(path)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::AUTHORIZATION, format!("Bearer {key}"))
            .header("Idempotency-Key", "same");
        server
            .send(request.body(Body::from(body.to_string())).unwrap())
            .await
    };
    send(&alice, "/v1/memories", json!({ "text": "alice's" }))
        .await
        .ok();
    let bobs = send(&bob, "/v1/memories", json!({ "text": "bob's" })).await.ok();
    assert_eq!(bobs["results"][0]["memory"], "bob's");
    let key = json!({ "name": "k", "permission": "read", "user_id": "alice" });
    let one = send(&alice, "/v1/keys", key.clone()).await.ok();
    let two = send(&alice, "/v1/keys", key).await.ok();
    assert_ne!(one, two, "a key is shown once, whatever is sent with it");
}

#[tokio::test]
async fn a_change_is_dated() {
    let server = open_server().await;
    let id = add(&server, "old news").await;
    let path = format!("/v1/memories/{id}");
    let before = server.get(&path).await.ok();
    assert_eq!(before["created_at"], before["updated_at"]);
    tokio::time::sleep(std::time::Duration::from_millis(1_100)).await;
    let change = json!({ "metadata": { "seen": true } });
    let after = server.call("PATCH", &path, None, Some(&change)).await.ok();
    assert_eq!(after["created_at"], before["created_at"]);
    assert_ne!(after["updated_at"], before["updated_at"], "{after}");
}

#[tokio::test]
async fn an_import_larger_than_memory_would_like_is_taken_and_a_larger_one_refused() {
    let settings = ServerSettings {
        import_bytes_max: 3 << 20,
        ..ServerSettings::default()
    };
    let server = server(Wanted {
        settings,
        ..Wanted::default()
    })
    .await;
    let line = |number: usize| format!("{{\"text\": \"{number} {}\"}}\n", "x".repeat(900));
    let send = async |count: usize| {
        let body: String = (0..count).map(line).collect();
        let request = Request::post("/v1/import?format=memories").header(header::CONTENT_TYPE, "text/plain");
        server.send(request.body(Body::from(body)).unwrap()).await
    };
    assert_eq!(send(3_000).await.ok()["stored"], 3_000);
    assert_eq!(send(3_000).await.ok()["duplicates"], 3_000, "again does no harm");
    let refused = send(4_000).await;
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (StatusCode::PAYLOAD_TOO_LARGE, "body_too_large")
    );
}
