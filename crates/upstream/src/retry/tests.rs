//! Decisions about attempts that failed.

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
fn u01_port_exhaustion_tries_another_peer_without_blame() {
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
fn p09_group_limit_is_502_without_blame() {
    let verdict = decide(NotAdmitted, &GET, &DEFAULT);
    assert_eq!((verdict.decision, verdict.blame, verdict.reason), (fail(502), Blame::None, Reason::NotAdmitted));
}

#[test]
fn l02_no_socket_is_503_and_blames_no_peer() {
    let verdict = decide(NoSocket, &GET, &DEFAULT);
    assert_eq!((verdict.decision, verdict.blame, verdict.reason), (fail(503), Blame::None, Reason::NoSocket));
}

#[test]
fn u13_client_that_left_is_499_without_blame() {
    let verdict = decide(ClientGone, &GET, &DEFAULT);
    assert_eq!((verdict.decision, verdict.blame), (fail(499), Blame::None));
}

#[test]
fn p02_lost_keepalive_race_is_repeated_once() {
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
fn p02_lost_post_is_repeated_where_listed() {
    let reused = Attempt { reused: true, attempts_left: 0, ..POST };
    let listed = policy(Conditions::DEFAULT | Conditions::NON_IDEMPOTENT);
    let verdict = decide(ClosedBeforeHead, &reused, &listed);
    assert_eq!((verdict.decision, verdict.blame), (Decision::RetrySamePeerFresh, Blame::None));
    let without_error = policy(Conditions::TIMEOUT | Conditions::NON_IDEMPOTENT);
    assert_eq!(decision(ClosedBeforeHead, &reused, &without_error), fail(502));
    let again = Attempt { fresh_retry_used: true, reused: false, ..reused };
    assert_eq!(decision(ClosedBeforeHead, &again, &listed), fail(502));
}

#[test]
fn p03_lost_post_fails_unless_proven_undelivered() {
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
fn unprocessed_request_is_retried_for_any_method() {
    for (failure, reason) in [(Failure::GoneAway, Reason::GoneAway), (Failure::StreamRefused, Reason::StreamRefused)] {
        let again = decide(failure, &POST, &policy(Conditions::OFF));
        assert_eq!((again.decision, again.blame, again.reason), (Decision::NextPeer, Blame::None, reason));
        let alone = Attempt { attempts_left: 0, ..POST };
        assert_eq!(decision(failure, &alone, &DEFAULT), Decision::RetrySamePeerFresh, "a group of one peer");
        let twice = Attempt { fresh_retry_used: true, ..alone };
        let verdict = decide(failure, &twice, &DEFAULT);
        assert_eq!((verdict.decision, verdict.blame, verdict.reason), (fail(502), Blame::None, Reason::TriesUsedUp));
        let streaming = Attempt { body_replayable: false, ..POST };
        assert_eq!(decide(failure, &streaming, &DEFAULT).reason, Reason::BodyNotReplayable);
        let timed = Policy { timeout_ms: Some(100), ..DEFAULT };
        assert_eq!(decision(failure, &Attempt { elapsed_ms: 100, ..GET }, &timed), fail(502));
        let begun = Attempt { downstream_started: true, ..GET };
        assert_eq!(decision(failure, &begun, &DEFAULT), Decision::Abort);
    }
}

#[test]
fn idempotent_methods_are_known() {
    for method in [&b"GET"[..], b"HEAD", b"PUT", b"DELETE", b"OPTIONS", b"PROPFIND"] {
        assert!(is_idempotent(method));
    }
    for method in [&b"POST"[..], b"PATCH", b"LOCK", b"get", b"FOO", b""] {
        assert!(!is_idempotent(method));
    }
}

#[test]
fn a_timeout_is_retried_by_default() {
    assert!(Conditions::DEFAULT.contains(Conditions::TIMEOUT));
}
