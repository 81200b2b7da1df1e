//! Scorers as the engine uses them: bound to a task, searched with, sampled from, believed in.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use rand::{Rng, RngExt};
use rayon::prelude::*;
use upliftmem_core::{
    BeamResult, BeamSearch, BeamSettings, CandidatePool, MemorySet, PathPolicy, ReferenceBelief,
    RetrievalPath, SamplePath, SearchSpace, TaskId,
};
use upliftmem_scorer::{
    Ask, CompactScorer, FeatureMap, MemoryInput, SetScorer, TaskInput, TaskScorer, TaskSets,
};

use crate::{error::Result, settings::RetrievalSettings};

/// Values of sets and the belief about them.
#[derive(Debug, Clone)]
pub struct Believed {
    /// The value of each set.
    pub means: Vec<f64>,
    /// The covariances of all of them.
    pub map: FeatureMap,
}

/// A scorer with a belief about what it has not seen.
pub trait BelievingScorer: SetScorer {
    /// Which scorer, without its version.
    fn name(&self) -> &'static str;

    /// Makes the belief if there is work to it: before many threads ask for it at once.
    fn prepare(&self) -> Result<()> {
        Ok(())
    }

    /// The belief about many sets of many tasks at once.
    fn feature_map(&self, items: &[TaskSets<'_>], dimension_max: usize) -> Result<FeatureMap>;

    /// Values and belief together: one pass where that is what costs.
    fn believe(&self, items: &[TaskSets<'_>], dimension_max: usize) -> Result<Believed> {
        let map = self.feature_map(items, dimension_max)?;
        let means: Vec<Vec<f64>> = items
            .par_iter()
            .map(|item| {
                let bound = self.bind(item.task, item.memories)?;
                Ok(bound.score(item.sets, Ask::VALUES)?.values)
            })
            .collect::<Result<_>>()?;
        Ok(Believed {
            means: means.into_iter().flatten().collect(),
            map,
        })
    }

    /// Variance of a label around the value of its set.
    fn label_variance(&self) -> Result<f64>;

    /// The noise that all labels of a task share through their reference.
    fn reference(&self, _task: TaskId) -> Result<ReferenceBelief> {
        Ok(ReferenceBelief {
            row: Vec::new(),
            variance: 0.0,
        })
    }

    /// Standard deviations over passes with dropout, of a scorer that has dropout.
    fn dropout_deviations(&self, _items: &[TaskSets<'_>]) -> Result<Option<Vec<f64>>> {
        Ok(None)
    }

    /// The last word on what a search found, in the time that is left; most scorers have said it while searching.
    fn decide(
        &self,
        _task: TaskInput<'_>,
        _memories: &[MemoryInput<'_>],
        found: BeamResult,
        _left: Option<Duration>,
    ) -> Result<BeamResult> {
        Ok(found)
    }
}

impl BelievingScorer for CompactScorer {
    fn name(&self) -> &'static str {
        "compact"
    }

    fn feature_map(&self, items: &[TaskSets<'_>], dimension_max: usize) -> Result<FeatureMap> {
        Ok(Self::feature_map(self, items, dimension_max, 1e-3)?)
    }

    fn label_variance(&self) -> Result<f64> {
        Ok(Self::label_variance(self))
    }
}

/// How a scorer and its version are written: `name@version`.
pub fn scorer_label(scorer: &Arc<dyn BelievingScorer>) -> String {
    format!("{}@{}", scorer.name(), scorer.version().0)
}

/// What retrieval returns for a task: the best set that a search finds, with the scorer's last word on it.
pub fn search(
    scorer: &dyn BelievingScorer,
    task: TaskInput<'_>,
    memories: &[MemoryInput<'_>],
    pool: &CandidatePool,
    settings: &RetrievalSettings,
    budget: Option<Duration>,
) -> Result<BeamResult> {
    let started = Instant::now();
    let bound = scorer.bind(task, memories)?;
    let found = beam(bound.as_ref(), pool, settings, budget)?;
    let left = budget.map(|budget| budget.saturating_sub(started.elapsed()));
    scorer.decide(task, memories, found, left)
}

/// Searches the best set. Paper: BeamRetrieve.
pub fn beam(
    bound: &dyn TaskScorer,
    pool: &CandidatePool,
    settings: &RetrievalSettings,
    budget: Option<Duration>,
) -> Result<BeamResult> {
    let started = Instant::now();
    let space = SearchSpace::new(pool, settings.limits());
    let beam = BeamSettings {
        runners_up: settings.runners_up,
        ..BeamSettings::new(settings.beam_width)
    };
    let mut search = BeamSearch::new(space, beam)?;
    while let Some(sets) = search.to_score() {
        // The first depth is always begun: without it there is nothing to return but nothing.
        let late = budget.is_some_and(|budget| started.elapsed() > budget);
        if late && sets.first().is_some_and(|set| set.len() > 1) {
            break;
        }
        match budget {
            Some(budget) => search.take_scored(&bound.score_until(sets, started + budget)?)?,
            None => search.take_values(&bound.score(sets, Ask::VALUES)?.values)?,
        }
    }
    Ok(search.finish())
}

/// Samples a path. Paper: SamplePath, which is `exploration` 0.
pub fn sample(
    bound: &dyn TaskScorer,
    pool: &CandidatePool,
    settings: &RetrievalSettings,
    policy: PathPolicy,
    rng: &mut impl Rng,
) -> Result<RetrievalPath> {
    let mut path = SamplePath::new(SearchSpace::new(pool, settings.sampling_limits()), policy);
    while let Some(sets) = path.to_score() {
        let values = if settings.exploration > 0.0 {
            explored(bound, sets, path.reached(), settings.exploration, rng)?
        } else {
            bound.score(sets, Ask::VALUES)?.values
        };
        path.take_values(&values, rng)?;
    }
    Ok(path.finish()?)
}

/// Values of the extensions of what was reached, moved by `exploration` of the way from what is expected to a draw from
/// the belief. What an addition gains is drawn together with the set it is added to: one function for both.
fn explored(
    bound: &dyn TaskScorer,
    extensions: &[MemorySet],
    (reached, reached_value): (&MemorySet, f64),
    exploration: f64,
    rng: &mut impl Rng,
) -> Result<Vec<f64>> {
    let sets: Vec<MemorySet> = extensions.iter().chain([reached]).cloned().collect();
    let scores = bound.score(
        &sets,
        Ask {
            draws: 1,
            seed: rng.random(),
            deviations: false,
        },
    )?;
    let values: Vec<f64> = match scores.draws.first() {
        Some(draw) => {
            let moved = scores.values.iter().zip(draw);
            moved
                .map(|(value, draw)| value + exploration * (draw - value))
                .collect()
        }
        None => scores.values,
    };
    let base = values[extensions.len()];
    Ok(values[..extensions.len()]
        .iter()
        .map(|value| reached_value + value - base)
        .collect())
}

/// The value of one set.
pub(crate) fn value(bound: &dyn TaskScorer, set: &MemorySet) -> Result<f64> {
    Ok(bound.score(std::slice::from_ref(set), Ask::VALUES)?.values[0])
}
