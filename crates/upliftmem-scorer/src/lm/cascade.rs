//! A quick scorer searches, the language model has the last word on the best of what was found.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};
use upliftmem_core::{MemorySet, ScoredSet, TaskId};

use super::LmScorer;
use crate::{
    Label, MemoryInput, TaskInput,
    error::{Result, invalid},
};

/// How much the language model may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CascadeSettings {
    /// Sets that are read by the language model, best first.
    pub rescored: usize,
    /// Milliseconds that it may take.
    pub budget_ms: u64,
}

impl Default for CascadeSettings {
    fn default() -> Self {
        Self {
            rescored: 8,
            budget_ms: 2_000,
        }
    }
}

/// A set that was valued twice.
#[derive(Debug, Clone, PartialEq)]
pub struct Rescored {
    /// The set with the value that counts: the language model's.
    pub scored: ScoredSet,
    /// What the quick scorer said.
    pub quick: f64,
}

/// What a cascade decided.
#[derive(Debug, Clone, PartialEq)]
pub struct CascadeResult {
    /// The best set: by the language model if it read any, else by the quick scorer. The empty set at 0 always competes.
    pub best: ScoredSet,
    /// What the language model read, in the order of the quick values.
    pub rescored: Vec<Rescored>,
    /// Sets that there was no time for.
    pub left_out: usize,
}

/// A language model that has the last word on what a quick scorer found.
pub struct Cascade {
    thorough: Arc<LmScorer>,
    settings: CascadeSettings,
}

impl Cascade {
    /// The last word is this language model's.
    pub fn new(thorough: Arc<LmScorer>, settings: CascadeSettings) -> Result<Self> {
        if settings.rescored == 0 {
            return Err(invalid(
                "cascade.rescored",
                "is 0; give the language model at least one set",
            ));
        }
        Ok(Self { thorough, settings })
    }

    /// Lets the language model read the best sets of a search, one pass of the prefix tree at a time, until its budget or the
    /// time that is left is over.
    pub fn decide(
        &self,
        task: TaskInput<'_>,
        memories: &[MemoryInput<'_>],
        found: &[ScoredSet],
        left: Option<Duration>,
    ) -> Result<CascadeResult> {
        let budget = Duration::from_millis(self.settings.budget_ms);
        let deadline = Instant::now() + left.map_or(budget, |left| left.min(budget));
        let mut order: Vec<&ScoredSet> = found.iter().filter(|scored| !scored.set.is_empty()).collect();
        order.sort_by(|a, b| a.preference(b));
        order.dedup_by(|a, b| a.set == b.set);
        order.truncate(self.settings.rescored);
        let bound = self.thorough.bind_task(task, memories);
        let mut rescored = Vec::with_capacity(order.len());
        // The best first and by itself: whatever the time, the favourite is read before the others.
        let (first, others) = order.split_at(order.len().min(1));
        for part in [first, others] {
            let sets: Vec<MemorySet> = part.iter().map(|scored| scored.set.clone()).collect();
            for (scored, reading) in part.iter().zip(bound.read(&sets, Some(deadline))?) {
                let Some(reading) = reading else { continue };
                rescored.push(Rescored {
                    scored: ScoredSet {
                        set: scored.set.clone(),
                        value: reading.value,
                    },
                    quick: scored.value,
                });
            }
        }
        let left_out = order.len() - rescored.len();
        let mut best = ScoredSet {
            set: MemorySet::EMPTY,
            value: 0.0,
        };
        let candidates: Vec<&ScoredSet> = if rescored.is_empty() {
            order
        } else {
            rescored.iter().map(|one| &one.scored).collect()
        };
        for candidate in candidates {
            if candidate.preference(&best).is_lt() {
                best = candidate.clone();
            }
        }
        Ok(CascadeResult {
            best,
            rescored,
            left_out,
        })
    }
}

/// What the language model says of sets, as labels that the compact scorer learns from as if they had been executed. A
/// label is the task's no-memory utility plus the uplift that was read.
pub fn distilled(task: TaskId, alone: f64, readings: &BTreeMap<MemorySet, f64>, time: f64) -> Vec<Label> {
    readings
        .iter()
        .map(|(set, uplift)| Label {
            task,
            set: set.clone(),
            value: alone + uplift,
            reference: None,
            time,
        })
        .collect()
}
