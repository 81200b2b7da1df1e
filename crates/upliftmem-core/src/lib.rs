//! The pure heart of UpliftMem: every decision and every statistic, without I/O, clocks or async.
//!
//! Nothing here fails except on invalid input at the boundary ([`InvalidInput`]); randomness is a parameter;
//! the same input gives the same bytes, whatever the number of threads.

// Test windows are shared with benches and integration tests, which know the crate by its name.
#[cfg(test)]
extern crate self as upliftmem_core;

mod acquisition;
mod beam;
mod belief;
mod comparisons;
mod coverage;
mod error;
mod evsi;
mod feasibility;
mod ledger;
pub mod objectives;
mod policy;
mod revision;
mod schedule;
pub mod statistics;
#[cfg(test)]
mod test_world;
mod utility;
mod vocabulary;
mod window;

pub use acquisition::{
    AcquisitionSettings, Evaluation, HelpedComparison, Probability, ProbeBatch, ProbePick, ProbeQuestion,
    ProbeStrategy, SelectionWork, select_probes,
};
pub use beam::{BeamDepth, BeamResult, BeamSearch, BeamSettings, BeamStep, ScoredSet, SearchEnd};
pub use belief::{FitBounds, LabelRow, LinearBelief, LinearPrior, PoolBelief, ReferenceBelief};
pub use comparisons::{Comparison, ComparisonFamily, Neighbourhood, Side, local_comparisons};
pub use coverage::{
    AdaptiveCoverage, COVERAGE_MEMBERS_MAX, Coverage, CoverageQuestion, adaptive_coverage,
    coverage_lower_bound, expected_executions, no_evidence_lower_bound, no_evidence_probability,
    probe_coverage,
};
pub use error::{InvalidInput, Result};
pub use evsi::{
    evsi, evsi_derivatives, evsi_upper_bound, family_evsi, information_gain, log_psi, normal_density,
    normal_upper_tail, opportunity_loss, psi, resolved_variance,
};
pub use feasibility::SearchSpace;
pub use ledger::{Ledger, LedgerLine};
pub use policy::{ActionDistribution, PathLikelihood, PathPolicy, SamplePath, conditional_gain};
pub use revision::{Revision, RevisionEnd, RevisionRule, RevisionStep, SelectedVersion};
pub use schedule::{Schedule, ScheduleRule, ScheduleStep, UpdateRule};
pub use utility::UtilityRule;
pub use vocabulary::*;
pub use window::{AcquisitionWindow, Probe, ProbePool, WindowEntry};
