//! Section J of the catalogue: misbehaving clients and peers.

use super::{echo, greeted, start};
use testkit::{Deaf, End, Talk};

/// J5
#[test]
fn refuses_invalid_proxy_headers() {
    let text = "events {} stream { server { listen {listen} proxy_protocol; proxy_pass {upstream:0}; } }";
    let peer = echo();
    let gateway = testkit::Gateway::start(text, &[peer.address()]);
    let mut client = Talk::connect(gateway.address());
    client.send("GET / HTTP/1.1\r\n\r\n");
    client.rest();
    gateway.logged("broken header: \"GET / HTTP/1.1");
    assert_eq!(peer.connections(), 0);
}

/// J6
#[test]
fn a_proxy_header_that_does_not_come_is_not_waited_for() {
    let text = "events {} stream { server { listen {listen} proxy_protocol; proxy_protocol_timeout 200ms; \
                return x; } }";
    let gateway = testkit::Gateway::start(text, &[]);
    let mut client = Talk::connect(gateway.address());
    client.send("PROXY ");
    assert_eq!(client.end(), End::Fin);
    gateway.logged("while reading PROXY protocol");
}

/// J1
#[test]
fn a_client_that_resets_while_its_peer_is_asked_is_forgotten() {
    let gateway = start("", "proxy_pass {upstream:0};", [echo()]);
    for _ in 0..20 {
        Talk::connect(gateway.address()).reset();
    }
    gateway.until_totals("all sessions have ended", |totals| totals.active == 0);
    greeted(&gateway);
}

/// J7
#[test]
fn a_hello_that_does_not_end_is_not_waited_for() {
    let server = "ssl_preread on; preread_timeout 200ms; proxy_pass {upstream:0};";
    let gateway = start("", server, [echo()]);
    let mut client = Talk::connect(gateway.address());
    client.send([22, 3, 1, 1, 0, 1, 0, 0, 0xfc]);
    assert_eq!(client.end(), End::Fin);
    gateway.logged("while prereading client data");
    assert_eq!(gateway.peers[0].connections(), 0);
}

/// J8
#[test]
fn a_hello_beyond_the_buffer_is_refused() {
    let server = "ssl_preread on; preread_buffer_size 1k; proxy_pass {upstream:0};";
    let gateway = start("", server, [echo()]);
    let mut client = Talk::connect(gateway.address());
    let mut hello = vec![22, 3, 1, 0x3f, 0, 1, 0, 0x3e, 0xfc];
    hello.resize(2000, 0);
    client.send(hello);
    client.rest();
    gateway.logged("preread buffer full while prereading client data, client: 127.0.0.1");
    assert_eq!(gateway.peers[0].connections(), 0);
}

/// J9
#[test]
fn bytes_other_than_tls_are_passed_unread() {
    let gateway = start("", "ssl_preread on; proxy_pass {upstream:0};", [echo()]);
    greeted(&gateway);
}

/// J10
#[test]
fn silent_peer_is_left_after_proxy_connect_timeout() {
    let deaf = Deaf::new();
    let group = format!("upstream group {{ server {}; server {{upstream:0}} backup; }}", deaf.address());
    let gateway = start(&group, "proxy_connect_timeout 300ms; proxy_pass group;", [echo()]);
    greeted(&gateway);
    gateway.logged("upstream timed out (110: Connection timed out) while connecting to upstream");
}
