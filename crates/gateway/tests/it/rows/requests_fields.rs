//! R13–R23 and R37: line ends, the bytes of fields, and Host.

use crate::site::{HELLO, Site, post, text};
use testkit::{Gateway, Peer};

#[test]
fn r13_bare_lf_is_accepted_and_forwarded_as_crlf() {
    let site = Site::of(Peer::saying(HELLO));
    assert_eq!(site.ask("GET /lf HTTP/1.1\nHost: a\nX: y\n\n").text(), "hello");
    let head = site.peer.only_request().head;
    // Parsing the head has shown already that no line contains a control character.
    assert!(head.starts_with(b"GET /lf HTTP/1.1\r\n") && head.ends_with(b"\r\n\r\n"), "{}", head.escape_ascii());
    assert_eq!(site.peer.only_request().value("X"), Some("y"));
}

#[test]
fn r13_directive_makes_bare_lf_a_client_error() {
    let conf = text(1, "", "").replace("listen {listen};", "listen {listen}; bare_line_feeds off;");
    let peer = Peer::saying(HELLO);
    let site = Site { gateway: Gateway::start(&conf, &[peer.address()]), peer };
    for (request, phrase) in [
        ("GET / HTTP/1.1\nHost: a\n\n", "client sent invalid request"),
        ("\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", "client sent invalid request"),
        ("GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n", "client sent invalid header line: a line feed without"),
        ("GET / HTTP/1.1\r\nHost: a\r\n\n", "client sent invalid header line: a line feed without"),
    ] {
        site.refuses(request, 400, phrase);
    }
    site.is_alive();
    site.peer_saw_nothing();
}

#[test]
fn r14_bare_cr() {
    let site = Site::of(Peer::saying(HELLO));
    for lines in ["A: b\rc\r\n", "A: b\r\rX\r\n", "A: b\r\r\n"] {
        site.refuses(post(lines), 400, "client sent invalid header line: a carriage return");
    }
    site.refuses("GET / HTTP/1.1\r\r\nHost: a\r\n\r\n", 400, "client sent invalid request");
    site.is_alive();
    site.peer_saw_nothing();
}

#[test]
fn r15_r16_nul_and_other_control_bytes_in_a_value() {
    let site = Site::of(Peer::saying(HELLO));
    for control in [0u8, 1, 7, 8, 0x0B, 0x0C, 0x1B, 0x1F, 0x7F] {
        let request = [b"GET / HTTP/1.1\r\nHost: a\r\nX: before", &[control][..], b"after\r\n\r\n"].concat();
        site.refuses(request, 400, "client sent invalid header line: a control character in the field value");
    }
    site.is_alive();
    site.peer_saw_nothing();
}

#[test]
fn r17_high_bytes_and_tabs_in_a_value_pass_unchanged() {
    let site = Site::of(Peer::saying(HELLO));
    let value: Vec<u8> = (0x80..=0xFF).chain(*b"a\tb c").collect();
    let request = [b"GET / HTTP/1.1\r\nHost: a\r\nX-High: ", &value[..], b"\r\n\r\n"].concat();
    assert_eq!(site.ask(request).status(), 200);
    let line = [b"X-High: ", &value[..], b"\r\n"].concat();
    let head = site.peer.only_request().head;
    assert!(head.windows(line.len()).any(|window| window == line), "{}", head.escape_ascii());
}

#[test]
fn r18_a_line_without_colon() {
    let site = Site::of(Peer::saying(HELLO));
    site.refuses(post("Content-Length\r\n"), 400, "client sent invalid header line: the line has no colon");
    site.refuses(post("GET /admin HTTP/1.1\r\n"), 400, "client sent invalid header line");
    site.peer_saw_nothing();
}

#[test]
fn r19_bad_or_empty_names() {
    let site = Site::of(Peer::saying(HELLO));
    site.refuses(post(": x\r\n"), 400, "client sent invalid header line: the field name is empty");
    for name in ["a(b", "a@b", "a/b", "a\0b", "a\"b", "\u{e9}", "a=b", "\u{b}Transfer-Encoding"] {
        site.refuses(post(&format!("{name}: x\r\n")), 400, "client sent invalid header line: a byte in the field name");
    }
    site.is_alive();
    site.peer_saw_nothing();
}

#[test]
fn r20_no_host_or_an_empty_one() {
    let site = Site::of(Peer::saying(HELLO));
    site.refuses("GET / HTTP/1.1\r\n\r\n", 400, "client sent HTTP/1.1 request without \"Host\" header");
    for host in ["", " ", ":80"] {
        site.refuses(format!("GET / HTTP/1.1\r\nHost:{host}\r\n\r\n"), 400, "client sent invalid host header");
    }
    site.is_alive();
    site.peer_saw_nothing();
}

#[test]
fn r21_two_hosts_even_if_equal() {
    let site = Site::of(Peer::saying(HELLO));
    for second in ["a", "b"] {
        let request = format!("GET / HTTP/1.1\r\nHost: a\r\nhost: {second}\r\n\r\n");
        site.refuses(request, 400, "client sent duplicate host header");
    }
    site.peer_saw_nothing();
}

#[test]
fn r22_host_with_user_info_path_or_bad_port() {
    let site = Site::of(Peer::saying(HELLO));
    for host in ["u@a", "a/b", "a?b", "a:x", "a:65536", "a:80:80", "a b", "a\\b", "[::1", "[x]", "a..b", "\u{e9}"] {
        site.refuses(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"), 400, "client sent invalid host header");
    }
    site.is_alive();
    site.peer_saw_nothing();
}

#[test]
fn r23_the_target_wins_and_host_is_rewritten() {
    let set = "proxy_set_header Host $host; proxy_set_header X-Http-Host $http_host;";
    let site = Site::with(Peer::saying(HELLO), set);
    assert_eq!(site.ask("GET http://b.example:81/p?q HTTP/1.1\r\nHost: a.example\r\n\r\n").status(), 200);
    let request = site.peer.only_request();
    assert_eq!(request.line, "GET /p?q HTTP/1.1");
    assert_eq!(request.value("Host"), Some("b.example"));
    // Two common ways to pass the host on must not name different hosts.
    assert_eq!(request.value("X-Http-Host"), Some("b.example:81"));
    assert!(!request.head.windows(9).any(|window| window == b"a.example"), "{request:?}");
}

#[test]
fn r37_a_long_field_a_long_head_many_fields() {
    let site = Site::of(Peer::saying(HELLO));
    let long = format!("X: {}\r\n", "a".repeat(20_000));
    site.refuses(post(&long), 400, "client sent too long header line");
    let line = format!("X: {}\r\n", "a".repeat(6000));
    site.refuses(post(&line.repeat(10)), 400, "client sent too large request");
    site.refuses(post(&"X: y\r\n".repeat(2000)), 400, "client sent too many header lines");
    site.is_alive();
    site.peer_saw_nothing();
}

#[test]
fn r37_a_head_without_end_is_refused_at_the_limit() {
    let site = Site::of(Peer::saying(HELLO));
    let mut client = site.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n");
    // The answer comes although the head never ends: the buffer is bounded.
    client.send(format!("X: {}\r\n", "a".repeat(6000)).repeat(6));
    assert_eq!(client.response().status(), 400);
    site.gateway.logged("client sent too large request");
    site.peer_saw_nothing();
}
