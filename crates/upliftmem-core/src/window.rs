//! The retrievals since the last acquisition, and the executions that could be added to them.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::{
    CandidatePool, Limits, MemorySet, RetrievalPath, SearchSpace, TaskId,
    error::{InvalidInput, Result},
};

/// One ordinary retrieval: what was recalled, what was chosen, and the way to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowEntry {
    /// The task.
    pub task: TaskId,
    /// What recall offered.
    pub pool: CandidatePool,
    /// The set that was retrieved.
    pub incumbent: MemorySet,
    /// The sets on the way to it; may be empty.
    pub prefixes: Vec<MemorySet>,
    /// The limits it was retrieved under.
    pub limits: Limits,
}

impl WindowEntry {
    /// The entry of a sampled path.
    pub fn of_path(task: TaskId, pool: CandidatePool, path: &RetrievalPath, limits: Limits) -> Self {
        Self {
            task,
            pool,
            incumbent: path.terminal.clone(),
            prefixes: path.prefixes().cloned().collect(),
            limits,
        }
    }

    /// What the retrieval could have returned.
    pub fn space(&self) -> SearchSpace<'_> {
        SearchSpace::new(&self.pool, self.limits)
    }
}

/// The retrievals since the last acquisition, in any order; a task may occur more than once. Paper: W.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AcquisitionWindow {
    /// The retrievals.
    pub entries: Vec<WindowEntry>,
}

/// One execution that could be asked for. Paper: q = (c_q, B_q).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// Place of the task in [`ProbePool::tasks`].
    pub task: u32,
    /// The set to execute it with; never empty, because executing the empty set is a reference.
    pub set: MemorySet,
}

/// The executions that could be asked for: by task, within a task by set, each once. Paper: cal-Q.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbePool {
    tasks: Vec<TaskId>,
    probes: Vec<Probe>,
    /// Where the probes of each task start; one more as the end.
    starts: Vec<u32>,
}

impl ProbePool {
    /// Sorts and deduplicates; tasks are numbered in the order of their ids. The empty set is refused.
    pub fn new(probes: impl IntoIterator<Item = (TaskId, MemorySet)>) -> Result<Self> {
        let mut pairs: Vec<(TaskId, MemorySet)> = probes.into_iter().collect();
        pairs.sort_unstable();
        pairs.dedup();
        let mut pool = ProbePoolBuilder::new();
        let mut sets = Vec::new();
        let mut pairs = pairs.into_iter().peekable();
        while let Some((task, set)) = pairs.next() {
            if set.is_empty() {
                return Err(InvalidInput::new(
                    format_args!("probe of task {task}"),
                    "has no memory; executing the empty set is a reference, not a probe",
                ));
            }
            sets.push(set);
            if pairs.peek().is_none_or(|(next, _)| *next != task) {
                pool.push_task(task, sets.drain(..))?;
            }
        }
        Ok(pool.finish())
    }

    /// The distinct tasks, sorted by id. A task may have no probe, when nothing was recalled for it.
    pub fn tasks(&self) -> &[TaskId] {
        &self.tasks
    }

    /// All probes, those of one task together.
    pub fn probes(&self) -> &[Probe] {
        &self.probes
    }

    /// Number of probes.
    pub fn len(&self) -> usize {
        self.probes.len()
    }

    /// Whether there is nothing to probe.
    pub fn is_empty(&self) -> bool {
        self.probes.is_empty()
    }

    /// Which probes belong to the task at this place.
    pub fn range_of(&self, task: u32) -> Range<usize> {
        let task = task as usize;
        self.starts[task] as usize..self.starts[task + 1] as usize
    }

    /// Place of the task that a probe belongs to.
    pub fn task_of(&self, probe: u32) -> u32 {
        self.probes[probe as usize].task
    }

    /// Where the probe of this set stands among all, if it is there.
    pub fn position(&self, task: u32, set: &MemorySet) -> Option<u32> {
        let range = self.range_of(task);
        let start = range.start;
        let within = self.probes[range]
            .binary_search_by(|probe| probe.set.cmp(set))
            .ok()?;
        // There are no more probes than `u32` can count.
        u32::try_from(start + within).ok()
    }
}

/// Fills a pool task by task, in the order of task ids.
#[derive(Debug)]
pub(crate) struct ProbePoolBuilder(ProbePool);

impl ProbePoolBuilder {
    pub(crate) const fn new() -> Self {
        Self(ProbePool {
            tasks: Vec::new(),
            probes: Vec::new(),
            starts: Vec::new(),
        })
    }

    /// Takes the sets of the next task, sorted, distinct and not empty.
    pub(crate) fn push_task(&mut self, id: TaskId, sets: impl Iterator<Item = MemorySet>) -> Result<()> {
        let pool = &mut self.0;
        let task = count(pool.tasks.len())?;
        pool.starts.push(count(pool.probes.len())?);
        pool.tasks.push(id);
        pool.probes.extend(sets.map(|set| Probe { task, set }));
        count(pool.probes.len()).map(drop)
    }

    /// Number of probes so far.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn finish(mut self) -> ProbePool {
        // `push_task` has checked the number.
        let end = u32::try_from(self.0.probes.len()).unwrap_or(u32::MAX);
        self.0.starts.push(end);
        self.0
    }
}

/// Probes and tasks are numbered with `u32`.
fn count(number: usize) -> Result<u32> {
    u32::try_from(number).map_err(|_| {
        InvalidInput::new(
            "acquisition window",
            format_args!("has more than {} probes; make the window smaller", u32::MAX),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_world::set;

    fn task(bits: u128) -> TaskId {
        TaskId::from_u128(bits)
    }

    #[test]
    fn probes_are_grouped_sorted_and_distinct() {
        let pool = ProbePool::new([
            (task(2), set(&[3])),
            (task(1), set(&[2])),
            (task(2), set(&[1, 3])),
            (task(1), set(&[2])),
            (task(1), set(&[1])),
        ])
        .unwrap();
        assert_eq!(pool.tasks(), [task(1), task(2)]);
        let sets: Vec<&MemorySet> = pool.probes().iter().map(|probe| &probe.set).collect();
        assert_eq!(sets, [&set(&[1]), &set(&[2]), &set(&[1, 3]), &set(&[3])]);
        assert_eq!((pool.range_of(0), pool.range_of(1)), (0..2, 2..4));
        assert_eq!((pool.task_of(1), pool.task_of(2)), (0, 1));
        assert_eq!(pool.position(1, &set(&[3])), Some(3));
        assert_eq!(pool.position(0, &set(&[3])), None);
    }

    #[test]
    fn an_empty_pool_is_a_pool_and_an_empty_set_is_no_probe() {
        let pool = ProbePool::new([]).unwrap();
        assert!(pool.is_empty() && pool.tasks().is_empty());
        let error = ProbePool::new([(task(1), MemorySet::EMPTY)]).unwrap_err();
        assert!(
            error.to_string().contains("is a reference, not a probe"),
            "{error}"
        );
    }
}
