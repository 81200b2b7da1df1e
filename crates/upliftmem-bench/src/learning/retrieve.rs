//! Choosing a set by its predicted values: the core's search, answered by a bound scorer.

use upliftmem_core::{BeamSearch, BeamSettings, ScoredSet, SearchSpace};
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
