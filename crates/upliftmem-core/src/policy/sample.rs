//! Sampling one path: the machine hands out sets to score and takes their values back.

use rand::Rng;

use super::{ActionDistribution, PathPolicy, check_values, conditional_gain, extensions};
use crate::{
    Action, MemoryId, MemorySet, PathStep, RetrievalPath, SearchSpace,
    error::{InvalidInput, Result},
};

/// Builds a set by sampling one action after another. Paper: SamplePath of Algorithm 1.
///
/// ```
/// # use rand::SeedableRng;
/// use upliftmem_core::{Candidate, CandidatePool, Limits, MemoryId, PathPolicy, SamplePath, SearchSpace};
///
/// let ids = [1, 2, 3].map(MemoryId::from_u128);
/// let pool = CandidatePool::new(ids.map(|id| Candidate { id, tokens: 10 }).to_vec())?;
/// let policy = PathPolicy::new(0.05, 0.0)?;
/// let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(7);
/// let mut sampling = SamplePath::new(SearchSpace::new(&pool, Limits::count(2)), policy);
/// while let Some(sets) = sampling.to_score() {
///     // A real scorer predicts the uplift of each set.
///     let values: Vec<f64> = sets.iter().map(|set| if set.contains(ids[0]) { 0.5 } else { -0.5 }).collect();
///     sampling.take_values(&values, &mut rng)?;
/// }
/// let path = sampling.finish()?;
/// assert!(path.terminal.contains(ids[0]));
/// # Ok::<(), upliftmem_core::InvalidInput>(())
/// ```
#[derive(Debug, Clone)]
pub struct SamplePath<'a> {
    space: SearchSpace<'a>,
    policy: PathPolicy,
    state: MemorySet,
    value: f64,
    /// Feasible additions to the state and the sets they make; both empty once the path has ended.
    mask: Vec<MemoryId>,
    extensions: Vec<MemorySet>,
    steps: Vec<PathStep>,
    distribution: ActionDistribution,
}

impl<'a> SamplePath<'a> {
    /// Starts at the empty set, whose value is 0.
    pub fn new(space: SearchSpace<'a>, policy: PathPolicy) -> Self {
        let mut sampling = Self {
            space,
            policy,
            state: MemorySet::EMPTY,
            value: 0.0,
            mask: Vec::new(),
            extensions: Vec::new(),
            steps: Vec::new(),
            distribution: ActionDistribution::certain_stop(),
        };
        sampling.offer();
        sampling
    }

    /// The sets to score next, or `None` when the path has ended.
    pub fn to_score(&self) -> Option<&[MemorySet]> {
        (!self.extensions.is_empty()).then_some(&self.extensions)
    }

    /// Takes the values of the sets handed out, in their order, and samples the next action.
    ///
    /// A value that is refused changes nothing and draws no random number.
    pub fn take_values(&mut self, values: &[f64], rng: &mut impl Rng) -> Result<()> {
        check_values(&self.extensions, values, self.value)?;
        if self.extensions.is_empty() {
            return Ok(());
        }
        let base = self.value;
        let gains = values.iter().map(|&value| conditional_gain(value, base));
        self.policy.fill(gains, &mut self.distribution);
        let drawn = self.distribution.sample(rng);
        let mask = std::mem::take(&mut self.mask);
        let action = match drawn.checked_sub(1) {
            None => Action::Stop,
            Some(position) => Action::Add(mask[position]),
        };
        let next = drawn
            .checked_sub(1)
            .map(|position| self.extensions.swap_remove(position));
        self.extensions.clear();
        let state = match next {
            None => self.state.clone(),
            Some(next) => {
                self.value = values[drawn - 1];
                std::mem::replace(&mut self.state, next)
            }
        };
        self.steps.push(PathStep { state, mask, action });
        if action != Action::Stop {
            self.offer();
        }
        Ok(())
    }

    /// The set the path has reached, and its predicted uplift.
    pub fn reached(&self) -> (&MemorySet, f64) {
        (&self.state, self.value)
    }

    /// The finished path; refused while sets are still to be scored.
    pub fn finish(self) -> Result<RetrievalPath> {
        if self.extensions.is_empty() {
            Ok(RetrievalPath {
                steps: self.steps,
                terminal: self.state,
            })
        } else {
            Err(InvalidInput::new(
                "retrieval path",
                format_args!(
                    "{} sets are still to be scored; give their values first",
                    self.extensions.len()
                ),
            ))
        }
    }

    /// Offers every feasible extension of the state; none means that the end is forced.
    fn offer(&mut self) {
        // The state is feasible by construction, so an error can not occur; it would end the path.
        self.mask = self.space.additions(&self.state).unwrap_or_default();
        extensions(&self.state, &self.mask, &mut self.extensions);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::{
        Candidate, CandidatePool, Limits,
        test_world::{World, id, pool_of, set},
    };

    fn sample(world: &World, policy: PathPolicy, rng: &mut ChaCha8Rng) -> RetrievalPath {
        let mut sampling = SamplePath::new(world.space(), policy);
        while let Some(sets) = sampling.to_score() {
            let values = world.score(sets);
            sampling.take_values(&values, rng).unwrap();
        }
        assert_eq!(
            sampling.reached().1.to_bits(),
            world.values[sampling.reached().0].to_bits()
        );
        sampling.finish().unwrap()
    }

    /// Each sampled sequence of actions must occur as often as the product of its softmax probabilities says.
    fn check_frequencies(limits: Limits, tokens: &[u32], stop_prior: f64) {
        const RUNS: u32 = 40_000;
        let world = World::random(tokens, limits, 0.3, 11);
        let policy = PathPolicy::new(0.2, stop_prior).unwrap();
        let mut rng = ChaCha8Rng::seed_from_u64(12);
        let mut counts: BTreeMap<Vec<Action>, u32> = BTreeMap::new();
        for _ in 0..RUNS {
            let path = sample(&world, policy, &mut rng);
            *counts
                .entry(path.steps.iter().map(|step| step.action).collect())
                .or_default() += 1;
        }
        let mut total = 0.0;
        for (steps, _) in world.all_paths() {
            let exact: f64 = steps
                .iter()
                .map(|(state, action)| world.naive_probability(state, *action, 0.2, stop_prior))
                .product();
            total += exact;
            let actions: Vec<Action> = steps.into_iter().map(|(_, action)| action).collect();
            let seen = f64::from(counts.remove(&actions).unwrap_or(0)) / f64::from(RUNS);
            let error = (exact * (1.0 - exact) / f64::from(RUNS)).sqrt();
            assert!(
                (seen - exact).abs() <= 5.0 * error,
                "{actions:?}: {seen} seen, {exact} expected"
            );
        }
        assert!((total - 1.0).abs() < 1e-12);
        assert!(
            counts.is_empty(),
            "paths outside the enumeration were sampled: {counts:?}"
        );
    }

    #[test]
    fn paths_are_as_frequent_as_their_exact_probability() {
        check_frequencies(Limits::count(3), &[1, 1, 1], 0.0);
        check_frequencies(Limits::count(2), &[1, 1, 1], 1.0);
        let limits = Limits {
            memories_max: 3,
            tokens_max: Some(5),
        };
        check_frequencies(limits, &[2, 3, 4], 0.5);
    }

    #[test]
    fn a_forced_end_is_no_step_and_nothing_to_add_is_no_path() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let policy = PathPolicy::new(0.01, 0.0).unwrap();
        // Everything gains, so the path always goes to the limit.
        let world = World::with_values(&[1, 1], Limits::count(2), |set| set.len() as f64);
        let path = sample(&world, policy, &mut rng);
        assert_eq!(path.terminal, set(&[1, 2]));
        assert!(path.steps.iter().all(|step| step.action != Action::Stop));
        assert_eq!(path.steps.len(), 2);
        for (pool, limits) in [
            (CandidatePool::default(), Limits::count(5)),
            (pool_of(3), Limits::count(0)),
            (
                pool_of(3),
                Limits {
                    memories_max: 5,
                    tokens_max: Some(0),
                },
            ),
        ] {
            let sampling = SamplePath::new(SearchSpace::new(&pool, limits), policy);
            assert_eq!(sampling.to_score(), None);
            let path = sampling.finish().unwrap();
            assert_eq!((path.steps.len(), &path.terminal), (0, &MemorySet::EMPTY));
        }
    }

    #[test]
    fn a_refused_value_names_the_set_and_changes_nothing() {
        let pool = pool_of(3);
        let policy = PathPolicy::new(0.1, 0.0).unwrap();
        let mut sampling = SamplePath::new(SearchSpace::new(&pool, Limits::count(2)), policy);
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let mut twin = rng.clone();
        let error = sampling.take_values(&[0.0, f64::NAN, 0.0], &mut rng).unwrap_err();
        assert!(error.to_string().contains(&id(2).to_string()), "{error}");
        assert!(
            error.to_string().contains("NaN is not a finite number"),
            "{error}"
        );
        let error = sampling.take_values(&[0.0, 0.0], &mut rng).unwrap_err();
        assert!(error.to_string().contains("2 values for 3 sets"), "{error}");
        assert_eq!(sampling.to_score().unwrap().len(), 3);
        assert_eq!(
            rng.next_u64(),
            twin.next_u64(),
            "a random number was spent on a refused value"
        );
        let error = sampling.finish().unwrap_err();
        assert!(
            error.to_string().contains("3 sets are still to be scored"),
            "{error}"
        );
    }

    #[test]
    fn a_gain_that_overflows_is_refused() {
        let pool = pool_of(2);
        let policy = PathPolicy::new(0.1, 0.0).unwrap();
        let mut sampling = SamplePath::new(SearchSpace::new(&pool, Limits::count(2)), policy);
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        sampling.take_values(&[f64::MAX, -f64::MAX], &mut rng).unwrap();
        let error = sampling.take_values(&[-f64::MAX], &mut rng).unwrap_err();
        assert!(error.to_string().contains("too far from"), "{error}");
    }

    proptest! {
        #[test]
        fn the_order_of_candidates_does_not_matter(
            seed in any::<u64>(), shuffled in Just((1_u128..=5).collect::<Vec<_>>()).prop_shuffle(),
        ) {
            let world = World::random(&[1; 5], Limits::count(3), 0.3, seed);
            let candidates = shuffled.iter().map(|&bits| Candidate { id: id(bits), tokens: 1 });
            let twin = World { pool: CandidatePool::new(candidates.collect()).unwrap(), ..world.clone() };
            let policy = PathPolicy::new(0.3, 0.5).unwrap();
            let path = |world| sample(world, policy, &mut ChaCha8Rng::seed_from_u64(seed));
            prop_assert_eq!(path(&twin), path(&world));
        }

        #[test]
        fn a_recorded_path_is_consistent_and_the_same_seed_gives_it_again(
            tokens in proptest::collection::vec(0_u32..5, 0..5),
            memories_max in 0_usize..5,
            tokens_max in proptest::option::of(0_u64..12),
            seed in any::<u64>(),
        ) {
            let world = World::random(&tokens, Limits { memories_max, tokens_max }, 1.0, seed);
            let policy = PathPolicy::new(0.5, 0.3).unwrap();
            let path = sample(&world, policy, &mut ChaCha8Rng::seed_from_u64(seed));
            let mut state = MemorySet::EMPTY;
            let mut stopped = false;
            for step in &path.steps {
                prop_assert!(!stopped);
                prop_assert_eq!(&step.state, &state);
                prop_assert_eq!(&step.mask, &world.space().additions(&state).unwrap());
                match step.action {
                    Action::Stop => stopped = true,
                    Action::Add(added) => state = state.with(added),
                }
            }
            prop_assert_eq!(&path.terminal, &state);
            prop_assert_eq!(stopped, !world.space().additions(&state).unwrap().is_empty());
            prop_assert_eq!(sample(&world, policy, &mut ChaCha8Rng::seed_from_u64(seed)), path);
        }
    }
}
