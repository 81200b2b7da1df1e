//! The best set there is, exactly.

use upliftmem_core::{MemoryId, MemorySet, Result, Task};

use super::{World, truth::MemoryTruth};

/// The best that any retriever could have returned.
#[derive(Debug, Clone, PartialEq)]
pub struct BestSet {
    /// The set; empty when no memory is best.
    pub set: MemorySet,
    /// Its expected utility.
    pub utility: f64,
}

impl World {
    /// The set of at most `memories_max` candidates with the largest expected utility; of equals the smaller, then the
    /// one with the smaller ids.
    ///
    /// Exact: every subset is evaluated of those candidates that supply a need or suggest a route of the task. The
    /// others only take attention or mislead, and a set without them is never worse.
    pub fn best_set(&self, task: &Task, candidates: &[MemoryId], memories_max: usize) -> Result<BestSet> {
        let task = self.task_truth(task)?;
        let offered: MemorySet = candidates.iter().copied().collect();
        let mut helpers: Vec<(MemoryId, &MemoryTruth)> = Vec::new();
        for &id in &offered {
            let memory = self.memory_truth(id)?;
            if memory.can_help(task) {
                helpers.push((id, memory));
            }
        }
        let value =
            |members: &[&MemoryTruth]| self.habits.expected_utility(&self.utility_rule, task, members);
        let mut best = BestSet {
            set: MemorySet::EMPTY,
            utility: value(&[])?,
        };
        for size in 1..=memories_max.min(helpers.len()) {
            for positions in Combinations::new(helpers.len(), size) {
                let members: Vec<&MemoryTruth> = positions.iter().map(|&place| helpers[place].1).collect();
                let utility = value(&members)?;
                // Sizes and ids come in rising order, so the first of equals stays.
                if utility > best.utility {
                    best = BestSet {
                        set: positions.iter().map(|&place| helpers[place].0).collect(),
                        utility,
                    };
                }
            }
        }
        Ok(best)
    }
}

/// Every choice of `size` positions below `end`, in order.
struct Combinations {
    end: usize,
    next: Option<Vec<usize>>,
}

impl Combinations {
    fn new(end: usize, size: usize) -> Self {
        Self {
            end,
            next: (size <= end).then(|| (0..size).collect()),
        }
    }
}

impl Iterator for Combinations {
    type Item = Vec<usize>;

    fn next(&mut self) -> Option<Vec<usize>> {
        let current = self.next.take()?;
        let size = current.len();
        // The last position that can still move on takes a step, and those after it follow closely.
        if let Some(moving) = (0..size)
            .rev()
            .find(|&place| current[place] < self.end - size + place)
        {
            let mut following = current.clone();
            let start = following[moving] + 1;
            for (offset, position) in following[moving..].iter_mut().enumerate() {
                *position = start + offset;
            }
            self.next = Some(following);
        }
        Some(current)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn combinations_are_all_and_in_order() {
        let all: Vec<_> = Combinations::new(4, 2).collect();
        assert_eq!(all, [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]]);
        assert_eq!(Combinations::new(10, 5).count(), 252);
        assert_eq!(Combinations::new(3, 0).count(), 1);
        assert_eq!(Combinations::new(2, 3).count(), 0);
    }
}
