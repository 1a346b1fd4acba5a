//! The clock that session expiry goes by.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use crate::store::micros_now;

/// Wall-clock time that a test can move forward.
#[derive(Debug, Default)]
pub struct Clock {
    /// Microseconds added to the wall clock.
    ahead: AtomicI64,
}

impl Clock {
    /// Microseconds since the epoch.
    pub fn now(&self) -> i64 {
        micros_now().saturating_add(self.ahead.load(Ordering::Relaxed))
    }

    /// Moves this clock forward by `by`, for good.
    pub fn advance(&self, by: Duration) {
        let micros = i64::try_from(by.as_micros()).unwrap_or(i64::MAX / 4);
        self.ahead.fetch_add(micros, Ordering::Relaxed);
    }
}
