//! Requests and responses: everything that works over HTTP/1.1 works over HTTP/2.

use super::{connect, gateway, gateway_with};
use http2::{Config, ErrorCode};
use std::sync::Arc;
use testkit::{Gateway, Http2Talk, Peer, Signal, Talk};

const HELLO: &str =
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Up: 1\r\nConnection: keep-alive\r\nKeep-Alive: timeout=5\r\n\r\nhello";

#[test]
fn h1_round_trip_through_an_http1_upstream() {
    let peer = Peer::saying(HELLO);
    let gateway = gateway("location / { proxy_pass http://{upstream:0}; }", &[peer.address()]);
    let mut client = connect(&gateway);
    let stream = client.open("GET", "/a?b=c", &[("x-own", "2"), ("cookie", "a=1"), ("cookie", "b=2")], true);
    let answer = client.answer(stream);
    assert_eq!((answer.status, answer.text(), answer.value("x-up")), (200, "hello".into(), Some("1")));
    assert_eq!(answer.value("content-length"), Some("5"));
    for name in ["connection", "keep-alive", "transfer-encoding", "upgrade"] {
        assert_eq!(answer.value(name), None, "{name}");
    }
    assert!(answer.value("server").is_some() && answer.value("date").is_some(), "{answer:?}");
    let request = peer.only_request();
    assert_eq!((request.method(), request.target()), ("GET", "/a?b=c"));
    assert_eq!((request.value("X-Own"), request.values("Cookie")), (Some("2"), vec!["a=1; b=2"]));
    assert_eq!(client.get("/second").status, 200);
    let lines = gateway.access_lines(2);
    // As in nginx, frames are not part of a body.
    assert_eq!(lines[0], "200 HTTP/2.0 \"GET /a?b=c HTTP/2.0\" h2c 1 5 OK");
    assert_eq!(lines[1], "200 HTTP/2.0 \"GET /second HTTP/2.0\" h2c 2 5 OK");
    gateway.until_totals("one connection at rest", |totals| totals.active == 1 && totals.waiting == 1);
}

#[test]
fn h2_the_same_address_speaks_http1_as_well() {
    let gateway = gateway("return 200 '$server_protocol$http2';", &[]);
    let mut old = Talk::connect(gateway.address());
    assert_eq!(old.get("/", "").text(), "HTTP/1.1");
    assert_eq!(connect(&gateway).get("/").text(), "HTTP/2.0h2c");
    // A preface that arrives byte by byte is valid.
    let mut slow = Talk::connect(gateway.address());
    slow.send_bytewise("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    assert_eq!(slow.read(9)[3], 4, "SETTINGS");
    // Bytes that only begin like a preface are HTTP/1.
    let mut other = Talk::connect(gateway.address());
    other.send("PRI * HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(other.response().status(), 400);
}

#[test]
fn h3_uploads_with_and_without_length_arrive_whole() {
    let peer = Peer::answering(|request| {
        let text = format!("{} {:?}", request.body.len(), request.value("Transfer-Encoding"));
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len()).into_bytes()
    });
    let server = "client_max_body_size 0; location / { proxy_pass http://{upstream:0}; } \
                  location /stream { proxy_request_buffering off; proxy_pass http://{upstream:0}; } \
                  location /small { client_max_body_size 1k; proxy_pass http://{upstream:0}; }";
    let gateway = gateway(server, &[peer.address()]);
    let mut client = connect(&gateway);
    let body = vec![b'u'; 1_500_000];
    for (path, with_length) in [("/", true), ("/", false), ("/stream", true), ("/stream", false)] {
        let length = body.len().to_string();
        let fields: &[(&str, &str)] = if with_length { &[("content-length", &length)] } else { &[] };
        let stream = client.open("POST", path, fields, false);
        client.send(stream, &body, true);
        let answer = client.answer(stream);
        assert_eq!(answer.status, 200, "{path} {with_length} {answer:?}");
        assert!(answer.text().starts_with("1500000 "), "{path} {with_length} {}", answer.text());
    }
    for fields in [&[("content-length", "5000")][..], &[]] {
        let stream = client.open("POST", "/small", fields, false);
        client.send_some(stream, &[b'u'; 5000]);
        let answer = client.answer(stream);
        assert_eq!(answer.status, 413, "{answer:?}");
    }
    assert_eq!(client.get("/").status, 200, "the connection goes on");
}

#[test]
fn h4_body_waits_at_the_client_until_the_upstream_reads() {
    let go = Signal::new();
    let wait = go.clone();
    let peer = Peer::script(move |mut talk| {
        let head = talk.head().unwrap();
        assert_eq!(head.method(), "POST");
        talk.wait(&wait);
        let (mut left, total) = (30_000_000_usize, 30_000_000);
        while left > 0 {
            left -= talk.read(left.min(65_536)).len();
        }
        let text = format!("{total}");
        talk.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}", text.len()));
    });
    let server = "client_max_body_size 0; proxy_request_buffering off; location / { proxy_pass http://{upstream:0}; }";
    let gateway = gateway(server, &[peer.address()]);
    let mut client = connect(&gateway);
    let stream = client.open("POST", "/", &[("content-length", "30000000")], false);
    let piece = vec![b'u'; 65_536];
    let mut sent = 0;
    // Socket buffers and windows fill up; then nothing is sent for a while.
    let mut still = 0;
    while still < 40 {
        let went = client.send_some(stream, &piece[..piece.len().min(30_000_000 - sent)]);
        sent += went;
        still = if went == 0 { still + 1 } else { 0 };
        client.step();
        assert!(sent < 29_000_000, "nothing holds the client back");
    }
    go.raise();
    client.send(stream, &vec![b'u'; 30_000_000 - sent], true);
    assert_eq!(client.answer(stream).text(), "30000000");
}

#[test]
fn h5_trailers_pass_in_both_directions() {
    let peer = Peer::answering(|request| {
        let sum = request.value("X-Sum").unwrap_or("none");
        format!(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Check\r\n\r\n4\r\n{:4.4}\r\n0\r\nX-Check: 7\r\n\r\n",
            format!("{sum}....")
        )
        .into_bytes()
    });
    let server = "location / { proxy_pass_trailers on; add_trailer X-Own $trailer_x_sum; proxy_set_header X-Sum $trailer_x_sum; \
                  proxy_pass http://{upstream:0}; }";
    let gateway = gateway(server, &[peer.address()]);
    let mut client = connect(&gateway);
    let stream = client.open("POST", "/", &[("te", "trailers")], false);
    client.send(stream, b"body", false);
    client.send_trailers(stream, &[("x-sum", "42"), ("content-length", "9")]);
    let answer = client.answer(stream);
    assert_eq!((answer.status, answer.text()), (200, "42..".into()));
    let trailers: Vec<(&str, &str)> =
        answer.trailers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert!(trailers.contains(&("x-check", "7")) && trailers.contains(&("x-own", "42")), "{trailers:?}");
}

#[test]
fn h6_early_hints_and_100_continue_are_interim_heads() {
    let hint = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n";
    let peer = Peer::answering(move |_| format!("{hint}{HELLO}").into_bytes());
    let gateway = gateway("location / { early_hints 1; proxy_pass http://{upstream:0}; }", &[peer.address()]);
    let mut client = connect(&gateway);
    let answer = client.get("/");
    assert_eq!((answer.status, answer.text(), answer.interims.len()), (200, "hello".into(), 1));
    let (status, fields) = &answer.interims[0];
    assert_eq!((*status, &fields[..]), (103, &[("link".to_owned(), "</a.css>; rel=preload".to_owned())][..]));
    let stream = client.open("POST", "/", &[("expect", "100-continue"), ("content-length", "4")], false);
    client.until("100", |talk| !talk.so_far(stream).interims.is_empty());
    assert_eq!(client.so_far(stream).interims[0].0, 100);
    client.send(stream, b"body", true);
    assert_eq!(client.answer(stream).status, 200);
}

#[test]
fn h7_many_streams_share_one_connection() {
    let go = Signal::new();
    let wait = go.clone();
    let peer = Peer::script(move |mut talk| {
        while talk.request().is_some() {
            talk.wait(&wait);
            talk.send(HELLO);
        }
    });
    let gateway = gateway("location / { proxy_pass http://{upstream:0}; }", &[peer.address()]);
    let mut client = connect(&gateway);
    let streams: Vec<u32> = (0..100).map(|_| client.open("GET", "/", &[], true)).collect();
    gateway.until_totals("100 exchanges", |totals| totals.writing == 100 && totals.active == 1);
    go.raise();
    for stream in streams {
        assert_eq!(client.answer(stream).text(), "hello");
    }
    gateway.until_totals("rest", |totals| totals.writing == 0 && totals.waiting == 1);
}

#[test]
fn h8_large_bodies_go_through_small_windows_side_by_side() {
    let gateway = gateway("location / { root .; }", &[]);
    let body: Arc<Vec<u8>> = Arc::new((0..700_000_u32).map(|at| (at % 251) as u8).collect());
    std::fs::write(gateway.prefix().join("large"), &body[..]).unwrap();
    let mut client = Http2Talk::connect_with(gateway.address(), Config { stream_window: 5000, ..Config::default() });
    let streams: Vec<u32> = (0..5).map(|_| client.open("GET", "/large", &[], true)).collect();
    for stream in streams {
        let answer = client.answer(stream);
        assert_eq!((answer.status, answer.body.len()), (200, body.len()));
        assert!(answer.body == **body, "the bytes are those of the file");
    }
    let part = client.open("GET", "/large", &[("range", "bytes=10-19")], true);
    let answer = client.answer(part);
    assert_eq!((answer.status, &answer.body[..]), (206, &body[10..20]));
    let head = client.open("HEAD", "/large", &[], true);
    let answer = client.answer(head);
    assert_eq!((answer.status, answer.value("content-length"), answer.body.len()), (200, Some("700000"), 0));
}

#[test]
fn h9_gzip_subrequests_limits_and_error_pages_work_on_streams() {
    let http = "limit_req_zone $uri zone=one:32k rate=1r/m; gzip on; gzip_min_length 10; gzip_types text/plain;";
    let server = "add_header X-Proto $server_protocol always; error_page 404 /sorry; default_type text/plain; \
        location = /sorry { return 200 'sorry about that'; } \
        location = /zip { return 200 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'; } \
        location = /limited { limit_req zone=one; root .; } \
        location = /asked { auth_request /auth; root .; } \
        location = /auth { internal; return 403; } \
        location / { return 404; }";
    let gateway = gateway_with(http, server, &[]);
    for name in ["limited", "asked"] {
        std::fs::write(gateway.prefix().join(name), "content").unwrap();
    }
    let mut client = connect(&gateway);
    let zipped = client.open("GET", "/zip", &[("accept-encoding", "gzip")], true);
    let answer = client.answer(zipped);
    assert_eq!((answer.value("content-encoding"), answer.value("x-proto")), (Some("gzip"), Some("HTTP/2.0")));
    let missing = client.get("/none");
    assert_eq!((missing.status, missing.text()), (404, "sorry about that".into()));
    assert_eq!(client.get("/limited").status, 200);
    assert_eq!(client.get("/limited").status, 503);
    assert_eq!(client.get("/asked").status, 403);
}

#[test]
fn h10_failures_are_retried_and_truncation_resets_the_stream() {
    let broken = Peer::saying_once("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
    let (mute, good) = (Peer::script(|mut talk| drop(talk.request())), Peer::saying(HELLO));
    let http = "upstream two { server {upstream:0} max_fails=0; server {upstream:1} max_fails=0; }";
    let server = "location / { proxy_pass http://two; } location /half { proxy_pass http://{upstream:2}; }";
    let gateway = gateway_with(http, server, &[mute.address(), good.address(), broken.address()]);
    let mut client = connect(&gateway);
    for _ in 0..3 {
        assert_eq!(client.get("/").text(), "hello");
    }
    let cut = client.get("/half");
    assert_eq!((cut.status, cut.text(), cut.reset), (200, "half".into(), Some(ErrorCode::INTERNAL_ERROR)));
    assert_eq!(client.get("/").text(), "hello", "the connection goes on");
}

#[test]
fn h11_limit_rate_holds_on_a_stream() {
    let gateway = gateway("location / { limit_rate 20k; root .; }", &[]);
    std::fs::write(gateway.prefix().join("file"), vec![b'x'; 50_000]).unwrap();
    let mut client = connect(&gateway);
    let begun = std::time::Instant::now();
    let answer = client.get("/file");
    assert_eq!(answer.body.len(), 50_000);
    // The first second's bytes are sent at once; the rest takes a second and a half.
    assert!(begun.elapsed().as_millis() >= 1200, "{:?}", begun.elapsed());
}

#[test]
fn h43_large_windows_need_no_updates() {
    let gateway = gateway("location / { root .; }", &[]);
    let mut config = Config { stream_window: 1 << 21, connection_window: 1 << 26, ..Config::default() };
    config.streams_max = 200;
    for size in [60_001, 65_500, 700_001] {
        std::fs::write(gateway.prefix().join("file"), vec![b'x'; size]).unwrap();
        let mut client = Http2Talk::connect_with(gateway.address(), config);
        client.holds_windows = true;
        let streams: Vec<u32> = (0..20).map(|_| client.open("GET", "/file", &[], true)).collect();
        for stream in streams {
            assert_eq!(client.answer(stream).body.len(), size);
        }
    }
}

/// As in nginx: frames around a body, heads and trailers are part of `$bytes_sent` alone.
#[test]
fn figures_of_a_response_have_its_body_without_frames() {
    let peer = Peer::saying("HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n");
    let text = "events {} http { log_format figures '$status $body_bytes_sent $bytes_sent $sent_http_content_length'; \
                access_log access.log figures; server { listen {listen}; http2 on; root .; \
                location /trailed { add_trailer X-T 1; } location = /none { proxy_pass http://{upstream:0}; } } }";
    let gateway = Gateway::start(text, &[peer.address()]);
    for name in ["large", "trailed"] {
        std::fs::write(gateway.prefix().join(name), vec![b'x'; 100_000]).unwrap();
    }
    let mut client = connect(&gateway);
    for path in ["/large", "/trailed"] {
        assert_eq!(client.get(path).body.len(), 100_000);
    }
    // RFC 9110 §8.6: a 204 has no length, so that of the upstream is left out.
    assert_eq!(client.get("/none").value("content-length"), None);
    let split = |line: &String| line.split(' ').map(str::to_owned).collect();
    let lines: Vec<Vec<String>> = gateway.access_lines(3).iter().map(split).collect();
    let sent: Vec<usize> = lines.iter().map(|line| line[2].parse().unwrap()).collect();
    assert_eq!((&*lines[0][1], &*lines[1][1], &*lines[2][1]), ("100000", "100000", "0"));
    // Frames of 8 KB have nine bytes before their payload.
    let framing = 100_000_usize.div_ceil(8192) * 9;
    assert!((100_050 + framing..100_300 + framing).contains(&sent[0]) && sent[2] < 100, "{sent:?}");
    assert!(sent[1] > 100_000 + framing, "{sent:?}");
    assert_eq!(&*lines[2][3], "-");
}
