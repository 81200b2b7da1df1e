//! From what a language model says to utility.

use serde::{Deserialize, Serialize};

/// Maps the logit margin to utility. Paper: eq. scorer_calibration.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// What the margin is multiplied with. Paper: a.
    pub scale: f64,
    /// What is added. Paper: b.
    pub offset: f64,
}

impl Calibration {
    /// The margin as it is.
    pub const NONE: Self = Self {
        scale: 1.0,
        offset: 0.0,
    };

    /// The calibration whose values are these times `factor`.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Self {
        Self {
            scale: self.scale * factor,
            offset: self.offset * factor,
        }
    }

    /// The value of a margin.
    pub fn value(self, margin: f64) -> f64 {
        self.scale * margin + self.offset
    }
}
