use faer::linalg::solvers::Solve;
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::{FitBounds, MemoryId, MemorySet, TaskId};

fn label(features: &[f64], residual: f64, reference: u128) -> LabelRow {
    LabelRow {
        features: features.to_vec(),
        residual,
        reference: ReferenceId::from_u128(reference),
    }
}

/// Labels by the dense formulas of the paper: prior covariance and the noise covariance of eq. baseline_noise.
struct Dense {
    prior: Mat<f64>,
    phi: Mat<f64>,
    weight: Mat<f64>,
    labels: Mat<f64>,
}

impl Dense {
    fn new(prior: &LinearPrior, labels: &[LabelRow]) -> Self {
        let variances = prior.coefficient_variances();
        let phi = Mat::from_fn(labels.len(), variances.len(), |row, column| {
            labels[row].features[column]
        });
        let noise = Mat::from_fn(labels.len(), labels.len(), |row, column| {
            let shared = labels[row].reference == labels[column].reference;
            f64::from(u8::from(row == column)) * prior.run_variance()
                + f64::from(u8::from(shared)) * prior.reference_variance()
        });
        let diagonal = Mat::from_fn(variances.len(), variances.len(), |row, column| {
            if row == column { variances[row] } else { 0.0 }
        });
        let weight = &phi * &diagonal * phi.transpose() + noise;
        let labels = Mat::from_fn(labels.len(), 1, |row, _| labels[row].residual);
        Self {
            prior: diagonal,
            phi,
            weight,
            labels,
        }
    }

    fn posterior(&self) -> (Mat<f64>, Mat<f64>) {
        let factor = self.weight.llt(faer::Side::Lower).unwrap();
        let cross = &self.phi * &self.prior;
        let mean = cross.transpose() * factor.solve(&self.labels);
        let covariance = &self.prior - cross.transpose() * factor.solve(&cross);
        (mean, covariance)
    }

    fn log_likelihood(&self) -> f64 {
        let factor = self.weight.llt(faer::Side::Lower).unwrap();
        let count = self.labels.nrows();
        let determinant: f64 = (0..count)
            .map(|index| 2.0 * factor.L()[(index, index)].ln())
            .sum();
        let distance = (self.labels.transpose() * factor.solve(&self.labels))[(0, 0)];
        -0.5 * (count as f64 * (2.0 * std::f64::consts::PI).ln() + determinant + distance)
    }
}

fn rows() -> impl Strategy<Value = Vec<LabelRow>> {
    let row = (
        proptest::collection::vec(-1.0..1.0_f64, 4),
        -1.0..1.0_f64,
        0..5_u128,
    );
    proptest::collection::vec(row, 0..14).prop_map(|rows| {
        rows.iter()
            .map(|(features, y, id)| label(features, *y, *id))
            .collect()
    })
}

proptest! {
    #[test]
    fn the_posterior_and_the_likelihood_are_those_of_the_dense_formulas(
        labels in rows(), first in 0.01..4.0_f64, second in 0.01..4.0_f64, run in 0.01..1.0_f64,
        reference in prop_oneof![Just(0.0), 0.01..1.0_f64],
    ) {
        let prior = LinearPrior::new(vec![(3, first), (1, second)], run, reference).unwrap();
        let belief = LinearBelief::new(prior.clone(), &labels).unwrap();
        let dense = Dense::new(&prior, &labels);
        if !labels.is_empty() {
            let (mean, covariance) = dense.posterior();
            let ours = belief.latent_covariance();
            for row in 0..4 {
                prop_assert!((belief.latent_mean()[row] - mean[(row, 0)]).abs() < 1e-9);
                for column in 0..4 {
                    prop_assert!((ours[row][column] - covariance[(row, column)]).abs() < 1e-9);
                }
            }
            let likelihood = prior.log_evidence(&labels).unwrap();
            prop_assert!((likelihood - dense.log_likelihood()).abs() < 1e-7 * (1.0 + likelihood.abs()));
        }
        let contrast = [0.5, -0.2, 0.1, 0.9];
        let (_, sd) = belief.predict_margin(&contrast, &[0.0; 4]).unwrap();
        let covariance = belief.latent_covariance();
        let mut variance = 0.0;
        for row in 0..4 {
            for column in 0..4 {
                variance += contrast[row] * covariance[row][column] * contrast[column];
            }
        }
        prop_assert!((sd * sd - variance).abs() < 1e-9);
    }

    /// Paper: "for an already observed reference, Omega_Q denotes the noise covariance conditional on that
    /// observation". Buying labels one after the other must agree with having bought them all.
    #[test]
    fn prospective_labels_of_observed_references_have_the_dense_covariance(
        labels in rows(), run in 0.05..1.0_f64, reference in 0.05..1.0_f64,
    ) {
        let prior = LinearPrior::new(vec![(4, 0.7)], run, reference).unwrap();
        let sets: Vec<(TaskId, MemorySet)> = (1..=3_u128)
            .flat_map(|task| (1..=2_u128).map(move |memory| (task, memory)))
            .map(|(task, memory)| {
                (TaskId::from_u128(task), std::iter::once(MemoryId::from_u128(memory)).collect())
            })
            .collect();
        let pool = ProbePool::new(sets).unwrap();
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        let features: Vec<f64> = (0..pool.len() * 4).map(|_| rng.random_range(-1.0..1.0)).collect();
        // Tasks one and two will be measured against references that may have labels, task three against a new one.
        let references = [Some(ReferenceId::from_u128(0)), Some(ReferenceId::from_u128(1)), None];
        let predicted = vec![0.0; pool.len()];
        let over = LinearBelief::new(prior.clone(), &labels).unwrap()
            .over(&pool, &features, &predicted, &references).unwrap();

        let mut all = labels.clone();
        for (probe, features) in pool.probes().iter().zip(features.chunks(4)) {
            let id = references[probe.task as usize].unwrap_or(ReferenceId::from_u128(99));
            all.push(LabelRow { features: features.to_vec(), residual: 0.0, reference: id });
        }
        let dense = Dense::new(&prior, &all);
        let seen = labels.len();
        for p in 0..pool.len() {
            for q in 0..pool.len() {
                // Condition the joint covariance of all labels on those that were seen.
                let mut covariance = dense.weight[(seen + p, seen + q)];
                if seen > 0 {
                    let factor = dense.weight.submatrix(0, 0, seen, seen).llt(faer::Side::Lower).unwrap();
                    let cross = dense.weight.submatrix(seen, 0, pool.len(), seen);
                    covariance -= (cross * factor.solve(cross.transpose().to_owned()))[(p, q)];
                }
                let tasks = [pool.task_of(p as u32) as usize, pool.task_of(q as u32) as usize];
                let ours = over.label_covariance((p, tasks[0]), (q, tasks[1]));
                prop_assert!((ours - covariance).abs() < 1e-9, "{ours} is not {covariance}");
            }
        }
    }
}

#[test]
fn the_fit_finds_the_scales_that_made_the_labels() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let mut normal = || {
        let (radius, angle): (f64, f64) = (1.0 - rng.random::<f64>(), rng.random());
        (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
    };
    let dimension = 40;
    let coefficients: Vec<f64> = (0..dimension)
        .map(|index| normal() * if index < 20 { 0.5 } else { 0.02 })
        .collect();
    let mut labels = Vec::new();
    for reference in 0..400 {
        let shared = 0.3 * normal();
        for _ in 0..3 {
            let features: Vec<f64> = (0..dimension).map(|_| normal()).collect();
            let value: f64 = features.iter().zip(&coefficients).map(|(a, b)| a * b).sum();
            labels.push(label(&features, value - shared + 0.4 * normal(), reference));
        }
    }
    let start = LinearPrior::new(vec![(20, 1.0), (20, 1.0)], 1.0, 1.0).unwrap();
    let fitted = start.fitted(&labels, &FitBounds::default()).unwrap();
    let variances: Vec<f64> = fitted.group_variances().collect();
    assert!((0.1..0.6).contains(&variances[0]), "{fitted:?}");
    assert!(variances[1] < 0.003, "{fitted:?}");
    assert!((0.12..0.2).contains(&fitted.run_variance()), "{fitted:?}");
    assert!((0.06..0.13).contains(&fitted.reference_variance()), "{fitted:?}");
    assert!(fitted.log_evidence(&labels).unwrap() > start.log_evidence(&labels).unwrap());
}

#[test]
fn the_fit_stays_within_bounds_and_takes_no_labels_for_an_answer() {
    let start = LinearPrior::new(vec![(2, 1.0)], 0.2, 0.1).unwrap();
    let bounds = FitBounds {
        prior: (0.5, 2.0),
        run: (0.3, 0.4),
        reference: (0.2, 0.2),
    };
    for labels in [vec![], vec![label(&[1.0, 0.0], 1e6, 1)]] {
        let fitted = start.fitted(&labels, &bounds).unwrap();
        assert!(
            fitted
                .group_variances()
                .all(|variance| (0.5..=2.0).contains(&variance))
        );
        assert!((0.3..=0.4).contains(&fitted.run_variance()));
        assert!((fitted.reference_variance() - 0.2).abs() < 1e-12);
    }
    let crossed = FitBounds {
        prior: (2.0, 1.0),
        ..FitBounds::default()
    };
    assert!(start.fitted(&[], &crossed).is_err());
}

#[test]
fn malformed_labels_are_refused_by_place() {
    let prior = LinearPrior::new(vec![(2, 1.0)], 0.2, 0.1).unwrap();
    for (bad, problem) in [
        (
            label(&[1.0], 0.0, 1),
            "label 1: 1 features in a belief of dimension 2",
        ),
        (
            label(&[1.0, f64::NAN], 0.0, 1),
            "label 1: feature: NaN is not a finite number",
        ),
        (
            label(&[1.0, 0.0], f64::INFINITY, 1),
            "label 1: residual: inf is not a finite number",
        ),
    ] {
        let labels = [label(&[1.0, 0.0], 0.5, 1), bad];
        assert_eq!(
            LinearBelief::new(prior.clone(), &labels).unwrap_err().to_string(),
            problem
        );
    }
    assert!(LinearPrior::new(vec![(2, -1.0)], 0.2, 0.1).is_err());
    assert!(LinearPrior::new(vec![(2, 1.0)], 0.0, 0.1).is_err());
}
