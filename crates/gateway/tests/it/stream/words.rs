//! The effects of `stream` directives on a session.

use super::{echo, greeted, start};
use std::time::{Duration, Instant};
use testkit::{End, Peer, Signal, Talk};

#[test]
fn a_rule_refuses_before_a_peer_is_asked() {
    let gateway = start("", "deny 127.0.0.1; proxy_pass {upstream:0};", [echo()]);
    assert_eq!(Talk::connect(gateway.address()).end(), End::Fin);
    gateway.logged("access forbidden by rule");
    assert_eq!(gateway.peers[0].connections(), 0);
}

#[test]
fn limit_conn_counts_whole_sessions() {
    let zone = "limit_conn_zone $binary_remote_addr zone=each:1m;";
    let gateway = start(zone, "limit_conn each 1; proxy_pass {upstream:0};", [echo()]);
    let mut first = greeted(&gateway);
    assert_eq!(Talk::connect(gateway.address()).end(), End::Fin);
    gateway.logged("limiting connections by zone \"each\"");
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
