//! A timer of nanoseconds beside the reactor's, whose ticks are milliseconds: a timerfd that the reactor watches.

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

#[derive(Debug)]
pub(crate) struct Timer {
    descriptor: OwnedFd,
    /// For what it is set; setting it again for the same would be a system call for nothing.
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

    /// Becomes readable in `in_ns` nanoseconds. `at` names that moment. Setting it takes back an earlier expiry, so nothing
    /// needs to be read.
    pub(crate) fn set(&mut self, at: u64, in_ns: u64) -> io::Result<()> {
        if self.set_for == at {
            return Ok(());
        }
        let value = Timespec { tv_sec: (in_ns / 1_000_000_000) as i64, tv_nsec: (in_ns % 1_000_000_000) as i64 };
        let never = Timespec { tv_sec: 0, tv_nsec: 0 };
        timerfd_settime(
            &self.descriptor,
            TimerfdTimerFlags::empty(),
            &Itimerspec { it_interval: never, it_value: value },
        )?;
        self.set_for = at;
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
        timer.set(1, 1).unwrap();
        reactor.turn(Some(10_000)).unwrap();
        assert_eq!(reactor.next_ready(), Some(Ready::Source(SourceId(7))));
        timer.set(2, 3_600_000_000_000).unwrap();
        reactor.turn(Some(0)).unwrap();
        assert_eq!(reactor.next_ready(), None);
    }
}
