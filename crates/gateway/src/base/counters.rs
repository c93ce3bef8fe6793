//! What each worker counts. Each counter is written by one thread and read by others.

use crate::base::cells::CLASSES;
use crate::base::memory::Held;
use http2::Reason;
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
    /// Sessions of `stream` that are no tunnels yet.
    pub(crate) sessions: AtomicU64,
    /// Connections closed, by [`crate::base::close::CloseReason`].
    pub(crate) closed: [AtomicU64; crate::base::close::CloseReason::COUNT],
    /// Handshakes of TLS that were completed: full ones, and those that resumed a session.
    pub(crate) handshakes: [AtomicU64; 2],
    /// … that failed, by [`HANDSHAKE_FAILURES`].
    pub(crate) handshakes_failed: [AtomicU64; HANDSHAKE_FAILURES.len()],
    /// Handshakes with upstreams that failed, by the same.
    pub(crate) upstream_handshakes_failed: [AtomicU64; HANDSHAKE_FAILURES.len()],
    /// Streams of HTTP/2 under way; they are among the exchanges.
    pub(crate) streams: AtomicU64,
    /// Connections of HTTP/2.
    pub(crate) http2_connections: AtomicU64,
    /// … with streams.
    pub(crate) http2_busy: AtomicU64,
    /// Faults of HTTP/2 that have ended a connection, by `http2::Reason`.
    pub(crate) http2_faults: FaultCounts,
    /// … a stream.
    pub(crate) http2_stream_faults: FaultCounts,
    /// Connections of HTTP/2 to upstreams that are driven here: those with streams, mostly.
    pub(crate) upstream_http2_connections: AtomicU64,
    /// Streams of HTTP/2 to upstreams.
    pub(crate) upstream_streams: AtomicU64,
    /// Faults of upstreams that have ended a connection of HTTP/2.
    pub(crate) upstream_http2_faults: FaultCounts,
    /// … a stream.
    pub(crate) upstream_http2_stream_faults: FaultCounts,
    /// Panics caught: bugs of ours.
    pub(crate) bugs: AtomicU64,
    /// Bytes that connections hold, or that are kept for the next.
    pub(crate) held: Held,
}

/// Why handshakes fail: the names of `tls`, and ours for what no peer has said. The first one counts what is not listed.
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

/// The place of a reason among [`HANDSHAKE_FAILURES`].
pub(crate) fn handshake_failure(reason: &str) -> usize {
    HANDSHAKE_FAILURES.iter().position(|known| *known == reason).unwrap_or_default()
}

/// Faults of HTTP/2, by the place of their reason among [`Reason::NAMES`].
#[derive(Debug)]
pub(crate) struct FaultCounts([AtomicU64; Reason::NAMES.len()]);

impl Default for FaultCounts {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl FaultCounts {
    /// Counts one.
    pub(crate) fn count(&self, reason: Reason) {
        let place = Reason::NAMES.iter().position(|known| *known == reason.name());
        if let Some(counter) = place.and_then(|place| self.0.get(place)) {
            bump(counter, 1);
        }
    }

    /// How many there were of each.
    pub(crate) fn all(&self) -> &[AtomicU64] {
        &self.0
    }
}

/// Adds to a counter that only the calling thread writes: no locked instruction is needed.
pub(crate) fn bump(counter: &AtomicU64, by: i64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add_signed(by), Ordering::Relaxed);
}
