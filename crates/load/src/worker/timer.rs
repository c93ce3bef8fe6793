//! A nanosecond timer besides the reactor's, whose ticks are milliseconds: a timerfd that the reactor watches. It is set to
//! an absolute time, so a thread that is delayed while it sets the timer does not add that delay. The kernel's timer slack
//! for sleeping threads does not apply to it (`fs/timerfd.c`).

use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime, timerfd_create,
    timerfd_settime,
};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// How often two clocks are read side by side; the fastest reading counts.
const READINGS: usize = 8;

/// The current time of the timer's clock, in nanoseconds (`CLOCK_MONOTONIC`, which [`Instant`] also reads but does not
/// expose).
pub(crate) fn monotonic_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The time of the timer's clock at a past moment.
pub(crate) fn monotonic_ns_at(moment: Instant) -> u64 {
    let readings = (0..READINGS).map(|_| {
        let before = Instant::now();
        let clock_ns = monotonic_ns();
        let took = before.elapsed();
        (took, clock_ns.saturating_sub(before.saturating_duration_since(moment).as_nanos() as u64))
    });
    readings.min().map_or(0, |(_took, clock_ns): (Duration, u64)| clock_ns)
}

#[derive(Debug)]
pub(crate) struct Timer {
    descriptor: OwnedFd,
    /// The time it is set to; setting it to the same time again would waste a system call.
    set_for: u64,
}

impl Timer {
    pub(crate) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        Ok(Self { descriptor: timerfd_create(TimerfdClockId::Monotonic, flags)?, set_for: 0 })
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// Becomes readable at this time of [`monotonic_ns`], or at once if it has passed. Setting it clears an earlier expiry,
    /// so nothing needs to be read.
    pub(crate) fn set(&mut self, at_ns: u64) -> io::Result<()> {
        // Zero would disarm the timer.
        let at_ns = at_ns.max(1);
        if self.set_for == at_ns {
            return Ok(());
        }
        let value = Timespec { tv_sec: (at_ns / 1_000_000_000) as i64, tv_nsec: (at_ns % 1_000_000_000) as i64 };
        let never = Timespec { tv_sec: 0, tv_nsec: 0 };
        timerfd_settime(
            &self.descriptor,
            TimerfdTimerFlags::ABSTIME,
            &Itimerspec { it_interval: never, it_value: value },
        )?;
        self.set_for = at_ns;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reactor::{Reactor, Ready, SourceId};

    #[test]
    fn it_is_readable_when_due_and_quiet_when_set_again() {
        let reactor = Reactor::new().unwrap();
        let mut timer = Timer::new().unwrap();
        reactor.watch(timer.descriptor(), SourceId(7), false).unwrap();
        timer.set(monotonic_ns() + 1).unwrap();
        reactor.turn(Some(10_000)).unwrap();
        assert_eq!(reactor.next_ready(), Some(Ready::Source(SourceId(7))));
        timer.set(monotonic_ns() + 3_600_000_000_000).unwrap();
        reactor.turn(Some(0)).unwrap();
        assert_eq!(reactor.next_ready(), None);
        timer.set(0).unwrap();
        reactor.turn(Some(10_000)).unwrap();
        assert_eq!(reactor.next_ready(), Some(Ready::Source(SourceId(7))), "a moment that has passed is now");
    }

    #[test]
    fn both_clocks_agree() {
        let (before, moment, after) = (monotonic_ns(), Instant::now(), monotonic_ns());
        let told = monotonic_ns_at(moment);
        // A reading can be wrong by the duration of the fastest attempt, a few hundred nanoseconds. If all eight were
        // delayed, the error is the shortest delay.
        assert!(told + 100_000_000 >= before && told <= after + 100_000_000, "{before} {told} {after}");
    }
}
