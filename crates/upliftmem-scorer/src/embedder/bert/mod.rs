//! Sentence vectors by a BERT encoder: all-MiniLM-L6-v2 and its kin, in the layout of sentence-transformers.

mod config;
mod functions;
mod network;
mod product;

use std::{borrow::Cow, path::Path};

use rayon::prelude::*;

use self::{
    config::{Config, Limits, Pooling},
    network::Network,
};
use super::{
    Embedder, Generation, ModelDirectory, Result, direction,
    files::{Tensors, problem},
    head,
    tokens::Tokens,
};
use crate::Embedding;

const WEIGHTS: &str = "model.safetensors";
/// Tokens computed together: enough to make good use of the weights once they are in the cache, few enough that
/// what is computed stays there as well.
const TOKENS_TOGETHER: usize = 192;

/// A BERT with mean or first-token pooling.
pub struct BertEmbedder {
    generation: Generation,
    tokens: Tokens,
    limits: Limits,
    pooling: Pooling,
    network: Network,
}

impl BertEmbedder {
    /// Loads `config.json`, `model.safetensors`, `tokenizer.json` and, where present, `modules.json` with what it names
    /// and `sentence_bert_config.json`.
    pub fn load(directory: &Path) -> Result<Self> {
        let mut directory = ModelDirectory::open(directory, "bert 1")?;
        let config = Config::read(&mut directory)?;
        let pooling = Pooling::read(&mut directory)?;
        let limits = Limits::read(&mut directory, config.max_position_embeddings)?;
        let tokens = Tokens::load(&mut directory, Some(limits.tokens_max))?;
        if tokens.ids_end() > config.vocab_size {
            return Err(problem(
                &directory.file("tokenizer.json"),
                format_args!(
                    "has ids up to {}, the model knows {} tokens; the two belong to different models",
                    tokens.ids_end() - 1,
                    config.vocab_size
                ),
            ));
        }
        let bytes = directory.bytes(WEIGHTS)?;
        let network = Network::read(&Tensors::parse(directory.file(WEIGHTS), &bytes)?, &config)?;
        Ok(Self {
            generation: directory.generation(config.hidden_size),
            tokens,
            limits,
            pooling,
            network,
        })
    }

    fn tokens_of(&self, text: &str) -> Result<Vec<u32>> {
        let mut text = Cow::Borrowed(head(text, usize::MAX));
        if self.limits.lower_case {
            text = Cow::Owned(text.to_lowercase());
        }
        self.tokens.ids(&text, true)
    }

    /// The vectors of texts that are computed together.
    fn embed_together(&self, texts: &[Vec<u32>]) -> Result<Vec<Embedding>> {
        let width = self.generation.dimension;
        let states = self.network.encode(texts);
        let mut rest = states.as_slice();
        texts
            .iter()
            .map(|text| {
                let (own, others) = rest.split_at(text.len() * width);
                rest = others;
                direction(&self.pooling.pool(own, width))
            })
            .collect()
    }
}

impl Pooling {
    /// The vector of a text from those of its tokens; its length does not matter.
    fn pool(self, states: &[f32], width: usize) -> Vec<f32> {
        let mut pooled = vec![0.0; width];
        let count = match self {
            Self::Mean => usize::MAX,
            Self::First => 1,
        };
        for state in states.chunks_exact(width).take(count) {
            for (sum, value) in pooled.iter_mut().zip(state) {
                *sum += value;
            }
        }
        pooled
    }
}

impl Embedder for BertEmbedder {
    fn generation(&self) -> &Generation {
        &self.generation
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Embedding>> {
        let tokens: Vec<Vec<u32>> = texts
            .par_iter()
            .map(|text| self.tokens_of(text))
            .collect::<Result<_>>()?;
        let vectors: Vec<Vec<Embedding>> = together(&tokens)
            .into_par_iter()
            .map(|texts| self.embed_together(texts))
            .collect::<Result<_>>()?;
        Ok(vectors.into_iter().flatten().collect())
    }
}

/// Consecutive texts of about [`TOKENS_TOGETHER`] tokens in total. Nothing is padded, so their lengths may differ.
fn together(texts: &[Vec<u32>]) -> Vec<&[Vec<u32>]> {
    let mut groups = Vec::new();
    let (mut start, mut tokens) = (0, 0);
    for (position, text) in texts.iter().enumerate() {
        if position > start && tokens + text.len() > TOKENS_TOGETHER {
            groups.push(&texts[start..position]);
            (start, tokens) = (position, 0);
        }
        tokens += text.len();
    }
    if start < texts.len() {
        groups.push(&texts[start..]);
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_keep_the_order_and_the_budget() {
        let texts: Vec<Vec<u32>> = [3, 500, 100, 92, 1, 0, 191, 192, 2]
            .map(|length| vec![7; length])
            .to_vec();
        let groups = together(&texts);
        assert_eq!(groups.concat(), texts);
        let lengths: Vec<Vec<usize>> = groups
            .iter()
            .map(|group| group.iter().map(Vec::len).collect())
            .collect();
        assert_eq!(
            lengths,
            [
                vec![3],
                vec![500],
                vec![100, 92],
                vec![1, 0, 191],
                vec![192],
                vec![2]
            ]
        );
        assert!(together(&[]).is_empty());
    }
}
