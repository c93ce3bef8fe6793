//! What each worker counts. Each counter is written by one thread and read by others.

use crate::base::cells::CLASSES;
use crate::base::memory::Held;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of one worker, written by it alone.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) accepted: AtomicU64,
    pub(crate) handled: AtomicU64,
    pub(crate) requests: AtomicU64,
    /// Responses, by class of their status.
    pub(crate) responses: [AtomicU64; CLASSES.len()],
    /// Exchanges under way.
    pub(crate) exchanges: AtomicU64,
    /// Connections with a part of a head.
    pub(crate) reading: AtomicU64,
    pub(crate) tunnels: AtomicU64,
    /// Connections closed, by [`crate::base::close::CloseReason`].
    pub(crate) closed: [AtomicU64; crate::base::close::CloseReason::COUNT],
    /// Handshakes of TLS that were completed: full ones, and those that resumed a session.
    pub(crate) handshakes: [AtomicU64; 2],
    /// … that failed, by [`HANDSHAKE_FAILURES`].
    pub(crate) handshakes_failed: [AtomicU64; HANDSHAKE_FAILURES.len()],
    /// Panics caught: bugs of ours.
    pub(crate) bugs: AtomicU64,
    /// Bytes that connections hold, or that are kept for the next.
    pub(crate) held: Held,
}

/// Why handshakes fail: the names of `tls`, and ours for what no peer has said. The first one stands for what is not listed.
pub(crate) const HANDSHAKE_FAILURES: [&str; 22] = [
    "protocol",
    "timed_out",
    "connection",
    "closed_in_handshake",
    "closed_unused",
    "not_tls",
    "plain_http",
    "bad_hello",
    "name_refused",
    "nothing_in_common",
    "unsupported_version",
    "no_certificate",
    "alert",
    "certificate_expired",
    "certificate_unknown_issuer",
    "certificate_name",
    "certificate_revoked",
    "certificate_invalid",
    "decrypt",
    "too_long",
    "keys_exhausted",
    "not_open",
];

/// Adds to a counter that only the calling thread writes: no locked instruction is needed.
pub(crate) fn bump(counter: &AtomicU64, by: i64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add_signed(by), Ordering::Relaxed);
}
