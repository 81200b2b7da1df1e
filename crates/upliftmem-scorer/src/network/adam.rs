//! AdamW with decoupled decay and clipping by the gradient's length.

use serde::{Deserialize, Serialize};

use super::parameters::{Parameters, Part};
use crate::error::{Result, invalid};

/// The numbers of the optimiser; the learning rate is the trainer's.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AdamSettings {
    /// Share of a parameter that decays in a step, in units of the learning rate.
    pub weight_decay: f64,
    /// Memory of the mean gradient.
    pub beta1: f64,
    /// Memory of the mean squared gradient.
    pub beta2: f64,
    /// Keeps a step finite where the gradient is zero.
    pub epsilon: f64,
    /// Length above which a gradient is shortened.
    pub clip: f64,
}

impl Default for AdamSettings {
    fn default() -> Self {
        Self {
            weight_decay: 0.01,
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-12,
            clip: 1.0,
        }
    }
}

impl AdamSettings {
    pub(super) fn check(&self) -> Result<()> {
        let unit = 0.0..1.0;
        for (what, value, fine) in [
            ("weight_decay", self.weight_decay, self.weight_decay >= 0.0),
            ("beta1", self.beta1, unit.contains(&self.beta1)),
            ("beta2", self.beta2, unit.contains(&self.beta2)),
            ("epsilon", self.epsilon, self.epsilon > 0.0),
            ("clip", self.clip, self.clip > 0.0),
        ] {
            if !fine || !value.is_finite() {
                return Err(invalid(
                    format_args!("network.adam.{what}"),
                    format_args!("{value} is out of range"),
                ));
            }
        }
        Ok(())
    }
}

/// The optimiser's memory.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Adam {
    pub(crate) steps: u64,
    pub(crate) mean: Parameters,
    pub(crate) square: Parameters,
}

impl Adam {
    /// Moves the parameters against the gradient. Gives the gradient's length before it was clipped.
    pub(super) fn step(
        &mut self,
        settings: &AdamSettings,
        parameters: &mut Parameters,
        gradient: &Parameters,
        learning_rate: f64,
    ) -> f64 {
        let norm = gradient.norm();
        let shorten = (settings.clip / (norm + 1e-6)).min(1.0);
        self.steps += 1;
        let correction = |beta: f64| -((self.steps as f64) * beta.ln()).exp_m1();
        let (first, second) = (correction(settings.beta1), correction(settings.beta2));
        for part in Part::ALL {
            let keep = 1.0 - learning_rate * settings.weight_decay * part.decay();
            let moments = self.mean[part].iter_mut().zip(&mut self.square[part]);
            let values = parameters[part].iter_mut().zip(&gradient[part]);
            for ((value, slope), (mean, square)) in values.zip(moments) {
                let slope = slope * shorten;
                *mean += (1.0 - settings.beta1) * (slope - *mean);
                *square += (1.0 - settings.beta2) * (slope * slope - *square);
                let size = (*square / second).sqrt() + settings.epsilon;
                *value = *value * keep - learning_rate * (*mean / first) / size;
            }
        }
        norm
    }
}
