//! `score`: sets in, values out.
#![allow(clippy::unwrap_used)]

mod support;

use std::{fs, path::PathBuf};

use support::{fails, succeeds};

fn model() -> String {
    let place = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../upliftmem-scorer/fixtures/lm/qwen3");
    place.canonicalize().unwrap().display().to_string()
}

const LINES: &str = r#"{"task":{"id":"t1","context":"open the chest"},"memories":[{"id":"a","text":"take the key"},{"id":"b","text":"wait"}]}

{"task":{"context":"open the chest"},"memories":[]}
"#;

#[test]
fn sets_are_scored_with_and_without_an_adapter() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("sets.jsonl"), LINES).unwrap();
    let (model, adapter) = (model(), format!("{}/adapter", model()));
    let plain = succeeds(place.path(), &["score", "-q", "--model", &model, "sets.jsonl"]);
    let rows: Vec<serde_json::Value> = plain
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(rows.len(), 2);
    assert_eq!(
        (&rows[0]["task"], &rows[0]["memories"]),
        (&"t1".into(), &serde_json::json!(["a", "b"]))
    );
    assert_eq!(
        rows[0]["value"], rows[0]["logit_margin"],
        "without a calibration the margin is the value"
    );
    assert!(rows[0]["scorer"].as_str().unwrap().starts_with("lm "));
    assert_eq!(rows[1]["value"], 0.0, "the empty set is worth nothing, exactly");
    let adapted = succeeds(
        place.path(),
        &[
            "score",
            "-q",
            "--model",
            &model,
            "--adapter",
            &adapter,
            "--features",
            "sets.jsonl",
        ],
    );
    let row: serde_json::Value = serde_json::from_str(adapted.lines().next().unwrap()).unwrap();
    assert_ne!(row["value"], rows[0]["value"]);
    assert_eq!(row["features"].as_array().unwrap().len(), 32);
}

#[test]
fn a_wrong_line_or_model_is_named() {
    let place = tempfile::tempdir().unwrap();
    let model = model();
    fs::write(
        place.path().join("sets.jsonl"),
        "{\"task\":{\"context\":\"x\"}}\n",
    )
    .unwrap();
    let error = fails(place.path(), 1, &["score", "-q", "--model", &model, "sets.jsonl"]);
    assert!(error.contains("line 1") && error.contains("memories"), "{error}");
    let twice = r#"{"task":{"context":"x"},"memories":[{"id":"a","text":"1"},{"id":"a","text":"2"}]}"#;
    fs::write(place.path().join("sets.jsonl"), twice).unwrap();
    let error = fails(place.path(), 1, &["score", "-q", "--model", &model, "sets.jsonl"]);
    assert!(error.contains("\"a\" is in the set twice"), "{error}");
    let error = fails(
        place.path(),
        1,
        &["score", "-q", "--model", "nowhere", "sets.jsonl"],
    );
    assert!(
        error.contains("nowhere") && error.contains("config.json"),
        "{error}"
    );
    let error = fails(place.path(), 1, &["score", "-q", "sets.jsonl"]);
    assert!(error.contains("--model"), "{error}");
    let error = fails(
        place.path(),
        1,
        &["score", "-q", "--model", "m", "--scorer", "remote", "sets.jsonl"],
    );
    assert!(error.contains("--url"), "{error}");
}
