//! `plan --verify`: builds the chain here in small, one process for each proxy tier and both ends in this one, opens tunnels
//! through it, and counts descriptors, ports and memory. What that should be, and the comparison, are `doctor::plan::verify`'s.

use crate::demo::server::Server;
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

/// Rounds in which somebody else opened files move the median of five by little.
const ROUNDS: usize = 5;
/// For one step of one connection, on a machine that is busy.
const STEP_TIMEOUT: Duration = Duration::from_secs(10);
/// Until the last tunnel has reached the service, and the counts stand still.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(20);
/// Kernel memory that has not fallen for so long will not fall any more: sockets and files are freed some milliseconds after
/// their close, when no processor can be reading them (RCU).
const STILL: Duration = Duration::from_millis(100);
/// Descriptors of this process beside the tunnels' ends.
const DESCRIPTORS_BESIDE: u64 = 128;
/// A head longer than this is none of ours.
const HEAD_BYTES_MAX: usize = 4096;
/// What a socket takes, by the kernel's names: the socket, its inode, its file with the security module's part, its directory
/// entry, and its place in an epoll.
const CACHES: [&str; 6] = ["TCP", "sock_inode_cache", "filp", "dentry", "lsm_file_cache", "eventpoll_epi"];

/// Measures so many connections through one host of each tier.
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
    // From the service towards the clients, since each has to know the one behind it.
    for place in (1..chain.tiers.len().saturating_sub(1)).rev() {
        let proxy = proxy(&folder.join(place.to_string()), next, connections)?;
        next = *proxy.addresses.first().ok_or("a proxy without an address")?;
        proxies.push(proxy);
    }
    proxies.reverse();
    let hops: Vec<SocketAddr> =
        proxies.iter().filter_map(|proxy| proxy.addresses.first().copied()).chain([service.address]).collect();
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
    // From both ends, so that the proxies close theirs; they themselves are there before and after.
    drop((tunnels, service));
    let finally = settled_kernel_bytes().ok_or(NO_KERNEL_MEMORY)?;
    Server::end_all(proxies);
    // What the machine's other work takes meanwhile, it takes at an even pace, as far as one can know.
    let without_tunnels = before.kernel_bytes.midpoint(finally);
    let less = |after: &[u64], before: &[u64]| after.iter().zip(before).map(|(a, b)| a.saturating_sub(*b)).collect();
    Ok(Round {
        descriptors: less(&after.descriptors, &before.descriptors),
        ports: less(&after.ports, &before.ports),
        kernel_bytes: after.kernel_bytes.saturating_sub(without_tunnels),
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

/// A proxy that carries tunnels to `next`.
fn proxy(folder: &Path, next: SocketAddr, connections: u64) -> Result<Server, String> {
    Server::start("proxy", 1, folder, |addresses| {
        let listen = addresses.first().copied().unwrap_or(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        let shown = folder.display();
        // Two sockets for each tunnel, and some for what is not counted.
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

/// A client's end of a tunnel.
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

/// The far end: holds every tunnel it is asked for, and answers anything else.
struct Service {
    address: SocketAddr,
    held: Arc<AtomicU64>,
}

impl Service {
    /// Its thread ends when it is asked to, by a connection that says nothing.
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
        // Closed at once: that is no head, and the thread ends with all tunnels.
        drop(TcpStream::connect_timeout(&self.address, STEP_TIMEOUT));
    }
}

/// Waits for a state that other threads and processes come to.
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
    let mut census = Census::open().map_err(|error| error.to_string())?;
    for hop in hops {
        let words = format!("state established dst {} dport = :{}", hop.ip(), hop.port());
        let filter = Filter::parse(&words, &mut |_| None).map_err(|error| error.to_string())?;
        let question = Question { filter: Some(&filter), tcp_info: false, memory: false, ..Question::default() };
        let mut used = std::collections::BTreeSet::new();
        census
            .for_each(&question, |socket| {
                used.insert(socket.local);
            })
            .map_err(|error| error.to_string())?;
        ports.push(used.len() as u64);
    }
    let descriptors = proxies
        .iter()
        .map(|proxy| fs::read_dir(format!("/proc/{}/fd", proxy.pid())).map_or(0, |list| list.count() as u64));
    Ok(Round {
        descriptors: descriptors.collect(),
        ports,
        kernel_bytes: kernel_bytes().ok_or(NO_KERNEL_MEMORY)?,
        program_bytes: proxies.iter().filter_map(|proxy| resident_bytes(proxy.pid())).sum(),
    })
}

const NO_KERNEL_MEMORY: &str = "/proc/meminfo cannot be read";

/// Once what was closed is gone.
fn settled_kernel_bytes() -> Option<u64> {
    let begun = Instant::now();
    let (mut least, mut since) = (kernel_bytes()?, begun);
    while since.elapsed() < STILL && begun.elapsed() < SETTLE_TIMEOUT {
        std::thread::park_timeout(Duration::from_millis(10));
        let now = kernel_bytes()?;
        if now < least {
            (least, since) = (now, Instant::now());
        }
    }
    Some(least)
}

/// Bytes of the slabs that sockets are made of, with their share of unused room; without the right to read that, of all slabs.
fn kernel_bytes() -> Option<u64> {
    const PAGE_BYTES: u64 = 4096;
    let Ok(slabs) = fs::read_to_string("/proc/slabinfo") else { return kilobytes("/proc/meminfo", "Slab:") };
    let caches = slabs.lines().filter_map(|line| {
        // name, active objects, all objects, object size, objects per slab, pages per slab
        let mut words = line.split_ascii_whitespace();
        let name = words.next()?;
        let numbers: Vec<u64> = words.take(5).map_while(|word| word.parse().ok()).collect();
        let [active, _, _, per_slab, pages] = numbers[..] else { return None };
        CACHES.contains(&name).then(|| active * pages * PAGE_BYTES / per_slab.max(1))
    });
    Some(caches.sum())
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
