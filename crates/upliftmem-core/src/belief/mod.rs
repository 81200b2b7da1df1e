//! What is believed about the values of sets, as far as acquisition may know it.
//!
//! Probe selection sees a [`PoolBelief`]: means and covariances of set values and of the labels that could be
//! bought, nothing else. Any Gaussian belief can stand behind it: the Bayesian last layer of a language model
//! ([`LinearBelief`]), or the exact posterior of a structured model through [`PoolBelief::from_covariance`].

mod factor;
mod fit;
mod linear;
mod pool;

pub use fit::{FitBounds, LinearPrior};
pub use linear::{LabelRow, LinearBelief};
pub use pool::{PoolBelief, ReferenceBelief};
