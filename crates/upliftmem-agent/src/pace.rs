//! Requests a minute.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Spreads requests evenly: each takes the next free moment.
pub(crate) struct Pace {
    /// Time between two requests.
    gap: Duration,
    next: Mutex<Option<Instant>>,
}

impl Pace {
    /// So many a minute; 0 is no limit.
    pub(crate) fn per_minute(requests: u32) -> Self {
        Self {
            gap: Duration::from_secs(60)
                .checked_div(requests)
                .unwrap_or(Duration::ZERO),
            next: Mutex::new(None),
        }
    }

    /// How long a request that comes now must wait for its moment, which is then its own.
    pub(crate) fn wait(&self, now: Instant) -> Duration {
        if self.gap.is_zero() {
            return Duration::ZERO;
        }
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let moment = next.map_or(now, |next| next.max(now));
        *next = Some(moment + self.gap);
        moment - now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_spread_evenly_and_a_pause_is_not_saved_up() {
        let pace = Pace::per_minute(60);
        let start = Instant::now();
        let seconds = |wait: Duration| wait.as_secs_f64();
        assert_eq!(seconds(pace.wait(start)), 0.0);
        assert_eq!(seconds(pace.wait(start)), 1.0);
        assert_eq!(seconds(pace.wait(start)), 2.0);
        let later = start + Duration::from_secs(60);
        assert_eq!(seconds(pace.wait(later)), 0.0);
        assert_eq!(seconds(pace.wait(later)), 1.0);
    }

    #[test]
    fn no_limit_never_waits() {
        let pace = Pace::per_minute(0);
        let now = Instant::now();
        assert!((0..100).all(|_| pace.wait(now).is_zero()));
    }
}
