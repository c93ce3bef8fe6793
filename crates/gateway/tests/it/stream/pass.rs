//! `pass`: a connection goes to another listener of the same configuration.

use super::echo;
use crate::tls::scene::{Scene, get};
use testkit::sides::{Nginx, Side, Sides, nginx_or_skip};
use testkit::{End, Gateway, Talk};
use tls::Session;

#[test]
fn http_serves_what_stream_has_decrypted() {
    let scene = Scene::of_blocks(
        "http { server { listen {listen:1}; \
             return 200 \"$scheme $remote_addr $request_uri\"; } } \
         stream { server { listen {listen} ssl proxy_protocol; {a} set_real_ip_from 127.0.0.1; pass {listen:1}; } }",
        &[],
    );
    let mut client = Talk::connect(scene.gateway.address());
    client.send("PROXY TCP4 192.0.2.7 198.51.100.1 5000 443\r\n");
    client.secure(Session::client(&scene.authority.client(), "a.test").unwrap()).unwrap();
    for _ in 0..2 {
        client.send(get("a.test"));
        assert_eq!(client.response().text(), "https 192.0.2.7 /");
    }
}

#[test]
fn a_name_read_ahead_chooses_the_listener() {
    let peer = echo();
    let scene = Scene::of_blocks(
        "http { server { listen {listen:1} ssl; {a} return 200 http; } } \
         stream { map $ssl_preread_server_name $next { a.test {listen:1}; default {listen:2}; } \
             server { listen {listen}; ssl_preread on; pass $next; } \
             server { listen {listen:2} ssl; {b} proxy_pass {upstream:0}; } }",
        &[peer.address()],
    );
    assert_eq!(scene.ask("a.test", "a.test"), (200, "http".to_owned()));
    let mut client = scene.client("b.test");
    client.send("hello");
    client.expect("hello");
}

/// J26
#[test]
fn a_circle_of_passes_ends() {
    let text = "events {} stream { log_format line $status; access_log s.log line; \
                server { listen {listen}; pass {listen:1}; } server { listen {listen:1}; pass {listen}; } }";
    let gateway = Gateway::start(text, &[]);
    assert_eq!(Talk::connect(gateway.address()).end(), End::Fin);
    gateway.logged("too many passes of one connection");
    assert_eq!(gateway.access_lines(1), ["500"]);
    gateway.until_totals("the session has ended", |totals| totals.active == 0);
}

#[test]
fn an_address_without_a_listener_is_reported() {
    let text = "events {} stream { log_format line $status; access_log s.log line; \
                server { listen {listen}; pass 127.0.0.1:9; } }";
    let gateway = Gateway::start(text, &[]);
    let warnings = gateway.warnings();
    assert!(warnings.iter().any(|line| line.contains("no server listens on 127.0.0.1:9")), "{warnings:?}");
    assert_eq!(Talk::connect(gateway.address()).end(), End::Fin);
    gateway.logged("port not found for \"127.0.0.1:9\"");
    assert_eq!(gateway.access_lines(1), ["200"]);
}

#[test]
fn tls_is_not_passed_to_a_listener_that_expects_it_again() {
    let scene = Scene::of_blocks(
        "stream { server { listen {listen} ssl; {a} pass {listen:1}; } server { listen {listen:1} ssl; {b} return b; } }",
        &[],
    );
    assert_eq!(scene.client("a.test").rest().0, b"");
    scene.gateway.logged("a connection under TLS cannot be passed to");
}

/// What clients get, from nginx and from the gateway.
#[test]
fn connections_are_passed_as_in_nginx() {
    const TEXT: &str = "log_format line '$server_port|$status'; access_log {side}.log line;
         map $remote_addr $next { default {listen:2}; }
         server { listen {listen}; pass {listen:2}; }
         server { listen {listen:1}; pass $next; }
         server { listen {listen:2}; return \"<$remote_addr>\"; }
         server { listen {listen:3}; pass 127.0.0.1:9; }
         server { listen {listen:4} proxy_protocol; set_real_ip_from 127.0.0.0/8; pass {listen:2}; }
         server { listen {listen:5}; pass {listen:5}; }";
    let Some(nginx) = nginx_or_skip(Nginx::New) else { return };
    let sides = Sides::start_stream(&nginx, TEXT, &[]);
    for (place, sent) in [(0, ""), (1, ""), (3, ""), (4, "PROXY TCP4 192.0.2.1 192.0.2.2 1111 2222\r\n"), (5, "")] {
        let [theirs, ours] = [Side::Nginx, Side::Ours].map(|side| {
            let mut client = Talk::connect(sides.address(side, place));
            client.send(sent);
            client.rest()
        });
        assert_eq!(theirs, ours, "{place}\n{}", sides.logs());
    }
    for side in [Side::Nginx, Side::Ours] {
        let port = sides.address(side, 3).port();
        assert_eq!(sides.log_line_of(side, &format!("{port}|")), format!("{port}|200"));
    }
}
