//! Whether a failed attempt is tried again, where, and what the client gets otherwise: sections U and P2/P3 of the
//! failure catalogue as one pure table. nginx's `proxy_next_upstream` with two differences: a request that lost the
//! keepalive race and may be repeated always is, on a fresh connection, without blaming the peer; and a method that is not
//! known to be idempotent is treated like POST.

use std::ops::BitOr;

/// The parameters of `proxy_next_upstream`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Conditions(u16);

impl Conditions {
    /// `off`.
    pub const OFF: Self = Self(0);
    /// `error`.
    pub const ERROR: Self = Self(1);
    /// `timeout`.
    pub const TIMEOUT: Self = Self(1 << 1);
    /// `invalid_header`.
    pub const INVALID_HEADER: Self = Self(1 << 2);
    /// `http_500`.
    pub const HTTP_500: Self = Self(1 << 3);
    /// `http_502`.
    pub const HTTP_502: Self = Self(1 << 4);
    /// `http_503`.
    pub const HTTP_503: Self = Self(1 << 5);
    /// `http_504`.
    pub const HTTP_504: Self = Self(1 << 6);
    /// `http_403`.
    pub const HTTP_403: Self = Self(1 << 7);
    /// `http_404`.
    pub const HTTP_404: Self = Self(1 << 8);
    /// `http_429`.
    pub const HTTP_429: Self = Self(1 << 9);
    /// `non_idempotent`.
    pub const NON_IDEMPOTENT: Self = Self(1 << 10);
    /// nginx's default, `error timeout`.
    pub const DEFAULT: Self = Self(Self::ERROR.0 | Self::TIMEOUT.0);

    /// Whether all of `others` are listed.
    pub fn contains(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }

    /// The condition that lists a status of the peer, `None` for one that cannot be listed.
    pub fn of_status(status: u16) -> Option<Self> {
        Some(match status {
            500 => Self::HTTP_500,
            502 => Self::HTTP_502,
            503 => Self::HTTP_503,
            504 => Self::HTTP_504,
            403 => Self::HTTP_403,
            404 => Self::HTTP_404,
            429 => Self::HTTP_429,
            _ => return None,
        })
    }
}

impl BitOr for Conditions {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// What went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// No connection: refused, unreachable (U1).
    ConnectFailed,
    /// No local port is left towards the peer: not the peer's fault (founding report 2).
    NoLocalPort,
    /// `proxy_connect_timeout` (U2).
    ConnectTimeout,
    /// FIN or RST, or a failed write, before the first byte of a response head (U3).
    ClosedBeforeHead,
    /// FIN or RST inside the head (U4).
    ClosedInsideHead,
    /// `proxy_send_timeout` or `proxy_read_timeout` before the head was complete (U5).
    Timeout,
    /// The head is invalid (U6).
    InvalidHeader,
    /// A whole head with a status that `proxy_next_upstream` may list (U7).
    Status(u16),
    /// No socket could be made: this process or the machine is out of descriptors, or of memory for a socket (L2) or
    /// for its response head (L11). Another peer would need the same.
    NoSocket,
    /// The certificate that variables name cannot be loaded: not the peer's fault.
    NoCertificate,
    /// The balancer has no peer to offer (U11).
    NoLivePeer,
    /// No connection was permitted: the group's own limit is reached, and its waiting line is full, or the wait timed
    /// out. Another peer of the group would give the same result.
    NotAdmitted,
    /// Over HTTP/2: the peer sent GOAWAY, which says that it has not processed the request's stream (RFC 9113 section
    /// 6.8).
    GoneAway,
    /// Over HTTP/2: the peer refused the stream (`REFUSED_STREAM`), which says the same (RFC 9113 section 8.7).
    StreamRefused,
    /// The client has left (U13).
    ClientGone,
}

impl Failure {
    /// The label in spans and traces: lower case, underscores.
    pub fn label(self) -> &'static str {
        match self {
            Self::ConnectFailed => "connect_failed",
            Self::NoLocalPort => "no_local_port",
            Self::ConnectTimeout => "connect_timeout",
            Self::ClosedBeforeHead => "closed_before_head",
            Self::ClosedInsideHead => "closed_inside_head",
            Self::Timeout => "timeout",
            Self::InvalidHeader => "invalid_header",
            Self::Status(_) => "status",
            Self::NoSocket => "no_socket",
            Self::NoCertificate => "no_certificate",
            Self::NoLivePeer => "no_live_peer",
            Self::NotAdmitted => "not_admitted",
            Self::GoneAway => "gone_away",
            Self::StreamRefused => "stream_refused",
            Self::ClientGone => "client_gone",
        }
    }
}

/// The facts about the failed attempt and its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    /// The connection had served an exchange before.
    pub reused: bool,
    /// A byte of the request may have left for the peer.
    pub sent: bool,
    /// See [`is_idempotent`].
    pub idempotent: bool,
    /// A byte of a final response went to the client.
    pub downstream_started: bool,
    /// The whole request can be sent again: it has no body, or everything read of it is still held.
    pub body_replayable: bool,
    /// The peer's FIN came before the failure (the write failed with EPIPE, not ECONNRESET), and no byte of this
    /// request was acknowledged: proof that the peer did not take it.
    pub proved_unsent: bool,
    /// This request was already repeated on a fresh connection.
    pub fresh_retry_used: bool,
    /// Attempts left: the number of peers in the group or `proxy_next_upstream_tries`, whichever is less, minus the
    /// attempts so far, this one included.
    pub attempts_left: u32,
    /// Milliseconds since the first attempt began.
    pub elapsed_ms: u64,
}

impl Attempt {
    /// One that failed before a byte was sent, of a request that may be sent again.
    pub const UNSENT: Self = Self {
        reused: false,
        sent: false,
        idempotent: true,
        downstream_started: false,
        body_replayable: true,
        proved_unsent: false,
        fresh_retry_used: false,
        attempts_left: 0,
        elapsed_ms: 0,
    };
}

/// The configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// `proxy_next_upstream`.
    pub conditions: Conditions,
    /// `proxy_next_upstream_timeout` in milliseconds, `None` for 0 (no limit).
    pub timeout_ms: Option<u64>,
    /// `retry_unsent on`.
    pub retry_unsent: bool,
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Ask the balancer for another peer.
    NextPeer,
    /// Repeat on a new connection to the same peer. Costs no try.
    RetrySamePeerFresh,
    /// Give the client the response as the peer sent it.
    Serve,
    /// Answer with this status (499 is only logged).
    Fail {
        /// HTTP status.
        status: u16,
    },
    /// The response has begun: it can only be aborted.
    Abort,
}

/// What to report to the balancer about the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blame {
    /// A failed attempt in the sense of `max_fails`.
    Failed,
    /// Not the peer's failure.
    None,
}

/// The reason for a decision, for log and metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The failure is listed in `proxy_next_upstream`.
    Listed,
    /// The failure is not listed.
    NotListed,
    /// The keepalive race, and the request may be repeated: it is idempotent, or `error non_idempotent` allows it (P2).
    ReusedConnection,
    /// The keepalive race, and the request may not be repeated (P3).
    ReusedConnectionNotRepeatable,
    /// The keepalive race, and the request provably did not arrive (P3 with `retry_unsent`).
    ProvedUnsent,
    /// The peer sent GOAWAY and has not processed the request.
    GoneAway,
    /// The peer refused the stream and has not processed the request.
    StreamRefused,
    /// The request may not be repeated: not idempotent, and it may have been executed.
    NotIdempotent,
    /// Its body cannot be sent again.
    BodyNotReplayable,
    /// The client has part of a response (U8).
    ResponseBegun,
    /// No tries are left (U10).
    TriesUsedUp,
    /// No time is left (U10).
    TimeUsedUp,
    /// L2.
    NoSocket,
    /// The certificate for the upstream cannot be loaded.
    NoCertificate,
    /// U11.
    NoLivePeer,
    /// The group's limit.
    NotAdmitted,
    /// U13.
    ClientGone,
}

impl Reason {
    /// Text for a log line, after nginx's own phrase.
    pub fn phrase(self) -> &'static str {
        match self {
            Self::Listed => "listed in proxy_next_upstream",
            Self::NotListed => "not listed in proxy_next_upstream",
            Self::ReusedConnection => "reused connection, repeated on a fresh one",
            Self::ReusedConnectionNotRepeatable => "reused connection, request not repeatable",
            Self::ProvedUnsent => "reused connection, closed before the request arrived",
            Self::GoneAway => "the peer went away and has not looked at the request",
            Self::StreamRefused => "the peer refused the stream and has not looked at the request",
            Self::NotIdempotent => "request is not idempotent",
            Self::BodyNotReplayable => "request body cannot be sent again",
            Self::ResponseBegun => "response already begun",
            Self::TriesUsedUp => "no tries left",
            Self::TimeUsedUp => "proxy_next_upstream_timeout reached",
            Self::NoSocket => "no descriptor or memory for a socket",
            Self::NoCertificate => "no certificate for the upstream",
            Self::NoLivePeer => "no live upstreams",
            Self::NotAdmitted => "the group's connection limit is reached",
            Self::ClientGone => "client closed the connection",
        }
    }
}

/// Decision, blame and reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Verdict {
    /// What to do.
    pub decision: Decision,
    /// What to report to the balancer.
    pub blame: Blame,
    /// Why.
    pub reason: Reason,
}

/// Whether executing a request twice has the same effect as once (RFC 9110 section 9.2.2, and the `WebDAV` methods that
/// the registry of methods calls idempotent). nginx lists POST, PATCH and LOCK as not idempotent; here a method unknown
/// to both is not idempotent either, which is safer.
pub fn is_idempotent(method: &[u8]) -> bool {
    matches!(
        method,
        b"GET"
            | b"HEAD"
            | b"PUT"
            | b"DELETE"
            | b"OPTIONS"
            | b"TRACE"
            | b"PROPFIND"
            | b"PROPPATCH"
            | b"MKCOL"
            | b"COPY"
            | b"MOVE"
            | b"UNLOCK"
            | b"SEARCH"
            | b"REPORT"
            | b"QUERY"
    )
}

/// What to do after a failed attempt.
pub fn decide(failure: Failure, attempt: &Attempt, policy: &Policy) -> Verdict {
    let (condition, status, blame) = match failure {
        Failure::ClientGone => return verdict(Decision::Fail { status: 499 }, Blame::None, Reason::ClientGone),
        Failure::NoSocket => return verdict(Decision::Fail { status: 503 }, Blame::None, Reason::NoSocket),
        // As in nginx.
        Failure::NoCertificate => return verdict(Decision::Fail { status: 500 }, Blame::None, Reason::NoCertificate),
        Failure::NoLivePeer => return verdict(Decision::Fail { status: 502 }, Blame::None, Reason::NoLivePeer),
        Failure::NotAdmitted => return verdict(Decision::Fail { status: 502 }, Blame::None, Reason::NotAdmitted),
        Failure::ConnectFailed | Failure::ClosedBeforeHead | Failure::ClosedInsideHead => {
            (Conditions::ERROR, 502, Blame::Failed)
        }
        Failure::NoLocalPort => (Conditions::ERROR, 503, Blame::None),
        Failure::ConnectTimeout | Failure::Timeout => (Conditions::TIMEOUT, 504, Blame::Failed),
        Failure::InvalidHeader => (Conditions::INVALID_HEADER, 502, Blame::Failed),
        Failure::Status(status) => return decide_status(status, attempt, policy),
        Failure::GoneAway => return decide_unprocessed(Reason::GoneAway, attempt, policy),
        Failure::StreamRefused => return decide_unprocessed(Reason::StreamRefused, attempt, policy),
    };
    if attempt.downstream_started {
        return verdict(Decision::Abort, blame, Reason::ResponseBegun);
    }
    let lost_race = failure == Failure::ClosedBeforeHead && attempt.reused;
    if lost_race && !attempt.fresh_retry_used && attempt.body_replayable {
        if attempt.idempotent || policy.conditions.contains(Conditions::ERROR | Conditions::NON_IDEMPOTENT) {
            return verdict(Decision::RetrySamePeerFresh, Blame::None, Reason::ReusedConnection);
        }
        if policy.retry_unsent && attempt.proved_unsent {
            return verdict(Decision::RetrySamePeerFresh, Blame::None, Reason::ProvedUnsent);
        }
    }
    match obstacle(condition, attempt, policy) {
        None => verdict(Decision::NextPeer, blame, Reason::Listed),
        // The peer was allowed to close the connection: for no request is that a failed attempt of the peer.
        Some(Reason::NotIdempotent) if lost_race => {
            verdict(Decision::Fail { status }, Blame::None, Reason::ReusedConnectionNotRepeatable)
        }
        Some(reason) => verdict(Decision::Fail { status }, blame, reason),
    }
}

/// The peer says that it has not processed the request: it is tried again for every method and every
/// `proxy_next_upstream`. A try is used up; if none is left, the same peer gets one more on another connection, so that
/// a group of one peer survives its GOAWAY. The peer is not blamed.
fn decide_unprocessed(reason: Reason, attempt: &Attempt, policy: &Policy) -> Verdict {
    let fail = |reason| verdict(Decision::Fail { status: 502 }, Blame::None, reason);
    if attempt.downstream_started {
        return verdict(Decision::Abort, Blame::None, Reason::ResponseBegun);
    }
    if attempt.sent && !attempt.body_replayable {
        return fail(Reason::BodyNotReplayable);
    }
    if policy.timeout_ms.is_some_and(|timeout_ms| attempt.elapsed_ms >= timeout_ms) {
        return fail(Reason::TimeUsedUp);
    }
    match (attempt.attempts_left, attempt.fresh_retry_used) {
        (0, true) => fail(Reason::TriesUsedUp),
        (0, false) => verdict(Decision::RetrySamePeerFresh, Blame::None, reason),
        _ => verdict(Decision::NextPeer, Blame::None, reason),
    }
}

/// A complete response head arrived, with a status that may be listed. Unless another peer is tried, the response is
/// served. Only a status that leads to another peer counts against this one; 403 and 404 never do.
fn decide_status(status: u16, attempt: &Attempt, policy: &Policy) -> Verdict {
    let Some(condition) = Conditions::of_status(status) else {
        return verdict(Decision::Serve, Blame::None, Reason::NotListed);
    };
    if attempt.downstream_started {
        return verdict(Decision::Serve, Blame::None, Reason::ResponseBegun);
    }
    if let Some(reason) = obstacle(condition, attempt, policy) {
        return verdict(Decision::Serve, Blame::None, reason);
    }
    let blame = if matches!(status, 403 | 404) { Blame::None } else { Blame::Failed };
    verdict(Decision::NextPeer, blame, Reason::Listed)
}

/// The reason that forbids another attempt, if any.
fn obstacle(condition: Conditions, attempt: &Attempt, policy: &Policy) -> Option<Reason> {
    if !policy.conditions.contains(condition) {
        return Some(Reason::NotListed);
    }
    if attempt.sent && !attempt.idempotent && !policy.conditions.contains(Conditions::NON_IDEMPOTENT) {
        return Some(Reason::NotIdempotent);
    }
    if attempt.sent && !attempt.body_replayable {
        return Some(Reason::BodyNotReplayable);
    }
    if attempt.attempts_left == 0 {
        return Some(Reason::TriesUsedUp);
    }
    if policy.timeout_ms.is_some_and(|timeout_ms| attempt.elapsed_ms >= timeout_ms) {
        return Some(Reason::TimeUsedUp);
    }
    None
}

fn verdict(decision: Decision, blame: Blame, reason: Reason) -> Verdict {
    Verdict { decision, blame, reason }
}

#[cfg(test)]
mod tests;
