//! Deterministic retrieval: a beam over sets with an archive across depths.

#[cfg(test)]
mod tests;
mod trace;

use std::cmp::Ordering;

use serde::Serialize;

use crate::{
    MemoryId, MemorySet, SearchSpace, conditional_gain,
    error::{InvalidInput, Result},
    policy::check_scores,
};

pub use trace::{BeamDepth, BeamResult, BeamStep, SearchEnd};

/// A set and its predicted uplift.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScoredSet {
    /// The set.
    pub set: MemorySet,
    /// Its predicted uplift; the empty set's is 0.
    pub value: f64,
}

impl ScoredSet {
    /// The order of preference, the preferred one first: larger value, then fewer memories, then smaller ids.
    ///
    /// Total for finite values, and a set only ties with itself.
    pub fn preference(&self, other: &Self) -> Ordering {
        preference((self.value, &self.set), (other.value, &other.set))
    }
}

fn preference(left: (f64, &MemorySet), right: (f64, &MemorySet)) -> Ordering {
    // Not total_cmp: a value of minus zero is no worse than one of zero.
    let by_value = right.0.partial_cmp(&left.0).unwrap_or(Ordering::Equal);
    by_value
        .then_with(|| left.1.len().cmp(&right.1.len()))
        .then_with(|| left.1.cmp(right.1))
}

/// How wide to search and how much of it to spend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BeamSettings {
    /// Sets kept at each depth, of all parents together. Paper: W = 2.
    ///
    /// The paper first keeps `width` extensions of each parent. That never drops one of the best `width` of all, so
    /// it is no step of its own here.
    pub width: usize,
    /// Most sets to score in the whole search; `None` searches to the end.
    pub scores_max: Option<usize>,
    /// How many of the sets that were not kept the trace shows at each depth.
    pub runners_up: usize,
}

impl BeamSettings {
    /// A search of this width without a budget.
    pub const fn new(width: usize) -> Self {
        Self {
            width,
            scores_max: None,
            runners_up: 3,
        }
    }
}

impl Default for BeamSettings {
    /// Width two. Paper: app. search.
    fn default() -> Self {
        Self::new(2)
    }
}

/// The search for the best set, as a machine that hands out sets to score and takes their values back.
/// Paper: BeamRetrieve, app. search.
///
/// ```
/// use upliftmem_core::{BeamSearch, BeamSettings, Candidate, CandidatePool, Limits, MemoryId, SearchSpace};
///
/// let ids = [1, 2, 3].map(MemoryId::from_u128);
/// let pool = CandidatePool::new(ids.map(|id| Candidate { id, tokens: 10 }).to_vec())?;
/// let mut search = BeamSearch::new(SearchSpace::new(&pool, Limits::count(2)), BeamSettings::default())?;
/// while let Some(sets) = search.to_score() {
///     // A real scorer predicts the uplift of each set. Here only the first two together help.
///     let values: Vec<f64> = sets
///         .iter()
///         .map(|set| if set.members() == &ids[..2] { 0.4 } else { -0.1 })
///         .collect();
///     search.take_values(&values)?;
/// }
/// assert_eq!(search.finish().best.set.members(), &ids[..2]);
/// # Ok::<(), upliftmem_core::InvalidInput>(())
/// ```
#[derive(Debug, Clone)]
pub struct BeamSearch<'a> {
    space: SearchSpace<'a>,
    settings: BeamSettings,
    /// The sets to extend, in order of preference.
    beam: Vec<ScoredSet>,
    /// Every set that was ever in the beam; the empty set first.
    archive: Vec<ScoredSet>,
    /// Extensions of the beam, sorted by set, and where each comes from.
    extensions: Vec<MemorySet>,
    origins: Vec<Origin>,
    /// The value of each candidate alone, by its place in the pool; what a tight budget is spent by.
    alone: Vec<f64>,
    scores: usize,
    budget_hit: bool,
    /// Whether a depth was scored in part, which ends the search.
    cut: bool,
    depths: Vec<BeamDepth>,
}

/// How an extension came about: the preferred one of the parents that lead to it.
#[derive(Debug, Clone, Copy)]
struct Origin {
    parent: usize,
    added: MemoryId,
}

impl<'a> BeamSearch<'a> {
    /// Starts with the empty set in beam and archive. A width of zero is refused.
    pub fn new(space: SearchSpace<'a>, settings: BeamSettings) -> Result<Self> {
        if settings.width == 0 {
            return Err(InvalidInput::new(
                "beam width",
                "0 keeps nothing; give at least 1",
            ));
        }
        let empty = ScoredSet {
            set: MemorySet::EMPTY,
            value: 0.0,
        };
        let mut search = Self {
            space,
            settings,
            beam: vec![empty.clone()],
            archive: vec![empty],
            extensions: Vec::new(),
            origins: Vec::new(),
            alone: vec![0.0; space.pool().len()],
            scores: 0,
            budget_hit: false,
            cut: false,
            depths: Vec::new(),
        };
        search.extend_beam();
        Ok(search)
    }

    /// The sets to score next, sorted, so that neighbours share members; `None` when the search has ended.
    pub fn to_score(&self) -> Option<&[MemorySet]> {
        (!self.extensions.is_empty()).then_some(&self.extensions)
    }

    /// Takes the values of the sets handed out, in their order. A value that is refused changes nothing.
    pub fn take_values(&mut self, values: &[f64]) -> Result<()> {
        check_scores(&self.extensions, values)?;
        if self.extensions.is_empty() {
            return Ok(());
        }
        self.scores += values.len();
        if self.depths.is_empty() {
            self.note_values_alone(values);
        }
        let kept = self.keep_best(values);
        self.archive.extend(kept.iter().cloned());
        self.beam = kept;
        self.extend_beam();
        Ok(())
    }

    /// Takes the values of those sets that there was time for. If some are missing, what was scored competes and the
    /// search ends here.
    pub fn take_scored(&mut self, values: &[Option<f64>]) -> Result<()> {
        if let Some(all) = values.iter().copied().collect::<Option<Vec<f64>>>() {
            return self.take_values(&all);
        }
        if values.len() != self.extensions.len() {
            return Err(InvalidInput::new(
                "values",
                format_args!("{} for {} sets", values.len(), self.extensions.len()),
            ));
        }
        let scored: Vec<usize> = (0..values.len()).filter(|&at| values[at].is_some()).collect();
        let found: Vec<f64> = values.iter().flatten().copied().collect();
        let sets: Vec<MemorySet> = scored.iter().map(|&at| self.extensions[at].clone()).collect();
        check_scores(&sets, &found)?;
        self.origins = scored.iter().map(|&at| self.origins[at]).collect();
        self.extensions = sets;
        self.cut = true;
        if !found.is_empty() {
            self.scores += found.len();
            let kept = self.keep_best(&found);
            self.archive.extend(kept);
        }
        self.extensions.clear();
        Ok(())
    }

    /// The best archived set, at the end or at any moment before it.
    pub fn finish(mut self) -> BeamResult {
        self.archive.sort_by(ScoredSet::preference);
        let end = if self.cut || !self.extensions.is_empty() {
            SearchEnd::Interrupted
        } else if self.budget_hit {
            SearchEnd::Budget
        } else {
            SearchEnd::Complete
        };
        // The empty set is always in the archive.
        BeamResult {
            best: self.archive[0].clone(),
            archive: self.archive,
            end,
            scores: self.scores,
            depths: self.depths,
        }
    }

    /// The next beam: the best `width` of all extensions. Writes the trace.
    fn keep_best(&mut self, values: &[f64]) -> Vec<ScoredSet> {
        let rank = |&left: &usize, &right: &usize| {
            preference(
                (values[left], &self.extensions[left]),
                (values[right], &self.extensions[right]),
            )
        };
        let mut order: Vec<usize> = (0..values.len()).collect();
        // Only what is kept or shown needs an order.
        let shown = self.settings.width.saturating_add(self.settings.runners_up);
        if shown < order.len() {
            order.select_nth_unstable_by(shown, rank);
            order.truncate(shown);
        }
        order.sort_unstable_by(rank);

        let mut steps = order.into_iter().map(|at| {
            let Origin { parent, added } = self.origins[at];
            let parent = &self.beam[parent];
            BeamStep {
                set: self.extensions[at].clone(),
                value: values[at],
                parent: parent.set.clone(),
                added,
                gain: conditional_gain(values[at], parent.value),
            }
        });
        let depth = BeamDepth {
            scored: values.len(),
            kept: steps.by_ref().take(self.settings.width).collect(),
            runners_up: steps.collect(),
        };
        let kept = depth.kept.iter().map(|step| ScoredSet {
            set: step.set.clone(),
            value: step.value,
        });
        let kept = kept.collect();
        self.depths.push(depth);
        kept
    }

    /// Every distinct feasible extension of the beam, as far as the budget goes.
    fn extend_beam(&mut self) {
        self.extensions.clear();
        self.origins.clear();
        let mut found: Vec<(MemorySet, Origin)> =
            Vec::with_capacity(self.beam.len() * self.space.pool().len());
        for (parent, scored) in self.beam.iter().enumerate() {
            // A beam set is feasible by construction, so an error can not occur; it would have no extensions.
            for added in self.space.additions(&scored.set).unwrap_or_default() {
                found.push((scored.set.with(added), Origin { parent, added }));
            }
        }
        found.sort_unstable_by(|left, right| left.0.cmp(&right.0).then(left.1.parent.cmp(&right.1.parent)));
        found.dedup_by(|later, earlier| later.0 == earlier.0);
        let left = self
            .settings
            .scores_max
            .map_or(usize::MAX, |most| most - self.scores);
        if found.len() > left {
            self.budget_hit = true;
            self.spend_budget(&mut found, left);
        }
        for (set, origin) in found {
            self.extensions.push(set);
            self.origins.push(origin);
        }
    }

    /// Keeps the extensions that look most promising before they are scored: those of the preferred parent, by
    /// what their new memory was worth alone. Before anything is scored that is the order of ids.
    fn spend_budget(&self, found: &mut Vec<(MemorySet, Origin)>, left: usize) {
        let promise = |origin: &Origin| self.alone[self.place(origin.added)];
        found.sort_by(|(_, one), (_, two)| {
            let by_promise = promise(two).partial_cmp(&promise(one)).unwrap_or(Ordering::Equal);
            one.parent.cmp(&two.parent).then(by_promise)
        });
        found.truncate(left);
        found.sort_unstable_by(|one, two| one.0.cmp(&two.0));
    }

    /// Remembers what each candidate was worth alone. One that no budget was left for is never asked about again.
    fn note_values_alone(&mut self, values: &[f64]) {
        for (origin, &value) in self.origins.iter().zip(values) {
            let place = self.place(origin.added);
            self.alone[place] = value;
        }
    }

    fn place(&self, id: MemoryId) -> usize {
        self.space
            .pool()
            .candidates()
            .partition_point(|candidate| candidate.id < id)
    }
}
