//! Vectors agree with sentence-transformers and model2vec; `fixtures/embeddings.py` made the numbers.
//!
//! The tiny models are in the repository. The real ones are looked for in the directory that the environment variable
//! `UPLIFTMEM_TEST_MODELS` names.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use upliftmem_scorer::{
    Embedding,
    embedder::{BertEmbedder, Embedder, StaticEmbedder},
};

#[derive(Deserialize)]
struct Fixture {
    texts: Vec<String>,
    vectors: BTreeMap<String, Vec<Vec<f32>>>,
}

pub(crate) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

fn fixture() -> Fixture {
    let content = fs::read_to_string(fixtures().join("embeddings.json")).unwrap();
    serde_json::from_str(&content).unwrap()
}

/// The directory of a real model, or nothing and a line on how to get it.
pub(crate) fn real(name: &str) -> Option<PathBuf> {
    let directory = std::env::var_os("UPLIFTMEM_TEST_MODELS").map(|models| PathBuf::from(models).join(name));
    let found = directory.filter(|directory| directory.join("model.safetensors").exists());
    if found.is_none() {
        println!("not checked: get {name} and set UPLIFTMEM_TEST_MODELS to the directory that holds it");
    }
    found
}

/// All texts together and each alone, against the reference.
fn check(embedder: &dyn Embedder, name: &str) {
    let Fixture { texts, vectors } = fixture();
    let expected = &vectors[name];
    assert_eq!(expected.len(), texts.len());
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let found = embedder.embed(&texts).unwrap();
    assert_eq!(found.len(), texts.len());
    for ((text, found), expected) in texts.iter().zip(&found).zip(expected) {
        let shown: String = text.chars().take(40).collect();
        // model2vec gives zeros where no token is known; we give a vector of length one.
        if expected.iter().any(|&value| value != 0.0) {
            let difference = largest_difference(found, expected);
            assert!(difference < 1e-4, "{shown:?}: {difference}");
        }
        assert_eq!(found.dimension(), embedder.generation().dimension);
        let norm: f32 = found.values().iter().map(|value| value * value).sum();
        assert!((norm - 1.0).abs() < 1e-5, "{shown:?}: {norm}");
        assert_eq!(&embedder.embed(&[text]).unwrap()[0], found, "{shown:?} alone");
    }
    let backwards: Vec<&str> = texts.iter().rev().copied().collect();
    let mut again = embedder.embed(&backwards).unwrap();
    again.reverse();
    assert_eq!(again, found, "the order of the batch");
}

fn largest_difference(found: &Embedding, expected: &[f32]) -> f32 {
    assert_eq!(found.dimension(), expected.len());
    let pairs = found.values().iter().zip(expected);
    pairs
        .map(|(found, expected)| (found - expected).abs())
        .fold(0.0, f32::max)
}

#[test]
fn a_tiny_bert_with_mean_pooling() {
    check(
        &BertEmbedder::load(&fixtures().join("tiny-bert")).unwrap(),
        "tiny-bert",
    );
}

#[test]
fn a_tiny_bert_with_first_token_pooling() {
    let copy = tempfile::tempdir().unwrap();
    copy_model("tiny-bert", copy.path());
    let pooling = r#"{"word_embedding_dimension": 32, "pooling_mode": "cls"}"#;
    fs::write(copy.path().join("1_Pooling/config.json"), pooling).unwrap();
    check(&BertEmbedder::load(copy.path()).unwrap(), "tiny-bert-cls");
}

#[test]
fn a_tiny_static_model() {
    check(
        &StaticEmbedder::load(&fixtures().join("tiny-static")).unwrap(),
        "tiny-static",
    );
}

#[test]
fn a_tiny_static_model_with_shared_rows_and_weights() {
    let model = StaticEmbedder::load(&fixtures().join("tiny-static-mapped")).unwrap();
    check(&model, "tiny-static-mapped");
}

#[test]
fn all_minilm_l6_v2() {
    if let Some(directory) = real("all-MiniLM-L6-v2") {
        check(&BertEmbedder::load(&directory).unwrap(), "all-MiniLM-L6-v2");
    }
}

#[test]
fn potion_base_8m() {
    if let Some(directory) = real("potion-base-8M") {
        check(&StaticEmbedder::load(&directory).unwrap(), "potion-base-8M");
    }
}

/// Copies a tiny model, so that a test can damage it.
pub(crate) fn copy_model(name: &str, to: &Path) {
    fn copy(from: &Path, to: &Path) {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            let target = to.join(entry.file_name());
            if entry.path().is_dir() {
                copy(&entry.path(), &target);
            } else {
                fs::copy(entry.path(), target).unwrap();
            }
        }
    }
    copy(&fixtures().join(name), to);
}

/// Loading fails with a message that names the file and holds the words.
fn refused<T>(result: Result<T, upliftmem_scorer::embedder::EmbedderError>, file: &str, words: &str) {
    let message = result.err().expect("a damaged model is refused").to_string();
    assert!(message.contains(file), "{message}");
    assert!(message.contains(words), "{message}");
}

/// Loads a tiny BERT after one of its files was changed; no content removes the file.
fn damaged_bert(file: &str, content: Option<&[u8]>, words: &str) {
    let copy = tempfile::tempdir().unwrap();
    copy_model("tiny-bert", copy.path());
    let path = copy.path().join(file);
    match content {
        Some(content) => fs::write(&path, content).unwrap(),
        None => fs::remove_file(&path).unwrap(),
    }
    refused(BertEmbedder::load(copy.path()), file, words);
}

#[test]
fn missing_files_are_named() {
    for file in [
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "1_Pooling/config.json",
    ] {
        damaged_bert(file, None, "is missing");
    }
    refused(
        BertEmbedder::load(Path::new("no-such-model")),
        "no-such-model",
        "is not a directory",
    );
    refused(
        StaticEmbedder::load(Path::new("no-such-model")),
        "no-such-model",
        "is not a directory",
    );
}

#[test]
fn damaged_files_are_named() {
    let weights = fs::read(fixtures().join("tiny-bert/model.safetensors")).unwrap();
    for length in [0, 7, 100, weights.len() / 2, weights.len() - 1] {
        damaged_bert("model.safetensors", Some(&weights[..length]), "is truncated");
    }
    damaged_bert("config.json", Some(b"{"), "is not what was expected");
    damaged_bert(
        "config.json",
        Some(b"{\"model_type\": \"bert\"}"),
        "missing field",
    );
    damaged_bert("tokenizer.json", Some(b"{}"), "is not a tokenizer");
}

#[test]
fn other_architectures_are_refused() {
    let config = fs::read_to_string(fixtures().join("tiny-bert/config.json")).unwrap();
    let changed = |from: &str, to: &str| {
        assert!(config.contains(from), "{from} in {config}");
        config.replace(from, to).into_bytes()
    };
    let roberta = changed("\"model_type\": \"bert\"", "\"model_type\": \"roberta\"");
    damaged_bert("config.json", Some(&roberta), "\"roberta\"; only \"bert\"");
    let relu = changed("\"hidden_act\": \"gelu\"", "\"hidden_act\": \"relu\"");
    damaged_bert("config.json", Some(&relu), "hidden_act");
    let heads = changed("\"num_attention_heads\": 4", "\"num_attention_heads\": 5");
    damaged_bert("config.json", Some(&heads), "5 attention heads");
    let dense = br#"[{"type": "sentence_transformers.models.Dense", "path": "2_Dense"}]"#;
    damaged_bert("modules.json", Some(dense), "\"Dense\"");
    let pooling = br#"{"pooling_mode_max_tokens": true}"#;
    damaged_bert("1_Pooling/config.json", Some(pooling), "max_tokens");
    let short = br#"{"max_seq_length": 2}"#;
    damaged_bert("sentence_bert_config.json", Some(short), "allows 2 tokens");
    refused(
        StaticEmbedder::load(&fixtures().join("tiny-bert")),
        "config.json",
        "\"bert\"",
    );
    refused(
        BertEmbedder::load(&fixtures().join("tiny-static")),
        "config.json",
        "\"model2vec\"",
    );
}

#[test]
fn weights_of_another_shape_are_refused() {
    let config = fs::read_to_string(fixtures().join("tiny-bert/config.json")).unwrap();
    let copy = tempfile::tempdir().unwrap();
    copy_model("tiny-bert", copy.path());
    let wider = config.replace("\"intermediate_size\": 56", "\"intermediate_size\": 64");
    fs::write(copy.path().join("config.json"), wider).unwrap();
    refused(
        BertEmbedder::load(copy.path()),
        "model.safetensors",
        "intermediate.dense.weight",
    );

    let copy = tempfile::tempdir().unwrap();
    copy_model("tiny-static", copy.path());
    let table = fixtures().join("tiny-static-mapped/model.safetensors");
    fs::copy(table, copy.path().join("model.safetensors")).unwrap();
    assert!(
        StaticEmbedder::load(copy.path()).is_ok(),
        "the same tokens in another table"
    );
    let tokenizer = fs::read_to_string(fixtures().join("tiny-static/tokenizer.json")).unwrap();
    let more = tokenizer.replacen("\"##9\":", "\"##9\":5000,\"##8x\":", 1);
    assert_ne!(more, tokenizer);
    fs::write(copy.path().join("tokenizer.json"), more).unwrap();
    refused(
        StaticEmbedder::load(copy.path()),
        "model.safetensors",
        "5001 tokens",
    );
}

#[test]
fn the_generation_follows_the_content() {
    let original = BertEmbedder::load(&fixtures().join("tiny-bert")).unwrap();
    assert_eq!(
        (
            original.generation().name.as_str(),
            original.generation().dimension
        ),
        ("tiny-bert", 32)
    );
    let parent = tempfile::tempdir().unwrap();
    let copy = parent.path().join("tiny-bert");
    copy_model("tiny-bert", &copy);
    let same = BertEmbedder::load(&copy).unwrap();
    assert_eq!(same.generation(), original.generation());
    fs::write(
        copy.join("sentence_bert_config.json"),
        r#"{"max_seq_length": 30}"#,
    )
    .unwrap();
    let shorter = BertEmbedder::load(&copy).unwrap();
    assert!(original.generation().check_same(shorter.generation()).is_err());
}

#[test]
fn huge_texts_are_read_to_the_limit() {
    let bert = BertEmbedder::load(&fixtures().join("tiny-bert")).unwrap();
    let tokens = StaticEmbedder::load(&fixtures().join("tiny-static")).unwrap();
    let huge = "one two ".repeat(1_000_000);
    for embedder in [&bert as &dyn Embedder, &tokens] {
        let vectors = embedder.embed(&[&huge, &huge[..2_000]]).unwrap();
        assert_eq!(vectors[0], vectors[1]);
    }
}
