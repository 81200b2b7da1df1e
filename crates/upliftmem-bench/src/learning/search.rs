//! Choosing a set by its predicted values: a narrow beam, and sampled paths.

use rand::{Rng, RngExt};
use upliftmem_core::{MemoryId, MemorySet};
use upliftmem_scorer::{Ask, Result, TaskScorer};

/// Largest set.
pub(super) const MEMORIES_MAX: usize = 5;
const BEAM: usize = 2;
const SAMPLING_TEMPERATURE: f64 = 0.05;
const STOP_PRIOR: f64 = 0.5;

/// The best set that a beam finds, with its predicted uplift; the empty set unless something is above zero.
pub(super) fn beam(scorer: &dyn TaskScorer, candidates: &[MemoryId]) -> Result<(MemorySet, f64)> {
    let mut best = (MemorySet::EMPTY, 0.0);
    let mut frontier = vec![MemorySet::EMPTY];
    for _ in 0..MEMORIES_MAX {
        let mut next: Vec<MemorySet> = frontier
            .iter()
            .flat_map(|set| {
                candidates
                    .iter()
                    .filter(|&&id| !set.contains(id))
                    .map(|&id| set.with(id))
            })
            .collect();
        next.sort();
        next.dedup();
        let values = scorer.score(&next, Ask::VALUES)?.values;
        let mut ranked: Vec<(f64, MemorySet)> = values.into_iter().zip(next).collect();
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        ranked.truncate(BEAM);
        if let Some((value, set)) = ranked.first()
            && *value > best.1
        {
            best = (set.clone(), *value);
        }
        frontier = ranked.into_iter().map(|(_, set)| set).collect();
    }
    Ok(best)
}

/// A set sampled step by step, in proportion to the exponential of conditional gains. Paper: eq. retrieval_policy.
pub(super) fn sample(
    scorer: &dyn TaskScorer,
    candidates: &[MemoryId],
    rng: &mut impl Rng,
) -> Result<MemorySet> {
    let mut set = MemorySet::EMPTY;
    let mut value = 0.0;
    for _ in 0..MEMORIES_MAX {
        let options: Vec<MemorySet> = candidates
            .iter()
            .filter(|&&id| !set.contains(id))
            .map(|&id| set.with(id))
            .collect();
        let values = scorer.score(&options, Ask::VALUES)?.values;
        let stop = STOP_PRIOR * (options.len().max(1) as f64).ln() + gumbel(rng);
        let mut best = (stop, None);
        for (option, &option_value) in values.iter().enumerate() {
            let key = (option_value - value) / SAMPLING_TEMPERATURE + gumbel(rng);
            if key > best.0 {
                best = (key, Some(option));
            }
        }
        match best.1 {
            None => break,
            Some(option) => {
                value = values[option];
                set = options[option].clone();
            }
        }
    }
    Ok(set)
}

/// Adding this to log weights and taking the largest samples in proportion to the weights.
fn gumbel(rng: &mut impl Rng) -> f64 {
    -(-(1.0 - rng.random::<f64>()).ln()).max(f64::MIN_POSITIVE).ln()
}
