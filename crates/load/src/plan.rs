//! Computes what a load will need before its first socket: tuples, descriptors, memory; and which limit it would reach
//! first. The computation is pure; [`Limits::read`] queries the system.
//!
//! A connection needs a tuple (source address, source port, destination address, destination port) that no other connection
//! has. If this side closes first, the tuple stays in `TIME_WAIT` for a minute, unless `tcp_tw_reuse` lets `connect` take
//! it again after a second (by default on loopback only).

use crate::options::{Options, PROCESSES_MAX, Pace};
use crate::pace::Schedule;
use serde::{Deserialize, Serialize};
use std::fs;
use std::net::SocketAddr;

/// User memory of a connection of the load: its state (a test bounds it), its queue of flights, its slot in the reactor,
/// its timer.
pub const CONNECTION_BYTES: u64 = 1024;
/// Additional memory of an HTTP/2 connection: its engine with both header tables a quarter full, and an empty table of
/// calls.
const HTTP2_BYTES: u64 = 4096;
/// Memory of a stream: in the engine, and its call in a table that is half full.
const STREAM_BYTES: u64 = 512;
/// Kernel memory of a socket: TCP 2368, inode 832, file 192, dentry 192, and epoll's entry.
const SOCKET_BYTES: u64 = 4096;
/// Descriptors besides the connections (epoll, timers, files, standard streams): this many per thread, and once more.
const DESCRIPTORS_PER_THREAD: u64 = 4;
const DESCRIPTORS_BESIDE: u64 = 32;
/// Seconds that a tuple stays in `TIME_WAIT` after this side has closed first.
const TIME_WAIT_S: f64 = 60.0;
/// The same where `tcp_tw_reuse` allows `connect` to take it again.
const TIME_WAIT_REUSED_S: f64 = 1.0;

/// The limits of the system.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Machines with at least these limits each, which share the load.
    pub machines: u64,
    /// Descriptors of this process: what `RLIMIT_NOFILE` can be raised to.
    pub descriptors: u64,
    /// `net.ipv4.ip_local_port_range`, both included.
    pub ports: (u16, u16),
    /// `net.ipv4.tcp_tw_reuse`: 0 off, 1 on, 2 on loopback.
    pub tcp_tw_reuse: u32,
    /// Available memory without swapping, in bytes.
    pub memory_bytes: Option<u64>,
}

impl Limits {
    /// Reads the current limits. A value that cannot be read counts as Linux's default.
    pub fn read() -> Self {
        let descriptors = reactor::descriptor_limit().map_or(1024, |(_, hard)| hard);
        let setting = |name: &str| fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).unwrap_or_default();
        let range = setting("ip_local_port_range");
        let mut ports = range.split_ascii_whitespace().map(str::parse);
        let ports = match (ports.next(), ports.next()) {
            (Some(Ok(first)), Some(Ok(last))) => (first, last),
            _ => (32_768, 60_999),
        };
        let tcp_tw_reuse = setting("tcp_tw_reuse").trim().parse().unwrap_or(2);
        let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let memory = memory.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
        let memory = memory.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
        Self { machines: 1, descriptors, ports, tcp_tw_reuse, memory_bytes: memory.map(|kib| kib * 1024) }
    }

    /// The limits that both have, for a load that they share equally.
    #[must_use]
    pub fn shared_with(&self, other: &Self) -> Self {
        Self {
            machines: self.machines.saturating_add(other.machines),
            descriptors: self.descriptors.min(other.descriptors),
            ports: if self.port_count() <= other.port_count() { self.ports } else { other.ports },
            // 1 reuses tuples everywhere, 2 on loopback only, 0 nowhere.
            tcp_tw_reuse: if self.tcp_tw_reuse == 1 {
                other.tcp_tw_reuse
            } else {
                self.tcp_tw_reuse.min(other.tcp_tw_reuse)
            },
            memory_bytes: [self.memory_bytes, other.memory_bytes].into_iter().flatten().min(),
        }
    }

    fn port_count(&self) -> u64 {
        u64::from(self.ports.1.saturating_sub(self.ports.0)) + 1
    }
}

/// A limit, and how much of it the load needs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Need {
    /// The resource.
    pub what: &'static str,
    /// How much the load needs.
    pub needed: u64,
    /// How much is available.
    pub available: u64,
    /// How to raise the limit.
    pub cure: &'static str,
}

impl Need {
    /// Whether there is enough.
    pub fn is_met(&self) -> bool {
        self.needed <= self.available
    }

    /// The share of the available amount that the load needs; above 1 it is not enough.
    pub fn share(&self) -> f64 {
        if self.available == 0 { f64::INFINITY } else { self.needed as f64 / self.available as f64 }
    }
}

/// What a load will need.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plan {
    /// Number of processes: as requested, or as the descriptor limit requires.
    pub processes: usize,
    /// All computed needs, the scarcest first.
    pub needs: Vec<Need>,
}

impl Plan {
    /// The plan for a load on these addresses; without one, on a Unix socket.
    pub fn new(options: &Options, addresses: &[SocketAddr], limits: &Limits) -> Self {
        let connections = options.sockets() as u64;
        let sources = options.sources.len().max(1) as u64;
        let mut destinations: Vec<&SocketAddr> = addresses.iter().collect();
        destinations.sort_unstable();
        destinations.dedup();
        let machines = limits.machines.max(1);
        let tuples = machines * sources * limits.port_count() * destinations.len().max(1) as u64;
        let processes = options.processes.unwrap_or_else(|| processes_needed(options, limits));
        let mut needs = vec![Need {
            what: if processes == 1 { "descriptors" } else { "descriptors in each process" },
            needed: descriptors_needed(options.sockets(), options.threads, processes),
            available: limits.descriptors,
            cure: "raise the hard limit of open files (ulimit -Hn), or load from several processes (--processes auto)",
        }];
        if !addresses.is_empty() {
            needs.push(Need {
                what: "tuples of source address and port towards the target",
                needed: connections + waiting(options, addresses, limits),
                available: tuples,
                cure: "more source addresses (--source 127.0.0.0/24), a wider net.ipv4.ip_local_port_range, more target ports, \
                       or keepalive",
            });
        }
        if let Some(memory) = limits.memory_bytes {
            needs.push(Need {
                what: "bytes of memory, the kernel's included",
                needed: connections * (CONNECTION_BYTES + SOCKET_BYTES + http2_bytes(options)),
                available: memory.saturating_mul(machines),
                cure: "fewer connections, or another machine",
            });
        }
        needs.sort_by(|one, other| other.share().total_cmp(&one.share()));
        Self { processes, needs }
    }

    /// The limit that the load would reach first.
    pub fn scarcest(&self) -> Option<&Need> {
        self.needs.first()
    }

    /// The needs that exceed their limit.
    pub fn unmet(&self) -> impl Iterator<Item = &Need> {
        self.needs.iter().filter(|need| !need.is_met())
    }
}

/// User memory of an HTTP/2 connection beyond that of an HTTP/1 connection.
fn http2_bytes(options: &Options) -> u64 {
    if options.is_http2() { HTTP2_BYTES + options.streams as u64 * STREAM_BYTES } else { 0 }
}

/// Descriptors of the process with the most connections.
pub(crate) fn descriptors_needed(connections: usize, threads: usize, processes: usize) -> u64 {
    let share = |whole: usize| whole.div_ceil(processes.max(1)) as u64;
    share(connections) + share(threads) * DESCRIPTORS_PER_THREAD + DESCRIPTORS_BESIDE
}

/// The smallest number of processes in which each has enough descriptors; the maximum if that is still too few.
fn processes_needed(options: &Options, limits: &Limits) -> usize {
    let most = PROCESSES_MAX.min(options.connections.max(1));
    let sockets = options.sockets();
    let needed = |processes| descriptors_needed(sockets, options.threads, processes);
    (1..most).find(|processes| needed(*processes) <= limits.descriptors).unwrap_or(most)
}

/// Tuples in `TIME_WAIT` if every request opens a connection at a known rate and the load closes first. A closed loop has
/// no known rate, and a server that closes first keeps its own tuples.
fn waiting(options: &Options, addresses: &[SocketAddr], limits: &Limits) -> u64 {
    let Pace::Open { stages, .. } = &options.pace else { return 0 };
    if options.keepalive {
        return 0;
    }
    let loopback = addresses.iter().all(|address| address.ip().is_loopback());
    let reused = limits.tcp_tw_reuse == 1 || (limits.tcp_tw_reuse == 2 && loopback);
    let schedule = Schedule::new(stages.clone());
    let held = if reused { TIME_WAIT_REUSED_S } else { TIME_WAIT_S };
    (schedule.rate_max() * held.min(schedule.duration().as_secs_f64())) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Target;
    use std::time::Duration;

    fn options(connections: usize) -> Options {
        Options { connections, ..Options::new(Target::new("http://192.0.2.1/".parse().unwrap())) }
    }

    fn limits() -> Limits {
        Limits {
            machines: 1,
            descriptors: 1_048_576,
            ports: (32_768, 60_999),
            tcp_tw_reuse: 2,
            memory_bytes: Some(16 << 30),
        }
    }

    fn plan(options: &Options, limits: &Limits) -> Plan {
        Plan::new(options, &["192.0.2.1:80".parse().unwrap()], limits)
    }

    #[test]
    fn a_million_connections_need_thirty_six_source_addresses() {
        let mut million = options(1_000_000);
        let need = plan(&million, &limits());
        let scarcest = need.scarcest().unwrap();
        assert_eq!(
            (scarcest.what, scarcest.available),
            ("tuples of source address and port towards the target", 28_232)
        );
        million.sources = (1..=35).map(|last| format!("192.0.2.{last}").parse().unwrap()).collect();
        assert_eq!(plan(&million, &limits()).unmet().count(), 1);
        million.sources.push("192.0.2.36".parse().unwrap());
        assert_eq!(plan(&million, &limits()).unmet().count(), 0);
        let few = Limits { descriptors: 1024, ..limits() };
        assert_eq!(plan(&million, &few).scarcest().unwrap().what, "descriptors");
        let small = Limits { memory_bytes: Some(1 << 30), ..limits() };
        assert_eq!(plan(&million, &small).scarcest().unwrap().what, "bytes of memory, the kernel's included");
        let memory = |options: &Options| plan(options, &small).needs.into_iter().map(|need| need.needed).max().unwrap();
        let http2 = Options { version: crate::Version::Http2, streams: 10, ..options(1_000_000) };
        assert_eq!(memory(&http2), memory(&options(1_000_000)) + 1_000_000 * (4096 + 10 * 512));
    }

    #[test]
    fn where_one_process_has_too_few_descriptors_several_share_them() {
        let mut options = Options { threads: 4, ..options(100_000) };
        let few = Limits { descriptors: 20_000, ..limits() };
        let descriptors =
            |plan: &Plan| plan.needs.iter().find(|need| need.what.starts_with("descriptors")).unwrap().clone();
        let one = plan(&options, &few);
        assert_eq!((one.processes, descriptors(&one).needed, descriptors(&one).is_met()), (1, 100_048, false));
        options.processes = None;
        // Five processes would need 20,036 descriptors each.
        let several = plan(&options, &few);
        assert_eq!((several.processes, descriptors(&several).needed), (6, 16_667 + 4 + 32));
        assert!(descriptors(&several).is_met());
        assert_eq!(plan(&options, &limits()).processes, 1);
        let none = plan(&options, &Limits { descriptors: 10, ..limits() });
        assert_eq!((none.processes, descriptors(&none).is_met()), (PROCESSES_MAX, false));
    }

    #[test]
    fn a_connection_per_request_holds_its_tuple_for_a_minute() {
        let mut each = options(100);
        each.keepalive = false;
        each.pace = Pace::constant(470.0, Duration::from_mins(10));
        let tuples = |plan: &Plan| plan.needs.iter().find(|need| need.what.starts_with("tuples")).unwrap().clone();
        assert_eq!(tuples(&plan(&each, &limits())).needed, 100 + 28_200);
        assert!(!tuples(&plan(&each, &limits())).is_met());
        let reused = Limits { tcp_tw_reuse: 1, ..limits() };
        assert_eq!(tuples(&plan(&each, &reused)).needed, 100 + 470);
    }

    #[test]
    fn this_machine_is_known() {
        let limits = Limits::read();
        assert!(
            limits.descriptors > 0 && limits.ports.0 < limits.ports.1 && limits.memory_bytes.is_some(),
            "{limits:?}"
        );
    }
}
