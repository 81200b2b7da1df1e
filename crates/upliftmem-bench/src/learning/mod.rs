//! How fast retrievers learn: what share of the best set's gain over no memory they reach on unseen tasks.
//!
//! Labels are gathered as a deployment gathers them, by the compact scorer itself; other learners see the same ones.

mod arena;
mod curve;
mod gather;
mod learners;
mod retrieve;
mod texts;

pub use arena::Arena;
pub use curve::{BUDGETS, CompactRow, Loss, Measurement, Plan, Run, run};
pub use gather::{Execution, Gathering};
pub use learners::{Choice, Learner, LinearModel, ScorerRetriever};
pub use texts::Texts;
