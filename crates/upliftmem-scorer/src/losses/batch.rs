//! One mini-batch: the sets it needs, and the joint objective given their values.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use upliftmem_core::{
    MemorySet, PathPolicy, RetrievalPath, TaskId, Uplift,
    objectives::{Objectives, ValueLabel},
};

use super::{PathExample, ValueExample, paths::policy_loss};
use crate::error::{Result, invalid};

/// Sets of one task that a batch needs the values of; never the empty set, whose value is 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetsOfTask {
    /// The task.
    pub task: TaskId,
    /// The sets, sorted, each once.
    pub sets: Vec<MemorySet>,
}

/// The parts of the objective, before their weights.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct LossParts {
    /// The weighted sum that is minimised.
    pub total: f64,
    /// Magnitude. Paper: L_reg.
    pub regression: f64,
    /// Sign. Paper: L_sign.
    pub sign: f64,
    /// Order. Paper: L_pair.
    pub pair: f64,
    /// Recorded paths. Paper: L_policy.
    pub policy: f64,
}

/// The objective of a batch and its derivative.
#[derive(Debug, Clone, PartialEq)]
pub struct BatchLoss {
    /// The objective and its parts.
    pub parts: LossParts,
    /// The derivative of the total by the value of each set, in the order of [`LossBatch::asked`].
    pub slopes: Vec<f64>,
}

/// Labels and paths that are learned from together.
#[derive(Debug, Clone)]
pub struct LossBatch {
    asked: Vec<SetsOfTask>,
    labels: Vec<ValueLabel>,
    /// Where the value of each label's set stands.
    label_at: Vec<usize>,
    pairs: Vec<(usize, usize)>,
    paths: Vec<PathInBatch>,
    count: usize,
}

#[derive(Debug, Clone)]
struct PathInBatch {
    path: RetrievalPath,
    uplift: Uplift,
    /// Where the values of its sets stand.
    at: Vec<usize>,
}

impl LossBatch {
    /// Collects the sets of labels and paths. Refuses a label of the empty set and a path that is broken.
    pub fn new(objectives: &Objectives, values: &[&ValueExample], paths: &[&PathExample]) -> Result<Self> {
        let mut needed: BTreeMap<TaskId, BTreeSet<MemorySet>> = BTreeMap::new();
        for example in values {
            if example.set.is_empty() {
                return Err(invalid(
                    format_args!("label of task {}", example.label.task),
                    "the empty set has uplift 0 by definition and teaches nothing; leave it out",
                ));
            }
            let sets = needed.entry(example.label.task).or_default();
            sets.insert(example.set.clone());
        }
        for example in paths {
            example.path.check()?;
            let sets = example.path.sets_to_score();
            needed.entry(example.task).or_default().extend(sets);
        }
        let mut places: BTreeMap<TaskId, BTreeMap<MemorySet, usize>> = BTreeMap::new();
        let mut count = 0;
        for (&task, sets) in &needed {
            let of_task = places.entry(task).or_default();
            for set in sets {
                of_task.insert(set.clone(), count);
                count += 1;
            }
        }
        let labels: Vec<ValueLabel> = values.iter().map(|example| example.label).collect();
        Ok(Self {
            label_at: values
                .iter()
                .map(|example| places[&example.label.task][&example.set])
                .collect(),
            pairs: objectives.comparable_pairs(&labels).pairs,
            labels,
            paths: paths
                .iter()
                .map(|example| PathInBatch {
                    path: example.path.clone(),
                    uplift: example.uplift,
                    at: example
                        .path
                        .sets_to_score()
                        .iter()
                        .map(|set| places[&example.task][set])
                        .collect(),
                })
                .collect(),
            asked: needed
                .into_iter()
                .map(|(task, sets)| SetsOfTask {
                    task,
                    sets: sets.into_iter().collect(),
                })
                .collect(),
            count,
        })
    }

    /// The sets whose values are needed, by task.
    pub fn asked(&self) -> &[SetsOfTask] {
        &self.asked
    }

    /// The objective at these values, one for each set of [`LossBatch::asked`] in order.
    pub fn loss(&self, objectives: &Objectives, policy: &PathPolicy, values: &[f64]) -> Result<BatchLoss> {
        if values.len() != self.count {
            return Err(invalid(
                "values of a batch",
                format_args!("{} for {} sets; give one for each", values.len(), self.count),
            ));
        }
        let predictions: Vec<f64> = self.label_at.iter().map(|&at| values[at]).collect();
        let value = objectives.value_loss(&self.labels, &self.pairs, &predictions)?;
        let paths: Vec<_> = self
            .paths
            .iter()
            .map(|path| {
                let own = path.at.iter().map(|&at| values[at]).collect();
                (&path.path, path.uplift, own)
            })
            .collect();
        let policy = policy_loss(objectives, policy, &paths)?;
        let policy_weight = objectives.settings().policy_weight;
        let mut slopes = vec![0.0; values.len()];
        for (&at, slope) in self.label_at.iter().zip(&value.gradient) {
            slopes[at] += slope;
        }
        for (path, gradient) in self.paths.iter().zip(&policy.gradients) {
            for (&at, slope) in path.at.iter().zip(gradient) {
                slopes[at] += policy_weight * slope;
            }
        }
        Ok(BatchLoss {
            parts: LossParts {
                total: value.value + policy_weight * policy.value,
                regression: value.regression.value,
                sign: value.sign.value,
                pair: value.pair.value,
                policy: policy.value,
            },
            slopes,
        })
    }
}
