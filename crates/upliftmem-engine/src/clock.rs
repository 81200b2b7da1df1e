//! The time of the store, on a machine whose own clock may be wrong.

use std::time::{Duration, Instant};

use upliftmem_store::{Store, Timestamp};

use crate::error::Result;

/// How long a look at the store's clock is trusted.
const TRUSTED: Duration = Duration::from_secs(60);

/// What the store's clock said, and when. Between two looks this machine's clock only measures what passes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct StoreClock(Option<(Timestamp, Instant)>);

impl StoreClock {
    /// Looks at the store's clock, if the last look was long ago.
    pub(crate) async fn look(&mut self, store: &dyn Store) -> Result<()> {
        if self.0.is_none_or(|(_, at)| at.elapsed() > TRUSTED) {
            self.0 = Some((store.clock().await?, Instant::now()));
        }
        Ok(())
    }

    /// What time it is.
    pub(crate) fn now(&self) -> Timestamp {
        match self.0 {
            Some((said, at)) => said.after(at.elapsed()),
            None => Timestamp::now(),
        }
    }
}
