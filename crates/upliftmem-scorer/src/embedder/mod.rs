//! Text to vectors: what every embedder promises, and the four that keep the promise.
//!
//! | embedder | needs | meaning it sees |
//! |---|---|---|
//! | [`HashEmbedder`] | nothing | shared words and spellings |
//! | [`StaticEmbedder`] | a model2vec directory | words, also different ones that mean the same |
//! | [`BertEmbedder`] | a sentence-transformers BERT directory | sentences |
//! | [`HttpEmbedder`] | a server with `/v1/embeddings` | whatever the server's model sees |
//!
//! ```
//! use upliftmem_scorer::embedder::{Embedder, HashEmbedder};
//!
//! let embedder = HashEmbedder::default();
//! let vectors = embedder.embed(&["restart the database", "restarting databases"])?;
//! assert_eq!(vectors[0].dimension(), embedder.generation().dimension);
//! # Ok::<(), upliftmem_scorer::embedder::EmbedderError>(())
//! ```

mod bert;
mod error;
mod files;
mod generation;
pub(crate) mod hash;
mod http;
mod static_tokens;
mod tokens;

use std::borrow::Cow;

pub use bert::BertEmbedder;
pub use error::{EmbedderError, Result};
pub use generation::Generation;
pub use hash::HashEmbedder;
pub use http::{HttpEmbedder, HttpSettings};
pub use static_tokens::StaticEmbedder;

pub(crate) use files::ModelDirectory;
pub(crate) use generation::hexadecimal;

use crate::Embedding;

/// Characters of a text that are looked at; the rest is ignored.
///
/// Models read a few hundred tokens at most, so this only bounds the work on texts that no model would read to the end.
pub const TEXT_CHARACTERS_MAX: usize = 100_000;

/// Turns texts into vectors of length one.
///
/// The same text always gives the same vector, whatever else is in the batch and in whatever order. Every text
/// has a vector: one that says nothing (empty, only spaces, only unknown tokens) gets a fixed vector that is close to
/// no other.
pub trait Embedder: Send + Sync {
    /// Which vectors these are. Vectors of different generations can not be compared.
    fn generation(&self) -> &Generation;

    /// One vector for each text, in the order of the texts.
    fn embed(&self, texts: &[&str]) -> Result<Vec<Embedding>>;
}

/// The first [`TEXT_CHARACTERS_MAX`] characters, or fewer if asked for fewer.
fn head(text: &str, characters_max: usize) -> &str {
    let limit = characters_max.min(TEXT_CHARACTERS_MAX);
    // A text of so few bytes can not have more characters; most texts end here.
    if text.len() <= limit {
        return text;
    }
    text.char_indices()
        .nth(limit)
        .map_or(text, |(position, _)| &text[..position])
}

/// A vector of length one from entries that may all be zero: those become the vector of texts that say nothing.
fn direction(values: &[f32]) -> Result<Embedding> {
    let values: Cow<'_, [f32]> = if values.iter().all(|&value| value == 0.0) {
        Cow::Owned(blank(values.len()))
    } else {
        Cow::Borrowed(values)
    };
    Ok(Embedding::new(&values)?)
}

/// What a text without content gets: signs without a pattern, so that its angle to any other text is close to a right
/// angle.
fn blank(dimension: usize) -> Vec<f32> {
    (0..dimension as u64)
        .map(|entry| if hash::mix(entry) >> 63 == 0 { 1.0 } else { -1.0 })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_is_cut_between_characters() {
        assert_eq!(head("añb", 2), "añ");
        assert_eq!(head("añb", 3), "añb");
        assert_eq!(head("", 3), "");
        assert_eq!(head("ab", 0), "");
        let long = "ü".repeat(TEXT_CHARACTERS_MAX + 7);
        assert_eq!(head(&long, usize::MAX).chars().count(), TEXT_CHARACTERS_MAX);
    }

    #[test]
    fn nothing_has_a_direction_of_its_own() {
        let blank = direction(&[0.0; 384]).unwrap();
        let sum: f32 = blank.values().iter().sum();
        assert!(sum.abs() < 3.0, "signs are balanced: {sum}");
        assert_eq!(direction(&[3.0, 4.0]).unwrap().values(), [0.6, 0.8]);
        assert!(direction(&[f32::NAN]).is_err());
    }
}
