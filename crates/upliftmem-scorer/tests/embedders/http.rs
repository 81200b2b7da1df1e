//! The client of `/v1/embeddings`, against a real server.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use upliftmem_scorer::embedder::{Embedder, EmbedderError, HttpEmbedder, HttpSettings};

use crate::server::{Reply, Request, Server};

/// A vector that tells the text by its length and first byte.
fn vector(text: &str) -> Vec<f32> {
    vec![1.0, text.len() as f32, f32::from(text.as_bytes()[0])]
}

/// The answer of a well-behaved server, its rows in the wrong order.
fn answer(request: &Request) -> Reply {
    let question: Value = serde_json::from_str(&request.body).unwrap();
    let texts = question["input"].as_array().unwrap();
    let mut rows: Vec<Value> = texts
        .iter()
        .enumerate()
        .map(|(index, text)| {
            json!({"object": "embedding", "index": index, "embedding": vector(text.as_str().unwrap())})
        })
        .collect();
    rows.reverse();
    Reply::new(200, json!({"object": "list", "data": rows}).to_string())
}

fn settings(server: &Server) -> HttpSettings {
    HttpSettings {
        batch_size: 2,
        timeout: Duration::from_secs(20),
        backoff: Duration::from_millis(1),
        ..HttpSettings::new(format!("{}/v1/", server.url()), "some-model")
    }
}

/// The message of a connection that fails.
fn refused(settings: HttpSettings) -> String {
    let error = HttpEmbedder::connect(settings)
        .err()
        .expect("the server is no good");
    assert!(matches!(error, EmbedderError::Service { .. }), "{error:?}");
    error.to_string()
}

#[test]
fn texts_go_out_in_batches_and_come_back_in_order() {
    let server = Server::start(|_, request| answer(request));
    let embedder = HttpEmbedder::connect(HttpSettings {
        key: Some("secret".to_owned()),
        dimensions: Some(3),
        ..settings(&server)
    })
    .unwrap();
    assert_eq!(embedder.generation().name, "some-model");
    assert_eq!(embedder.generation().dimension, 3);

    let texts = ["one", "", "three", "fourth", " \n", "x"];
    let found = embedder.embed(&texts).unwrap();
    for (text, found) in texts.iter().zip(&found) {
        assert_eq!(&embedder.embed(&[text]).unwrap()[0], found, "{text:?} alone");
        if !text.trim().is_empty() {
            let expected = vector(text);
            let norm = expected.iter().map(|value| value * value).sum::<f32>().sqrt();
            for (found, expected) in found.values().iter().zip(expected) {
                assert!((found - expected / norm).abs() < 1e-6, "{text:?}");
            }
        }
    }
    assert_eq!(found[1], found[4], "texts without content are alike");

    let requests = server.requests();
    assert!(requests.iter().all(|request| request.path == "/v1/embeddings"));
    assert!(
        requests
            .iter()
            .all(|request| request.header("authorization") == Some("Bearer secret"))
    );
    let inputs: Vec<Value> = requests[1..3]
        .iter()
        .map(|request| serde_json::from_str::<Value>(&request.body).unwrap())
        .collect();
    assert_eq!(inputs[0]["input"], json!(["one", "three"]));
    assert_eq!(inputs[1]["input"], json!(["fourth", "x"]));
    assert_eq!(inputs[0]["model"], "some-model");
    assert_eq!(inputs[0]["dimensions"], 3);
}

#[test]
fn passing_troubles_are_waited_out() {
    let server = Server::start(|number, request| match number {
        0 => Reply::new(503, "busy"),
        1 => Reply::new(429, "slow down").header("retry-after: 1"),
        2 => Reply {
            cut: Some(5),
            ..answer(request)
        },
        _ => answer(request),
    });
    let started = Instant::now();
    HttpEmbedder::connect(settings(&server)).unwrap();
    assert!(
        started.elapsed() >= Duration::from_secs(1),
        "the server asked for a second"
    );
    assert_eq!(server.requests().len(), 4);
}

#[test]
fn patience_has_limits() {
    let server = Server::start(|_, _| Reply::new(500, "out of memory"));
    let message = refused(settings(&server));
    assert!(
        message.contains("500") && message.contains("out of memory"),
        "{message}"
    );
    assert!(message.contains("gave up after 5 attempts"), "{message}");
    assert_eq!(server.requests().len(), 5);

    let server = Server::start(|_, _| Reply::new(429, "tomorrow").header("retry-after: 86400"));
    let message = refused(settings(&server));
    assert!(
        message.contains("asks to wait 86400 s, the limit is 60 s"),
        "{message}"
    );
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn wrong_requests_are_not_repeated() {
    let server = Server::start(|_, _| Reply::new(401, "no such key"));
    let message = refused(settings(&server));
    assert!(
        message.contains("401") && message.contains("no such key"),
        "{message}"
    );
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn wrong_answers_are_refused() {
    for (body, words) in [
        ("[1, 2]", "did not answer with a list of embeddings"),
        (r#"{"data": []}"#, "0 vectors for 1 texts"),
        (
            r#"{"data": [{"index": 1, "embedding": [1]}]}"#,
            "1 vectors for 1 texts",
        ),
        (
            r#"{"data": [{"index": 0, "embedding": [0, 0]}]}"#,
            "has no length",
        ),
        (r#"{"data": [{"index": 0, "embedding": []}]}"#, "has no length"),
    ] {
        let server = Server::start(move |_, _| Reply::new(200, body));
        let message = refused(settings(&server));
        assert!(message.contains(words), "{message}");
        assert_eq!(server.requests().len(), 1);
    }
}

#[test]
fn a_change_of_dimension_is_refused() {
    let server = Server::start(|number, request| match number {
        0 => answer(request),
        _ => Reply::new(200, r#"{"data": [{"index": 0, "embedding": [1, 2]}]}"#),
    });
    let embedder = HttpEmbedder::connect(settings(&server)).unwrap();
    let message = embedder.embed(&["text"]).unwrap_err().to_string();
    assert!(message.contains("2 entries, expected 3"), "{message}");
}

#[test]
fn settings_are_checked_before_anything_is_sent() {
    let nothing = HttpSettings {
        batch_size: 0,
        ..HttpSettings::new("http://127.0.0.1:1/v1", "model")
    };
    assert!(matches!(
        HttpEmbedder::connect(nothing),
        Err(EmbedderError::Invalid(_))
    ));
    let nowhere = HttpSettings {
        retries: 0,
        ..HttpSettings::new("http://127.0.0.1:1/v1", "model")
    };
    assert!(refused(nowhere).contains("http://127.0.0.1:1/v1/embeddings"));
}
