//! Which scorer learns and answers: the compact one, a language model, both, or one behind a server.

mod adapters;
mod cascade;
mod last_layer;
mod reading;

use std::sync::Arc;

use serde_json::{Value, json};
use upliftmem_scorer::{
    CompactSettings,
    lm::{CascadeSettings, RemoteScorer},
};

pub(crate) use adapters::{AdapterLog, OpenAdapter};
pub use adapters::{LmPlan, LmPlanSettings};
pub(crate) use cascade::CascadeScorer;
pub(crate) use reading::{Ground, Reader, ReadingScorer};

/// A model behind a server.
pub struct RemotePlan {
    /// What asks it.
    pub scorer: Arc<RemoteScorer>,
    /// What it is, so that a run is not continued with another.
    pub name: String,
    /// Most coordinates of the belief.
    pub belief_dimension: usize,
    /// Most labels that the belief looks at, the newest.
    pub belief_labels: usize,
}

/// How the language model and the compact scorer work together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CascadePlan {
    /// What the language model may do.
    pub settings: CascadeSettings,
    /// Sets whose values by the language model the compact scorer learns from like labels; 0 is none.
    pub distilled: usize,
}

/// What predicts uplift, and how it learns.
#[derive(Clone)]
pub enum ScorerPlan {
    /// The structured Gaussian model.
    Compact(CompactSettings),
    /// A language model with an adapter.
    Lm(Arc<LmPlan>),
    /// The compact scorer searches, the language model decides.
    Cascade(CompactSettings, Arc<LmPlan>, CascadePlan),
    /// A language model behind a server.
    Remote(Arc<RemotePlan>),
}

impl From<CompactSettings> for ScorerPlan {
    fn from(settings: CompactSettings) -> Self {
        Self::Compact(settings)
    }
}

impl std::fmt::Debug for ScorerPlan {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}", self.described())
    }
}

impl ScorerPlan {
    /// Which scorer, without its version.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Compact(_) => "compact",
            Self::Lm(_) => "lm",
            Self::Cascade(..) => "cascade",
            Self::Remote(_) => "remote",
        }
    }

    /// All that a run must not change.
    pub(crate) fn described(&self) -> Value {
        match self {
            Self::Compact(settings) => json!(settings),
            Self::Lm(plan) => json!({"kind": "lm", "lm": plan.described()}),
            Self::Cascade(compact, plan, cascade) => json!({
                "kind": "cascade",
                "compact": compact,
                "lm": plan.described(),
                "rescored": cascade.settings.rescored,
                "distilled": cascade.distilled,
            }),
            Self::Remote(plan) => json!({"kind": "remote", "remote": plan.name}),
        }
    }

    /// Growth of the labels that makes a new choice of hyper-parameters worthwhile.
    pub(crate) fn refit_growth(&self) -> f64 {
        match self {
            Self::Compact(settings) | Self::Cascade(settings, ..) => settings.refit_growth,
            Self::Lm(_) | Self::Remote(_) => CompactSettings::default().refit_growth,
        }
    }

    /// The language model, if there is one in this process.
    pub(crate) const fn lm(&self) -> Option<&Arc<LmPlan>> {
        match self {
            Self::Lm(plan) | Self::Cascade(_, plan, _) => Some(plan),
            Self::Compact(_) | Self::Remote(_) => None,
        }
    }

    /// The name under which versions are recorded, with the adapter they were made with.
    pub(crate) fn version_name(&self, adapter: Option<&OpenAdapter>) -> String {
        let adapter = adapter.map_or("base", |adapter| adapter.digest.as_str());
        match self {
            Self::Compact(_) | Self::Remote(_) => self.name().into(),
            Self::Lm(_) | Self::Cascade(..) => format!("{}:{adapter}", self.name()),
        }
    }
}
