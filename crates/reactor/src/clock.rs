//! Time as the event loop sees it. Timers use the monotonic clock, so a wall clock that jumps moves no deadline.

use crate::sys;
use std::time::Duration;

/// Milliseconds of the monotonic clock (its origin is the machine's start).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Millis(pub u64);

impl Millis {
    /// This instant and a duration later; saturates.
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)))
    }

    /// Milliseconds since an earlier instant; 0 where that is later.
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// The monotonic clock now, read from the kernel.
pub fn monotonic_millis() -> Millis {
    Millis(sys::clock_monotonic().as_millis() as u64)
}

/// The wall clock now, since the Unix epoch.
pub fn wall_clock() -> Duration {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default()
}
