//! `charset` where a comparison with nginx is impossible: log lines, and clients that read slowly.
#![allow(clippy::unwrap_used)] // a failed step of a test is its end

use crate::scene::Gateway;

const MAP: &str = "charset_map koi8-r utf-8 { C1 D0B0; C2 D0B1; }";

#[test]
fn b3_invalid_utf8_becomes_question_marks() {
    let server = "location / { charset koi8-r; source_charset utf-8; charset_types *; root html; }";
    let gateway = Gateway::start(server, MAP);
    gateway.write("html/a", b"a\xffb \xd0\xb0 \xe2\x94");
    assert_eq!(gateway.get("/a").body, b"a?b \xc1 ");
}

#[test]
fn b4_without_a_map_an_upstreams_body_is_passed_on() {
    let server = "location / { charset utf-8; override_charset on; proxy_pass http://{listen:1}; }";
    let other = "server { listen {listen:1}; default_type 'text/plain; charset=klingon'; return 200 text; }";
    let gateway = Gateway::start(server, &format!("{MAP} {other}"));
    let response = gateway.get("/");
    assert_eq!(response.text(), "text");
    assert_eq!(response.value("Content-Type"), Some("text/plain; charset=klingon"));
    gateway.expect_error("no \"charset_map\" between the charsets \"klingon\" and \"utf-8\"");
}

#[test]
fn b1_a_name_from_a_variable_is_one_line() {
    let gateway = Gateway::start("location / { charset $uri; return 200 text; }", "");
    let response = gateway.get("/x%0d%0aX-Evil:%201");
    assert_eq!(response.value("X-Evil"), None, "{response:?}");
    gateway.expect_error("a control character in the value of \"charset\"");
}

#[test]
fn b6_slow_reader_gets_all_of_a_growing_body() {
    let server = "location / { charset utf-8; source_charset koi8-r; charset_types *; root html; }";
    let gateway = Gateway::start(server, MAP);
    // More than the sockets of both ends hold, so the end waits for room.
    let count = 12 << 20;
    gateway.write("html/large", vec![0xc1; count]);
    let mut client = gateway.connect();
    client.send("GET /large HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n");
    let response = client.response();
    assert!(response.body.len() == 2 * count && response.body.chunks(2).all(|letter| letter == [0xd0, 0xb0]));
    assert_eq!(gateway.errors(), "");
}
