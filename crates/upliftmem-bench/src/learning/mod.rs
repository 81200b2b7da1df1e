//! How fast retrievers learn: what share of the best set's gain over no memory they reach on unseen tasks.
//!
//! All learners of one run see the same labels. They are gathered as a deployment gathers them: a bootstrap of
//! random sets, then a stream of tasks whose sets the compact scorer samples while it learns, then random local
//! edits of those sets. Every task has one reference.

mod curve;
mod hashing;
mod learners;
mod protocol;
mod search;

pub use curve::{BUDGETS, Measurement, Run, run};
pub use hashing::HashedWords;
pub use learners::{Choice, CompactRetriever, Learner, LinearModel};
pub use protocol::{Arena, Execution, Stage};
