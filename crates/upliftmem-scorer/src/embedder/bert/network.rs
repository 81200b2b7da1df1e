//! The BERT encoder, forward only, in single precision.
//!
//! Texts of a batch stand one after another without padding: products run over all tokens at once, attention runs
//! inside each text.

use std::ops::Range;

use super::{
    config::Config,
    functions::{LayerNorm, add_bias, add_bias_and_activate, add_bias_and_rows, softmax_rows},
    product::Packed,
};
use crate::embedder::{Result, files::Tensors};

/// A product and what is added to it.
struct Linear {
    weight: Packed,
    bias: Vec<f32>,
}

struct Layer {
    /// Queries, keys and values of all heads in one product.
    attention: Linear,
    attention_output: Linear,
    attention_norm: LayerNorm,
    up: Linear,
    down: Linear,
    output_norm: LayerNorm,
}

/// The encoder's weights.
pub(super) struct Network {
    hidden: usize,
    heads: usize,
    words: Vec<f32>,
    /// Position and token type added up, as every token here is of the first type.
    positions: Vec<f32>,
    norm: LayerNorm,
    layers: Vec<Layer>,
}

impl Network {
    /// Takes the weights in the names of BERT checkpoints, with or without the prefix of a model inside a model.
    pub(super) fn read(tensors: &Tensors<'_>, config: &Config) -> Result<Self> {
        let prefix = if tensors.has("bert.embeddings.word_embeddings.weight") {
            "bert."
        } else {
            ""
        };
        let reader = Reader {
            tensors,
            prefix,
            epsilon: config.layer_norm_eps,
        };
        let hidden = config.hidden_size;
        let types = reader.table("embeddings.token_type_embeddings", config.type_vocab_size, hidden)?;
        let mut positions = reader.table(
            "embeddings.position_embeddings",
            config.max_position_embeddings,
            hidden,
        )?;
        for position in positions.chunks_exact_mut(hidden) {
            for (value, first_type) in position.iter_mut().zip(&types) {
                *value += first_type;
            }
        }
        Ok(Self {
            hidden,
            heads: config.num_attention_heads,
            words: reader.table("embeddings.word_embeddings", config.vocab_size, hidden)?,
            positions,
            norm: reader.norm("embeddings.LayerNorm", hidden)?,
            layers: (0..config.num_hidden_layers)
                .map(|number| reader.layer(number, hidden, config.intermediate_size))
                .collect::<Result<_>>()?,
        })
    }

    /// The vectors of the tokens of all texts, text after text. Ids and lengths are within the tables.
    pub(super) fn encode(&self, texts: &[Vec<u32>]) -> Vec<f32> {
        let mut spans = Vec::with_capacity(texts.len());
        let mut state = Vec::new();
        let mut start = 0;
        for text in texts {
            spans.push(start..start + text.len());
            start += text.len();
            for (&token, position) in text.iter().zip(self.positions.chunks_exact(self.hidden)) {
                let first = token as usize * self.hidden;
                let word = &self.words[first..first + self.hidden];
                state.extend(word.iter().zip(position).map(|(word, position)| word + position));
            }
        }
        self.norm.apply(&mut state);
        let mut scratch = Scratch::default();
        for layer in &self.layers {
            self.attend(layer, &spans, &mut state, &mut scratch);
            let Scratch { wide, narrow, .. } = &mut scratch;
            layer.up.weight.multiply(&state, wide);
            add_bias_and_activate(wide, &layer.up.bias);
            layer.down.weight.multiply(wide, narrow);
            add_bias_and_rows(narrow, &layer.down.bias, &state);
            layer.output_norm.apply(narrow);
            std::mem::swap(&mut state, narrow);
        }
        state
    }

    /// Every token looks at the tokens of its own text, once for each head.
    fn attend(&self, layer: &Layer, spans: &[Range<usize>], state: &mut Vec<f32>, scratch: &mut Scratch) {
        let Scratch {
            wide,
            narrow,
            context,
            head,
        } = scratch;
        layer.attention.weight.multiply(state, wide);
        add_bias(wide, &layer.attention.bias);
        context.clear();
        context.resize(state.len(), 0.0);
        for span in spans {
            for number in 0..self.heads {
                let values = head.attend(&wide[span.start * 3 * self.hidden..], span.len(), number, self);
                let width = self.hidden / self.heads;
                let rows = context[span.start * self.hidden..].chunks_exact_mut(self.hidden);
                for (row, values) in rows.zip(values.chunks_exact(width)) {
                    row[number * width..(number + 1) * width].copy_from_slice(values);
                }
            }
        }
        layer.attention_output.weight.multiply(context, narrow);
        add_bias_and_rows(narrow, &layer.attention_output.bias, state);
        layer.attention_norm.apply(narrow);
        std::mem::swap(state, narrow);
    }
}

/// Memory that the layers use one after another.
#[derive(Default)]
struct Scratch {
    wide: Vec<f32>,
    narrow: Vec<f32>,
    context: Vec<f32>,
    head: Head,
}

/// One head's attention in one text.
struct Head {
    queries: Vec<f32>,
    keys: Packed,
    values: Packed,
    shares: Vec<f32>,
    result: Vec<f32>,
}

impl Default for Head {
    fn default() -> Self {
        Self {
            queries: Vec::new(),
            keys: Packed::new(0, 0, |_, _| 0.0),
            values: Packed::new(0, 0, |_, _| 0.0),
            shares: Vec::new(),
            result: Vec::new(),
        }
    }
}

impl Head {
    /// `rows` start at the text's first token; each holds the queries, then the keys, then the values of all heads.
    fn attend(&mut self, rows: &[f32], length: usize, number: usize, network: &Network) -> &[f32] {
        let hidden = network.hidden;
        let width = hidden / network.heads;
        let first = number * width;
        let entry =
            |part: usize, token: usize, column: usize| rows[(token * 3 + part) * hidden + first + column];
        self.queries.clear();
        for row in rows.chunks_exact(3 * hidden).take(length) {
            self.queries.extend_from_slice(&row[first..first + width]);
        }
        self.keys
            .fill(width, length, |column, token| entry(1, token, column));
        self.keys.multiply(&self.queries, &mut self.shares);
        softmax_rows(&mut self.shares, length, 1.0 / (width as f32).sqrt());
        self.values
            .fill(length, width, |token, column| entry(2, token, column));
        self.values.multiply(&self.shares, &mut self.result);
        &self.result
    }
}

/// Names of BERT checkpoints.
struct Reader<'a> {
    tensors: &'a Tensors<'a>,
    prefix: &'a str,
    epsilon: f32,
}

impl Reader<'_> {
    fn numbers(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        self.tensors.numbers(&format!("{}{name}", self.prefix), shape)
    }

    fn table(&self, name: &str, rows: usize, columns: usize) -> Result<Vec<f32>> {
        self.numbers(&format!("{name}.weight"), &[rows, columns])
    }

    fn norm(&self, name: &str, width: usize) -> Result<LayerNorm> {
        Ok(LayerNorm {
            scale: self.numbers(&format!("{name}.weight"), &[width])?,
            offset: self.numbers(&format!("{name}.bias"), &[width])?,
            epsilon: self.epsilon,
        })
    }

    /// Linear maps of the same input, side by side.
    fn linear(&self, names: &[String], inputs: usize, outputs: usize) -> Result<Linear> {
        let (mut weight, mut bias) = (Vec::new(), Vec::new());
        for name in names {
            weight.extend(self.table(name, outputs, inputs)?);
            bias.extend(self.numbers(&format!("{name}.bias"), &[outputs])?);
        }
        Ok(Linear {
            // Checkpoints keep a row for each output.
            weight: Packed::new(inputs, bias.len(), |input, output| {
                weight[output * inputs + input]
            }),
            bias,
        })
    }

    fn layer(&self, number: usize, hidden: usize, intermediate: usize) -> Result<Layer> {
        let at = |name: &str| format!("encoder.layer.{number}.{name}");
        let parts = ["query", "key", "value"].map(|part| at(&format!("attention.self.{part}")));
        Ok(Layer {
            attention: self.linear(&parts, hidden, hidden)?,
            attention_output: self.linear(&[at("attention.output.dense")], hidden, hidden)?,
            attention_norm: self.norm(&at("attention.output.LayerNorm"), hidden)?,
            up: self.linear(&[at("intermediate.dense")], hidden, intermediate)?,
            down: self.linear(&[at("output.dense")], intermediate, hidden)?,
            output_norm: self.norm(&at("output.LayerNorm"), hidden)?,
        })
    }
}
