//! How a model is trained.

use serde::{Deserialize, Serialize};
use upliftmem_core::objectives::LossSettings;

use crate::error::{Result, invalid};

/// The plan of an update.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TrainerSettings {
    /// What is minimised.
    pub losses: LossSettings,
    /// Passes over the labels.
    pub epochs: usize,
    /// First learning rate; it falls linearly to zero.
    pub learning_rate: f64,
    /// Labels of a mini-batch, all those of a task together as far as they fit.
    pub batch_labels: usize,
    /// Paths of a mini-batch.
    pub batch_paths: usize,
    /// Parts that tasks are divided into; member k never sees part k modulo this.
    pub folds: usize,
    /// Epochs without a better held-out loss after which training stops.
    pub patience: usize,
    /// Held-out labels from which early stopping and calibration have something to go by.
    pub held_out_min: usize,
    /// Whether a joint update starts from first parameters instead of going on; warm-up always does.
    pub restart: bool,
    /// Whether values are multiplied by the least-squares slope of held-out labels on held-out predictions.
    pub calibrate: bool,
    /// Temperature that paths were sampled with. Paper: tau_tr.
    pub sampling_temperature: f64,
    /// Prior of stopping that paths were sampled with.
    pub stop_prior: f64,
    /// Seed of everything random.
    pub seed: u64,
}

impl Default for TrainerSettings {
    fn default() -> Self {
        Self {
            losses: LossSettings::CALIBRATED,
            epochs: 15,
            learning_rate: 3e-3,
            batch_labels: 32,
            batch_paths: 4,
            folds: 5,
            patience: 5,
            held_out_min: 20,
            restart: true,
            calibrate: true,
            sampling_temperature: 0.05,
            stop_prior: 0.5,
            seed: 0,
        }
    }
}

impl TrainerSettings {
    /// The paper's form: its losses, parameters carried on from update to update, values as they come.
    pub fn paper() -> Self {
        Self {
            losses: LossSettings::PAPER,
            restart: false,
            calibrate: false,
            stop_prior: 0.0,
            ..Self::default()
        }
    }

    /// Refuses plans that train nothing; losses and policy check themselves.
    pub(super) fn check(&self) -> Result<()> {
        for (what, count, least) in [
            ("epochs", self.epochs, 1),
            ("batch_labels", self.batch_labels, 1),
            ("batch_paths", self.batch_paths, 1),
            ("folds", self.folds, 2),
            ("patience", self.patience, 1),
        ] {
            if count < least {
                return Err(invalid(
                    format_args!("training.{what}"),
                    format_args!("{count} is below {least}"),
                ));
            }
        }
        if self.learning_rate.is_finite() && self.learning_rate > 0.0 {
            return Ok(());
        }
        Err(invalid(
            "training.learning_rate",
            format_args!("{} is not above 0", self.learning_rate),
        ))
    }
}
