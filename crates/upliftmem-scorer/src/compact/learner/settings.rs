//! How the compact model learns, and what a fit reports.

use serde::{Deserialize, Serialize};

use super::super::{kernel::LabelKind, parameters::Parameters, space::Sharpening};

/// How the compact model learns.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CompactSettings {
    /// What labels measure.
    pub labels: LabelKind,
    /// Whether gains stay within what a task has left to gain (smoothed labels only).
    pub headroom: bool,
    /// Labels up to which conditioning is exact; beyond, it goes through inducing rows.
    pub exact_max: usize,
    /// Number of inducing rows.
    pub inducing_max: usize,
    /// Labels that hyper-parameters are chosen on: evenly spaced ones, if there are more. Few, and few steps: labels are
    /// gathered by the model itself, and the more of them decide, the more hyper-parameters explain how they were chosen
    /// (docs/learning-quality.md).
    pub evidence_max: usize,
    /// Evaluations of the marginal likelihood in the final search.
    pub evaluations_max: usize,
    /// How texts are placed among tasks; chosen by marginal likelihood if not given.
    pub sharpening: Option<Sharpening>,
    /// Growth of the number of labels that makes a refit worthwhile.
    pub refit_growth: f64,
    /// What a memory of which nothing is known is expected to cost, for utilities in [0, 1]: it takes attention. Without
    /// this, sets grow by memories whose predicted effect is a little above zero by chance.
    pub member_cost: f64,
    /// What each memory is expected to cost beside that on a task that the agent is sure to do by itself, for utilities in
    /// [0, 1]: it may break what works. Less where less is done without it, nothing where as much is left to gain as usual.
    /// Goes with `headroom`.
    pub meddling_cost: f64,
    /// The noise of an execution without memories as a share of that of one with some (variances; smoothed labels only).
    /// Labels of sets also scatter by what the model does not know of sets; an agent that is asked twice alone does much the
    /// same, and the less its references scatter, the more one says about tasks like it.
    pub reference_noise: f64,
}

impl Default for CompactSettings {
    fn default() -> Self {
        Self {
            labels: LabelKind::Smoothed,
            headroom: true,
            exact_max: 3_000,
            inducing_max: 1_500,
            evidence_max: 300,
            evaluations_max: 10,
            sharpening: None,
            refit_growth: 1.4,
            member_cost: 0.07,
            meddling_cost: 0.0,
            reference_noise: 1.0,
        }
    }
}

/// What a refit did.
#[derive(Debug, Clone, PartialEq)]
pub struct FitReport {
    /// Labels in all.
    pub labels: usize,
    /// Labels that the hyper-parameters were chosen on.
    pub evidence_labels: usize,
    /// Evaluations of the marginal likelihood.
    pub evaluations: usize,
    /// Log marginal likelihood of those labels, at the hyper-parameters chosen.
    pub log_evidence: f64,
    /// How texts are compared: chosen by marginal likelihood too.
    pub sharpening: Sharpening,
    /// The hyper-parameters.
    pub parameters: Parameters,
    /// With inducing rows, the share of the labels' prior variance that they can not express.
    pub inexpressible: Option<f64>,
}
