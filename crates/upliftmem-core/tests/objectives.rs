//! The losses as a whole: gradients, extremes, and what they make of Bernoulli outcomes.
#![allow(clippy::unwrap_used)] // Helpers of tests may panic as tests do.

use proptest::prelude::*;
use upliftmem_core::{
    ReferenceId, TaskId, Uplift,
    objectives::{LossSettings, Objectives, PathRecord, StepRecord, ValueLabel},
};

fn objectives(change: impl Fn(&mut LossSettings)) -> Objectives {
    let mut settings = LossSettings::PAPER;
    change(&mut settings);
    Objectives::new(settings).unwrap()
}

fn label(task: u128, uplift: f64) -> ValueLabel {
    ValueLabel {
        task: TaskId::from_u128(task),
        reference: ReferenceId::from_u128(task),
        uplift: Uplift::new(uplift).unwrap(),
    }
}

/// The derivative of `loss` by each coordinate of `at`, by central differences.
fn finite_differences(at: &[f64], loss: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    let step = 1e-5;
    (0..at.len())
        .map(|position| {
            let moved = |by: f64| {
                let mut there = at.to_vec();
                there[position] += by;
                loss(&there)
            };
            (moved(step) - moved(-step)) / (2.0 * step)
        })
        .collect()
}

fn assert_close(found: &[f64], expected: &[f64]) {
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() < 1e-5, "{found} is not {expected}");
    }
}

proptest! {
    #[test]
    fn value_gradients_are_the_finite_differences(
        drawn in proptest::collection::vec((0_u128..3, -1.2..1.2_f64, -2.0..2.0_f64), 1..12),
        logit_scale in 0.2..2.0_f64, huber_delta in 0.3..2.0_f64, w_min in 0.05..1.0_f64,
    ) {
        let losses = objectives(|s| { s.logit_scale = logit_scale; s.huber_delta = huber_delta; s.w_min = w_min; });
        let labels: Vec<_> = drawn.iter().map(|&(task, uplift, _)| label(task, uplift)).collect();
        let predictions: Vec<_> = drawn.iter().map(|&(_, _, prediction)| prediction).collect();
        let pairs = losses.comparable_pairs(&labels).pairs;
        let at = |p: &[f64]| losses.value_loss(&labels, &pairs, p).unwrap();
        let here = at(&predictions);
        assert_close(&here.gradient, &finite_differences(&predictions, |p| at(p).value));
        assert_close(&here.regression.gradient, &finite_differences(&predictions, |p| at(p).regression.value));
        assert_close(&here.sign.gradient, &finite_differences(&predictions, |p| at(p).sign.value));
        assert_close(&here.pair.gradient, &finite_differences(&predictions, |p| at(p).pair.value));
        prop_assert!(here.regression.value >= 0.0 && here.sign.value >= 0.0 && here.pair.value >= 0.0);
    }

    #[test]
    fn policy_gradients_are_the_finite_differences(
        drawn in proptest::collection::vec(
            (proptest::collection::vec((-0.3..0.3_f64, -0.3..0.3_f64, 0_usize..3), 0..4), -1.5..1.5_f64), 1..5),
        temperature in 0.05..1.0_f64,
    ) {
        let losses = objectives(|_| {});
        let gains: Vec<f64> = drawn.iter().flat_map(|path| &path.0).flat_map(|step| [step.0, step.1, 0.0]).collect();
        let shape: Vec<(Vec<usize>, f64)> =
            drawn.iter().map(|path| (path.0.iter().map(|step| step.2).collect(), path.1)).collect();
        let here = losses.policy_loss(&records(&shape, &gains, temperature), temperature).unwrap();
        let found: Vec<f64> = here.gain_gradients.iter().flatten().flatten().copied().collect();
        let expected = finite_differences(&gains, |gains| {
            losses.policy_loss(&records(&shape, gains, temperature), temperature).unwrap().value
        });
        prop_assert_eq!(found.len(), expected.len());
        assert_close(&found, &expected);
    }
}

/// Paths of three actions a step, from the gains of all steps in a row.
fn records(shape: &[(Vec<usize>, f64)], gains: &[f64], temperature: f64) -> Vec<PathRecord> {
    let mut steps = gains.chunks(3);
    shape
        .iter()
        .map(|(taken, uplift)| PathRecord {
            steps: taken
                .iter()
                .map(|&taken| {
                    let logits: Vec<f64> = steps
                        .next()
                        .unwrap()
                        .iter()
                        .map(|gain| gain / temperature)
                        .collect();
                    let total: f64 = logits.iter().map(|logit| logit.exp()).sum();
                    StepRecord {
                        log_probabilities: logits.iter().map(|logit| logit - total.ln()).collect(),
                        taken,
                    }
                })
                .collect(),
            uplift: Uplift::new(*uplift).unwrap(),
        })
        .collect()
}

#[test]
fn extreme_predictions_stay_finite_and_cost_what_they_should() {
    let losses = objectives(|_| {});
    for (prediction, uplift, sign) in [
        (1e3, 1.0, 0.0),
        (1e3, -1.0, 1e3),
        (-1e3, 1.0, 1e3),
        (-1e3, -1.0, 0.0),
    ] {
        let labels = [label(1, uplift), label(1, 0.0)];
        let pairs = losses.comparable_pairs(&labels).pairs;
        let loss = losses.value_loss(&labels, &pairs, &[prediction, 0.0]).unwrap();
        assert!(loss.value.is_finite() && loss.gradient.iter().all(|slope| slope.is_finite()));
        assert!((loss.sign.value - sign).abs() < 1e-9, "{loss:?}");
        assert!((loss.pair.value - sign).abs() < 1e-9, "{loss:?}");
        assert!((loss.sign.gradient[0].abs() - f64::from(u8::from(sign > 0.0))).abs() < 1e-9);
    }
}

#[test]
fn empty_buffers_cost_nothing() {
    let losses = objectives(|_| {});
    let loss = losses.value_loss(&[], &[], &[]).unwrap();
    assert_eq!((loss.value, loss.gradient.len()), (0.0, 0));
    let policy = losses.policy_loss(&[], 0.05).unwrap();
    assert_eq!((policy.value, policy.eligible), (0.0, 0));
    // Labels without a clear sign, and a single label of a task, leave sign and pair at zero too.
    let loss = losses
        .value_loss(&[label(1, 0.05), label(2, -0.05)], &[], &[3.0, 3.0])
        .unwrap();
    assert_eq!((loss.sign.value, loss.sign.terms, loss.pair.value), (0.0, 0, 0.0));
    assert_eq!(loss.sign.gradient, [0.0, 0.0]);
    assert!(loss.regression.value > 0.0);
}

#[test]
fn wrong_input_is_refused_with_its_place() {
    let losses = objectives(|_| {});
    let error = |result: upliftmem_core::Result<_>| result.map(|_| ()).unwrap_err().to_string();
    assert_eq!(
        error(losses.regression_loss(&[label(1, 0.1)], &[]).map(|_| ())),
        "predictions: 0 for 1 labels; give one for each"
    );
    assert_eq!(
        error(losses.sign_loss(&[label(1, 0.1)], &[f64::NAN]).map(|_| ())),
        "predicted uplift: NaN is not a finite number"
    );
    assert!(error(losses.pair_loss(&[(0, 2)], &[0.0, 0.0]).map(|_| ())).contains("position 2"));
    assert!(error(losses.pair_loss(&[(0, 1)], &[0.0, f64::INFINITY]).map(|_| ())).contains("inf"));
}

/// The one prediction that minimises the value loss over a whole population of labels: a set that succeeds with
/// probability `with`, against references that succeed with probability `without`; a success is worth 1.1.
fn population_minimiser(losses: &Objectives, with: f64, without: f64) -> f64 {
    let population = 10_000.0;
    let helped = (population * with * (1.0 - without)).round() as usize;
    let hurt = (population * (1.0 - with) * without).round() as usize;
    let labels: Vec<_> = (0..population as usize)
        .map(|number| match number {
            number if number < helped => label(1, 1.1),
            number if number < helped + hurt => label(1, -1.1),
            _ => label(1, 0.0),
        })
        .collect();
    let slope = |prediction: f64| {
        let predictions = vec![prediction; labels.len()];
        let loss = losses.value_loss(&labels, &[], &predictions).unwrap();
        loss.gradient.iter().sum::<f64>()
    };
    let (mut low, mut high) = (-3.0, 3.0);
    for _ in 0..50 {
        let middle = 0.5 * (low + high);
        if slope(middle) > 0.0 {
            high = middle;
        } else {
            low = middle;
        }
    }
    low
}

/// What the paper's form makes of binary outcomes, and what each change of it does: signs survive, magnitudes are
/// two to six times too large unless every label has full weight and residuals are squared.
#[test]
fn population_minimisers_under_bernoulli_outcomes() {
    let columns = [
        objectives(|s| s.sign_weight = 0.0),
        objectives(|_| {}),
        objectives(|s| (s.sign_weight, s.huber_delta) = (0.0, 1e6)),
        objectives(|s| (s.sign_weight, s.w_min) = (0.0, 1.0)),
        objectives(|s| (s.sign_weight, s.w_min, s.huber_delta) = (0.0, 1.0, 1e6)),
    ];
    for (with, without, expected) in [
        (0.6, 0.4, [0.81, 0.81, 0.39, 0.21, 0.22]),
        (0.8, 0.4, [0.97, 1.09, 0.73, 0.45, 0.44]),
        (0.3, 0.4, [-0.68, -0.61, -0.21, -0.09, -0.11]),
        (0.95, 0.9, [0.29, 0.59, 0.24, 0.03, 0.05]),
    ] {
        for (losses, expected) in columns.iter().zip(expected) {
            let found = population_minimiser(losses, with, without);
            assert!(
                (found - expected).abs() < 0.0075,
                "{with}/{without}: {found} is not {expected}"
            );
        }
    }
}

#[test]
fn the_calibrated_preset_predicts_the_mean_within_a_twentieth() {
    let losses = Objectives::new(LossSettings::CALIBRATED).unwrap();
    for with in [0.05, 0.3, 0.5, 0.8, 0.95] {
        for without in [0.1, 0.4, 0.6, 0.9] {
            let bias = population_minimiser(&losses, with, without) - 1.1 * (with - without);
            assert!(bias.abs() < 0.05, "{with}/{without}: off by {bias}");
        }
    }
}

#[test]
fn outcome_weights_follow_the_paper() {
    let losses = objectives(|_| {});
    for (uplift, weight) in [
        (0.05, 0.0),
        (-0.05, 0.0),
        (0.06, 0.06),
        (0.4, 0.4),
        (1.2, 1.0),
        (-0.4, -0.2),
        (-1.2, -0.5),
    ] {
        let found = losses.outcome_weight(Uplift::new(uplift).unwrap());
        assert!(
            (found - weight).abs() < 1e-15,
            "{uplift}: {found} is not {weight}"
        );
    }
    for (uplift, weight) in [(0.0, 0.1), (0.1, 0.2), (-0.25, 0.5), (0.5, 1.0), (-2.0, 1.0)] {
        assert!((losses.magnitude_weight(uplift) - weight).abs() < 1e-15);
    }
}

#[test]
fn the_policy_loss_averages_over_length_and_over_eligible_paths() {
    let losses = objectives(|_| {});
    let half = StepRecord {
        log_probabilities: vec![0.5_f64.ln(); 2],
        taken: 1,
    };
    let path = |steps: usize, uplift: f64| PathRecord {
        steps: vec![half.clone(); steps],
        uplift: Uplift::new(uplift).unwrap(),
    };
    // Weights 0.8, -0.25 and 0; the path without a decision has no likelihood and is not averaged.
    let loss = losses
        .policy_loss(&[path(1, 0.8), path(3, -0.5), path(2, 0.0), path(0, 1.0)], 0.05)
        .unwrap();
    assert_eq!((loss.eligible, loss.weighted), (3, 2));
    assert!((loss.value - 2_f64.ln() * (0.8 - 0.25) / 3.0).abs() < 1e-15);
}

#[test]
fn a_step_that_is_no_distribution_is_refused() {
    let losses = objectives(|_| {});
    let refused = |log_probabilities: &[f64], taken: usize| {
        let step = StepRecord {
            log_probabilities: log_probabilities.to_vec(),
            taken,
        };
        let path = PathRecord {
            steps: vec![step],
            uplift: Uplift::new(1.0).unwrap(),
        };
        losses.policy_loss(&[path], 0.05).unwrap_err().to_string()
    };
    assert!(refused(&[0.0], 1).contains("action 1 was taken, 1 are listed"));
    assert!(refused(&[0.0, f64::NEG_INFINITY], 1).contains("raise sampling_temperature"));
    assert!(refused(&[-1.0, -1.0], 0).contains("add up to"));
    assert!(refused(&[0.0, f64::NAN], 0).contains("add up to"));
    assert!(losses.policy_loss(&[], 0.0).is_err());
}
