//! Expressions that reach their match limit: a rule that depends on one never passes, wherever the variable is used.

use crate::site::{HELLO, text};
use testkit::{Gateway, Peer};

/// A value on which `^(a+)+$` exceeds its match limit.
const HARD: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!";

const HTTP: &str = "
    map $arg_x $blocked { default 0; \"~^(a+)+$\" 1; }
    map $blocked $inner { default $blocked; }
    split_clients $blocked $half { 50% one; * two; }
    geo $blocked $place { default here; }
    limit_req_zone $blocked zone=rate:1m rate=1000r/s;
    limit_conn_zone $blocked zone=places:1m;
    upstream hashed { hash $blocked; server {upstream:0}; }
    ";

fn start(location: &str, peer: &Peer) -> Gateway {
    let text = text(1, "", location).replacen("upstream peers", &format!("{HTTP} upstream peers"), 1);
    Gateway::start(&text, &[peer.address()])
}

fn request(value: &str) -> String {
    format!("GET /?x={value} HTTP/1.1\r\nHost: a\r\n\r\n")
}

#[test]
fn a_variable_that_is_not_known_is_answered_with_500() {
    for location in [
        "if ($blocked) { return 403; }",
        "if ($blocked = 1) { return 403; }",
        "if ($inner) { return 403; }",
        "set $copy $blocked; if ($copy) { return 403; }",
        "return 200 $blocked;",
        "return 302 /to/$half;",
        "return 200 \"\"; add_header X-Place $place;",
        "error_page 404 /page/$blocked; return 404;",
        "rewrite ^ /to/$blocked break;",
        "try_files /$blocked /alive;",
        "limit_req zone=rate;",
        "limit_conn places 1000;",
        "proxy_set_header X-Blocked $blocked;",
        "proxy_set_body $blocked;",
        "proxy_method $half;",
        "add_header X-Blocked $blocked;",
        "expires $blocked;",
        "limit_rate $blocked;",
    ] {
        let peer = Peer::saying(HELLO);
        let gateway = start(location, &peer);
        let mut client = gateway.client();
        client.send(request(HARD));
        assert_eq!(client.response().status(), 500, "{location}");
        gateway.logged("pcre2_match() failed: match limit exceeded");
        crate::site::is_alive(&gateway);
        // Expressions that stay within the limit are decided.
        let mut client = gateway.client();
        client.send(request("b"));
        assert_ne!(client.response().status(), 500, "{location}");
    }
}

#[test]
fn nothing_is_sent_to_an_upstream_that_such_a_variable_chooses() {
    for pass in ["http://peers/$blocked", "http://hashed", "http://$blocked.example"] {
        let peer = Peer::saying(HELLO);
        let text = text(1, "", "").replace("proxy_pass http://peers;", &format!("proxy_pass {pass};"));
        let text = text.replacen("upstream peers", &format!("{HTTP} upstream peers"), 1);
        let gateway = Gateway::start(&text, &[peer.address()]);
        let mut client = gateway.client();
        client.send(request(HARD));
        assert_eq!(client.response().status(), 500, "{pass}");
        assert!(peer.requests().is_empty(), "{pass}");
    }
}

#[test]
fn a_field_that_cannot_be_rewritten_is_not_passed_on() {
    for (location, field) in [
        ("proxy_cookie_flags \"~^(a+)+$\" secure;", format!("Set-Cookie: {HARD}=1")),
        ("proxy_cookie_domain \"~^(a+)+$\" b.test;", format!("Set-Cookie: a=1; Domain={HARD}")),
        ("proxy_cookie_path \"~^(a+)+$\" /;", format!("Set-Cookie: a=1; Path={HARD}")),
        ("proxy_redirect \"~^(a+)+$\" /;", format!("Location: {HARD}")),
    ] {
        let peer = Peer::saying(format!("HTTP/1.1 200 OK\r\n{field}\r\nContent-Length: 5\r\n\r\nhello"));
        let gateway = start(location, &peer);
        let mut client = gateway.client();
        client.send(request("b"));
        let response = client.response();
        assert_eq!((response.status(), response.value("Set-Cookie")), (500, None), "{location}");
        gateway.logged("pcre2_match() failed: match limit exceeded");
    }
}

#[test]
fn an_access_log_hides_nothing_for_it() {
    for condition in ["$blocked", "$inner"] {
        let peer = Peer::saying(HELLO);
        let gateway = start(&format!("access_log own.log line if={condition};"), &peer);
        let mut client = gateway.client();
        for value in ["b", HARD, "c"] {
            client.send(request(value));
            assert_eq!(client.response().status(), 200, "{value}");
        }
        client.send("GET /last HTTP/1.0\r\n\r\n");
        client.response();
        let lines = gateway.access_lines(1);
        assert!(lines.len() == 1 && lines[0].contains(HARD), "{lines:?}");
    }
}

#[test]
fn a_switch_to_another_protocol_is_refused_too() {
    let switching = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n";
    let set = "proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade;";
    let peer = Peer::saying_once(switching);
    let gateway = start(&format!("{set} add_header X-Blocked $blocked always;"), &peer);
    let mut client = gateway.client();
    client.send(format!("GET /?x={HARD} HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"));
    assert_eq!(client.response().status(), 500);
}
