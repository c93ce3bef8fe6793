//! The page, bodies in every framing, echo, statuses: the origin's normal behaviour.
#![allow(clippy::unwrap_used)] // a failed step of a conversation is its end

use crate::talk;
use crate::talk::{Client, End, pattern, start, until};
use origin::{CloseReason, Options};
use reactor::PeerAddress;
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

fn json(body: &[u8]) -> Value {
    serde_json::from_slice(body).unwrap()
}

#[test]
fn page_has_612_bytes_and_static_file_fields() {
    let origin = start(Options::default());
    let mut client = Client::connect(&origin);
    for path in ["/", "/page"] {
        client.get(path);
        let (head, body) = client.response();
        assert_eq!((head.status, body), (200, pattern(612)));
        let names: Vec<_> = head.message.fields.iter().map(|(name, _)| name.as_str()).collect();
        let expected = [
            "Server",
            "Date",
            "Content-Type",
            "Content-Length",
            "Last-Modified",
            "Connection",
            "ETag",
            "Accept-Ranges",
        ];
        assert_eq!(names, expected);
        assert_eq!(head.field("Connection"), Some("keep-alive"));
        let date = httpdate::parse_http_date(head.field("Date").unwrap()).unwrap();
        assert!(date.elapsed().unwrap() < talk::DEADLINE);
    }
    drop(client);
    until("the close is counted", || origin.counts().connections_open == 0);
    let counts = origin.counts();
    assert_eq!((counts.connections_accepted, counts.requests, counts.executed), (1, 2, 2));
    assert_eq!(counts.closed(CloseReason::ClientClosed), 1);
}

#[test]
fn a_page_costs_the_work_that_the_request_names() {
    let origin = start(Options::default());
    let mut client = Client::connect(&origin);
    let begun = Instant::now();
    client.get("/?work=30000");
    assert_eq!(client.response().1, pattern(612));
    // CPU time of one thread is at most the time that passes.
    assert!(begun.elapsed() >= Duration::from_millis(30), "{:?}", begun.elapsed());
    for wrong in ["/?work=", "/?work=x", "/?work=1000001"] {
        client.get(wrong);
        assert_eq!(client.response().0.status, 400, "{wrong}");
    }
}

#[test]
fn a_page_too_large_to_be_prepared_arrives_whole() {
    let origin = start(Options { page_bytes: 3_000_000, ..Options::default() });
    let mut client = Client::connect(&origin);
    client.get("/");
    assert!(client.response().1 == pattern(3_000_000));
    client.send("HEAD / HTTP/1.1\r\nHost: o\r\n\r\n");
    assert_eq!(client.head().length(), 3_000_000);
    client.get("/bytes/1");
    assert_eq!(client.response().1, pattern(1));
}

#[test]
fn ranges_and_conditions_of_the_page() {
    let origin = start(Options::default());
    let mut client = Client::connect(&origin);
    let mut ask = |field: &str| {
        client.send(format!("GET / HTTP/1.1\r\nHost: o\r\n{field}\r\n\r\n"));
        let head = client.head();
        let body = if head.status == 304 { Vec::new() } else { client.bytes(head.length()) };
        (head, body)
    };
    let (head, body) = ask("Range: bytes=250-259");
    assert_eq!((head.status, head.field("Content-Range")), (206, Some("bytes 250-259/612")));
    assert_eq!(body, pattern(612)[250..260]);
    let (head, _) = ask("Range: bytes=612-");
    assert_eq!((head.status, head.field("Content-Range")), (416, Some("bytes */612")));
    let (whole, _) = ask("X: y");
    let (etag, modified) = (whole.field("ETag").unwrap(), whole.field("Last-Modified").unwrap());
    for condition in [format!("If-None-Match: \"x\", {etag}"), format!("If-Modified-Since: {modified}")] {
        let (head, _) = ask(&condition);
        assert_eq!((head.status, head.field("ETag"), head.field("Content-Length")), (304, Some(etag), None));
    }
    assert_eq!(ask("If-Range: \"other\"\r\nRange: bytes=0-1").0.status, 200);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let origin = start(Options::default());
    let mut client = Client::connect(&origin);
    let request = |target: &str| format!("GET {target} HTTP/1.1\r\nHost: o\r\n\r\n");
    let many: String = (0..200).map(|number| request(&format!("/bytes/{}", number * 1000))).collect();
    let sender = std::thread::spawn({
        let mut socket = client.talk.socket().try_clone().unwrap();
        move || std::io::Write::write_all(&mut socket, many.as_bytes()).unwrap()
    });
    for number in 0..200 {
        assert_eq!(client.response().1.len(), number * 1000);
    }
    sender.join().unwrap();
    client.send(format!("{}{}{}", request("/"), request("/echo"), request("/")));
    assert_eq!(client.response().1.len(), 612);
    assert_eq!(json(&client.response().1)["request"], 202);
    assert_eq!(client.response().1.len(), 612);
}

#[test]
fn a_head_in_single_bytes_is_a_head() {
    let origin = start(Options::default());
    let mut client = Client::connect(&origin);
    for byte in b"\r\nGET /bytes/3 HTTP/1.1\r\nHost: o\r\nX: y\r\n\r\n" {
        client.send([*byte]);
    }
    assert_eq!(client.response().1, pattern(3));
}

#[test]
fn bodies_in_every_framing() {
    let origin = start(Options::default());
    let mut client = Client::connect(&origin);
    for size in [0, 1, 70_000, 5_000_000] {
        client.get(&format!("/bytes/{size}"));
        assert!(client.response().1 == pattern(size), "{size} bytes");
    }
    client.get("/chunked/10?chunk=4&trailer=X-Sum:7");
    assert_eq!(client.head().field("Transfer-Encoding"), Some("chunked"));
    assert_eq!(client.chunked(), (vec![4, 4, 2], pattern(10), vec!["X-Sum: 7".to_owned()]));
    client.get("/chunked/300000?chunk=100000");
    client.head();
    assert!(client.chunked().1 == pattern(300_000));
    client.get("/close-delimited/200000");
    let head = client.head();
    assert_eq!((head.field("Content-Length"), head.field("Connection")), (None, Some("close")));
    assert!(client.rest() == (pattern(200_000), End::Fin));
}

#[test]
fn http_1_0_gets_no_chunks_and_optional_keepalive() {
    let origin = start(Options::default());
    let mut client = Client::connect(&origin);
    client.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    let (head, _) = client.response();
    assert_eq!(head.field("Connection"), Some("keep-alive"));
    client.send("GET /chunked/5 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    assert_eq!(client.head().field("Transfer-Encoding"), None);
    assert_eq!(client.rest(), (pattern(5), End::Fin));
    let mut client = Client::connect(&origin);
    client.send("GET / HTTP/1.0\r\n\r\n");
    let (head, _) = client.response();
    assert_eq!(head.field("Connection"), Some("close"));
    client.expect_end(End::Fin);
}

#[test]
fn echo_returns_the_received_request() {
    let origin = start(Options::default());
    let mut client = Client::connect(&origin);
    client.send(
        "PUT /echo?a=b HTTP/1.1\r\nhost: o\r\nX-Two: 1\r\nx_two:  two \r\nX-Two: 3\r\nContent-Length: 9\r\n\r\n123456789",
    );
    let echo = json(&client.response().1);
    assert_eq!(echo["method"], "PUT");
    assert_eq!(echo["target"], "/echo?a=b");
    assert_eq!(echo["version"], "HTTP/1.1");
    let fields = [["host", "o"], ["X-Two", "1"], ["x_two", "two"], ["X-Two", "3"], ["Content-Length", "9"]];
    assert_eq!(echo["fields"], serde_json::json!(fields));
    // The standard check value of CRC-32 is that of these nine digits.
    assert_eq!(echo["body"], serde_json::json!({"bytes": 9, "crc32": "cbf43926", "trailers": []}));
    assert_eq!((&echo["connection"], &echo["request"]), (&Value::from(1), &Value::from(1)));
    assert_eq!(echo["remote"], client.talk.address().to_string());

    client.send("POST /echo HTTP/1.1\r\nHost: o\r\nTransfer-Encoding: chunked\r\n\r\n4;x=y\r\n1234\r\n");
    client.send("5\r\n56789\r\n0\r\nX-T: u\r\n\r\n");
    let echo = json(&client.response().1);
    assert_eq!(echo["body"], serde_json::json!({"bytes": 9, "crc32": "cbf43926", "trailers": [["X-T", "u"]]}));
    assert_eq!(echo["request"], 2);
}

#[test]
fn large_body_is_read_before_the_answer() {
    let origin = start(Options::default());
    let mut client = Client::connect(&origin);
    client.send("POST /echo HTTP/1.1\r\nHost: o\r\nContent-Length: 2000000\r\n\r\n");
    client.send(pattern(2_000_000));
    assert_eq!(json(&client.response().1)["body"]["bytes"], 2_000_000);
}

#[test]
fn a_client_that_expects_100_continue_gets_it() {
    let origin = start(Options::default());
    let mut client = Client::connect(&origin);
    client.send("POST /echo HTTP/1.1\r\nHost: o\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
    assert_eq!(client.head().status, 100);
    client.send("ab");
    let (head, body) = client.response();
    assert_eq!((head.status, &json(&body)["body"]["bytes"]), (200, &Value::from(2)));
}

#[test]
fn a_status_with_its_fields() {
    let origin = start(Options::default());
    let mut client = Client::connect(&origin);
    client.get("/status/503?header=Retry-After:7&header=X%20Y:a");
    let head = client.head();
    assert_eq!(head.status, 400, "a name has no blanks");
    client.bytes(head.length());
    client.get("/status/503?header=Retry-After:7&header=X-Colon:a%3Ab");
    let (head, _) = client.response();
    assert_eq!((head.status, head.field("Retry-After"), head.field("X-Colon")), (503, Some("7"), Some("a:b")));
    for status in [204, 304] {
        client.get(&format!("/status/{status}"));
        let head = client.head();
        assert_eq!((head.status, head.field("Content-Length")), (status, None));
    }
    client.get("/status/200?header=X:a%0d%0aY:b");
    assert_eq!(client.response().0.status, 400);
    client.get("/nothing");
    assert_eq!(client.response().0.status, 404);
}

#[test]
fn interim_responses_come_before_the_answer() {
    let origin = start(Options::default());
    let mut client = Client::connect(&origin);
    client.get("/status/200?interim=103&interims=200");
    for _ in 0..200 {
        assert_eq!(client.head().status, 103);
    }
    assert_eq!(client.response().0.status, 200);
    client.send("GET /status/201?interim=103 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    assert_eq!(client.response().0.status, 201, "HTTP/1.0 knows no interim responses");
}

#[test]
fn listens_on_a_unix_socket_and_removes_its_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("origin.sock");
    for _ in 0..2 {
        let listen = vec![PeerAddress::Unix(path.clone()), PeerAddress::Ip(([127, 0, 0, 1], 0).into())];
        let origin = start(Options { listen, ..Options::default() });
        let mut socket = UnixStream::connect(&path).unwrap();
        socket.set_read_timeout(Some(talk::DEADLINE)).unwrap();
        socket.write_all(b"GET /bytes/3 HTTP/1.0\r\n\r\n").unwrap();
        let mut response = Vec::new();
        socket.read_to_end(&mut response).unwrap();
        assert!(response.ends_with(&pattern(3)));
        let mut client = Client::connect(&origin);
        client.get("/");
        client.response();
        origin.stop().unwrap();
        assert!(!path.exists());
    }
}

#[test]
fn delays_and_slow_bodies_take_their_time() {
    let origin = start(Options::default());
    let mut client = Client::connect(&origin);
    let begun = Instant::now();
    client.get("/delay/60");
    assert_eq!(client.response().0.status, 200);
    assert!(begun.elapsed() >= Duration::from_millis(60));
    let begun = Instant::now();
    for (target, chunked) in [("/slow/7?step=2&every=20", false), ("/slow/7?step=2&every=20&framing=chunked", true)] {
        client.get(target);
        let head = client.head();
        let body = if chunked { client.chunked().1 } else { client.bytes(head.length()) };
        assert_eq!(body, pattern(7));
    }
    assert!(begun.elapsed() >= Duration::from_millis(120), "four steps, so three pauses, twice");
}

#[test]
fn a_client_that_half_closes_after_its_request_is_answered() {
    let origin = start(Options::default());
    let mut client = Client::connect(&origin);
    client.get("/delay/30");
    client.half_close();
    assert_eq!(client.response().0.status, 200);
    client.expect_end(End::Fin);
}

#[test]
fn several_workers_share_the_connections() {
    let origin = start(Options { workers: 3, ..Options::default() });
    let mut clients: Vec<_> = (0..30).map(|_| Client::connect(&origin)).collect();
    for client in &mut clients {
        client.get("/");
        assert_eq!(client.response().1.len(), 612);
    }
    assert_eq!((origin.counts().connections_open, origin.counts().requests), (30, 30));
    drop(clients);
    until("all closed", || origin.counts().connections_open == 0);
    origin.stop().unwrap();
}

#[test]
fn a_stopped_origin_closes_its_connections() {
    let origin = start(Options::default());
    let mut client = Client::connect(&origin);
    client.get("/");
    client.response();
    let handle = origin.handle();
    origin.stop().unwrap();
    client.expect_end(End::Fin);
    assert_eq!(handle.counts().closed(CloseReason::Stopped), 1);
}

#[test]
fn events_continue_after_the_last_event_id() {
    let origin = start(Options::default());
    let mut client = Client::connect(&origin);
    for (last, numbers) in [("", [1, 2, 3]), ("Last-Event-ID: 41\r\n", [42, 43, 44])] {
        client.send(format!("GET /events?every=1&count=3&retry=20 HTTP/1.1\r\nHost: o\r\n{last}\r\n"));
        let head = client.head();
        let (_, body, _) = client.chunked();
        assert_eq!((head.status, head.field("Content-Type")), (200, Some("text/event-stream")));
        let text = String::from_utf8(body).unwrap();
        let events: Vec<&str> = text.split_terminator("\n\n").collect();
        assert!(text.starts_with("retry: 20\n") && events.len() == 3, "{text}");
        for (event, number) in events.iter().zip(numbers) {
            assert!(event.contains(&format!("id: {number}\ndata: {{\"number\":{number},\"sent_us\":")), "{event}");
        }
    }
    client.get("/events?every=x");
    assert_eq!(client.response().0.status, 400);
}
