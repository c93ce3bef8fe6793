//! Request bodies: compressed, and sent in pieces, chunked or at a rate. Compressed responses in checks.
#![allow(clippy::unwrap_used)] // a failed step is the end of a test

use crate::scenario::options as scenario_options;
use crate::scene::recorder::{Recorder, ok};
use crate::scene::{origin, requests, run, server, target};
use flate2::read::GzDecoder;
use load::{Cause, Coding, Options, Target, Upload, Version};
use std::io::{Read as _, Write as _};
use std::time::Duration;
use testkit::Peer;

const TEXT: &str = "the same words again, and the same words again; ";

fn post(target: Target, body: &[u8]) -> Target {
    Target { method: "POST".to_owned(), body: body.to_vec(), ..target }
}

fn upload(chunked: bool, piece_bytes: usize, bytes_per_second: Option<f64>) -> Upload {
    Upload { chunked, piece_bytes, bytes_per_second }
}

fn decoded(coding: &str, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    match coding {
        "gzip" => drop(GzDecoder::new(bytes).read_to_end(&mut out).unwrap()),
        "br" => drop(brotli::Decompressor::new(bytes, 4096).read_to_end(&mut out).unwrap()),
        other => {
            assert_eq!(other, "zstd");
            out = vec![0; 1 << 20];
            let len = zstd_safe::decompress(out.as_mut_slice(), bytes).unwrap();
            out.truncate(len);
        }
    }
    out
}

#[test]
fn bodies_are_sent_compressed() {
    let recorder = Recorder::start(|_| ok("", "thanks"));
    let body = TEXT.repeat(100);
    for coding in Coding::ALL {
        let target = post(target(recorder.address, "/"), format!("{body}{{{{counter}}}}").as_bytes());
        let whole = run(Options { compress: Some(coding), ..requests(target, 3, 1) }).record.whole();
        assert_eq!((whole.responses, whole.errors()), (3, 0), "{:?}", whole.failures);
        let received = recorder.received();
        for (number, request) in received[received.len() - 3..].iter().enumerate() {
            assert_eq!(request.value("Content-Encoding"), Some(coding.name()));
            assert_eq!(request.value("Content-Length"), Some(request.body.len().to_string().as_str()));
            assert!(request.body.len() < body.len() / 10, "{coding:?}: {} bytes", request.body.len());
            assert_eq!(decoded(coding.name(), &request.body), format!("{body}{number}").as_bytes());
        }
    }
}

#[test]
fn bodies_are_compressed_over_http2_too() {
    let origin = origin(origin::Options::default());
    let body = TEXT.repeat(1000);
    let target = post(target(origin.address(), "/echo"), body.as_bytes());
    let options = Options { version: Version::Http2, compress: Some(Coding::Gzip), ..requests(target, 6, 2) };
    let whole = run(options).record.whole();
    assert_eq!((whole.responses, whole.errors()), (6, 0), "{:?}", whole.failures);
    assert!(whole.bytes_sent < body.len() as u64, "{} bytes", whole.bytes_sent);
}

#[test]
fn checks_see_decoded_responses() {
    let packed = |text: &str| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    };
    let body = packed(r#"{"token":"abc","list":[1,2]}"#);
    let head = format!("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n", body.len());
    let peer = Peer::saying([head.as_bytes(), &body].concat());
    let folder = tempfile::tempdir().unwrap();
    let text = r#"
        [[scenario]]
        name = "one"
        [[scenario.step]]
        name = "get"
        url = "/"
        check = [{ contains = "abc" }, { pointer = "/list/1", equals = "2" }]
        extract = [{ name = "token", pointer = "/token" }]
    "#;
    let summary = run(scenario_options(folder.path(), text, peer.address()));
    let (failed, of) = summary.record.whole().checks_failed();
    assert_eq!((failed, of), (0, 60), "20 iterations with two checks and a value");
}

#[test]
fn chunks_have_the_whole_body_and_connections_stay() {
    let origin = origin(origin::Options::default());
    let body = TEXT.repeat(3000);
    for (chunked, piece) in [(true, 1000), (true, 1 << 20), (false, 4096)] {
        let target = post(target(origin.address(), "/echo"), body.as_bytes());
        let summary = run(Options { upload: Some(upload(chunked, piece, None)), ..requests(target, 20, 2) });
        let whole = summary.record.whole();
        assert_eq!((whole.responses, whole.errors()), (20, 0), "{:?}", whole.failures);
        assert_eq!((summary.record.opened, whole.reused), (2, 18), "a wrong frame would end a connection");
        assert!(whole.bytes_sent > 20 * body.len() as u64, "{} bytes", whole.bytes_sent);
    }
    let recorder = Recorder::start(|_| ok("", "thanks"));
    let target = post(target(recorder.address, "/"), b"0123456789");
    run(Options { upload: Some(upload(false, 3, None)), compress: None, ..requests(target, 1, 1) });
    assert_eq!(recorder.received()[0].text(), "0123456789");
}

#[test]
fn a_chunked_body_is_received_as_sent() {
    let peer = Peer::saying("HTTP/1.1 200 X\r\nContent-Length: 0\r\n\r\n");
    let target = post(target(peer.address(), "/"), b"0123456789");
    let whole = run(Options { upload: Some(upload(true, 4, None)), ..requests(target, 1, 1) }).record.whole();
    assert_eq!(whole.statuses, [(200, 1)], "{:?}", whole.failures);
    let received = peer.received(0);
    assert!(
        received.ends_with(b"\r\n\r\n4\r\n0123\r\n4\r\n4567\r\n2\r\n89\r\n0\r\n\r\n"),
        "{}",
        received.escape_ascii()
    );
}

#[test]
fn a_slow_body_takes_its_time_and_no_timeout() {
    let origin = origin(origin::Options::default());
    let target = post(target(origin.address(), "/echo"), &[b'x'; 8000]);
    let options = Options {
        upload: Some(upload(true, 1000, Some(8000.0))),
        response_timeout: Duration::from_millis(700),
        ..requests(target, 2, 2)
    };
    let summary = run(options);
    let whole = summary.record.whole();
    assert_eq!((whole.responses, whole.errors()), (2, 0), "{:?}", whole.failures);
    // The eighth piece is due after 7/8 of a second.
    assert!(whole.latency.min_ns() >= 800_000_000, "{} ns", whole.latency.min_ns());
}

#[test]
fn early_answer_ends_its_connection() {
    let peer = Peer::script(|mut talk| {
        talk.head();
        talk.send("HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n");
        // The rest of the body is read until the client has closed.
        talk.rest();
    });
    let target = post(target(peer.address(), "/"), &vec![b'x'; 100_000]);
    let summary = run(Options { upload: Some(upload(true, 1000, Some(20_000.0))), ..requests(target, 5, 1) });
    let whole = summary.record.whole();
    assert_eq!((whole.responses, whole.failed(), summary.record.opened), (5, 0, 5), "{:?}", whole.failures);
    assert_eq!(whole.statuses, [(413, 5)]);
}

#[test]
fn a_target_that_does_not_read_a_body_is_named() {
    let address = server(|stream| {
        let mut byte = [0; 1];
        // The connection stays open until the client has gone; then the wait ends.
        while stream.peek(&mut byte).is_ok_and(|count| count == 1) {
            std::thread::park_timeout(Duration::from_millis(20));
        }
    });
    let target = post(target(address, "/"), &vec![b'x'; 16 << 20]);
    let options = Options {
        upload: Some(upload(true, 64 << 10, None)),
        response_timeout: Duration::from_millis(500),
        ..requests(target, 1, 1)
    };
    let whole = run(options).record.whole();
    assert_eq!((whole.failed_by(Cause::SendTimeout), whole.failed()), (1, 1), "{:?}", whole.failures);
}
