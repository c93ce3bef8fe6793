//! Loads under TLS: against the built-in origin, against nginx and OpenSSL, and against peers with each kind of TLS
//! failure.
#![allow(clippy::unwrap_used)] // a failed step is the end of a test

use crate::scene::{origin, requests, run};
use load::websocket::{Ending, parse_url};
use load::{Cause, Options, Summary, TlsOptions};
use origin::{Running, Tls};
use rcgen::{CertificateParams, Issuer, KeyPair};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use testkit::{free_port, peer_program};
use tls::{OneServer, Pair, ServerSide, Session};

/// An authority's certificate, and a chain and key that it issued, all as PEM.
struct Issued {
    authority: String,
    chain: String,
    key: String,
}

fn issued() -> Issued {
    issued_by("Load Authority")
}

fn issued_by(authority: &str) -> Issued {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(rcgen::DnType::CommonName, authority);
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate().unwrap();
    let authority = params.self_signed(&authority_key).unwrap().pem();
    let key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(vec!["a.test".to_owned(), "127.0.0.1".to_owned()]).unwrap();
    let chain = leaf.signed_by(&key, &Issuer::new(params, authority_key)).unwrap().pem();
    Issued { authority, chain, key: key.serialize_pem() }
}

fn side(issued: &Issued) -> ServerSide {
    let pair = Pair::from_pem(issued.chain.as_bytes(), issued.key.as_bytes(), b"").unwrap();
    ServerSide::new().pair(pair).build().unwrap()
}

fn secure_origin(issued: &Issued) -> Running {
    origin(origin::Options { tls: Some(Tls::new(side(issued))), ..origin::Options::default() })
}

fn trusting(issued: &Issued) -> TlsOptions {
    TlsOptions { authorities: Some(issued.authority.clone().into_bytes()), ..TlsOptions::default() }
}

fn asking(address: SocketAddr, path: &str, count: u64, connections: usize, tls: TlsOptions) -> Options {
    let target = load::Target::new(format!("https://{address}{path}").parse().unwrap());
    Options { tls, ..requests(target, count, connections) }
}

fn failures(summary: &Summary, cause: Cause) -> u64 {
    summary.record.whole().failed_by(cause)
}

#[test]
fn kept_connections_have_one_handshake_each() {
    let issued = issued();
    let origin = secure_origin(&issued);
    let summary = run(asking(origin.address(), "/", 400, 4, trusting(&issued)));
    let whole = summary.record.whole();
    assert_eq!((whole.responses, whole.errors(), whole.bytes_body), (400, 0, 400 * 612), "{:?}", whole.failures);
    let handshakes = summary.record.tls.unwrap();
    assert_eq!((handshakes.count(), origin.counts().handshakes_full), (4, handshakes.full.count()));
    assert_eq!(handshakes.agreed.keys().collect::<Vec<_>>(), ["TLSv1.3 TLS_AES_256_GCM_SHA384"]);
}

#[test]
fn large_bodies_come_whole_in_both_directions() {
    let issued = issued();
    let origin = secure_origin(&issued);
    let mut options = asking(origin.address(), "/echo", 8, 2, trusting(&issued));
    options.targets[0].method = "POST".to_owned();
    options.targets[0].body = vec![b'x'; 3_000_000];
    let mut large = load::Target::new(format!("https://{}/bytes/9000000", origin.address()).parse().unwrap());
    large.weight = 1;
    options.targets.push(large);
    let summary = run(options);
    let whole = summary.record.whole();
    assert_eq!((whole.responses, whole.errors()), (8, 0), "{:?}", whole.failures);
    assert!(whole.bytes_body > 9_000_000);
}

#[test]
fn sessions_are_resumed_unless_they_are_not_to_be() {
    let issued = issued();
    let origin = secure_origin(&issued);
    let once = |resume| {
        let options = asking(origin.address(), "/", 20, 1, TlsOptions { resume, ..trusting(&issued) });
        let summary = run(Options { keepalive: false, ..options });
        assert_eq!(summary.record.whole().responses, 20, "{:?}", summary.record.whole().failures);
        let handshakes = summary.record.tls.unwrap();
        (handshakes.full.count(), handshakes.resumed.count())
    };
    assert_eq!(once(true), (1, 19));
    assert_eq!(once(false), (20, 0));
    assert_eq!(origin.counts().handshakes_resumed, 19);
}

#[test]
fn handshakes_can_be_all_that_is_asked_for() {
    let issued = issued();
    let origin = secure_origin(&issued);
    let options = asking(origin.address(), "/", 30, 3, TlsOptions { handshakes_only: true, ..trusting(&issued) });
    let summary = run(Options { keepalive: false, ..options });
    let whole = summary.record.whole();
    assert_eq!((whole.begun, whole.responses, whole.errors()), (30, 30, 0), "{:?}", whole.failures);
    assert_eq!((summary.record.tls.unwrap().count(), origin.counts().requests), (30, 0));
}

#[test]
fn a_certificate_that_does_not_verify_is_named() {
    let (issued, other) = (issued(), issued_by("Other Authority"));
    let origin = secure_origin(&issued);
    let once = |tls| run(asking(origin.address(), "/", 2, 1, tls));
    let unknown = once(trusting(&other));
    assert_eq!(failures(&unknown, Cause::TlsCertificate), 2);
    let said = unknown.record.tls.unwrap().failure.unwrap();
    assert!(said.contains("unable to verify the first certificate") && said.contains("--ca"), "{said}");
    let renamed = once(TlsOptions { name: Some("b.test".to_owned()), ..trusting(&issued) });
    assert_eq!(failures(&renamed, Cause::TlsCertificate), 2);
    assert!(renamed.record.tls.unwrap().failure.unwrap().contains("--sni"));
    let named = once(TlsOptions { name: Some("a.test".to_owned()), ..trusting(&issued) });
    assert_eq!(named.record.whole().responses, 2);
    let blind = once(TlsOptions { insecure: true, ..TlsOptions::default() });
    assert_eq!(blind.record.whole().responses, 2);
}

/// A peer that accepts one connection at a time and handles it with `act`.
fn peer(act: impl Fn(TcpStream) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || listener.incoming().flatten().for_each(act));
    address
}

#[test]
fn stalled_handshake_has_its_own_timeout() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let tls = TlsOptions { insecure: true, ..TlsOptions::default() };
    let options = asking(silent.local_addr().unwrap(), "/", 1, 1, tls);
    let summary = run(Options { connect_timeout: Duration::from_millis(100), ..options });
    assert_eq!(failures(&summary, Cause::TlsStalled), 1, "{:?}", summary.record.whole().failures);
}

#[test]
fn distinguishes_plain_peers_from_leaving_ones() {
    let tls = || TlsOptions { insecure: true, ..TlsOptions::default() };
    let plain = origin(origin::Options::default());
    let summary = run(asking(plain.address(), "/", 1, 1, tls()));
    assert_eq!(failures(&summary, Cause::NotTls), 1, "{:?}", summary.record.whole().failures);
    let leaves = peer(|mut stream| {
        let mut hello = [0; 4096];
        let _ = stream.read(&mut hello);
    });
    let summary = run(asking(leaves, "/", 1, 1, tls()));
    assert_eq!(failures(&summary, Cause::TlsClosed), 1, "{:?}", summary.record.whole().failures);
}

/// Answers one request under TLS, and closes with or without `close_notify`.
fn answer_and_close(mut stream: TcpStream, side: &Arc<OneServer>, text: &[u8], notify: bool) {
    let mut session = Session::server(Arc::<OneServer>::clone(side));
    let (mut asked, mut read) = (Vec::new(), vec![0; 16 * 1024]);
    while !asked.ends_with(b"\r\n\r\n") {
        let Ok(count @ 1..) = stream.read(&mut read) else { return };
        session.receive(&mut read[..count], &mut |plain| asked.extend_from_slice(plain)).unwrap();
        let mut out = Vec::new();
        session.take_output(&mut out);
        stream.write_all(&out).unwrap();
    }
    let mut out = vec![0; text.len() + 200];
    let sealed = session.seal(text, tls::RECORD_BYTES_MAX, &mut out).unwrap();
    stream.write_all(&out[..sealed.written]).unwrap();
    if notify {
        let mut out = Vec::new();
        session.close();
        session.take_output(&mut out);
        stream.write_all(&out).unwrap();
    }
}

#[test]
fn unclosed_tls_body_may_be_truncated() {
    for (notify, whole) in [(true, 1), (false, 0)] {
        let side = Arc::new(OneServer(Arc::new(side(&issued()))));
        let text = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nall of it, or not";
        let address = peer(move |stream| answer_and_close(stream, &side, text, notify));
        let summary = run(asking(address, "/", 1, 1, TlsOptions { insecure: true, ..TlsOptions::default() }));
        assert_eq!(summary.record.whole().responses, whole, "{:?}", summary.record.whole().failures);
        assert_eq!(failures(&summary, Cause::TlsTruncated), 1 - whole);
    }
}

#[test]
fn websockets_are_held_under_tls() {
    let issued = issued();
    let origin = secure_origin(&issued);
    let url = parse_url(&format!("wss://{}/websocket/echo", origin.address())).unwrap();
    let options = load::websocket::WebSocketOptions {
        connections: 9,
        hold: Duration::from_millis(300),
        rate: 200.0,
        drain: Duration::from_secs(10),
        tls: trusting(&issued),
        ..load::websocket::WebSocketOptions::new(url)
    };
    let summary = load::websocket::start(options).unwrap().wait().unwrap();
    let record = &summary.record;
    assert_eq!((record.established, record.failed(), record.lost), (9, 0, 0));
    assert!(record.delivered > 0 && record.delivered == record.sent, "{} of {}", record.delivered, record.sent);
    assert_eq!((record.ended_by(Ending::Done), record.tls.as_ref().unwrap().count()), (9, 9));
}

fn write_pair(folder: &Path, issued: &Issued) {
    fs::write(folder.join("chain.pem"), &issued.chain).unwrap();
    fs::write(folder.join("key.pem"), &issued.key).unwrap();
    fs::write(folder.join("ca.pem"), &issued.authority).unwrap();
}

#[test]
fn nginx_answers_and_resumes() {
    let (issued, folder, port) = (issued(), tempfile::tempdir().unwrap(), free_port());
    write_pair(folder.path(), &issued);
    let home = folder.path().display();
    for (protocol, agreed) in
        [("TLSv1.2", "TLSv1.2 ECDHE-ECDSA-AES256-GCM-SHA384"), ("TLSv1.3", "TLSv1.3 TLS_AES_256_GCM_SHA384")]
    {
        let text = format!(
            "daemon off; master_process off; error_log {home}/error.log; pid {home}/pid;\nevents {{}}\n\
             http {{ access_log off; client_body_temp_path {home}/a; proxy_temp_path {home}/b; fastcgi_temp_path {home}/c;\n\
             uwsgi_temp_path {home}/d; scgi_temp_path {home}/e;\n\
             server {{ listen 127.0.0.1:{port} ssl; ssl_certificate {home}/chain.pem; ssl_certificate_key {home}/key.pem;\n\
             ssl_protocols {protocol}; ssl_session_cache shared:s:1m; location / {{ return 200 hello; }} }} }}"
        );
        fs::write(folder.path().join("nginx.conf"), text).unwrap();
        let file = folder.path().join("nginx.conf");
        let _nginx = testkit::Running::listening(
            Command::new(peer_program("nginx-new")).arg("-c").arg(file).arg("-e").arg(folder.path().join("error.log")),
            ([127, 0, 0, 1], port),
        );
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let options = asking(address, "/", 20, 1, trusting(&issued));
        let summary = run(Options { keepalive: false, ..options });
        let whole = summary.record.whole();
        assert_eq!((whole.responses, whole.bytes_body), (20, 100), "{:?}", whole.failures);
        let handshakes = summary.record.tls.unwrap();
        assert_eq!((handshakes.full.count(), handshakes.resumed.count()), (1, 19), "{protocol}");
        assert_eq!(handshakes.agreed.keys().collect::<Vec<_>>(), [agreed]);
    }
}

#[test]
fn openssl_asks_for_a_client_certificate_and_gets_one() {
    let (issued, folder, port) = (issued(), tempfile::tempdir().unwrap(), free_port());
    write_pair(folder.path(), &issued);
    let file = |name: &str| folder.path().join(name);
    let mut command = Command::new(peer_program("openssl"));
    command
        .args(["s_server", "-www", "-quiet", "-Verify", "1", "-verify_return_error", "-accept"])
        .arg(port.to_string());
    command.arg("-cert").arg(file("chain.pem")).arg("-key").arg(file("key.pem")).arg("-CAfile").arg(file("ca.pem"));
    let _openssl = testkit::Running::listening(&mut command, ([127, 0, 0, 1], port));
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let once = |tls| run(Options { keepalive: false, ..asking(address, "/", 1, 1, tls) });
    let pair = Some((issued.chain.clone().into_bytes(), issued.key.clone().into_bytes()));
    let shown = once(TlsOptions { pair, ..trusting(&issued) });
    assert_eq!(shown.record.whole().responses, 1, "{:?} {:?}", shown.record.whole().failures, shown.record.tls);
    let missing = once(trusting(&issued));
    // In TLS 1.3 the server refuses after the client has completed its side of the handshake.
    assert_eq!(failures(&missing, Cause::TlsBroken) + failures(&missing, Cause::TlsRefused), 1);
    let said = missing.record.tls.unwrap().failure;
    assert!(said.as_ref().is_some_and(|said| said.contains("--cert")), "{said:?}");
}
