//! Probe selection as callers see it: against dense conditioning, Monte Carlo, the softmax and itself.
#![allow(clippy::unwrap_used)]

use faer::{Mat, Side as Triangle, linalg::solvers::Solve};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use upliftmem_core::{
    AcquisitionSettings, Comparison, ComparisonFamily, Evaluation, MemoryId, MemorySet, PoolBelief,
    ProbeBatch, ProbePool, ProbeQuestion, ProbeStrategy, ReferenceBelief, Side, TaskId, evsi, select_probes,
};

#[allow(dead_code)]
mod synthetic;
use synthetic::{Recipe, Window, normal, window};

fn settings(temperature: f64, evaluation: Evaluation) -> AcquisitionSettings {
    AcquisitionSettings {
        probe_budget: 60,
        acquisition_temperature: temperature,
        evaluation,
        ..Default::default()
    }
}

fn select(window: &Window, settings: &AcquisitionSettings, seed: u64) -> ProbeBatch {
    select_probes(window.question(), settings, &mut ChaCha8Rng::seed_from_u64(seed)).unwrap()
}

fn picks(batch: &ProbeBatch) -> Vec<(u32, f64)> {
    batch.picks.iter().map(|pick| (pick.probe, pick.score)).collect()
}

/// One task whose sets have these values as combinations of independent normals, no noise, no reference noise, and
/// the comparison of the first set with no memory.
fn one_task(rows: &[&[f64]], means: &[f64], noise: f64) -> Window {
    let task = TaskId::from_u128(1);
    let set =
        |index: usize| -> MemorySet { std::iter::once(MemoryId::from_u128(1 + index as u128)).collect() };
    let pool = ProbePool::new((0..rows.len()).map(|index| (task, set(index)))).unwrap();
    let comparison = Comparison {
        task: 0,
        challenger: Side::Probe(0),
        incumbent: Side::Empty,
    };
    let family = ComparisonFamily::new(&pool, [comparison]).unwrap();
    let mut belief = PoolBelief::with_capacity(rows[0].len(), rows.len());
    for (row, &mean) in rows.iter().zip(means) {
        belief.push(mean, row, noise).unwrap();
    }
    belief.push_reference(ReferenceBelief::default()).unwrap();
    Window { pool, family, belief }
}

/// Covariances of labels with each other and with margins, from the belief's own entries.
fn dense(window: &Window, scheduled: &[u32]) -> (Mat<f64>, Mat<f64>) {
    let (belief, pool) = (&window.belief, &window.pool);
    let task = |probe: u32| pool.task_of(probe) as usize;
    let labels = Mat::from_fn(scheduled.len(), scheduled.len(), |row, column| {
        let [p, q] = [scheduled[row], scheduled[column]];
        belief.label_covariance((p as usize, task(p)), (q as usize, task(q)))
    });
    let margins = Mat::from_fn(scheduled.len(), window.family.len(), |row, column| {
        let comparison = window.family.comparisons()[column];
        let label = scheduled[row];
        let side = |side: Side| match side {
            Side::Empty => 0.0,
            Side::Probe(value) => belief.label_value_covariance(label as usize, task(label), value as usize),
        };
        side(comparison.challenger) - side(comparison.incumbent)
    });
    (labels, margins)
}

/// s_j^2(Q) = k_j' W^-1 k_j.
fn dense_resolved(window: &Window, scheduled: &[u32]) -> Vec<f64> {
    if scheduled.is_empty() {
        return vec![0.0; window.family.len()];
    }
    let (labels, margins) = dense(window, scheduled);
    let solved = labels.llt(Triangle::Lower).unwrap().solve(&margins);
    (0..margins.ncols())
        .map(|column| {
            (0..margins.nrows())
                .map(|row| margins[(row, column)] * solved[(row, column)])
                .sum()
        })
        .collect()
}

fn margin_means(window: &Window) -> Vec<f64> {
    let mean = |side: Side| match side {
        Side::Empty => 0.0,
        Side::Probe(probe) => window.belief.value_mean(probe as usize),
    };
    window
        .family
        .comparisons()
        .iter()
        .map(|j| mean(j.challenger) - mean(j.incumbent))
        .collect()
}

fn dense_value(window: &Window, scheduled: &[u32]) -> f64 {
    let resolved = dense_resolved(window, scheduled);
    margin_means(window)
        .iter()
        .zip(resolved)
        .map(|(&mean, s2)| evsi(mean, s2.max(0.0).sqrt()).unwrap())
        .sum()
}

#[test]
fn conditioning_probe_by_probe_is_conditioning_on_the_batch() {
    for seed in 0..4 {
        let window = window(Recipe {
            seed,
            tasks: 4,
            candidates: 8,
            ..Recipe::default()
        });
        let batch = select(&window, &settings(0.5, Evaluation::Sweep), seed);
        let scheduled: Vec<u32> = batch.picks.iter().map(|pick| pick.probe).take(30).collect();
        let ours = window.question().resolved_variances(&scheduled).unwrap();
        let mut backwards = scheduled.clone();
        backwards.reverse();
        let reversed = window.question().resolved_variances(&backwards).unwrap();
        for ((ours, reversed), dense) in ours.iter().zip(reversed).zip(dense_resolved(&window, &scheduled)) {
            assert!((ours - dense).abs() < 1e-11, "{ours} is not {dense}");
            assert!((ours - reversed).abs() < 1e-11);
        }
    }
}

#[test]
fn marginal_values_are_differences_of_dense_batch_values() {
    let window = window(Recipe {
        tasks: 3,
        candidates: 6,
        ..Recipe::default()
    });
    let scheduled = [5, 11, 12, 30];
    let before = dense_value(&window, &scheduled);
    let values = window.question().marginal_values(&scheduled).unwrap();
    for (probe, value) in values.iter().enumerate() {
        let Some(value) = value else {
            assert!(scheduled.contains(&(probe as u32)));
            continue;
        };
        // Paper: eq. batch_monotonicity, one more observation never makes decisions worse.
        assert!(*value >= 0.0);
        let with: Vec<u32> = scheduled.iter().copied().chain([probe as u32]).collect();
        let dense = dense_value(&window, &with) - before;
        assert!(
            (value - dense).abs() < 1e-11 * before,
            "probe {probe}: {value} is not {dense}"
        );
    }
}

#[test]
fn the_value_of_a_batch_is_the_mean_of_simulated_decisions() {
    let window = window(Recipe {
        tasks: 3,
        candidates: 6,
        ..Recipe::default()
    });
    let batch = select(
        &window,
        &AcquisitionSettings {
            probe_budget: 6,
            ..settings(0.2, Evaluation::Sweep)
        },
        1,
    );
    let scheduled: Vec<u32> = batch.picks.iter().map(|pick| pick.probe).collect();
    let (labels, margins) = dense(&window, &scheduled);
    let factor = labels.llt(Triangle::Lower).unwrap();
    let weights = factor.solve(&margins);
    let lower = factor.L().to_owned();
    let means = margin_means(&window);
    let mut rng = ChaCha8Rng::seed_from_u64(9);
    let simulations = 20_000;
    let (mut sum, mut squares) = (0.0, 0.0);
    for _ in 0..simulations {
        let noise: Vec<f64> = scheduled.iter().map(|_| normal(&mut rng)).collect();
        // Labels are drawn, beliefs are updated by eq. posterior_mean, decisions are made anew.
        let surprise: Vec<f64> = (0..noise.len())
            .map(|row| (0..=row).map(|column| lower[(row, column)] * noise[column]).sum())
            .collect();
        let gain: f64 = means
            .iter()
            .enumerate()
            .map(|(j, &mean)| {
                let moved: f64 = mean
                    + surprise
                        .iter()
                        .enumerate()
                        .map(|(row, y)| weights[(row, j)] * y)
                        .sum::<f64>();
                moved.max(0.0) - mean.max(0.0)
            })
            .sum();
        sum += gain;
        squares += gain * gain;
    }
    let count = f64::from(simulations);
    let (mean, error) = (
        sum / count,
        ((squares / count - (sum / count).powi(2)) / count).sqrt(),
    );
    assert!(
        (mean - batch.batch_value).abs() < 5.0 * error,
        "{mean} +- {error} is not {}",
        batch.batch_value
    );
    let by_picks: f64 = batch.picks.iter().map(|pick| pick.marginal_value).sum();
    assert!((by_picks - batch.batch_value).abs() < 1e-12);
}

#[test]
fn a_second_probe_can_be_worth_more_than_it_was_alone() {
    // Paper, app. batch: g = X, first X + Y, then Y. The decision is about the first set; probes two and three
    // observe the sum and the nuisance.
    let window = one_task(&[&[1.0, 0.0], &[1.0, 1.0], &[0.0, 1.0]], &[0.2, 0.2, 0.0], 0.0);
    let question = window.question();
    let alone = question.marginal_values(&[]).unwrap();
    let after = question.marginal_values(&[1]).unwrap();
    assert_eq!(alone[2], Some(0.0));
    assert!(after[2].unwrap() > 0.05, "{after:?}");
    let both = question.resolved_variances(&[1, 2]).unwrap();
    assert!((both[0] - 1.0).abs() < 1e-12);
    // Having both is having X itself: nothing is left for the first probe.
    assert_eq!(question.marginal_values(&[1, 2]).unwrap()[0], Some(0.0));
}

#[test]
fn an_exactly_redundant_probe_adds_exactly_zero() {
    let window = one_task(&[&[1.0, 0.5], &[1.0, 0.5], &[2.0, 1.0]], &[0.1, 0.1, 0.2], 0.0);
    let values = window.question().marginal_values(&[1]).unwrap();
    assert_eq!(values, [Some(0.0), None, Some(0.0)]);
    for evaluation in [Evaluation::Sweep, Evaluation::Bounded, Evaluation::Table] {
        let batch = select(&window, &settings(0.0, evaluation), 1);
        // Equal probes go by place; what is left is picked all the same, worth nothing.
        assert_eq!(
            batch.picks.iter().map(|pick| pick.probe).collect::<Vec<_>>(),
            [0, 1, 2]
        );
        assert_eq!(batch.picks[1].marginal_value, 0.0);
        assert!(batch.picks[1].helps.is_empty());
    }
}

/// A table rounds otherwise than a sweep, so where probes are equal but for rounding the order of picks may differ, not what
/// they are worth together.
fn agrees(recipe: Recipe, swept: &ProbeBatch, tabulated: &ProbeBatch) {
    let near = |a: f64, b: f64| (a - b).abs() <= 1e-9 * a.abs().max(1e-3);
    assert!(near(swept.batch_value, tabulated.batch_value), "{recipe:?}");
    if !(recipe.twins || recipe.level) {
        for (swept, tabulated) in swept.picks.iter().zip(&tabulated.picks) {
            assert_eq!(swept.probe, tabulated.probe, "{recipe:?}");
            assert!(near(swept.score, tabulated.score), "{recipe:?}");
        }
    }
}

#[test]
fn bounded_selection_makes_the_picks_of_a_full_sweep() {
    let plain = Recipe {
        tasks: 8,
        candidates: 14,
        ..Recipe::default()
    };
    let recipes = [
        plain,
        Recipe {
            seed: 2,
            dimension: 3,
            ..plain
        },
        Recipe {
            seed: 3,
            dimension: 33,
            labels: 0,
            ..plain
        },
        Recipe {
            seed: 4,
            level: true,
            ..plain
        },
        Recipe {
            seed: 5,
            twins: true,
            ..plain
        },
        Recipe {
            seed: 6,
            twins: true,
            level: true,
            run_variance: 1e-7,
            ..plain
        },
        Recipe {
            seed: 7,
            twins: true,
            run_variance: 1e-12,
            reference_variance: 0.0,
            ..plain
        },
        Recipe {
            seed: 8,
            reference_variance: 4.0,
            run_variance: 1e-5,
            ..plain
        },
    ];
    for recipe in recipes {
        let window = window(recipe);
        for temperature in [0.0, 0.1, 1.0] {
            let swept = select(&window, &settings(temperature, Evaluation::Sweep), 17);
            let bounded = select(&window, &settings(temperature, Evaluation::Bounded), 17);
            assert_eq!(
                picks(&swept),
                picks(&bounded),
                "{recipe:?} at temperature {temperature}"
            );
            let tabulated = select(&window, &settings(temperature, Evaluation::Table), 17);
            agrees(recipe, &swept, &tabulated);
            for (swept, bounded) in swept.picks.iter().zip(&bounded.picks) {
                let exact = swept.probability.at_least;
                assert!(bounded.probability.at_least <= exact * (1.0 + 1e-9));
                assert!(bounded.probability.at_most >= exact * (1.0 - 1e-9));
            }
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes_on_any_number_of_threads() {
    let window = window(Recipe::default());
    for strategy in [
        ProbeStrategy::Evsi,
        ProbeStrategy::Random,
        ProbeStrategy::McStd,
        ProbeStrategy::Eig,
        ProbeStrategy::Thompson,
    ] {
        let settings = AcquisitionSettings {
            strategy,
            ..settings(0.1, Evaluation::Bounded)
        };
        let run = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .unwrap();
            pool.install(|| serde_json::to_string(&select(&window, &settings, 3)).unwrap())
        };
        let one = run(1);
        assert_eq!(one, run(1));
        assert_eq!(one, run(3));
        let other = serde_json::to_string(&select(&window, &settings, 4)).unwrap();
        assert_ne!(one, other, "{strategy:?} does not depend on its seed");
    }
}

/// How often each probe is picked first.
fn first_picks(window: &Window, settings: &AcquisitionSettings, draws: u64) -> Vec<f64> {
    let mut counts = vec![0.0; window.pool.len()];
    for seed in 0..draws {
        counts[select(window, settings, seed).picks[0].probe as usize] += 1.0;
    }
    counts
}

#[test]
fn draws_follow_the_softmax() {
    let window = one_task(
        &[
            &[1.0, 0.0, 0.0],
            &[0.8, 0.6, 0.0],
            &[0.6, 0.0, 0.8],
            &[0.3, 0.9, 0.1],
            &[0.0, 1.0, 0.0],
        ],
        &[0.1, 0.3, -0.2, 0.0, 0.4],
        0.3,
    );
    let values: Vec<f64> = window
        .question()
        .marginal_values(&[])
        .unwrap()
        .into_iter()
        .flatten()
        .collect();
    let largest = values.iter().copied().fold(0.0, f64::max);
    let draws = 20_000;
    for (temperature, evaluation) in [
        (0.3, Evaluation::Sweep),
        (0.3, Evaluation::Table),
        (0.3, Evaluation::Bounded),
        (2.0, Evaluation::Bounded),
    ] {
        let settings = AcquisitionSettings {
            probe_budget: 1,
            ..settings(temperature, evaluation)
        };
        let weights: Vec<f64> = values
            .iter()
            .map(|value| (value / (temperature * largest)).exp())
            .collect();
        let sum: f64 = weights.iter().sum();
        let counts = first_picks(&window, &settings, draws);
        // Chi-square with four degrees of freedom: 27.9 is passed by chance once in 80,000.
        let distance: f64 = counts
            .iter()
            .zip(&weights)
            .map(|(count, weight)| {
                let expected = draws as f64 * weight / sum;
                (count - expected).powi(2) / expected
            })
            .sum();
        assert!(
            distance < 27.9,
            "{evaluation:?} at {temperature}: {counts:?}, chi-square {distance}"
        );
        let pick = &select(
            &window,
            &AcquisitionSettings {
                evaluation: Evaluation::Sweep,
                ..settings
            },
            1,
        )
        .picks[0];
        let expected = weights[pick.probe as usize] / sum;
        assert!((pick.probability.at_least - expected).abs() < 1e-12);
    }
}

#[test]
fn random_is_uniform_and_without_replacement() {
    let window = one_task(&[&[1.0], &[0.5], &[0.2], &[0.1]], &[0.0; 4], 0.1);
    let settings = AcquisitionSettings {
        strategy: ProbeStrategy::Random,
        probe_budget: 10,
        ..settings(0.1, Evaluation::Auto)
    };
    let draws = 8_000;
    let counts = first_picks(
        &window,
        &AcquisitionSettings {
            probe_budget: 1,
            ..settings
        },
        draws,
    );
    let expected = draws as f64 / 4.0;
    let distance: f64 = counts
        .iter()
        .map(|count| (count - expected).powi(2) / expected)
        .sum();
    assert!(distance < 24.0, "{counts:?}");
    let batch = select(&window, &settings, 5);
    let mut probes: Vec<u32> = batch.picks.iter().map(|pick| pick.probe).collect();
    probes.sort_unstable();
    assert_eq!(probes, [0, 1, 2, 3]);
    let probabilities: Vec<f64> = batch.picks.iter().map(|pick| pick.probability.at_least).collect();
    assert_eq!(probabilities, [0.25, 1.0 / 3.0, 0.5, 1.0]);
}

#[test]
fn deviation_and_information_rank_by_what_they_say() {
    let window = window(Recipe {
        tasks: 3,
        candidates: 6,
        ..Recipe::default()
    });
    let greedy = |strategy, deviations| {
        let question = ProbeQuestion {
            deviations,
            ..window.question()
        };
        let settings = AcquisitionSettings {
            strategy,
            probe_budget: 8,
            ..settings(0.0, Evaluation::Auto)
        };
        select_probes(question, &settings, &mut ChaCha8Rng::seed_from_u64(1))
            .unwrap()
            .picks
    };
    let picks = greedy(ProbeStrategy::McStd, None);
    for pick in &picks {
        let probe = pick.probe as usize;
        assert!((pick.score - window.belief.value_covariance(probe, probe).sqrt()).abs() < 1e-15);
    }
    assert!(picks.is_sorted_by(|a, b| a.score >= b.score));
    let passes: Vec<f64> = (0..window.pool.len()).map(|probe| probe as f64).collect();
    assert_eq!(
        greedy(ProbeStrategy::McStd, Some(&passes))[0].probe as usize,
        window.pool.len() - 1
    );

    // The information of a batch is half the log of det W / det (W without signal), however it is split up.
    let picks = greedy(ProbeStrategy::Eig, None);
    let scheduled: Vec<u32> = picks.iter().map(|pick| pick.probe).collect();
    let log_determinant = |matrix: &Mat<f64>| -> f64 {
        let factor = matrix.llt(Triangle::Lower).unwrap();
        (0..matrix.nrows())
            .map(|index| 2.0 * factor.L()[(index, index)].ln())
            .sum()
    };
    let (labels, _) = dense(&window, &scheduled);
    let noise = Mat::from_fn(scheduled.len(), scheduled.len(), |row, column| {
        let [p, q] = [scheduled[row], scheduled[column]];
        let task = window.pool.task_of(p);
        let shared = if task == window.pool.task_of(q) {
            window.belief.reference(task as usize).variance
        } else {
            0.0
        };
        shared
            + if row == column {
                window.belief.label_noise(p as usize)
            } else {
                0.0
            }
    });
    let total: f64 = picks.iter().map(|pick| pick.score).sum();
    let expected = 0.5 * (log_determinant(&labels) - log_determinant(&noise));
    assert!((total - expected).abs() < 1e-9, "{total} nats are not {expected}");
}

#[test]
fn thompson_executes_sets_as_often_as_they_are_best() {
    let means = [0.3, 0.2, 0.25];
    let rows: [&[f64]; 3] = [&[0.2, 0.0], &[0.0, 0.3], &[0.1, 0.1]];
    let window = one_task(&rows, &means, 0.1);
    let settings = AcquisitionSettings {
        strategy: ProbeStrategy::Thompson,
        probe_budget: 1,
        ..settings(0.1, Evaluation::Auto)
    };
    let draws = 10_000;
    let counts = first_picks(&window, &settings, draws);
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    let mut best = [0.0; 3];
    for _ in 0..draws {
        let latent = [normal(&mut rng), normal(&mut rng)];
        let value = |index: usize| means[index] + rows[index][0] * latent[0] + rows[index][1] * latent[1];
        let winner = (0..3).max_by(|&a, &b| value(a).total_cmp(&value(b))).unwrap();
        best[winner] += 1.0;
    }
    for (count, best) in counts.iter().zip(best) {
        let share = best / draws as f64;
        let error = (2.0 * draws as f64 * share * (1.0 - share)).sqrt();
        assert!((count - best).abs() < 5.0 * error, "{counts:?}");
    }
}

#[test]
fn each_pick_says_which_decisions_it_helps() {
    let window = window(Recipe::default());
    let batch = select(
        &window,
        &AcquisitionSettings {
            explained: 4,
            ..settings(0.1, Evaluation::Bounded)
        },
        2,
    );
    assert_eq!(batch.picks.len(), 60);
    let mut before: Vec<u32> = Vec::new();
    for pick in batch.picks.iter().take(5) {
        assert_eq!(pick.helps.len(), 4);
        assert!(pick.helps.is_sorted_by(|a, b| a.gain >= b.gain));
        assert!((pick.score - pick.marginal_value).abs() < 1e-12);
        let [old, new] = [before.clone(), [before.clone(), vec![pick.probe]].concat()]
            .map(|scheduled| dense_resolved(&window, &scheduled));
        let helped = pick.helps[0].comparison as usize;
        let mean = margin_means(&window)[helped];
        let gain = evsi(mean, new[helped].sqrt()).unwrap() - evsi(mean, old[helped].max(0.0).sqrt()).unwrap();
        assert!((gain - pick.helps[0].gain).abs() < 1e-10);
        before.push(pick.probe);
    }
}

#[test]
fn a_belief_that_is_certain_of_everything_values_every_probe_at_zero() {
    let window = one_task(&[&[], &[]], &[0.1, 0.2], 0.5);
    for evaluation in [Evaluation::Bounded, Evaluation::Sweep, Evaluation::Table] {
        let batch = select(&window, &settings(0.1, evaluation), 1);
        assert_eq!(batch.picks.len(), 2);
        assert!(batch.picks.iter().all(|pick| pick.marginal_value == 0.0));
    }
}

#[test]
fn windows_that_leave_nothing_to_do_are_no_error() {
    let empty = Window {
        pool: ProbePool::new([]).unwrap(),
        family: ComparisonFamily::new(&ProbePool::new([]).unwrap(), []).unwrap(),
        belief: PoolBelief::with_capacity(4, 0),
    };
    let undecided = {
        let mut window = one_task(&[&[1.0], &[0.5]], &[0.0, 0.0], 0.1);
        window.family = ComparisonFamily::new(&window.pool, []).unwrap();
        window
    };
    for evaluation in [Evaluation::Sweep, Evaluation::Bounded, Evaluation::Table] {
        for temperature in [0.0, 0.1] {
            assert!(
                select(&empty, &settings(temperature, evaluation), 1)
                    .picks
                    .is_empty()
            );
            // Nothing to decide: every probe is as good as any other.
            let batch = select(&undecided, &settings(temperature, evaluation), 1);
            assert_eq!((batch.picks.len(), batch.batch_value), (2, 0.0));
        }
    }
}

#[test]
fn input_that_does_not_fit_is_refused() {
    let window = window(Recipe::default());
    let question = window.question();
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut refuse = |question: ProbeQuestion<'_>, settings: AcquisitionSettings| {
        select_probes(question, &settings, &mut rng)
            .unwrap_err()
            .to_string()
    };
    let cold = AcquisitionSettings {
        acquisition_temperature: -1.0,
        ..AcquisitionSettings::default()
    };
    assert_eq!(refuse(question, cold), "acquisition_temperature: -1 is negative");
    let short = PoolBelief::with_capacity(3, 0);
    let message = refuse(
        ProbeQuestion {
            belief: &short,
            ..question
        },
        AcquisitionSettings::default(),
    );
    assert!(
        message.starts_with("belief: 0 probes and 0 references for a pool of"),
        "{message}"
    );
    let message = refuse(
        ProbeQuestion {
            deviations: Some(&[0.1]),
            ..question
        },
        AcquisitionSettings::default(),
    );
    assert!(message.starts_with("deviations: 1 for a pool of"), "{message}");
    assert!(question.marginal_values(&[3, 3]).is_err());
    assert!(question.marginal_values(&[u32::MAX]).is_err());
    let mut belief = PoolBelief::with_capacity(2, 1);
    assert!(belief.push(f64::NAN, &[0.0, 0.0], 0.1).is_err());
    assert!(belief.push(0.0, &[0.0], 0.1).is_err());
    assert!(belief.push(0.0, &[0.0, f64::INFINITY], 0.1).is_err());
    assert!(belief.push(0.0, &[0.0, 0.0], -0.1).is_err());
    assert!(belief.is_empty());
}
