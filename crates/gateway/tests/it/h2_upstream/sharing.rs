//! Which connection a request uses, and when another one is opened.

use crate::h2_upstream::{gateway, metric, telling_peer};
use http2::Config;
use testkit::{Http2Service, Http2Talk, Peer, Signal, until};

/// A peer that allows this many streams at once, and answers when the signal is raised.
fn narrow_peer(streams_max: u32, go: &Signal) -> Peer {
    let go = go.clone();
    Peer::script(move |talk| {
        let mut service = Http2Service::with(talk, Config { streams_max, ..Config::default() });
        let mut asked = Vec::new();
        while !service.is_closed() {
            service.step();
            asked.extend(service.next_request());
            if go.is_raised() {
                for stream in asked.drain(..) {
                    let text = format!("connection {}", service.serial());
                    service.answer(stream, &text);
                }
            }
        }
    })
}

#[test]
fn h63_concurrent_requests_share_one_connection() {
    let go = Signal::new();
    let peer = narrow_peer(100, &go);
    let gateway = gateway("", "", &[&peer]);
    let mut client = Http2Talk::connect(gateway.address());
    let streams: Vec<u32> = (0..20).map(|_| client.open("GET", "/", &[], true)).collect();
    until("all streams", || (metric(&gateway, "holdfast_upstream_http2_streams") == 20).then_some(()));
    assert_eq!(metric(&gateway, "holdfast_upstream_http2_connections"), 1);
    go.raise();
    for stream in streams {
        assert_eq!(client.answer(stream).text(), "connection 0");
    }
    until("rest", || (metric(&gateway, "holdfast_upstream_http2_connections") == 0).then_some(()));
    let idle = "holdfast_upstream_connections{group=\"peers\",state=\"idle\"}";
    until("an idle connection", || (metric(&gateway, idle) == 1).then_some(()));
    assert_eq!(client.get("/").text(), "connection 0");
    assert_eq!(peer.connections(), 1);
}

#[test]
fn h64_requests_spread_over_connections_when_streams_run_out() {
    let go = Signal::new();
    let peer = narrow_peer(2, &go);
    let gateway = gateway("", "", &[&peer]);
    let mut client = Http2Talk::connect(gateway.address());
    let streams: Vec<u32> = (0..6).map(|_| client.open("GET", "/", &[], true)).collect();
    until("all streams", || (metric(&gateway, "holdfast_upstream_http2_streams") == 6).then_some(()));
    go.raise();
    for stream in streams {
        assert_eq!(client.answer(stream).status, 200);
    }
    assert!((3..=6).contains(&peer.connections()), "{} connections", peer.connections());
    assert_eq!(metric(&gateway, "holdfast_upstream_retries_total{group=\"peers\",reason=\"stream_refused\"}"), 0);
}

#[test]
fn h64_requests_wait_for_the_peers_settings() {
    let settings = Signal::new();
    let wait = settings.clone();
    let peer = Peer::script(move |talk| {
        wait.wait();
        // A second stream would be refused, and end this script.
        let mut service = Http2Service::with(talk, Config { streams_max: 1, ..Config::default() });
        while let Some((stream, _)) = service.whole_request() {
            service.answer(stream, "here");
        }
    });
    let gateway = gateway("", "", &[&peer]);
    let mut client = Http2Talk::connect(gateway.address());
    let mut streams = vec![client.open("GET", "/", &[], true)];
    until("the first is sent", || (metric(&gateway, "holdfast_upstream_http2_streams") == 1).then_some(()));
    streams.extend((0..3).map(|_| client.open("GET", "/", &[], true)));
    // What comes behind them on the same connection is answered: they have been taken.
    assert_eq!(client.get("/metrics").status, 200);
    assert_eq!(metric(&gateway, "holdfast_upstream_http2_streams"), 1);
    until("the peer has accepted it", || (peer.connections() > 0).then_some(()));
    assert_eq!(peer.connections(), 1, "no other connection is opened before the settings are known");
    settings.raise();
    for stream in streams {
        assert_eq!(client.answer(stream).text(), "here");
    }
    assert_eq!(metric(&gateway, "holdfast_upstream_retries_total{group=\"peers\",reason=\"stream_refused\"}"), 0);
}

#[test]
fn h65_max_connections_holds_and_requests_wait_for_a_stream() {
    let go = Signal::new();
    let peer = narrow_peer(1, &go);
    let gateway = gateway("max_connections 2 queue=10 timeout=10s;", "", &[&peer]);
    let mut client = Http2Talk::connect(gateway.address());
    let streams: Vec<u32> = (0..6).map(|_| client.open("GET", "/", &[], true)).collect();
    until("two streams", || (metric(&gateway, "holdfast_upstream_http2_streams") == 2).then_some(()));
    let waiting = || metric(&gateway, "holdfast_upstream_waiting_requests{group=\"peers\"}");
    until("the others in line", || (waiting() == 4).then_some(()));
    // A request that is given up is not in line any more.
    client.reset(streams[5]);
    until("three in line", || (waiting() == 3).then_some(()));
    go.raise();
    for &stream in &streams[..5] {
        assert_eq!(client.answer(stream).status, 200);
    }
    assert_eq!((peer.connections(), waiting()), (2, 0));
}

#[test]
fn h66_lowered_limit_applies_to_new_streams() {
    let go = Signal::new();
    let (wait, lowered) = (go.clone(), Signal::new());
    let tell = lowered.clone();
    let peer = Peer::script(move |talk| {
        let mut service = Http2Service::new(talk);
        let mut asked = Vec::new();
        let mut is_lowered = service.serial() > 0;
        while !service.is_closed() {
            service.step();
            asked.extend(service.next_request());
            if asked.len() == 2 && !is_lowered {
                is_lowered = true;
                // SETTINGS_MAX_CONCURRENT_STREAMS: the two open streams stay.
                service.change_setting(3, 1);
                tell.raise();
            }
            if wait.is_raised() {
                for stream in asked.drain(..) {
                    let text = format!("connection {}", service.serial());
                    service.answer(stream, &text);
                }
            }
        }
    });
    let gateway = gateway("", "", &[&peer]);
    let mut client = Http2Talk::connect(gateway.address());
    let mut streams: Vec<u32> = (0..2).map(|_| client.open("GET", "/", &[], true)).collect();
    until("two streams", || (metric(&gateway, "holdfast_upstream_http2_streams") == 2).then_some(()));
    lowered.wait();
    streams.push(client.open("GET", "/", &[], true));
    until("a third stream", || (metric(&gateway, "holdfast_upstream_http2_streams") == 3).then_some(()));
    assert_eq!(metric(&gateway, "holdfast_upstream_http2_connections"), 2);
    go.raise();
    let texts: Vec<String> = streams.into_iter().map(|stream| client.answer(stream).text()).collect();
    assert_eq!(texts, ["connection 0", "connection 0", "connection 1"]);
}

#[test]
fn h63_a_floor_opens_connections_that_speak_http2_at_once() {
    let peer = telling_peer();
    let gateway = gateway("keepalive 4 floor=2;", "", &[&peer]);
    let idle = "holdfast_upstream_connections{group=\"peers\",state=\"idle\"}";
    until("a floor", || (metric(&gateway, idle) == 2).then_some(()));
    assert!(gateway.client().get("/", "").text().starts_with("connection "));
    until("a floor", || (metric(&gateway, idle) == 2).then_some(()));
    assert_eq!(peer.connections(), 2);
}

#[test]
fn h67_keepalive_requests_retires_a_connection() {
    let peer = telling_peer();
    let gateway = gateway("keepalive_requests 2;", "", &[&peer]);
    let mut client = gateway.client();
    let texts: Vec<String> = (0..4).map(|_| client.get("/", "").text()).collect();
    assert_eq!(texts, ["connection 0", "connection 0", "connection 1", "connection 1"]);
}
