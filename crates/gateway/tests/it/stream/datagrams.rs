//! The words of `stream` for UDP.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};
use testkit::{DatagramPeer, DatagramTalk, Gateway, Peer, Talk};

/// A gateway with this text in `stream {}` and `server {}`, and these peers.
fn start(stream: &str, server: &str, peers: &[&DatagramPeer]) -> Gateway {
    let addresses: Vec<_> = peers.iter().map(|peer| peer.address()).collect();
    let text = format!("events {{}} stream {{ {stream} server {{ listen {{listen}} udp; {server} }} }}");
    Gateway::start(&text, &addresses)
}

#[test]
fn tcp_and_udp_share_a_port() {
    let (datagrams, connections) = (DatagramPeer::echo(), Peer::script(|mut talk| talk.send("tcp")));
    let text = "events {} stream { \
                server { listen {listen} udp; proxy_pass {upstream:0}; } \
                server { listen {listen}; proxy_pass {upstream:1}; } }";
    let gateway = Gateway::start(text, &[datagrams.address(), connections.address()]);
    let client = DatagramTalk::connect(gateway.address());
    client.send("udp");
    client.expect("udp");
    let mut client = Talk::connect(gateway.address());
    client.expect("tcp");
}

#[test]
fn a_client_keeps_its_peer_and_sessions_are_counted() {
    let peers = [DatagramPeer::echo(), DatagramPeer::echo()];
    let stream = "upstream two { server {upstream:0}; server {upstream:1}; }";
    let gateway = start(stream, "proxy_pass two;", &[&peers[0], &peers[1]]);
    let clients = [0, 1].map(|_| DatagramTalk::connect(gateway.address()));
    for _ in 0..5 {
        for client in &clients {
            client.send("ping");
            client.expect("ping");
        }
    }
    testkit::until("both peers have five", || peers.iter().all(|peer| peer.received() == 5).then_some(()));
    for peer in &peers {
        let from = peer.clients();
        assert!(from.iter().all(|one| *one == from[0]), "a session has one socket: {from:?}");
    }
    let totals = gateway.totals();
    assert_eq!((totals.tunnels, totals.active, totals.accepted), (2, 2, 2));
}

#[test]
fn hash_and_least_conn_choose_the_peer() {
    let peers = [DatagramPeer::echo(), DatagramPeer::echo()];
    for (words, one_peer) in [("hash $remote_addr consistent;", true), ("least_conn;", false)] {
        let stream = format!("upstream two {{ {words} server {{upstream:0}}; server {{upstream:1}}; }}");
        let gateway = start(&stream, "proxy_pass two;", &[&peers[0], &peers[1]]);
        let before = [0, 1].map(|at| peers[at].received());
        for _ in 0..4 {
            let client = DatagramTalk::connect(gateway.address());
            client.send("ping");
            client.expect("ping");
            std::mem::forget(client);
        }
        let came = [0, 1].map(|at| testkit::until("the peer has counted", || Some(peers[at].received() - before[at])));
        assert_eq!(came.contains(&4), one_peer, "{words} {came:?}");
    }
}

/// A client of a socket on all addresses accepts answers from the address only that it has written to.
#[test]
fn an_answer_leaves_from_the_address_that_the_client_wrote_to() {
    let peer = DatagramPeer::echo();
    let port = UdpSocket::bind("0.0.0.0:0").unwrap().local_addr().unwrap().port();
    let text = format!(
        "events {{}} stream {{ log_format a '$server_addr $server_port'; access_log a.log a; \
         server {{ listen 0.0.0.0:{port} udp; proxy_pass {{upstream:0}}; proxy_responses 1; }} \
         server {{ listen [::]:{port} udp; proxy_pass {{upstream:0}}; proxy_responses 1; }} }}"
    );
    let gateway = Gateway::start(&text, &[peer.address()]);
    for own in ["127.0.0.1", "127.0.0.77"] {
        let client = DatagramTalk::connect(SocketAddr::new(own.parse().unwrap(), port));
        client.send("ping");
        client.expect("ping");
    }
    let client = DatagramTalk::connect(SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), port));
    client.send("ping");
    client.expect("ping");
    let expected = ["127.0.0.1", "127.0.0.77", "::1"].map(|own| format!("{own} {port}"));
    assert_eq!(gateway.access_lines(3), expected);
}

#[test]
fn a_name_behind_a_wildcard_selects_the_server() {
    let port = UdpSocket::bind("0.0.0.0:0").unwrap().local_addr().unwrap().port();
    let text = format!(
        "events {{}} stream {{ server {{ listen 0.0.0.0:{port} udp; return all; }} \
         server {{ listen 127.0.0.55:{port} udp; return one; }} }}"
    );
    let gateway = Gateway::start(&text, &[]);
    for (own, answer) in [("127.0.0.1", "all"), ("127.0.0.55", "one")] {
        let client = DatagramTalk::connect(SocketAddr::new(own.parse().unwrap(), port));
        client.send("ping");
        client.expect(answer);
    }
    drop(gateway);
}

#[test]
fn reuseport_gives_each_worker_a_socket_with_sticky_sessions() {
    let peer = DatagramPeer::echo();
    let text = "events {} stream { server { listen {listen} udp reuseport; proxy_pass {upstream:0}; } }";
    let gateway = Gateway::start_workers(2, text, &[peer.address()]);
    let clients: Vec<_> = (0..32).map(|_| DatagramTalk::connect(gateway.address())).collect();
    for _ in 0..3 {
        for client in &clients {
            client.send("ping");
            client.expect("ping");
        }
    }
    assert_eq!(gateway.totals().tunnels, 32, "each client has one session");
    let sockets: std::collections::HashSet<_> = peer.clients().into_iter().collect();
    assert_eq!(sockets.len(), 32);
}

#[test]
fn without_reuseport_one_worker_has_the_sessions() {
    let peer = DatagramPeer::echo();
    let text = "events {} stream { server { listen {listen} udp; proxy_pass {upstream:0}; } }";
    let gateway = Gateway::start_workers(2, text, &[peer.address()]);
    let clients: Vec<_> = (0..16).map(|_| DatagramTalk::connect(gateway.address())).collect();
    for _ in 0..3 {
        for client in &clients {
            client.send("ping");
            client.expect("ping");
        }
    }
    assert_eq!(gateway.totals().tunnels, 16);
}

/// J21
#[test]
fn both_directions_have_a_rate() {
    let peer = DatagramPeer::script(|bytes| vec![bytes.to_vec(), bytes.to_vec(), bytes.to_vec()]);
    let gateway = start("", "proxy_pass {upstream:0}; proxy_download_rate 1000; proxy_timeout 300ms;", &[&peer]);
    let client = DatagramTalk::connect(gateway.address());
    let begun = Instant::now();
    client.send([7; 500]);
    for _ in 0..3 {
        client.expect([7; 500]);
    }
    assert!(begun.elapsed() >= Duration::from_millis(900), "{:?}", begun.elapsed());
    drop(gateway);

    let peer = DatagramPeer::echo();
    let gateway = start("", "proxy_pass {upstream:0}; proxy_upload_rate 1000; proxy_timeout 500ms;", &[&peer]);
    let client = DatagramTalk::connect(gateway.address());
    client.send([7; 500]);
    client.expect([7; 500]);
    client.send([8; 500]);
    client.expect_silence();
    assert_eq!(peer.received(), 1, "what is faster than the rate is dropped");
    gateway.logged("packets from/to client:1/1");
}

#[test]
fn the_binary_header_says_datagrams() {
    let peer = DatagramPeer::echo();
    let gateway = start("", "proxy_pass {upstream:0}; proxy_protocol v2; proxy_responses 1;", &[&peer]);
    let client = DatagramTalk::connect(gateway.address());
    client.send("ping");
    let came = client.receive();
    assert_eq!(came[12..14], [0x21, 0x12], "{}", came.escape_ascii());
    assert_eq!(came[24..26], client.address().port().to_be_bytes());
    assert!(came.ends_with(b"ping") && came.len() == 28 + 4);
}

#[test]
fn a_reload_keeps_sessions() {
    let (old, new) = (DatagramPeer::echo(), DatagramPeer::echo());
    let text = |peer| format!("events {{}} stream {{ server {{ listen {{listen}} udp; proxy_pass {peer}; }} }}");
    let mut gateway = Gateway::start(&text("{upstream:0}"), &[old.address(), new.address()]);
    let client = DatagramTalk::connect(gateway.address());
    client.send("one");
    client.expect("one");
    gateway.reload(&text("{upstream:1}"));
    testkit::until("another client reaches the new peer", || {
        let other = DatagramTalk::connect(gateway.address());
        other.send("ping");
        other.receive();
        (new.received() > 0).then_some(())
    });
    let before = old.received();
    client.send("two");
    client.expect("two");
    testkit::until("the old peer has it", || (old.received() == before + 1).then_some(()));
}

#[test]
fn an_operator_sees_and_counts_sessions() {
    let peer = DatagramPeer::echo();
    let gateway = start("", "proxy_pass {upstream:0};", &[&peer]);
    let client = DatagramTalk::connect(gateway.address());
    client.send("ping");
    client.expect("ping");
    gateway.until_totals("one session", |totals| totals.tunnels == 1 && totals.active == 1);
}
