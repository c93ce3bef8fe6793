//! `plan --verify`: builds a small version of the chain here, one process for each proxy tier and both ends in this
//! process. It opens tunnels and counts descriptors, ports and memory. `doctor::plan::verify` has the expected values
//! and the comparison.

use super::server::Server;
use ::doctor::plan::Chain;
use ::doctor::plan::verify::Round;
use sockdiag::{Census, Filter, Question};
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
/// Kernel objects of one socket, by slab name: the socket, its inode, its file with the security module's part, and its
/// directory entry.
const OBJECTS: [&str; 5] = ["TCP", "sock_inode_cache", "filp", "lsm_file_cache", "dentry"];
/// Kernel object of a descriptor in an epoll.
const WATCHED: &str = "eventpoll_epi";

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
    let before = look(&proxies, &hops)?;
    let mut tunnels = Vec::new();
    for number in 0..connections {
        tunnels.push(open(next).map_err(|error| format!("tunnel {number} of {connections}: {error}"))?);
    }
    let reached = || service.held.load(Ordering::Relaxed) >= connections;
    settle(reached).map_err(|()| {
        format!("{} of {connections} tunnels reached the service", service.held.load(Ordering::Relaxed))
    })?;
    let after = look(&proxies, &hops)?;
    Server::end_all(proxies);
    drop(tunnels);
    let less = |after: &[u64], before: &[u64]| after.iter().zip(before).map(|(a, b)| a.saturating_sub(*b)).collect();
    Ok(Round {
        descriptors: less(&after.descriptors, &before.descriptors),
        ports: less(&after.ports, &before.ports),
        kernel_bytes: after.kernel_bytes.saturating_sub(before.kernel_bytes),
        program_bytes: after.program_bytes.saturating_sub(before.program_bytes),
    })
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

fn look(proxies: &[Server], hops: &[SocketAddr]) -> Result<Round, String> {
    let mut ports = Vec::new();
    let (mut sockets, mut queued) = (0_u64, 0_u64);
    let mut census = Census::open().map_err(|error| error.to_string())?;
    for hop in hops {
        let (address, port) = (hop.ip(), hop.port());
        let words = format!(
            "state established ( ( dst {address} and dport = :{port} ) or ( src {address} and sport = :{port} ) )"
        );
        let filter = Filter::parse(&words, &mut ()).map_err(|error| error.to_string())?;
        let question = Question { filter: Some(&filter), tcp_info: false, ..Question::default() };
        let mut used = std::collections::BTreeSet::new();
        census
            .for_each(&question, |socket| {
                sockets += 1;
                queued += socket
                    .memory
                    .map_or(0, |memory| u64::from(memory.recv_allocated) + u64::from(memory.send_allocated));
                if socket.remote == *hop {
                    used.insert(socket.local);
                }
            })
            .map_err(|error| error.to_string())?;
        ports.push(used.len() as u64);
    }
    let descriptors = proxies
        .iter()
        .map(|proxy| fs::read_dir(format!("/proc/{}/fd", proxy.pid())).map_or(0, |list| list.count() as u64));
    let watched = proxies.iter().map(|proxy| watched_by(proxy.pid())).sum();
    Ok(Round {
        descriptors: descriptors.collect(),
        ports,
        kernel_bytes: kernel_bytes(sockets, watched, queued).ok_or("/proc/meminfo cannot be read")?,
        program_bytes: proxies.iter().filter_map(|proxy| resident_bytes(proxy.pid())).sum(),
    })
}

/// Number of descriptors that the epolls of a process watch.
fn watched_by(pid: u32) -> u64 {
    let Ok(folder) = fs::read_dir(format!("/proc/{pid}/fd")) else { return 0 };
    let epolls = folder
        .flatten()
        .filter(|entry| fs::read_link(entry.path()).is_ok_and(|target| target.as_os_str() == "anon_inode:[eventpoll]"));
    let lines = |number: &str| fs::read_to_string(format!("/proc/{pid}/fdinfo/{number}")).unwrap_or_default();
    let watched = epolls.filter_map(|entry| Some(lines(entry.file_name().to_str()?)));
    watched.map(|text| text.lines().filter(|line| line.starts_with("tfd:")).count() as u64).sum()
}

/// Kernel memory of this many sockets: the objects of each kind, in this kernel's sizes including their share of unused
/// space, plus queued bytes. The object counts of the slabs would tell less: they are for the whole machine and include
/// freed objects. Without permission to read the sizes, this returns all slabs of the machine.
fn kernel_bytes(sockets: u64, watched: u64, queued: u64) -> Option<u64> {
    let Ok(slabs) = fs::read_to_string("/proc/slabinfo") else { return kilobytes("/proc/meminfo", "Slab:") };
    let each = OBJECTS.iter().filter_map(|name| object_bytes(&slabs, name)).sum::<f64>();
    let watching = object_bytes(&slabs, WATCHED).unwrap_or(0.0);
    Some((sockets as f64 * each + watched as f64 * watching) as u64 + queued)
}

/// Bytes per object of a slab cache. The kernel may have merged the cache with another; it is not found by its name
/// then.
fn object_bytes(slabs: &str, cache: &str) -> Option<f64> {
    const PAGE_BYTES: f64 = 4096.0;
    let line = slabs.lines().find_map(|line| line.strip_prefix(cache)?.strip_prefix(' '))?;
    // active objects, all objects, object size, objects per slab, pages per slab
    let numbers: Vec<f64> = line.split_ascii_whitespace().take(5).map_while(|word| word.parse().ok()).collect();
    let [_, _, _, per_slab, pages] = numbers[..] else { return None };
    Some(pages * PAGE_BYTES / per_slab.max(1.0))
}

fn resident_bytes(pid: u32) -> Option<u64> {
    kilobytes(&format!("/proc/{pid}/status"), "RssAnon:")
}

/// `RssAnon:    1234 kB`, in bytes.
fn kilobytes(path: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slabs_are_read_by_their_whole_names() {
        let slabs = "slabinfo - version: 2.1\n# name <active_objs> <num_objs> <objsize> <objperslab> <pagesperslab> : tunables\n\
                     TCPv6 39 39 2496 13 8 : tunables 0 0 0\nTCP 91 143 2368 13 8 : tunables 0 0 0\nodd 1 2\n";
        let bytes = object_bytes(slabs, "TCP").expect("it is there");
        assert!((bytes - 32_768.0 / 13.0).abs() < 0.1, "{bytes}");
        assert_eq!((object_bytes(slabs, "odd"), object_bytes(slabs, "dentry")), (None, None));
    }
}
