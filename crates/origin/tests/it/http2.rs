//! The origin over HTTP/2, tested with h2spec, h2load, curl and nghttp; bytes that these do not send are written by hand.
#![allow(clippy::unwrap_used)] // a failed step is the end of a test

use crate::talk::{pattern, start, until};
use origin::{CloseReason, Closing, Options, Running, Tls};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};
use testkit::peer_program;
use tls::{Pair, ServerSide};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// An empty SETTINGS frame.
const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];

fn secure(options: Options) -> Running {
    let pair = Pair::self_made(&["127.0.0.1".to_owned()]).unwrap();
    let side = ServerSide::new().pair(pair).alpn(["h2", "http/1.1"]).build().unwrap();
    start(Options { tls: Some(Tls::new(side)), ..options })
}

/// The output of a program; it must succeed.
fn run(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = [String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr)].concat();
    assert!(status.success(), "{command:?}: {status}\n{text}");
    text
}

fn curl(origin: &Running, path: &str, more: &[&str]) -> Command {
    let mut curl = Command::new(peer_program("curl"));
    curl.args(["--http2-prior-knowledge", "-sS", "--max-time", "20", "-D", "-"]).args(more);
    curl.arg(format!("http://{}{path}", origin.address()));
    curl
}

#[test]
fn h2spec_finds_nothing_in_strict_mode() {
    for tls in [false, true] {
        let origin = if tls { secure(Options::default()) } else { start(Options::default()) };
        let mut h2spec = Command::new(peer_program("h2spec"));
        h2spec.args(["--strict", "--timeout", "5", "--host", "127.0.0.1", "--port"]);
        h2spec.arg(origin.address().port().to_string());
        if tls {
            h2spec.args(["--tls", "--insecure"]);
        }
        let output = h2spec.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if tls {
            assert!(text.contains("146 tests, 146 passed, 0 skipped, 0 failed"), "{text}");
        } else {
            // Without TLS the same port serves HTTP/1.1, so a malformed preface is a malformed HTTP/1.1 request there and
            // gets a 400.
            assert!(text.contains("146 tests, 145 passed, 0 skipped, 1 failed"), "{text}");
            let failures = text.split_once("Failures:").map_or("", |(_, failures)| failures);
            assert!(failures.contains("2: Sends invalid connection preface"), "{failures}");
        }
        until("all are closed", || origin.counts().connections_open == 0);
        // The exact number varies, because some clients leave before the error is reported.
        assert!(origin.counts().closed(CloseReason::Http2Fault) > 0, "{:?}", origin.counts());
    }
}

#[test]
fn h2load_gets_every_answer_by_alpn_and_with_prior_knowledge() {
    for tls in [false, true] {
        let origin = if tls { secure(Options::default()) } else { start(Options::default()) };
        let scheme = if tls { "https" } else { "http" };
        for (path, requests) in [("/", "5000"), ("/bytes/1000000", "40"), ("/slow/100?step=50&every=20", "40")] {
            let url = format!("{scheme}://{}{path}", origin.address());
            let mut h2load = Command::new(peer_program("h2load"));
            let text = run(h2load.args(["-n", requests, "-c", "10", "-m", "20", "-w", "14", &url]));
            assert!(text.contains(&format!("{requests} succeeded, 0 failed, 0 errored, 0 timeout")), "{text}");
        }
        assert_eq!((origin.counts().http2_connections, origin.counts().requests), (30, 5080));
    }
}

#[test]
fn page_matches_http1() {
    let origin = start(Options::default());
    let text = run(&mut curl(&origin, "/", &[]));
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    assert_eq!(body.as_bytes(), pattern(612));
    let names: Vec<&str> = head.lines().filter_map(|line| Some(line.split_once(": ")?.0)).collect();
    let expected = ["server", "date", "content-type", "last-modified", "etag", "accept-ranges", "content-length"];
    assert_eq!((head.lines().next(), names), (Some("HTTP/2 200 "), expected.to_vec()));
    let begun = Instant::now();
    assert!(run(&mut curl(&origin, "/?work=200000", &[])).as_bytes().ends_with(&pattern(612)));
    assert!(begun.elapsed() >= Duration::from_millis(200), "{:?}", begun.elapsed());
    let text = run(&mut curl(&origin, "/", &["-r", "10-19"]));
    assert!(text.starts_with("HTTP/2 206") && text.contains("content-range: bytes 10-19/612\r\n"), "{text}");
    assert!(text.as_bytes().ends_with(&pattern(20)[10..]), "{text}");
    let text = run(&mut curl(&origin, "/", &["--head"]));
    assert!(text.contains("content-length: 612\r\n") && text.ends_with("\r\n\r\n"), "{text}");
}

#[test]
fn behaviours_match_http1() {
    let origin = start(Options::default());
    let text = run(&mut curl(&origin, "/status/404?header=X-A:b&interim=103&interims=2", &[]));
    assert_eq!(text.matches("HTTP/2 103").count(), 2, "{text}");
    assert!(text.contains("HTTP/2 404 \r\n") && text.contains("x-a: b\r\n"), "{text}");
    let text = run(&mut curl(&origin, "/chunked/30?chunk=7&trailer=X-Sum:5", &[]));
    assert!(!text.contains("content-length") && text.contains("x-sum: 5\r\n"), "{text}");
    assert!(text.contains(&String::from_utf8(pattern(30)).unwrap()), "{text}");
    assert!(run(&mut curl(&origin, "/delay/30", &[])).ends_with("after 30 ms\n"));
    let text = run(&mut curl(&origin, "/echo?x=1", &["-d", "a=b", "-H", "X-C: d"]));
    for part in [
        r#""method":"POST""#,
        r#""target":"/echo?x=1""#,
        r#""version":"HTTP/2.0""#,
        r#"["x-c","d"]"#,
        r#""body":{"bytes":3,"crc32":"#,
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(run(&mut curl(&origin, "/nothing", &[])).starts_with("HTTP/2 404"));
    let refused = start(Options { body_bytes_max: 10, ..Options::default() });
    // With nghttp, because curl 7.88 does not show a response that ends the stream while curl sends the body, with any
    // server.
    let folder = tempfile::tempdir().unwrap();
    let body = folder.path().join("body");
    fs::write(&body, b"more than ten bytes").unwrap();
    let mut nghttp = Command::new(peer_program("nghttp"));
    nghttp.args(["--no-dep", "--verbose", "--data"]).arg(&body);
    let text = run(nghttp.arg(format!("http://{}/echo", refused.address())));
    assert!(text.contains(":status: 413") && text.contains("the body is too long"), "{text}");
}

#[test]
fn trailers_of_a_request_are_echoed() {
    let origin = start(Options::default());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("body");
    fs::write(&file, b"body").unwrap();
    let mut nghttp = Command::new(peer_program("nghttp"));
    nghttp.args(["--no-dep", "--trailer", "x-sum: 4", "--data"]).arg(&file);
    let text = run(nghttp.arg(format!("http://{}/echo", origin.address())));
    assert!(text.contains(r#""trailers":[["x-sum","4"]]"#), "{text}");
}

#[test]
fn faults_hit_the_stream_unless_asked_otherwise() {
    let origin = start(Options::default());
    for (path, words) in [
        ("/reset/at?point=request&code=11", "ENHANCE_YOUR_CALM"),
        ("/reset/at?point=body", "INTERNAL_ERROR"),
        ("/bytes/100?cut=50&code=8", "CANCEL"),
    ] {
        let output = curl(&origin, path, &[]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(92) && said.contains(words), "{path}: {output:?}");
    }
    let output = curl(&origin, "/reset/at?point=request&connection", &[]).output().unwrap();
    // curl reports a send or a receive error, depending on what it tries first.
    assert!(matches!(output.status.code(), Some(55 | 56)), "{output:?}");
    until("it is counted", || origin.counts().closed(CloseReason::FaultReset) == 1);
    let text = run(&mut curl(&origin, "/execute-then-reset?id=a&every=2", &[]));
    assert!(text.starts_with("HTTP/2 200"), "{text}");
    assert_eq!(origin.executed("a"), 1);
}

/// Sends a gRPC message with curl; returns everything that it received.
fn call(origin: &Running, path: &str, message: &[u8], more: &[&str], folder: &Path) -> Vec<u8> {
    let file = folder.join("message");
    fs::write(&file, message).unwrap();
    let mut curl = curl(origin, path, more);
    curl.args(["-H", "content-type: application/grpc", "-H", "te: trailers", "--data-binary"]);
    curl.arg(format!("@{}", file.display()));
    curl.output().unwrap().stdout
}

#[test]
fn grpc_messages_come_back_with_a_status() {
    let (origin, folder) = (start(Options::default()), tempfile::tempdir().unwrap());
    let call = |path, message, more: &[&str]| {
        String::from_utf8_lossy(&call(&origin, path, message, more, folder.path())).into_owned()
    };
    let text = call("/test.Echo/Say", b"\0\0\0\0\x05hello", &[]);
    assert!(text.contains("content-type: application/grpc\r\n") && text.contains("\0\0\0\0\x05hello"), "{text}");
    assert!(text.contains("grpc-status: 0\r\n"), "{text}");
    let text = call("/test.Echo/Say", b"\0\0\0\0\x05hello", &["-H", "x-grpc-status: 14"]);
    assert!(text.contains("grpc-status: 14\r\n") && !text.contains("hello"), "{text}");
    let cut = call("/test.Echo/Say", b"\0\0\0\0\x09hello", &[]);
    assert!(cut.contains("grpc-status: 13\r\n"), "{cut}");
    let healthy = call("/grpc.health.v1.Health/Check", b"\0\0\0\0\0", &[]);
    assert!(healthy.contains("\0\0\0\0\x02\x08\x01") && healthy.contains("grpc-status: 0"), "{healthy}");
}

#[test]
fn the_preface_is_recognised_in_pieces() {
    let origin = start(Options::default());
    let mut stream = TcpStream::connect(origin.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.set_nodelay(true).unwrap();
    for piece in PREFACE.chunks(5) {
        stream.write_all(piece).unwrap();
        // Pieces may arrive in separate reads or together; both must work.
        std::thread::yield_now();
    }
    stream.write_all(&SETTINGS).unwrap();
    let mut begin = [0; 9];
    stream.read_exact(&mut begin).unwrap();
    assert_eq!((begin[3], begin[5..].to_vec()), (4, vec![0; 4]), "a SETTINGS frame on stream 0");
    assert_eq!(origin.counts().http2_connections, 1);
}

#[test]
fn near_preface_is_a_request() {
    let origin = start(Options::default());
    let mut stream = TcpStream::connect(origin.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(b"PRI / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
    assert_eq!(origin.counts().http2_connections, 0);
}

#[test]
fn an_idle_connection_ends_with_goaway() {
    let closing = Closing { after_idle: Some(Duration::from_millis(50)), ..Closing::default() };
    let origin = start(Options { closing, ..Options::default() });
    let mut stream = TcpStream::connect(origin.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(&[PREFACE, &SETTINGS].concat()).unwrap();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    // The last 17 bytes: a GOAWAY of 8 bytes with last stream 0 and NO_ERROR.
    let goaway = [0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    assert!(all.ends_with(&goaway), "{all:?}");
    until("it is closed", || origin.counts().closed(CloseReason::Idle) == 1);
}
