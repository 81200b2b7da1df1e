//! What the files of a sentence-transformers BERT say about it.

use serde::Deserialize;

use crate::embedder::{ModelDirectory, Result, files::problem};

/// Sizes of the network.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Config {
    pub(super) vocab_size: usize,
    pub(super) hidden_size: usize,
    pub(super) num_hidden_layers: usize,
    pub(super) num_attention_heads: usize,
    pub(super) intermediate_size: usize,
    pub(super) max_position_embeddings: usize,
    #[serde(default = "two")]
    pub(super) type_vocab_size: usize,
    #[serde(default = "tiny")]
    pub(super) layer_norm_eps: f32,
    #[serde(default)]
    hidden_act: Option<String>,
    #[serde(default)]
    position_embedding_type: Option<String>,
}

fn two() -> usize {
    2
}

fn tiny() -> f32 {
    1e-12
}

impl Config {
    /// Reads `config.json` and refuses networks that this code would compute wrongly.
    pub(super) fn read(directory: &mut ModelDirectory) -> Result<Self> {
        const FILE: &str = "config.json";
        let value: serde_json::Value = directory.json(FILE)?;
        let known = |value: Option<&str>, name: &str, only: &str| match value {
            Some(value) if value != only => Err(problem(
                &directory.file(FILE),
                format_args!("{name} is {value:?}; only {only:?} is known here"),
            )),
            _ => Ok(()),
        };
        // The kind first: other kinds lack fields, which would be a puzzling message.
        known(value["model_type"].as_str(), "model_type", "bert")?;
        let config: Self = serde_json::from_value(value)
            .map_err(|error| problem(&directory.file(FILE), format_args!("is not of a BERT: {error}")))?;
        known(config.hidden_act.as_deref(), "hidden_act", "gelu")?;
        known(
            config.position_embedding_type.as_deref(),
            "position_embedding_type",
            "absolute",
        )?;
        if config.num_attention_heads == 0 || !config.hidden_size.is_multiple_of(config.num_attention_heads) {
            return Err(problem(
                &directory.file(FILE),
                format_args!(
                    "hidden_size {} can not be split into {} attention heads",
                    config.hidden_size, config.num_attention_heads
                ),
            ));
        }
        Ok(config)
    }
}

/// How the vectors of a text's tokens become the text's vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pooling {
    /// The mean of all tokens.
    Mean,
    /// The first token.
    First,
}

#[derive(Deserialize)]
struct Module {
    #[serde(rename = "type")]
    kind: String,
    path: String,
}

#[derive(Deserialize)]
struct PoolingConfig {
    #[serde(flatten)]
    fields: serde_json::Map<String, serde_json::Value>,
}

impl Pooling {
    /// Follows `modules.json`; a directory without one is a plain BERT, whose tokens are averaged.
    pub(super) fn read(directory: &mut ModelDirectory) -> Result<Self> {
        const FILE: &str = "modules.json";
        let Some(modules) = directory.json_if_present::<Vec<Module>>(FILE)? else {
            return Ok(Self::Mean);
        };
        let mut pooling = Self::Mean;
        for module in modules {
            match module.kind.rsplit('.').next().unwrap_or_default() {
                // Every vector is scaled to length one in the end.
                "Transformer" | "Normalize" => {}
                "Pooling" => pooling = Self::of_config(directory, &format!("{}/config.json", module.path))?,
                other => {
                    return Err(problem(
                        &directory.file(FILE),
                        format_args!(
                            "has a module {other:?}; only Transformer, Pooling and Normalize are known here"
                        ),
                    ));
                }
            }
        }
        Ok(pooling)
    }

    /// Old files have a flag for each way, new ones a word.
    fn of_config(directory: &mut ModelDirectory, file: &str) -> Result<Self> {
        let config: PoolingConfig = directory.json(file)?;
        let flags = config
            .fields
            .iter()
            .filter(|(_, value)| value.as_bool() == Some(true))
            .filter_map(|(name, _)| name.strip_prefix("pooling_mode_"));
        let word = config.fields.get("pooling_mode").and_then(|mode| mode.as_str());
        let modes: Vec<&str> = flags.chain(word).collect();
        match modes.as_slice() {
            ["mean" | "mean_tokens"] => Ok(Self::Mean),
            ["cls" | "cls_token"] => Ok(Self::First),
            other => Err(problem(
                &directory.file(file),
                format_args!("pools by {other:?}; only mean or cls, one of them, is known here"),
            )),
        }
    }
}

/// How texts are cut to what the network reads.
pub(super) struct Limits {
    /// Tokens, the marks of start and end included.
    pub(super) tokens_max: usize,
    /// Whether texts are set in lower case before they are split.
    pub(super) lower_case: bool,
}

#[derive(Deserialize, Default)]
struct SentenceConfig {
    #[serde(default)]
    max_seq_length: Option<usize>,
    #[serde(default)]
    do_lower_case: bool,
}

#[derive(Deserialize, Default)]
struct TokenizerConfig {
    /// Sometimes an absurdly large number that stands for "no limit".
    #[serde(default)]
    model_max_length: Option<f64>,
}

impl Limits {
    /// The model's own limit if it states one, and never more positions than it has.
    pub(super) fn read(directory: &mut ModelDirectory, positions: usize) -> Result<Self> {
        const FILE: &str = "sentence_bert_config.json";
        let sentence: SentenceConfig = directory.json_if_present(FILE)?.unwrap_or_default();
        let stated = if sentence.max_seq_length.is_some() {
            sentence.max_seq_length
        } else {
            let tokenizer: TokenizerConfig = directory
                .json_if_present("tokenizer_config.json")?
                .unwrap_or_default();
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "the cast saturates, which is what is wanted"
            )]
            tokenizer.model_max_length.map(|max| max as usize)
        };
        let tokens_max = stated.map_or(positions, |max| max.min(positions));
        // Fewer than three leave no room for a token between the marks.
        if tokens_max < 3 {
            return Err(problem(
                &directory.file(FILE),
                format_args!("allows {tokens_max} tokens; a text needs at least 3"),
            ));
        }
        Ok(Self {
            tokens_max,
            lower_case: sentence.do_lower_case,
        })
    }
}
