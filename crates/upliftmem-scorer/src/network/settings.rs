//! The size of a set network.

use serde::{Deserialize, Serialize};

use super::adam::AdamSettings;
use crate::error::{Result, invalid};

/// The shape of a set network and how it is trained.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NetworkSettings {
    /// Entries that a text is reduced to.
    pub projection: usize,
    /// Entries that say who a memory is, beside what its text says.
    pub identity: usize,
    /// Entries of a memory's hidden vector.
    pub hidden: usize,
    /// Entries in which members of a set are multiplied pairwise; 0 leaves pairs out.
    pub pairs: usize,
    /// Entries of the last layer.
    pub top: usize,
    /// Chance that a hidden entry, or a memory's identity, is left out of a training step or a draw.
    pub dropout: f64,
    /// The optimiser.
    pub adam: AdamSettings,
}

impl Default for NetworkSettings {
    fn default() -> Self {
        Self {
            projection: 24,
            identity: 8,
            hidden: 32,
            pairs: 8,
            top: 32,
            dropout: 0.1,
            adam: AdamSettings::default(),
        }
    }
}

/// Sizes beyond this are a mistake, not a small network.
const SIZE_MAX: usize = 4_096;

impl NetworkSettings {
    /// Refuses sizes and rates that make no network.
    pub(crate) fn check(&self) -> Result<()> {
        for (what, size, least) in [
            ("projection", self.projection, 1),
            ("identity", self.identity, 0),
            ("hidden", self.hidden, 1),
            ("pairs", self.pairs, 0),
            ("top", self.top, 1),
        ] {
            if !(least..=SIZE_MAX).contains(&size) {
                return Err(invalid(
                    format_args!("network.{what}"),
                    format_args!("{size} is outside {least} to {SIZE_MAX}"),
                ));
            }
        }
        if !(0.0..1.0).contains(&self.dropout) {
            return Err(invalid(
                "network.dropout",
                format_args!("{} is outside [0, 1)", self.dropout),
            ));
        }
        self.adam.check()
    }

    /// Entries of what a memory's hidden vector is computed from: both texts, their product, their match, identity.
    pub(super) const fn inputs(&self) -> usize {
        3 * self.projection + 1 + self.identity
    }
}
