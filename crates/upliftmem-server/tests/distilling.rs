//! Conversations are kept at once and distilled in the background.
#![allow(clippy::unwrap_used)]

mod support;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use serde_json::{Value, json};
use support::{Server, Wanted, open_server, server};
use upliftmem_agent::chat::{ChatError, ChatModel, ChatReply, ChatRequest, Finish, Usage};

/// A model that says what it is told to, or is away.
#[derive(Default)]
struct Scripted {
    away: AtomicBool,
    asked: AtomicUsize,
    says: Mutex<String>,
}

#[async_trait]
impl ChatModel for Scripted {
    fn name(&self) -> &'static str {
        "scripted"
    }

    async fn chat(&self, _: &ChatRequest) -> Result<ChatReply, ChatError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        if self.away.load(Ordering::SeqCst) {
            return Err(ChatError::Unavailable("nobody answers".into()));
        }
        Ok(ChatReply {
            text: self.says.lock().unwrap().clone(),
            finish: Finish::Stop,
            usage: Usage::default(),
        })
    }
}

fn model(says: &str) -> Arc<Scripted> {
    let model = Scripted::default();
    says.clone_into(&mut model.says.lock().unwrap());
    Arc::new(model)
}

async fn server_with(model: &Arc<Scripted>, place: Option<std::path::PathBuf>) -> Server {
    server(Wanted {
        model: Some(Arc::clone(model) as Arc<dyn ChatModel>),
        place,
        ..Wanted::default()
    })
    .await
}

fn works(server: &Server) -> tokio::task::JoinHandle<()> {
    tokio::spawn(server.app.distilling().unwrap().run())
}

fn talk() -> Value {
    json!({
        "messages": [
            { "role": "system", "content": "Be kind." },
            { "role": "user", "content": "My sister Ana is allergic to nuts." },
            { "role": "assistant", "content": "I will remember that." },
        ],
        "metadata": { "topic": "family" },
        "infer": true,
    })
}

async fn listed(server: &Server, status: &str) -> Vec<Value> {
    let page = server.get(&format!("/v1/memories?status={status}")).await.ok();
    page["results"].as_array().unwrap().clone()
}

/// Looks until the conversation that was kept is dealt with.
async fn dealt_with(server: &Server) -> String {
    for _ in 0..500 {
        let kept = listed(server, "quarantined").await;
        let reason = kept[0]["quarantine_reason"].as_str().unwrap();
        if reason != "to be distilled" {
            return reason.to_owned();
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("nothing was distilled");
}

#[tokio::test]
async fn a_conversation_becomes_memories_without_anybody_waiting() {
    let model =
        model("- Ana, the sister of the user, is allergic to nuts.\n- Ana is the sister of the user.");
    let server = server_with(&model, None).await;
    let answer = server.post("/v1/memories", &talk()).await.ok();
    assert_eq!(answer["results"][0]["status"], "queued");
    assert_eq!(answer["results"][0]["event"], "NONE");
    // Nobody has asked a model, and nothing can be recalled.
    assert_eq!(model.asked.load(Ordering::SeqCst), 0);
    assert!(listed(&server, "active").await.is_empty());
    let working = works(&server);
    assert_eq!(dealt_with(&server).await, "distilled: 2 memories");
    let notes = listed(&server, "active").await;
    assert_eq!(
        notes[0]["memory"],
        "Ana, the sister of the user, is allergic to nuts."
    );
    for note in &notes {
        assert_eq!(note["metadata"], json!({ "topic": "family" }));
        assert_eq!(note["provenance"]["distilled_from"], answer["results"][0]["id"]);
        assert_eq!(note["provenance"]["writer"], "scripted");
    }
    // The same again is known, and so is what another conversation says of it.
    let again = server.post("/v1/memories", &talk()).await.ok();
    assert_eq!(again["results"][0]["status"], "duplicate");
    working.abort();
}

#[tokio::test]
async fn what_is_not_a_list_of_notes_is_refused_with_a_record() {
    let model = model("I would rather talk about nuts.");
    let server = server_with(&model, None).await;
    let working = works(&server);
    server.post("/v1/memories", &talk()).await.ok();
    let reason = dealt_with(&server).await;
    assert!(reason.starts_with("not distilled: no memory"), "{reason}");
    assert!(listed(&server, "active").await.is_empty());
    working.abort();
}

#[tokio::test]
async fn a_restart_finds_what_waits() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("store.db");
    let model = model("- Ana is allergic to nuts.");
    model.away.store(true, Ordering::SeqCst);
    {
        let server = server_with(&model, Some(place.clone())).await;
        let working = works(&server);
        server.post("/v1/memories", &talk()).await.ok();
        while model.asked.load(Ordering::SeqCst) == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        working.abort();
        assert_eq!(
            listed(&server, "quarantined").await[0]["quarantine_reason"],
            "to be distilled"
        );
    }
    model.away.store(false, Ordering::SeqCst);
    let server = server_with(&model, Some(place)).await;
    let working = works(&server);
    assert_eq!(dealt_with(&server).await, "distilled: 1 memory");
    assert_eq!(listed(&server, "active").await.len(), 1);
    working.abort();
}

#[tokio::test]
async fn without_a_model_it_is_refused_and_nothing_is_kept() {
    let server = open_server().await;
    let refused = server.post("/v1/memories", &talk()).await;
    assert_eq!(refused.code(), "invalid_request");
    assert!(
        refused.json()["error"]["message"]
            .as_str()
            .unwrap()
            .contains("infer = false")
    );
    assert!(listed(&server, "quarantined").await.is_empty());
    let model = model("NONE");
    let server = server_with(&model, None).await;
    let mut empty = talk();
    empty["messages"] = json!([{ "role": "user", "content": " " }]);
    assert_eq!(
        server.post("/v1/memories", &empty).await.code(),
        "invalid_request"
    );
}
