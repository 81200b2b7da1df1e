//! Small worlds in which everything can be enumerated; what the tests compare with.

use std::collections::BTreeMap;

use rand::RngExt;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::{Action, Candidate, CandidatePool, Limits, MemoryId, MemorySet, SearchSpace};

pub(crate) fn id(bits: u128) -> MemoryId {
    MemoryId::from_u128(bits)
}

pub(crate) fn set(members: &[u128]) -> MemorySet {
    members.iter().map(|&bits| id(bits)).collect()
}

/// Candidates 1, 2, ..., of one token each.
pub(crate) fn pool_of(candidates: usize) -> CandidatePool {
    pool_with_tokens(&vec![1; candidates])
}

/// Candidates 1, 2, ..., of these many tokens.
pub(crate) fn pool_with_tokens(tokens: &[u32]) -> CandidatePool {
    let candidates = tokens
        .iter()
        .zip(1..)
        .map(|(&tokens, bits)| Candidate { id: id(bits), tokens });
    CandidatePool::new(candidates.collect()).unwrap()
}

/// Every subset of the pool, feasible or not.
pub(crate) fn all_subsets(pool: &CandidatePool) -> Vec<MemorySet> {
    let ids: Vec<MemoryId> = pool.candidates().iter().map(|candidate| candidate.id).collect();
    (0_u32..1 << ids.len())
        .map(|mask| {
            let members = ids.iter().enumerate();
            members
                .filter(|(at, _)| mask >> at & 1 == 1)
                .map(|(_, &id)| id)
                .collect()
        })
        .collect()
}

/// A pool, limits and a value for each subset, the empty one at 0.
#[derive(Debug, Clone)]
pub(crate) struct World {
    pub(crate) pool: CandidatePool,
    pub(crate) limits: Limits,
    pub(crate) values: BTreeMap<MemorySet, f64>,
}

impl World {
    /// Values uniform within `spread` of zero.
    pub(crate) fn random(tokens: &[u32], limits: Limits, spread: f64, seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        Self::with_values(tokens, limits, |set| {
            if set.is_empty() {
                0.0
            } else {
                rng.random_range(-spread..=spread)
            }
        })
    }

    pub(crate) fn with_values(
        tokens: &[u32],
        limits: Limits,
        mut value: impl FnMut(&MemorySet) -> f64,
    ) -> Self {
        let pool = pool_with_tokens(tokens);
        let values = all_subsets(&pool)
            .into_iter()
            .map(|set| {
                let value = value(&set);
                (set, value)
            })
            .collect();
        Self { pool, limits, values }
    }

    pub(crate) fn space(&self) -> SearchSpace<'_> {
        SearchSpace::new(&self.pool, self.limits)
    }

    pub(crate) fn score(&self, sets: &[MemorySet]) -> Vec<f64> {
        sets.iter().map(|set| self.values[set]).collect()
    }

    pub(crate) fn feasible_sets(&self) -> Vec<MemorySet> {
        let space = self.space();
        self.values
            .keys()
            .filter(|set| space.check(set).is_ok())
            .cloned()
            .collect()
    }

    /// Every complete path, by explicit enumeration of orders: its steps as (state, action) and its terminal set.
    pub(crate) fn all_paths(&self) -> Vec<(Vec<(MemorySet, Action)>, MemorySet)> {
        let mut paths = Vec::new();
        self.extend_paths(&MemorySet::EMPTY, &mut Vec::new(), &mut paths);
        paths
    }

    fn extend_paths(
        &self,
        state: &MemorySet,
        steps: &mut Vec<(MemorySet, Action)>,
        paths: &mut Vec<(Vec<(MemorySet, Action)>, MemorySet)>,
    ) {
        let additions = self.space().additions(state).unwrap();
        if additions.is_empty() {
            paths.push((steps.clone(), state.clone()));
            return;
        }
        steps.push((state.clone(), Action::Stop));
        paths.push((steps.clone(), state.clone()));
        steps.pop();
        for addition in additions {
            steps.push((state.clone(), Action::Add(addition)));
            self.extend_paths(&state.with(addition), steps, paths);
            steps.pop();
        }
    }

    /// The plain formula of the paper's policy, without any care for numerics, and STOP's extra logit.
    pub(crate) fn naive_probability(
        &self,
        state: &MemorySet,
        action: Action,
        temperature: f64,
        stop_prior: f64,
    ) -> f64 {
        let additions = self.space().additions(state).unwrap();
        let weight = |action: Action| match action {
            Action::Stop => (stop_prior * (additions.len() as f64).ln()).exp(),
            Action::Add(id) => ((self.values[&state.with(id)] - self.values[state]) / temperature).exp(),
        };
        let total: f64 =
            weight(Action::Stop) + additions.iter().map(|&id| weight(Action::Add(id))).sum::<f64>();
        weight(action) / total
    }
}
