//! The bounds and the recursion from the inside; what callers see is tested in `tests/probe_selection.rs`.

use proptest::prelude::*;

use super::{
    bound::Bound,
    chooser::{Round, sweep},
    problem::Problem,
    state::State,
    table::Table,
};

#[path = "../../tests/synthetic/mod.rs"]
#[allow(dead_code)]
mod synthetic;
use synthetic::{Recipe, Window, window};

/// Walks a window greedily; at each step every bound must cover its value and the bounded choice must be the
/// sweep's, with covariances in a table and without.
fn check_bounds(recipe: Recipe, steps: usize) {
    check_bounds_with(recipe, steps, false);
    check_bounds_with(recipe, steps, true);
}

fn check_bounds_with(recipe: Recipe, steps: usize, tabulated: bool) {
    let Window { pool, family, belief } = window(recipe);
    let problem = Problem::new(&pool, &family, &belief).unwrap();
    let mut state = State::new(&problem);
    let mut bound = Bound::new(&problem);
    let mut kept = tabulated.then(|| Table::new(&problem, &state));
    for step in 0..steps.min(pool.len()) {
        let table = kept.as_ref();
        let mut bounds = bound.refresh(&problem, &state, table);
        if step % 3 == 0 {
            let live: Vec<usize> = (0..pool.len()).filter(|&probe| !state.scheduled[probe]).collect();
            bound.learn_typical(&problem, &state, table, &live);
            bounds = bound.refresh(&problem, &state, table);
        }
        let values = match table {
            // Without a second look at the latent vector, the last bits are others.
            Some(table) => {
                let all: Vec<usize> = (0..pool.len()).collect();
                let values = table.values(&problem, &state, &all);
                for (value, exact) in values.iter().zip(sweep(&problem, &state)) {
                    assert!(exact == f64::NEG_INFINITY || (value - exact).abs() < 1e-9 * exact.max(1e-3));
                }
                values
            }
            None => sweep(&problem, &state),
        };
        for (probe, (&bound, &value)) in bounds.iter().zip(&values).enumerate() {
            if !state.scheduled[probe] {
                assert!(
                    bound >= value,
                    "{recipe:?}, step {step}: probe {probe} is worth {value}, bound {bound}"
                );
            }
        }
        let mut round = Round::new(&problem, &state, &bound, table, bounds);
        let choice = round.choose(|_, value| value).unwrap();
        let best = (0..pool.len())
            .filter(|&probe| !state.scheduled[probe])
            .reduce(|best, probe| if values[probe] > values[best] { probe } else { best })
            .unwrap();
        assert_eq!(
            (choice.probe, choice.value),
            (best, values[best]),
            "{recipe:?}, step {step}"
        );
        let direction = state.schedule(&problem, choice.probe);
        if let Some(table) = &mut kept {
            table.follow(&problem, &state, choice.probe, &direction);
        }
    }
}

#[test]
fn bounds_cover_values_and_choices_are_those_of_a_sweep() {
    for seed in 0..3 {
        for dimension in [1, 3, 16, 40] {
            check_bounds(
                Recipe {
                    seed,
                    dimension,
                    ..Recipe::default()
                },
                40,
            );
        }
        check_bounds(
            Recipe {
                seed,
                labels: 0,
                ..Recipe::default()
            },
            40,
        );
        check_bounds(
            Recipe {
                seed,
                level: true,
                ..Recipe::default()
            },
            40,
        );
        check_bounds(
            Recipe {
                seed,
                twins: true,
                ..Recipe::default()
            },
            40,
        );
    }
}

#[test]
fn next_to_no_noise_and_duplicates_do_not_break_the_bounds() {
    for noise in [1e-4, 1e-7, 1e-10, 1e-14] {
        for twins in [false, true] {
            for reference_variance in [0.0, noise, 0.09] {
                let recipe = Recipe {
                    run_variance: noise,
                    reference_variance,
                    twins,
                    ..Recipe::default()
                };
                check_bounds(recipe, 60);
                check_bounds(
                    Recipe {
                        level: true,
                        seed: 2,
                        ..recipe
                    },
                    60,
                );
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]
    #[test]
    fn bounds_cover_values_whatever_the_scales(
        seed in 0..1_000_u64, run in -8.0..1.0_f64, reference in -8.0..1.0_f64, dimension in 1..24_usize,
    ) {
        check_bounds(
            Recipe {
                seed,
                dimension,
                tasks: 4,
                candidates: 8,
                run_variance: 10_f64.powf(run),
                reference_variance: 10_f64.powf(reference),
                ..Recipe::default()
            },
            25,
        );
    }
}
