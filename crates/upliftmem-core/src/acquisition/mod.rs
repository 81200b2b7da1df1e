//! Which executions to buy. Paper: sec. probing, app. probe_algorithm.
//!
//! [`select_probes`] draws a batch of probes one by one. After each it asks every question again as if that
//! probe's label were known, without ever looking at one. For [`ProbeStrategy::Evsi`] the next probe is drawn from
//! the softmax of the marginal values V_t(q), each a sum over all comparisons of the window. `chooser` does so
//! exactly without computing them all; `docs/decisions/probe-selection.md` tells how and why.

mod bound;
mod chooser;
mod gumbel;
pub(crate) mod kernel;
mod lines;
mod problem;
mod sampling;
mod select;
mod state;
mod table;
#[cfg(test)]
mod tests;

pub use select::{
    AcquisitionSettings, Evaluation, HelpedComparison, Probability, ProbeBatch, ProbePick, ProbeQuestion,
    ProbeStrategy, SelectionWork, select_probes,
};
