//! Training by gradients, for any model that can push slopes of values backward.
//!
//! Value-only warm-up first, then joint updates: the whole value buffer is replayed, the policy learns from the latest
//! paths only. Several members make an ensemble; each leaves out the tasks of one fold, which serve for early stopping
//! and for an honest [`HeldOutReport`]. Every update publishes a new immutable version. Paper: sec. training,
//! app. policy_training.

mod corpus;
mod data;
mod folds;
mod member;
mod model;
mod report;
mod residual;
mod settings;
mod update;

pub use corpus::Corpus;
pub use data::TrainingData;
pub use folds::fold;
pub use member::{Keeper, MemberReport, Midway, Progress};
pub use model::{Question, TrainableModel};
pub use report::{HeldOut, HeldOutReport, SizeError, calibration_scale};
pub use residual::{ResidualDecision, ResidualScorer, ResidualUpdate, train_residual};
pub use settings::TrainerSettings;
pub(crate) use update::upcast;
pub use update::{Stage, Trainer, Update, UpdateReport};
