//! The pure heart of UpliftMem: every decision and every statistic, without I/O, clocks or async.
//!
//! Nothing here fails except on invalid input at the boundary ([`InvalidInput`]); randomness is a parameter;
//! the same input gives the same bytes, whatever the number of threads.

mod error;
mod ledger;
pub mod objectives;
mod revision;
mod schedule;
pub mod statistics;
mod utility;
mod vocabulary;

pub use error::{InvalidInput, Result};
pub use ledger::{Ledger, LedgerLine};
pub use revision::{Revision, RevisionEnd, RevisionRule, RevisionStep, SelectedVersion};
pub use schedule::{Schedule, ScheduleRule, ScheduleStep, UpdateRule};
pub use utility::UtilityRule;
pub use vocabulary::*;
