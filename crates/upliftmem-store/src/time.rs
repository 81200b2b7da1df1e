//! Moments. A store has no clock of its own: the caller says what time it is.

use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::Duration,
};

use serde::{Deserialize, Serialize};

/// How far this process's clock is set ahead, in milliseconds.
static AHEAD: AtomicI64 = AtomicI64::new(0);

/// Makes this process believe that it is later than its machine says, or earlier. For tests of what happens when the
/// clocks of machines are apart.
pub fn set_clock_ahead(millis: i64) {
    AHEAD.store(millis, Ordering::Relaxed);
}

/// Milliseconds since 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The moment this many milliseconds after the epoch; the far future is cut to what a database can hold.
    pub const fn from_millis(millis: u64) -> Self {
        Self(if millis > i64::MAX as u64 {
            i64::MAX as u64
        } else {
            millis
        })
    }

    /// Milliseconds since the epoch.
    pub const fn millis(self) -> u64 {
        self.0
    }

    /// The moment `duration` later.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Self::from_millis(self.0.saturating_add(millis))
    }

    /// What the clock of this machine says. Machines do not agree on it: what is compared with another machine's time
    /// goes by [`crate::Store::clock`].
    pub fn now() -> Self {
        let elapsed = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
        let now = Self::default().after(elapsed);
        Self::from_millis(now.0.saturating_add_signed(AHEAD.load(Ordering::Relaxed)))
    }
}
