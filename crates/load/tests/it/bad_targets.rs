//! Targets that misbehave: each failure counts under the cause that an engineer would name.

use crate::scene::{origin, requests, run, target};
use load::{Cause, Options, Tally};
use origin::Closing;
use std::time::Duration;
use testkit::{Peer, Refusing};

/// Checks that all requests failed by this cause.
#[track_caller]
fn expect_all(whole: &Tally, cause: Cause, count: u64) {
    assert_eq!((whole.failed_by(cause), whole.failed(), whole.responses), (count, count, 0), "{:?}", whole.failures);
}

/// Options with short timeouts.
fn impatient(options: Options) -> Options {
    let timeout = Duration::from_millis(150);
    Options { connect_timeout: timeout, response_timeout: timeout, ..options }
}

/// The counts for a server that answers a request with these bytes and closes.
fn answered_with(bytes: &'static [u8]) -> Tally {
    let peer = Peer::script(move |mut talk| {
        talk.request();
        talk.send(bytes);
        talk.half_close();
        talk.rest();
    });
    run(requests(target(peer.address(), "/"), 2, 1)).record.whole()
}

#[test]
fn refused_connections_are_counted() {
    let refusing = Refusing::new();
    let address = refusing.address();
    let summary = run(requests(target(address, "/"), 5, 2));
    expect_all(&summary.record.whole(), Cause::Refused, 5);
    assert_eq!((summary.record.established, summary.record.opened), (0, 5));
}

#[test]
fn the_accept_queue_is_full() {
    // No process accepts connections. A backlog of one holds two, and further ones are dropped.
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&"127.0.0.1:0".parse::<std::net::SocketAddr>().unwrap().into()).unwrap();
    socket.listen(1).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    let whole = run(impatient(requests(target(address, "/"), 8, 8))).record.whole();
    assert!(whole.failed_by(Cause::ConnectTimeout) >= 4, "{:?}", whole.failures);
    assert_eq!(whole.failed_by(Cause::ConnectTimeout) + whole.failed_by(Cause::Silent), 8, "{:?}", whole.failures);
}

#[test]
fn the_target_is_silent() {
    let origin = origin(origin::Options { silent: true, ..origin::Options::default() });
    let whole = run(impatient(requests(target(origin.address(), "/"), 2, 2))).record.whole();
    expect_all(&whole, Cause::Silent, 2);
    // Timeouts count with the time that the load waited.
    assert!(whole.latency.count() == 2 && whole.latency.min_ns() >= 149_000_000, "{}", whole.latency.min_ns());
}

#[test]
fn the_target_does_not_read() {
    let origin = origin(origin::Options { silent: true, ..origin::Options::default() });
    let mut target = target(origin.address(), "/");
    target.body = vec![b'x'; 30_000_000];
    expect_all(&run(impatient(requests(target, 1, 1))).record.whole(), Cause::SendTimeout, 1);
}

#[test]
fn a_response_stops_in_the_middle() {
    let origin = origin(origin::Options::default());
    let path = "/slow/10?step=1&every=60000";
    // Everything before the stop fits into this time, even on a busy machine.
    let response_timeout = Duration::from_secs(1);
    let options = Options { response_timeout, ..requests(target(origin.address(), path), 2, 2) };
    expect_all(&run(options).record.whole(), Cause::ReadTimeout, 2);
}

#[test]
fn connections_are_reset_at_each_stage() {
    let accepting = origin(origin::Options { reset_at_accept: true, ..origin::Options::default() });
    let whole = run(requests(target(accepting.address(), "/"), 4, 2)).record.whole();
    let reset = whole.failed_by(Cause::ResetUnanswered) + whole.failed_by(Cause::ConnectReset);
    assert_eq!((reset, whole.failed()), (4, 4), "{:?}", whole.failures);
    let origin = origin(origin::Options::default());
    let at = |point: &str| {
        let path = format!("/reset/at?point={point}");
        run(requests(target(origin.address(), &path), 4, 2)).record.whole()
    };
    expect_all(&at("request"), Cause::ResetUnanswered, 4);
    // Data written right before a reset may or may not be lost with it, so the test accepts both causes.
    let head = at("head");
    assert_eq!(head.failed_by(Cause::ResetEarly) + head.failed_by(Cause::ResetUnanswered), 4, "{:?}", head.failures);
    let body = at("body");
    assert_eq!(body.failed_by(Cause::ResetEarly) + body.failed_by(Cause::ResetUnanswered), 4, "{:?}", body.failures);
}

#[test]
fn a_kept_connection_is_closed_without_a_word() {
    let closing = Closing { after_requests: Some(2), unannounced: true, ..Closing::default() };
    let origin = origin(origin::Options { closing, ..origin::Options::default() });
    let whole = run(requests(target(origin.address(), "/"), 60, 2)).record.whole();
    // The FIN may arrive with the response, and then no request is lost.
    assert_eq!(whole.responses + whole.failed_by(Cause::KeepaliveRace), 60, "{:?}", whole.failures);
}

#[test]
fn the_target_closes_too_early() {
    expect_all(&answered_with(b""), Cause::ClosedUnanswered, 2);
    expect_all(&answered_with(b"HTTP/1.1 200 OK\r\nContent-"), Cause::ClosedEarly, 2);
    expect_all(&answered_with(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"), Cause::ClosedEarly, 2);
}

#[test]
fn the_target_speaks_something_else() {
    expect_all(&answered_with(b"SSH-2.0-OpenSSH_9.2\r\n"), Cause::NotHttp, 2);
    expect_all(&answered_with(b"\x15\x03\x01\x00\x02\x02\x46"), Cause::SpeaksTls, 2);
    expect_all(&answered_with(b"\x00\x00\x12\x04\x00\x00\x00\x00\x00\x00"), Cause::SpeaksHttp2, 2);
    expect_all(&answered_with(b"HTTP/1.1 200 OK\r\nbad line\r\n\r\n"), Cause::BadHead, 2);
    let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n";
    expect_all(&answered_with(chunked), Cause::BadBody, 2);
}

#[test]
fn counts_unrequested_bytes_once() {
    let whole = answered_with(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nabc");
    assert_eq!((whole.responses, whole.failed_by(Cause::Unasked), whole.failed()), (2, 2, 2), "{:?}", whole.failures);
}

#[test]
fn impossible_load_is_refused_before_its_first_socket() {
    let origin = origin(origin::Options::default());
    let error = load::start(requests(target(origin.address(), "/"), 1, 5_000_000)).unwrap_err().to_string();
    assert!(error.contains("are needed") && error.contains("are there"), "{error}");
    assert_eq!(origin.counts().connections_accepted, 0);
}
