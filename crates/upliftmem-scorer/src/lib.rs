//! Predicts how much a set of memories improves on no memory at all.
//!
//! [`SetScorer`] is what retrieval asks; [`CompactScorer`] answers it on any CPU, in closed form.
//! [`Trainer`] fits models that learn by gradients: the set network ([`NetworkModel`]), alone or on what the compact
//! scorer leaves ([`train_residual`]).
//! [`embedder`] turns texts into the vectors it needs, [`models`] gets the weights for that.

pub mod checkpoint;
mod compact;
pub mod embedder;
mod embedding;
mod ensemble;
mod error;
#[cfg(feature = "lm")]
pub mod lm;
mod losses;
pub mod models;
mod network;
mod scorer;
mod service;
mod trainer;

pub use compact::{
    CompactLearner, CompactScorer, CompactSettings, FeatureMap, FitReport, Label, LabelKind, Parameter,
    Parameters, Sharpening, TaskSets,
};
pub use embedding::Embedding;
pub use ensemble::Ensemble;
pub use error::{Result, ScorerError};
pub use losses::{
    BatchLoss, LossBatch, LossParts, PathExample, PathsLoss, SetsOfTask, ValueExample, policy_loss,
};
pub use network::{AdamSettings, NetworkModel, NetworkScorer, NetworkSettings};
pub use scorer::{Ask, MemoryInput, ScorerVersion, Scores, SetScorer, TaskInput, TaskScorer};
pub use trainer::{
    Corpus, HeldOut, HeldOutReport, Keeper, MemberReport, Midway, Progress, Question, ResidualDecision,
    ResidualScorer, ResidualUpdate, SizeError, Stage, TrainableModel, Trainer, TrainerSettings, TrainingData,
    Update, UpdateReport, calibration_scale, fold, train_residual,
};
