//! The local decisions that a window leaves open. Paper: app. probe_algorithm.

#[cfg(test)]
mod tests;

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::{
    AcquisitionWindow, MemorySet, ProbePool, TaskId, WindowEntry,
    error::{InvalidInput, Result},
    window::ProbePoolBuilder,
};

/// One side of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// The empty set, whose uplift is 0 and certain.
    Empty,
    /// The set of the probe at this place in the pool.
    Probe(u32),
}

/// A choice between two sets of one task. Paper: j.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Comparison {
    /// Place of the task in [`ProbePool::tasks`].
    pub task: u32,
    /// The alternative. Paper: S_j^a.
    pub challenger: Side,
    /// What retrieval chose or went through. Paper: S_j^b.
    pub incumbent: Side,
}

/// All comparisons of a window: by task, within a task by incumbent and challenger, each pair once. Paper: cal-G.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComparisonFamily {
    comparisons: Vec<Comparison>,
    /// Where the comparisons of each task start; one more as the end.
    starts: Vec<u32>,
}

impl ComparisonFamily {
    /// Sorts the comparisons of a pool. A pair that occurs again, in either orientation, is dropped; the first
    /// orientation stays. Refuses a side of another task and a set compared with itself.
    pub fn new(pool: &ProbePool, comparisons: impl IntoIterator<Item = Comparison>) -> Result<Self> {
        let mut by_task: Vec<Vec<Comparison>> = vec![Vec::new(); pool.tasks().len()];
        for comparison in comparisons {
            let of_task = |side| match side {
                Side::Empty => true,
                Side::Probe(at) => (at as usize) < pool.len() && pool.task_of(at) == comparison.task,
            };
            let known = (comparison.task as usize) < by_task.len();
            let Comparison {
                challenger,
                incumbent,
                ..
            } = comparison;
            if !known || challenger == incumbent || !of_task(challenger) || !of_task(incumbent) {
                return Err(InvalidInput::new(
                    format_args!("{comparison:?}"),
                    "does not compare two different sets of one task of the pool",
                ));
            }
            by_task[comparison.task as usize].push(comparison);
        }
        let mut family = Self::unfinished();
        for mut comparisons in by_task {
            family.push_task(&mut comparisons)?;
        }
        family.close()?;
        Ok(family)
    }

    /// All comparisons, those of one task together.
    pub fn comparisons(&self) -> &[Comparison] {
        &self.comparisons
    }

    /// Number of comparisons.
    pub fn len(&self) -> usize {
        self.comparisons.len()
    }

    /// Whether nothing is left to decide.
    pub fn is_empty(&self) -> bool {
        self.comparisons.is_empty()
    }

    /// Which comparisons belong to the task at this place.
    pub fn range_of(&self, task: u32) -> Range<usize> {
        let task = task as usize;
        self.starts[task] as usize..self.starts[task + 1] as usize
    }

    /// The comparisons of the task at this place.
    pub fn of_task(&self, task: u32) -> &[Comparison] {
        &self.comparisons[self.range_of(task)]
    }

    /// To be filled task by task, and closed.
    const fn unfinished() -> Self {
        Self {
            comparisons: Vec::new(),
            starts: Vec::new(),
        }
    }

    /// Takes the comparisons of the next task; the first of those with the same two sides stays.
    fn push_task(&mut self, comparisons: &mut Vec<Comparison>) -> Result<()> {
        self.close()?;
        let pair = |comparison: &Comparison| {
            let Comparison {
                challenger,
                incumbent,
                ..
            } = *comparison;
            (challenger.min(incumbent), challenger.max(incumbent))
        };
        // Stable, so that the first orientation is met first.
        comparisons.sort_by_key(pair);
        comparisons.dedup_by_key(|comparison| pair(comparison));
        comparisons.sort_unstable_by_key(|comparison| (comparison.incumbent, comparison.challenger));
        self.comparisons.append(comparisons);
        Ok(())
    }

    /// Notes that what is there so far belongs to earlier tasks.
    fn close(&mut self) -> Result<()> {
        let end = u32::try_from(self.comparisons.len()).map_err(|_| {
            InvalidInput::new(
                "acquisition window",
                format_args!("has more than {} comparisons; make the window smaller", u32::MAX),
            )
        })?;
        self.starts.push(end);
        Ok(())
    }
}

/// Around which sets decisions are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Neighbourhood {
    /// The retrieved set.
    Incumbent,
    /// The retrieved set and every set on the way to it.
    Prefixes,
}

/// Every set one memory away from what retrieval chose, and its comparison with it.
/// Paper: LocalComparisons of Algorithm 1, app. probe_algorithm.
///
/// The incumbent side is the set that was edited. Where both were, the one that was retrieved rather than passed
/// through is the incumbent, then the one with the smaller ids: the result does not depend on the window's order.
pub fn local_comparisons(
    window: &AcquisitionWindow,
    neighbourhood: Neighbourhood,
) -> Result<(ProbePool, ComparisonFamily)> {
    let mut entries: Vec<&WindowEntry> = window.entries.iter().collect();
    // Stable, so entries of one task stay in the order of the window.
    entries.sort_by_key(|entry| entry.task);
    let mut pool = ProbePoolBuilder::new();
    let mut family = ComparisonFamily::unfinished();
    for (task, entries) in (0..).zip(entries.chunk_by(|one, two| one.task == two.task)) {
        let local = Local::of_task(entries, neighbourhood)?;
        let mut comparisons = local.comparisons(task, pool.len());
        pool.push_task(entries[0].task, local.into_probes())?;
        family.push_task(&mut comparisons)?;
    }
    family.close()?;
    Ok((pool.finish(), family))
}

/// The sets around the anchors of one task.
struct Local {
    /// All of them, sorted, each once; the empty set, if it is there, first.
    sets: Vec<MemorySet>,
    /// The sets that were edited and where their edits are, those first that are the incumbent of a shared pair.
    anchors: Vec<(MemorySet, Range<usize>)>,
    edits: Vec<MemorySet>,
}

impl Local {
    fn of_task(entries: &[&WindowEntry], neighbourhood: Neighbourhood) -> Result<Self> {
        let mut anchors: Vec<(bool, &MemorySet, &WindowEntry)> = Vec::new();
        for &entry in entries {
            anchors.push((false, &entry.incumbent, entry));
            if neighbourhood == Neighbourhood::Prefixes {
                let passed = entry.prefixes.iter().filter(|prefix| **prefix != entry.incumbent);
                anchors.extend(passed.map(|prefix| (true, prefix, entry)));
            }
        }
        anchors.sort_by(|one, two| (one.0, one.1).cmp(&(two.0, two.1)));
        let mut local = Self {
            sets: Vec::new(),
            anchors: Vec::new(),
            edits: Vec::new(),
        };
        for (_, anchor, entry) in anchors {
            let start = local.edits.len();
            let edits = &mut local.edits;
            entry
                .space()
                .for_each_edit(anchor, |edit| edits.push(edit))
                .map_err(|problem| in_window(entry.task, &problem))?;
            local.sets.push(anchor.clone());
            local.anchors.push((anchor.clone(), start..local.edits.len()));
        }
        local.sets.extend(local.edits.iter().cloned());
        local.sets.sort_unstable();
        local.sets.dedup();
        Ok(local)
    }

    /// The comparisons, in terms of a pool in which this task's probes start at `start`.
    fn comparisons(&self, task: u32, start: usize) -> Vec<Comparison> {
        let probes = if self.has_empty() {
            &self.sets[1..]
        } else {
            &self.sets
        };
        let side = |set: &MemorySet| {
            if set.is_empty() {
                Side::Empty
            } else {
                // Every edit is among the sets, and the pool refuses more probes than `u32` can count.
                let at = start + probes.partition_point(|other| other < set);
                Side::Probe(u32::try_from(at).unwrap_or(u32::MAX))
            }
        };
        let mut comparisons = Vec::with_capacity(self.edits.len());
        for (anchor, edits) in &self.anchors {
            let incumbent = side(anchor);
            comparisons.extend(self.edits[edits.clone()].iter().map(|edit| Comparison {
                task,
                challenger: side(edit),
                incumbent,
            }));
        }
        comparisons
    }

    fn into_probes(self) -> impl Iterator<Item = MemorySet> {
        let skipped = usize::from(self.has_empty());
        self.sets.into_iter().skip(skipped)
    }

    fn has_empty(&self) -> bool {
        self.sets.first().is_some_and(|set| set.is_empty())
    }
}

fn in_window(task: TaskId, problem: &InvalidInput) -> InvalidInput {
    InvalidInput::new(format_args!("acquisition window, task {task}"), problem)
}
