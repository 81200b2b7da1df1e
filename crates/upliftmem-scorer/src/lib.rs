//! Predicts how much a set of memories improves on no memory at all.
//!
//! [`SetScorer`] is what retrieval asks; [`CompactScorer`] answers it on any CPU, in closed form.

mod compact;
mod embedding;
mod ensemble;
mod error;
mod scorer;

pub use compact::{
    CompactLearner, CompactScorer, CompactSettings, FeatureMap, FitReport, Label, LabelKind, Parameter,
    Parameters, Sharpening, TaskSets,
};
pub use embedding::Embedding;
pub use ensemble::Ensemble;
pub use error::{Result, ScorerError};
pub use scorer::{Ask, MemoryInput, ScorerVersion, Scores, SetScorer, TaskInput, TaskScorer};
