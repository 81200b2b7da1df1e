//! Labels, and which two of them may be compared. Paper: app. losses.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Objectives;
use crate::{Observation, ReferenceId, TaskId, Uplift};

/// What the value losses need to know of an observation.
///
/// Apart from an [`Observation`] because the uplift that is learned from may be measured against a smoothed
/// no-memory utility, while the reference stays the one that was realised.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ValueLabel {
    /// The task.
    pub task: TaskId,
    /// The realised no-memory execution.
    pub reference: ReferenceId,
    /// The uplift to learn.
    pub uplift: Uplift,
}

impl From<&Observation> for ValueLabel {
    fn from(observation: &Observation) -> Self {
        Self {
            task: observation.task,
            reference: observation.reference,
            uplift: observation.uplift,
        }
    }
}

/// Pairs of labels whose order is supervised: the same task, the same realised reference, and a gap that is worth
/// a preference. Paper: app. losses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComparablePairs {
    /// Positions of the better and of the worse label.
    pub pairs: Vec<(usize, usize)>,
    /// How many pairs there were before `pairs_max` bit.
    pub eligible: usize,
}

impl Objectives {
    /// Every comparable pair once, in a fixed order: by task and reference, then by position. More than
    /// `pairs_max` are thinned evenly, so that no task loses all of its pairs to another.
    pub fn comparable_pairs(&self, labels: &[ValueLabel]) -> ComparablePairs {
        let mut groups: BTreeMap<(TaskId, ReferenceId), Vec<usize>> = BTreeMap::new();
        for (position, label) in labels.iter().enumerate() {
            groups
                .entry((label.task, label.reference))
                .or_default()
                .push(position);
        }
        let eligible = || {
            groups.values().flat_map(|group| {
                group.iter().enumerate().flat_map(move |(rank, &first)| {
                    group[rank + 1..]
                        .iter()
                        .filter_map(move |&second| self.preference(labels, first, second))
                })
            })
        };
        // Counting first keeps the memory of a large buffer within the cap.
        let total = eligible().count();
        let kept = total.min(self.settings().pairs_max);
        let pairs = eligible()
            .enumerate()
            .filter(|&(number, _)| number * kept / total != (number + 1) * kept / total)
            .map(|(_, pair)| pair)
            .collect();
        ComparablePairs {
            pairs,
            eligible: total,
        }
    }

    fn preference(&self, labels: &[ValueLabel], first: usize, second: usize) -> Option<(usize, usize)> {
        let gap = labels[first].uplift.get() - labels[second].uplift.get();
        let better_first = if gap > 0.0 {
            (first, second)
        } else {
            (second, first)
        };
        (gap.abs() > self.settings().epsilon_rank).then_some(better_first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objectives::LossSettings;

    fn label(task: u128, reference: u128, uplift: f64) -> ValueLabel {
        ValueLabel {
            task: TaskId::from_u128(task),
            reference: ReferenceId::from_u128(reference),
            uplift: Uplift::new(uplift).unwrap(),
        }
    }

    fn pairs(labels: &[ValueLabel], pairs_max: usize) -> ComparablePairs {
        let settings = LossSettings {
            pairs_max,
            ..LossSettings::default()
        };
        Objectives::new(settings).unwrap().comparable_pairs(labels)
    }

    #[test]
    fn only_labels_of_one_task_and_one_reference_with_a_gap_are_compared() {
        let labels = [
            label(1, 1, 0.2),
            label(1, 2, 0.9),  // another reference of the same task
            label(2, 1, 0.9),  // another task
            label(1, 1, 0.8),  // better than the first, though both are positive
            label(1, 1, 0.84), // too close to the one before
            label(1, 1, -0.5),
        ];
        let found = pairs(&labels, 100);
        assert_eq!(found.pairs, [(3, 0), (4, 0), (0, 5), (3, 5), (4, 5)]);
        assert_eq!(found.eligible, 5);
    }

    #[test]
    fn a_gap_of_exactly_epsilon_is_no_preference() {
        assert!(pairs(&[label(1, 1, 0.05), label(1, 1, 0.0)], 10).pairs.is_empty());
        assert_eq!(pairs(&[label(1, 1, 0.051), label(1, 1, 0.0)], 10).pairs, [(0, 1)]);
    }

    #[test]
    fn the_cap_is_exact_reported_and_fair_to_tasks() {
        let labels: Vec<_> = (0..40)
            .map(|number| label(number / 10, 1, f64::from(u32::try_from(number).unwrap())))
            .collect();
        let all = pairs(&labels, 10_000);
        assert_eq!((all.pairs.len(), all.eligible), (180, 180));
        let some = pairs(&labels, 20);
        assert_eq!((some.pairs.len(), some.eligible), (20, 180));
        for task in 0..4 {
            assert_eq!(some.pairs.iter().filter(|pair| pair.0 / 10 == task).count(), 5);
        }
        assert!(some.pairs.iter().all(|pair| all.pairs.contains(pair)));
    }

    #[test]
    fn no_labels_no_pairs() {
        assert_eq!(pairs(&[], 10).eligible, 0);
    }
}
