//! The engine on real sockets, spoken to by programs of others: h2spec, nghttp, curl and h2load.

use crate::support::server::{Options, Server};
use http2::Config;
use std::process::{Command, Output};
use testkit::peer_program;

/// A server that answers with a page of 612 bytes.
fn server(tls: bool) -> Server {
    let address = "127.0.0.1:0".parse().unwrap();
    Server::start(Options { address, tls, page_bytes: 612, config: Config::default() }).unwrap()
}

/// What a program printed; it must end well.
fn run(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = [String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr)].concat();
    assert!(status.success(), "{command:?}: {status}\n{text}");
    text
}

#[test]
fn h2spec_finds_nothing_in_strict_mode() {
    for tls in [false, true] {
        let server = server(tls);
        let mut h2spec = Command::new(peer_program("h2spec"));
        h2spec.args([
            "--strict",
            "--timeout",
            "5",
            "--host",
            "127.0.0.1",
            "--port",
            &server.address.port().to_string(),
        ]);
        if tls {
            h2spec.args(["--tls", "--insecure"]);
        }
        let text = run(&mut h2spec);
        assert!(text.contains("146 tests, 146 passed, 0 skipped, 0 failed"), "{text}");
    }
}

#[test]
fn h2load_gets_every_answer() {
    for tls in [false, true] {
        let server = server(tls);
        let scheme = if tls { "https" } else { "http" };
        let url = format!("{scheme}://{}/", server.address);
        let text = run(Command::new(peer_program("h2load")).args(["-n", "5000", "-c", "10", "-m", "20", &url]));
        assert!(text.contains("5000 succeeded, 0 failed, 0 errored, 0 timeout"), "{text}");
    }
}

#[test]
fn h2load_gets_large_bodies_through_small_windows() {
    let server = server(false);
    let url = format!("http://{}/bytes/1000000", server.address);
    // Windows of 2^12 bytes for a stream and 2^14 for a connection.
    let options = ["-n", "40", "-c", "2", "-m", "10", "-w", "12", "-W", "14", &url];
    let text = run(Command::new(peer_program("h2load")).args(options));
    assert!(text.contains("40 succeeded, 0 failed") && text.contains("(40000000) data"), "{text}");
}

#[test]
fn curl_uploads_and_reads() {
    let server = server(false);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("upload");
    std::fs::write(&file, vec![b'u'; 3_000_000]).unwrap();
    let url = format!("http://{}/bytes/100000", server.address);
    let mut curl = Command::new(peer_program("curl"));
    curl.args(["--http2-prior-knowledge", "--silent", "--show-error", "--dump-header", "-", "--output", "/dev/null"]);
    curl.args(["--write-out", "%{size_download} bytes", "--data-binary"]).arg(format!("@{}", file.display())).arg(&url);
    let text = run(&mut curl);
    assert!(text.contains("HTTP/2 200") && text.contains("x-received-bytes: 3000000"), "{text}");
    assert!(text.ends_with("100000 bytes"), "{text}");
}

#[test]
fn nghttp_sends_trailers_and_continuations() {
    let server = server(false);
    let url = format!("http://{}/", server.address);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("body");
    std::fs::write(&file, b"body").unwrap();
    let mut nghttp = Command::new(peer_program("nghttp"));
    nghttp.args(["--no-dep", "--verbose", "--null-out", "--continuation", "--padding=100", "--trailer", "x-sum: 4"]);
    let text = run(nghttp.arg("--data").arg(&file).arg(&url));
    assert!(text.contains(":status: 200") && text.contains("x-received-bytes: 4"), "{text}");
}
