//! The score endpoint of vLLM, spoken by a server on loopback that runs the tiny model.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use upliftmem_scorer::{
    Ask, ScorerVersion, SetScorer,
    lm::{KvCache, LmScorer, RemoteScore, RemoteScorer, RemoteSettings},
};

use crate::{
    server::{Reply, Request, Server},
    world::{CALIBRATION, Texts, base, parts, settings},
};

/// Answers as vLLM does: both halves joined, the probability of yes, in any order.
fn serve() -> Server {
    let (base, tokenizer) = parts();
    Server::start(move |_, request: &Request| {
        let body: Value = serde_json::from_str(&request.body).unwrap();
        let query = body["text_1"].as_str().unwrap();
        let rows: Vec<Value> = body["text_2"]
            .as_array()
            .unwrap()
            .iter()
            .enumerate()
            .map(|(index, document)| {
                let tokens = tokenizer
                    .encode(&format!("{query}{}", document.as_str().unwrap()))
                    .unwrap();
                let hidden = base.forward(&tokens, &mut KvCache::default(), None).unwrap();
                let logits = base
                    .logits(&hidden.narrow(0, tokens.len() - 1, 1).unwrap())
                    .unwrap();
                let logits = logits.to_vec2::<f32>().unwrap().remove(0);
                let logit = |word: &str| f64::from(logits[tokenizer.single(word).unwrap() as usize]);
                let score = 1.0 / (1.0 + (logit("no") - logit("yes")).exp());
                json!({"index": index, "object": "score", "score": score})
            })
            .rev()
            .collect();
        Reply::new(
            200,
            json!({"object": "list", "model": body["model"], "data": rows}).to_string(),
        )
    })
}

/// Where a server scores.
fn score_of(server: &Server) -> String {
    format!("{}/score", server.url())
}

fn quick(url: String) -> RemoteSettings {
    RemoteSettings {
        batch_size: 4,
        backoff: Duration::from_millis(5),
        timeout: Duration::from_secs(20),
        key: Some("secret".to_owned()),
        ..RemoteSettings::new(url, "tiny")
    }
}

#[test]
fn a_server_with_the_same_model_gives_the_same_values() {
    let server = serve();
    let texts = Texts::new();
    let (sets, memories) = (texts.sets(), texts.memories());
    // One memory holds a mark: both sides break it.
    let remote = RemoteScorer::new(ScorerVersion(3), quick(score_of(&server)), CALIBRATION).unwrap();
    let found = remote
        .bind(texts.task(), &memories)
        .unwrap()
        .score(
            &sets,
            Ask {
                draws: 2,
                seed: 0,
                deviations: true,
            },
        )
        .unwrap();
    let local = LmScorer::new(ScorerVersion(1), base(settings()), None, CALIBRATION);
    let expected = local
        .bind(texts.task(), &memories)
        .unwrap()
        .score(&sets, Ask::VALUES)
        .unwrap();
    assert_eq!(found.version, ScorerVersion(3));
    for ((set, a), b) in sets.iter().zip(&found.values).zip(&expected.values) {
        assert!((a - b).abs() < 1e-3, "{set:?}: {a} for {b}");
    }
    assert_eq!(found.values[0], 0.0);
    assert_eq!(found.draws, [found.values.clone(), found.values.clone()]);
    let requests = server.requests();
    assert_eq!(requests.len(), (sets.len() - 1).div_ceil(4));
    assert!(requests[0].path.ends_with("/score"));
    assert_eq!(requests[0].header("authorization"), Some("Bearer secret"));
}

#[test]
fn it_tries_again_and_gives_up_with_reasons() {
    let texts = Texts::new();
    let (sets, memories) = (texts.sets()[1..2].to_vec(), texts.memories());
    let ask = |settings: RemoteSettings| {
        let remote = RemoteScorer::new(ScorerVersion(1), settings, CALIBRATION).unwrap();
        let bound = remote.bind(texts.task(), &memories).unwrap();
        bound.score(&sets, Ask::VALUES)
    };
    let good = || Reply::new(200, json!({"data": [{"index": 0, "score": 0.5}]}).to_string());
    let server = Server::start(move |number, _| {
        if number < 2 {
            Reply::new(503, "busy")
        } else {
            good()
        }
    });
    assert!((ask(quick(score_of(&server))).unwrap().values[0] - CALIBRATION.offset).abs() < 1e-12);
    let server = Server::start(|_, _| Reply::new(503, "busy"));
    let error = ask(RemoteSettings {
        retries: 1,
        ..quick(score_of(&server))
    })
    .unwrap_err()
    .to_string();
    assert!(error.contains("busy") && error.contains("2 attempts"), "{error}");
    let server = Server::start(|_, _| Reply::new(400, "no such model"));
    let error = ask(quick(score_of(&server))).unwrap_err().to_string();
    assert!(
        error.contains("400") && error.contains("no such model"),
        "{error}"
    );
    assert_eq!(server.requests().len(), 1);
    let server = Server::start(|_, _| Reply::new(429, "slow").header("retry-after: 3600"));
    assert!(
        ask(quick(score_of(&server)))
            .unwrap_err()
            .to_string()
            .contains("3600")
    );
    for (answer, named) in [
        (json!({"data": []}), "1 of 1"),
        (json!({"data": [{"index": 5, "score": 0.5}]}), "index 5"),
        (
            json!({"data": [{"index": 0, "score": 0.5}, {"index": 0, "score": 0.5}]}),
            "twice",
        ),
        (json!({"data": [{"index": 0, "score": 7.5}]}), "probability"),
        (json!({"rows": []}), "not scores"),
    ] {
        let body = Arc::new(answer.to_string());
        let server = Server::start(move |_, _| Reply::new(200, body.as_bytes().to_vec()));
        let error = ask(quick(score_of(&server))).unwrap_err().to_string();
        assert!(error.contains(named), "{error}");
    }
    let server =
        Server::start(|_, _| Reply::new(200, json!({"data": [{"index": 0, "score": 7.5}]}).to_string()));
    let margin = ask(RemoteSettings {
        score: RemoteScore::Margin,
        ..quick(score_of(&server))
    })
    .unwrap();
    assert_eq!(margin.values[0], CALIBRATION.value(7.5));
}

#[test]
fn time_is_looked_at_between_requests() {
    let server = serve();
    let texts = Texts::new();
    let (sets, memories) = (texts.sets(), texts.memories());
    let remote = RemoteScorer::new(ScorerVersion(0), quick(score_of(&server)), CALIBRATION).unwrap();
    let bound = remote.bind_task(texts.task(), &memories);
    let none = bound.read(&sets, Some(std::time::Instant::now())).unwrap();
    assert_eq!(
        none.iter().flatten().count(),
        1,
        "the empty set alone needs no server"
    );
    let all = bound.read(&sets, None).unwrap();
    for reading in all.into_iter().flatten().filter(|reading| reading.value != 0.0) {
        assert_eq!(reading.value, CALIBRATION.value(reading.logit_margin));
    }
}
