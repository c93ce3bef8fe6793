//! The ends of streams and connections: clients that leave, peers that send GOAWAY or fall silent.

use crate::h2_upstream::{gateway, metric, peer, telling_peer};
use http2::ErrorCode;
use std::sync::mpsc;
use testkit::{Http2Talk, Peer, Signal, Talk, until};

#[test]
fn h68_leaving_client_resets_only_its_stream() {
    let (tell, told) = mpsc::channel();
    let peer = peer(move |mut service| {
        while let Some(stream) = service.request() {
            if service.so_far(stream).path == "/left" {
                service.until("a reset", |service| service.so_far(stream).reset.is_some());
                tell.send(service.so_far(stream).reset).unwrap();
            } else {
                let text = format!("connection {}", service.serial());
                service.answer(stream, &text);
            }
        }
    });
    let gateway = gateway("", "", &[&peer]);
    let mut client = gateway.client();
    client.send_get("/left", "");
    until("a stream", || (metric(&gateway, "holdfast_upstream_http2_streams") == 1).then_some(()));
    client.reset();
    assert_eq!(told.recv_timeout(testkit::DEADLINE).unwrap(), Some(ErrorCode::CANCEL));
    assert_eq!(gateway.client().get("/", "").text(), "connection 0");
    assert!(gateway.access_lines(1)[0].starts_with("499 "));
}

#[test]
fn h69_idle_connection_answers_pings_and_notices_its_end() {
    let (go_ping, go_away, go_close) = (Signal::new(), Signal::new(), Signal::new());
    let (pinging, leaving, closing) = (go_ping.clone(), go_away.clone(), go_close.clone());
    let (tell, told) = mpsc::channel();
    let peer = peer(move |mut service| {
        let Some((stream, _)) = service.whole_request() else { return };
        service.answer(stream, "one");
        if service.serial() == 0 {
            while !pinging.is_raised() {
                service.step();
            }
            service.send_raw(&testkit::http2_frame(6, 0, 0, b"whether?"));
            service.until("the answer to a PING", |service| service.pongs > 0);
            tell.send(()).unwrap();
            // It keeps serving.
            let (stream, _) = service.whole_request().unwrap();
            service.answer(stream, "two");
            while !leaving.is_raised() {
                service.step();
            }
            service.go_away(stream, ErrorCode::NO_ERROR);
            service.end();
        } else {
            while !closing.is_raised() {
                service.step();
            }
            service.close();
        }
    });
    let gateway = gateway("", "", &[&peer]);
    let mut client = gateway.client();
    let idle = "holdfast_upstream_connections{group=\"peers\",state=\"idle\"}";
    let discarded = |reason: &str| format!("holdfast_upstream_discarded_total{{group=\"peers\",reason=\"{reason}\"}}");
    assert_eq!(client.get("/", "").text(), "one");
    until("an idle connection", || (metric(&gateway, idle) == 1).then_some(()));
    go_ping.raise();
    told.recv_timeout(testkit::DEADLINE).unwrap();
    until("an idle connection again", || (metric(&gateway, idle) == 1).then_some(()));
    assert_eq!(client.get("/", "").text(), "two");
    until("an idle connection", || (metric(&gateway, idle) == 1).then_some(()));
    go_away.raise();
    until("GOAWAY", || (metric(&gateway, &discarded("gone_away")) == 1).then_some(()));
    assert_eq!(client.get("/", "").text(), "one", "on another connection");
    until("an idle connection", || (metric(&gateway, idle) == 1).then_some(()));
    go_close.raise();
    until("a FIN", || (metric(&gateway, &discarded("peer_closed_idle")) == 1).then_some(()));
    assert_eq!(peer.connections(), 2);
}

#[test]
fn h69_fault_on_an_idle_connection_is_logged_and_counted() {
    let (go, (tell, told)) = (Signal::new(), mpsc::channel());
    let breaks = go.clone();
    let peer = peer(move |mut service| {
        let Some((stream, _)) = service.whole_request() else { return };
        service.answer(stream, "one");
        if service.serial() == 0 {
            while !breaks.is_raised() {
                service.step();
            }
            // PUSH_PROMISE: the gateway has not allowed it.
            service.send_raw(&testkit::http2_frame(5, 4, stream, &[0, 0, 0, 2]));
            service.until("GOAWAY", |service| service.goaway.is_some());
            tell.send(service.goaway).unwrap();
        }
    });
    let gateway = gateway("", "", &[&peer]);
    assert_eq!(gateway.client().get("/", "").text(), "one");
    let idle = "holdfast_upstream_connections{group=\"peers\",state=\"idle\"}";
    until("an idle connection", || (metric(&gateway, idle) == 1).then_some(()));
    go.raise();
    assert_eq!(told.recv_timeout(testkit::DEADLINE).unwrap(), Some(ErrorCode::PROTOCOL_ERROR));
    let line = gateway.logged("upstream broke off HTTP/2: a push that is not allowed while idle");
    assert!(line.contains(&format!("upstream: \"{}\"", peer.address())), "{line}");
    let faults = "holdfast_upstream_http2_connection_faults_total{reason=\"push\"}";
    until("it is counted", || (metric(&gateway, faults) == 1).then_some(()));
    assert_eq!(gateway.client().get("/", "").text(), "one", "on another connection");
}

#[test]
fn h70_peer_without_a_ping_answer_is_closed() {
    let silent = Peer::script(|talk: Talk| {
        // It reads everything and sends only its settings.
        let mut service = testkit::Http2Service::new(talk);
        service.request();
        service.until_gone();
    });
    let good = telling_peer();
    let group = "http2_ping 200ms timeout=200ms;";
    let gateway = gateway(group, "proxy_next_upstream timeout;", &[&silent, &good]);
    assert_eq!(gateway.client().get("/", "").text(), "connection 0");
    assert!(gateway.logged("upstream did not answer a PING in time").contains("while reading response header"));
    assert_eq!(metric(&gateway, "holdfast_upstream_discarded_total{group=\"peers\",reason=\"ping_timeout\"}"), 1);
}

#[test]
fn h70_a_slow_peer_that_answers_pings_is_waited_for() {
    let peer = peer(|mut service| {
        let Some(stream) = service.request() else { return };
        let begun = std::time::Instant::now();
        while begun.elapsed() < std::time::Duration::from_secs(1) {
            service.step();
        }
        assert!(service.pings > 1, "{} pings", service.pings);
        service.answer(stream, "late");
        service.end();
    });
    let gateway = gateway("http2_ping 100ms timeout=900ms;", "", &[&peer]);
    assert_eq!(gateway.client().get("/", "").text(), "late");
}

#[test]
fn h71_dead_peer_fails_all_requests_in_line() {
    let refusing = testkit::Refusing::new();
    let text = "worker_processes 1; events { worker_connections 64; } http { server { listen {listen}; http2 on; \
        location / { proxy_pass http://{upstream:0}; proxy_http_version 2; } } }";
    let gateway = testkit::Gateway::start(text, &[refusing.address()]);
    let mut client = Http2Talk::connect(gateway.address());
    let streams: Vec<u32> = (0..5).map(|_| client.open("GET", "/", &[], true)).collect();
    for stream in streams {
        assert_eq!(client.answer(stream).status, 502);
    }
    assert!(gateway.logged("failed (111").contains("while connecting to upstream"));
}

#[test]
fn h72_read_timeout_resets_the_stream() {
    let (tell, told) = mpsc::channel();
    let peer = peer(move |mut service| {
        let Some(stream) = service.request() else { return };
        service.until("a reset", |service| service.so_far(stream).reset.is_some());
        tell.send(service.so_far(stream).reset).unwrap();
        let Some((stream, _)) = service.whole_request() else { return };
        service.answer(stream, "next");
        service.end();
    });
    let gateway = gateway("", "proxy_read_timeout 300ms;", &[&peer]);
    assert_eq!(gateway.client().get("/", "").status(), 504);
    assert_eq!(told.recv_timeout(testkit::DEADLINE).unwrap(), Some(ErrorCode::CANCEL));
    assert_eq!(gateway.client().get("/", "").text(), "next");
    assert_eq!(peer.connections(), 1);
}
