//! Causal language models on a processor: Qwen3, Qwen2 and Llama, from directories of the hub and GGUF files.
//!
//! [`Base::load`] gives a model and its tokenizer, [`Base::forward`] continues a text whose keys and values are in a
//! [`KvCache`], [`Base::logits`] gives what may come next. What scores and what generates are both built on it.
//!
//! | file | what is in it |
//! |---|---|
//! | `config`, `weights`, `tokenizer` | models of the Hugging Face hub and GGUF files |
//! | `ops` | the operations that time is spent in, each with its way back |
//! | `layer`, `pass`, `table`, `base` | the frozen model over packed segments |
//! | `adapter` | what may stand beside it |
//! | `trie`, `cache`, `kv` | texts with a common start are read once, and go on where they ended |
//!
//! ```no_run
//! use upliftmem_lm::{Base, KvCache};
//!
//! let (base, tokenizer) = Base::load("model.gguf".as_ref(), &upliftmem_lm::Device::Cpu)?;
//! let mut cache = KvCache::default();
//! let mut tokens = tokenizer.encode("The capital of France is")?;
//! for _ in 0..8 {
//!     let hidden = base.forward(&tokens, &mut cache, None)?;
//!     let next = base.likeliest(&hidden, tokens.len() - 1)?;
//!     print!("{}", tokenizer.decode(&[next], false)?);
//!     tokens = vec![next];
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod adapter;
mod base;
mod cache;
mod config;
mod error;
mod kv;
mod layer;
mod ops;
mod pass;
mod table;
mod tokenizer;
mod trie;
mod weights;

pub use adapter::{Adapter, LoraSettings, LowRank, Module};
pub use base::{Base, PassOutput};
pub use cache::{PrefixCache, Spans};
pub use candle_core::{Device, Tensor};
pub use config::{Architecture, LmConfig, RopeScaling};
pub use error::{LmError, Result, numerical};
pub use kv::KvCache;
pub use layer::{Beside, Layer, LayerOutput};
pub use ops::{Dropout, KeptLayers, rms_norm, with_entries};
pub use pass::{Before, Pass, Segment};
pub use tokenizer::LmTokenizer;
pub use trie::{Node, Trie};
pub use weights::problem;

/// Spreads every bit over all bits (the finaliser of splitmix64).
pub(crate) const fn mix(state: u64) -> u64 {
    let state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}
