//! The scorer of the paper: a causal language model reads a task and a whole set, and answers yes or no.
//!
//! | file | what is in it |
//! |---|---|
//! | `prompt`, `calibration` | what is asked, and what the answer is worth |
//! | `candidates`, `reader`, `token_scorer`, `scorer` | margins of many texts, read through a prefix tree |
//! | `tape`, `optimiser`, `model`, `peft` | adapters: how they learn, and their files |
//! | `cascade`, `remote` | beside a quick scorer; on a server instead |
//!
//! The model itself is [`upliftmem_lm`].

mod calibration;
mod candidates;
mod cascade;
#[cfg(test)]
mod checks;
mod model;
mod optimiser;
mod peft;
pub mod prompt;
mod reader;
mod remote;
mod scorer;
mod settings;
mod tape;
mod token_scorer;

pub use calibration::Calibration;
pub use cascade::{Cascade, CascadeResult, CascadeSettings, Rescored, distilled};
pub use model::{LmModel, LmState};
pub use peft::{load_adapter, save_adapter};
pub use reader::Sharing;
pub use remote::{BoundRemote, RemoteScore, RemoteScorer, RemoteSettings};
pub use scorer::{BoundLm, LmBase, LmScorer, SetReading};
pub use settings::LmSettings;
pub use token_scorer::TokenScorer;
pub use upliftmem_lm::{
    Adapter, Architecture, Base, Device, KvCache, LmConfig, LmTokenizer, LoraSettings, LowRank, Module,
    RopeScaling,
};

pub(crate) use optimiser::Moved;

use std::path::Path;

use crate::error::ScorerError;

/// A failure of the arithmetic.
pub(crate) fn numerical(error: candle_core::Error) -> ScorerError {
    upliftmem_lm::numerical(error).into()
}

/// An error about a file.
pub(crate) fn problem(file: &Path, problem: impl std::fmt::Display) -> ScorerError {
    upliftmem_lm::problem(file, problem).into()
}
