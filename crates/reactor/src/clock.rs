//! Time as the event loop sees it. Timers use the monotonic clock, so a wall clock that jumps moves no deadline.

use crate::sys;
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;
use terms::{Micros, Millis};

/// The monotonic clock now, read from the kernel.
pub fn monotonic_millis() -> Millis {
    monotonic_micros().millis()
}

/// The same in microseconds.
pub(crate) fn monotonic_micros() -> Micros {
    Micros(sys::clock_monotonic().as_micros() as u64)
}

/// The wall clock now, since the Unix epoch.
pub fn wall_clock() -> Duration {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default()
}

/// CPU time that the calling thread has used. Time in which it waits, for a processor too, does not count.
pub fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    /// L12: the other half is a rule of `cargo xtask tidy`, by which no deadline reads the wall clock.
    #[test]
    fn l12_deadlines_use_the_monotonic_clock() {
        const DECADE: Duration = Duration::from_hours(24 * 365 * 10);
        // The kernel lets no one set the monotonic clock; it counts from the machine's start, the wall clock from 1970.
        let monotonic = Duration::from_millis(monotonic_millis().0);
        assert!(monotonic + DECADE < wall_clock(), "{monotonic:?} is the wall clock");
        // The standard library's is the same clock.
        let (outer, before) = (Instant::now(), monotonic_millis());
        let (inner, after) = (Instant::now(), monotonic_millis());
        let (least, most) = (inner.duration_since(outer), outer.elapsed());
        let measured = Duration::from_millis(after.since(before));
        let tick = Duration::from_millis(1);
        assert!(measured <= most + tick && measured + tick + most >= least, "{least:?} {measured:?} {most:?}");
    }
}
