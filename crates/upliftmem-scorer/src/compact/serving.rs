//! What a published scorer tells those who serve it.

use super::snapshot::CompactScorer;

impl CompactScorer {
    /// Variance of a label around the value of its set: the noise of one execution.
    pub fn label_variance(&self) -> f64 {
        self.kernel.noise
    }
}
