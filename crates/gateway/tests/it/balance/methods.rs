//! Methods and parameters without a fixed sequence of peers, tested as nginx documents them.

use crate::field::{Named, peers, sequence};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use testkit::{Gateway, Peer, Signal, Talk, until};

/// One location per group: `/NAME` goes to the group with that name.
pub(crate) fn text(groups: &[(&str, &str)], location: &str) -> String {
    let (mut upstreams, mut locations) = (String::new(), String::new());
    for (name, inside) in groups {
        write!(upstreams, "upstream {name} {{ {inside} }} ").unwrap();
        write!(locations, "location /{name} {{ proxy_pass http://{name}; {location} }} ").unwrap();
    }
    format!("events {{}} http {{ access_log off; {upstreams} server {{ listen {{listen}}; {locations} }} }}")
}

/// How often each peer answers.
fn counts(client: &mut Talk, target: &str, requests: usize) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for _ in 0..requests {
        *counts.entry(client.get(target, "").peer()).or_default() += 1;
    }
    counts
}

/// A peer that delays its answers to `/held` until a signal.
fn holding(name: char, go: &Signal) -> Peer {
    let go = go.clone();
    Peer::answering(move |request| {
        if request.target().starts_with("/held") {
            go.wait();
        }
        format!("HTTP/1.1 200 OK\r\nX-Peer: {name}\r\nContent-Length: 0\r\n\r\n").into_bytes()
    })
}

#[test]
fn random_follows_the_weights() {
    let (_peers, addresses) = peers(2);
    let conf = text(&[("one", "random; server {upstream:0} weight=3; server {upstream:1};")], "");
    let gateway = Gateway::start(&conf, &addresses);
    let counts = counts(&mut Talk::connect(gateway.address()), "/one", 400);
    // 400 draws at 3 : 1 have a standard deviation of 9; a deviation of more than six of them is expected less than
    // once in a thousand million runs.
    assert!((246..=354).contains(&counts["a"]), "{counts:?}");
}

#[test]
fn of_two_at_random_the_less_loaded_one_is_asked() {
    for method in ["random two", "random two least_conn", "least_conn"] {
        let go = Signal::new();
        let held = [holding('a', &go), holding('b', &go)];
        let addresses = held.each_ref().map(Peer::address);
        let servers = format!("{method}; server {{upstream:0}}; server {{upstream:1}};");
        let gateway = Gateway::start(&text(&[("held", &servers)], ""), &addresses);
        let mut waiting: Vec<Talk> = (0..6).map(|_| Talk::connect(gateway.address())).collect();
        for (asked, client) in waiting.iter_mut().enumerate() {
            client.send_get("/held", "");
            let arrived = || held.iter().map(|peer| peer.requests().len()).sum::<usize>();
            until("the request's arrival", || (arrived() == asked + 1).then_some(()));
        }
        assert_eq!(held.each_ref().map(|peer| peer.requests().len()), [3, 3], "{method}");
        go.raise();
        for client in &mut waiting {
            assert_eq!(client.response().status(), 200);
        }
    }
}

#[test]
fn least_time_leaves_the_slow_peer_alone() {
    let slow = Peer::answering(|_| {
        // Far more than a busy machine adds to the other peer's time.
        std::thread::park_timeout(Duration::from_millis(300));
        b"HTTP/1.1 200 OK\r\nX-Peer: slow\r\nContent-Length: 0\r\n\r\n".to_vec()
    });
    let (peers, _) = peers(1);
    for method in
        ["least_time header", "least_time last_byte", "least_time header inflight", "random two least_time=header"]
    {
        let servers =
            format!("{method}; server {{upstream:0}} fail_timeout=100s; server {{upstream:1}} fail_timeout=100s;");
        let gateway = Gateway::start(&text(&[("timed", &servers)], ""), &[slow.address(), peers[0].address()]);
        let mut client = Talk::connect(gateway.address());
        // Times can be compared once the slow peer was asked: soon, but with random methods after any number of
        // requests.
        let asked = (1..=100).find(|_| client.get("/timed", "").peer() == "slow").expect("the slow peer asked at last");
        let counts = counts(&mut client, "/timed", 20);
        assert_eq!(counts.get("slow"), None, "{method}: asked in turn {asked}, then {counts:?}");
    }
}

#[test]
fn drained_peer_gets_only_bound_sessions() {
    let (_peers, addresses) = peers(2);
    let servers = "sticky route $arg_route; server {upstream:0} route=one drain; server {upstream:1} route=two;";
    let gateway = Gateway::start(&text(&[("app", servers)], ""), &addresses);
    let mut client = Talk::connect(gateway.address());
    assert_eq!(sequence(&mut client, "/app", 4), "bbbb");
    assert_eq!(sequence(&mut client, "/app?route=one", 4), "aaaa");
    assert_eq!(sequence(&mut client, "/app?route=two", 2), "bb");
    assert_eq!(sequence(&mut client, "/app?route=three", 2), "bb");
}

#[test]
fn max_conns_holds_for_every_method() {
    for method in [
        "",
        "least_conn;",
        "ip_hash;",
        "hash $uri;",
        "hash $uri consistent;",
        "random;",
        "random two;",
        "least_time header;",
    ] {
        let go = Signal::new();
        let held = [holding('a', &go), holding('b', &go)];
        let addresses = held.each_ref().map(Peer::address);
        let servers = format!("{method} server {{upstream:0}} max_conns=1; server {{upstream:1}} max_conns=1;");
        let gateway = Gateway::start(&text(&[("held", &servers)], ""), &addresses);
        let mut waiting: Vec<Talk> = (0..2).map(|_| Talk::connect(gateway.address())).collect();
        for client in &mut waiting {
            client.send_get("/held", "");
        }
        let arrived = || held.iter().map(|peer| peer.requests().len()).sum::<usize>();
        until("both requests' arrival", || (arrived() == 2).then_some(()));
        assert_eq!(Talk::connect(gateway.address()).get("/held", "").status(), 502, "{method}");
        gateway.logged("no live upstreams");
        go.raise();
        let answered: std::collections::BTreeSet<String> =
            waiting.iter_mut().map(|client| client.response().peer()).collect();
        assert_eq!(answered.len(), 2, "{method}: {answered:?}");
    }
}

#[test]
fn one_slow_stream_does_not_eject_a_healthy_peer() {
    // Its head comes at once, but its body never ends, so the client gives up.
    let slow = Peer::script(|mut talk| {
        while let Some(request) = talk.request() {
            if request.target() == "/app/slow" {
                talk.send("HTTP/1.1 200 OK\r\nX-Peer: a\r\nContent-Length: 1000\r\n\r\nbegun");
                talk.end();
                return;
            }
            talk.send("HTTP/1.1 200 OK\r\nX-Peer: a\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let (others, _) = peers(2);
    let conf = text(
        &[("app", "server {upstream:0} max_fails=1 fail_timeout=1000s; server {upstream:1};")],
        "location /app/slow { proxy_read_timeout 1s; proxy_pass http://app; }",
    );
    let gateway = Gateway::start(&conf, &[slow.address(), others[1].address()]);
    let mut stream = gateway.client();
    stream.send("GET /app/slow HTTP/1.1\r\nHost: a\r\n\r\n");
    let (response, _) = stream.cut_response();
    assert_eq!(response.status(), 200);
    gateway.logged("upstream timed out (110: Connection timed out) while reading upstream");
    assert!(!gateway.error_log().contains("temporarily disabled"), "{}", gateway.error_log());
    let answered = sequence(&mut Talk::connect(gateway.address()), "/app", 6);
    assert_eq!(answered, "bababa");
}

#[test]
fn the_only_peer_is_asked_whatever_its_failures() {
    let failing = Peer::answering(|request| {
        let answer: &[u8] = if request.target() == "/app/bad" {
            b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n"
        } else {
            b"HTTP/1.1 200 OK\r\nX-Peer: a\r\nContent-Length: 0\r\n\r\n"
        };
        answer.to_vec()
    });
    let conf = text(&[("app", "server {upstream:0} max_fails=1 fail_timeout=1000s;")], "proxy_next_upstream http_500;");
    let gateway = Gateway::start(&conf, &[failing.address()]);
    let mut client = Talk::connect(gateway.address());
    for _ in 0..3 {
        assert_eq!(client.get("/app/bad", "").status(), 500);
    }
    assert_eq!(sequence(&mut client, "/app", 3), "aaa");
}

#[test]
fn a_tunnel_counts_as_long_as_it_lasts() {
    let tunnelling = Peer::script(|mut talk| {
        while let Some(request) = talk.request() {
            if request.value("Upgrade").is_some() {
                talk.send("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n");
                talk.end();
                return;
            }
            talk.send("HTTP/1.1 200 OK\r\nX-Peer: a\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let upgrade = "proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade;";
    let gateway =
        Gateway::start(&text(&[("app", "server {upstream:0} max_conns=1;")], upgrade), &[tunnelling.address()]);
    let mut tunnel = gateway.client();
    tunnel.send("GET /app HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n");
    assert_eq!(tunnel.response_to_head().status(), 101);
    let mut client = Talk::connect(gateway.address());
    assert_eq!(client.get("/app", "").status(), 502);
    drop(tunnel);
    until("the seat of the tunnel", || {
        (Talk::connect(gateway.address()).get("/app", "").status() == 200).then_some(())
    });
}
