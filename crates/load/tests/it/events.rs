//! Loads of server-sent events against the built-in origin: streams opened, held, ended and opened again after the last id.
//! No test here measures speed.
#![allow(clippy::unwrap_used)] // a failed step is the end of a test

use crate::scene::{origin, server};
use load::Cause;
use load::websocket::{Ending, EventOptions, WebSocketExpectation, WebSocketOptions, WebSocketSummary, start};
use std::net::SocketAddr;
use std::time::Duration;
use testkit::Peer;

fn options(address: SocketAddr, path: &str, connections: usize, hold_ms: u64) -> WebSocketOptions {
    WebSocketOptions {
        connections,
        hold: Duration::from_millis(hold_ms),
        drain: Duration::from_secs(10),
        events: Some(EventOptions { time: Some("/sent_us".parse().unwrap()), in_sequence: true, http2: false }),
        ..WebSocketOptions::new(format!("http://{address}{path}").parse().unwrap())
    }
}

fn run(options: WebSocketOptions) -> WebSocketSummary {
    start(options).unwrap().wait().unwrap()
}

const RECONNECT: Option<(Duration, Duration)> = Some((Duration::from_millis(1), Duration::from_millis(20)));

#[test]
fn events_are_counted_and_timed_until_the_load_closes() {
    let origin = origin(origin::Options::default());
    let summary = run(WebSocketOptions { threads: 2, ..options(origin.address(), "/events?every=5", 20, 1000) });
    let record = &summary.record;
    assert_eq!((record.established, record.failed(), record.losses(), record.open), (20, 0, 0, 20));
    assert_eq!((record.ended_by(Ending::Done), record.handshake.count()), (20, 20));
    assert!(record.delivered >= 40, "{} events", record.delivered);
    assert_eq!((record.lost, record.surplus, record.unstamped, record.resumed), (0, 0, 0, 0));
    assert_eq!((record.delivery.count(), record.between.count()), (record.delivered, record.delivered - 20));
    assert!(record.between.quantile_ns(0.5) > 0 && record.expected == record.delivered);
    let met = |text: &str| text.parse::<WebSocketExpectation>().unwrap().judge(&summary, &summary.health()).met;
    assert!(met("events>=40") && met("lost=0") && met("unstamped=0") && met("open=100%"));
    assert!(!met("between_p99<1us") && !met("complete>0"));
}

#[test]
fn streams_that_end_are_opened_again_after_the_last_id() {
    let origin = origin(origin::Options::default());
    for (by, ending) in [("", Ending::Complete), ("&by=fin", Ending::Fin), ("&by=reset", Ending::Reset)] {
        let path = format!("/events?every=2&count=5{by}");
        let record = run(WebSocketOptions { reconnect: RECONNECT, ..options(origin.address(), &path, 4, 400) }).record;
        assert!(record.ended_by(ending) > 0, "{by}: {:?}", record.endings);
        assert!(record.resumed > 0 && record.again >= record.resumed, "{by}: {}", record.resumed);
        // A reset may destroy events that were sent, and then the stream continues after the last that came.
        assert_eq!((record.lost, record.surplus), (0, 0), "{by}");
        assert!(record.delivered > 4 * 5, "{by}: {}", record.delivered);
    }
}

#[test]
fn without_reconnect_an_end_is_a_loss() {
    let origin = origin(origin::Options::default());
    let record = run(options(origin.address(), "/events?every=1&count=3", 4, 300)).record;
    assert_eq!((record.ended_by(Ending::Complete), record.losses(), record.delivered), (4, 4, 12));
}

#[test]
fn a_target_that_forgets_the_last_id_is_found_out() {
    // Its numbers go 1, 2, 5 in each response.
    let events = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nContent-Length: 39\r\n\r\n\
                          id:1\ndata:a\n\nid:2\ndata:b\n\nid:5\ndata:c\n\n";
    let peer = Peer::saying_once(events);
    let address = peer.address();
    let once = run(options(address, "/", 1, 200)).record;
    assert_eq!((once.delivered, once.lost, once.surplus, once.unstamped), (3, 2, 0, 3));
    let again = run(WebSocketOptions { reconnect: RECONNECT, ..options(address, "/", 1, 300) }).record;
    assert!(again.resumed > 0 && again.surplus > 0, "{again:?}");
}

#[test]
fn responses_without_events_are_named() {
    let origin = origin(origin::Options::default());
    let missing = run(options(origin.address(), "/nothing", 3, 100)).record;
    assert_eq!((missing.statuses.get(&404), missing.established), (Some(&3), 0));
    let page = run(options(origin.address(), "/page", 3, 100)).record;
    assert_eq!((page.bad_handshakes, page.established), (3, 0));
    let silent = server(|mut stream| {
        // Reads until the client gives up.
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    });
    let timeout = Duration::from_millis(100);
    let waited = run(WebSocketOptions { timeout, ..options(silent, "/", 2, 400) }).record;
    assert_eq!((waited.failed_by(Cause::Silent), waited.established), (2, 0));
}

#[test]
fn status_204_stops_the_client() {
    let peer = Peer::saying("HTTP/1.1 204 No Content\r\n\r\n");
    let record = run(WebSocketOptions { reconnect: RECONNECT, ..options(peer.address(), "/", 2, 300) }).record;
    assert_eq!((record.statuses.get(&204), peer.requests().len()), (Some(&2), 2));
}

#[test]
fn a_storm_resumes_every_stream() {
    let origin = origin(origin::Options::default());
    let storm = Some(load::websocket::Storm { after: Duration::from_millis(200), share: 1.0 });
    let record =
        run(WebSocketOptions { reconnect: RECONNECT, storm, ..options(origin.address(), "/events?every=5", 8, 800) })
            .record;
    // On a busy machine the storm comes before all have connected.
    let ended = record.ended_by(Ending::Storm);
    assert!(ended > 0 && ended <= 8, "{record:?}");
    assert_eq!((record.again, record.unrecovered), (ended, 0));
    assert_eq!((record.lost, record.surplus), (0, 0), "the origin continues after the last id");
    assert!(record.resumed > 0);
}

/// The same load with streams of HTTP/2.
fn over_http2(options: WebSocketOptions) -> WebSocketOptions {
    let events = options.events.map(|events| EventOptions { http2: true, ..events });
    WebSocketOptions { events, ..options }
}

#[test]
fn http2_events_are_counted_and_timed_until_the_end() {
    let origin = origin(origin::Options::default());
    let summary =
        run(over_http2(WebSocketOptions { threads: 2, ..options(origin.address(), "/events?every=5", 20, 1000) }));
    let record = &summary.record;
    assert_eq!((record.established, record.failed(), record.losses(), record.open), (20, 0, 0, 20));
    assert_eq!((record.ended_by(Ending::Done), origin.counts().http2_connections), (20, 20));
    assert!(record.delivered >= 40, "{} events", record.delivered);
    assert_eq!((record.lost, record.surplus, record.unstamped, record.resumed), (0, 0, 0, 0));
    assert_eq!((record.delivery.count(), record.between.count()), (record.delivered, record.delivered - 20));
}

#[test]
fn ended_http2_event_streams_reopen_after_the_last_id() {
    let origin = origin(origin::Options::default());
    for (by, ending) in [("", Ending::Complete), ("&by=reset", Ending::Reset)] {
        let path = format!("/events?every=2&count=5{by}");
        let load = over_http2(WebSocketOptions { reconnect: RECONNECT, ..options(origin.address(), &path, 4, 400) });
        let record = run(load).record;
        assert!(record.ended_by(ending) > 0, "{by}: {:?}", record.endings);
        assert!(record.resumed > 0 && record.again >= record.resumed, "{by}: {}", record.resumed);
        assert_eq!((record.lost, record.surplus), (0, 0), "{by}");
        assert!(record.delivered > 4 * 5, "{by}: {}", record.delivered);
    }
}

#[test]
fn over_http2_responses_without_events_are_named() {
    let origin = origin(origin::Options::default());
    let missing = run(over_http2(options(origin.address(), "/nothing", 3, 100))).record;
    assert_eq!((missing.statuses.get(&404), missing.established), (Some(&3), 0));
    let page = run(over_http2(options(origin.address(), "/page", 3, 100))).record;
    assert_eq!((page.bad_handshakes, page.established), (3, 0));
    let http1 = Peer::saying_once("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
    let refused = run(over_http2(options(http1.address(), "/", 2, 100))).record;
    assert_eq!((refused.failed_by(Cause::NoHttp2), refused.established), (2, 0), "{:?}", refused.failures);
}

/// The events are more than the windows have at the beginning.
#[test]
fn over_http2_large_events_open_the_window_again_under_tls() {
    let pair = tls::Pair::self_made(&["127.0.0.1".to_owned()]).unwrap();
    let side = tls::ServerSide::new().pair(pair).alpn(["h2"]).build().unwrap();
    let secure = origin::Tls::new(side);
    let origin = origin(origin::Options { tls: Some(secure), ..origin::Options::default() });
    let url = format!("https://{}/events?every=1&size=60000", origin.address()).parse().unwrap();
    let load = WebSocketOptions { url, ..over_http2(options(origin.address(), "/", 2, 1000)) };
    let record =
        run(WebSocketOptions { tls: load::TlsOptions { insecure: true, ..load::TlsOptions::default() }, ..load })
            .record;
    assert_eq!((record.established, record.failed(), record.losses()), (2, 0, 0), "{:?}", record.failures);
    assert!(record.bytes_received > 8 << 20, "{} bytes", record.bytes_received);
}
