//! The numbers of the losses: two presets, and the check that they make sense.

use serde::{Deserialize, Serialize};

use crate::error::{InvalidInput, Result, non_negative, positive, unit_interval};

/// Weights and thresholds of every loss, as a configuration has them. Missing ones are those of `calibrated`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LossSettings {
    /// Weight of the regression loss. Paper: lambda_reg.
    pub regression_weight: f64,
    /// Weight of the sign loss. Paper: lambda_sign.
    pub sign_weight: f64,
    /// Weight of the pair loss. Paper: lambda_pair.
    pub pair_weight: f64,
    /// Weight of the policy loss beside the value objective; the paper adds them as they are.
    pub policy_weight: f64,
    /// Residual from which the regression loss grows linearly. Paper: delta_H.
    pub huber_delta: f64,
    /// Smallest weight of an observation, that of an uplift of zero. Paper: w_min.
    pub w_min: f64,
    /// Uplift magnitude from which an observation has full weight. Paper: tau_ref.
    pub tau_ref: f64,
    /// Uplifts up to this magnitude say nothing about the sign. Paper: epsilon_sign.
    pub epsilon_sign: f64,
    /// Label gaps up to this size say nothing about the order. Paper: epsilon_rank.
    pub epsilon_rank: f64,
    /// Paths whose uplift has at most this magnitude are neither reinforced nor suppressed. Paper: epsilon_policy.
    pub epsilon_policy: f64,
    /// Predicted uplifts are divided by this before the sign and pair losses read them as logits; 1 is the paper.
    ///
    /// An uplift of 0.3 is a clear effect, a logit of 0.3 is nearly a coin toss: with a scale of 1 both losses
    /// push the magnitudes up until they look like logits.
    pub logit_scale: f64,
    /// Largest magnitude of a path's outcome weight before `negative_scale`. Paper: A_max.
    pub outcome_clip: f64,
    /// Share of a negative outcome that counts against a path, in [0, 1]. Paper: eta_neg.
    pub negative_scale: f64,
    /// Most pairs that the pair loss averages over; beyond it, evenly spaced ones are taken.
    pub pairs_max: usize,
}

impl LossSettings {
    /// The paper's form of the losses.
    pub const PAPER: Self = Self {
        regression_weight: 1.0,
        sign_weight: 0.5,
        pair_weight: 0.5,
        policy_weight: 1.0,
        huber_delta: 0.5,
        w_min: 0.1,
        tau_ref: 0.5,
        epsilon_sign: 0.05,
        epsilon_rank: 0.05,
        epsilon_policy: 0.05,
        logit_scale: 1.0,
        outcome_clip: 1.0,
        negative_scale: 0.5,
        pairs_max: 100_000,
    };

    /// The default: every observation counts alike and residuals are squared within the range of a label, so
    /// that predictions are means, in units of utility; sign and order only nudge them.
    pub const CALIBRATED: Self = Self {
        sign_weight: 0.05,
        pair_weight: 0.05,
        huber_delta: 1.5,
        w_min: 1.0,
        logit_scale: 0.3,
        ..Self::PAPER
    };
}

impl Default for LossSettings {
    fn default() -> Self {
        Self::CALIBRATED
    }
}

/// The settings that have a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossPreset {
    /// [`LossSettings::PAPER`].
    Paper,
    /// [`LossSettings::CALIBRATED`].
    #[default]
    Calibrated,
}

impl LossPreset {
    /// The preset's numbers.
    pub const fn settings(self) -> LossSettings {
        match self {
            Self::Paper => LossSettings::PAPER,
            Self::Calibrated => LossSettings::CALIBRATED,
        }
    }
}

/// The losses under settings that were checked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Objectives {
    settings: LossSettings,
}

impl Objectives {
    /// Checks every number; the error names the first that is out of its range.
    pub fn new(settings: LossSettings) -> Result<Self> {
        let LossSettings {
            regression_weight,
            sign_weight,
            pair_weight,
            policy_weight,
            huber_delta,
            w_min,
            tau_ref,
            epsilon_sign,
            epsilon_rank,
            epsilon_policy,
            logit_scale,
            outcome_clip,
            negative_scale,
            pairs_max,
        } = settings;
        non_negative("regression_weight", regression_weight)?;
        non_negative("sign_weight", sign_weight)?;
        non_negative("pair_weight", pair_weight)?;
        non_negative("policy_weight", policy_weight)?;
        positive("huber_delta", huber_delta)?;
        positive("w_min", w_min)?;
        unit_interval("w_min", w_min)?;
        positive("tau_ref", tau_ref)?;
        non_negative("epsilon_sign", epsilon_sign)?;
        non_negative("epsilon_rank", epsilon_rank)?;
        non_negative("epsilon_policy", epsilon_policy)?;
        positive("logit_scale", logit_scale)?;
        positive("outcome_clip", outcome_clip)?;
        unit_interval("negative_scale", negative_scale)?;
        if pairs_max == 0 {
            return Err(InvalidInput::new(
                "pairs_max",
                "0 leaves no pair to learn from; to switch the pair loss off, set pair_weight to 0",
            ));
        }
        Ok(Self { settings })
    }

    /// The checked numbers.
    pub const fn settings(&self) -> &LossSettings {
        &self.settings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_presets_are_valid_and_the_default_is_calibrated() {
        for preset in [LossPreset::Paper, LossPreset::Calibrated] {
            assert!(Objectives::new(preset.settings()).is_ok());
        }
        assert_eq!(LossPreset::default().settings(), LossSettings::default());
    }

    fn check_refused(name: &str, change: impl Fn(&mut LossSettings)) {
        let mut settings = LossSettings::default();
        change(&mut settings);
        let error = Objectives::new(settings).unwrap_err();
        assert_eq!(error.what(), name);
    }

    #[test]
    fn a_number_out_of_range_is_refused_by_name() {
        check_refused("regression_weight", |s| s.regression_weight = -1.0);
        check_refused("sign_weight", |s| s.sign_weight = f64::NAN);
        check_refused("pair_weight", |s| s.pair_weight = f64::INFINITY);
        check_refused("policy_weight", |s| s.policy_weight = -0.1);
        check_refused("huber_delta", |s| s.huber_delta = 0.0);
        check_refused("w_min", |s| s.w_min = 0.0);
        check_refused("w_min", |s| s.w_min = 1.1);
        check_refused("tau_ref", |s| s.tau_ref = 0.0);
        check_refused("epsilon_sign", |s| s.epsilon_sign = -0.1);
        check_refused("epsilon_rank", |s| s.epsilon_rank = -0.1);
        check_refused("epsilon_policy", |s| s.epsilon_policy = -0.1);
        check_refused("logit_scale", |s| s.logit_scale = 0.0);
        check_refused("outcome_clip", |s| s.outcome_clip = 0.0);
        check_refused("negative_scale", |s| s.negative_scale = 1.1);
        check_refused("pairs_max", |s| s.pairs_max = 0);
    }

    #[test]
    fn a_configuration_may_name_some_keys_and_no_unknown_ones() {
        let settings: LossSettings = serde_json::from_str(r#"{"huber_delta": 2.0}"#).unwrap();
        assert_eq!(
            settings,
            LossSettings {
                huber_delta: 2.0,
                ..LossSettings::CALIBRATED
            }
        );
        assert!(serde_json::from_str::<LossSettings>(r#"{"hubber_delta": 2.0}"#).is_err());
    }
}
