//! Early data: a safe request is answered ahead of the client's Finished, all else waits for it, and a copy is never executed. The client
//! is rustls' own, since it sends its Finished only when it is told to; and OpenSSL's, which sends it at once.

use crate::tls::scene::{Scene, get};
use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::process::Command;
use std::sync::Arc;
use testkit::{DEADLINE, Peer, output_for, peer_program};

const HTTP: &str = "ssl_session_cache shared:sessions:1m; ssl_session_tickets off; ssl_early_data on; \
     server { listen {listen} ssl; server_name a.test; {a} \
         location / { return 200 \"[$request_method $ssl_early_data $ssl_session_reused]\"; } UP }";
const UP: &str = "location /up { proxy_pass http://{upstream:0}; proxy_set_header Early-Data $ssl_early_data; }";

/// A gateway that takes early data; with a peer behind `/up`.
fn scene(peer: Option<&Peer>) -> Scene {
    match peer {
        Some(peer) => Scene::new(&HTTP.replace("UP", UP), &[peer.address()]),
        None => Scene::new(&HTTP.replace("UP", ""), &[]),
    }
}

/// A client that may send early data.
struct Client {
    connection: ClientConnection,
    socket: TcpStream,
    heard: String,
    /// What it has sent first.
    flight: Vec<u8>,
}

impl Client {
    fn config(scene: &Scene) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(scene.authority.pem().as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider);
        let config = config.with_protocol_versions(&[&rustls::version::TLS13]).unwrap();
        let mut config = config.with_root_certificates(roots).with_no_client_auth();
        config.enable_early_data = true;
        config.resumption = Resumption::in_memory_sessions(8);
        Arc::new(config)
    }

    /// A client of that scene which has a session for its next connection.
    fn remembered(scene: &Scene) -> Arc<ClientConfig> {
        let config = Self::config(scene);
        let mut client = Self::connect(scene, &config, b"");
        client.finish();
        client.send_text(&get("a.test"));
        client.expect("[GET  .]");
        config
    }

    /// Connects, and sends its first message with this as early data; it sends nothing more of the handshake until [`Self::finish`].
    fn connect(scene: &Scene, config: &Arc<ClientConfig>, early: &[u8]) -> Self {
        let mut connection =
            ClientConnection::new(Arc::clone(config), ServerName::try_from("a.test").unwrap()).unwrap();
        if !early.is_empty() {
            connection.early_data().expect("the server takes it").write_all(early).unwrap();
        }
        let socket = TcpStream::connect(scene.gateway.address()).unwrap();
        socket.set_read_timeout(Some(DEADLINE)).unwrap();
        let mut client = Self { connection, socket, heard: String::new(), flight: Vec::new() };
        client.flight = client.output();
        client.socket.write_all(&client.flight).unwrap();
        client
    }

    fn output(&mut self) -> Vec<u8> {
        let mut output = Vec::new();
        while self.connection.wants_write() {
            self.connection.write_tls(&mut output).unwrap();
        }
        output
    }

    /// Reads once and takes in what has come; `false` at the end.
    fn read(&mut self) -> bool {
        let count = self.connection.read_tls(&mut self.socket).expect("the gateway answers in time");
        let state = self.connection.process_new_packets().unwrap();
        let mut plain = vec![0; state.plaintext_bytes_to_read()];
        self.connection.reader().read_exact(&mut plain).unwrap();
        self.heard.push_str(&String::from_utf8(plain).unwrap());
        count > 0
    }

    /// Waits for a response with this, without a word of its own.
    fn expect(&mut self, text: &str) {
        while !self.heard.contains(text) {
            assert!(self.read(), "no {text} in {:?}", self.heard);
        }
    }

    /// Completes the handshake.
    fn finish(&mut self) {
        while self.connection.is_handshaking() {
            assert!(self.read(), "no handshake");
        }
        let output = self.output();
        self.socket.write_all(&output).unwrap();
    }

    fn send_text(&mut self, text: &str) {
        self.connection.writer().write_all(text.as_bytes()).unwrap();
        let output = self.output();
        self.socket.write_all(&output).unwrap();
    }
}

const POST: &str = "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 2\r\n\r\nhi";

#[test]
fn a_safe_request_is_answered_before_the_handshake_is_complete() {
    let scene = scene(None);
    for method in ["GET", "HEAD", "OPTIONS"] {
        let config = Client::remembered(&scene);
        let mut client = Client::connect(&scene, &config, get("a.test").replacen("GET", method, 1).as_bytes());
        client.expect(if method == "HEAD" { "Content-Length: 10\r\n" } else { "r]" });
        assert!(method == "HEAD" || client.heard.ends_with(&format!("[{method} 1 r]")), "{}", client.heard);
        assert!(client.connection.is_early_data_accepted());
        client.finish();
        client.send_text(&get("a.test"));
        client.expect("[GET  r]");
    }
}

#[test]
fn a_request_that_closes_the_connection_is_answered_in_whole() {
    let scene = scene(None);
    let config = Client::remembered(&scene);
    let request = get("a.test").replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");
    let mut client = Client::connect(&scene, &config, request.as_bytes());
    client.expect("[GET 1 r]");
    client.finish();
    // An end with `close_notify`, and no reset.
    while client.read() {}
}

/// Row T9.
#[test]
fn other_requests_wait_for_the_end_of_the_handshake() {
    let scene = scene(None);
    let config = Client::remembered(&scene);
    let (one, two) = (format!("{}{POST}", get("a.test")), format!("{POST}{}", get("a.test")));
    let put = POST.replace("POST", "PUT");
    for (early, expected) in [
        (POST, &["[POST  r]"][..]),
        (&put, &["[PUT  r]"]),
        // Also where one of several is safe.
        (&one, &["[GET  r]", "[POST  r]"]),
        (&two, &["[POST  r]", "[GET  r]"]),
        // And where the rest of a request is missing.
        ("GET / HTTP/1.1\r\nHost", &[]),
    ] {
        let mut client = Client::connect(&scene, &config, early.as_bytes());
        // Another connection is served meanwhile: the gateway has seen the first one.
        Client::remembered(&scene);
        client.finish();
        if expected.is_empty() {
            client.send_text(": a.test\r\n\r\n");
            client.expect("[GET  r]");
        }
        for expected in expected {
            client.expect(expected);
        }
        assert!(client.connection.is_early_data_accepted() && !client.heard.contains(" 1 "), "{}", client.heard);
    }
}

/// Row T9.
#[test]
fn a_request_behind_one_that_was_answered_early_waits() {
    let scene = scene(None);
    let config = Client::remembered(&scene);
    let before = scene.gateway.access_lines(1).len();
    let mut client = Client::connect(&scene, &config, get("a.test").as_bytes());
    scene.gateway.access_lines(before + 1);
    // The client has not looked at the server's answer yet, so this is early data, too.
    client.connection.early_data().unwrap().write_all(POST.as_bytes()).unwrap();
    let more = client.output();
    client.socket.write_all(&more).unwrap();
    client.expect("[GET 1 r]");
    client.finish();
    client.expect("[POST  r]");
}

/// An upstream that wants no early data.
fn wary() -> Peer {
    Peer::script(|mut talk| {
        while let Some(request) = talk.request() {
            let is_early = request.value("Early-Data") == Some("1");
            let status = if is_early { "425 Too Early" } else { "200 OK" };
            talk.send(format!("HTTP/1.1 {status}\r\nContent-Length: 4\r\n\r\nbody"));
        }
    })
}

const TO_UPSTREAM: &str = "GET /up HTTP/1.1\r\nHost: a.test\r\n\r\n";

/// A client whose early request the upstream has refused.
fn too_early(scene: &Scene) -> Client {
    let mut client = Client::connect(scene, &Client::remembered(scene), TO_UPSTREAM.as_bytes());
    client.expect("HTTP/1.1 425 Too Early\r\n");
    client
}

#[test]
fn upstream_learns_of_early_data_and_its_425_returns() {
    let peer = wary();
    let scene = scene(Some(&peer));
    let mut client = too_early(&scene);
    client.finish();
    client.send_text(TO_UPSTREAM);
    client.expect("HTTP/1.1 200 OK\r\n");
    let heard = peer.requests();
    assert_eq!(heard.len(), 2);
    assert_eq!(heard[1].1.value("Early-Data"), None);
}

/// Row T9.
#[test]
fn a_copy_of_early_data_is_not_executed() {
    let peer = wary();
    let scene = scene(Some(&peer));
    let mut client = too_early(&scene);
    // While the connection is open, and afterwards.
    for round in 0..2 {
        let mut copy = TcpStream::connect(scene.gateway.address()).unwrap();
        copy.set_read_timeout(Some(DEADLINE)).unwrap();
        copy.write_all(&client.flight).unwrap();
        copy.shutdown(Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        copy.read_to_end(&mut answer).unwrap();
        assert!(!answer.is_empty(), "a handshake that the copy cannot complete");
        assert_eq!(peer.requests().len(), 1, "round {round}");
        if round == 0 {
            client.finish();
        }
    }
}

#[test]
fn a_client_that_is_verified_sends_none() {
    let http = HTTP.replace("UP", "").replace("{a}", "{a} ssl_client_certificate {ca}; ssl_verify_client optional;");
    let scene = Scene::new(&http, &[]);
    let config = Client::remembered(&scene);
    let mut connection = ClientConnection::new(config, ServerName::try_from("a.test").unwrap()).unwrap();
    assert!(connection.early_data().is_none());
}

/// What `openssl s_client` says that has this to send.
fn s_client(scene: &Scene, flags: &[&str], typed: &str) -> String {
    let mut command = Command::new(peer_program("openssl"));
    command.args(["s_client", "-tls1_3", "-ign_eof", "-servername", "a.test", "-connect"]);
    command.arg(scene.gateway.address().to_string()).args(flags).current_dir(scene.path(""));
    let output = output_for(&mut command, typed);
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

#[test]
fn openssl_sends_early_data_and_is_answered() {
    let scene = scene(None);
    for (request, expected) in [(get("a.test").as_str(), "[GET "), (POST, "[POST  r]")] {
        let request = request.replacen("\r\n", "\r\nConnection: close\r\n", 1);
        fs::write(scene.path("request"), &request).unwrap();
        let said = s_client(&scene, &["-sess_out", "session"], &request);
        assert!(said.contains(" .]") && !said.contains("Early data was accepted"), "{said}");
        let early = ["-sess_in", "session", "-early_data", "request"];
        let said = s_client(&scene, &early, "");
        assert!(said.contains("Early data was accepted") && said.contains(expected), "{said}");
        // The session counts once.
        let said = s_client(&scene, &early, &request);
        assert!(said.contains("Early data was rejected") && said.contains(" .]"), "{said}");
    }
}
