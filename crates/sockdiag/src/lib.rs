//! What the kernel knows of its TCP sockets, as types: the addresses of each connection, its state, its queues, and which
//! socket has just died. `holdfast watch` and the doctor read it; nothing here decides or prints.
//!
//! * [`Census`] visits every socket that a [`Question`] asks for: over netlink's sock_diag, or, where that is not to be
//!   had, from `/proc/net/tcp{,6}`, and says which.
//! * [`DestroyEvents`] is the kernel's multicast of sockets that die, so that short-lived ones are not missed.
//! * [`Counters`], [`SocketUse`] and [`Settings`] are what the kernel counts and allows.
//! * [`Owners`] tells which process holds a socket.
//! * [`Namespace`] runs any of these in another network namespace.
//!
//! # Memory
//!
//! A census keeps nothing: it parses the kernel's replies in one buffer of [`REPLY_BYTES`] and hands each socket to a
//! closure by reference. So a million sockets cost 32 KiB here, plus what the caller keeps. A caller that must keep every
//! socket keeps [`Compact`]: 56 bytes, so 56 MB for a million (asserted in its test). Owners cost 8 bytes a descriptor and
//! at most half a byte to find it, so 8.5 MB for a million. While a larger table replaces a smaller one, they take as much
//! again.
//!
//! # Parsing
//!
//! What comes from the kernel is parsed like what comes from a network: any bytes are accepted or refused, none panic.
//! [`parse_replies`] is the whole of it as one function, for tests and fuzzing.

mod census;
mod compact;
mod counters;
mod destroyed;
mod dump;
mod filter;
mod namespace;
mod netlink;
mod owners;
mod proc_net;
#[cfg(test)]
mod scripted;
mod settings;
mod socket;

pub use census::{Census, Families, Question, Source, Summary};
pub use compact::Compact;
pub use counters::{Counters, SocketUse};
pub use destroyed::{DestroyEvents, Destroyed, Drained};
pub use filter::{Compare, Filter, FilterError, Names, Side, Test};
pub use namespace::Namespace;
pub use netlink::{REPLY_BYTES, Reply, parse_replies};
pub use owners::{Owner, Owners};
pub use proc_net::parse_line;
pub use settings::Settings;
pub use socket::{Memory, Socket, State, StateSet, TcpInfo, Timer, Traffic};

/// Why something could not be observed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error("{what}: {error}")]
    System {
        /// What was tried, as a phrase.
        what: &'static str,
        /// What the kernel said.
        error: std::io::Error,
    },
    /// The kernel refused the question.
    #[error("the kernel refuses the question over netlink: {0}")]
    Refused(std::io::Error),
    /// A reply that is not what the protocol allows.
    #[error("a reply over netlink is malformed: {0}")]
    Malformed(&'static str),
    /// A reply was longer than the buffer, which the kernel's own limit rules out.
    #[error("a reply over netlink of {0} bytes was cut off")]
    CutOff(usize),
    /// The replies did not end in time.
    #[error("the kernel's replies did not end within {0:?}")]
    TooSlow(std::time::Duration),
}

impl Error {
    pub(crate) fn system(what: &'static str) -> impl Fn(rustix::io::Errno) -> Self {
        move |error| Self::System { what, error: error.into() }
    }
}
