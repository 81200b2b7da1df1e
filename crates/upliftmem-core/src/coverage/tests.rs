//! The paper's statements about coverage, over random worlds small enough to enumerate.

use std::collections::BTreeMap;

use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::{
    Action, CandidatePool, Limits,
    test_world::{World, id, pool_of, set},
};

fn coverage(world: &World, policy: PathPolicy, target: &MemorySet) -> Coverage {
    let question = CoverageQuestion::new(world.space(), policy, target).unwrap();
    let values = world.score(question.to_score());
    question.answer(&values).unwrap()
}

fn policy(temperature: f64, stop_prior: f64) -> PathPolicy {
    PathPolicy::new(temperature, stop_prior).unwrap()
}

/// Probability of each set, its bound and its least deficit, by enumerating orders and the plain softmax.
fn by_enumeration(world: &World, temperature: f64, stop_prior: f64) -> BTreeMap<MemorySet, (f64, f64, f64)> {
    let mut sets = BTreeMap::new();
    for (steps, terminal) in world.all_paths() {
        let mut probability = 1.0;
        let mut deficit = 0.0;
        for (state, action) in &steps {
            let additions = world.space().additions(state).unwrap();
            let gain = |action: Action| match action {
                Action::Stop => temperature * stop_prior * (additions.len() as f64).ln(),
                Action::Add(id) => world.values[&state.with(id)] - world.values[state],
            };
            let gains = additions.iter().map(|&id| gain(Action::Add(id)));
            let best = gains.fold(gain(Action::Stop), f64::max);
            deficit += best - gain(*action);
            probability *= world.naive_probability(state, *action, temperature, stop_prior);
        }
        let entry = sets.entry(terminal).or_insert((0.0, 0.0, f64::INFINITY));
        entry.0 += probability;
        entry.1 += (-deficit / temperature).exp();
        entry.2 = entry.2.min(deficit);
    }
    sets
}

fn any_world(seed: u64) -> World {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let tokens: Vec<u32> = (0..rng.random_range(0..5_usize))
        .map(|_| rng.random_range(0..5))
        .collect();
    let limits = Limits {
        memories_max: rng.random_range(0..5),
        tokens_max: rng.random::<bool>().then(|| rng.random_range(0..12)),
    };
    World::random(&tokens, limits, 1.0, rng.random())
}

proptest! {
    #[test]
    fn the_subset_sum_is_the_sum_over_orders(
        seed in any::<u64>(), temperature in 0.1..2.0, stop_prior in 0.0..=1.0,
    ) {
        let world = any_world(seed);
        let expected = by_enumeration(&world, temperature, stop_prior);
        let mut total = 0.0;
        for target in world.values.keys() {
            let coverage = coverage(&world, policy(temperature, stop_prior), target);
            let Some(&(probability, bound, deficit)) = expected.get(target) else {
                // Proposition passive_observation: no path, no coverage.
                prop_assert!(coverage.unreachable.is_some());
                prop_assert_eq!(coverage.coverage_probability().to_bits(), 0.0_f64.to_bits());
                prop_assert_eq!(coverage.path_deficit, None);
                prop_assert!(coverage.expected_runs().is_infinite());
                continue;
            };
            prop_assert!((coverage.coverage_probability() / probability - 1.0).abs() < 1e-10);
            prop_assert!((coverage.coverage_upper_bound() / bound.min(1.0) - 1.0).abs() < 1e-10);
            prop_assert!((coverage.path_deficit.unwrap() - deficit).abs() < 1e-10);
            prop_assert_eq!(&coverage.easiest_order.iter().copied().collect::<MemorySet>(), target);
            // Proposition passive_observation, before the bound is cut at 1.
            prop_assert!(coverage.ln_probability <= coverage.ln_bound + 1e-12);
            total += coverage.coverage_probability();
        }
        prop_assert!((total - 1.0).abs() < 1e-10, "all sets together have probability {}", total);
    }

    /// Corollary direct_evidence, with the number of executions counted over all sequences of runs.
    #[test]
    fn evidence_arrives_as_the_corollary_says(
        seed in any::<u64>(), runs in 0_u64..6, pick in any::<proptest::sample::Index>(),
    ) {
        let world = any_world(seed);
        let feasible = world.feasible_sets();
        let target = &feasible[pick.index(feasible.len())];
        let coverage = coverage(&world, policy(0.3, 0.0), target);
        let (p, upper) = (coverage.coverage_probability(), coverage.coverage_upper_bound());
        let (mut mean, mut none) = (0.0, 0.0);
        for sequence in 0_u32..1 << runs {
            let hits = sequence.count_ones();
            let probability = p.powf(f64::from(hits)) * (1.0 - p).powf(runs as f64 - f64::from(hits));
            mean += probability * f64::from(hits);
            if hits == 0 {
                none += probability;
            }
        }
        prop_assert!((expected_executions(p, runs).unwrap() - mean).abs() < 1e-12);
        prop_assert!(mean <= expected_executions(upper, runs).unwrap() + 1e-12);
        prop_assert!((no_evidence_probability(p, runs).unwrap() - none).abs() < 1e-12);
        prop_assert!(none >= no_evidence_lower_bound(upper, runs).unwrap() - 1e-12);
        prop_assert!((coverage.expected_runs() * p - 1.0).abs() < 1e-12);
        prop_assert!(coverage.expected_runs() >= coverage.expected_runs_lower_bound());
    }

    /// Proposition coverage_identification: two worlds that differ in one set, any way of telling its sign.
    #[test]
    fn no_estimator_beats_the_identification_bound(
        seed in any::<u64>(), runs in 0_u32..4, sensible in 0.0..=1.0, pick in any::<proptest::sample::Index>(),
    ) {
        let world = World::random(&[1, 1], Limits::count(2), 0.5, seed);
        let sets: Vec<(MemorySet, f64)> = world
            .feasible_sets()
            .into_iter()
            .map(|target| {
                let probability = coverage(&world, policy(0.3, 0.0), &target).coverage_probability();
                (target, probability)
            })
            .collect();
        let target = 1 + pick.index(sets.len() - 1);
        prop_assert!(!sets[target].0.is_empty());
        // The estimator is any function of what was executed and observed: here a random table, drawn again for each
        // history, or with probability `sensible` the sensible answer where the set was seen.
        let estimate_plus = |history: &[usize], sees_plus: Option<bool>| {
            let mut rng = ChaCha8Rng::seed_from_u64(
                history.iter().fold(seed, |hash, &at| hash.wrapping_mul(31).wrapping_add(at as u64 + 1))
                    ^ sees_plus.map_or(0, |plus| 7 + u64::from(plus)),
            );
            let guess: bool = rng.random();
            match sees_plus {
                Some(plus) if rng.random::<f64>() < sensible => plus,
                _ => guess,
            }
        };
        let (mut error_plus, mut error_minus) = (0.0, 0.0);
        for history in histories(sets.len(), runs) {
            let probability: f64 = history.iter().map(|&at| sets[at].1).product();
            let seen = history.contains(&target);
            // Utility 3/4 against 1/4 is seen only when the set was executed; everything else yields 1/2.
            if !estimate_plus(&history, seen.then_some(true)) {
                error_plus += probability;
            }
            if estimate_plus(&history, seen.then_some(false)) {
                error_minus += probability;
            }
        }
        let bound = coverage_lower_bound(sets[target].1, u64::from(runs)).unwrap();
        prop_assert!(f64::max(error_plus, error_minus) >= bound - 1e-12, "{} {} {}", error_plus, error_minus, bound);
        // Combined with the coverage bound it still holds.
        let upper = coverage(&world, policy(0.3, 0.0), &sets[target].0).coverage_upper_bound();
        prop_assert!(bound >= coverage_lower_bound(upper, u64::from(runs)).unwrap() - 1e-12);
    }

    /// Eq. adaptive_coverage: the scorer changes with everything seen so far, in two worlds that differ in one set.
    #[test]
    fn a_changing_policy_obeys_the_adaptive_bounds(
        seed in any::<u64>(), rounds in 0_u32..4, pick in any::<proptest::sample::Index>(),
    ) {
        let shape = World::random(&[1, 1], Limits::count(2), 1.0, seed);
        let targets = shape.feasible_sets();
        let target = 1 + pick.index(targets.len() - 1);
        // All that can be seen of a history: the outcome of the target tells the worlds apart, nothing else does.
        let seen = |history: &[usize], plus: bool| {
            let hash = |hash: u64, at: u64| hash.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(at + 1);
            history.iter().fold(seed, |so_far, &at| {
                hash(so_far, if at == target && plus { 99 } else { at as u64 })
            })
        };
        let after = |history: &[usize], plus: bool| -> Vec<f64> {
            let world = World::random(&[1, 1], Limits::count(2), 1.0, seen(history, plus));
            let probability = |set| coverage(&world, policy(0.4, 0.0), set).coverage_probability();
            targets.iter().map(probability).collect()
        };
        let upper_bounds: Vec<f64> = (0..rounds)
            .map(|round| {
                let histories = histories(targets.len(), round);
                let either = histories.iter().flat_map(|h| [after(h, false)[target], after(h, true)[target]]);
                either.fold(0.0, f64::max)
            })
            .collect();
        let bounds = adaptive_coverage(&upper_bounds).unwrap();
        let mut worst_error = 0.0;
        for plus in [false, true] {
            let (mut mean, mut none, mut error) = (0.0, 0.0, 0.0);
            for history in histories(targets.len(), rounds) {
                let probability: f64 =
                    (0..history.len()).map(|at| after(&history[..at], plus)[history[at]]).product();
                let hits = history.iter().filter(|&&at| at == target).count();
                mean += probability * hits as f64;
                if hits == 0 {
                    none += probability;
                }
                // The estimator: any function of what was seen.
                let says_plus: bool = ChaCha8Rng::seed_from_u64(seen(&history, plus)).random();
                if says_plus != plus {
                    error += probability;
                }
            }
            prop_assert!(mean <= bounds.expected_executions_max + 1e-12);
            prop_assert!(none >= bounds.no_evidence_min - 1e-12);
            worst_error = f64::max(worst_error, error);
        }
        prop_assert!(worst_error >= bounds.sign_error_min - 1e-12);
    }

    #[test]
    fn the_names_of_memories_do_not_matter(
        seed in any::<u64>(), shuffled in Just((1_u128..=4).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let world = World::random(&[1; 4], Limits::count(3), 0.5, seed);
        let original = |renamed: &MemorySet| -> MemorySet {
            renamed.iter().map(|id| MemoryId::from_u128(shuffled[id.as_u128() as usize - 1])).collect()
        };
        let renamed = World::with_values(&[1; 4], world.limits, |set| world.values[&original(set)]);
        for target in renamed.feasible_sets() {
            let one = coverage(&renamed, policy(0.2, 0.5), &target);
            let two = coverage(&world, policy(0.2, 0.5), &original(&target));
            prop_assert!((one.ln_probability - two.ln_probability).abs() < 1e-12);
            prop_assert!((one.ln_bound - two.ln_bound).abs() < 1e-12);
        }
    }

    /// The complementary pair of app. selective.
    #[test]
    fn a_complementary_pair_is_suppressed_by_both_orders(
        harm in 0.01_f64..2.0, benefit in 0.01_f64..2.0, temperature in 0.05_f64..1.0,
    ) {
        let world = World::with_values(&[1, 1], Limits::count(2), |set| match set.len() {
            0 => 0.0,
            1 => -harm,
            _ => benefit,
        });
        let pair = coverage(&world, policy(temperature, 0.0), &set(&[1, 2]));
        let bound = f64::min(1.0, 2.0 * (-harm / temperature).exp());
        prop_assert!((pair.coverage_upper_bound() / bound - 1.0).abs() < 1e-12);
        // In the limit the two are equal; the last bits may differ.
        prop_assert!(pair.coverage_probability() <= bound * (1.0 + 1e-12));
        prop_assert!((pair.path_deficit.unwrap() - harm).abs() < 1e-12);
        // By hand: two orders, each adding one harmful memory among three actions and then choosing to go on.
        let first = (-harm / temperature).exp();
        let second = ((benefit + harm) / temperature).exp();
        let exact = 2.0 * first / (1.0 + 2.0 * first) * second / (1.0 + second);
        prop_assert!((pair.coverage_probability() / exact - 1.0).abs() < 1e-10);
    }
}

/// All sequences of `length` choices among `choices`.
fn histories(choices: usize, length: u32) -> Vec<Vec<usize>> {
    (0..choices.pow(length))
        .map(|code| (0..length).map(|at| code / choices.pow(at) % choices).collect())
        .collect()
}

/// Guessing by a coin where nothing was seen meets the identification bound: it can not be improved.
#[test]
fn the_identification_bound_is_tight() {
    let world = World::random(&[1, 1], Limits::count(2), 0.5, 4);
    let p = coverage(&world, policy(0.3, 0.0), &set(&[1, 2])).coverage_probability();
    let error_of_a_coin = 0.5 * (1.0 - p).powi(7);
    assert!((coverage_lower_bound(p, 7).unwrap() / error_of_a_coin - 1.0).abs() < 1e-12);
}

#[test]
fn coverage_far_below_the_smallest_number_keeps_its_logarithm() {
    // Each memory alone costs 10 at temperature 0.01; only the pair is worth anything.
    let world = World::with_values(&[1, 1], Limits::count(2), |set| {
        if set.len() == 1 { -10.0 } else { 0.0 }
    });
    let pair = coverage(&world, policy(0.01, 0.0), &set(&[1, 2]));
    assert!(
        (pair.ln_probability - (2_f64.ln() - 1_000.0)).abs() < 1e-9,
        "{}",
        pair.ln_probability
    );
    assert!(pair.coverage_probability() < f64::MIN_POSITIVE);
    assert!(pair.expected_runs().is_infinite());
}

#[test]
fn deficits_too_large_to_count_end_in_zero_coverage() {
    let world = World::with_values(&[1, 1], Limits::count(2), |set| {
        if set.len() == 1 { -1e300 } else { 0.0 }
    });
    let pair = coverage(&world, policy(1e-100, 0.0), &set(&[1, 2]));
    assert!(pair.coverage_probability() < f64::MIN_POSITIVE && pair.ln_probability.is_infinite());
    assert_eq!(pair.easiest_order.len(), 2);
}

#[test]
fn why_a_set_is_out_of_reach_is_said() {
    let pool = pool_of(12);
    let policy = policy(0.1, 0.0);
    let ask = |limits, target: &MemorySet| {
        CoverageQuestion::new(SearchSpace::new(&pool, limits), policy, target)
            .unwrap()
            .answer(&[])
            .unwrap()
    };
    let missing = ask(Limits::count(3), &set(&[99])).unreachable.unwrap();
    assert!(
        missing.to_string().contains("is not among the 12 candidates"),
        "{missing}"
    );
    let large = ask(Limits::count(1), &set(&[1, 2])).unreachable.unwrap();
    assert!(large.to_string().contains("at most 1 are allowed"), "{large}");
    let eleven: MemorySet = (1..=11).map(id).collect();
    let error =
        CoverageQuestion::new(SearchSpace::new(&pool, Limits::count(12)), policy, &eleven).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("coverage is worked out for at most 10"),
        "{error}"
    );
}

#[test]
fn the_empty_set_is_certain_where_nothing_can_be_added() {
    let none = CandidatePool::default();
    let question = CoverageQuestion::new(
        SearchSpace::new(&none, Limits::count(5)),
        policy(0.1, 0.0),
        &MemorySet::EMPTY,
    );
    let coverage = question.unwrap().answer(&[]).unwrap();
    assert!((coverage.coverage_probability() - 1.0).abs() < 1e-15);
    assert!((coverage.expected_runs() - 1.0).abs() < 1e-15);
}

#[test]
fn each_set_is_asked_for_once_and_bad_values_are_refused() {
    let pool = pool_of(50);
    let space = SearchSpace::new(&pool, Limits::count(5));
    let question = CoverageQuestion::new(space, policy(0.1, 0.0), &set(&[3, 9, 11, 40, 50])).unwrap();
    let mut sets = question.to_score().to_vec();
    // 31 subsets, and 45 other memories added to each of the 31 proper ones.
    assert_eq!(sets.len(), 31 + 31 * 45);
    sets.sort();
    sets.dedup();
    assert_eq!(sets.len(), 31 + 31 * 45);
    let mut values = vec![0.0; sets.len()];
    assert!(question.clone().answer(&values[1..]).is_err());
    values[3] = f64::INFINITY;
    let named = format!("{:?}", question.to_score()[3]);
    let error = question.answer(&values).unwrap_err();
    assert!(error.to_string().contains(&named), "{error}");
}
