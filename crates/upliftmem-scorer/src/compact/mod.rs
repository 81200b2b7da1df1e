//! The compact scorer: a structured Gaussian model of the value of a set, in closed form.
//!
//! Paper: sec. probing and app. observation say what a belief is; here mean and covariance come from one model.

#[cfg(test)]
mod checks;
mod evidence;
mod factor;
mod features;
mod kernel;
mod lbfgs;
mod learner;
mod parameters;
mod posterior;
mod query;
mod registry;
mod row;
mod serving;
mod snapshot;
mod space;
mod terms;

pub use features::{FeatureMap, TaskSets};
pub use kernel::LabelKind;
pub use learner::{CompactLearner, CompactSettings, FitReport, Label};
pub(crate) use learner::{CompactParts, Fitted, LabelParts};
pub use parameters::{Parameter, Parameters};
pub use snapshot::CompactScorer;
pub use space::Sharpening;
pub(crate) use space::dot;
