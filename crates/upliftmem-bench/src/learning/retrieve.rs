//! Choosing a set by its predicted values: the core's searches, answered by a bound scorer.

use rand::{Rng, RngExt};
use upliftmem_core::{
    BeamSearch, BeamSettings, MemoryId, MemorySet, PathPolicy, SamplePath, ScoredSet, SearchSpace,
};
use upliftmem_scorer::{Ask, Result, TaskScorer};

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

/// Sets near the incumbent whose values are drawn together: the most promising, and ways to try what was tried least.
const PROMISING: usize = 3;
const UNTRIED: usize = 3;
/// Most similar candidates that count as worth trying.
const WORTH_TRYING: usize = 25;

/// Thompson sampling near the incumbent: a value function is drawn from the belief, and its best set is proposed with the
/// value drawn. `ranked` are the candidates, most similar first, and `tried` says how often a memory was executed.
pub(super) fn thompson(
    scorer: &dyn TaskScorer,
    space: SearchSpace<'_>,
    ranked: &[MemoryId],
    tried: impl Fn(MemoryId) -> usize,
    rng: &mut impl Rng,
) -> Result<Option<ScoredSet>> {
    let incumbent = beam(scorer, space)?.set;
    let mut sets = space.edits(&incumbent)?;
    sets.extend(space.edits(&MemorySet::EMPTY)?);
    sets.retain(|set| !set.is_empty());
    sets.sort_unstable();
    sets.dedup();
    let values = scorer.score(&sets, Ask::VALUES)?.values;
    let mut promising: Vec<(f64, MemorySet)> = values.into_iter().zip(sets).collect();
    promising.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let mut shortlist: Vec<MemorySet> = promising
        .into_iter()
        .take(PROMISING)
        .map(|(_, set)| set)
        .collect();
    let mut untried: Vec<(usize, u32, MemoryId)> = ranked
        .iter()
        .take(WORTH_TRYING)
        .map(|&id| (tried(id), rng.random(), id))
        .collect();
    untried.sort_unstable();
    for &(_, _, id) in untried.iter().take(UNTRIED) {
        let together = incumbent.with(id);
        let set = if rng.random_bool(0.5) && space.check(&together).is_ok() {
            together
        } else {
            std::iter::once(id).collect()
        };
        shortlist.push(set);
    }
    shortlist.sort_unstable();
    shortlist.dedup();
    let ask = Ask {
        draws: 1,
        seed: rng.random(),
        deviations: false,
    };
    let drawn = scorer.score(&shortlist, ask)?.draws;
    let best = drawn[0].iter().zip(&shortlist).max_by(|a, b| a.0.total_cmp(b.0));
    Ok(best.map(|(&value, set)| ScoredSet {
        set: set.clone(),
        value,
    }))
}
