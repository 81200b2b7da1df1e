//! Learns from executions which memories to retrieve, and retrieves them.
//!
//! [`Retriever`] answers requests; [`Trainer`] is the paper's Algorithm 1; [`Live`] serves many scopes that learn while
//! they are used. All see the world through three traits:
//! a [`Store`](upliftmem_store::Store) that keeps everything, an [`Executor`](upliftmem_agent::Executor) that runs
//! tasks, and an [`Embedder`](upliftmem_scorer::embedder::Embedder).

mod acquire;
mod adapt;
mod batches;
mod clock;
mod error;
mod evaluate;
mod journal;
mod learning;
mod live;
mod online;
mod report;
mod retrieve;
mod rollouts;
mod scorers;
mod scoring;
mod seeds;
mod serving;
mod settings;
mod state;
mod texts;
mod train;
mod trends;
mod work;

pub use acquire::{Chosen, Plan, Scene, plan};
pub use adapt::{Adapted, adapt};
pub use batches::{Bought, Buyer};
pub use error::{Error, Result};
pub use evaluate::{Arm, ArmResult, Detail, Evaluation, evaluate};
pub use live::{
    ActiveVersion, Brought, Distilling, Handed, Live, LiveScope, LiveSettings, Planned, PublishedVersion,
    Reported, Taken,
};
pub use online::{Learnt, OutcomeReport, Outcomes, ReferencePolicy};
pub use report::{Effect, HelpReport, MemoryEffect, help_report};
pub use retrieve::{Alternative, Retrieval, RetrievalRequest, RetrievedMemory, Retriever, Timings};
pub use rollouts::{OnSettled, Rollouts, Settled};
pub use scorers::{CascadePlan, LmPlan, LmPlanSettings, RemotePlan, ScorerPlan};
pub use scoring::{Believed, BelievingScorer, beam, sample, scorer_label, search};
pub use seeds::Seeds;
pub use serving::{active_scorer, labels_of, save_scorer};
pub use settings::{
    EngineSettings, ExecutionSettings, Incumbent, ProbeSettings, RetrievalSettings, Strategy,
    TrainingSettings, UtilitySettings,
};
pub use state::{Labelled, Learned, RunState};
pub use texts::{KnownMemory, KnownTask, Offer, Texts, inputs, store_generation};
pub use train::{OnProgress, Progress, RunEnd, Trained, Trainer, TrainingReport, Writing, WritingSettings};
pub use trends::{
    CalibrationBin, CalibrationReport, UpliftPoint, calibration_report, observed_uplifts, uplift_over_time,
};
pub use work::{Pause, WorkReport, Worker, WorkerSettings};
