//! The part of a kubelet that the API server asks: what containers printed, for `kubectl logs` and its kin.

use super::KUBERNETES_DEADLINE;
use crate::Authority;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use socket2::SockRef;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

/// Longest head of a request that is read.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// Answers until it is dropped. It listens on the loopback of the machine, where the API server is.
pub(super) struct Kubelet {
    listener: Arc<TcpListener>,
    acceptor: Option<JoinHandle<()>>,
}

impl Kubelet {
    /// Answers with the logs of the Pods below this folder.
    pub(super) fn start(pods: &Path) -> Self {
        let listener = Arc::new(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port"));
        let (config, pods) = (config(), pods.to_owned());
        let acceptor = std::thread::spawn({
            let listener = Arc::clone(&listener);
            move || {
                // One request at a time: the suite reads some logs a second.
                while let Ok((client, _)) = listener.accept() {
                    let _ = answer(&config, client, &pods);
                }
            }
        });
        Self { listener, acceptor: Some(acceptor) }
    }

    /// Its port.
    pub(super) fn port(&self) -> u16 {
        self.listener.local_addr().expect("bound").port()
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        // This ends accept().
        let _ = SockRef::from(&*self.listener).shutdown(Shutdown::Both);
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

/// The API server checks no certificate of a kubelet unless it is told to.
fn config() -> Arc<ServerConfig> {
    let issued = Authority::new("holdfast-test-kubelet").issue(&["127.0.0.1"]);
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(issued.chain.as_bytes()).collect();
    let key = PrivateKeyDer::from_pem_slice(issued.key.as_bytes()).expect("a key");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.expect("the versions of the provider").with_no_client_auth();
    Arc::new(builder.with_single_cert(chain.expect("certificates"), key).expect("a pair"))
}

/// One request, and the end of the connection.
fn answer(config: &Arc<ServerConfig>, client: TcpStream, pods: &Path) -> io::Result<()> {
    client.set_read_timeout(Some(KUBERNETES_DEADLINE))?;
    client.set_write_timeout(Some(KUBERNETES_DEADLINE))?;
    let session = ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
    let mut stream = StreamOwned::new(session, client);
    let (mut head, mut part) = (Vec::new(), [0; 4096]);
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let count = stream.read(&mut part)?;
        if count == 0 || head.len() > HEAD_BYTES_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        head.extend_from_slice(&part[..count]);
    }
    let text = String::from_utf8_lossy(&head);
    let log = text.split_whitespace().nth(1).and_then(|target| log_of(target, pods));
    let (status, body) = match log.map(fs::read) {
        Some(Ok(log)) => ("200 OK", log),
        _ => ("404 Not Found", b"no such container\n".to_vec()),
    };
    write!(stream, "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n", body.len())?;
    write!(stream, "Connection: close\r\n\r\n")?;
    stream.write_all(&body)?;
    stream.conn.send_close_notify();
    stream.flush()
}

/// The file for `/containerLogs/NAMESPACE/POD/CONTAINER?…`. The containers of a Pod share one, and all of it is sent:
/// `sinceTime` is ignored, because callers look for lines of their own.
fn log_of(target: &str, pods: &Path) -> Option<PathBuf> {
    let path = target.split('?').next()?.strip_prefix("/containerLogs/")?;
    let (namespace, rest) = path.split_once('/')?;
    let (pod, _) = rest.split_once('/')?;
    let start = format!("{namespace}.{pod}.");
    let mut folders = fs::read_dir(pods).ok()?.flatten();
    let folder = folders.find(|folder| folder.file_name().to_string_lossy().starts_with(&start))?;
    Some(folder.path().join("log"))
}
