//! The set network and its trainer, as those who use them see them.

#![allow(
    clippy::float_cmp,
    clippy::unwrap_used,
    reason = "tests: equal means equal bits, and a failure may panic"
)]

mod checkpoint;
mod compact_checkpoint;
mod learning;
mod promises;
mod residual;
mod training;
mod world;
