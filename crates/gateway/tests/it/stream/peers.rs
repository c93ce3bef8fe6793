//! Which peer a session goes to, and what happens if one cannot be reached.

use super::{dead, echo, greeted, start};
use sockdiag::{Census, Question, Socket, State, Timer};
use testkit::{Deaf, End, Peer, Talk};

/// A peer that sends its name and waits for the end.
fn named(name: &'static str) -> Peer {
    Peer::script(move |mut talk| {
        talk.send(name);
        while talk.whatever_came().is_some() {}
    })
}

/// The name of the peer that the gateway chose.
fn asked(gateway: &testkit::Gateway) -> String {
    let mut client = Talk::connect(gateway.address());
    String::from_utf8(client.read(1)).unwrap()
}

#[test]
fn sessions_take_turns_by_weight() {
    let group = "upstream group { server {upstream:0} weight=2; server {upstream:1}; }";
    let gateway = start(group, "proxy_pass group;", [named("a"), named("b")]);
    let names: String = (0..6).map(|_| asked(&gateway)).collect();
    assert_eq!(names.matches('a').count(), 4, "{names}");
}

#[test]
fn a_hash_keeps_a_client_at_its_peer() {
    let group = "upstream group { hash $remote_addr consistent; server {upstream:0}; server {upstream:1}; }";
    let gateway = start(group, "proxy_pass group;", [named("a"), named("b")]);
    let names: String = (0..5).map(|_| asked(&gateway)).collect();
    assert!(names == "aaaaa" || names == "bbbbb", "{names}");
}

/// J11
#[test]
fn the_next_peer_is_asked_where_one_refuses() {
    let dead = dead();
    let group = format!("upstream group {{ server {dead}; server {{upstream:0}} backup; }}");
    let gateway = start(&group, "proxy_pass group;", [echo()]);
    greeted(&gateway);
    let line = gateway.logged("connect() failed (111: Connection refused) while connecting to upstream");
    assert!(line.contains("client: 127.0.0.1") && line.contains(&format!("upstream: \"{dead}\"")), "{line}");
    gateway.logged("upstream server temporarily disabled");
}

#[test]
fn one_try_is_all_without_proxy_next_upstream() {
    let dead = dead();
    let group = format!("upstream group {{ server {dead}; server {{upstream:0}} backup; }}");
    let gateway = start(&group, "proxy_next_upstream off; proxy_pass group;", [echo()]);
    let mut client = Talk::connect(gateway.address());
    assert_eq!(client.end(), End::Fin);
}

/// Two peers refuse; the third one is the backup.
#[test]
fn proxy_next_upstream_tries_limits_the_attempts() {
    for (tries, is_served) in [(2, false), (3, true), (0, true)] {
        let (first, second) = (dead(), dead());
        let group = format!("upstream group {{ server {first}; server {second}; server {{upstream:0}} backup; }}");
        let gateway = start(&group, &format!("proxy_next_upstream_tries {tries}; proxy_pass group;"), [echo()]);
        if is_served {
            greeted(&gateway);
        } else {
            assert_eq!(Talk::connect(gateway.address()).end(), End::Fin, "{tries}");
        }
        for refused in [first, second] {
            gateway.logged(&format!("upstream: \"{refused}\""));
        }
        assert_eq!(gateway.peers[0].connections(), usize::from(is_served), "{tries}");
    }
}

/// The time counts from the first attempt. An attempt that has begun is not cut short: `proxy_connect_timeout` ends it.
#[test]
fn proxy_next_upstream_timeout_allows_no_attempt_after_it() {
    for (timeout, is_served) in [("100ms", false), ("1h", true), ("0", true)] {
        let deaf = Deaf::new();
        let group = format!("upstream group {{ server {}; server {{upstream:0}} backup; }}", deaf.address());
        let words = format!("proxy_connect_timeout 300ms; proxy_next_upstream_timeout {timeout}; proxy_pass group;");
        let gateway = start(&group, &words, [echo()]);
        if is_served {
            greeted(&gateway);
        } else {
            assert_eq!(Talk::connect(gateway.address()).end(), End::Fin, "{timeout}");
        }
        gateway.logged("upstream timed out (110: Connection timed out) while connecting to upstream");
        assert_eq!(gateway.peers[0].connections(), usize::from(is_served), "{timeout}");
    }
}

/// Our socket to a peer, as the kernel sees it.
fn socket_to(peer: &Peer) -> Socket {
    let mut found = None;
    let mut census = Census::open().unwrap();
    let look = |socket: &Socket| {
        if socket.remote == peer.address() && socket.state == State::Established {
            found = Some(*socket);
        }
    };
    census.for_each(&Question::default(), look).unwrap();
    found.expect("a connection to the peer")
}

#[test]
fn proxy_socket_keepalive_is_set_on_connections_to_peers() {
    for (words, is_set) in [("", false), ("proxy_socket_keepalive on;", true), ("proxy_socket_keepalive off;", false)] {
        let gateway = start("", &format!("{words} proxy_pass {{upstream:0}};"), [echo()]);
        let _client = greeted(&gateway);
        let timer = socket_to(&gateway.peers[0]).timer;
        assert_eq!(matches!(timer, Timer::Keepalive(_)), is_set, "{words} {timer:?}");
    }
}

#[test]
fn max_conns_holds_for_whole_sessions() {
    let group = "upstream group { server {upstream:0} max_conns=1; }";
    let gateway = start(group, "proxy_pass group;", [echo()]);
    let mut first = greeted(&gateway);
    assert_eq!(Talk::connect(gateway.address()).end(), End::Fin);
    gateway.logged("no live upstreams while connecting to upstream");
    first.send("bye");
    first.rest();
    gateway.until_totals("the session has ended", |totals| totals.active == 0);
    greeted(&gateway);
}

#[test]
fn a_variable_names_a_group_or_an_address() {
    let names_address = "set $target $to; proxy_pass $target;";
    let map = "map $server_port $to { default {upstream:1}; 1 one; }";
    let group = "upstream one { server {upstream:0}; }";
    let gateway = start(&format!("{group} {map}"), names_address, [named("a"), named("b")]);
    assert_eq!(asked(&gateway), "b");
    let map = "map $server_port $to { default ONE; }";
    let gateway = start(&format!("{group} {map}"), "proxy_pass $to;", [named("a")]);
    assert_eq!(asked(&gateway), "a");
}

#[test]
fn a_value_that_is_no_address_ends_the_session() {
    for (value, line) in [
        ("127.0.0.1", "no port in upstream \"127.0.0.1\""),
        ("name.example:1", "no resolver defined to resolve name.example"),
    ] {
        let map = format!("map $remote_addr $to {{ default \"{value}\"; }}");
        let gateway = start(&map, "proxy_pass $to;", Vec::new());
        assert_eq!(Talk::connect(gateway.address()).end(), End::Fin, "{value}");
        gateway.logged(line);
    }
}

/// A peer that takes its time, for its first byte or for its last one, gets few sessions.
#[test]
fn least_time_leaves_the_slow_peer_alone() {
    let prompt = || {
        Peer::script(|mut talk| {
            talk.send("hi");
        })
    };
    let slow = || {
        Peer::script(|mut talk| {
            // Far more than a busy machine adds to the other peer's time.
            std::thread::park_timeout(std::time::Duration::from_millis(300));
            talk.send("hi");
        })
    };
    for method in ["least_time first_byte", "least_time last_byte inflight", "random two least_time=first_byte"] {
        let (fast, slow) = (prompt(), slow());
        let group =
            "upstream group { METHOD; server {upstream:0} fail_timeout=1h; server {upstream:1} fail_timeout=1h; }";
        let text = format!(
            "events {{}} stream {{ {} server {{ listen {{listen}}; proxy_pass group; }} }}",
            group.replace("METHOD", method)
        );
        let gateway = testkit::Gateway::start(&text, &[fast.address(), slow.address()]);
        for _ in 0..20 {
            assert_eq!(Talk::connect(gateway.address()).rest().0, b"hi");
        }
        assert!(slow.connections() <= 4, "{method}: {} sessions went to the slow one", slow.connections());
    }
}

#[test]
fn least_time_connect_is_measured() {
    let peers = [echo(), echo()];
    let group = "upstream group { least_time connect; server {upstream:0}; server {upstream:1}; }";
    let gateway = start(group, "proxy_pass group;", peers);
    for _ in 0..6 {
        greeted(&gateway);
    }
    let connections: Vec<usize> = gateway.peers.iter().map(Peer::connections).collect();
    assert_eq!(connections.iter().sum::<usize>(), 6, "{connections:?}");
    assert!(connections.iter().all(|count| *count > 0), "peers of the same speed take turns: {connections:?}");
}
