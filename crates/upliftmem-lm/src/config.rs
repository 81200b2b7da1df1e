//! The shapes of the models that can be read.

use serde::Deserialize;

/// A family of models: they differ in what attention does beside its products.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Architecture {
    /// Heads of queries and keys are normalised.
    Qwen3,
    /// Queries, keys and values have a bias.
    Qwen2,
    /// Neither.
    Llama,
}

impl Architecture {
    /// By the name that files give it.
    fn named(name: &str) -> Option<Self> {
        match name {
            "qwen3" => Some(Self::Qwen3),
            "qwen2" => Some(Self::Qwen2),
            "llama" => Some(Self::Llama),
            _ => None,
        }
    }

    /// Its name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Qwen3 => "qwen3",
            Self::Qwen2 => "qwen2",
            Self::Llama => "llama",
        }
    }
}

/// The shape of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct LmConfig {
    /// Its family.
    pub architecture: Architecture,
    /// Entries of a hidden state.
    pub hidden: usize,
    /// Entries inside a feed-forward block.
    pub intermediate: usize,
    /// Layers.
    pub layers: usize,
    /// Heads of queries.
    pub heads: usize,
    /// Heads of keys and values.
    pub key_heads: usize,
    /// Entries of a head.
    pub head_size: usize,
    /// Tokens.
    pub vocabulary: usize,
    /// Tokens that a text may have.
    pub positions: usize,
    /// Keeps a normalisation finite.
    pub norm_epsilon: f64,
    /// Base of the rotary angles.
    pub rope_base: f64,
    /// How the angles are stretched for long texts.
    pub rope_scaling: Option<RopeScaling>,
    /// Whether the head is the embedding.
    pub tied: bool,
    /// Whether queries, keys and values have a bias.
    pub attention_bias: bool,
}

/// Llama 3's stretching of slow angles.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
pub struct RopeScaling {
    factor: f64,
    low_freq_factor: f64,
    high_freq_factor: f64,
    original_max_position_embeddings: f64,
}

#[derive(Deserialize)]
struct File {
    model_type: String,
    hidden_size: usize,
    intermediate_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    num_key_value_heads: Option<usize>,
    head_dim: Option<usize>,
    vocab_size: usize,
    max_position_embeddings: usize,
    rms_norm_eps: f64,
    rope_theta: Option<f64>,
    rope_scaling: Option<serde_json::Value>,
    rope_parameters: Option<serde_json::Value>,
    #[serde(default)]
    tie_word_embeddings: bool,
    attention_bias: Option<bool>,
    #[serde(default)]
    mlp_bias: bool,
    #[serde(default)]
    use_sliding_window: bool,
    hidden_act: Option<String>,
}

impl LmConfig {
    /// From the `config.json` of a directory of the Hugging Face hub. The error says which key is wrong.
    pub fn from_json(bytes: &[u8]) -> Result<Self, String> {
        let file: File = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        let architecture = Architecture::named(&file.model_type).ok_or_else(|| {
            format!(
                "model_type {:?} is not known here; use qwen3, qwen2 or llama",
                file.model_type
            )
        })?;
        for (key, wrong) in [
            ("mlp_bias", file.mlp_bias),
            ("use_sliding_window", file.use_sliding_window),
        ] {
            if wrong {
                return Err(format!("{key} is not supported here"));
            }
        }
        if let Some(act) = file.hidden_act.filter(|act| act != "silu") {
            return Err(format!(
                "hidden_act {act:?} is not supported here; only \"silu\" is"
            ));
        }
        let rope = file.rope_parameters.or(file.rope_scaling);
        let base = rope.as_ref().and_then(|rope| rope.get("rope_theta")?.as_f64());
        let config = Self {
            architecture,
            hidden: file.hidden_size,
            intermediate: file.intermediate_size,
            layers: file.num_hidden_layers,
            heads: file.num_attention_heads,
            key_heads: file.num_key_value_heads.unwrap_or(file.num_attention_heads),
            head_size: file
                .head_dim
                .unwrap_or(file.hidden_size / file.num_attention_heads.max(1)),
            vocabulary: file.vocab_size,
            positions: file.max_position_embeddings,
            norm_epsilon: file.rms_norm_eps,
            rope_base: file.rope_theta.or(base).unwrap_or(10_000.0),
            rope_scaling: scaling(rope)?,
            tied: file.tie_word_embeddings,
            attention_bias: file.attention_bias.unwrap_or(architecture == Architecture::Qwen2),
        };
        config.check()?;
        Ok(config)
    }

    /// Refuses shapes that no model has.
    pub fn check(&self) -> Result<(), String> {
        for (what, count, most) in [
            ("hidden_size", self.hidden, 1 << 16),
            ("intermediate_size", self.intermediate, 1 << 18),
            ("num_hidden_layers", self.layers, 1 << 10),
            ("num_attention_heads", self.heads, 1 << 10),
            ("num_key_value_heads", self.key_heads, 1 << 10),
            ("head_dim", self.head_size, 1 << 10),
            ("vocab_size", self.vocabulary, 1 << 24),
            ("max_position_embeddings", self.positions, 1 << 30),
        ] {
            if count == 0 || count > most {
                return Err(format!("{what} is {count}, which is not between 1 and {most}"));
            }
        }
        if !self.heads.is_multiple_of(self.key_heads) {
            return Err(format!(
                "num_attention_heads {} is no multiple of num_key_value_heads {}",
                self.heads, self.key_heads
            ));
        }
        if !self.head_size.is_multiple_of(2) {
            return Err(format!("head_dim {} is odd", self.head_size));
        }
        if self.norm_epsilon <= 0.0 || self.rope_base <= 1.0 || !self.rope_base.is_finite() {
            return Err(format!(
                "rms_norm_eps {} or rope_theta {} is out of range",
                self.norm_epsilon, self.rope_base
            ));
        }
        Ok(())
    }

    /// Entries of all heads of queries.
    pub const fn query_size(&self) -> usize {
        self.heads * self.head_size
    }

    /// Entries of all heads of keys.
    pub const fn key_size(&self) -> usize {
        self.key_heads * self.head_size
    }

    /// The rotary angles of one step, for half a head.
    pub(crate) fn frequencies(&self) -> Vec<f64> {
        (0..self.head_size / 2)
            .map(|at| {
                let step = self.rope_base.powf(-2.0 * at as f64 / self.head_size as f64);
                self.rope_scaling.map_or(step, |scaling| scaling.stretch(step))
            })
            .collect()
    }
}

impl RopeScaling {
    /// Slow angles are divided by the factor, quick ones stay, those between are blended.
    fn stretch(&self, step: f64) -> f64 {
        let wave = 2.0 * std::f64::consts::PI / step;
        let length = self.original_max_position_embeddings;
        if wave < length / self.high_freq_factor {
            return step;
        }
        if wave > length / self.low_freq_factor {
            return step / self.factor;
        }
        let blend = (length / wave - self.low_freq_factor) / (self.high_freq_factor - self.low_freq_factor);
        (1.0 - blend) * step / self.factor + blend * step
    }
}

fn scaling(rope: Option<serde_json::Value>) -> Result<Option<RopeScaling>, String> {
    let Some(rope) = rope.filter(|rope| !rope.is_null()) else {
        return Ok(None);
    };
    let kind = rope
        .get("rope_type")
        .or_else(|| rope.get("type"))
        .and_then(|kind| kind.as_str());
    match kind {
        None | Some("default") => Ok(None),
        Some("llama3") => serde_json::from_value(rope)
            .map(Some)
            .map_err(|error| format!("rope_scaling: {error}")),
        Some(other) => Err(format!("rope_scaling of type {other:?} is not supported here")),
    }
}

/// The keys of a GGUF file that make a shape.
pub(crate) trait GgufKeys {
    /// A whole number.
    fn number(&self, key: &str) -> Option<usize>;
    /// A number.
    fn real(&self, key: &str) -> Option<f64>;
    /// A text.
    fn text(&self, key: &str) -> Option<&str>;
}

impl LmConfig {
    /// From the keys of a GGUF file; what only the tensors tell is given.
    pub(crate) fn from_gguf(keys: &impl GgufKeys, vocabulary: usize, tied: bool) -> Result<Self, String> {
        let name = keys
            .text("general.architecture")
            .ok_or("has no key general.architecture")?;
        let architecture = Architecture::named(name).ok_or_else(|| {
            format!("general.architecture {name:?} is not known here; use qwen3, qwen2 or llama")
        })?;
        let key = |what: &str| format!("{name}.{what}");
        let number = |what: &str| {
            keys.number(&key(what))
                .ok_or_else(|| format!("has no key {}", key(what)))
        };
        let (hidden, heads) = (number("embedding_length")?, number("attention.head_count")?);
        let head_size = keys
            .number(&key("attention.key_length"))
            .unwrap_or(hidden / heads.max(1));
        if keys
            .text(&key("rope.scaling.type"))
            .is_some_and(|kind| kind != "none")
        {
            return Err(format!("{} is not supported here", key("rope.scaling.type")));
        }
        let config = Self {
            architecture,
            hidden,
            intermediate: number("feed_forward_length")?,
            layers: number("block_count")?,
            heads,
            key_heads: keys.number(&key("attention.head_count_kv")).unwrap_or(heads),
            head_size,
            vocabulary,
            positions: number("context_length")?,
            norm_epsilon: keys
                .real(&key("attention.layer_norm_rms_epsilon"))
                .ok_or_else(|| format!("has no key {}", key("attention.layer_norm_rms_epsilon")))?,
            rope_base: keys.real(&key("rope.freq_base")).unwrap_or(10_000.0),
            rope_scaling: None,
            tied,
            attention_bias: architecture == Architecture::Qwen2,
        };
        config.check()?;
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QWEN3: &str = r#"{"model_type":"qwen3","hidden_size":1024,"intermediate_size":3072,"num_hidden_layers":28,
        "num_attention_heads":16,"num_key_value_heads":8,"head_dim":128,"vocab_size":151669,"rms_norm_eps":1e-6,
        "max_position_embeddings":40960,"rope_theta":1000000,"tie_word_embeddings":true,"rope_scaling":null,
        "use_sliding_window":false,"hidden_act":"silu","attention_bias":false}"#;

    #[test]
    fn a_published_shape_is_read() {
        let config = LmConfig::from_json(QWEN3.as_bytes()).unwrap();
        assert_eq!(config.architecture, Architecture::Qwen3);
        assert_eq!((config.query_size(), config.key_size()), (2048, 1024));
        assert_eq!(config.frequencies()[0], 1.0);
        assert!(config.tied && !config.attention_bias);
    }

    #[test]
    fn what_can_not_be_computed_is_refused_by_name() {
        for (from, to, named) in [
            ("\"qwen3\"", "\"mamba\"", "mamba"),
            ("\"silu\"", "\"gelu\"", "hidden_act"),
            (
                "\"num_key_value_heads\":8",
                "\"num_key_value_heads\":3",
                "num_key_value_heads",
            ),
            (
                "\"num_hidden_layers\":28",
                "\"num_hidden_layers\":0",
                "num_hidden_layers",
            ),
            (
                "\"use_sliding_window\":false",
                "\"use_sliding_window\":true",
                "use_sliding_window",
            ),
            (
                "\"rope_scaling\":null",
                "\"rope_scaling\":{\"type\":\"yarn\"}",
                "yarn",
            ),
        ] {
            let problem = LmConfig::from_json(QWEN3.replace(from, to).as_bytes()).unwrap_err();
            assert!(problem.contains(named), "{problem}");
        }
    }
}
