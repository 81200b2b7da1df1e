//! Rebuilds a tokenizer from the vocabulary and merges of a GGUF file.
//!
//! The file only names the rule by which text is split before merging; the rules are written down here as the models'
//! own `tokenizer.json` have them.

use candle_core::quantized::gguf_file::Value;
use serde_json::{Map, json};

use crate::{
    error::Result,
    weights::{GgufFile, problem},
};

const QWEN: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// llama.cpp's kinds of tokens.
const CONTROL: i32 = 3;
const USER_DEFINED: i32 = 4;
const UNUSED: i32 = 5;

/// The bytes of a `tokenizer.json`.
pub(super) fn tokenizer_json(file: &GgufFile) -> Result<Vec<u8>> {
    let wrong = |what: &dyn std::fmt::Display| problem(file.path(), what);
    let model = file.text("tokenizer.ggml.model").unwrap_or_default();
    if model != "gpt2" {
        return Err(wrong(&format_args!(
            "tokenizer.ggml.model {model:?} is not known here; only byte-level BPE (\"gpt2\") is"
        )));
    }
    let list = |key: &str| -> Result<&[Value]> {
        let found = file.value(key).and_then(|value| value.to_vec().ok());
        found
            .map(Vec::as_slice)
            .ok_or_else(|| wrong(&format_args!("has no list {key}")))
    };
    let (tokens, merges) = (list("tokenizer.ggml.tokens")?, list("tokenizer.ggml.merges")?);
    let kinds = list("tokenizer.ggml.token_type")?;
    if kinds.len() != tokens.len() {
        return Err(wrong(&format_args!(
            "tokenizer.ggml.token_type has {} entries for {} tokens; get the file again",
            kinds.len(),
            tokens.len()
        )));
    }
    let (mut vocabulary, mut marks) = (Map::new(), Vec::new());
    for (id, (token, kind)) in tokens.iter().zip(kinds).enumerate() {
        let text = token.to_string().map_err(|error| wrong(&error))?;
        let kind = kind.to_i32().map_err(|error| wrong(&error))?;
        // Rows that fill up the embedding have no text.
        if kind == UNUSED {
            continue;
        }
        vocabulary.insert(text.clone(), json!(id));
        if kind == CONTROL || kind == USER_DEFINED {
            marks.push(json!({
                "id": id, "content": text, "single_word": false, "lstrip": false, "rstrip": false,
                "normalized": false, "special": kind == CONTROL,
            }));
        }
    }
    let merges = merges
        .iter()
        .map(|merge| merge.to_string().map(String::as_str))
        .collect::<candle_core::Result<Vec<_>>>()
        .map_err(|error| wrong(&error))?;
    let rule = file.text("tokenizer.ggml.pre").unwrap_or("default");
    let bytes = |regex: bool| json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": regex});
    let split = |pattern: &str| {
        let split =
            json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false});
        json!({"type": "Sequence", "pretokenizers": [split, bytes(false)]})
    };
    let (normalizer, splitting) = match rule {
        "qwen2" => (json!({"type": "NFC"}), split(QWEN)),
        "llama-bpe" | "llama3" => (json!(null), split(LLAMA3)),
        "smollm" => {
            let digits = json!({"type": "Digits", "individual_digits": true});
            (
                json!(null),
                json!({"type": "Sequence", "pretokenizers": [digits, bytes(true)]}),
            )
        }
        "gpt-2" | "default" => (json!(null), bytes(true)),
        other => {
            return Err(wrong(&format_args!(
                "tokenizer.ggml.pre {other:?} is not known here; use a directory with tokenizer.json instead"
            )));
        }
    };
    let whole = json!({
        "version": "1.0",
        "added_tokens": marks,
        "normalizer": normalizer,
        "pre_tokenizer": splitting,
        "post_processor": null,
        "decoder": bytes(false),
        "model": {
            "type": "BPE",
            "ignore_merges": rule.starts_with("llama"),
            "vocab": vocabulary,
            "merges": merges,
        },
    });
    Ok(whole.to_string().into_bytes())
}
