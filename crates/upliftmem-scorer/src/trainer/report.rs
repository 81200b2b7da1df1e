//! How good predictions are on labels that were not learned from. For any scorer: predictions and labels in,
//! report out.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use upliftmem_core::{
    objectives::{Objectives, ValueLabel},
    statistics::{Summary, calibration_slope, optimism},
};

use crate::error::Result;

/// A label, and what was predicted by a model that had not seen its task.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct HeldOut {
    /// The label.
    pub label: ValueLabel,
    /// Members of its set.
    pub size: usize,
    /// The predicted uplift.
    pub predicted: f64,
}

/// Errors on sets of one size.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SizeError {
    /// Members of the sets.
    pub size: usize,
    /// How many labels.
    pub labels: usize,
    /// Mean of predicted minus observed uplift.
    pub bias: f64,
    /// Root of the mean squared error.
    pub error: f64,
}

/// What held-out labels say about a scorer. Parts that no label speaks about are absent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HeldOutReport {
    /// Number of labels.
    pub labels: usize,
    /// What predictions must be multiplied by to fit best; 1 is calibrated, less is boastful.
    pub calibration_slope: Option<f64>,
    /// Predicted minus observed uplift of executed sets.
    pub optimism: Option<Summary>,
    /// Share of labels with a clear sign whose sign was predicted; a prediction of 0 counts half.
    pub sign_accuracy: Option<f64>,
    /// Share of comparable pairs whose order was predicted; a tie counts half.
    pub pair_accuracy: Option<f64>,
    /// Root of the mean squared error.
    pub error: Option<f64>,
    /// The same for predicting 0 always: what a useful scorer is below.
    pub error_of_zero: Option<f64>,
    /// Mean log-likelihood of a label under a normal distribution with this error.
    pub log_likelihood: Option<f64>,
    /// Errors by set size, smallest first.
    pub by_size: Vec<SizeError>,
}

impl HeldOutReport {
    /// Compares predictions with labels. The objectives say which signs and pairs are clear.
    pub fn of(objectives: &Objectives, held_out: &[HeldOut]) -> Result<Self> {
        let predicted: Vec<f64> = held_out.iter().map(|one| one.predicted).collect();
        let observed: Vec<f64> = held_out.iter().map(|one| one.label.uplift.get()).collect();
        if held_out.is_empty() {
            return Ok(Self {
                labels: 0,
                calibration_slope: None,
                optimism: None,
                sign_accuracy: None,
                pair_accuracy: None,
                error: None,
                error_of_zero: None,
                log_likelihood: None,
                by_size: Vec::new(),
            });
        }
        let epsilon = objectives.settings().epsilon_sign;
        let signs = held_out
            .iter()
            .filter(|one| one.label.uplift.get().abs() > epsilon)
            .map(|one| one.predicted * one.label.uplift.get().signum());
        let labels: Vec<ValueLabel> = held_out.iter().map(|one| one.label).collect();
        let pairs = objectives.comparable_pairs(&labels).pairs;
        let orders = pairs
            .iter()
            .map(|&(better, worse)| predicted[better] - predicted[worse]);
        let residuals = || predicted.iter().zip(&observed).map(|(p, y)| p - y);
        let error = root_mean_square(residuals());
        Ok(Self {
            labels: held_out.len(),
            calibration_slope: calibration_slope(&predicted, &observed)?,
            optimism: Some(optimism(&predicted, &observed)?),
            sign_accuracy: accuracy(signs),
            pair_accuracy: accuracy(orders),
            error: Some(error),
            error_of_zero: Some(root_mean_square(observed.iter().copied())),
            log_likelihood: (error > 0.0).then(|| normal_log_likelihood(error)),
            by_size: by_size(held_out),
        })
    }
}

/// What predictions should be multiplied by: the least-squares slope through zero, within [0, 2]; 1 when there are
/// fewer than `least` labels or nothing was predicted.
pub fn calibration_scale(held_out: &[HeldOut], least: usize) -> Result<f64> {
    if held_out.len() < least.max(1) {
        return Ok(1.0);
    }
    let predicted: Vec<f64> = held_out.iter().map(|one| one.predicted).collect();
    let observed: Vec<f64> = held_out.iter().map(|one| one.label.uplift.get()).collect();
    let slope = calibration_slope(&predicted, &observed)?;
    Ok(slope.map_or(1.0, |slope| slope.clamp(0.0, 2.0)))
}

/// Mean log-likelihood of labels under a normal distribution whose standard deviation is their own error.
pub(super) fn normal_log_likelihood(error: f64) -> f64 {
    -0.5 * (2.0 * std::f64::consts::PI).ln() - error.ln() - 0.5
}

fn root_mean_square(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| {
        (sum + value * value, count + 1.0)
    });
    (sum / count).sqrt()
}

/// Share above zero; zero counts half.
fn accuracy(margins: impl Iterator<Item = f64>) -> Option<f64> {
    let (mut right, mut count) = (0.0, 0.0);
    for margin in margins {
        right += if margin > 0.0 {
            1.0
        } else if margin < 0.0 {
            0.0
        } else {
            0.5
        };
        count += 1.0;
    }
    (count > 0.0).then(|| right / count)
}

fn by_size(held_out: &[HeldOut]) -> Vec<SizeError> {
    let mut sizes: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    for one in held_out {
        let residual = one.predicted - one.label.uplift.get();
        sizes.entry(one.size).or_default().push(residual);
    }
    sizes
        .into_iter()
        .map(|(size, residuals)| SizeError {
            size,
            labels: residuals.len(),
            bias: residuals.iter().sum::<f64>() / residuals.len() as f64,
            error: root_mean_square(residuals.iter().copied()),
        })
        .collect()
}
