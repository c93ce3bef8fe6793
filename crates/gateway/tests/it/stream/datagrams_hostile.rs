//! Section J of the catalogue, as far as it is about UDP: misbehaving clients and peers.

use gateway::CloseReason;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;
use testkit::{DATAGRAM_BYTES_MAX, DatagramPeer, DatagramTalk, Gateway};

fn start(stream: &str, server: &str, peers: &[SocketAddr]) -> Gateway {
    let text = format!("events {{}} stream {{ {stream} server {{ listen {{listen}} udp; {server} }} }}");
    Gateway::start(&text, peers)
}

/// J14
#[test]
fn empty_datagrams_pass_both_ways() {
    let peer = DatagramPeer::echo();
    let gateway = start("", "proxy_pass {upstream:0}; proxy_responses 1;", &[peer.address()]);
    let client = DatagramTalk::connect(gateway.address());
    for _ in 0..3 {
        client.send("");
        client.expect("");
    }
    testkit::until("the peer has them", || (peer.received() == 3).then_some(()));
}

/// J15
#[test]
fn the_largest_datagrams_pass_whole() {
    let peer = DatagramPeer::echo();
    let gateway = start("", "proxy_pass {upstream:0}; proxy_buffer_size 1k;", &[peer.address()]);
    let client = DatagramTalk::connect(gateway.address());
    for length in [DATAGRAM_BYTES_MAX, 1025, DATAGRAM_BYTES_MAX] {
        let bytes: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
        client.send(&bytes);
        client.expect(&bytes);
    }
}

/// J16
#[test]
fn a_flood_of_clients_ends_the_most_silent_sessions_only() {
    let peer = DatagramPeer::echo();
    let text = "events { worker_connections 16; } \
                stream { server { listen {listen} udp; proxy_pass {upstream:0}; } }";
    let gateway = Gateway::start(text, &[peer.address()]);
    let live = DatagramTalk::connect(gateway.address());
    for round in 0..20 {
        live.send(format!("live {round}"));
        live.expect(format!("live {round}"));
        for _ in 0..8 {
            let client = DatagramTalk::connect(gateway.address());
            client.send("flood");
            client.expect("flood");
        }
        assert!(gateway.totals().active <= 16, "{:?}", gateway.totals());
    }
    let mut live_sockets: Vec<_> = peer.clients();
    let first = live_sockets[0];
    live_sockets.retain(|one| *one == first);
    assert_eq!(live_sockets.len(), 20, "the session that is in use has stayed");
    assert!(gateway.shared().closed(CloseReason::Displaced) >= 100);
    gateway.logged("the most silent sessions of datagrams are ended");
}

/// J16
#[test]
fn a_flood_takes_no_more_memory_than_the_budget_allows() {
    let peer = DatagramPeer::mute();
    let text = "memory_budget 1m; events { worker_connections 100000; } \
                stream { server { listen {listen} udp; proxy_pass {upstream:0}; } }";
    let gateway = Gateway::start(text, &[peer.address()]);
    testkit::until("sessions have ended for others", || {
        for _ in 0..200 {
            DatagramTalk::connect(gateway.address()).send("flood");
        }
        (gateway.shared().closed(CloseReason::MemoryBudget) > 500).then_some(())
    });
    let used = gateway.shared().memory();
    assert!(used.claimed_most <= 1 << 20, "{used:?}");
}

/// J17
#[test]
fn a_peer_that_refuses_is_passed_over_afterwards() {
    let (peer, closed) = (DatagramPeer::echo(), unused());
    let stream = "upstream two { server {upstream:1} max_fails=1 fail_timeout=60s; server {upstream:0}; }";
    let server = "proxy_pass two; proxy_responses 1; proxy_timeout 5s;";
    let gateway = start(stream, server, &[peer.address(), closed]);
    let first = DatagramTalk::connect(gateway.address());
    first.send("lost");
    gateway.logged(
        "recv() failed (111: Connection refused) while proxying and reading from upstream, udp client: 127.0.0.1",
    );
    gateway.logged("upstream server temporarily disabled");
    for _ in 0..3 {
        let client = DatagramTalk::connect(gateway.address());
        client.send("ping");
        client.expect("ping");
    }
}

/// J18
#[test]
fn an_answer_from_elsewhere_is_not_passed_on() {
    let peer = DatagramPeer::with_socket(|socket, bytes, from| {
        let elsewhere = UdpSocket::bind("127.0.0.1:0").unwrap();
        elsewhere.send_to(b"forged", from).unwrap();
        socket.send_to(bytes, from).unwrap();
    });
    let gateway = start("", "proxy_pass {upstream:0};", &[peer.address()]);
    let client = DatagramTalk::connect(gateway.address());
    client.send("ping");
    client.expect("ping");
    client.expect_silence();
}

/// J19
#[test]
fn an_answer_after_the_end_is_lost_and_harms_nothing() {
    let peer = DatagramPeer::script(|bytes| vec![bytes.to_vec(), b"late".to_vec()]);
    let gateway = start("", "proxy_pass {upstream:0}; proxy_responses 1;", &[peer.address()]);
    let client = DatagramTalk::connect(gateway.address());
    for _ in 0..5 {
        client.send("ping");
        // Both may have come before the session looked.
        while client.receive() != b"ping" {}
    }
    gateway.until_totals("all sessions have ended", |totals| totals.active == 0);
}

/// J20
#[test]
fn missing_answers_fail_the_peer() {
    let peer = DatagramPeer::mute();
    let stream = "log_format a '$status $upstream_addr'; access_log a.log a;";
    let server = "proxy_pass {upstream:0}; proxy_responses 1; proxy_timeout 200ms;";
    let gateway = start(stream, server, &[peer.address()]);
    let client = DatagramTalk::connect(gateway.address());
    client.send("ping");
    gateway.logged("upstream timed out (110: Connection timed out) while proxying connection, udp client: 127.0.0.1");
    assert_eq!(gateway.access_lines(1), [format!("502 {}", peer.address())]);
}

/// J23
#[test]
fn any_bytes_pass_as_they_are() {
    let peer = DatagramPeer::echo();
    let gateway = start("", "proxy_pass {upstream:0}; proxy_timeout 1s;", &[peer.address()]);
    let client = DatagramTalk::connect(gateway.address());
    let mut state = 1_u32;
    for length in 0..300 {
        let bytes: Vec<u8> = (0..length)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            })
            .collect();
        client.send(&bytes);
        client.expect(&bytes);
    }
    assert!(client.within(Duration::from_millis(50)).is_none());
}

/// An address at which no program listens.
fn unused() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect("127.0.0.9:9").unwrap();
    let address = socket.local_addr().unwrap();
    std::mem::forget(socket);
    address
}
