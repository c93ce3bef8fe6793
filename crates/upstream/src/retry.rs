//! Whether a failed attempt is tried again, where, and what the client gets otherwise: sections U and P2/P3 of the
//! failure catalogue as one pure table. nginx's `proxy_next_upstream` with two differences: an idempotent request that
//! lost the keepalive race is repeated on a fresh connection whatever the directive says, and without blaming the peer;
//! and a method that is not known to be idempotent is treated as POST is.

use std::ops::BitOr;

/// The words of `proxy_next_upstream`.
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

    /// The condition a word of the directive stands for; `off` is [`Self::OFF`].
    pub fn parse_word(word: &str) -> Option<Self> {
        Some(match word {
            "off" => Self::OFF,
            "error" => Self::ERROR,
            "timeout" => Self::TIMEOUT,
            "invalid_header" => Self::INVALID_HEADER,
            "http_500" => Self::HTTP_500,
            "http_502" => Self::HTTP_502,
            "http_503" => Self::HTTP_503,
            "http_504" => Self::HTTP_504,
            "http_403" => Self::HTTP_403,
            "http_404" => Self::HTTP_404,
            "http_429" => Self::HTTP_429,
            "non_idempotent" => Self::NON_IDEMPOTENT,
            _ => return None,
        })
    }

    /// Whether all of `others` are listed.
    pub fn contains(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }

    /// The condition that lists a status of the peer's, `None` for one that cannot be listed.
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
    /// No local port is left towards the peer: nothing that it could be blamed for (F2).
    NoLocalPort,
    /// `proxy_connect_timeout` (U2).
    ConnectTimeout,
    /// FIN or RST, or a failed write, before the first byte of a response head (U3).
    ClosedBeforeHead,
    /// FIN or RST inside the head (U4).
    ClosedInsideHead,
    /// `proxy_send_timeout` or `proxy_read_timeout` before the head was complete (U5).
    Timeout,
    /// The head cannot be understood (U6).
    InvalidHeader,
    /// A whole head with a status that `proxy_next_upstream` may list (U7).
    Status(u16),
    /// No socket could be made: this process or the machine is out of descriptors, or of memory for one (L2), or for the
    /// head that comes through it (L11). Another peer would need the same.
    NoSocket,
    /// The balancer has no peer to offer (U11).
    NoLivePeer,
    /// No connection was permitted: the group's own limit is reached, and its waiting line is full, or the time in it is
    /// over. Another peer of the group would find the same.
    NotAdmitted,
    /// The client is gone (U13).
    ClientGone,
}

/// What is known about the attempt that failed, and the request it was made for.
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
    /// The whole request can be sent again: it has no body, or all of it that was read is still held.
    pub body_replayable: bool,
    /// The peer's FIN came before the failure (the write failed with EPIPE, not ECONNRESET), and nothing of this
    /// request was acknowledged: proof that the peer did not take it.
    pub proved_unsent: bool,
    /// This request was repeated on a fresh connection already.
    pub fresh_retry_used: bool,
    /// Peers that may still be tried: the peers of the group or `proxy_next_upstream_tries`, whichever is less, minus
    /// the attempts so far, this one included.
    pub attempts_left: u32,
    /// Milliseconds since the first attempt began.
    pub elapsed_ms: u64,
}

/// What the configuration says.
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
    /// The response has begun: it can only be cut off.
    Abort,
}

/// What the balancer is told about the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blame {
    /// A failed attempt in the sense of `max_fails`.
    Failed,
    /// Not the peer's failure.
    None,
}

/// Why a decision was made, for log and metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The failure is listed in `proxy_next_upstream`.
    Listed,
    /// The failure is not listed.
    NotListed,
    /// The keepalive race, and the request is idempotent (P2).
    ReusedConnection,
    /// The keepalive race, and the request may not be repeated (P3).
    ReusedConnectionNotRepeatable,
    /// The keepalive race, and the request provably did not arrive (P3 with `retry_unsent`).
    ProvedUnsent,
    /// The request may not be repeated: not idempotent, and it may have been executed.
    NotIdempotent,
    /// Its body is gone.
    BodyNotReplayable,
    /// The client has part of a response (U8).
    ResponseBegun,
    /// No tries are left (U10).
    TriesUsedUp,
    /// No time is left (U10).
    TimeUsedUp,
    /// L2.
    NoSocket,
    /// U11.
    NoLivePeer,
    /// The group's limit.
    NotAdmitted,
    /// U13.
    ClientGone,
}

impl Reason {
    /// Words for a log line, behind nginx's own phrase.
    pub fn phrase(self) -> &'static str {
        match self {
            Self::Listed => "listed in proxy_next_upstream",
            Self::NotListed => "not listed in proxy_next_upstream",
            Self::ReusedConnection => "reused connection, repeated on a fresh one",
            Self::ReusedConnectionNotRepeatable => "reused connection, request not repeatable",
            Self::ProvedUnsent => "reused connection, closed before the request arrived",
            Self::NotIdempotent => "request is not idempotent",
            Self::BodyNotReplayable => "request body cannot be sent again",
            Self::ResponseBegun => "response already begun",
            Self::TriesUsedUp => "no tries left",
            Self::TimeUsedUp => "proxy_next_upstream_timeout reached",
            Self::NoSocket => "no descriptor or memory for a socket",
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

/// Whether executing a request twice is as good as once (RFC 9110 section 9.2.2, and the `WebDAV` methods that the
/// registry of methods calls idempotent). nginx lists POST, PATCH and LOCK as the ones that are not; a method that
/// neither knows is safer here.
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
        Failure::NoLivePeer => return verdict(Decision::Fail { status: 502 }, Blame::None, Reason::NoLivePeer),
        Failure::NotAdmitted => return verdict(Decision::Fail { status: 502 }, Blame::None, Reason::NotAdmitted),
        Failure::ConnectFailed | Failure::ClosedBeforeHead | Failure::ClosedInsideHead => {
            (Conditions::ERROR, 502, Blame::Failed)
        }
        Failure::NoLocalPort => (Conditions::ERROR, 503, Blame::None),
        Failure::ConnectTimeout | Failure::Timeout => (Conditions::TIMEOUT, 504, Blame::Failed),
        Failure::InvalidHeader => (Conditions::INVALID_HEADER, 502, Blame::Failed),
        Failure::Status(status) => return decide_status(status, attempt, policy),
    };
    if attempt.downstream_started {
        return verdict(Decision::Abort, blame, Reason::ResponseBegun);
    }
    let lost_race = failure == Failure::ClosedBeforeHead && attempt.reused;
    if lost_race && !attempt.fresh_retry_used && attempt.body_replayable {
        if attempt.idempotent {
            return verdict(Decision::RetrySamePeerFresh, Blame::None, Reason::ReusedConnection);
        }
        if policy.retry_unsent && attempt.proved_unsent {
            return verdict(Decision::RetrySamePeerFresh, Blame::None, Reason::ProvedUnsent);
        }
    }
    match obstacle(condition, attempt, policy) {
        None => verdict(Decision::NextPeer, blame, Reason::Listed),
        // The peer closed a connection that it was free to close: whatever the request is, that is no failed attempt.
        Some(Reason::NotIdempotent) if lost_race => {
            verdict(Decision::Fail { status }, Blame::None, Reason::ReusedConnectionNotRepeatable)
        }
        Some(reason) => verdict(Decision::Fail { status }, blame, reason),
    }
}

/// A whole response head arrived, with a status that may be listed. A response that is not passed over is served, and
/// only a status that leads to another peer counts against this one; 403 and 404 never do.
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

/// What stands against another peer.
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
mod tests {
    use super::Failure::{
        ClientGone, ClosedBeforeHead, ClosedInsideHead, ConnectFailed, ConnectTimeout, InvalidHeader, NoLivePeer,
        NoLocalPort, NoSocket, NotAdmitted, Status, Timeout,
    };
    use super::*;

    const DEFAULT: Policy = Policy { conditions: Conditions::DEFAULT, timeout_ms: None, retry_unsent: false };
    const GET: Attempt = Attempt {
        reused: false,
        sent: true,
        idempotent: true,
        downstream_started: false,
        body_replayable: true,
        proved_unsent: false,
        fresh_retry_used: false,
        attempts_left: 1,
        elapsed_ms: 0,
    };
    const POST: Attempt = Attempt { idempotent: false, ..GET };
    const LAST: Attempt = Attempt { attempts_left: 0, ..GET };

    fn policy(conditions: Conditions) -> Policy {
        Policy { conditions, ..DEFAULT }
    }

    fn decision(failure: Failure, attempt: &Attempt, policy: &Policy) -> Decision {
        decide(failure, attempt, policy).decision
    }

    fn fail(status: u16) -> Decision {
        Decision::Fail { status }
    }

    #[test]
    fn u01_refused_goes_to_the_next_peer_whatever_the_method() {
        let unsent = Attempt { sent: false, ..POST };
        assert_eq!(decision(ConnectFailed, &Attempt { sent: false, ..GET }, &DEFAULT), Decision::NextPeer);
        assert_eq!(decision(ConnectFailed, &unsent, &DEFAULT), Decision::NextPeer);
        let streaming = Attempt { body_replayable: false, ..unsent };
        assert_eq!(decision(ConnectFailed, &streaming, &DEFAULT), Decision::NextPeer, "nothing of it was read");
        assert_eq!(decision(ConnectFailed, &LAST, &DEFAULT), fail(502));
        assert_eq!(decide(ConnectFailed, &unsent, &DEFAULT).blame, Blame::Failed);
    }

    #[test]
    fn u01_without_a_local_port_another_peer_may_have_one_and_none_is_blamed() {
        let verdict = decide(NoLocalPort, &Attempt { sent: false, ..POST }, &DEFAULT);
        assert_eq!((verdict.decision, verdict.blame), (Decision::NextPeer, Blame::None));
        let verdict = decide(NoLocalPort, &LAST, &DEFAULT);
        assert_eq!((verdict.decision, verdict.blame), (fail(503), Blame::None));
    }

    #[test]
    fn u02_connect_timeout_goes_to_the_next_peer_else_504() {
        assert_eq!(decision(ConnectTimeout, &Attempt { sent: false, ..POST }, &DEFAULT), Decision::NextPeer);
        assert_eq!(decision(ConnectTimeout, &LAST, &DEFAULT), fail(504));
    }

    #[test]
    fn u03_u04_closed_before_or_inside_the_head() {
        for failure in [ClosedBeforeHead, ClosedInsideHead] {
            assert_eq!(decision(failure, &GET, &DEFAULT), Decision::NextPeer);
            assert_eq!(decision(failure, &LAST, &DEFAULT), fail(502));
            assert_eq!(decision(failure, &POST, &DEFAULT), fail(502));
            assert_eq!(decide(failure, &POST, &DEFAULT).reason, Reason::NotIdempotent);
            assert_eq!(decide(failure, &POST, &DEFAULT).blame, Blame::Failed);
        }
    }

    #[test]
    fn u05_read_timeout() {
        assert_eq!(decision(Timeout, &GET, &DEFAULT), Decision::NextPeer);
        assert_eq!(decision(Timeout, &LAST, &DEFAULT), fail(504));
        assert_eq!(decision(Timeout, &POST, &DEFAULT), fail(504));
        let reused = Attempt { reused: true, ..POST };
        assert_eq!(decide(Timeout, &reused, &DEFAULT).blame, Blame::Failed, "slow is not the keepalive race");
    }

    #[test]
    fn u06_invalid_header_only_if_listed() {
        assert_eq!(decision(InvalidHeader, &GET, &DEFAULT), fail(502));
        let listed = policy(Conditions::INVALID_HEADER);
        assert_eq!(decision(InvalidHeader, &GET, &listed), Decision::NextPeer);
        assert_eq!(decision(InvalidHeader, &POST, &listed), fail(502));
        let both = policy(Conditions::INVALID_HEADER | Conditions::NON_IDEMPOTENT);
        assert_eq!(decision(InvalidHeader, &POST, &both), Decision::NextPeer);
    }

    #[test]
    fn u07_a_status_only_if_listed_and_served_otherwise() {
        assert_eq!(decision(Status(503), &GET, &DEFAULT), Decision::Serve);
        assert_eq!(decision(Status(200), &GET, &policy(Conditions::HTTP_500)), Decision::Serve);
        let listed = policy(Conditions::HTTP_500 | Conditions::HTTP_503 | Conditions::HTTP_404);
        assert_eq!(decision(Status(503), &GET, &listed), Decision::NextPeer);
        assert_eq!(decision(Status(500), &POST, &listed), Decision::Serve);
        assert_eq!(decision(Status(503), &LAST, &listed), Decision::Serve);
        assert_eq!(decide(Status(503), &GET, &listed).blame, Blame::Failed);
        assert_eq!(decide(Status(404), &GET, &listed).blame, Blame::None);
        let all = policy(Conditions::HTTP_500 | Conditions::NON_IDEMPOTENT);
        assert_eq!(decision(Status(500), &POST, &all), Decision::NextPeer);
    }

    #[test]
    fn u08_never_after_a_response_byte_went_downstream() {
        let begun = Attempt { downstream_started: true, reused: true, ..GET };
        for failure in [ClosedBeforeHead, ClosedInsideHead, Timeout, InvalidHeader] {
            assert_eq!(decision(failure, &begun, &DEFAULT), Decision::Abort);
        }
    }

    #[test]
    fn u09_non_idempotent_is_honoured_but_not_without_the_body() {
        let listed = policy(Conditions::DEFAULT | Conditions::NON_IDEMPOTENT);
        assert_eq!(decision(ClosedBeforeHead, &POST, &listed), Decision::NextPeer);
        let streaming = Attempt { body_replayable: false, ..POST };
        assert_eq!(decide(ClosedBeforeHead, &streaming, &listed).reason, Reason::BodyNotReplayable);
        let put = Attempt { body_replayable: false, ..GET };
        assert_eq!(decision(Timeout, &put, &DEFAULT), fail(504));
    }

    #[test]
    fn u10_tries_and_time_are_honoured() {
        let timed = Policy { timeout_ms: Some(100), ..DEFAULT };
        assert_eq!(decision(Timeout, &Attempt { elapsed_ms: 99, ..GET }, &timed), Decision::NextPeer);
        let late = Attempt { elapsed_ms: 100, ..GET };
        assert_eq!(decide(Timeout, &late, &timed).reason, Reason::TimeUsedUp);
        assert_eq!(decide(Timeout, &LAST, &timed).reason, Reason::TriesUsedUp);
        assert_eq!(decide(Timeout, &GET, &policy(Conditions::OFF)).reason, Reason::NotListed);
    }

    #[test]
    fn u11_no_live_peer_is_502() {
        let verdict = decide(NoLivePeer, &POST, &DEFAULT);
        assert_eq!((verdict.decision, verdict.reason.phrase()), (fail(502), "no live upstreams"));
    }

    #[test]
    fn p09_a_limit_of_the_groups_own_is_502_and_nobodys_fault() {
        let verdict = decide(NotAdmitted, &GET, &DEFAULT);
        assert_eq!((verdict.decision, verdict.blame, verdict.reason), (fail(502), Blame::None, Reason::NotAdmitted));
    }

    #[test]
    fn l02_no_socket_is_503_and_nobodys_fault() {
        let verdict = decide(NoSocket, &GET, &DEFAULT);
        assert_eq!((verdict.decision, verdict.blame, verdict.reason), (fail(503), Blame::None, Reason::NoSocket));
    }

    #[test]
    fn u13_a_client_that_left_is_499_and_nobodys_fault() {
        let verdict = decide(ClientGone, &GET, &DEFAULT);
        assert_eq!((verdict.decision, verdict.blame), (fail(499), Blame::None));
    }

    #[test]
    fn p02_the_keepalive_race_is_repeated_once_on_a_fresh_connection() {
        let reused = Attempt { reused: true, attempts_left: 0, ..GET };
        let verdict = decide(ClosedBeforeHead, &reused, &policy(Conditions::OFF));
        assert_eq!((verdict.decision, verdict.blame), (Decision::RetrySamePeerFresh, Blame::None));
        let again = Attempt { fresh_retry_used: true, reused: false, ..reused };
        assert_eq!(decision(ClosedBeforeHead, &again, &DEFAULT), fail(502));
        let inside = decide(ClosedInsideHead, &reused, &DEFAULT);
        assert_eq!((inside.decision, inside.blame), (fail(502), Blame::Failed), "the peer took the request");
        let put = Attempt { body_replayable: false, ..reused };
        assert_eq!(decision(ClosedBeforeHead, &put, &DEFAULT), fail(502));
    }

    #[test]
    fn p03_a_post_that_lost_the_race_fails_unless_it_provably_did_not_arrive() {
        let reused = Attempt { reused: true, ..POST };
        let verdict = decide(ClosedBeforeHead, &reused, &DEFAULT);
        assert_eq!((verdict.decision, verdict.blame), (fail(502), Blame::None));
        assert!(verdict.reason.phrase().contains("reused connection"));

        let retrying = Policy { retry_unsent: true, ..DEFAULT };
        assert_eq!(decision(ClosedBeforeHead, &reused, &retrying), fail(502), "executed, then reset");
        let proved = Attempt { proved_unsent: true, ..reused };
        assert_eq!(decision(ClosedBeforeHead, &proved, &retrying), Decision::RetrySamePeerFresh);
        assert_eq!(decision(ClosedBeforeHead, &proved, &DEFAULT), fail(502), "off by default");
        let streaming = Attempt { body_replayable: false, ..proved };
        assert_eq!(decision(ClosedBeforeHead, &streaming, &retrying), fail(502));
        let again = Attempt { fresh_retry_used: true, ..proved };
        assert_eq!(decision(ClosedBeforeHead, &again, &retrying), fail(502));
    }

    #[test]
    fn idempotent_methods_are_those_known_to_be() {
        for method in [&b"GET"[..], b"HEAD", b"PUT", b"DELETE", b"OPTIONS", b"PROPFIND"] {
            assert!(is_idempotent(method));
        }
        for method in [&b"POST"[..], b"PATCH", b"LOCK", b"get", b"FOO", b""] {
            assert!(!is_idempotent(method));
        }
    }

    #[test]
    fn the_directives_words_are_the_conditions() {
        assert_eq!(Conditions::parse_word("http_429"), Some(Conditions::HTTP_429));
        assert_eq!(Conditions::parse_word("off"), Some(Conditions::OFF));
        assert_eq!(Conditions::parse_word("updating"), None);
        assert!(Conditions::DEFAULT.contains(Conditions::TIMEOUT));
    }
}
