//! The effects of `stream` directives on a session.

use super::{echo, greeted, start};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use testkit::{End, Peer, Signal, Talk};

#[test]
fn a_rule_refuses_before_a_peer_is_asked() {
    let gateway = start("", "deny 127.0.0.1; proxy_pass {upstream:0};", [echo()]);
    assert_eq!(Talk::connect(gateway.address()).end(), End::Fin);
    gateway.logged("access forbidden by rule while initializing session, client: 127.0.0.1");
    assert_eq!(gateway.peers[0].connections(), 0);
}

#[test]
fn limit_conn_counts_whole_sessions() {
    let zone = "limit_conn_zone $binary_remote_addr zone=each:1m;";
    let gateway = start(zone, "limit_conn each 1; proxy_pass {upstream:0};", [echo()]);
    let mut first = greeted(&gateway);
    assert_eq!(Talk::connect(gateway.address()).end(), End::Fin);
    gateway.logged("limiting connections by zone \"each\" while initializing session, client: 127.0.0.1");
    first.send("bye");
    first.rest();
    gateway.until_totals("the session has ended", |totals| totals.active == 0);
    greeted(&gateway);
}

#[test]
fn a_text_is_returned_with_variables() {
    let gateway = start("", "set $mine x; return \"$protocol $remote_addr $mine $status\";", Vec::new());
    let mut client = Talk::connect(gateway.address());
    assert_eq!(client.rest(), (b"TCP 127.0.0.1 x 000".to_vec(), End::Fin));
}

#[test]
fn the_client_is_whom_a_trusted_proxy_names() {
    let server = "set_real_ip_from 127.0.0.0/8; \
                  return \"$remote_addr:$remote_port $realip_remote_addr $proxy_protocol_server_port\";";
    let text = format!("events {{}} stream {{ server {{ listen {{listen}} proxy_protocol; {server} }} }}");
    let gateway = testkit::Gateway::start(&text, &[]);
    let mut client = Talk::connect(gateway.address());
    client.send_bytewise("PROXY TCP4 192.0.2.7 198.51.100.1 5000 443\r\n");
    assert_eq!(client.rest(), (b"192.0.2.7:5000 127.0.0.1 443".to_vec(), End::Fin));
}

/// Both versions, one after the other: the next gateway reads the header that the first one writes.
#[test]
fn a_chain_passes_the_client_on() {
    for version in ["on", "v2"] {
        let peer = echo();
        let text = format!(
            "events {{}} stream {{ \
             log_format line '$remote_addr:$remote_port $proxy_protocol_server_addr'; \
             server {{ listen {{listen}}; proxy_protocol {version}; proxy_pass {{listen:1}}; }} \
             server {{ listen {{listen:1}} proxy_protocol; set_real_ip_from 127.0.0.1; \
                       access_log chain.log line; proxy_pass {{upstream:0}}; }} }}"
        );
        let gateway = testkit::Gateway::start(&text, &[peer.address()]);
        let mut client = Talk::connect_from("127.0.0.9".parse().unwrap(), gateway.address());
        client.send("hello");
        client.expect("hello");
        let port = client.address().port();
        client.close();
        assert_eq!(gateway.access_lines(1), [format!("127.0.0.9:{port} 127.0.0.1")]);
    }
}

/// The client comes over IPv6, and the hop to the last proxy is over IPv4: a header has one family, and must not lose the client.
#[test]
fn a_chain_over_two_families_passes_the_client_on() {
    for version in ["on", "v2"] {
        let text = format!(
            "events {{}} stream {{ \
             server {{ listen {{listen}} proxy_protocol; set_real_ip_from 127.0.0.0/8; proxy_protocol {version}; \
                       proxy_pass {{listen:1}}; }} \
             server {{ listen {{listen:1}} proxy_protocol; set_real_ip_from 127.0.0.0/8; \
                       return \"$remote_addr $remote_port\"; }} }}"
        );
        let gateway = testkit::Gateway::start(&text, &[]);
        let mut client = Talk::connect(gateway.address());
        client.send("PROXY TCP6 2001:db8::7 2001:db8::1 5000 443\r\n");
        assert_eq!(client.rest(), (b"2001:db8::7 5000".to_vec(), End::Fin), "{version}");
    }
}

/// Bytes that were read ahead and went nowhere do not count, as in nginx.
#[test]
fn received_bytes_are_those_that_were_passed_on() {
    let stream = "log_format line '$status $bytes_received'; access_log s.log line;";
    let gateway = start(stream, "ssl_preread on; return \"$bytes_received\";", Vec::new());
    let mut client = Talk::connect(gateway.address());
    client.send("no TLS");
    assert_eq!(client.read(1), b"0");
    assert_eq!(gateway.access_lines(1), ["200 0"]);
}

#[test]
fn small_packets_wait_where_tcp_nodelay_is_off() {
    for (words, expected) in [("", true), ("tcp_nodelay off;", false)] {
        let gateway = start("", &format!("{words} proxy_pass {{upstream:0}};"), [echo()]);
        let client = greeted(&gateway);
        assert_eq!(nodelay(gateway.address(), client.address()), Some(expected), "{words}: towards the client");
        let upstream = local_end(gateway.peers[0].address());
        assert_eq!(nodelay(upstream, gateway.peers[0].address()), Some(expected), "{words}: towards the peer");
    }
}

/// The last server of a passed connection decides.
#[test]
fn a_passed_connection_has_the_tcp_nodelay_of_its_last_server() {
    for (first, last, expected) in [("off", "on", true), ("on", "off", false)] {
        let peer = echo();
        let text = format!(
            "events {{}} stream {{ server {{ listen {{listen}}; tcp_nodelay {first}; pass {{listen:1}}; }} \
             server {{ listen {{listen:1}}; tcp_nodelay {last}; proxy_pass {{upstream:0}}; }} }}"
        );
        let gateway = testkit::Gateway::start(&text, &[peer.address()]);
        let client = greeted(&gateway);
        assert_eq!(nodelay(gateway.address(), client.address()), Some(expected), "{first}, then {last}");
    }
}

/// The established connections of this machine: local end, other end, inode of the socket.
fn connections() -> Vec<(String, String, String)> {
    let text = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let lines = text.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    lines.filter(|words| words[3] == "01").map(|words| (words[1].into(), words[2].into(), words[9].into())).collect()
}

/// An address as the kernel lists it.
fn listed(address: SocketAddr) -> String {
    let SocketAddr::V4(address) = address else { panic!("{address} is not IPv4") };
    format!("{:08X}:{:04X}", u32::from_ne_bytes(address.ip().octets()), address.port())
}

/// The end of this process's only connection to a peer.
fn local_end(peer: SocketAddr) -> SocketAddr {
    let peer = listed(peer);
    let (local, ..) = connections().into_iter().find(|(_, other, _)| *other == peer).unwrap();
    let (ip, port) = local.split_once(':').unwrap();
    let ip = u32::from_str_radix(ip, 16).unwrap().to_ne_bytes();
    SocketAddr::from((ip, u16::from_str_radix(port, 16).unwrap()))
}

/// `TCP_NODELAY` of the socket of this process with these ends.
fn nodelay(local: SocketAddr, other: SocketAddr) -> Option<bool> {
    let (local, other) = (listed(local), listed(other));
    let (.., inode) = connections().into_iter().find(|found| (&found.0, &found.1) == (&local, &other))?;
    let own = pidfd_open(getpid(), PidfdFlags::empty()).unwrap();
    for entry in std::fs::read_dir("/proc/self/fd").unwrap().flatten() {
        let link = std::fs::read_link(entry.path()).unwrap_or_default();
        if link.as_os_str() == format!("socket:[{inode}]").as_str() {
            let number = entry.file_name().to_str()?.parse().ok()?;
            let copy = pidfd_getfd(&own, number, PidfdGetfdFlags::empty()).unwrap();
            return socket2::SockRef::from(&copy).tcp_nodelay().ok();
        }
    }
    None
}

#[test]
fn rates_hold_for_each_direction() {
    let peer = Peer::script(|mut talk| {
        talk.send(vec![b'x'; 30_000]);
        while talk.whatever_came().is_some() {}
    });
    let gateway = start("", "proxy_download_rate 10k; proxy_pass {upstream:0};", [peer]);
    let begun = Instant::now();
    let mut client = Talk::connect(gateway.address());
    client.read(30_000);
    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(1500), "30,000 bytes at 10 KB/s came within {took:?}");
}

#[test]
fn a_session_is_logged_when_it_ends() {
    let stream = "log_format line '$protocol $status $bytes_received/$bytes_sent $upstream_addr \
                  $upstream_bytes_sent/$upstream_bytes_received $session_time $close_side';";
    let gateway = start(stream, "access_log s.log line; proxy_pass {upstream:0};", [echo()]);
    let mut client = greeted(&gateway);
    assert_eq!(gateway.access_log(), "", "a session under way has no line");
    client.send("bye");
    client.rest();
    let line = gateway.access_lines(1).remove(0);
    assert!(line.starts_with(&format!("TCP 200 8/8 {} 8/8 0.", gateway.peers[0].address())), "{line}");
    assert!(line.ends_with(" upstream"), "{line}");
}

/// J4
#[test]
fn a_client_that_does_not_read_stops_its_peer() {
    let stopped = Signal::new();
    let tell = stopped.clone();
    let peer = Peer::script(move |mut talk| {
        // More than both sockets and the buffer between them can hold.
        let sent = talk.flood(64 << 20);
        assert!(sent < 64 << 20, "{sent} bytes went to a client that does not read");
        tell.raise();
        talk.sits_still();
    });
    let gateway = start("", "proxy_pass {upstream:0};", [peer]);
    let client = Talk::connect(gateway.address());
    stopped.wait();
    let held = gateway.shared().memory().held;
    assert!(held < 256 * 1024, "{held} bytes are held for it");
    drop(client);
}

/// The PROXY protocol header precedes the handshake, and the certificate is verified against the requested name.
#[test]
fn tls_is_spoken_to_a_peer() {
    let folder = tempfile::tempdir().unwrap();
    let authority = testkit::Authority::new("Peers");
    std::fs::write(folder.path().join("ca.pem"), authority.pem()).unwrap();
    let (chain, key) = authority.issue(&["db.example"]).write(folder.path(), "db");
    let inner = testkit::Gateway::start(
        &format!(
            "events {{}} http {{ server {{ listen {{listen}} ssl proxy_protocol; \
             ssl_certificate {}; ssl_certificate_key {}; \
             return 200 \"$ssl_server_name $proxy_protocol_addr\"; }} }}",
            chain.display(),
            key.display()
        ),
        &[],
    );
    let words = format!(
        "proxy_ssl on; proxy_ssl_verify on; proxy_ssl_trusted_certificate {}; proxy_ssl_server_name on; \
         proxy_protocol on; proxy_connect_timeout 5s;",
        folder.path().join("ca.pem").display()
    );
    let text = |name: &str| {
        format!(
            "events {{}} stream {{ server {{ listen {{listen}}; {words} proxy_ssl_name {name}; \
             proxy_pass {{upstream:0}}; }} }}"
        )
    };
    let gateway = testkit::Gateway::start(&text("db.example"), &[inner.address()]);
    let mut client = Talk::connect_from("127.0.0.9".parse().unwrap(), gateway.address());
    assert_eq!(client.get("/", "Connection: close\r\n").text(), "db.example 127.0.0.9");
    let gateway = testkit::Gateway::start(&text("other.example"), &[inner.address()]);
    assert_eq!(Talk::connect(gateway.address()).end(), End::Fin);
    gateway.logged("upstream SSL certificate does not match \"other.example\" while SSL handshaking to upstream");
}

/// A rule that depends on an undecided expression never passes, as in `http`.
#[test]
fn an_expression_at_its_limit_refuses_the_session() {
    let peer = Peer::script(|mut talk| talk.send("here"));
    let text = "events {} stream {
        map $proxy_protocol_addr $blocked { default here; \"~^(?:[0-9a-f:]+)+[g-z]$\" never; }
        map $blocked $inner { default $blocked; }
        map $blocked $target { default {upstream:0}; }
        server { listen {listen} proxy_protocol; proxy_pass $target; }
        server { listen {listen:1} proxy_protocol; return $blocked; }
        server { listen {listen:2} proxy_protocol; return $inner; }
        server { listen {listen:3} proxy_protocol; set $copy $blocked; return $copy; }
    }";
    let gateway = testkit::Gateway::start(text, &[peer.address()]);
    let from = |listener: usize, address: &str| {
        let mut client = Talk::connect(gateway.address_of(listener));
        client.send(format!("PROXY TCP6 {address} ::1 1000 2000\r\n"));
        String::from_utf8(client.rest().0).unwrap()
    };
    for listener in 0..4 {
        assert_eq!(from(listener, "2001:db8::1"), "here", "listener {listener}");
        assert_eq!(from(listener, "2001:db8:1111:2222:3333:4444:5555:6666"), "", "listener {listener}");
        gateway.logged("pcre2_match() failed: match limit exceeded");
    }
    assert_eq!(peer.connections(), 1, "no peer is asked for a session that is refused");
}
