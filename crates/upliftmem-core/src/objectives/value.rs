//! The value objective: magnitude, sign and order of uplift. Paper: eq. main_value_losses, app. losses.

use super::{Objectives, ValueLabel, sigmoid, softplus};
use crate::error::{InvalidInput, Result, finite};

/// A loss averaged over its eligible terms, and its gradient with respect to each prediction.
///
/// Without an eligible term both are zero.
#[derive(Debug, Clone, PartialEq)]
pub struct Loss {
    /// The mean over the eligible terms.
    pub value: f64,
    /// Its derivative by each prediction, in the order of the predictions.
    pub gradient: Vec<f64>,
    /// How many terms were averaged.
    pub terms: usize,
}

impl Loss {
    fn zero(predictions: usize) -> Self {
        Self {
            value: 0.0,
            gradient: vec![0.0; predictions],
            terms: 0,
        }
    }

    /// Turns sums into means.
    fn averaged(mut self) -> Self {
        if self.terms > 0 {
            let share = 1.0 / self.terms as f64;
            self.value *= share;
            for slope in &mut self.gradient {
                *slope *= share;
            }
        }
        self
    }
}

/// The weighted sum of the three value losses, with its parts. Paper: eq. main_value_losses.
#[derive(Debug, Clone, PartialEq)]
pub struct ValueLoss {
    /// The sum that is minimised.
    pub value: f64,
    /// Its derivative by each prediction.
    pub gradient: Vec<f64>,
    /// Magnitude, before its weight.
    pub regression: Loss,
    /// Sign, before its weight.
    pub sign: Loss,
    /// Order, before its weight.
    pub pair: Loss,
}

impl Objectives {
    /// How much an observation counts in the regression: less when its uplift is small, never less than `w_min`.
    /// Paper: eq. magnitude_weight.
    pub fn magnitude_weight(&self, uplift: f64) -> f64 {
        let settings = self.settings();
        (uplift.abs() / settings.tau_ref).min(1.0).max(settings.w_min)
    }

    /// How far predictions are from labels: Huber's loss, weighted by magnitude. Paper: L_reg.
    pub fn regression_loss(&self, labels: &[ValueLabel], predictions: &[f64]) -> Result<Loss> {
        check_predictions(labels, predictions)?;
        let delta = self.settings().huber_delta;
        let mut loss = Loss::zero(predictions.len());
        for (position, (label, prediction)) in labels.iter().zip(predictions).enumerate() {
            let weight = self.magnitude_weight(label.uplift.get());
            let residual = prediction - label.uplift.get();
            loss.value += weight * huber(residual, delta);
            loss.gradient[position] = weight * residual.clamp(-delta, delta);
            loss.terms += 1;
        }
        Ok(loss.averaged())
    }

    /// Whether predictions are on the right side of zero: cross-entropy of the scaled prediction as a logit, over
    /// labels that have a clear sign. Paper: L_sign.
    pub fn sign_loss(&self, labels: &[ValueLabel], predictions: &[f64]) -> Result<Loss> {
        check_predictions(labels, predictions)?;
        let settings = self.settings();
        let mut loss = Loss::zero(predictions.len());
        for (position, (label, prediction)) in labels.iter().zip(predictions).enumerate() {
            let uplift = label.uplift.get();
            if uplift.abs() <= settings.epsilon_sign {
                continue;
            }
            // Cross-entropy against 1 is softplus(-logit), against 0 softplus(logit).
            let wrong_way = -uplift.signum();
            let logit = wrong_way * prediction / settings.logit_scale;
            loss.value += softplus(logit);
            loss.gradient[position] = wrong_way * sigmoid(logit) / settings.logit_scale;
            loss.terms += 1;
        }
        Ok(loss.averaged())
    }

    /// Whether the better of two comparable sets is predicted to be better. `pairs` come from
    /// [`Objectives::comparable_pairs`], better label first. Paper: L_pair.
    pub fn pair_loss(&self, pairs: &[(usize, usize)], predictions: &[f64]) -> Result<Loss> {
        let scale = self.settings().logit_scale;
        let mut loss = Loss::zero(predictions.len());
        for &(better, worse) in pairs {
            let value = |position: usize| match predictions.get(position) {
                Some(&prediction) => finite("predicted uplift", prediction),
                None => Err(InvalidInput::new(
                    "pairs",
                    format_args!(
                        "position {position} is outside the {} predictions; make the pairs from the same labels",
                        predictions.len()
                    ),
                )),
            };
            let logit = (value(worse)? - value(better)?) / scale;
            let slope = sigmoid(logit) / scale;
            loss.value += softplus(logit);
            loss.gradient[worse] += slope;
            loss.gradient[better] -= slope;
            loss.terms += 1;
        }
        Ok(loss.averaged())
    }

    /// The three together. Paper: eq. main_value_losses.
    pub fn value_loss(
        &self,
        labels: &[ValueLabel],
        pairs: &[(usize, usize)],
        predictions: &[f64],
    ) -> Result<ValueLoss> {
        let regression = self.regression_loss(labels, predictions)?;
        let sign = self.sign_loss(labels, predictions)?;
        let pair = self.pair_loss(pairs, predictions)?;
        let settings = self.settings();
        let combine = |regression: f64, sign: f64, pair: f64| {
            settings.regression_weight * regression
                + settings.sign_weight * sign
                + settings.pair_weight * pair
        };
        let gradient = (0..predictions.len())
            .map(|position| {
                combine(
                    regression.gradient[position],
                    sign.gradient[position],
                    pair.gradient[position],
                )
            })
            .collect();
        Ok(ValueLoss {
            value: combine(regression.value, sign.value, pair.value),
            gradient,
            regression,
            sign,
            pair,
        })
    }
}

/// Squared near zero, linear beyond `delta`, smooth where they meet.
fn huber(residual: f64, delta: f64) -> f64 {
    let size = residual.abs();
    if size <= delta {
        0.5 * residual * residual
    } else {
        delta * (size - 0.5 * delta)
    }
}

fn check_predictions(labels: &[ValueLabel], predictions: &[f64]) -> Result<()> {
    if labels.len() != predictions.len() {
        return Err(InvalidInput::new(
            "predictions",
            format_args!(
                "{} for {} labels; give one for each",
                predictions.len(),
                labels.len()
            ),
        ));
    }
    for &prediction in predictions {
        finite("predicted uplift", prediction)?;
    }
    Ok(())
}
