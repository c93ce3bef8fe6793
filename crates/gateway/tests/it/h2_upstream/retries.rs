//! GOAWAY, `REFUSED_STREAM` and lost connections: what is retried, and how it counts.

use crate::h2_upstream::{gateway, metric, peer, telling_peer};
use http2::ErrorCode;
use testkit::{Http2Talk, Peer};

const POST: &str = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nworld";

#[test]
fn h57_goaway_retries_later_streams_and_finishes_earlier_ones() {
    let peer = peer(|mut service| {
        if service.serial() > 0 {
            while let Some((stream, _)) = service.whole_request() {
                service.answer(stream, "again");
            }
            return;
        }
        let first = service.request().unwrap();
        let second = service.request().unwrap();
        service.go_away(first, ErrorCode::NO_ERROR);
        service.until("no news", |service| !service.so_far(second).path.is_empty());
        service.answer(first, "first");
        service.end();
    });
    let gateway = gateway("", "", &[&peer]);
    let mut first = gateway.client();
    first.send_get("/first", "");
    testkit::until("a stream", || (metric(&gateway, "holdfast_upstream_http2_streams") == 1).then_some(()));
    // The group has one peer, and a POST is not idempotent: the peer's statement that it did not process the request is
    // enough.
    let mut second = gateway.client();
    second.send(POST);
    assert_eq!((first.response().text(), second.response().text()), ("first".into(), "again".into()));
    assert_eq!(peer.connections(), 2);
    let line = "holdfast_upstream_retries_total{group=\"peers\",reason=\"gone_away\"}";
    assert_eq!(metric(&gateway, line), 1);
    assert!(gateway.logged("upstream sent GOAWAY").contains("has not looked at the request"));
}

#[test]
fn h58_refused_stream_is_retried_for_any_method() {
    let refusing = peer(|mut service| {
        while let Some((stream, _)) = service.whole_request() {
            service.reset(stream, ErrorCode::REFUSED_STREAM);
        }
    });
    let good = telling_peer();
    let gateway = gateway("", "proxy_next_upstream off;", &[&refusing, &good]);
    let mut client = gateway.client();
    client.send(POST);
    assert_eq!(client.response().text(), "connection 0");
    let lines = gateway.access_lines(1);
    assert!(lines[0].contains("tries=502, 200"), "{lines:?}");
    assert_eq!(metric(&gateway, "holdfast_upstream_retries_total{group=\"peers\",reason=\"stream_refused\"}"), 1);
}

#[test]
fn h58_tries_end_also_where_a_peer_refuses_each_stream() {
    let refusing = peer(|mut service| {
        while let Some((stream, _)) = service.whole_request() {
            service.reset(stream, ErrorCode::REFUSED_STREAM);
        }
    });
    let gateway = gateway("", "", &[&refusing]);
    assert_eq!(gateway.client().get("/", "").status(), 502);
    let lines = gateway.access_lines(1);
    assert!(lines[0].starts_with("502 ") && lines[0].contains("tries=502, 502"), "{lines:?}");
}

#[test]
fn h59_a_body_that_was_streamed_is_not_sent_again() {
    let refusing = peer(|mut service| {
        while let Some(stream) = service.request() {
            service.until("a part of the body", |service| !service.so_far(stream).body.is_empty());
            service.reset(stream, ErrorCode::REFUSED_STREAM);
        }
    });
    let good = telling_peer();
    let gateway = gateway("", "proxy_request_buffering off;", &[&refusing, &good]);
    let mut client = Http2Talk::connect(gateway.address());
    let stream = client.open("POST", "/", &[], false);
    client.send(stream, b"part", false);
    assert_eq!(client.answer(stream).status, 502);
    assert_eq!(good.connections(), 0);
}

#[test]
fn h60_lost_connection_is_retried_only_after_reuse() {
    let peer = peer(|mut service| {
        let first = service.serial() == 0;
        while let Some((stream, asked)) = service.whole_request() {
            if asked.path == "/lost" && first {
                return service.abort();
            }
            service.answer(stream, &asked.path);
        }
    });
    let gateway = gateway("", "", &[&peer]);
    let mut client = gateway.client();
    assert_eq!(client.get("/kept", "").text(), "/kept");
    // An idempotent request on a reused connection: repeated on a fresh one.
    assert_eq!(client.get("/lost", "").text(), "/lost");
    assert_eq!(peer.connections(), 2);
    let line = "holdfast_upstream_retries_total{group=\"peers\",reason=\"reused_connection\"}";
    assert_eq!(metric(&gateway, line), 1);
}

#[test]
fn h61_resets_in_each_state_have_their_statuses() {
    let peer = peer(|mut service| {
        while let Some(stream) = service.request() {
            let path = service.so_far(stream).path.clone();
            match &*path {
                // Before the head: as in nginx, a malformed answer.
                "/head" => service.reset(stream, ErrorCode::INTERNAL_ERROR),
                "/body" => {
                    service.respond(stream, 200, &[("content-length", "10")], false);
                    service.send(stream, b"part", false);
                    service.reset(stream, ErrorCode::INTERNAL_ERROR);
                }
                // The response is complete; the peer does not need the rest of the request.
                "/early" => {
                    service.respond(stream, 413, &[("content-length", "3")], false);
                    service.send(stream, b"big", true);
                    service.reset(stream, ErrorCode::NO_ERROR);
                }
                _ => service.answer(stream, "well"),
            }
        }
    });
    let gateway = gateway("", "proxy_request_buffering off;", &[&peer]);
    assert_eq!(gateway.client().get("/head", "").status(), 502);
    assert!(gateway.logged("upstream rejected request with error 2").contains("INTERNAL_ERROR"));
    let mut client = gateway.client();
    client.send_get("/body", "");
    let (response, _) = client.cut_response();
    assert_eq!((response.status(), response.text()), (200, "part".into()));
    let mut client = Http2Talk::connect(gateway.address());
    let stream = client.open("POST", "/early", &[], false);
    client.send_some(stream, b"begin");
    let answer = client.answer(stream);
    assert_eq!((answer.status, answer.text()), (413, "big".into()));
    assert_eq!(gateway.client().get("/", "").text(), "well");
    assert_eq!(peer.connections(), 1, "a stream ends, its connection stays");
}

#[test]
fn h62_malformed_frames_close_the_connection_with_a_reason() {
    /// Makes the frame for a stream.
    type MakeFrame = fn(u32) -> Vec<u8>;
    let faults: [(&str, MakeFrame); 4] = [
        ("settings_value", |_| testkit::http2_frame(4, 0, 0, &[0, 5, 0, 0, 0, 1])),
        ("push", |stream| testkit::http2_frame(5, 4, stream, &[0, 0, 0, 2])),
        ("compression", |stream| testkit::http2_frame(1, 4, stream, &[0xFF, 0xFF, 0xFF, 0xFF, 0x7F])),
        ("frame_too_large", |stream| {
            let mut frame = testkit::http2_frame(0, 0, stream, b"");
            frame[..3].copy_from_slice(&[0xFF, 0xFF, 0xFF]);
            frame
        }),
    ];
    for (reason, fault) in faults {
        let peer = peer(move |mut service| {
            let Some(stream) = service.request() else { return };
            service.send_raw(&fault(stream));
            service.end();
            assert!(service.goaway.is_some_and(|code| code != ErrorCode::NO_ERROR), "GOAWAY says what was wrong");
        });
        let good = telling_peer();
        let listed = gateway("", "proxy_next_upstream error timeout invalid_header;", &[&peer, &good]);
        assert_eq!(listed.client().get("/", "").text(), "connection 0", "{reason}");
        let alone = gateway("", "", &[&peer]);
        assert_eq!(alone.client().get("/", "").status(), 502, "{reason}");
        assert!(alone.logged("upstream broke off HTTP/2: ").contains("while reading response header"), "{reason}");
        let name = format!("holdfast_upstream_http2_connection_faults_total{{reason=\"{reason}\"}}");
        assert_eq!(metric(&alone, &name), 1, "{reason}");
    }
}

#[test]
fn h62_a_peer_of_http1_is_reported() {
    let peer = Peer::saying("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    let gateway = gateway("", "", &[&peer]);
    assert_eq!(gateway.client().get("/", "").status(), 502);
    assert!(gateway.logged("upstream answers in HTTP/1").contains("answers in HTTP/1"));
}
