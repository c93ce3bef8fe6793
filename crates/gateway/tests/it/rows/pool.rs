//! P1–P9: which connection a request gets, and why one is not kept. A scripted peer counts its connections, so that
//! each test observes reuse from outside.

use crate::site::{GET, HELLO, Site, post, text};
use testkit::{Gateway, Peer, Signal, Talk};

/// Answers a fixed number of requests on each connection, and raises a signal after closing one.
fn closing_after(count: usize, closed: &Signal) -> Peer {
    let closed = closed.clone();
    Peer::script(move |mut talk| {
        for _ in 0..count {
            if talk.request().is_none() {
                return;
            }
            talk.send(HELLO);
        }
        talk.close();
        closed.raise();
    })
}

/// The connections on which requests were read, in order.
fn serials(peer: &Peer) -> Vec<usize> {
    peer.requests().iter().map(|(serial, _)| *serial).collect()
}

#[test]
fn p00_an_idle_connection_is_used_by_every_client() {
    let site = Site::of(Peer::saying(HELLO));
    for _ in 0..5 {
        assert_eq!(site.ask(GET).text(), "hello");
    }
    assert_eq!(serials(&site.peer), [0; 5]);
    let lines = site.gateway.access_lines(5);
    assert!(lines[0].contains("reused=0") && lines[4].contains("reused=1"), "{lines:?}");
}

#[test]
fn p00_exactly_read_body_leaves_a_reusable_connection() {
    // The last read asks for exactly the remaining bytes, so nothing shows that the socket is empty.
    let (half, whole) = ("x".repeat(100_000), 200_000);
    let peer = Peer::script(move |mut talk| {
        while talk.request().is_some() {
            talk.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {whole}\r\n\r\n"));
            talk.send(&half);
            talk.send(&half);
        }
    });
    let site = Site::of(peer);
    let mut client = site.client();
    for _ in 0..5 {
        client.send(GET);
        assert_eq!(client.response().body.len(), whole);
    }
    assert_eq!(serials(&site.peer), [0; 5]);
}

#[test]
fn p01_fin_on_an_idle_connection_is_seen_before_reuse() {
    for request in [GET.to_owned(), post("Content-Length: 5\r\n") + "world"] {
        let closed = Signal::new();
        let site = Site::of(closing_after(1, &closed));
        let mut client = site.client();
        client.send(&request);
        assert_eq!(client.response().text(), "hello");
        closed.wait();
        client.send(&request);
        assert_eq!(client.response().text(), "hello");
        assert_eq!(serials(&site.peer), [0, 1]);
        // This was known without an attempt: there was only one attempt.
        let lines = site.gateway.access_lines(2);
        assert!(lines[1].contains("tries=200 ") && lines[1].contains("reused=0"), "{lines:?}");
        assert_eq!(site.gateway.error_log(), "");
    }
}

/// Answers the first request of the first connection, and applies the fault to the second one.
fn races(fault: fn(&mut Talk)) -> Peer {
    Peer::script(move |mut talk| {
        while talk.request().is_some() {
            if talk.serial() == 0 && talk.requests_here() > 1 {
                return fault(&mut talk);
            }
            talk.send(HELLO);
        }
    })
}

#[test]
fn p02_lost_race_is_repeated_on_a_fresh_connection() {
    for fault in [Talk::close as fn(&mut Talk), Talk::reset] {
        let first = races(fault);
        let second = Peer::saying("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecond");
        let conf = text(2, "", "").replace("{upstream:1};", "{upstream:1} backup;");
        let gateway = Gateway::start(&conf, &[first.address(), second.address()]);
        for _ in 0..4 {
            let mut client = gateway.client();
            client.send(GET);
            assert_eq!(client.response().text(), "hello");
        }
        assert_eq!(serials(&first), [0, 0, 1, 1, 1]);
        // The peer was allowed to close: that is no failure of the peer, and its backup is never used.
        assert!(!gateway.error_log().contains("temporarily disabled"), "{}", gateway.error_log());
        assert_eq!(second.connections(), 0);
        gateway.logged("reused connection");
    }
}

#[test]
fn p03_a_post_that_lost_the_race_is_not_repeated() {
    for location in ["", "retry_unsent on;"] {
        for fault in [Talk::close as fn(&mut Talk), Talk::reset] {
            // The peer has read the whole request, so it may have executed it.
            let site = Site::with(races(fault), location);
            let request = post("Content-Length: 5\r\n") + "world";
            assert_eq!(site.ask(&request).text(), "hello");
            assert_eq!(site.ask(&request).status(), 502);
            assert_eq!(serials(&site.peer), [0, 0]);
            site.gateway.logged("while reading response header from upstream, reused connection");
            assert_eq!(site.ask(&request).text(), "hello");
            assert_eq!(serials(&site.peer), [0, 0, 1]);
        }
    }
}

#[test]
fn p04_bytes_on_an_idle_connection() {
    let sent = Signal::new();
    let peer = Peer::script({
        let sent = sent.clone();
        move |mut talk| {
            while talk.request().is_some() {
                talk.send(HELLO);
                if talk.serial() == 0 {
                    talk.send(HELLO);
                    sent.raise();
                    // Closed with unread bytes: the kernel may turn that into a reset.
                    talk.end();
                    return;
                }
            }
        }
    });
    let site = Site::of(peer);
    let mut client = site.client();
    client.send(GET);
    assert_eq!(client.response().text(), "hello");
    sent.wait();
    client.send("GET /next HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response().text(), "hello");
    assert_eq!(serials(&site.peer), [0, 1]);
}

#[test]
fn p05_connection_close() {
    for response in [
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    ] {
        let site = Site::of(Peer::saying(response));
        for _ in 0..2 {
            // The upstream's `Connection` field does not concern the client.
            let response = site.ask(GET);
            assert_eq!((response.text(), response.announces_close()), ("hello".into(), false));
        }
        assert_eq!(serials(&site.peer), [0, 1]);
        let lines = site.gateway.access_lines(2);
        assert!(lines[0].contains("closed=the peer asked to close"), "{lines:?}");
    }
}

#[test]
fn p06_partly_sent_request_body() {
    let peer = Peer::script(|mut talk| {
        while let Some(head) = talk.head() {
            talk.send(HELLO);
            if head.method() == "POST" {
                talk.rest();
                return;
            }
        }
    });
    let site = Site::with(peer, "proxy_request_buffering off;");
    assert_eq!(site.ask(GET).text(), "hello");
    assert_eq!(site.ask(post("Content-Length: 1000000\r\n") + "part").text(), "hello");
    assert_eq!(site.ask(GET).text(), "hello");
    assert_eq!(site.peer.connections(), 2);
    let lines = site.gateway.access_lines(3);
    assert!(lines[1].contains("closed=request body not fully sent"), "{lines:?}");
}

#[test]
fn p07_the_number_of_requests() {
    let peer = Peer::saying(HELLO);
    let gateway = Gateway::start(&text(1, "keepalive_requests 2;", ""), &[peer.address()]);
    let mut client = gateway.client();
    for _ in 0..5 {
        client.send(GET);
        assert_eq!(client.response().text(), "hello");
    }
    assert_eq!(serials(&peer), [0, 0, 1, 1, 2]);
}

#[test]
fn p07_the_idle_time() {
    let closed = Signal::new();
    let peer = Peer::script({
        let closed = closed.clone();
        move |mut talk| {
            while talk.request().is_some() {
                talk.send(HELLO);
            }
            closed.raise();
        }
    });
    let gateway = Gateway::start(&text(1, "keepalive_timeout 100ms;", ""), &[peer.address()]);
    let mut client = gateway.client();
    client.send(GET);
    assert_eq!(client.response().text(), "hello");
    // Without a request, the connection is closed after its timeout.
    closed.wait();
    client.send(GET);
    assert_eq!(client.response().text(), "hello");
    assert_eq!(serials(&peer), [0, 1]);
}

#[test]
fn p07_the_age() {
    let peer = Peer::saying(HELLO);
    let gateway = Gateway::start(&text(1, "keepalive_time 100ms;", ""), &[peer.address()]);
    testkit::until("a second connection", || {
        let mut client = gateway.client();
        client.send(GET);
        assert_eq!(client.response().text(), "hello");
        (peer.connections() > 1).then_some(())
    });
    let requests = serials(&peer);
    assert!(requests.is_sorted(), "never the old one again: {requests:?}");
}

#[test]
fn p07_keepalive_off() {
    let peer = Peer::saying(HELLO);
    let conf = text(1, "", "").replace("keepalive 4;", "keepalive 0;");
    let gateway = Gateway::start(&conf, &[peer.address()]);
    let mut client = gateway.client();
    for _ in 0..3 {
        client.send(GET);
        assert_eq!(client.response().text(), "hello");
    }
    assert_eq!(serials(&peer), [0, 1, 2]);
}

#[test]
fn p07_limits_hold_after_a_reload_and_connections_survive_it() {
    let peer = Peer::saying(HELLO);
    let mut gateway = Gateway::start(&text(1, "", ""), &[peer.address()]);
    let ask = |gateway: &Gateway, target: &str| {
        let mut client = gateway.client();
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        client.response().status()
    };
    assert_eq!(ask(&gateway, "/"), 200);
    // Each configuration answers at its own URI, so that the test knows when it is in force.
    let marked = |group: &str, name: &str| {
        text(1, group, "")
            .replace("location = /alive", &format!("location = /{name} {{ return 204; }} location = /alive"))
    };
    gateway.reload(&marked("", "one"));
    testkit::until("the new configuration", || (ask(&gateway, "/one") == 204).then_some(()));
    let before = peer.connections();
    assert_eq!(ask(&gateway, "/"), 200);
    assert_eq!(peer.connections(), before, "the same group: the connection is used on");

    gateway.reload(&marked("keepalive_requests 1;", "two"));
    testkit::until("the new configuration", || (ask(&gateway, "/two") == 204).then_some(()));
    let before = peer.connections();
    for _ in 0..3 {
        assert_eq!(ask(&gateway, "/"), 200);
    }
    assert!(peer.connections() >= before + 2, "one request each: {} then {}", before, peer.connections());
}

#[test]
fn p08_source_addresses_and_local_pools_are_never_shared() {
    let conf = |group: &str, a: &str, b: &str| {
        format!(
            "events {{ }} http {{ access_log off;
                upstream peers {{ server {{upstream:0}}; keepalive 4 {group}; }}
                server {{ listen {{listen}};
                    location /a {{ proxy_pass http://peers; {a} }}
                    location /b {{ proxy_pass http://peers; {b} }}
                }}
            }}"
        )
    };
    let shared = (conf("", "", ""), [0, 0, 0, 0]);
    let sources = (conf("", "", "proxy_bind 127.0.0.2;"), [0, 1, 0, 1]);
    let local = (conf("local", "", ""), [0, 1, 0, 1]);
    for (conf, expected) in [shared, sources, local] {
        let peer = Peer::saying(HELLO);
        let gateway = Gateway::start(&conf, &[peer.address()]);
        let mut client = gateway.client();
        for target in ["/a", "/b", "/a", "/b"] {
            client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
            assert_eq!(client.response().text(), "hello");
        }
        assert_eq!(serials(&peer), expected, "{conf}");
    }
}

#[test]
fn p08_two_groups_of_the_same_peer_are_never_shared() {
    let peer = Peer::saying(HELLO);
    let conf = "events { } http { access_log off;
        upstream a { server {upstream:0}; }
        upstream b { server {upstream:0}; }
        server { listen {listen};
            location /a { proxy_pass http://a; }
            location /b { proxy_pass http://b; }
        }
    }";
    let gateway = Gateway::start(conf, &[peer.address()]);
    let mut client = gateway.client();
    for target in ["/a", "/b", "/a", "/b"] {
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(client.response().text(), "hello");
    }
    assert_eq!(serials(&peer), [0, 1, 0, 1]);
}

/// Answers `/slow` after the signal, and everything else at once.
fn slow_on_demand(go: &Signal, asked: &Signal) -> Peer {
    let (go, asked) = (go.clone(), asked.clone());
    Peer::script(move |mut talk| {
        while let Some(request) = talk.request() {
            if request.target() == "/slow" {
                asked.raise();
                talk.wait(&go);
            }
            talk.send(HELLO);
        }
    })
}

const SLOW: &str = "GET /slow HTTP/1.1\r\nHost: a\r\n\r\n";

#[test]
fn p09_full_pool_closes_the_least_recently_used() {
    let (go, asked) = (Signal::new(), Signal::new());
    let peer = slow_on_demand(&go, &asked);
    let conf = text(1, "", "").replace("keepalive 4;", "keepalive 1;");
    let gateway = Gateway::start(&conf, &[peer.address()]);
    let (mut one, mut two) = (gateway.client(), gateway.client());
    one.send(SLOW);
    asked.wait();
    two.send(GET);
    assert_eq!(two.response().text(), "hello");
    // Connection 1 is idle now, and connection 0 returns to a pool that has room for one.
    go.raise();
    assert_eq!(one.response().text(), "hello");
    assert_eq!(peer.connections(), 2);
    for _ in 0..3 {
        two.send(GET);
        assert_eq!(two.response().text(), "hello");
    }
    assert_eq!(serials(&peer), [0, 1, 0, 0, 0]);
    assert_eq!(gateway.error_log(), "");
}

#[test]
fn p09_a_request_waits_for_one_of_the_permitted_connections() {
    let (go, asked) = (Signal::new(), Signal::new());
    let peer = slow_on_demand(&go, &asked);
    let gateway = Gateway::start(&text(1, "max_connections 1 queue=2 timeout=20s;", ""), &[peer.address()]);
    let (mut one, mut two, mut three) = (gateway.client(), gateway.client(), gateway.client());
    one.send(SLOW);
    asked.wait();
    two.send(GET);
    three.send(GET);
    gateway.until_totals("three exchanges under way", |totals| totals.writing == 3);
    // The line is full.
    let mut four = gateway.client();
    four.send(GET);
    assert_eq!(four.response().status(), 502);
    gateway.logged("upstream connection limit reached");
    assert_eq!(peer.requests().len(), 1);
    go.raise();
    for client in [&mut one, &mut two, &mut three] {
        assert_eq!(client.response().text(), "hello");
    }
    assert_eq!(serials(&peer), [0, 0, 0], "one connection served everybody");
}

#[test]
fn single_peer_is_active_until_its_last_response_ends() {
    let (go, asked) = (Signal::new(), Signal::new());
    let peer = slow_on_demand(&go, &asked);
    let gateway = Gateway::start(&text(1, "", ""), &[peer.address()]);
    let row = || gateway.shared().peer_rows().into_iter().next().map(|row| (row.active, row.idle));
    let mut one = gateway.client();
    one.send(SLOW);
    asked.wait();
    assert_eq!(row(), Some((1, 0)), "an operator waits for it before the peer is stopped");
    go.raise();
    assert_eq!(one.response().text(), "hello");
    testkit::until("the connection is idle", || (row() == Some((0, 1))).then_some(()));
}

#[test]
fn p09_waiting_ends_at_timeout_or_when_the_client_leaves() {
    let (go, asked) = (Signal::new(), Signal::new());
    let peer = slow_on_demand(&go, &asked);
    let mut gateway = Gateway::start(&text(1, "max_connections 1 queue=1 timeout=200ms;", ""), &[peer.address()]);
    let mut one = gateway.client();
    one.send(SLOW);
    asked.wait();
    let mut two = gateway.client();
    two.send(GET);
    assert_eq!(two.response().status(), 502);
    gateway.logged("no upstream connection became free");
    // The next one must be observed while it waits, even if the test runs slowly.
    let patient = text(1, "max_connections 1 queue=1 timeout=20s;", "");
    gateway.reload(&patient.replace("location = /alive", "location = /new { return 204; } location = /alive"));
    testkit::until("the new configuration", || {
        let mut client = gateway.client();
        client.send("GET /new HTTP/1.1\r\nHost: a\r\n\r\n");
        (client.response().status() == 204).then_some(())
    });
    gateway.until_totals("only the slow exchange is under way", |totals| totals.writing == 1);
    let mut three = gateway.client();
    three.send(GET);
    gateway.until_totals("two exchanges under way", |totals| totals.writing == 2);
    three.reset();
    gateway.until_totals("the client in the line is gone", |totals| totals.writing == 1);
    go.raise();
    assert_eq!(one.response().text(), "hello");
    two.send(GET);
    assert_eq!(two.response().text(), "hello");
    assert_eq!(serials(&peer), [0, 0]);
}

#[test]
fn p00_connections_are_shared_between_workers() {
    let peer = Peer::saying(HELLO);
    let gateway = Gateway::start_workers(2, &text(1, "", ""), &[peer.address()]);
    for round in 1..=30 {
        let mut client = gateway.client();
        client.send(GET);
        assert_eq!(client.response().text(), "hello");
        // The line is written after the connection has returned to the pool.
        gateway.access_lines(round);
    }
    assert_eq!(serials(&peer), [0; 30], "the accepting worker takes the idle connection");
}
