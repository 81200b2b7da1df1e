//! The division into instances to learn from and instances to be measured on: 70 to 30 in every scenario, and no dialogue on
//! both sides.

use std::collections::BTreeMap;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::data::{Instance, Scenario};

/// The paper's seed.
pub const SPLIT_SEED: u64 = 42;

/// Dialogues that share this many turns are one dialogue, told further in different ways.
const SHARED_TURNS: usize = 3;

/// Of ten instances of a scenario, this many are measured on.
const TEST_TENTHS: usize = 3;

/// Positions of instances, ascending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// To learn from.
    pub train: Vec<usize>,
    /// To be measured on.
    pub test: Vec<usize>,
}

/// Divides instances. Instances whose dialogues begin with the same turns stay together, across scenarios too.
///
/// The paper says how many there are on each side and that the seed is 42, not which they are: the counts are the paper's
/// (1,085 and 465), the members are this function's.
#[must_use]
pub fn split(instances: &[Instance], seed: u64) -> Split {
    let mut groups = groups(instances);
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    groups.shuffle(&mut rng);
    // Large groups first, so that small ones can make the shares exact; the order among equals stays random.
    groups.sort_by_key(|group| std::cmp::Reverse(group.len()));
    let mut seen: BTreeMap<Scenario, usize> = BTreeMap::new();
    let mut taken: BTreeMap<Scenario, usize> = BTreeMap::new();
    let mut split = Split {
        train: Vec::new(),
        test: Vec::new(),
    };
    for group in groups {
        let mut counts: BTreeMap<Scenario, usize> = BTreeMap::new();
        for &instance in &group {
            *counts.entry(instances[instance].scenario).or_default() += 1;
        }
        for (scenario, count) in &counts {
            *seen.entry(*scenario).or_default() += count;
        }
        let has_room = |(scenario, count): (&Scenario, &usize)| {
            let taken = taken.get(scenario).copied().unwrap_or(0);
            10 * (taken + count) <= TEST_TENTHS * seen[scenario]
        };
        if counts.iter().all(has_room) {
            for (scenario, count) in counts {
                *taken.entry(scenario).or_default() += count;
            }
            split.test.extend(group);
        } else {
            split.train.extend(group);
        }
    }
    split.train.sort_unstable();
    split.test.sort_unstable();
    split
}

/// Instances with the same beginning, in the order of their first members.
fn groups(instances: &[Instance]) -> Vec<Vec<usize>> {
    let mut by_beginning: BTreeMap<Vec<String>, Vec<usize>> = BTreeMap::new();
    for (position, instance) in instances.iter().enumerate() {
        let beginning = instance
            .dialogue
            .iter()
            .take(SHARED_TURNS)
            .map(|turn| turn.as_memory())
            .collect();
        by_beginning.entry(beginning).or_default().push(position);
    }
    let mut groups: Vec<_> = by_beginning.into_values().collect();
    groups.sort_unstable();
    groups
}
