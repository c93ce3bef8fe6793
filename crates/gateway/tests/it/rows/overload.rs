//! L3 and L5–L8: too many connections, slow clients, large bodies.

use crate::site::{GET, HELLO, Site, post, text};
use std::time::{Duration, Instant};
use testkit::{End, Gateway, Peer, Signal, until};

const ALIVE: &str = "GET /alive HTTP/1.1\r\nHost: a\r\n\r\n";

fn few_connections(count: usize, peer: &Peer) -> Gateway {
    let conf = text(1, "", "").replace("worker_connections 64", &format!("worker_connections {count}"));
    Gateway::start(&conf, &[peer.address()])
}

#[test]
fn l03_oldest_idle_connection_closes_at_the_limit() {
    let peer = Peer::saying(HELLO);
    let gateway = few_connections(3, &peer);
    let mut clients: Vec<_> = (0..3).map(|_| gateway.client()).collect();
    for client in &mut clients {
        client.send(ALIVE);
        assert_eq!(client.response().text(), "alive");
    }
    // The first one is used again, so the second one has been idle for longest.
    until("a later millisecond", {
        let begun = Instant::now();
        move || (begun.elapsed() > Duration::from_millis(5)).then_some(())
    });
    clients[0].send(ALIVE);
    assert_eq!(clients[0].response().text(), "alive");
    let mut newcomer = gateway.client();
    newcomer.send(ALIVE);
    assert_eq!(newcomer.response().text(), "alive");
    assert_eq!(clients[1].end(), End::Fin);
    for index in [0, 2] {
        clients[index].send(ALIVE);
        assert_eq!(clients[index].response().text(), "alive");
    }
    assert_eq!(gateway.totals().active, 3);
}

/// Waits until the worker's clock has advanced, so that earlier connections are older.
fn a_later_millisecond() {
    let begun = Instant::now();
    until("a later millisecond", move || (begun.elapsed() > Duration::from_millis(5)).then_some(()));
}

#[test]
fn l03_connections_without_a_complete_request_give_way_first() {
    let peer = Peer::saying(HELLO);
    let gateway = few_connections(4, &peer);
    let mut idle = gateway.client();
    idle.send(ALIVE);
    assert_eq!(idle.response().text(), "alive");
    a_later_millisecond();
    let mut half = gateway.client();
    half.send("GET / HTTP/1.1\r\nHo");
    gateway.until_totals("half a head", |totals| totals.reading == 1);
    a_later_millisecond();
    let silent = gateway.client();
    gateway.until_totals("three connections", |totals| totals.active == 3);
    a_later_millisecond();
    let mut second = gateway.client();
    second.send("GET / HTTP/1.1\r\nHo");
    gateway.until_totals("two half heads", |totals| totals.reading == 2);
    let mut newcomers = Vec::new();
    for mut displaced in [half, silent, second] {
        let mut newcomer = gateway.client();
        newcomer.send(ALIVE);
        assert_eq!(newcomer.response().text(), "alive");
        assert_eq!(displaced.end(), End::Fin);
        newcomers.push(newcomer);
    }
    assert_eq!(gateway.totals().reading, 0);
    let line = gateway.logged("4 worker_connections are not enough; connections without a request are closed");
    assert!(line.contains(" [warn] "), "{line}");
    let mut newcomer = gateway.client();
    newcomer.send(ALIVE);
    assert_eq!(newcomer.response().text(), "alive");
    assert_eq!(idle.end(), End::Fin, "and then who is idle for longest");
}

#[test]
fn l03_silent_clients_do_not_block_others() {
    let peer = Peer::saying(HELLO);
    let gateway = few_connections(100, &peer);
    let mut kept = gateway.client();
    kept.send(ALIVE);
    assert_eq!(kept.response().text(), "alive");
    let silent: Vec<_> = (0..150).map(|_| gateway.client()).collect();
    gateway.until_totals("all are accepted", |totals| totals.accepted == 151);
    for _ in 0..20 {
        let mut client = gateway.client();
        client.send(GET);
        assert_eq!(client.response().text(), "hello");
    }
    kept.send(ALIVE);
    assert_eq!(kept.response().text(), "alive", "who has asked before stays");
    assert_eq!(gateway.shared().overload().connections_refused, 0);
    drop(silent);
}

#[test]
fn l03_clients_that_leave_do_not_block_others() {
    let asked = Signal::new();
    let peer = Peer::script({
        let asked = asked.clone();
        move |mut talk| {
            let Some(request) = talk.request() else { return };
            if request.target() == "/" {
                talk.send(HELLO);
            }
            asked.raise();
            talk.request();
        }
    });
    let gateway = few_connections(512, &peer);
    for leave in [testkit::Talk::close, testkit::Talk::half_close, testkit::Talk::reset] {
        let mut leavers = Vec::new();
        for _ in 0..700 {
            let mut client = gateway.client();
            client.send("GET /silent HTTP/1.1\r\nHost: a\r\n\r\n");
            leave(&mut client);
            leavers.push(client);
        }
        let mut client = gateway.client();
        client.send(GET);
        assert_eq!(client.response().text(), "hello");
        client.close();
        gateway.until_totals("all are gone", |totals| totals.active == 0);
    }
    assert_eq!(gateway.shared().overload().connections_refused, 0);
}

#[test]
fn l03_new_connection_is_closed_if_none_is_idle() {
    let (asked, go) = (Signal::new(), Signal::new());
    let peer = Peer::script({
        let (asked, go) = (asked.clone(), go.clone());
        move |mut talk| {
            while talk.request().is_some() {
                asked.raise();
                talk.wait(&go);
                talk.send(HELLO);
            }
        }
    });
    let gateway = few_connections(2, &peer);
    let (mut one, mut two) = (gateway.client(), gateway.client());
    one.send(GET);
    two.send(GET);
    gateway.until_totals("two exchanges", |totals| totals.writing == 2);
    let mut newcomer = gateway.client();
    assert!(newcomer.receives_within(testkit::DEADLINE));
    newcomer.rest();
    let line = gateway.logged("2 worker_connections are not enough");
    assert!(line.contains(" [alert] "), "{line}");
    go.raise();
    for client in [&mut one, &mut two] {
        assert_eq!(client.response().text(), "hello");
    }
    one.close();
    gateway.until_totals("room", |totals| totals.active == 1);
    let mut newcomer = gateway.client();
    newcomer.send(GET);
    assert_eq!(newcomer.response().text(), "hello");
    let totals = gateway.totals();
    assert_eq!((totals.accepted, totals.handled), (4, 3));
}

/// The configuration with a directive at the level of the server.
fn with_server(directive: &str) -> String {
    text(1, "", "").replace("listen {listen};", &format!("listen {{listen}}; {directive}"))
}

#[test]
fn l05_a_slow_head_is_refused_at_a_total_deadline() {
    let peer = Peer::saying(HELLO);
    let gateway = Gateway::start(&with_server("client_header_timeout 1s;"), &[peer.address()]);
    let mut client = gateway.client();
    client.send("GET /slow HTTP/1.1\r\nHost: a\r\nX: ");
    let begun = Instant::now();
    // An occasional byte is not enough.
    while !client.receives_within(Duration::from_millis(40)) {
        assert!(begun.elapsed() < testkit::DEADLINE, "bytes that trickle in keep the head open for ever");
        client.send("y");
    }
    let response = client.response();
    assert_eq!((response.status(), response.announces_close()), (408, true));
    assert_eq!(client.end(), End::Fin);
    let line = gateway.logged("client timed out (110: Connection timed out) while reading client request headers");
    assert!(line.contains("request: \"GET /slow HTTP/1.1\""), "{line}");
    assert_eq!(gateway.totals().reading, 0);
    crate::site::is_alive(&gateway);
}

#[test]
fn l05_silent_client_is_closed_without_answer() {
    let peer = Peer::saying(HELLO);
    let gateway = Gateway::start(&with_server("client_header_timeout 200ms;"), &[peer.address()]);
    let mut client = gateway.client();
    assert_eq!(client.end(), End::Fin);
    assert_eq!(gateway.access_log(), "");
    gateway.until_totals("no client", |totals| totals.active == 0);
}

#[test]
fn l05_deadline_starts_at_the_first_byte_of_a_later_request() {
    let peer = Peer::saying(HELLO);
    let gateway = Gateway::start(&with_server("client_header_timeout 1s; keepalive_timeout 20s;"), &[peer.address()]);
    let mut client = gateway.client();
    client.send(GET);
    assert_eq!(client.response().text(), "hello");
    // Idle for longer than a head may take.
    assert!(!client.receives_within(Duration::from_millis(1200)));
    client.send(GET);
    assert_eq!(client.response().text(), "hello");
    client.send("GET / HT");
    assert_eq!(client.response().status(), 408);
}

#[test]
fn l05_pipelined_head_deadline_starts_with_its_turn() {
    let peer = Peer::saying(HELLO);
    let gateway = Gateway::start(&with_server("client_header_timeout 2s; keepalive_timeout 20s;"), &[peer.address()]);
    let mut client = gateway.client();
    client.send(GET);
    assert_eq!(client.response().text(), "hello");
    // The connection is older than a head may take.
    assert!(!client.receives_within(Duration::from_millis(2200)));
    let (begun, rest) = GET.split_at(8);
    client.send(format!("{GET}{begun}"));
    assert_eq!(client.response().text(), "hello");
    assert!(!client.receives_within(Duration::from_millis(100)));
    client.send(rest);
    assert_eq!(client.response().text(), "hello");
    client.send(format!("{GET}{begun}"));
    assert_eq!(client.response().text(), "hello");
    assert_eq!(client.response().status(), 408);
}

#[test]
fn l05_an_idle_connection_is_closed_at_its_time() {
    let peer = Peer::saying(HELLO);
    let gateway = Gateway::start(&with_server("keepalive_timeout 200ms;"), &[peer.address()]);
    let mut client = gateway.client();
    client.send(GET);
    assert_eq!(client.response().text(), "hello");
    assert_eq!(client.end(), End::Fin);
}

#[test]
fn l06_a_slow_body_is_refused() {
    for buffering in ["on", "off"] {
        let location = format!("client_body_timeout 200ms; proxy_request_buffering {buffering};");
        let site = Site::with(Peer::saying(HELLO), &location);
        let mut client = site.client();
        client.send(post("Content-Length: 10\r\n") + "half");
        let response = client.response();
        assert_eq!((response.status(), response.announces_close()), (408, true));
        assert_eq!(client.end(), End::Fin);
        site.gateway.logged("client timed out (110: Connection timed out) while reading client request body");
        site.is_alive();
        assert_eq!(site.peer.requests(), [], "half a body is no request");
    }
}

#[test]
fn l06_a_body_that_comes_slowly_but_comes() {
    for buffering in ["on", "off"] {
        let location = format!("client_body_timeout 1500ms; proxy_request_buffering {buffering};");
        let site = Site::with(Peer::saying(HELLO), &location);
        let mut client = site.client();
        client.send(post("Content-Length: 5\r\n"));
        // The timeout applies between two reads, not to the total.
        for byte in ["w", "o", "r", "l"] {
            client.send(byte);
            assert!(!client.receives_within(Duration::from_millis(450)));
        }
        client.send("d");
        assert_eq!(client.response().text(), "hello");
        assert_eq!(site.peer.only_request().text(), "world");
    }
}

/// More than all buffers between two ends can hold.
const FLOOD: usize = 96 << 20;

#[test]
fn l07_slow_reader_is_bounded_and_closed_at_send_timeout() {
    for buffering in ["on", "off"] {
        let closed = Signal::new();
        let peer = Peer::script({
            let closed = closed.clone();
            move |mut talk| {
                if talk.request().is_none() {
                    return;
                }
                talk.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {FLOOD}\r\n\r\n"));
                let count = talk.flood_until_the_end(FLOOD);
                assert!(count < FLOOD, "the client read nothing, and {count} bytes were taken");
                closed.raise();
            }
        });
        let site = Site::with(peer, &format!("send_timeout 1s; proxy_buffering {buffering};"));
        let mut client = site.client();
        client.send(GET);
        assert!(client.receives_within(testkit::DEADLINE));
        site.is_alive();
        closed.wait();
        site.gateway.logged("client timed out (110: Connection timed out) while sending to client");
        let (response, _) = client.cut_response();
        assert!(response.body.len() < FLOOD);
        site.gateway.until_totals("no client", |totals| totals.active == 0);
    }
}

#[test]
fn l07_a_reader_that_is_slow_but_reads_gets_everything() {
    let body = "x".repeat(8 << 20);
    let site = Site::with(
        Peer::saying(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())),
        "proxy_buffers 4 4k; proxy_buffer_size 4k; proxy_busy_buffers_size 8k;",
    );
    let mut client = site.client();
    client.receive_buffer(256 * 1024);
    client.send(GET);
    let head = client.head().unwrap();
    assert_eq!(head.status(), 200);
    for _ in 0..16 {
        assert!(client.read(body.len() / 16).iter().all(|byte| *byte == b'x'));
    }
    client.send("GET /alive HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response().text(), "alive");
}

#[test]
fn l08_body_over_the_limit_is_refused_before_upload() {
    let site = Site::with(Peer::saying(HELLO), "client_max_body_size 10k;");
    let mut client = site.client();
    client.send(post("Content-Length: 10241\r\n"));
    assert_eq!(client.response().status(), 413);
    site.gateway.logged("client intended to send too large body: 10241 bytes");
    site.peer_saw_nothing();
    let just_fits = post("Content-Length: 10240\r\n") + &"x".repeat(10240);
    assert_eq!(site.ask(just_fits).text(), "hello");
}

#[test]
fn l08_chunked_body_is_refused_at_the_limit() {
    for location in ["", "client_body_buffer_size 1k;", "proxy_request_buffering off;"] {
        let site = Site::with(Peer::saying(HELLO), &format!("client_max_body_size 10k; {location}"));
        let mut client = site.client();
        client.send(post("Transfer-Encoding: chunked\r\n"));
        let chunk = format!("400\r\n{}\r\n", "z".repeat(1024));
        client.send(chunk.repeat(20));
        let response = client.response();
        assert_eq!((response.status(), response.announces_close()), (413, true), "{location}");
        assert_eq!(client.end(), End::Fin);
        site.gateway.logged("client intended to send too large chunked body");
        site.is_alive();
        assert_eq!(site.peer.requests(), [], "{location}: no whole request");
        let passed = site.peer.received(0).iter().filter(|byte| **byte == b'z').count();
        assert!(passed <= 10 * 1024, "{location}: {passed} bytes went on");
    }
}

#[test]
fn l08_large_bodies_within_the_limit_arrive_whole() {
    let body: Vec<u8> = (0..3_000_000u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for location in ["", "client_body_buffer_size 1k;", "proxy_request_buffering off;"] {
        let site = Site::with(Peer::saying(HELLO), location);
        let mut client = site.client();
        let head = post(&format!("Content-Length: {}\r\n", body.len()));
        client.send([head.as_bytes(), &body].concat());
        assert_eq!(client.response().text(), "hello");
        assert!(site.peer.only_request().body == body, "{location}");
        client.send(GET);
        assert_eq!(client.response().text(), "hello");
    }
}

#[test]
fn l00_totals_return_to_nothing() {
    let site = Site::of(Peer::saying(HELLO));
    let mut clients: Vec<_> = (0..10).map(|_| site.client()).collect();
    for client in &mut clients {
        client.send(GET);
        assert_eq!(client.response().text(), "hello");
    }
    let totals = site.gateway.until_totals("ten idle connections", |totals| totals.waiting == 10);
    assert_eq!((totals.accepted, totals.handled, totals.requests), (10, 10, 10));
    drop(clients);
    until("every client has left", || (site.gateway.totals().active == 0).then_some(()));
}
