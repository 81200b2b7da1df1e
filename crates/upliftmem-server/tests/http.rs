//! Requests against the router, one behaviour a test.
#![allow(clippy::unwrap_used)]

mod support;

use axum::{
    body::Body,
    http::{Request, StatusCode, header},
};
use serde_json::{Value, json};
use support::{Server, Wanted, open_server, server};
use upliftmem_server::ServerSettings;
use upliftmem_store::Permission;

async fn add(server: &Server, text: &str) -> String {
    let answer = server.post("/v1/memories", &json!({ "text": text })).await.ok();
    assert_eq!(answer["results"][0]["status"], "stored", "{answer}");
    answer["results"][0]["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_memory_is_added_read_changed_and_removed() {
    let server = open_server().await;
    let body = json!({ "text": "the mug is blue", "metadata": { "a": 1 }, "kind": "fact", "expires_at": "2999-01-01" });
    let added = server.post("/v1/memories", &body).await.ok();
    let id = added["results"][0]["id"].as_str().unwrap();
    assert_eq!(added["results"][0]["event"], "ADD");
    let path = format!("/v1/memories/{id}");
    let read = server.get(&path).await.ok();
    assert_eq!(read["memory"], "the mug is blue");
    assert_eq!(read["metadata"], json!({ "a": 1 }));
    assert_eq!(read["agent_id"], "default");
    assert_eq!(read["expires_at"], "2999-01-01T00:00:00Z");

    let again = server
        .post("/v1/memories", &json!({ "text": "the  mug is blue" }))
        .await
        .ok();
    assert_eq!(again["results"][0]["status"], "duplicate");
    assert_eq!(again["results"][0]["id"], id);

    let change = json!({ "metadata": { "b": 2 }, "expires_at": null });
    let changed = server.call("PATCH", &path, None, Some(&change)).await.ok();
    assert_eq!(
        (&changed["id"], &changed["metadata"]),
        (&json!(id), &json!({ "b": 2 }))
    );
    assert_eq!(changed.get("expires_at"), None);

    let change = json!({ "text": "the mug is red" });
    let new = server.call("PATCH", &path, None, Some(&change)).await.ok();
    assert_ne!(new["id"], id);
    assert_eq!(new["metadata"], json!({ "b": 2 }));
    let old = server.get(&path).await.ok();
    assert_eq!(
        (&old["status"], &old["superseded_by"]),
        (&json!("superseded"), &new["id"])
    );
    let history = server.get(&format!("{path}/history")).await.ok();
    let texts: Vec<&Value> = history["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|v| &v["memory"])
        .collect();
    assert_eq!(texts, ["the mug is blue", "the mug is red"]);
    let refused = server
        .call("PATCH", &path, None, Some(&json!({ "text": "x" })))
        .await;
    assert_eq!(refused.code(), "conflict");

    let path = format!("/v1/memories/{}", new["id"].as_str().unwrap());
    server.call("DELETE", &path, None, None).await.ok();
    assert_eq!(server.get(&path).await.code(), "not_found");
    assert_eq!(server.call("DELETE", &path, None, None).await.code(), "not_found");
}

#[tokio::test]
async fn batches_messages_and_bad_items_say_what_became_of_each() {
    let server = open_server().await;
    let body = json!({ "memories": [{ "text": "one" }, { "text": "two" }, { "text": "one" }, { "text": "a\u{202e}b" },
                                    { "text": " " }] });
    let answer = server.post("/v1/memories/batch", &body).await.ok();
    let statuses: Vec<&str> = answer["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|result| result["status"].as_str().unwrap())
        .collect();
    assert_eq!(
        statuses,
        ["stored", "stored", "duplicate", "quarantined", "failed"]
    );
    let body = json!({ "messages": [{ "role": "system", "content": "s" }, { "role": "user", "content": "hello" },
                                    { "role": "assistant", "content": [{ "type": "text", "text": "hi" }] }] });
    let answer = server.post("/v1/memories", &body).await.ok();
    assert_eq!(answer["results"].as_array().unwrap().len(), 2);
    for (body, code) in [
        (json!({}), "invalid_request"),
        (json!({ "text": "x", "messages": [] }), "invalid_request"),
        (json!({ "messages": [] }), "invalid_request"),
        (json!({ "text": "x", "infer": true }), "invalid_request"),
        (json!({ "text": "x", "expires_at": "soon" }), "invalid_request"),
        (json!({ "text": 3 }), "invalid_request"),
        (json!({ "text": "x", "user_id": "" }), "invalid_request"),
        (json!({ "text": "x", "filters": { "OR": [] } }), "invalid_request"),
        (
            json!({ "text": "x", "filters": { "user_id": "*" } }),
            "invalid_request",
        ),
        (
            json!({ "text": "x", "user_id": "a", "filters": { "user_id": "b" } }),
            "invalid_request",
        ),
    ] {
        assert_eq!(server.post("/v1/memories", &body).await.code(), code, "{body}");
    }
    let many: Vec<Value> = (0..1_001)
        .map(|number| json!({ "text": format!("n {number}") }))
        .collect();
    let refused = server
        .post("/v1/memories/batch", &json!({ "memories": many }))
        .await;
    assert_eq!(refused.code(), "limit_exceeded");
}

#[tokio::test]
async fn pages_follow_one_another() {
    let server = open_server().await;
    for number in 0..7 {
        add(&server, &format!("memory number {number}")).await;
    }
    let (mut after, mut seen) = (String::new(), Vec::new());
    loop {
        let page = server.get(&format!("/v1/memories?limit=3{after}")).await.ok();
        let rows = page["results"].as_array().unwrap();
        assert!(rows.len() <= 3);
        seen.extend(rows.iter().map(|row| row["memory"].as_str().unwrap().to_owned()));
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    let expected: Vec<String> = (0..7).map(|number| format!("memory number {number}")).collect();
    assert_eq!(seen, expected);
    assert_eq!(server.get("/v1/memories?limit=x").await.code(), "invalid_request");
    assert_eq!(server.get("/v1/memories?after=x").await.code(), "invalid_request");
    assert_eq!(
        server.get("/v1/memories?status=odd").await.code(),
        "invalid_request"
    );
}

#[tokio::test]
async fn quarantine_release_and_supersede_change_what_is_recalled() {
    let server = open_server().await;
    let (old, new) = (add(&server, "a mug").await, add(&server, "another mug").await);
    let candidates = async || {
        let answer = server
            .post("/v1/memories/search", &json!({ "query": "mug" }))
            .await
            .ok();
        answer["candidates"].as_u64().unwrap()
    };
    assert_eq!(candidates().await, 2);
    let path = format!("/v1/memories/{old}/quarantine");
    let view = server.post(&path, &json!({ "reason": "it lied" })).await.ok();
    assert_eq!(
        (&view["status"], &view["quarantine_reason"]),
        (&json!("quarantined"), &json!("it lied"))
    );
    assert_eq!(candidates().await, 1);
    server
        .call("POST", &format!("/v1/memories/{old}/release"), None, None)
        .await
        .ok();
    assert_eq!(candidates().await, 2);
    let view = server
        .post(&format!("/v1/memories/{old}/supersede"), &json!({ "by": new }))
        .await
        .ok();
    assert_eq!(view["superseded_by"], json!(new));
    assert_eq!(candidates().await, 1);
    let missing = format!(
        "/v1/memories/{}/quarantine",
        "00000000-0000-0000-0000-000000000001"
    );
    assert_eq!(
        server.post(&missing, &json!({ "reason": "x" })).await.code(),
        "not_found"
    );
}

#[tokio::test]
async fn a_search_abstains_learns_from_outcomes_and_explains_itself() {
    let server = open_server().await;
    add(&server, "to open the red door use the brass key").await;
    add(&server, "the red door is painted on the wall, walk away").await;
    let search = json!({ "query": "open the red door", "explain": true });
    let answer = server.post("/v1/memories/search", &search).await.ok();
    assert_eq!(
        (&answer["abstained"], &answer["results"]),
        (&json!(true), &json!([]))
    );
    assert!(answer["reason"].as_str().unwrap().contains("2 candidates"));
    assert_eq!(answer["scorer"], "compact@0");
    let first = answer["retrieval_id"].as_str().unwrap();
    let outcome = json!({ "retrieval_id": first, "performance": 0.0, "cost": 3 });
    let learned = server.post("/v1/outcomes", &outcome).await.ok();
    assert_eq!(
        (&learned["reference"], &learned["utility"]),
        (&json!("self"), &json!(0.0))
    );
    // The same outcome again is the same; another one of the same retrieval is refused.
    assert_eq!(
        server.post("/v1/outcomes", &outcome).await.ok()["reference"],
        "self"
    );
    let other = json!({ "retrieval_id": first, "performance": 1.0 });
    assert_eq!(server.post("/v1/outcomes", &other).await.code(), "conflict");

    let explained = server.get(&format!("/v1/retrievals/{first}")).await.ok();
    assert_eq!(explained["query"], "open the red door");
    assert_eq!(explained["outcome"]["performance"], 0.0);
    assert_eq!(explained["texts"].as_object().unwrap().len(), 2);
    assert!(!explained["steps"].as_array().unwrap().is_empty());
    let listed = server.get("/v1/retrievals").await.ok();
    assert_eq!(listed["results"][0]["id"], first);

    let refit = server.post("/v1/training/refit", &json!({})).await.ok();
    assert_eq!(
        refit["active"],
        json!({ "version": 1, "labels": 1, "pinned": false })
    );
    let again = server.post("/v1/memories/search", &search).await.ok();
    assert_eq!(again["scorer"], "compact@1");

    for (body, code) in [
        (json!({ "retrieval_id": first }), "invalid_request"),
        (
            json!({ "retrieval_id": first, "performance": 2 }),
            "invalid_request",
        ),
        (
            json!({ "retrieval_id": first, "performance": 1, "cost": 31 }),
            "invalid_request",
        ),
        (
            json!({ "retrieval_id": first, "performance": 1, "cost": -1 }),
            "invalid_request",
        ),
        (json!({ "performance": 1 }), "invalid_request"),
        (
            json!({ "retrieval_id": "x", "performance": 1 }),
            "invalid_request",
        ),
        (
            json!({ "retrieval_id": "00000000-0000-0000-0000-000000000001", "performance": 1 }),
            "not_found",
        ),
    ] {
        assert_eq!(server.post("/v1/outcomes", &body).await.code(), code, "{body}");
    }
}

#[tokio::test]
async fn candidates_can_be_a_number_ids_or_texts_from_elsewhere() {
    let server = open_server().await;
    let (one, two) = (add(&server, "a blue mug").await, add(&server, "a red mug").await);
    let search = async |candidates: Value| {
        let body = json!({ "query": "mug", "candidates": candidates });
        server.post("/v1/memories/search", &body).await
    };
    assert_eq!(search(json!(1)).await.ok()["candidates"], 1);
    assert_eq!(search(json!([one, two, one])).await.ok()["candidates"], 2);
    let brought = json!([{ "id": "mine-1", "text": "a green mug" }, { "text": "a grey mug" }, { "text": "a blue mug" }]);
    assert_eq!(search(brought.clone()).await.ok()["candidates"], 3);
    assert_eq!(search(brought).await.ok()["candidates"], 3);
    let recalled = server
        .post("/v1/memories/search", &json!({ "query": "mug" }))
        .await
        .ok();
    assert_eq!(recalled["candidates"], 2, "what was brought is not recalled");
    // What is quarantined stays out, whoever brings it.
    let path = format!("/v1/memories/{one}/quarantine");
    server.post(&path, &json!({ "reason": "poison" })).await.ok();
    assert_eq!(
        search(json!([{ "text": "a blue mug" }, { "text": "x" }]))
            .await
            .ok()["candidates"],
        1
    );
    assert_eq!(search(json!([one])).await.code(), "not_found");
    assert_eq!(
        search(json!(["00000000-0000-0000-0000-000000000001"]))
            .await
            .code(),
        "not_found"
    );
    assert_eq!(search(json!(0)).await.code(), "invalid_request");
    assert_eq!(search(json!(100_000)).await.code(), "invalid_request");
    assert_eq!(search(json!("all")).await.code(), "invalid_request");
}

#[tokio::test]
async fn documents_are_reranked_in_the_shape_that_stock_clients_read() {
    let server = open_server().await;
    let body = json!({ "model": "any", "query": "make tea with the kettle", "top_n": 2, "return_documents": true,
                       "documents": ["about violins", { "text": "the kettle makes tea" }, "about ladders"] });
    let answer = server.post("/v1/rerank", &body).await.ok();
    let results = answer["results"].as_array().unwrap();
    assert_eq!(results.len(), 2);
    assert_eq!(
        results[0]["index"], 1,
        "nothing is learned yet, so similarity decides: {answer}"
    );
    assert_eq!(results[0]["document"]["text"], "the kettle makes tea");
    let score = |place: usize| results[place]["relevance_score"].as_f64().unwrap();
    assert!(score(0) > score(1) && score(0) < 1.0 && score(1) > 0.0);
    let outcome = json!({ "retrieval_id": answer["id"], "success": true });
    assert_eq!(
        server.post("/v1/outcomes", &outcome).await.ok()["reference"],
        "self"
    );
    let empty = json!({ "query": "q", "documents": [] });
    assert_eq!(server.post("/v1/rerank", &empty).await.code(), "invalid_request");
}

#[tokio::test]
async fn the_same_request_with_the_same_key_is_done_once() {
    let server = open_server().await;
    let body = json!({ "text": "only once", "idempotency_key": "k1" });
    let first = server.post("/v1/memories", &body).await.ok();
    let again = server.post("/v1/memories", &body).await.ok();
    assert_eq!(first, again, "the second would be a duplicate otherwise");
    let other = json!({ "text": "something else", "idempotency_key": "k1" });
    assert_eq!(
        server.post("/v1/memories", &other).await.code(),
        "idempotency_conflict"
    );
    let request = |text: &str| {
        Request::post("/v1/memories")
            .header(header::CONTENT_TYPE, "application/json")
            .header("Idempotency-Key", "k2")
            .body(Body::from(json!({ "text": text }).to_string()))
            .unwrap()
    };
    let first = server.send(request("by header")).await.ok();
    assert_eq!(server.send(request("by header")).await.ok(), first);
    assert_eq!(server.send(request("other")).await.code(), "idempotency_conflict");
    // Another scope has keys of its own.
    let elsewhere = json!({ "text": "something else", "idempotency_key": "k1", "user_id": "bob" });
    server.post("/v1/memories", &elsewhere).await.ok();
}

#[tokio::test]
async fn every_answer_has_a_name_and_bad_requests_have_stable_codes() {
    let server = open_server().await;
    let answer = server.get("/healthz").await;
    assert_eq!(answer.headers["x-request-id"].len(), 32);
    let named = Request::get("/healthz")
        .header("x-request-id", "mine-1")
        .body(Body::empty())
        .unwrap();
    assert_eq!(server.send(named).await.headers["x-request-id"], "mine-1");
    let forged = Request::get("/healthz")
        .header("x-request-id", "a b\"c")
        .body(Body::empty())
        .unwrap();
    assert_ne!(server.send(forged).await.headers["x-request-id"], "a b\"c");

    assert_eq!(server.get("/v1/nothing").await.code(), "route_not_found");
    let wrong = server.call("DELETE", "/v1/outcomes", None, None).await;
    assert_eq!(wrong.headers[header::ALLOW], "POST");
    assert_eq!(wrong.code(), "method_not_allowed");
    let raw = |content_type: &str, body: &'static str| {
        Request::post("/v1/memories")
            .header(header::CONTENT_TYPE, content_type)
            .body(Body::from(body))
            .unwrap()
    };
    assert_eq!(
        server.send(raw("application/json", "{")).await.code(),
        "invalid_json"
    );
    assert_eq!(
        server.send(raw("text/plain", "{}")).await.code(),
        "unsupported_media_type"
    );
    let large = json!({ "text": "x".repeat(3 << 20) });
    assert_eq!(server.post("/v1/memories", &large).await.code(), "body_too_large");
}

#[tokio::test]
async fn keys_open_what_they_allow_and_nothing_else() {
    let server = server(Wanted {
        authenticated: true,
        ..Wanted::default()
    })
    .await;
    let refused = server.get("/v1/memories").await;
    assert_eq!(refused.headers[header::WWW_AUTHENTICATE], "Bearer");
    assert_eq!(refused.code(), "unauthorized");
    assert_eq!(
        server
            .call("GET", "/v1/memories", Some("um_00"), None)
            .await
            .code(),
        "unauthorized"
    );
    assert_eq!(server.get("/healthz").await.status, StatusCode::OK);

    let read = server.key(Some("alice"), Permission::Read).await;
    server.call("GET", "/v1/memories", Some(&read), None).await.ok();
    server
        .call("GET", "/v1/memories?user_id=alice", Some(&read), None)
        .await
        .ok();
    let text = json!({ "text": "x" });
    assert_eq!(
        server
            .call("POST", "/v1/memories", Some(&read), Some(&text))
            .await
            .code(),
        "forbidden"
    );
    let bob = server
        .call("GET", "/v1/memories?user_id=bob", Some(&read), None)
        .await;
    assert_eq!(bob.code(), "scope_forbidden");

    let all = server.key(None, Permission::Admin).await;
    let missing = server.call("GET", "/v1/memories", Some(&all), None).await;
    assert_eq!(
        missing.code(),
        "scope_missing",
        "a key for everything has no default"
    );
    server
        .call("GET", "/v1/memories?user_id=bob", Some(&all), None)
        .await
        .ok();

    let new = json!({ "name": "n", "permission": "write", "user_id": "carol" });
    let made = server.call("POST", "/v1/keys", Some(&all), Some(&new)).await.ok();
    let (secret, id) = (made["key"].as_str().unwrap(), made["id"].as_str().unwrap());
    let added = server
        .call("POST", "/v1/memories", Some(secret), Some(&text))
        .await;
    assert_eq!(added.ok()["results"][0]["status"], "stored");
    let listed = server.call("GET", "/v1/keys", Some(&all), None).await;
    assert!(!String::from_utf8_lossy(&listed.body).contains(secret));
    server
        .call("DELETE", &format!("/v1/keys/{id}"), Some(&all), None)
        .await
        .ok();
    assert_eq!(
        server
            .call("POST", "/v1/memories", Some(secret), Some(&text))
            .await
            .code(),
        "unauthorized"
    );

    // A tenant's admin makes keys for its own only.
    let admin = server.key(Some("alice"), Permission::Admin).await;
    let wide = json!({ "name": "n", "permission": "read" });
    let made = server
        .call("POST", "/v1/keys", Some(&admin), Some(&wide))
        .await
        .ok();
    assert_eq!(made["tenant"], json!({ "user_id": "alice" }));
    let other = json!({ "name": "n", "permission": "read", "user_id": "bob" });
    let refused = server.call("POST", "/v1/keys", Some(&admin), Some(&other)).await;
    assert_eq!(refused.code(), "scope_forbidden");
    let keys = server.call("GET", "/v1/keys", Some(&admin), None).await.ok();
    assert_eq!(keys["results"].as_array().unwrap().len(), 3, "{keys}");
}

#[tokio::test]
async fn too_many_requests_are_told_to_come_back() {
    let settings = ServerSettings {
        rate_per_second: 0.5,
        rate_burst: 2,
        ..ServerSettings::default()
    };
    let limited = server(Wanted {
        settings,
        ..Wanted::default()
    })
    .await;
    limited.get("/v1/memories").await.ok();
    limited.get("/v1/memories").await.ok();
    let refused = limited.get("/v1/memories").await;
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused.headers[header::RETRY_AFTER], "2");
    assert_eq!(refused.code(), "rate_limited");

    let settings = ServerSettings {
        requests_max: 1,
        ..ServerSettings::default()
    };
    let busy = server(Wanted {
        settings,
        ..Wanted::default()
    })
    .await;
    let body =
        json!({ "memories": (0..900).map(|n| json!({ "text": format!("n {n}") })).collect::<Vec<_>>() });
    let (slow, quick) = tokio::join!(busy.post("/v1/memories/batch", &body), async {
        tokio::task::yield_now().await;
        busy.get("/v1/memories").await
    });
    slow.ok();
    assert_eq!(quick.headers[header::RETRY_AFTER], "1");
    assert_eq!(quick.code(), "overloaded");
}

#[tokio::test]
async fn without_keys_only_this_machine_may_call_and_no_other_origin() {
    let server = open_server().await;
    let from = |name: &str, value: &str| {
        Request::get("/v1/memories")
            .header(name, value)
            .body(Body::empty())
            .unwrap()
    };
    for host in ["localhost:7077", "127.0.0.1", "[::1]:80", "LOCALHOST"] {
        server.send(from("host", host)).await.ok();
    }
    for host in ["evil.example", "localhost.evil.example:7077", "10.0.0.1"] {
        assert_eq!(
            server.send(from("host", host)).await.code(),
            "host_forbidden",
            "{host}"
        );
    }
    let answer = server.send(from("origin", "https://evil.example")).await;
    assert!(!answer.headers.contains_key(header::ACCESS_CONTROL_ALLOW_ORIGIN));
    let allowing = support::server(Wanted {
        settings: ServerSettings {
            cors_origins: vec!["https://good.example".into()],
            ..ServerSettings::default()
        },
        ..Wanted::default()
    })
    .await;
    let answer = allowing.send(from("origin", "https://good.example")).await;
    assert_eq!(
        answer.headers[header::ACCESS_CONTROL_ALLOW_ORIGIN],
        "https://good.example"
    );
    let answer = allowing.send(from("origin", "https://evil.example")).await;
    assert!(!answer.headers.contains_key(header::ACCESS_CONTROL_ALLOW_ORIGIN));
}

#[tokio::test]
async fn what_is_exported_can_be_imported_elsewhere() {
    let server = open_server().await;
    for text in ["one", "two </script>", "three'; DROP TABLE memories; --"] {
        add(&server, text).await;
    }
    let exported = server.get("/v1/export?kind=memories").await;
    assert_eq!(exported.status, StatusCode::OK);
    assert_eq!(exported.body.iter().filter(|byte| **byte == b'\n').count(), 3);
    let import = |path: &str, body: Vec<u8>| {
        Request::post(path)
            .header(header::CONTENT_TYPE, "application/jsonl")
            .body(Body::from(body))
            .unwrap()
    };
    let answer = server
        .send(import("/v1/import?user_id=bob", exported.body.clone()))
        .await
        .ok();
    assert_eq!(answer["stored"], 3, "{answer}");
    let listed = server.get("/v1/memories?user_id=bob").await.ok();
    assert_eq!(listed["results"][2]["memory"], "three'; DROP TABLE memories; --");
    let bad = server
        .send(import(
            "/v1/import?user_id=carol",
            b"{\"text\":\"a\"}\n{".to_vec(),
        ))
        .await;
    let message = bad.json()["error"]["message"].as_str().unwrap().to_owned();
    assert_eq!(bad.code(), "invalid_request");
    assert!(message.contains("line 2"), "{message}");
    assert_eq!(
        server.get("/v1/memories?user_id=carol").await.ok()["results"],
        json!([])
    );
    for _ in 0..100 {
        let state = server.get("/v1/reembed?user_id=bob").await.ok();
        if state["running"] == json!(false) {
            assert_eq!(state["done"], 3, "{state}");
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    panic!("vectors were not made in time");
}

#[tokio::test]
async fn the_documents_are_served_and_load_nothing_from_elsewhere() {
    let server = open_server().await;
    let document = server.get("/openapi.json").await.ok();
    assert_eq!(document, upliftmem_server::openapi());
    for path in [
        "/v1/memories/search",
        "/v1/outcomes",
        "/v1/probes/next",
        "/v1/rerank",
    ] {
        assert!(document["paths"].get(path).is_some(), "{path}");
    }
    let page = server.get("/docs").await;
    assert_eq!(page.status, StatusCode::OK);
    assert!(
        page.headers[header::CONTENT_SECURITY_POLICY]
            .to_str()
            .unwrap()
            .contains("default-src 'none'")
    );
    for file in ["/docs", "/docs/page.js", "/docs/page.css"] {
        let text = String::from_utf8(server.get(file).await.body).unwrap();
        assert!(!text.contains("http://") && !text.contains("https://"), "{file}");
    }
    let metrics = String::from_utf8(server.get("/metrics").await.body).unwrap();
    assert!(metrics.contains("upliftmem_requests_total"), "{metrics}");
    assert_eq!(server.get("/readyz").await.body, b"ready\n");
}
