//! What a published scorer tells those who serve it.

use std::sync::Arc;

use super::snapshot::CompactScorer;
use crate::ScorerVersion;

impl CompactScorer {
    /// Variance of a label around the value of its set: the noise of one execution.
    pub fn label_variance(&self) -> f64 {
        self.kernel.noise
    }

    /// The same scorer under the number that whoever publishes it counts by.
    #[must_use]
    pub fn numbered(self: Arc<Self>, version: ScorerVersion) -> Arc<Self> {
        let mut scorer = Arc::unwrap_or_clone(self);
        scorer.version = version;
        Arc::new(scorer)
    }
}
