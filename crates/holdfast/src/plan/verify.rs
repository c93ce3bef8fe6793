//! `plan --verify`: builds a small version of the chain here, one process for each proxy tier and both ends in this
//! process, and opens tunnels. `doctor::plan::usage` counts descriptors, ports and memory; `doctor::plan::verify` has the
//! expected values and the comparison.

use super::server::Server;
use ::doctor::plan::Chain;
use ::doctor::plan::usage;
use ::doctor::plan::verify::Round;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The median of three rounds hardly changes with other work on the machine.
const ROUNDS: usize = 3;
/// Time for one step of one connection on a busy machine.
const STEP_TIMEOUT: Duration = Duration::from_secs(10);
/// Time until the last tunnel has reached the service and the counts no longer change.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(20);
/// Descriptors of this process besides the tunnels' ends.
const DESCRIPTORS_BESIDE: u64 = 128;
/// Our heads are shorter than this.
const HEAD_BYTES_MAX: usize = 4096;

/// Measures this many connections through one host of each tier.
pub(super) fn measure(chain: &Chain, connections: u64) -> Result<Vec<Round>, String> {
    let needed = connections.saturating_mul(2).saturating_add(DESCRIPTORS_BESIDE);
    raise_descriptors(needed)?;
    let folder = tempfile::tempdir().map_err(|error| format!("no temporary directory: {error}"))?;
    (0..ROUNDS).map(|round| one_round(chain, connections, &folder.path().join(round.to_string()))).collect()
}

fn one_round(chain: &Chain, connections: u64, folder: &Path) -> Result<Round, String> {
    let service = Service::start().map_err(|error| format!("the service could not be started: {error}"))?;
    let mut next = service.address;
    let mut proxies = Vec::new();
    // Built from the service towards the clients, because each proxy needs the address of the next one.
    for place in (1..chain.tiers.len().saturating_sub(1)).rev() {
        let proxy = proxy(&folder.join(place.to_string()), next, connections)?;
        next = proxy.address;
        proxies.push(proxy);
    }
    proxies.reverse();
    let hops: Vec<SocketAddr> = proxies.iter().map(|proxy| proxy.address).chain([service.address]).collect();
    let pids: Vec<u32> = proxies.iter().map(Server::pid).collect();
    let before = usage::count(&pids, &hops)?;
    let mut tunnels = Vec::new();
    for number in 0..connections {
        tunnels.push(open(next).map_err(|error| format!("tunnel {number} of {connections}: {error}"))?);
    }
    let reached = || service.held.load(Ordering::Relaxed) >= connections;
    settle(reached).map_err(|()| {
        format!("{} of {connections} tunnels reached the service", service.held.load(Ordering::Relaxed))
    })?;
    let after = usage::count(&pids, &hops)?;
    Server::end_all(proxies);
    drop(tunnels);
    Ok(after.since(&before))
}

fn raise_descriptors(needed: u64) -> Result<(), String> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    if limit.maximum.is_some_and(|maximum| maximum < needed) {
        return Err(format!(
            "{needed} descriptors are needed here and {} allowed: fewer connections, as in --verify=500",
            limit.maximum.unwrap_or(0)
        ));
    }
    let raised = Rlimit { current: Some(needed), maximum: limit.maximum };
    setrlimit(Resource::Nofile, raised)
        .map_err(|error| format!("the limit of descriptors could not be raised: {error}"))
}

/// Starts a proxy that carries tunnels to `next`.
fn proxy(folder: &Path, next: SocketAddr, connections: u64) -> Result<Server, String> {
    Server::start("proxy", folder, |listen| {
        let shown = folder.display();
        // Two sockets for each tunnel, and a reserve for descriptors that are not counted.
        let sockets = connections.saturating_mul(2).saturating_add(DESCRIPTORS_BESIDE);
        let mut text =
            format!("worker_processes 1;\nworker_rlimit_nofile {};\npid {shown}/pid;\n", sockets + DESCRIPTORS_BESIDE);
        let _ = write!(
            text,
            "error_log {shown}/error.log warn;\nevents {{ worker_connections {sockets}; }}\nhttp {{\naccess_log off;\n\
             server {{ listen {listen}; location / {{ proxy_pass http://{next}; proxy_http_version 1.1; proxy_read_timeout 1h;\n\
             proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection $http_connection; }} }}\n}}\n"
        );
        let conf = folder.join("nginx.conf");
        fs::write(&conf, text)?;
        let words = ["-e".as_ref(), "stderr".as_ref(), "-g".as_ref(), "daemon off; master_process off;".as_ref()];
        let paths = ["-c".as_ref(), conf.as_os_str(), "-p".as_ref(), folder.as_os_str()];
        Ok(paths.into_iter().chain(words).map(OsStr::to_owned).collect())
    })
}

/// Opens the client's end of a tunnel.
fn open(first: SocketAddr) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&first, STEP_TIMEOUT)?;
    stream.set_read_timeout(Some(STEP_TIMEOUT))?;
    let head = "GET /tunnel HTTP/1.1\r\nHost: verify\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\
                Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    stream.write_all(head.as_bytes())?;
    let answer = read_head(&mut stream)?;
    if answer.starts_with(b"HTTP/1.1 101 ") {
        return Ok(stream);
    }
    let line = answer.split(|byte| *byte == b'\r').next().unwrap_or_default();
    Err(io::Error::other(format!("answer \"{}\"", line.escape_ascii())))
}

fn read_head(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let (mut head, mut piece) = (Vec::new(), [0; 1024]);
    while !head.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
        let length = stream.read(&mut piece)?;
        if length == 0 || head.len() > HEAD_BYTES_MAX {
            return Err(io::Error::other("closed instead of an answer"));
        }
        head.extend(piece.iter().take(length));
    }
    Ok(head)
}

/// The far end: holds every requested tunnel, and answers all other requests.
struct Service {
    address: SocketAddr,
    held: Arc<AtomicU64>,
}

impl Service {
    /// Starts a thread that ends when it gets an empty connection.
    fn start() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let held = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&held);
        std::thread::spawn(move || {
            let mut tunnels = Vec::new();
            while let Ok((mut stream, _)) = listener.accept() {
                let _ = stream.set_read_timeout(Some(STEP_TIMEOUT));
                let Ok(head) = read_head(&mut stream) else { return };
                let upgrades = head.windows(8).any(|bytes| bytes.eq_ignore_ascii_case(b"upgrade:"));
                let answer: &[u8] = if upgrades {
                    b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"
                } else {
                    b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                };
                if stream.write_all(answer).is_ok() && upgrades {
                    tunnels.push(stream);
                    count.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        Ok(Self { address, held })
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // An empty connection is the sign to end; the thread then closes all tunnels.
        drop(TcpStream::connect_timeout(&self.address, STEP_TIMEOUT));
    }
}

/// Waits until other threads and processes have reached a state.
fn settle(reached: impl Fn() -> bool) -> Result<(), ()> {
    let begun = Instant::now();
    while !reached() {
        if begun.elapsed() > SETTLE_TIMEOUT {
            return Err(());
        }
        std::thread::park_timeout(Duration::from_millis(5));
    }
    Ok(())
}
