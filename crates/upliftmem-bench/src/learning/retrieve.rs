//! Choosing a set by its predicted values: the core's searches, answered by a bound scorer.

use rand::Rng;
use upliftmem_core::{BeamSearch, BeamSettings, MemorySet, PathPolicy, SamplePath, ScoredSet, SearchSpace};
use upliftmem_engine::Result;
use upliftmem_scorer::{Ask, TaskScorer};

/// The best set that a beam finds, with its predicted uplift.
pub(super) fn beam(scorer: &dyn TaskScorer, space: SearchSpace<'_>) -> Result<ScoredSet> {
    let mut search = BeamSearch::new(space, BeamSettings::default())?;
    while let Some(sets) = search.to_score() {
        let values = scorer.score(sets, Ask::VALUES)?.values;
        search.take_values(&values)?;
    }
    Ok(search.finish().best)
}

/// A set sampled step by step.
pub(super) fn sample(
    scorer: &dyn TaskScorer,
    space: SearchSpace<'_>,
    rng: &mut impl Rng,
) -> Result<MemorySet> {
    let mut path = SamplePath::new(space, PathPolicy::new(0.05, 0.5)?);
    while let Some(sets) = path.to_score() {
        let values = scorer.score(sets, Ask::VALUES)?.values;
        path.take_values(&values, rng)?;
    }
    Ok(path.finish()?.terminal)
}
