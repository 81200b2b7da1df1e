//! The paper's evaluation: one training, repeated evaluation, all methods on the same tasks with the same randomness.
//!
//! A [`Bench`] is one evaluation under way: a suite, its sizes, a folder. Everything in the folder is named by what it is the
//! result of, so the same command goes on where it was stopped: trained stores keep every execution, and a method that
//! was evaluated is not evaluated again.

mod ablations;
mod bench;
mod budgets;
mod error;
mod estimate;
mod methods;
mod pool;
mod probes;
mod records;
mod report;
mod scores;
mod uplift;
mod writer;

use serde::{Deserialize, Serialize};

pub use ablations::{Ablation, ablations};
pub use bench::{Bench, Event, OnEvent};
pub use budgets::{BUDGETS_K, KRow, budget_k};
pub use error::{Error, Result};
pub use estimate::{Estimate, Work, estimate};
pub use methods::{Method, controlled, evaluate_methods};
pub use pool::Pool;
pub use probes::{PROBE_BUDGETS, ProbeCurve, ProbePoint, probe_curves};
pub use report::{write_ablations, write_budget_k, write_main, write_probes};
pub use scores::{Cell, MethodScores, PartScores};
pub use uplift::{UpliftRun, Variant};

/// How much of a benchmark is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sizes {
    /// Tasks whose plays memories are made of.
    pub seed: usize,
    /// Tasks to learn from.
    pub runtime: usize,
    /// How many of those are for warm-up: random sets, before anything is learned.
    pub warm_up: usize,
    /// Most tasks of each part of the evaluation; all, if none is given.
    pub evaluation: Option<usize>,
}

impl Sizes {
    /// The paper's sizes for ALFWorld. Paper: tab. splits.
    pub const ALFWORLD: Self = Self {
        seed: 500,
        runtime: 1_200,
        warm_up: 200,
        evaluation: None,
    };

    /// Sizes for BigCodeBench: the paper's 798 training tasks; it writes memories of all of them while it trains, here those of
    /// the seed tasks are there before.
    pub const BIGCODEBENCH: Self = Self {
        seed: 298,
        runtime: 500,
        warm_up: 200,
        evaluation: None,
    };

    /// The paper's sizes for MemSyco-Bench: every instance brings its own dialogue, so there are no seed tasks.
    pub const MEMSYCO: Self = Self {
        seed: 0,
        runtime: 1_085,
        warm_up: 200,
        evaluation: None,
    };

    /// The paper's sizes for WebShop.
    pub const WEBSHOP: Self = Self {
        seed: 500,
        runtime: 2_300,
        warm_up: 200,
        evaluation: None,
    };
}
