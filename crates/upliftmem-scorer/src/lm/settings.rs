//! What can be chosen about the language-model scorer.

use serde::{Deserialize, Serialize};

use super::{LoraSettings, prompt::INSTRUCTION};
use crate::{
    AdamSettings,
    error::{Result, invalid},
};

/// How a language model scores and learns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LmSettings {
    /// What the prompt asks.
    pub instruction: String,
    /// The answer that raises the value; one token.
    pub yes: String,
    /// The answer that lowers it; one token.
    pub no: String,
    /// Tokens that go through the model together when scoring.
    pub pass_tokens: usize,
    /// Bytes of keys and values that are kept for later calls.
    pub cache_bytes: usize,
    /// The adapter that is learned.
    pub lora: LoraSettings,
    /// The optimiser.
    pub adam: AdamSettings,
    /// Tokens that go through the model together when learning.
    pub micro_batch_tokens: usize,
    /// Bytes that may be kept for the way back; what does not fit is computed a second time.
    pub activation_bytes: usize,
    /// What a margin is multiplied with before anything is learned.
    pub first_scale: f64,
    /// How much faster than the adapter the calibration learns.
    pub calibration_speed: f64,
}

impl Default for LmSettings {
    fn default() -> Self {
        Self {
            instruction: INSTRUCTION.to_owned(),
            yes: "yes".to_owned(),
            no: "no".to_owned(),
            pass_tokens: 1024,
            cache_bytes: 512 << 20,
            lora: LoraSettings::default(),
            adam: AdamSettings {
                epsilon: 1e-8,
                ..AdamSettings::default()
            },
            micro_batch_tokens: 2048,
            activation_bytes: 2 << 30,
            first_scale: 0.1,
            calibration_speed: 10.0,
        }
    }
}

impl LmSettings {
    /// Refuses what can not work.
    pub fn check(&self) -> Result<()> {
        self.lora.check()?;
        for (what, count) in [
            ("pass_tokens", self.pass_tokens),
            ("micro_batch_tokens", self.micro_batch_tokens),
        ] {
            if count == 0 {
                return Err(invalid(format_args!("lm.{what}"), "is 0; give it at least 1"));
            }
        }
        for (what, value) in [
            ("first_scale", self.first_scale),
            ("calibration_speed", self.calibration_speed),
        ] {
            if !(value.is_finite() && value > 0.0) {
                return Err(invalid(
                    format_args!("lm.{what}"),
                    format_args!("{value} is not above 0"),
                ));
            }
        }
        if self.yes == self.no {
            return Err(invalid("lm.yes", "is the same word as lm.no"));
        }
        Ok(())
    }
}
