//! The error log's phrases against nginx itself: both get the same bytes, and both log the same phrase at the same
//! level.
#![allow(clippy::unwrap_used)] // a failed step of a test is its end

use std::fs;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tls::{
    Choice, ClientHello, ClientSide, Curves, Level, Listener, OneServer, Pair, ServerSide, Session, TlsError, Trust,
};

/// No conversation here takes longer, however loaded the machine is.
const DEADLINE: Duration = Duration::from_secs(20);

/// nginx of Debian's newest suite, where `cargo xtask peers` has put it.
fn nginx_program() -> PathBuf {
    let given = std::env::var_os("HOLDFAST_PEERS").map(PathBuf::from);
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/peers/bin");
    let found = given.into_iter().chain([ours]).map(|folder| folder.join("nginx-new")).find(|file| file.is_file());
    found.expect("no nginx-new here: `cargo xtask peers` fetches it, and `cargo xtask test` does so itself")
}

struct Nginx {
    folder: tempfile::TempDir,
    process: Child,
    /// Bytes of the log that were read.
    read: usize,
}

impl Nginx {
    fn start(pair: &Pair, key_pem: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().display().to_string();
        fs::write(folder.path().join("c.pem"), pair.chain_pem()).unwrap();
        fs::write(folder.path().join("k.pem"), key_pem).unwrap();
        let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|name| format!("{name}_temp_path {at}/{name};\n"))
            .concat();
        let text = format!(
            "daemon off; master_process off; pid {at}/pid; error_log {at}/log info;\n\
             events {{ worker_connections 64; }}\n\
             http {{ {temporary} access_log off; ssl_certificate {at}/c.pem; ssl_certificate_key {at}/k.pem;\n\
             server {{ listen unix:{at}/serve ssl; return 200 ok; }}\n\
             server {{ listen unix:{at}/refuse ssl; ssl_reject_handshake on; }} }}\n"
        );
        fs::write(folder.path().join("conf"), text).unwrap();
        let process = Command::new(nginx_program()).arg("-c").arg(folder.path().join("conf")).spawn().unwrap();
        Self { folder, process, read: 0 }
    }

    fn connect(&self, socket: &str) -> UnixStream {
        let begun = Instant::now();
        loop {
            if let Ok(stream) = UnixStream::connect(self.folder.path().join(socket)) {
                stream.set_read_timeout(Some(DEADLINE)).unwrap();
                return stream;
            }
            assert!(begun.elapsed() < DEADLINE, "nginx does not listen");
            std::thread::yield_now();
        }
    }

    /// What nginx writes into its log for these bytes: the level and the phrase.
    fn answer_to(&mut self, socket: &str, bytes: &[u8]) -> (String, String) {
        let mut stream = self.connect(socket);
        stream.write_all(bytes).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        // It logs before it closes.
        let _ = stream.read_to_end(&mut Vec::new());
        let log = fs::read_to_string(self.folder.path().join("log")).unwrap();
        let new = log.get(self.read..).unwrap_or_default();
        self.read = log.len();
        let line = new.lines().find(|line| line.contains(", client:")).unwrap_or_else(|| panic!("nothing in {new:?}"));
        let (head, phrase) = line.split_once(": *").unwrap();
        let level = head.split_once('[').unwrap().1.split_once(']').unwrap().0;
        let phrase = phrase.split_once(' ').unwrap().1.split_once(", client:").unwrap().0;
        (level.to_owned(), phrase.trim_end_matches(" while SSL handshaking").to_owned())
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[derive(Debug)]
struct Refusing;

impl Listener for Refusing {
    fn choose(&self, _hello: &ClientHello<'_>) -> Choice {
        Choice::Refuse
    }
}

/// What the engine says of the same.
fn ours(listener: Arc<dyn Listener>, bytes: &[u8]) -> (String, String) {
    let mut session = Session::server(listener);
    let failed = session.receive(&mut bytes.to_vec(), &mut |_| ()).err();
    let error: TlsError = failed.unwrap_or_else(|| session.end().unwrap_err());
    let level = match error.level() {
        Level::Info => "info",
        Level::Error => "error",
        Level::Critical => "crit",
    };
    (level.to_owned(), error.phrase())
}

/// A first message of TLS 1.2 or older, with these ciphers and, if asked, the extensions that TLS 1.2 wants.
fn old_hello(version: u8, ciphers: &[u8], extensions: bool) -> Vec<u8> {
    let mut body = vec![3, version];
    body.extend([7; 32]);
    body.push(0);
    body.extend((ciphers.len() as u16).to_be_bytes());
    body.extend(ciphers);
    body.extend([1, 0]);
    if extensions {
        // Groups: P-256. Point formats: uncompressed. Signatures: ECDSA with P-256, RSA-PSS. Extended master secret.
        let all =
            [0, 10, 0, 4, 0, 2, 0, 23, 0, 11, 0, 2, 1, 0, 0, 13, 0, 6, 0, 4, 4, 3, 8, 4, 0, 23, 0, 0, 0xff, 1, 0, 1, 0];
        body.extend((all.len() as u16).to_be_bytes());
        body.extend(all);
    }
    let length = (body.len() as u32).to_be_bytes();
    record(1, &[&[1], &length[1..], &body].concat())
}

fn record(version: u8, body: &[u8]) -> Vec<u8> {
    [&[22, 3, version][..], &(body.len() as u16).to_be_bytes(), body].concat()
}

#[test]
fn failures_are_logged_in_nginxs_words_at_its_level() {
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::new(vec!["a.test".to_owned()]).unwrap().self_signed(&key).unwrap();
    let pair = Pair::from_pem(certificate.pem().as_bytes(), key.serialize_pem().as_bytes(), b"").unwrap();
    let mut nginx = Nginx::start(&pair, &key.serialize_pem());
    let serving: Arc<dyn Listener> = Arc::new(OneServer(Arc::new(ServerSide::new().pair(pair).build().unwrap())));
    // Both take this group at once, without another round.
    let side = ClientSide::new(Trust::Anyone).curves(Curves::parse("X25519").unwrap()).build().unwrap();
    let mut hello = Vec::new();
    Session::client(&side, "a.test").unwrap().take_output(&mut hello);
    let behind = |bytes: &[u8]| [&hello, bytes].concat();
    let cases: &[(&str, Vec<u8>)] = &[
        ("only TLS 1.0", old_hello(1, &[0xc0, 0x09, 0xc0, 0x13, 0, 0x2f], false)),
        ("only TLS 1.1", old_hello(2, &[0xc0, 0x09, 0xc0, 0x13, 0, 0x2f], false)),
        ("no shared cipher", old_hello(3, &[0, 0x2f], true)),
        ("no shared kind of key", old_hello(3, &[0xc0, 0x2f], true)),
        ("the certificate is refused", behind(&[21, 3, 3, 0, 2, 2, 48])),
        ("the certificate is bad", behind(&[21, 3, 3, 0, 2, 2, 42])),
        ("closed at once", vec![]),
        ("closed in a record's head", hello[..3].to_vec()),
        ("closed in the first message", hello[..100].to_vec()),
        ("closed behind it", hello.clone()),
        ("garbage in a record", record(1, &[b'x'; 32])),
        ("garbage in a message", record(1, &[&[1, 0, 0, 32][..], &[b'x'; 32]].concat())),
        ("a record that is too long", [&[22, 3, 1, 0x7f, 0xff][..], &[0; 64]].concat()),
        ("a message that is too long", record(1, &[&[1, 3, 0, 0][..], &[0; 16_380]].concat())),
        ("a server's message", record(1, &[2, 0, 0, 0])),
        ("an unknown version", record_of_version_4()),
        ("no signature in common", old_hello(3, &[0xc0, 0x2b], false)),
        ("a record that does not decrypt", behind(&[&[23, 3, 3, 0, 32][..], &[b'x'; 32]].concat())),
        ("SSLv2", [&[0x80, 0x2e, 1, 3, 1, 0, 21, 0, 0, 0, 16][..], &[0; 37]].concat()),
        ("plain HTTP", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_vec()),
        ("no TLS", vec![0, 1, 2, 3, 4, 5]),
    ];
    let mut wrong = Vec::new();
    let refusing: Arc<dyn Listener> = Arc::new(Refusing);
    let all = cases.iter().map(|(name, bytes)| (*name, bytes, "serve", &serving));
    for (name, bytes, socket, listener) in all.chain([("a name that is refused", &hello, "refuse", &refusing)]) {
        let (theirs, ours) = (nginx.answer_to(socket, bytes), ours(Arc::clone(listener), bytes));
        if theirs != ours {
            wrong.push(format!("{name}:\n  nginx {theirs:?}\n  ours  {ours:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn record_of_version_4() -> Vec<u8> {
    let mut bytes = record(1, &[1, 0, 0, 0]);
    bytes[1] = 4;
    bytes
}
