//! How likely a recorded path is under other values, and how its likelihood follows them.

use super::{ActionDistribution, PathPolicy, check_scores, check_values, conditional_gain, extensions};
use crate::{
    Action, MemorySet, RetrievalPath,
    error::{InvalidInput, Result},
};

/// A recorded path under given set values. What policy learning needs. Paper: log pi of eq. main_policy_loss.
#[derive(Debug, Clone, PartialEq)]
pub struct PathLikelihood {
    /// ln probability of each recorded action, in order.
    pub steps: Vec<f64>,
    /// How much less the actions gain than the best ones would have. Paper: d(a), eq. path_deficit.
    pub path_deficit: f64,
    /// Derivative of the whole log-likelihood by the value of each set of [`RetrievalPath::sets_to_score`].
    pub gradient: Vec<f64>,
}

impl PathLikelihood {
    /// ln probability of the whole path; 0 for a path without a sampled action.
    pub fn log_likelihood(&self) -> f64 {
        self.steps.iter().sum()
    }
}

impl RetrievalPath {
    /// The sets whose values decide the path's likelihood, each once: every addition that was allowed at each step.
    pub fn sets_to_score(&self) -> Vec<MemorySet> {
        let mut sets = Vec::with_capacity(self.steps.iter().map(|step| step.mask.len()).sum());
        for step in &self.steps {
            extensions(&step.state, &step.mask, &mut sets);
        }
        sets
    }

    /// Refuses a record that no sampling could have left, such as one that was damaged in storage.
    pub fn check(&self) -> Result<()> {
        let mut state = Some(MemorySet::EMPTY);
        for (position, step) in self.steps.iter().enumerate() {
            if state.as_ref() != Some(&step.state) {
                return Err(broken(
                    position,
                    "does not start where the previous step led; record the path again",
                ));
            }
            // Sorted and new: so that a set is scored once and an action is found by its place.
            let sorted = step.mask.windows(2).all(|pair| pair[0] < pair[1]);
            if !sorted || step.mask.iter().any(|&id| step.state.contains(id)) {
                return Err(broken(
                    position,
                    "has a mask that is not sorted, repeats a memory or holds a member of its state",
                ));
            }
            state = match step.action {
                Action::Stop => None,
                Action::Add(added) if step.mask.binary_search(&added).is_ok() => Some(step.state.with(added)),
                Action::Add(added) => {
                    return Err(broken(
                        position,
                        format_args!("adds memory {added}, which its mask does not allow"),
                    ));
                }
            };
        }
        let stopped = self.steps.last().map(|step| &step.state);
        if state.as_ref().or(stopped) == Some(&self.terminal) {
            Ok(())
        } else {
            Err(InvalidInput::new(
                "retrieval path",
                format_args!("its steps do not lead to its terminal set {:?}", self.terminal),
            ))
        }
    }
}

impl PathPolicy {
    /// The likelihood of a recorded path when the sets of [`RetrievalPath::sets_to_score`] have these values.
    ///
    /// Uses the recorded states and masks, so that it stays defined when the pool has changed since.
    pub fn path_likelihood(&self, path: &RetrievalPath, values: &[f64]) -> Result<PathLikelihood> {
        path.check()?;
        let sets = path.sets_to_score();
        check_scores(&sets, values)?;
        let mut likelihood = PathLikelihood {
            steps: Vec::with_capacity(path.steps.len()),
            path_deficit: 0.0,
            gradient: vec![0.0; values.len()],
        };
        let mut distribution = ActionDistribution::certain_stop();
        let mut start = 0;
        // Where the value of the current state stands; the empty set's is 0 and not among the values.
        let mut state_at = None;
        for step in &path.steps {
            let range = start..start + step.mask.len();
            let base = state_at.map_or(0.0, |at: usize| values[at]);
            check_values(&sets[range.clone()], &values[range.clone()], base)?;
            let gains = values[range.clone()]
                .iter()
                .map(|&value| conditional_gain(value, base));
            self.fill(gains, &mut distribution);
            let action = match step.action {
                Action::Stop => 0,
                // `check` has found it there.
                Action::Add(added) => 1 + step.mask.partition_point(|&id| id < added),
            };
            likelihood.steps.push(distribution.ln_probability(action));
            likelihood.path_deficit += distribution.deficit(action);
            // d ln pi(a) / d g(m) = (1[a = m] - pi(m)) / temperature; each gain falls with the state's own value.
            let mut of_state = 0.0;
            for (position, at) in range.clone().enumerate() {
                let chosen = f64::from(u8::from(position + 1 == action));
                let of_gain = (chosen - distribution.add(position)) / self.sampling_temperature;
                likelihood.gradient[at] += of_gain;
                of_state -= of_gain;
            }
            if let Some(at) = state_at {
                likelihood.gradient[at] += of_state;
            }
            state_at = action.checked_sub(1).map(|position| start + position);
            start = range.end;
        }
        Ok(likelihood)
    }
}

fn broken(position: usize, problem: impl std::fmt::Display) -> InvalidInput {
    InvalidInput::new(format_args!("retrieval path, step {}", position + 1), problem)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        Limits, PathStep,
        test_world::{World, id, set},
    };

    fn recorded(world: &World, steps: &[(MemorySet, Action)], terminal: &MemorySet) -> RetrievalPath {
        let steps = steps.iter().map(|(state, action)| PathStep {
            state: state.clone(),
            mask: world.space().additions(state).unwrap(),
            action: *action,
        });
        RetrievalPath {
            steps: steps.collect(),
            terminal: terminal.clone(),
        }
    }

    fn two_steps() -> RetrievalPath {
        RetrievalPath {
            steps: vec![
                PathStep {
                    state: MemorySet::EMPTY,
                    mask: vec![id(1), id(2)],
                    action: Action::Add(id(2)),
                },
                PathStep {
                    state: set(&[2]),
                    mask: vec![id(1)],
                    action: Action::Stop,
                },
            ],
            terminal: set(&[2]),
        }
    }

    fn check_broken(damage: impl FnOnce(&mut RetrievalPath), message: &str) {
        let mut path = two_steps();
        assert_eq!(path.check(), Ok(()));
        damage(&mut path);
        let policy = PathPolicy::new(0.1, 0.0).unwrap();
        let error = policy
            .path_likelihood(&path, &vec![0.0; path.sets_to_score().len()])
            .unwrap_err();
        assert!(error.to_string().contains(message), "{error}");
    }

    #[test]
    fn a_damaged_record_is_refused_with_the_step() {
        check_broken(|path| path.steps[1].state = set(&[1]), "step 2: does not start");
        check_broken(|path| path.steps[0].state = set(&[1]), "step 1: does not start");
        check_broken(
            |path| path.steps[0].action = Action::Stop,
            "step 2: does not start",
        );
        check_broken(
            |path| path.steps[0].mask = vec![id(1)],
            "which its mask does not allow",
        );
        check_broken(
            |path| path.steps[0].mask = vec![id(2), id(1)],
            "step 1: has a mask",
        );
        check_broken(|path| path.steps[1].mask = vec![id(2)], "step 2: has a mask");
        check_broken(
            |path| path.terminal = set(&[1, 2]),
            "do not lead to its terminal set",
        );
        check_broken(|path| path.steps.clear(), "do not lead to its terminal set");
    }

    #[test]
    fn values_are_checked_and_a_path_without_steps_is_certain() {
        let policy = PathPolicy::new(0.1, 0.0).unwrap();
        assert!(policy.path_likelihood(&two_steps(), &[0.0, 0.0]).is_err());
        let error = policy
            .path_likelihood(&two_steps(), &[0.0, 0.0, f64::NAN])
            .unwrap_err();
        assert!(
            error.to_string().contains(&id(1).to_string()) && error.to_string().contains("NaN"),
            "{error}"
        );
        let empty = RetrievalPath {
            steps: vec![],
            terminal: MemorySet::EMPTY,
        };
        let likelihood = policy.path_likelihood(&empty, &[]).unwrap();
        assert!(likelihood.log_likelihood().abs() < 1e-300 && likelihood.gradient.is_empty());
    }

    proptest! {
        #[test]
        fn the_likelihood_is_the_product_of_softmax_probabilities(
            tokens in proptest::collection::vec(0_u32..5, 0..5),
            memories_max in 0_usize..4,
            stop_prior in 0.0..=1.0,
            seed in any::<u64>(),
        ) {
            let world = World::random(&tokens, Limits { memories_max, tokens_max: Some(9) }, 1.0, seed);
            let policy = PathPolicy::new(0.4, stop_prior).unwrap();
            let mut total = 0.0;
            for (steps, terminal) in world.all_paths() {
                let path = recorded(&world, &steps, &terminal);
                let values = world.score(&path.sets_to_score());
                let likelihood = policy.path_likelihood(&path, &values).unwrap();
                let naive: f64 = steps
                    .iter()
                    .map(|(state, action)| world.naive_probability(state, *action, 0.4, stop_prior))
                    .product();
                prop_assert!((likelihood.log_likelihood().exp() / naive - 1.0).abs() < 1e-10);
                prop_assert!(likelihood.path_deficit >= 0.0);
                // Paper: eq. path_probability_bound.
                prop_assert!(likelihood.log_likelihood() <= -likelihood.path_deficit / 0.4 + 1e-12);
                total += naive;
            }
            prop_assert!((total - 1.0).abs() < 1e-10);
        }

        #[test]
        fn the_gradient_is_the_slope(seed in any::<u64>(), pick in any::<proptest::sample::Index>()) {
            let world = World::random(&[1, 1, 1, 1], Limits::count(3), 0.5, seed);
            let policy = PathPolicy::new(0.3, 0.5).unwrap();
            let paths = world.all_paths();
            let (steps, terminal) = &paths[pick.index(paths.len())];
            let path = recorded(&world, steps, terminal);
            let values = world.score(&path.sets_to_score());
            let likelihood = policy.path_likelihood(&path, &values).unwrap();
            for at in 0..values.len() {
                let shifted = |by: f64| {
                    let mut values = values.clone();
                    values[at] += by;
                    policy.path_likelihood(&path, &values).unwrap().log_likelihood()
                };
                let slope = (shifted(1e-5) - shifted(-1e-5)) / 2e-5;
                prop_assert!((slope - likelihood.gradient[at]).abs() < 1e-6, "{slope} {}", likelihood.gradient[at]);
            }
        }

        #[test]
        fn gains_telescope_to_the_value_of_the_set(seed in any::<u64>()) {
            // Paper: eq. telescoping.
            let world = World::random(&[1, 1, 1, 1], Limits::count(4), 1.0, seed);
            for (steps, terminal) in world.all_paths() {
                let sum: f64 = steps
                    .iter()
                    .map(|(state, action)| match action {
                        Action::Stop => 0.0,
                        Action::Add(added) => conditional_gain(world.values[&state.with(*added)], world.values[state]),
                    })
                    .sum();
                prop_assert!((sum - world.values[&terminal]).abs() < 1e-12);
            }
        }
    }
}
