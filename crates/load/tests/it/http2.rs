//! Loads over HTTP/2: against the built-in origin, against nginx, and against targets that do not support it, refuse it or
//! close.
#![allow(clippy::unwrap_used)] // a failed step is the end of a test

use crate::scene::{origin, requests, run, target};
use load::{Cause, Options, Pace, Summary, TlsOptions, Upload, Version};
use origin::{Closing, Running, Tls};
use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use testkit::{Http2Service, Peer, free_port, peer_program};
use tls::{Pair, ServerSide};

/// This many requests over connections with this many streams.
fn over_http2(target: load::Target, count: u64, connections: usize, streams: usize) -> Options {
    Options { version: Version::Http2, streams, ..requests(target, count, connections) }
}

fn whole(summary: &Summary) -> (u64, u64) {
    let whole = summary.record.whole();
    (whole.responses, whole.errors())
}

#[test]
fn streams_share_connections_with_prior_knowledge() {
    let origin = origin(origin::Options::default());
    let summary = run(over_http2(target(origin.address(), "/"), 2000, 4, 10));
    let tally = summary.record.whole();
    assert_eq!((tally.responses, tally.errors(), tally.bytes_body), (2000, 0, 2000 * 612), "{:?}", tally.failures);
    let streams = summary.record.streams.unwrap();
    assert_eq!((streams.opened, streams.most, streams.allowed), (2000, 10, Some(128)));
    assert_eq!((summary.record.opened, origin.counts().http2_connections, origin.counts().requests), (4, 4, 2000));
    assert_eq!((tally.reused, tally.latency.count(), streams.failure), (1996, 2000, None));
}

/// An origin under TLS that offers these ALPN protocols.
fn secure(protocols: &[&str]) -> Running {
    let pair = Pair::self_made(&["127.0.0.1".to_owned()]).unwrap();
    let side = ServerSide::new().pair(pair).alpn(protocols.iter().copied()).build().unwrap();
    origin(origin::Options { tls: Some(Tls::new(side)), ..origin::Options::default() })
}

fn secure_target(origin: &Running, path: &str) -> load::Target {
    load::Target::new(format!("https://{}{path}", origin.address()).parse().unwrap())
}

fn insecure(options: Options) -> Options {
    Options { tls: TlsOptions { insecure: true, ..TlsOptions::default() }, ..options }
}

#[test]
fn alpn_chooses_http2_under_tls() {
    let origin = secure(&["h2", "http/1.1"]);
    let summary = run(insecure(over_http2(secure_target(&origin, "/bytes/30000"), 200, 2, 5)));
    assert_eq!((whole(&summary), origin.counts().http2_connections), ((200, 0), 2), "{:?}", summary.record.streams);
    // Without --http2 the load uses HTTP/1.1 with the same origin.
    let summary = run(insecure(requests(secure_target(&origin, "/"), 20, 2)));
    assert_eq!((whole(&summary), origin.counts().http2_connections), ((20, 0), 2));
    assert!(summary.record.streams.is_none());
}

#[test]
fn a_target_without_http2_is_named_so() {
    let secure = secure(&["http/1.1"]);
    let summary = run(insecure(over_http2(secure_target(&secure, "/"), 2, 1, 1)));
    assert_eq!(summary.record.whole().failed_by(Cause::NoHttp2), 2, "{:?}", summary.record.whole().failures);
    assert!(Cause::NoHttp2.text().contains("leave out --http2"));
    let clear = Peer::saying_once("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
    let summary = run(over_http2(target(clear.address(), "/"), 2, 1, 1));
    assert_eq!(summary.record.whole().failed_by(Cause::NoHttp2), 2, "{:?}", summary.record.whole().failures);
}

#[test]
fn the_targets_limit_of_streams_binds_and_nothing_is_refused() {
    let origin = origin(origin::Options { http2_streams: 3, ..origin::Options::default() });
    let summary = run(over_http2(target(origin.address(), "/delay/5"), 60, 2, 10));
    assert_eq!(whole(&summary), (60, 0), "{:?}", summary.record.whole().failures);
    let streams = summary.record.streams.unwrap();
    assert_eq!((streams.most, streams.allowed, streams.is_bound(10)), (3, Some(3), true));
    assert!(streams.resets.is_empty(), "{:?}", streams.resets);
}

#[test]
fn open_loop_counts_each_stream_from_due() {
    let origin = origin(origin::Options::default());
    let pace = Pace::constant(400.0, Duration::from_millis(500));
    let options = over_http2(target(origin.address(), "/delay/20"), 1, 3, 8);
    let summary = run(Options { pace, requests: None, duration: None, drain: Duration::from_secs(10), ..options });
    assert_eq!(whole(&summary), (200, 0), "{:?}", summary.record.whole().failures);
    let tally = summary.record.whole();
    // No response takes less than 20 ms, and the latency includes the wait for a stream.
    assert!(tally.latency.min_ns() >= 20_000_000 && summary.record.service.count() == 200);
    let streams = summary.record.streams.unwrap();
    assert!(streams.opened == 200 && streams.most <= 8, "{streams:?}");
}

#[test]
fn single_stream_queues_in_open_loop() {
    let origin = origin(origin::Options::default());
    let pace = Pace::constant(200.0, Duration::from_millis(250));
    let options = over_http2(target(origin.address(), "/delay/20"), 1, 1, 1);
    let summary = run(Options { pace, requests: None, duration: None, drain: Duration::from_secs(10), ..options });
    assert_eq!(whole(&summary), (50, 0), "{:?}", summary.record.whole().failures);
    let (latency, service) = (&summary.record.whole().latency, &summary.record.service);
    assert!(summary.record.waiting_max > 10, "{}", summary.record.waiting_max);
    // 50 responses of 20 ms one after another: the last request was due long before it was sent.
    assert!(latency.max_ns() > 2 * service.min_ns(), "{} {}", latency.max_ns(), service.min_ns());
}

#[test]
fn goaway_reopens_without_failed_requests() {
    for unannounced in [false, true] {
        let closing = Closing { after_requests: Some(20), unannounced, ..Closing::default() };
        let origin = origin(origin::Options { closing, ..origin::Options::default() });
        let summary = run(over_http2(target(origin.address(), "/"), 300, 2, 5));
        assert_eq!(whole(&summary), (300, 0), "{:?}", summary.record.whole().failures);
        let streams = summary.record.streams.unwrap();
        assert!(streams.goaways["NO_ERROR"] >= 10, "{streams:?}");
        assert!(summary.record.opened >= 10, "{}", summary.record.opened);
        // The origin does not count requests that it did not process.
        assert_eq!(origin.counts().requests, 300);
    }
}

#[test]
fn open_loop_resends_unprocessed_streams() {
    let closing = Closing { after_requests: Some(7), unannounced: true, ..Closing::default() };
    let origin = origin(origin::Options { closing, ..origin::Options::default() });
    let pace = Pace::constant(2000.0, Duration::from_millis(300));
    let options = over_http2(target(origin.address(), "/delay/2"), 1, 4, 10);
    let summary = run(Options { pace, requests: None, duration: None, drain: Duration::from_secs(10), ..options });
    assert_eq!(whole(&summary), (600, 0), "{:?}", summary.record.whole().failures);
    assert_eq!((summary.record.whole().begun, origin.counts().requests), (600, 600));
}

#[test]
fn resets_are_counted_by_code() {
    let origin = origin(origin::Options::default());
    for (code, name, cause) in [
        (7, "REFUSED_STREAM", Cause::RefusedStream),
        (11, "ENHANCE_YOUR_CALM", Cause::StreamReset),
        (99, "error code 99", Cause::StreamReset),
    ] {
        let path = format!("/reset/at?point=request&code={code}");
        let summary = run(over_http2(target(origin.address(), &path), 20, 1, 4));
        let tally = summary.record.whole();
        assert_eq!((tally.begun, tally.failed_by(cause), tally.failed()), (20, 20, 20), "{:?}", tally.failures);
        let streams = summary.record.streams.unwrap();
        assert_eq!((streams.resets[name], summary.record.opened), (20, 1), "{streams:?}");
    }
}

#[test]
fn a_stream_that_is_not_answered_times_out_alone() {
    let origin = origin(origin::Options::default());
    let mut options = over_http2(target(origin.address(), "/delay/1"), 400, 1, 4);
    options.targets[0].weight = 99;
    options.targets.push(target(origin.address(), "/delay/60000"));
    let summary = run(Options { response_timeout: Duration::from_millis(300), ..options });
    let [quick, slow] = summary.record.targets.as_slice() else { panic!("two targets") };
    assert_eq!((quick.responses, quick.failed()), (396, 0), "{:?}", quick.failures);
    assert_eq!((slow.responses, slow.failed_by(Cause::Silent)), (0, 4), "{:?}", slow.failures);
    assert_eq!(summary.record.opened, 1, "the connection goes on");
}

#[test]
fn time_in_which_a_window_is_closed_is_named() {
    let origin = origin(origin::Options::default());
    let mut options = over_http2(target(origin.address(), "/echo"), 12, 2, 3);
    options.targets[0].method = "POST".to_owned();
    options.targets[0].body = vec![b'x'; 3_000_000];
    let summary = run(options);
    assert_eq!(whole(&summary), (12, 0), "{:?}", summary.record.whole().failures);
    // The origin's windows are 64 KB and 1 MB.
    assert!(summary.record.streams.as_ref().unwrap().window_limited_ns > 0);
    assert!(summary.record.whole().bytes_sent > 12 * 3_000_000);
    // Without a body no request waits for a window.
    let summary = run(over_http2(target(origin.address(), "/bytes/3000000"), 12, 2, 3));
    assert_eq!((whole(&summary), summary.record.streams.unwrap().window_limited_ns), ((12, 0), 0));
}

#[test]
fn answer_before_the_body_ends_counts() {
    let origin = origin(origin::Options { body_bytes_max: 1000, ..origin::Options::default() });
    let mut options = over_http2(target(origin.address(), "/echo"), 10, 1, 2);
    options.targets[0].method = "POST".to_owned();
    options.targets[0].body = vec![b'x'; 1_000_000];
    let summary = run(options);
    let tally = summary.record.whole();
    assert_eq!((tally.responses, tally.with_status(413..=413)), (10, 10), "{:?}", tally.failures);
}

fn grpc(target: load::Target, count: u64) -> Options {
    let mut options = Options { grpc: true, ..over_http2(target, count, 2, 5) };
    "POST".clone_into(&mut options.targets[0].method);
    options.targets[0].body = b"a message".to_vec();
    options
}

#[test]
fn calls_of_grpc_are_judged_by_their_status() {
    let origin = origin(origin::Options::default());
    let summary = run(grpc(target(origin.address(), "/test.Echo/Say"), 100));
    assert_eq!(whole(&summary), (100, 0), "{:?}", summary.record.whole().failures);
    assert_eq!(summary.record.streams.as_ref().unwrap().grpc.iter().collect::<Vec<_>>(), [(&0, &100)]);
    // The origin returns prefix and message.
    assert_eq!(summary.record.whole().bytes_body, 100 * (5 + 9));
    let mut options = grpc(target(origin.address(), "/test.Echo/Say"), 10);
    options.targets[0].fields.push(("x-grpc-status".to_owned(), "14".to_owned()));
    let summary = run(options);
    assert_eq!(summary.record.whole().failed_by(Cause::GrpcStatus), 10);
    assert_eq!(summary.record.streams.unwrap().grpc[&14], 10);
    let mut options = grpc(target(origin.address(), "/page"), 10);
    options.targets[0].fields.push(("content-type".to_owned(), "text/plain".to_owned()));
    let summary = run(options);
    assert_eq!(summary.record.whole().failed_by(Cause::GrpcNone), 10, "{:?}", summary.record.whole().failures);
}

fn nginx(folder: &tempfile::TempDir, server: &str) -> (testkit::Running, SocketAddr) {
    let (home, port) = (folder.path().display(), free_port());
    let text = format!(
        "daemon off; master_process off; error_log {home}/error.log; pid {home}/pid;\nevents {{}}\n\
         http {{ access_log off; client_body_temp_path {home}/a; proxy_temp_path {home}/b; fastcgi_temp_path {home}/c;\n\
         uwsgi_temp_path {home}/d; scgi_temp_path {home}/e;\n\
         server {{ listen 127.0.0.1:{port}; {server} location / {{ return 200 hello; }} }} }}"
    );
    let file = folder.path().join("nginx.conf");
    fs::write(&file, text).unwrap();
    let mut command = Command::new(peer_program("nginx-new"));
    command.arg("-c").arg(file).arg("-e").arg(folder.path().join("error.log"));
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    (testkit::Running::listening(&mut command, address), address)
}

#[test]
fn nginx_closes_after_its_request_limit() {
    let folder = tempfile::tempdir().unwrap();
    let (_nginx, address) = nginx(&folder, "http2 on; keepalive_requests 100; http2_max_concurrent_streams 6;");
    let summary = run(over_http2(target(address, "/"), 1000, 2, 10));
    let tally = summary.record.whole();
    assert_eq!((tally.responses, tally.errors(), tally.bytes_body), (1000, 0, 5000), "{:?}", tally.failures);
    let streams = summary.record.streams.unwrap();
    assert_eq!((streams.most, streams.allowed), (6, Some(6)));
    assert!(streams.goaways["NO_ERROR"] >= 8 && summary.record.opened >= 10, "{streams:?}");
}

#[test]
fn nginx_without_http2_is_named_so() {
    let folder = tempfile::tempdir().unwrap();
    let (_nginx, address) = nginx(&folder, "");
    let summary = run(over_http2(target(address, "/"), 2, 1, 1));
    assert_eq!(summary.record.whole().failed_by(Cause::NoHttp2), 2, "{:?}", summary.record.whole().failures);
}

/// A target that reads bodies as HTTP/2 sends them, and tells what it got: the declared length, and the size of each frame.
fn reading_target(answers: impl Fn(&mut Http2Service, u32) + Send + Sync + 'static) -> Peer {
    Peer::script(move |talk| {
        let mut service = Http2Service::new(talk);
        while let Some(stream) = service.request() {
            answers(&mut service, stream);
        }
    })
}

fn upload_to(address: SocketAddr, body: &[u8], upload: Upload, count: u64, streams: usize) -> Options {
    let target = load::Target { method: "POST".to_owned(), body: body.to_vec(), ..target(address, "/echo") };
    Options { upload: Some(upload), ..over_http2(target, count, 1, streams) }
}

#[test]
fn bodies_in_pieces_arrive_whole_and_without_a_length() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&seen);
    let peer = reading_target(move |service, stream| {
        service.until("the whole body", |service| service.so_far(stream).is_whole);
        let asked = service.so_far(stream);
        let length = asked.value("content-length").map(str::to_owned);
        told.lock().unwrap().push((length, asked.value("transfer-encoding").is_some(), asked.body.clone()));
        service.answer(stream, "thanks");
    });
    let body: Vec<u8> = (0..200_000_u32).map(|at| (at % 251) as u8).collect();
    for (chunked, piece_bytes, expected) in [(true, 999, None), (false, 70_000, Some("200000".to_owned()))] {
        let upload = Upload { chunked, piece_bytes, bytes_per_second: None };
        let summary = run(upload_to(peer.address(), &body, upload, 6, 3));
        assert_eq!(whole(&summary), (6, 0), "{:?}", summary.record.whole().failures);
        assert!(summary.record.whole().bytes_sent >= 6 * body.len() as u64);
        for (length, has_coding, got) in seen.lock().unwrap().drain(..) {
            assert_eq!((length, has_coding), (expected.clone(), false));
            assert!(got == body, "{} bytes", got.len());
        }
    }
}

#[test]
fn paced_bodies_cause_no_timeout() {
    let origin = origin(origin::Options::default());
    let upload = Upload { chunked: true, piece_bytes: 1000, bytes_per_second: Some(8000.0) };
    let options = upload_to(origin.address(), &[b'x'; 8000], upload, 4, 4);
    let summary = run(Options { response_timeout: Duration::from_millis(700), ..options });
    assert_eq!(whole(&summary), (4, 0), "{:?}", summary.record.whole().failures);
    // The eighth piece is due after 7/8 of a second. The streams do not wait for each other.
    let tally = summary.record.whole();
    assert!(tally.latency.min_ns() >= 800_000_000, "{} ns", tally.latency.min_ns());
    let streams = summary.record.streams.unwrap();
    assert_eq!((streams.most, streams.window_limited_ns), (4, 0), "a piece that is not due is not limited by a window");
}

#[test]
fn response_before_a_slow_body_ends_only_its_stream() {
    let peer = reading_target(|service, stream| service.respond(stream, 413, &[], true));
    let upload = Upload { chunked: true, piece_bytes: 1000, bytes_per_second: Some(20_000.0) };
    let summary = run(upload_to(peer.address(), &vec![b'x'; 100_000], upload, 5, 1));
    let tally = summary.record.whole();
    assert_eq!((tally.responses, tally.failed(), summary.record.opened), (5, 0, 1), "{:?}", tally.failures);
    assert!(tally.bytes_sent < 100_000, "{} bytes", tally.bytes_sent);
}

#[test]
fn a_target_that_opens_no_window_for_pieces_is_named() {
    let peer = Peer::script(|talk| {
        let mut service = Http2Service::new(talk);
        service.holds_windows = true;
        service.request();
        service.until_gone();
    });
    let upload = Upload { chunked: true, piece_bytes: 1000, bytes_per_second: None };
    let options = upload_to(peer.address(), &vec![b'x'; 1 << 20], upload, 1, 1);
    let summary = run(Options { response_timeout: Duration::from_millis(500), ..options });
    let tally = summary.record.whole();
    assert_eq!((tally.failed_by(Cause::SendTimeout), tally.failed()), (1, 1), "{:?}", tally.failures);
    assert!(summary.record.streams.unwrap().window_limited_ns > 300_000_000);
}

/// One stream has a window for the whole body, so no frame of the target says that it may go on.
#[test]
fn body_above_the_buffer_needs_no_window_update() {
    let config = http2::Config { stream_window: 8 << 20, connection_window: 16 << 20, ..http2::Config::default() };
    let peer = Peer::script(move |talk| {
        let mut service = Http2Service::with(talk, config);
        service.holds_windows = true;
        while let Some((stream, _)) = service.whole_request() {
            service.answer(stream, "thanks");
        }
    });
    let target = load::Target { method: "POST".to_owned(), body: vec![b'x'; 2 << 20], ..target(peer.address(), "/") };
    let summary = run(over_http2(target, 2, 1, 2));
    assert_eq!(whole(&summary), (2, 0), "{:?}", summary.record.whole().failures);
}
