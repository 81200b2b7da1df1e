//! What a search found, and the trace that explains it.

use serde::Serialize;

use super::ScoredSet;
use crate::{MemoryId, MemorySet};

/// Why a search ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SearchEnd {
    /// At the limits: nothing was left to extend.
    Complete,
    /// The budget of scores was too small for all extensions; what was scored has competed.
    Budget,
    /// The caller finished while sets were still to be scored.
    Interrupted,
}

/// The best set found, and how.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BeamResult {
    /// The preferred set of the archive.
    pub best: ScoredSet,
    /// Every set that was ever kept, and the empty set, in order of preference.
    pub archive: Vec<ScoredSet>,
    /// Why the search ended.
    pub end: SearchEnd,
    /// Number of sets that were scored.
    pub scores: usize,
    /// The trace: one entry for each depth that was scored.
    pub depths: Vec<BeamDepth>,
}

/// What happened at one depth.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct BeamDepth {
    /// Number of distinct extensions that were scored.
    pub scored: usize,
    /// The extensions that were kept, in order of preference.
    pub kept: Vec<BeamStep>,
    /// The best of those that were not.
    pub runners_up: Vec<BeamStep>,
}

/// One extension of a set.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BeamStep {
    /// The extended set.
    pub set: MemorySet,
    /// Its predicted uplift.
    pub value: f64,
    /// The set it extends; the preferred one if several of the beam lead here.
    pub parent: MemorySet,
    /// The memory that was added.
    pub added: MemoryId,
    /// What adding it gained. Paper: g_theta, eq. conditional_gain.
    pub gain: f64,
}

impl BeamResult {
    /// The steps from the empty set to the best one; their gains add up to its value, unless another scorer had the last
    /// word on it. Paper: eq. telescoping.
    pub fn steps(&self) -> Vec<&BeamStep> {
        let mut steps = Vec::with_capacity(self.best.set.len());
        let mut target = &self.best.set;
        for depth in self.depths[..self.best.set.len()].iter().rev() {
            // A set in the archive was kept at the depth of its size, and so was its parent; one that another scorer
            // preferred may have been a runner-up.
            let mut shown = depth.kept.iter().chain(&depth.runners_up);
            if let Some(step) = shown.find(|step| &step.set == target) {
                target = &step.parent;
                steps.push(step);
            }
        }
        steps.reverse();
        steps
    }
}
