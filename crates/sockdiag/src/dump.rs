//! One dump, read by read, until the kernel says that it is complete. It checks which question a reply answers, whether the kernel
//! refused, and which sockets were reported before. Pure and of a fixed size for any number of sockets: `census` owns the netlink
//! socket.
//!
//! The kernel keeps its place between two reads as a number within a chain of its table (`inet_diag_dump_icsk()` in
//! `net/ipv4/inet_diag.c`), and marks nothing (`NLM_F_DUMP_INTR`) when the chain changes meanwhile. If sockets were added in front
//! of that place, the kernel reports as many again; their cookies show that here. If one was removed in front, one is skipped, and
//! the replies do not show it.

use crate::netlink::{Reply, parse_replies};
use crate::{Error, Socket};

/// How many cookies are remembered to detect sockets that are reported again. Each repeated socket means that one was added to the
/// same chain of the kernel's table between two reads. In a table of the usual size a chain gets less than one.
pub(crate) const RETOLD_MAX: usize = 32;

/// A dump under way.
#[derive(Debug)]
pub(crate) struct Dump {
    sequence: u32,
    told: [u64; RETOLD_MAX],
    next: usize,
    /// The kernel has said that nothing follows.
    pub(crate) complete: bool,
    /// Some message was marked with `NLM_F_DUMP_INTR`.
    pub(crate) interrupted: bool,
    /// Sockets of a family or state that is not known here.
    pub(crate) unknown: u64,
    /// Sockets that were reported again, and were not handed over again.
    pub(crate) retold: u64,
}

impl Dump {
    /// Awaits the answer to the question with this number.
    pub(crate) fn new(sequence: u32) -> Self {
        Self { sequence, told: [0; RETOLD_MAX], next: 0, complete: false, interrupted: false, unknown: 0, retold: 0 }
    }

    /// Takes what one read returned.
    pub(crate) fn take(&mut self, bytes: &[u8], mut visit: impl FnMut(&Socket)) -> Result<(), Error> {
        let mut refused = None;
        parse_replies(bytes, Some(self.sequence), |reply, interrupted| {
            self.interrupted |= interrupted;
            match reply {
                Reply::Socket(socket) if self.was_seen(socket.cookie) => self.retold += 1,
                Reply::Socket(socket) => visit(&socket),
                Reply::Unknown => self.unknown += 1,
                Reply::Done => self.complete = true,
                Reply::Refused(error) => refused = refused.or(Some(error)),
                Reply::Other => {}
            }
        })?;
        refused.map_or(Ok(()), |error| Err(Error::Refused(std::io::Error::from_raw_os_error(error))))
    }

    /// Whether a socket with this cookie was reported before; remembers the cookie. A socket without a cookie counts as new.
    fn was_seen(&mut self, cookie: u64) -> bool {
        if cookie == 0 {
            return false;
        }
        // The loop has no early exit, so that the compiler may compare several at once.
        if self.told.iter().filter(|told| **told == cookie).count() > 0 {
            return true;
        }
        if let Some(oldest) = self.told.get_mut(self.next) {
            *oldest = cookie;
        }
        self.next = (self.next + 1) % RETOLD_MAX;
        false
    }
}

#[cfg(test)]
#[path = "dump_tests.rs"]
mod tests;
