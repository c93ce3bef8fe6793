//! Health checks of the peers of a group with TLS.
#![allow(clippy::unwrap_used)] // a failed step of a test is its end

use control::Control;
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use testkit::{DEADLINE, Gateway, Peer, until};
use tls::{OneServer, Pair, RECORD_BYTES_MAX, ServerSide, Session};

const HELLO: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";

/// A TLS upstream that answers one request per connection, and the names requested of it, in order.
struct SecurePeer {
    address: SocketAddr,
    names: Arc<Mutex<Vec<Option<String>>>>,
}

impl SecurePeer {
    fn start(pair: &Pair) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let side = Arc::new(OneServer(Arc::new(ServerSide::new().pair(pair.clone()).build().unwrap())));
        let names = Arc::<Mutex<Vec<Option<String>>>>::default();
        let seen = Arc::clone(&names);
        // The thread ends with the process: no test connects to it afterwards.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let session = Session::server(Arc::clone(&side) as Arc<dyn tls::Listener>);
                let seen = Arc::clone(&seen);
                std::thread::spawn(move || answer(stream, session, &seen));
            }
        });
        Self { address, names }
    }
}

fn answer(mut stream: TcpStream, mut session: Session, seen: &Mutex<Vec<Option<String>>>) -> Option<()> {
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let mut request = Vec::new();
    while !request.windows(4).any(|window| window == b"\r\n\r\n") {
        let mut bytes = [0; 8192];
        let count = stream.read(&mut bytes).ok().filter(|&count| count > 0)?;
        let received = session.receive(&mut bytes[..count], &mut |plain| request.extend_from_slice(plain));
        let mut output = Vec::new();
        session.take_output(&mut output);
        stream.write_all(&output).ok()?;
        received.ok()?;
    }
    seen.lock().unwrap().push(session.server_name().map(str::to_owned));
    let mut record = [0; 512];
    let sealed = session.seal(HELLO, RECORD_BYTES_MAX, &mut record).unwrap();
    stream.write_all(&record[..sealed.written]).ok()
}

fn start(peer: SocketAddr, location: &str) -> (Control, Gateway) {
    let text = format!(
        "events {{}} http {{ access_log off; upstream app {{ server {{upstream:0}}; health_check interval=20ms; }}
            server {{ listen {{listen}}; location /status {{ status_page; }} {location} }} }}"
    );
    let gateway = Gateway::start(&text, &[peer]);
    (Control::start(gateway.shared()).unwrap(), gateway)
}

#[track_caller]
fn until_state(gateway: &Gateway, state: &str) -> Value {
    until(&format!("the peer is {state}"), || {
        let mut client = gateway.client();
        client.send("GET /status?format=json HTTP/1.1\r\nHost: a\r\n\r\n");
        let status: Value = serde_json::from_slice(&client.response().body).unwrap();
        let check = status["groups"][0]["peers"][0]["check"].clone();
        Some(check).filter(|check| check["state"] == state && check["passed"].as_u64() != Some(0))
    })
}

#[test]
fn checks_speak_tls_where_requests_do() {
    let pair = Pair::self_made(&["a.test".to_owned()]).unwrap();
    let peer = SecurePeer::start(&pair);
    let words = "proxy_ssl_server_name on; proxy_ssl_name a.test;";
    let (_control, gateway) = start(peer.address, &format!("location / {{ proxy_pass https://app; {words} }}"));
    until("two checks", || (peer.names.lock().unwrap().len() > 1).then_some(()));
    assert_eq!(peer.names.lock().unwrap()[0].as_deref(), Some("a.test"));
    until_state(&gateway, "healthy");
}

#[test]
fn a_certificate_that_does_not_verify_makes_a_peer_unhealthy() {
    let pair = Pair::self_made(&["a.test".to_owned()]).unwrap();
    let peer = SecurePeer::start(&pair);
    let directory = tempfile::tempdir().unwrap();
    let trusted = directory.path().join("ca.pem");
    std::fs::write(&trusted, pair.chain_pem()).unwrap();
    let words = format!("proxy_ssl_verify on; proxy_ssl_trusted_certificate {};", trusted.display());
    let verified = |name: &str| format!("location / {{ proxy_pass https://app; proxy_ssl_name {name}; {words} }}");
    let (_control, gateway) = start(peer.address, &verified("b.test"));
    let line = gateway.logged("peer is unhealthy while SSL handshaking to upstream");
    assert!(line.contains("upstream SSL certificate does not match \"b.test\""), "{line}");
    let (_control, gateway) = start(peer.address, &verified("a.test"));
    until_state(&gateway, "healthy");
}

#[test]
fn checks_are_in_clear_where_one_proxy_speaks_so() {
    let peer = Peer::saying(HELLO);
    let both = "location /a { proxy_pass https://app; } location / { proxy_pass http://app; } location /v { proxy_pass https://$arg_to; }";
    let (_control, gateway) = start(peer.address(), both);
    until("two checks", || (peer.requests().len() > 1).then_some(()));
    until_state(&gateway, "healthy");
}
