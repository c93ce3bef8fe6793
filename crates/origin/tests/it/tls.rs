//! The origin under TLS, tested with curl and other foreign clients.
#![allow(clippy::unwrap_used)] // a failed step is the end of a test

use crate::talk::{start, until};
use origin::{CloseReason, Options, Running, Tls};
use std::fs;
use std::io::Write as _;
use std::net::TcpStream;
use std::process::{Command, Stdio};
use testkit::peer_program;
use tls::{Pair, ServerSide};

fn secure() -> (Running, tempfile::TempDir) {
    let pair = Pair::self_made(&["a.test".to_owned(), "127.0.0.1".to_owned()]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("ca.pem"), pair.chain_pem()).unwrap();
    let side = ServerSide::new().pair(pair).alpn(["http/1.1"]).build().unwrap();
    (start(Options { tls: Some(Tls::new(side)), ..Options::default() }), folder)
}

#[test]
fn curl_verifies_the_certificate_and_gets_whole_bodies() {
    let (origin, folder) = secure();
    let port = origin.address().port();
    for (path, size) in [("/", "612"), ("/bytes/5000000", "5000000")] {
        let mut curl = Command::new(peer_program("curl"));
        curl.args(["-sS", "-o", "/dev/null", "-w", "%{http_code} %{size_download}", "--max-time", "20"]);
        curl.args(["--resolve", &format!("a.test:{port}:127.0.0.1"), "--cacert"]).arg(folder.path().join("ca.pem"));
        let output = curl.arg(format!("https://a.test:{port}{path}")).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), format!("200 {size}"), "{output:?}");
    }
    assert_eq!(origin.counts().handshakes_full, 2);
}

#[test]
fn openssl_resumes_its_session() {
    let (origin, _folder) = secure();
    let mut openssl = Command::new(peer_program("openssl"));
    openssl.args(["s_client", "-tls1_2", "-reconnect", "-connect", &origin.address().to_string()]);
    let output = openssl.stdin(Stdio::null()).stderr(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(said.matches("\nReused, TLSv1.2, Cipher is ECDHE-ECDSA-").count(), 5, "{said}");
    until("all are closed", || origin.counts().connections_open == 0);
    let counts = origin.counts();
    assert_eq!((counts.handshakes_full, counts.handshakes_resumed), (1, 5));
}

#[test]
fn a_client_in_clear_text_ends_with_its_reason() {
    let (origin, _folder) = secure();
    let mut stream = TcpStream::connect(origin.address()).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    until("it is refused", || origin.counts().closed(CloseReason::TlsFailed) == 1);
    assert_eq!(origin.counts().requests, 0);
}
