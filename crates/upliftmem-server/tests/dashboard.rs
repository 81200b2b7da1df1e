//! The dashboard's files, and what its pages ask for.
#![allow(clippy::unwrap_used)]

mod support;

use axum::{
    body::Body,
    http::{Request, StatusCode, header},
};
use serde_json::{Value, json};
use support::{Answer, Server, Wanted, open_server, server};
use upliftmem_store::Permission;

async fn page(server: &Server, method: &str, path: &str, accept: &str) -> Answer {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::ACCEPT, accept);
    server.send(request.body(Body::empty()).unwrap()).await
}

const BROWSER: &str = "text/html,application/xhtml+xml,*/*;q=0.8";

#[tokio::test]
async fn files_have_their_types_a_strict_policy_and_a_tag() {
    // A key is asked for by the page, not for the page.
    let server = server(Wanted {
        authenticated: true,
        ..Wanted::default()
    })
    .await;
    for (path, media) in [
        ("/", "text/html"),
        ("/app.js", "text/javascript"),
        ("/app.css", "text/css"),
        ("/icon.svg", "image/svg+xml"),
    ] {
        let answer = server.get(path).await;
        assert_eq!(answer.status, StatusCode::OK, "{path}");
        let header = |name| answer.headers[name].to_str().unwrap().to_owned();
        assert!(header("content-type").starts_with(media), "{path}");
        assert_eq!(header("cache-control"), "no-cache");
        assert_eq!(header("x-content-type-options"), "nosniff");
        let policy = header("content-security-policy");
        assert!(policy.starts_with("default-src 'none'"), "{policy}");
        assert!(!policy.contains("unsafe") && !policy.contains("http"), "{policy}");
        let again = Request::builder()
            .uri(path)
            .header(header::IF_NONE_MATCH, format!("\"other\", {}", header("etag")));
        let again = server.send(again.body(Body::empty()).unwrap()).await;
        assert_eq!(again.status, StatusCode::NOT_MODIFIED, "{path}");
        assert!(again.body.is_empty());
    }
}

#[tokio::test]
async fn pages_have_addresses_for_browsers_and_programs_are_told_that_there_is_nothing() {
    let server = open_server().await;
    let index = server.get("/").await.body;
    for path in [
        "/memories",
        "/memories/x",
        "/training?agent_id=a",
        "/no/such/page",
    ] {
        let answer = page(&server, "GET", path, BROWSER).await;
        assert_eq!((answer.status, &answer.body), (StatusCode::OK, &index), "{path}");
        assert_eq!(
            page(&server, "GET", path, "*/*").await.code(),
            "route_not_found",
            "{path}"
        );
    }
    for path in ["/v1/nothing", "/docs/nothing"] {
        assert_eq!(
            page(&server, "GET", path, BROWSER).await.code(),
            "route_not_found",
            "{path}"
        );
    }
    assert_eq!(
        page(&server, "POST", "/memories", BROWSER).await.code(),
        "route_not_found"
    );
}

fn texts(page: &Value) -> Vec<&str> {
    let rows = page["results"].as_array().unwrap().iter();
    rows.map(|row| row["memory"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn memories_are_listed_by_words_and_by_ids() {
    let server = open_server().await;
    let body = json!({ "memories": [{ "text": "the mug is blue" }, { "text": "the blue blue door" }, { "text": "rain" }] });
    let added = server.post("/v1/memories/batch", &body).await.ok();
    let id = |place: usize| added["results"][place]["id"].as_str().unwrap();
    let found = server.get("/v1/memories?words=mug").await.ok();
    assert_eq!(texts(&found), ["the mug is blue"]);
    assert_eq!(found["next"], Value::Null);
    assert_eq!(
        texts(&server.get("/v1/memories?words=nothing+like+it").await.ok()),
        [""; 0]
    );
    assert_eq!(texts(&server.get("/v1/memories?words=%20").await.ok()).len(), 3);
    let two = format!("/v1/memories?ids={},{},{}", id(2), id(0), id(2));
    assert_eq!(texts(&server.get(&two).await.ok()), ["the mug is blue", "rain"]);
    assert_eq!(server.get("/v1/memories?ids=x").await.code(), "invalid_request");
    let many = format!("/v1/memories?limit=1&ids={},{}", id(2), id(0));
    assert_eq!(server.get(&many).await.code(), "limit_exceeded");
    // A search of the page is no retrieval of the agent.
    assert_eq!(server.get("/v1/retrievals").await.ok()["results"], json!([]));
}

#[tokio::test]
async fn the_newest_retrievals_come_first_page_by_page() {
    let server = open_server().await;
    for query in ["one", "two", "three"] {
        server
            .post("/v1/memories/search", &json!({ "query": query }))
            .await
            .ok();
    }
    let list = async |path: &str| server.get(path).await.ok();
    let queries = |page: &Value| -> Vec<String> {
        let rows = page["results"].as_array().unwrap().iter();
        rows.map(|row| row["query"].as_str().unwrap().to_owned())
            .collect()
    };
    let first = list("/v1/retrievals?order=newest&limit=2").await;
    assert_eq!(queries(&first), ["three", "two"]);
    let next = first["next"].as_str().unwrap();
    let second = list(&format!("/v1/retrievals?order=newest&limit=2&after={next}")).await;
    assert_eq!(
        (queries(&second), &second["next"]),
        (vec!["one".to_owned()], &Value::Null)
    );
    assert_eq!(queries(&list("/v1/retrievals").await), ["one", "two", "three"]);
    for path in ["/v1/probes/batches?order=newest", "/v1/scorers?order=newest"] {
        assert_eq!(list(path).await["results"], json!([]), "{path}");
    }
    let refused = server.get("/v1/retrievals?order=sideways").await;
    assert_eq!(refused.code(), "invalid_request");
}

#[tokio::test]
async fn effects_are_told_of_the_memories_that_were_asked_for() {
    let server = open_server().await;
    for text in ["turn left at the mill", "turn right at the mill"] {
        server.post("/v1/memories", &json!({ "text": text })).await.ok();
    }
    let found = server
        .post(
            "/v1/memories/search",
            &json!({ "query": "the mill", "task": "mill" }),
        )
        .await
        .ok();
    // The same task without memory, so that there is something to compare with.
    let outcome = json!({ "retrieval_id": found["retrieval_id"], "performance": 1.0 });
    server.post("/v1/outcomes", &outcome).await.ok();
    while let Some(ticket) = server.get("/v1/probes/next").await.ok()["ticket"].as_object() {
        let outcome =
            json!({ "rollout_id": ticket["rollout_id"], "attempt": ticket["attempt"], "performance": 0.0 });
        server.post("/v1/outcomes", &outcome).await.ok();
    }
    let all = server.get("/v1/reports/memories").await.ok();
    let used = found["results"].as_array().unwrap();
    assert_eq!(all["results"].as_array().unwrap().len(), used.len());
    for memory in used {
        let id = memory["id"].as_str().unwrap();
        let one = server
            .get(&format!("/v1/reports/memories?memories={id}"))
            .await
            .ok();
        assert_eq!(one["results"].as_array().unwrap().len(), 1);
        assert_eq!(one["results"][0]["id"], id);
    }
    let tasks = server.get("/v1/tasks").await.ok();
    let id = tasks["results"][0]["id"].as_str().unwrap();
    let one = server.get(&format!("/v1/tasks?ids={id}")).await.ok();
    assert_eq!(one["results"], json!([tasks["results"][0]]));
}

#[tokio::test]
async fn settings_say_who_calls_and_nothing_secret() {
    let open = open_server().await.get("/v1/settings").await.ok();
    assert_eq!(
        (&open["keys"], &open["caller"]["permission"]),
        (&json!(false), &json!("admin"))
    );
    assert_eq!(open["default_scope"], json!({ "agent_id": "default" }));
    assert_eq!(open["acquisition"]["probe_budget"], 8);

    let server = server(Wanted {
        authenticated: true,
        ..Wanted::default()
    })
    .await;
    assert_eq!(server.get("/v1/settings").await.code(), "unauthorized");
    let key = server.key(Some("ada"), Permission::Read).await;
    let mine = server.call("GET", "/v1/settings", Some(&key), None).await;
    assert!(!String::from_utf8_lossy(&mine.body).contains(&key));
    let mine = mine.ok();
    assert_eq!(mine["caller"]["tenant"], json!({ "user_id": "ada" }));
    assert_eq!(mine["caller"]["permission"], "read");
    assert_eq!(mine["default_scope"], Value::Null);
}

#[tokio::test]
async fn ids_of_another_scope_name_nothing_here() {
    let server = open_server().await;
    let body = json!({ "user_id": "ada", "text": "Ada drinks tea" });
    let added = server.post("/v1/memories", &body).await.ok();
    let id = added["results"][0]["id"].as_str().unwrap();
    let tasks = json!({ "user_id": "ada", "tasks": [{ "id": "t", "context": "make tea" }] });
    server.post("/v1/tasks", &tasks).await.ok();
    let hers = server.get("/v1/tasks?user_id=ada").await.ok();
    let task = hers["results"][0]["id"].as_str().unwrap();
    for path in [
        format!("/v1/memories?user_id=bob&ids={id}"),
        "/v1/memories?user_id=bob&words=tea".to_owned(),
        format!("/v1/tasks?user_id=bob&ids={task}"),
        format!("/v1/reports/memories?user_id=bob&memories={id}"),
    ] {
        assert_eq!(server.get(&path).await.ok()["results"], json!([]), "{path}");
    }
}
