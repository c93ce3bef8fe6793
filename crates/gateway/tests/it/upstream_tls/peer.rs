//! Upstreams with TLS that run a script, and the certificates that they show.

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use testkit::DEADLINE;
use tls::{OneServer, Pair, ServerSide, ServerSideBuilder, Session, TicketKeys};

/// An authority, which issues certificates.
pub(crate) struct Authority {
    params: CertificateParams,
    key: KeyPair,
    pub(crate) pem: String,
}

/// A chain and its key, in PEM.
pub(crate) struct Issued {
    pub(crate) chain: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { params, key, pem }
    }

    /// A certificate for these names; the closure may change it.
    pub(crate) fn issue(&self, names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> Issued {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut leaf = CertificateParams::new(names).unwrap();
        change(&mut leaf);
        let key = KeyPair::generate().unwrap();
        let issuer = Issuer::from_params(&self.params, &self.key);
        Issued { chain: leaf.signed_by(&key, &issuer).unwrap().pem(), key: key.serialize_pem() }
    }

    /// One for `a.test`, `b.test` and the loopback address.
    pub(crate) fn usual(&self) -> Issued {
        self.issue(&["a.test", "b.test", "127.0.0.1"], |_| ())
    }
}

impl Issued {
    pub(crate) fn side(&self) -> ServerSideBuilder {
        let pair = Pair::from_pem(self.chain.as_bytes(), self.key.as_bytes(), b"").unwrap();
        ServerSide::new().pair(pair).ticket_keys(Some(Arc::new(TicketKeys::random())))
    }
}

/// Files for a configuration, in a directory that ends with the test.
pub(crate) struct Files(tempfile::TempDir);

impl Files {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> &str {
        self.0.path().to_str().unwrap()
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        let path: PathBuf = self.0.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

/// What a peer has learned about one connection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Met {
    pub(crate) sni: Option<String>,
    pub(crate) resumed: bool,
    pub(crate) protocol: String,
    /// `$ssl_client_verify`
    pub(crate) client: String,
    /// Targets of the received requests.
    pub(crate) targets: Vec<String>,
}

/// A connection after its handshake.
pub(crate) struct Secure {
    pub(crate) stream: TcpStream,
    session: Session,
    /// Decrypted bytes that were not read yet.
    pending: Vec<u8>,
    ended: bool,
    serial: usize,
    met: Arc<Mutex<Vec<Met>>>,
}

impl Secure {
    fn accept(mut secure: Self, piece: usize) -> Option<Self> {
        while secure.session.is_handshaking() {
            secure.receive()?;
            secure.flush_in(piece)?;
        }
        let session = &secure.session;
        let seen = Met {
            sni: session.server_name().map(str::to_owned),
            resumed: session.is_resumed(),
            protocol: session.protocol().map_or("", tls::Protocol::name).to_owned(),
            client: session.client_verification().map_or(String::new(), |checked| checked.result.text()),
            targets: Vec::new(),
        };
        secure.met.lock().unwrap()[secure.serial] = seen;
        Some(secure)
    }

    fn flush_in(&mut self, piece: usize) -> Option<()> {
        let mut wire = Vec::new();
        self.session.take_output(&mut wire);
        for piece in wire.chunks(piece) {
            self.stream.write_all(piece).ok()?;
        }
        Some(())
    }

    /// Reads once. `None`: the end, or invalid TLS.
    fn receive(&mut self) -> Option<()> {
        let mut bytes = vec![0; 32 * 1024];
        let count = self.stream.read(&mut bytes).ok().filter(|&count| count > 0)?;
        let Self { session, pending, .. } = self;
        let received = session.receive(&mut bytes[..count], &mut |plain| pending.extend_from_slice(plain));
        self.ended |= self.session.is_peer_closed();
        self.flush_in(usize::MAX)?;
        received.ok()
    }

    pub(crate) fn serial(&self) -> usize {
        self.serial
    }

    /// Number of requests received on this connection.
    pub(crate) fn requests_here(&self) -> usize {
        self.met.lock().unwrap()[self.serial].targets.len()
    }

    /// The next request's head, as text; `None` at the end.
    pub(crate) fn request(&mut self) -> Option<String> {
        let end = loop {
            if let Some(end) = self.pending.windows(4).position(|window| window == b"\r\n\r\n") {
                break end + 4;
            }
            if self.ended {
                return None;
            }
            self.receive()?;
        };
        let head = String::from_utf8(self.pending.drain(..end).collect()).unwrap();
        let length =
            head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).map_or(0, |text| text.parse().unwrap());
        while self.pending.len() < length {
            self.receive()?;
        }
        self.pending.drain(..length);
        let target = head.split(' ').nth(1).unwrap().to_owned();
        self.met.lock().unwrap()[self.serial].targets.push(target);
        Some(head)
    }

    /// The next bytes, of any kind.
    pub(crate) fn whatever_comes(&mut self) -> Option<Vec<u8>> {
        while self.pending.is_empty() {
            if self.ended {
                return None;
            }
            self.receive()?;
        }
        Some(std::mem::take(&mut self.pending))
    }

    pub(crate) fn send(&mut self, text: impl AsRef<[u8]>) {
        let text = text.as_ref();
        let mut wire = vec![0; text.len() + 4096];
        let mut sent = 0;
        while sent < text.len() {
            let sealed = self.session.seal(&text[sent..], tls::RECORD_BYTES_MAX, &mut wire).unwrap();
            sent += sealed.taken;
            let _ = self.stream.write_all(&wire[..sealed.written]);
        }
    }

    /// Ends it with a `close_notify`.
    pub(crate) fn close(mut self) {
        self.session.close();
        let _ = self.flush_in(usize::MAX);
    }
}

/// A listening upstream.
pub(crate) struct SecurePeer {
    address: SocketAddr,
    met: Arc<Mutex<Vec<Met>>>,
    over: Arc<AtomicBool>,
    acceptor: Option<JoinHandle<()>>,
}

impl SecurePeer {
    /// Runs the script on every connection that has completed its handshake.
    pub(crate) fn script(side: ServerSideBuilder, script: impl Fn(Secure) + Send + Sync + 'static) -> Self {
        Self::in_pieces(side, usize::MAX, script)
    }

    /// Like [`Self::script`], but sends its part of the handshake in pieces of this size.
    pub(crate) fn in_pieces(
        side: ServerSideBuilder,
        piece: usize,
        script: impl Fn(Secure) + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let side = Arc::new(OneServer(Arc::new(side.build().unwrap())));
        let (met, over) = (Arc::<Mutex<Vec<Met>>>::default(), Arc::<AtomicBool>::default());
        let acceptor = std::thread::spawn({
            let (met, over, script) = (Arc::clone(&met), Arc::clone(&over), Arc::new(script));
            move || {
                for stream in listener.incoming().flatten() {
                    if over.load(Ordering::Acquire) {
                        return;
                    }
                    stream.set_nodelay(true).unwrap();
                    stream.set_read_timeout(Some(DEADLINE)).unwrap();
                    let serial = {
                        let mut met = met.lock().unwrap();
                        met.push(Met::default());
                        met.len() - 1
                    };
                    let session = Session::server(Arc::clone(&side) as Arc<dyn tls::Listener>);
                    let (met, script) = (Arc::clone(&met), Arc::clone(&script));
                    let secure = Secure { stream, session, pending: Vec::new(), ended: false, serial, met };
                    std::thread::spawn(move || Secure::accept(secure, piece).map(|secure| script(secure)));
                }
            }
        });
        Self { address, met, over, acceptor: Some(acceptor) }
    }

    /// Answers every request with its number on the connection.
    pub(crate) fn counting(side: ServerSideBuilder) -> Self {
        Self::script(side, |mut secure| {
            let mut count = 0;
            while secure.request().is_some() {
                count += 1;
                secure.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{count}", count.to_string().len()));
            }
        })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it has learned about each connection.
    pub(crate) fn met(&self) -> Vec<Met> {
        self.met.lock().unwrap().clone()
    }
}

impl Drop for SecurePeer {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        let _ = TcpStream::connect(self.address);
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}
