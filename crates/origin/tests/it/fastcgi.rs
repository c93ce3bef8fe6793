//! `--fastcgi`: the origin as an application, asked by a scripted web server.
#![allow(clippy::unwrap_used)] // a failed step of a conversation is its end

use crate::talk::{pattern, start};
use cgi::Params as _;
use cgi::fastcgi::{Decoder, LAST_RECORD, Piece, RequestHead, StdinRecord};
use origin::{CloseReason, Options, Running};
use serde_json::Value;
use std::time::{Duration, Instant};
use testkit::{End, Talk};

fn origin() -> Running {
    start(Options { fastcgi: true, ..Options::default() })
}

/// A request's records.
fn request(keep: bool, target: &str, params: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut head = RequestHead::begin(Vec::new(), keep);
    for (name, value) in [("REQUEST_URI", target), ("SERVER_NAME", "a.example")].iter().chain(params) {
        head.param(name.as_bytes(), value.as_bytes()).unwrap();
    }
    let mut bytes = head.finish();
    for part in body.chunks(10_000) {
        let record = StdinRecord::new(part.len());
        bytes.extend_from_slice(&[record.header(), part, record.padding()].concat());
    }
    bytes.extend_from_slice(LAST_RECORD);
    bytes
}

/// The head and the body of the output, and standard error; the request must end.
fn answer(client: &mut Talk) -> (String, Vec<u8>, String) {
    let (mut decoder, mut output) = (Decoder::default(), Vec::new());
    while !decoder.has_ended() {
        let byte = client.read(1);
        let mut rest = byte.as_slice();
        if let Piece::Stdout(content) = decoder.next(&mut rest).unwrap() {
            output.extend_from_slice(content);
            // The record may have been the last one.
            decoder.next(&mut rest).unwrap();
        }
    }
    let end = output.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let body = output.split_off(end + 4);
    (String::from_utf8(output).unwrap(), body, String::from_utf8(decoder.take_stderr()).unwrap())
}

#[test]
fn pages_match_those_over_http() {
    let origin = origin();
    let mut client = Talk::connect(origin.address());
    let mut ask = |target: &str| {
        client.send(request(true, target, &[], b""));
        let (head, body, _) = answer(&mut client);
        (head, body)
    };
    let (head, body) = ask("/");
    assert!(head.starts_with("Status: 200\r\nContent-Type: text/html\r\nContent-Length: 612\r\n"), "{head}");
    assert_eq!(body, pattern(612));
    for size in [0, 1, 65_528, 65_529, 200_000] {
        assert_eq!(ask(&format!("/bytes/{size}")).1, pattern(size), "{size}");
        let (head, body) = ask(&format!("/chunked/{size}"));
        assert!(body == pattern(size) && !head.contains("Content-Length"), "{head}");
    }
    let (head, body) = ask("/status/404?header=X-Own:yes");
    assert!(
        head.starts_with("Status: 404\r\n") && head.contains("X-Own: yes\r\n") && body == b"status 404\n",
        "{head}"
    );
    let (head, body) = ask("/status/304");
    assert_eq!((head.as_str(), body.len()), ("Status: 304\r\n\r\n", 0));
    assert!(ask("/upgrade").0.starts_with("Status: 426") && ask("/none").0.starts_with("Status: 404"));
    let begun = Instant::now();
    assert!(ask("/delay/150").0.starts_with("Status: 200") && begun.elapsed() >= Duration::from_millis(148));
    let begun = Instant::now();
    assert_eq!(ask("/?work=30000").1, pattern(612));
    assert!(begun.elapsed() >= Duration::from_millis(30), "{:?}", begun.elapsed());
    assert_eq!(ask("/slow/3?step=1&every=30").1, pattern(3));
    assert_eq!(origin.counts().connections_accepted, 1, "all on one connection");
}

#[test]
fn parameters_and_bodies_come_back() {
    let origin = origin();
    let mut client = Talk::connect(origin.address());
    let long = "x".repeat(70_000);
    let params =
        [("REQUEST_METHOD", "POST"), ("HTTP_X_ONE", "1"), ("CONTENT_TYPE", "a/b"), ("LONG", &long), ("EMPTY", "")];
    client.send(request(true, "/params", &params, b""));
    let (_, body, _) = answer(&mut client);
    let pairs: Vec<[String; 2]> = serde_json::from_slice(&body).unwrap();
    assert_eq!((pairs.len(), &pairs[5][1], &pairs[6][1]), (7, &long, &String::new()));
    let sent = pattern(150_000);
    client.send(request(true, "/echo?a=b", &params[..3], &sent));
    let (_, body, _) = answer(&mut client);
    let echo: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(
        (&echo["method"], &echo["target"], &echo["body"]["bytes"]),
        (&"POST".into(), &"/echo?a=b".into(), &150_000.into())
    );
    assert!(echo["fields"].as_array().unwrap().contains(&serde_json::json!(["X-One", "1"])), "{echo}");
    client.send(request(true, "/status/200?stderr=careful", &[], b""));
    assert_eq!(answer(&mut client).2, "careful\n");
    client.send(request(true, "/bytes/9", &[("REQUEST_METHOD", "HEAD")], b""));
    assert_eq!(answer(&mut client).1, b"");
    client.send(request(true, "/echo", &[("HTTP_A", "b\r\nC: d")], b""));
    assert!(answer(&mut client).0.starts_with("Status: 400"));
}

#[test]
fn web_server_decides_if_connections_are_kept() {
    let origin = origin();
    let mut client = Talk::connect(origin.address());
    client.send(request(false, "/bytes/5", &[], b""));
    assert_eq!(answer(&mut client).1, pattern(5));
    assert_eq!(client.end(), End::Fin);
    let limited = start(Options {
        fastcgi: true,
        closing: origin::Closing { after_requests: Some(2), ..origin::Closing::default() },
        ..Options::default()
    });
    let mut client = Talk::connect(limited.address());
    for _ in 0..2 {
        client.send(request(true, "/bytes/5", &[], b""));
        answer(&mut client);
    }
    assert_eq!(client.end(), End::Fin);
    assert_eq!(limited.counts().closed(CloseReason::RequestLimit), 1);
}

#[test]
fn faults_apply_to_connections_and_records() {
    let origin = origin();
    let ask = |target: &str| {
        let mut client = Talk::connect(origin.address());
        client.send(request(true, target, &[], b""));
        client
    };
    assert_eq!(ask("/reset/at?point=request").end(), End::Reset);
    assert_eq!(ask("/reset/at?point=head").rest().1, End::Reset);
    let (bytes, end) = ask("/bytes/1000?cut=10").rest();
    assert!(bytes.ends_with(&pattern(10)) && end == End::Fin);
    let (bytes, _) = ask("/chunked/1000?cut=10&by=bad-chunk").rest();
    let mut decoder = Decoder::default();
    let mut rest = bytes.as_slice();
    let failed = loop {
        match decoder.next(&mut rest) {
            Ok(Piece::Stdout(_)) => {}
            other => break other,
        }
    };
    assert!(failed.is_err(), "{failed:?}");
    let big = start(Options { fastcgi: true, body_bytes_max: 100, ..Options::default() });
    let mut client = Talk::connect(big.address());
    client.send(request(true, "/echo", &[("REQUEST_METHOD", "POST")], &[0; 101]));
    assert!(answer(&mut client).0.starts_with("Status: 413"));
}

#[test]
fn foreign_bytes_end_the_connection() {
    let origin = origin();
    let mut client = Talk::connect(origin.address());
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    client.rest();
    assert_eq!(origin.counts().closed(CloseReason::BadRequest), 1);
}
