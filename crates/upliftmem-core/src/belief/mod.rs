//! What is believed about the values of sets, as far as acquisition may know it.
//!
//! Probe selection sees means and covariances of set values and of the labels that could be bought, nothing
//! else, so that any Gaussian belief can stand behind it: the Bayesian last layer of a language model
//! ([`LinearBelief`]) or the exact posterior of a structured model.

mod pool;

pub use pool::{PoolBelief, ReferenceBelief};
