//! A model over tokens, without prompts: what measurements and other programs use.

use std::sync::Mutex;

use candle_core::Tensor;
use upliftmem_lm::{Dropout, PrefixCache, Trie};

use super::{
    Adapter, Base, Sharing, numerical,
    reader::Reader,
    tape::{Learnable, Tape},
};
use crate::error::Result;

/// Reads token sequences and gives the margin between two tokens at the end of each.
pub struct TokenScorer<'a> {
    base: &'a Base,
    adapter: Option<&'a Adapter>,
    direction: Tensor,
    pass_tokens: usize,
    cache: Mutex<PrefixCache>,
}

impl<'a> TokenScorer<'a> {
    /// Margins of `yes` over `no`; `pass_tokens` go through the model together, `cache_bytes` are kept between calls.
    pub fn new(
        base: &'a Base,
        adapter: Option<&'a Adapter>,
        [yes, no]: [u32; 2],
        pass_tokens: usize,
        cache_bytes: usize,
    ) -> Result<Self> {
        Ok(Self {
            base,
            adapter,
            direction: base.margin_direction(yes, no)?,
            pass_tokens: pass_tokens.max(1),
            cache: Mutex::new(PrefixCache::new(cache_bytes / base.kept_bytes().max(1))),
        })
    }

    /// The margin of each text. The last `tail` tokens of a text are never continued by another.
    pub fn margins(&self, texts: &[Vec<u32>], tail: usize, sharing: Sharing) -> Result<Vec<f64>> {
        let reader = Reader {
            base: self.base,
            adapter: self.adapter,
            direction: &self.direction,
            pass_tokens: self.pass_tokens,
            cache: (sharing == Sharing::Tree).then_some(&self.cache),
        };
        let found = reader.read(texts, tail, sharing, None)?;
        Ok(found
            .into_iter()
            .map(|reading| reading.map_or(0.0, |reading| reading.margin))
            .collect())
    }

    /// One way forth and back under dropout: the margins and the length of the gradient of their sum by the adapter.
    pub fn step(
        &self,
        adapter: &Adapter,
        texts: &[Vec<u32>],
        activation_bytes: usize,
    ) -> Result<(Vec<f64>, f64)> {
        let learnable = Learnable::new(adapter).map_err(numerical)?;
        let trie = Trie::new(texts, usize::MAX);
        let pass = self.base.pass(&trie.segments(texts), false)?;
        let dropout = Dropout {
            rate: adapter.settings().dropout,
            seed: 1,
        };
        let mut memory = activation_bytes;
        let tape = Tape::forward(
            self.base,
            &learnable,
            pass,
            Some(dropout),
            &self.direction,
            &mut memory,
        );
        let tape = tape.map_err(numerical)?;
        let margins = tape.margins.clone();
        let pairs = adapter.layers.iter().flatten();
        let mut gradient: Vec<Vec<f32>> = pairs
            .flat_map(|pair| [vec![0.0; pair.down.elem_count()], vec![0.0; pair.up.elem_count()]])
            .collect();
        tape.backward(&vec![1.0; margins.len()], &mut gradient)
            .map_err(numerical)?;
        let square: f64 = gradient
            .iter()
            .flatten()
            .map(|&slope| f64::from(slope).powi(2))
            .sum();
        Ok((margins, square.sqrt()))
    }
}
