//! Signals that end a demo early. Nothing happens in their handlers but that a byte and a flag are written; whoever waits
//! wakes by the byte.

use crate::exit;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The signals of this process. Children are not concerned: a handler does not survive their exec.
#[derive(Debug)]
pub(super) struct Signals {
    bell: UnixStream,
    each: [(Signal, Arc<AtomicBool>); 3],
}

impl Signals {
    /// Handles them from now on.
    pub(super) fn watch() -> io::Result<Self> {
        let (bell, ringer) = UnixStream::pair()?;
        let flag = |signal| (signal, Arc::new(AtomicBool::new(false)));
        let each = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].map(flag);
        for (signal, flag) in &each {
            // In this order: who is woken finds the flag set.
            signal_hook::flag::register(*signal as i32, Arc::clone(flag))?;
            signal_hook::low_level::pipe::register(*signal as i32, ringer.try_clone()?)?;
        }
        Ok(Self { bell, each })
    }

    /// Waits; `false`, and at once, if a signal has come.
    pub(super) fn pause(&self, duration: Duration) -> io::Result<bool> {
        let until = Instant::now() + duration;
        loop {
            let left = until.saturating_duration_since(Instant::now()).as_millis();
            let mut watched = [PollFd::new(self.bell.as_fd(), PollFlags::POLLIN)];
            match poll(&mut watched, PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)) {
                Ok(0) if left == 0 => return Ok(true),
                Ok(0) | Err(nix::errno::Errno::EINTR) => {}
                // The byte is left where it is, so every later wait ends at once, too.
                Ok(_) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// What shells report of a program that the signal has ended.
    pub(super) fn exit_code(&self) -> u8 {
        let first = self.each.iter().find(|(_, flag)| flag.load(Ordering::Relaxed));
        first.map_or(exit::FAILED, |(signal, _)| 128 + *signal as u8)
    }
}
