//! Predicts how much a set of memories improves on no memory at all.
//!
//! [`SetScorer`] is what retrieval asks; [`CompactScorer`] answers it on any CPU, in closed form.
//! [`embedder`] turns texts into the vectors it needs, [`models`] gets the weights for that.

mod compact;
pub mod embedder;
mod embedding;
mod ensemble;
mod error;
pub mod models;
mod scorer;

pub use compact::{
    CompactLearner, CompactScorer, CompactSettings, FeatureMap, FitReport, Label, LabelKind, Parameter,
    Parameters, Sharpening, TaskSets,
};
pub use embedding::Embedding;
pub use ensemble::Ensemble;
pub use error::{Result, ScorerError};
pub use scorer::{Ask, MemoryInput, ScorerVersion, Scores, SetScorer, TaskInput, TaskScorer};
