//! gRPC through the gateway: an external server and client (Python's grpcio), scripted calls that no client would make,
//! and nginx with the same configuration for comparison.

use super::{connect, gateway, gateway_with};
use http2::ErrorCode;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use testkit::sides::{Nginx, Side, Sides, nginx_or_skip};
use testkit::{Authority, Http2Talk, Refusing, Running, peer_or_skip};

/// Python with grpcio.
pub(crate) fn python() -> Option<PathBuf> {
    peer_or_skip(&["python-grpc"])
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/h2/grpc").join(name)
}

/// A gRPC server that ends when this is dropped.
pub(crate) struct Server {
    running: Running,
    pub(crate) address: SocketAddr,
}

impl Server {
    pub(crate) fn start(python: &Path, pair: &[PathBuf]) -> Self {
        let mut command = Command::new(python);
        let running = Running::start(command.arg(script("server.py")).args(pair));
        let port: u16 = running.wait_for_output("").parse().unwrap();
        Self { running, address: SocketAddr::from(([127, 0, 0, 1], port)) }
    }

    /// Waits for the server's next line.
    fn read_line(&self) -> String {
        self.running.wait_for_output("")
    }
}

/// The result of a scenario of the client.
#[track_caller]
pub(crate) fn run(python: &Path, address: SocketAddr, scenario: &str) -> String {
    let output = Command::new(python).arg(script("client.py")).args([&address.to_string(), scenario]).output().unwrap();
    let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{scenario}: {said}\n{errors}");
    said.into_owned()
}

pub(crate) const KINDS: &str = "unary hello there behind b'\\x00\\xff'\nserver True\nclient 200 19900\nbidi True OK\n\
                     first hello before the first request\nthen answer\nend OK\n";
pub(crate) const ERRORS: &str =
    "/t.T/Unary NOT_FOUND no such thing, at all: ü\n/t.T/Nothing UNIMPLEMENTED Method not found!\n";

/// The results through both, with the same configuration.
#[test]
fn h92_all_kinds_of_calls_pass_as_through_nginx() {
    let (Some(python), Some(nginx)) = (python(), nginx_or_skip(Nginx::New)) else { return };
    let server = Server::start(&python, &[]);
    let text = "access_log {side}.log; keepalive_requests 100000; http2_max_concurrent_streams 2000; upstream calls { server \
                {upstream:0}; keepalive 8; } server { listen {listen}; http2 on; client_max_body_size 0; location / { \
                grpc_pass grpc://calls; } } server { listen {listen:1}; http2 on; set $to {upstream:0}; location / { grpc_pass \
                $to; } } server { listen {listen:2}; http2 on; set $to grpc://calls; location / { grpc_pass $to; } }";
    let sides = Sides::start(&nginx, text, &[server.address], &[]);
    for side in [Side::Nginx, Side::Ours] {
        for listener in 0..3 {
            assert_eq!(run(&python, sides.address(side, listener), "kinds"), KINDS, "{side:?} {listener}");
        }
        let address = sides.address(side, 0);
        assert_eq!(run(&python, address, "errors"), ERRORS, "{side:?}");
        assert_eq!(run(&python, address, "large"), "large 16777216 True\n", "{side:?}");
    }
}

#[test]
fn h93_a_thousand_streams_at_once_go_through_few_connections() {
    let Some(python) = python() else { return };
    let server = Server::start(&python, &[]);
    let http = "upstream calls { server {upstream:0}; keepalive 8; } http2_max_concurrent_streams 2000;";
    let gateway = gateway_with(http, "location / { grpc_pass calls; }", &[server.address]);
    assert_eq!(run(&python, gateway.address(), "many"), "many 1000 {'OK'}\n");
}

#[test]
fn h94_a_cancelled_call_is_cancelled_at_the_server() {
    let Some(python) = python() else { return };
    let server = Server::start(&python, &[]);
    let gateway = gateway("location / { grpc_pass {upstream:0}; }", &[server.address]);
    assert_eq!(run(&python, gateway.address(), "cancel"), "cancelled CANCELLED\n");
    assert_eq!(server.read_line(), "cancelled me");
    assert!(gateway.access_lines(1)[0].starts_with("499 "), "{:?}", gateway.access_lines(1));
}

#[test]
fn h95_server_gets_the_remaining_time() {
    let Some(python) = python() else { return };
    let server = Server::start(&python, &[]);
    let gateway = gateway("location / { grpc_pass {upstream:0}; }", &[server.address]);
    assert_eq!(run(&python, gateway.address(), "left"), "without none\nwith True\n");
}

#[test]
fn h96_tls_towards_the_server_agrees_on_h2() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new("Test");
    authority.issue(&["localhost"]).write(folder.path(), "pair");
    std::fs::write(folder.path().join("ca.crt"), authority.pem()).unwrap();
    let pair = ["pair.key", "pair.crt"].map(|name| folder.path().join(name));
    let server = Server::start(&python, &pair);
    let verify = format!(
        "grpc_ssl_verify on; grpc_ssl_trusted_certificate {}/ca.crt; grpc_ssl_name localhost; grpc_ssl_server_name on;",
        folder.path().display()
    );
    let gateway = gateway(&format!("location / {{ grpc_pass grpcs://{{upstream:0}}; {verify} }}"), &[server.address]);
    assert_eq!(run(&python, gateway.address(), "kinds"), KINDS);
}

#[test]
fn h97_errors_of_the_gateway_are_statuses_of_grpc() {
    let Some(python) = python() else { return };
    let refusing = Refusing::new();
    let words = "location / { grpc_pass {upstream:0}; } location /t.T/Unary { deny all; grpc_pass {upstream:0}; }";
    let gateway = gateway(words, &[refusing.address()]);
    assert_eq!(run(&python, gateway.address(), "unavailable"), "unary PERMISSION_DENIED forbidden\n");

    let mut client = connect(&gateway);
    let grpc = [("content-type", "application/grpc"), ("te", "trailers")];
    let stream = client.open("POST", "/t.T/Other", &grpc, true);
    let answer = client.answer(stream);
    assert_eq!((answer.status, answer.value("grpc-status")), (200, Some("14")), "{answer:?}");
    assert_eq!(answer.value("content-type"), Some("application/grpc"));
    assert!(answer.trailers.is_empty() && answer.body.is_empty(), "all of it is the head: {answer:?}");
    let stream = client.open("POST", "/t.T/Other", &[("content-type", "text/plain")], true);
    assert_eq!(client.answer(stream).status, 502, "others get the error of HTTP");
}

#[test]
fn h98_error_page_has_the_first_word_about_an_error() {
    let refusing = Refusing::new();
    let words = "error_page 502 = /busy; location / { grpc_pass {upstream:0}; } \
                 location = /busy { internal; default_type application/grpc; add_header grpc-status 8; return 204; }";
    let gateway = gateway(words, &[refusing.address()]);
    let mut client = connect(&gateway);
    let stream = client.open("POST", "/t.T/Unary", &[("content-type", "application/grpc")], true);
    let answer = client.answer(stream);
    assert_eq!((answer.status, answer.value("grpc-status")), (204, Some("8")), "nginx's own example");
}

/// The server of this call does not answer within the client's timeout.
#[test]
fn h99_the_time_of_a_call_bounds_all_of_it() {
    let Some(python) = python() else { return };
    let server = Server::start(&python, &[]);
    let gateway = gateway("location / { grpc_pass {upstream:0}; }", &[server.address]);
    let mut client = connect(&gateway);
    let fields = [("content-type", "application/grpc"), ("te", "trailers"), ("grpc-timeout", "400m")];
    let stream = client.open("POST", "/t.T/Wait", &fields, false);
    client.send(stream, b"\0\0\0\0\x02me", true);
    let answer = client.answer(stream);
    assert_eq!((answer.status, answer.value("grpc-status")), (200, Some("4")), "{answer:?}");
    assert_eq!(server.read_line(), "cancelled me");

    let stream = client.open("POST", "/t.T/Bidi", &fields, false);
    client.send(stream, b"\0\0\0\0\x01a", false);
    let answer = client.answer(stream);
    assert_eq!(answer.body, b"\0\0\0\0\x02a!");
    let status = answer.trailers.iter().find(|(name, _)| name == "grpc-status").map(|(_, value)| value.as_str());
    assert!(status == Some("4"), "a response that has begun ends with the status: {answer:?}");
}

/// A server that accepts nothing stalls only its own client.
#[test]
fn h100_flow_control_is_the_back_pressure_of_a_stream() {
    let Some(python) = python() else { return };
    let server = Server::start(&python, &[]);
    let gateway = gateway("client_max_body_size 0; location / { grpc_pass {upstream:0}; }", &[server.address]);
    let mut client =
        Http2Talk::connect_with(gateway.address(), http2::Config { stream_window: 1000, ..Default::default() });
    client.holds_windows = true;
    let fields = [("content-type", "application/grpc"), ("te", "trailers")];
    let stream = client.open("POST", "/t.T/Bidi", &fields, false);
    let message = [&[0, 0, 1, 0, 0][..], &vec![b'x'; 65536]].concat();
    let (mut sent, mut idle) = (0, 0);
    // Until the client's window is full, and then until nothing more is accepted.
    while idle < 150 || client.so_far(stream).body.len() < 1000 {
        assert!(idle < 4000, "no answer: {:?}", client.so_far(stream));
        let at = sent % message.len();
        let now = client.send_some(stream, &message[at..]);
        (sent, idle) = (sent + now, if now > 0 { 0 } else { idle + 1 });
        client.step();
        assert!(sent < 64 << 20, "what the client does not take is held: {sent} bytes");
    }
    assert_eq!(client.so_far(stream).body.len(), 1000, "the client's window is full");
    client.reset(stream);
    client.holds_windows = false;
    let stream = client.open("POST", "/t.T/Bidi", &fields, false);
    client.send(stream, b"\0\0\0\0\x01a", true);
    assert_eq!(client.answer(stream).body, b"\0\0\0\0\x02a!");
    assert_ne!(client.so_far(stream).reset, Some(ErrorCode::INTERNAL_ERROR));
}
