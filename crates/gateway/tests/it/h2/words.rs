//! The directives of HTTP/2.

use super::{connect, gateway, gateway_with};
use testkit::{Gateway, Http2Talk, Talk, http2_block, http2_frame};

#[test]
fn h36_without_http2_a_preface_is_a_bad_request() {
    let text = "events {} http { access_log off; server { listen {listen}; return 200 x; } }";
    let gateway = Gateway::start(text, &[]);
    let mut client = Talk::connect(gateway.address());
    client.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    let (bytes, _) = client.rest();
    assert!(bytes.starts_with(b"HTTP/1.1 505") || bytes.starts_with(b"HTTP/1.1 400"), "{}", bytes.escape_ascii());
}

#[test]
fn h37_the_deprecated_parameter_of_listen_is_enough() {
    let text = "events {} http { access_log off; server { listen {listen} http2; return 200 $server_protocol; } }";
    let gateway = Gateway::start(text, &[]);
    assert_eq!(Http2Talk::connect(gateway.address()).get("/").text(), "HTTP/2.0");
}

#[test]
fn h38_obsolete_directives_are_accepted() {
    let http = "http2_recv_buffer_size 256k; http2_idle_timeout 3m; http2_max_requests 10; http2_push_preload on;";
    let server = "http2_max_field_size 4k; http2_max_header_size 16k; http2_recv_timeout 1s; http2_push /a; \
                  http2_max_concurrent_pushes 3; return 200 x;";
    let gateway = gateway_with(http, server, &[]);
    assert_eq!(connect(&gateway).get("/").status, 200);
}

#[test]
fn h39_data_frames_respect_http2_chunk_size() {
    let gateway = gateway("location / { http2_chunk_size 1000; root .; }", &[]);
    std::fs::write(gateway.prefix().join("file"), vec![b'x'; 10_000]).unwrap();
    let mut client = Talk::connect(gateway.address());
    let file = [(&b":method"[..], &b"GET"[..]), (b":scheme", b"http"), (b":authority", b"a"), (b":path", b"/file")];
    client.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    client.send([http2_frame(4, 0, 0, b""), http2_frame(1, 5, 1, &http2_block(&file))].concat());
    let mut lengths = Vec::new();
    while lengths.iter().sum::<usize>() < 10_000 {
        let header = client.read(9);
        let payload = client.read(u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize);
        if header[3] == 0 {
            lengths.push(payload.len());
        }
    }
    assert_eq!(lengths, [1000; 10]);
    let line = gateway.access_lines(1).remove(0);
    assert!(line.ends_with(" 10000 OK"), "{line}");
}

#[test]
fn h40_http2_body_preread_size_is_the_announced_window() {
    let gateway = gateway("http2_body_preread_size 2000; return 200 x;", &[]);
    let mut client = connect(&gateway);
    client.get("/");
    let stream = client.open("POST", "/", &[], false);
    // The answer comes before the body, so the window stays unchanged.
    assert_eq!(client.send_some(stream, &[b'u'; 5000]), 2000);
}

#[test]
fn h109_a_server_without_http2_is_asked_on_another_connection() {
    let text = |parameter: &str| {
        format!(
            "events {{}} http {{ access_log off; \
             server {{ listen {{listen}} {parameter}; http2 on; server_name a.example; return 200 a; }} \
             server {{ listen {{listen}}; http2 off; server_name b.example; return 200 b; }} }}"
        )
    };
    let gateway = Gateway::start(&text(""), &[]);
    let mut client = connect(&gateway);
    let stream = client.open("GET", "/", &[(":authority", "b.example")], true);
    assert_eq!(client.answer(stream).status, 421);
    gateway.logged("client attempted to request the server name for which the negotiated protocol is disabled");
    assert_eq!(client.get("/").text(), "a", "the connection goes on");
    let mut other = Talk::connect(gateway.address());
    other.send("GET / HTTP/1.1\r\nHost: b.example\r\n\r\n");
    assert_eq!(other.response().text(), "b");
    // The old parameter is for all servers of the address.
    let gateway = Gateway::start(&text("http2"), &[]);
    let mut client = connect(&gateway);
    let stream = client.open("GET", "/", &[(":authority", "b.example")], true);
    assert_eq!(client.answer(stream).text(), "b");
}
