//! Tokenizers, token by token, on many languages. Real ones are looked for in `UPLIFTMEM_TEST_MODELS`.

use std::path::PathBuf;

use serde::Deserialize;
use upliftmem_scorer::lm::LmTokenizer;

use crate::world::fixture;

#[derive(Deserialize)]
struct Row {
    text: String,
    ids: Vec<u32>,
}

fn rows() -> Vec<Row> {
    serde_json::from_slice(&std::fs::read(fixture("tokens.json")).unwrap()).unwrap()
}

#[expect(clippy::print_stdout, reason = "a test that was skipped says so")]
fn model(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("UPLIFTMEM_TEST_MODELS").map(|models| PathBuf::from(models).join(name));
    let path = path.filter(|path| path.exists());
    if path.is_none() {
        println!("skipped: {name} is not in UPLIFTMEM_TEST_MODELS");
    }
    path
}

#[test]
fn the_tokenizer_of_qwen3_gives_the_official_tokens() {
    let Some(path) = model("qwen3-tokenizer") else {
        return;
    };
    let tokenizer = LmTokenizer::of_model(&path).unwrap();
    for Row { text, ids } in rows() {
        assert_eq!(tokenizer.encode(&text).unwrap(), ids, "{text:?}");
    }
}

/// Qwen2.5 has Qwen3's vocabulary but for `<think>` and its end.
#[test]
fn a_tokenizer_rebuilt_from_gguf_gives_the_official_tokens() {
    let Some(path) = model("qwen2.5-coder-0.5b-instruct-q4_k_m.gguf") else {
        return;
    };
    let tokenizer = LmTokenizer::of_model(&path).unwrap();
    for Row { text, ids } in rows().into_iter().filter(|row| !row.text.contains("think>")) {
        assert_eq!(tokenizer.encode(&text).unwrap(), ids, "{text:?}");
    }
    assert_eq!(
        (tokenizer.single("yes").unwrap(), tokenizer.single("no").unwrap()),
        (9693, 2152)
    );
}

#[test]
fn smollm_splits_digits_and_comes_back_as_it_was() {
    let Some(path) = model("smollm2-135m-instruct-q4_1.gguf") else {
        return;
    };
    let tokenizer = LmTokenizer::of_model(&path).unwrap();
    assert_eq!(tokenizer.encode("12345").unwrap().len(), 5);
    for Row { text, .. } in rows() {
        let ids = tokenizer.encode(&text).unwrap();
        assert_eq!(tokenizer.decode(&ids, true).unwrap(), text);
    }
}
