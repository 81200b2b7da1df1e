//! The scorer of the paper: a causal language model reads a task and a whole set, and answers yes or no.
//!
//! | file | what is in it |
//! |---|---|
//! | `config`, `weights`, `tokenizer` | models of the Hugging Face hub and GGUF files |
//! | `ops` | the operations that time is spent in, each with its way back |
//! | `layer`, `pass`, `base` | the frozen model over packed segments |
//! | `adapter`, `peft` | what is learned, and its files |
//! | `trie`, `cache` | texts with a common start are read once |
//!
//! # A language model by itself
//!
//! [`Base`] is useful without the scorer: [`Base::load`] gives a model and its tokenizer, [`Base::forward`] continues a
//! text whose keys and values are in a [`KvCache`], [`Base::logits`] gives what may come next.
//!
//! ```no_run
//! use upliftmem_scorer::lm::{Base, KvCache};
//!
//! let (base, tokenizer) = Base::load("model.gguf".as_ref(), &candle_core::Device::Cpu)?;
//! let mut cache = KvCache::default();
//! let mut tokens = tokenizer.encode("The capital of France is")?;
//! for _ in 0..8 {
//!     let hidden = base.forward(&tokens, &mut cache, None)?;
//!     let last = hidden.narrow(0, tokens.len() - 1, 1)?;
//!     let next = base.logits(&last)?.argmax(1)?.to_vec1::<u32>()?[0];
//!     print!("{}", tokenizer.decode(&[next], false)?);
//!     tokens = vec![next];
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod adapter;
mod base;
mod cache;
mod cascade;
#[cfg(test)]
mod checks;
mod config;
mod layer;
mod model;
mod ops;
mod optimiser;
mod pass;
mod peft;
pub mod prompt;
mod reader;
mod remote;
mod scorer;
mod settings;
mod tape;
mod token_scorer;
mod tokenizer;
mod trie;
mod weights;

pub use adapter::{Adapter, Calibration, LoraSettings, LowRank, Module};
pub use base::{Base, KvCache};
pub use candle_core::Device;
pub use cascade::{Cascade, CascadeResult, CascadeSettings, Rescored, distilled};
pub use config::{Architecture, LmConfig, RopeScaling};
pub use model::{LmModel, LmState};
pub use peft::{load_adapter, save_adapter};
pub use reader::Sharing;
pub use remote::{RemoteScore, RemoteScorer, RemoteSettings};
pub use scorer::{BoundLm, LmBase, LmScorer, LmSlot, SetReading};
pub use settings::LmSettings;
pub use token_scorer::TokenScorer;
pub use tokenizer::LmTokenizer;

pub(crate) use optimiser::Moved;

use crate::error::ScorerError;

/// A failure of the arithmetic.
#[expect(clippy::needless_pass_by_value, reason = "the shape that map_err wants")]
pub(crate) fn numerical(error: candle_core::Error) -> ScorerError {
    ScorerError::Numerical {
        step: "the language model",
        problem: error.to_string(),
    }
}
