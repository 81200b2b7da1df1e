//! What a tenant may use, as its callers see it.
#![allow(clippy::unwrap_used)]

mod support;

use axum::http::{StatusCode, header};
use serde_json::json;
use support::{Server, Wanted, server};
use upliftmem_core::{Cost, MemoryId, Outcome, Performance, Purpose, Rollout, RolloutId, TaskId};
use upliftmem_engine::{Learnt, Outcomes, ReferencePolicy};
use upliftmem_store::{Permission, QuotaLimits, Scope, ScopeParts};

async fn with_keys() -> Server {
    server(Wanted {
        authenticated: true,
        ..Wanted::default()
    })
    .await
}

fn user(name: &str) -> ScopeParts {
    ScopeParts {
        user_id: Some(name.into()),
        ..ScopeParts::default()
    }
}

#[tokio::test]
async fn memories_beyond_the_quota_are_refused_with_the_way_out() {
    let server = with_keys().await;
    let alice = server.key(Some("alice"), Permission::Write).await;
    let bob = server.key(Some("bob"), Permission::Write).await;
    let limits = QuotaLimits {
        memories_max: Some(2),
        ..QuotaLimits::default()
    };
    server.store.set_quota(&user("alice"), limits).await.unwrap();
    let add = async |key: &str, path: &str, body| server.call("POST", path, Some(key), Some(&body)).await;
    let one = add(&alice, "/v1/memories", json!({ "text": "one" })).await.ok();
    // Another scope of the same tenant.
    add(&alice, "/v1/memories", json!({ "text": "two", "run_id": "r" }))
        .await
        .ok();
    for (path, body) in [
        ("/v1/memories", json!({ "text": "three" })),
        ("/v1/memories/batch", json!({ "memories": [{ "text": "three" }] })),
        (
            "/v3/memories/add/",
            json!({ "messages": [{ "role": "user", "content": "three" }], "infer": false }),
        ),
    ] {
        let refused = add(&alice, path, body).await;
        assert_eq!(refused.status, StatusCode::FORBIDDEN, "{path}");
        assert_eq!(refused.code(), "quota_exceeded", "{path}");
        let message = refused.json()["error"]["message"].to_string();
        assert!(
            message.contains("alice") && message.contains("quotas set"),
            "{message}"
        );
    }
    add(&bob, "/v1/memories", json!({ "text": "three" })).await.ok();
    let settings = server.call("GET", "/v1/settings", Some(&alice), None).await.ok();
    assert_eq!(
        settings["quota"],
        json!({ "memories": 2, "memories_max": 2, "executions": 0, "executions_max": null,
                "requests_per_second": null })
    );
    let settings = server.call("GET", "/v1/settings", Some(&bob), None).await.ok();
    assert!(settings["quota"].is_null());
    let path = format!("/v1/memories/{}", one["results"][0]["id"].as_str().unwrap());
    server.call("DELETE", &path, Some(&alice), None).await.ok();
    add(&alice, "/v1/memories", json!({ "text": "three" })).await.ok();
}

#[tokio::test]
async fn without_executions_left_outcomes_are_taken_and_nothing_is_asked_for() {
    let server = with_keys().await;
    let key = server.key(Some("alice"), Permission::Admin).await;
    let limits = QuotaLimits {
        executions_max: Some(1),
        ..QuotaLimits::default()
    };
    server.store.set_quota(&user("alice"), limits).await.unwrap();
    let post = async |path: &str, body| server.call("POST", path, Some(&key), Some(&body)).await;
    let tasks = json!([{ "id": "first", "context": "wash" }, { "id": "second", "context": "dry" }]);
    post("/v1/tasks", json!({ "tasks": tasks })).await.ok();
    post("/v1/references", json!({ "task": "first" })).await.ok();
    for (path, body) in [
        ("/v1/references", json!({ "task": "second" })),
        ("/v1/probes/plan", json!({})),
    ] {
        let refused = post(path, body).await;
        assert_eq!(refused.status, StatusCode::FORBIDDEN, "{path}");
        assert_eq!(refused.code(), "quota_exceeded", "{path}");
    }
    // An outcome that would ask for a reference is learned from without one.
    let settings = support::live_settings();
    let outcomes = Outcomes {
        store: server.store.clone(),
        scope: Scope::user("alice").unwrap(),
        utility: settings.utility,
        agent: settings.agent,
        references: ReferencePolicy::Request,
        attempts_max: 1,
    };
    for (name, reference_requested) in [("first", true), ("second", false)] {
        let rollout = Rollout {
            id: RolloutId::from_u128(name.len() as u128),
            task: TaskId::from_name(name),
            set: std::iter::once(MemoryId::from_u128(1)).collect(),
            purpose: Purpose::Retrieval,
            executor: outcomes.agent.clone(),
            seed: 0,
        };
        let outcome = Outcome {
            rollout: rollout.id,
            performance: Performance::new(1.0).unwrap(),
            cost: Cost::new(1.0).unwrap(),
        };
        let learnt = outcomes.learn(rollout, outcome).await.unwrap();
        assert_eq!(learnt, Learnt::Waiting { reference_requested }, "{name}");
    }
    // What was asked for is handed out all the same.
    let next = server.call("GET", "/v1/probes/next", Some(&key), None).await.ok();
    assert_eq!(next["ticket"]["task"]["name"], "first", "{next}");
}

#[tokio::test]
async fn the_keys_of_a_tenant_share_its_pace() {
    let server = with_keys().await;
    let limits = QuotaLimits {
        requests_per_second: Some(0.5),
        ..QuotaLimits::default()
    };
    server.store.set_quota(&user("alice"), limits).await.unwrap();
    let one = server.key(Some("alice"), Permission::Read).await;
    let two = server.key(Some("alice"), Permission::Read).await;
    let bob = server.key(Some("bob"), Permission::Read).await;
    let list = async |key: &str| server.call("GET", "/v1/memories", Some(key), None).await;
    list(&one).await.ok();
    let refused = list(&two).await;
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused.headers[header::RETRY_AFTER], "2");
    assert_eq!(refused.code(), "rate_limited");
    list(&bob).await.ok();
    list(&bob).await.ok();
}
