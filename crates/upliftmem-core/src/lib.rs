//! The pure heart of UpliftMem: every decision and every statistic, without I/O, clocks or async.
//!
//! Nothing here fails except on invalid input at the boundary ([`InvalidInput`]); randomness is a parameter;
//! the same input gives the same bytes, whatever the number of threads.

pub mod acquisition;
pub mod belief;
mod error;
mod evsi;
mod ledger;
mod utility;
pub mod window;
mod vocabulary;

pub use error::{InvalidInput, Result};
pub use evsi::{
    evsi, evsi_derivatives, evsi_upper_bound, family_evsi, information_gain, log_psi, normal_density, normal_upper_tail,
    opportunity_loss, psi, resolved_variance,
};
pub use ledger::{Ledger, LedgerLine};
pub use utility::UtilityRule;
pub use vocabulary::*;
