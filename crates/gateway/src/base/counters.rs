//! Counters of each worker. One thread writes each counter; others read it.

use crate::base::cells::CLASSES;
use crate::base::close::{CloseReason, DRAINED};
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
    /// Connections of which a part of a head has arrived.
    pub(crate) reading: AtomicU64,
    pub(crate) tunnels: AtomicU64,
    /// Tunnels that wait to be drained, or are being drained.
    pub(crate) draining: AtomicU64,
    /// Tunnels drained, by [`DRAINED`].
    pub(crate) drained: [AtomicU64; DRAINED.len()],
    /// `stream` sessions that are not tunnels yet.
    pub(crate) sessions: AtomicU64,
    /// Datagrams dropped, by [`DatagramLoss`].
    pub(crate) datagrams_lost: [AtomicU64; DatagramLoss::LABELS.len()],
    /// Connections closed.
    pub(crate) closed: CloseCounts,
    /// Completed TLS handshakes: full ones, and those that resumed a session.
    pub(crate) handshakes: [AtomicU64; 2],
    /// Failed TLS handshakes, by [`HANDSHAKE_FAILURES`].
    pub(crate) handshakes_failed: [AtomicU64; HANDSHAKE_FAILURES.len()],
    /// Failed TLS handshakes with upstreams, by the same reasons.
    pub(crate) upstream_handshakes_failed: [AtomicU64; HANDSHAKE_FAILURES.len()],
    /// HTTP/2 streams under way; they are also counted as exchanges.
    pub(crate) streams: AtomicU64,
    /// HTTP/2 connections of clients.
    pub(crate) http2_connections: AtomicU64,
    /// HTTP/2 connections of clients with at least one stream.
    pub(crate) http2_busy: AtomicU64,
    /// HTTP/2 faults that ended a connection, by `http2::Reason`.
    pub(crate) http2_faults: FaultCounts,
    /// HTTP/2 faults that ended a stream.
    pub(crate) http2_stream_faults: FaultCounts,
    /// HTTP/2 connections to upstreams that this worker drives: mostly those with streams.
    pub(crate) upstream_http2_connections: AtomicU64,
    /// HTTP/2 streams to upstreams.
    pub(crate) upstream_streams: AtomicU64,
    /// Faults of upstreams that ended an HTTP/2 connection.
    pub(crate) upstream_http2_faults: FaultCounts,
    /// Faults of upstreams that ended an HTTP/2 stream.
    pub(crate) upstream_http2_stream_faults: FaultCounts,
    /// Requests that `auth_jwt` refused, by [`JwtRefusal`].
    pub(crate) jwt_refused: [AtomicU64; JwtRefusal::LABELS.len()],
    /// Keys of `auth_jwt` that could not be used.
    pub(crate) jwt_keys_failed: AtomicU64,
    /// Panics caught: bugs of ours.
    pub(crate) bugs: AtomicU64,
    /// Bytes that connections hold, or that are kept for the next connection.
    pub(crate) held: Held,
}

/// Connections closed, by the number of their [`CloseReason`].
#[derive(Debug)]
pub(crate) struct CloseCounts([AtomicU64; CloseReason::COUNT]);

impl Default for CloseCounts {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl std::ops::Index<CloseReason> for CloseCounts {
    type Output = AtomicU64;

    fn index(&self, reason: CloseReason) -> &AtomicU64 {
        &self.0[reason as usize]
    }
}

/// Why a datagram was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum DatagramLoss {
    /// All of `worker_connections` or of `memory_budget` were in use, and no session of datagrams could end for it.
    NoRoom = 0,
    /// Its session had no peer yet.
    NoPeerYet = 1,
    /// `proxy_upload_rate`
    Rate = 2,
    /// The kernel's buffer of the socket it was to leave by was full.
    Buffer = 3,
    /// It was truncated, or had no usable sender.
    Unusable = 4,
}

impl DatagramLoss {
    /// The labels in metrics.
    pub(crate) const LABELS: [&str; 5] = ["no_room", "no_peer_yet", "rate", "buffer", "unusable"];
}

/// Why `auth_jwt` refused a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum JwtRefusal {
    /// There is no token.
    Missing = 0,
    /// The token is no JWT, is of another type than expected, or needs what is not supported.
    Malformed = 1,
    /// It cannot be decrypted.
    Undecipherable = 2,
    /// No key fits it.
    NoKey = 3,
    Signature = 4,
    Expired = 5,
    NotYetValid = 6,
    /// A value of `auth_jwt_require` is empty or 0.
    Requirement = 7,
}

impl JwtRefusal {
    /// The labels in metrics.
    pub(crate) const LABELS: [&str; 8] =
        ["missing", "malformed", "undecipherable", "no_key", "signature", "expired", "not_yet_valid", "requirement"];
}

/// Why handshakes fail: the names of `tls`, and our own for failures without a message of the peer. The first one
/// counts reasons that are not listed.
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

/// The index of a reason in [`HANDSHAKE_FAILURES`].
pub(crate) fn handshake_failure(reason: &str) -> usize {
    HANDSHAKE_FAILURES.iter().position(|known| *known == reason).unwrap_or_default()
}

/// HTTP/2 faults, by the index of their reason in [`Reason::NAMES`].
#[derive(Debug)]
pub(crate) struct FaultCounts([AtomicU64; Reason::NAMES.len()]);

impl Default for FaultCounts {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl FaultCounts {
    /// Counts one fault.
    pub(crate) fn count(&self, reason: Reason) {
        let place = Reason::NAMES.iter().position(|known| *known == reason.name());
        if let Some(counter) = place.and_then(|place| self.0.get(place)) {
            bump(counter, 1);
        }
    }

    /// The number of faults by reason.
    pub(crate) fn all(&self) -> &[AtomicU64] {
        &self.0
    }
}

/// Adds to a counter that only the calling thread writes, so no locked instruction is needed.
pub(crate) fn bump(counter: &AtomicU64, by: i64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add_signed(by), Ordering::Relaxed);
}
