//! One sample: what the machine, its sockets and the gateway were doing at a moment, as counts and levels. It has addresses of peers and
//! listeners, names of groups and causes, and nothing of a request: no path, no query, no header. Written as a line of JSON.
//!
//! Counts are those since the sample before, over [`Sample::over_ms`]; absent fields are zero, or not known where the type is an `Option`.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Counts by name; names with zero are left out.
pub type Counts = BTreeMap<String, u64>;

/// The first line of a file: what holds for all of its samples.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Head {
    /// Version of the format.
    pub format: u32,
    /// The version of Holdfast that wrote it.
    pub version: String,
    /// Wanted time between two samples.
    pub interval_ms: u64,
    /// Processors of the machine.
    pub processors: u32,
    /// Local ports that `connect()` chooses from, per destination.
    pub ports_usable: Option<u32>,
    /// `net.core.somaxconn`
    pub somaxconn: Option<u32>,
    /// What the recorder cannot see here, in words.
    pub missing: Vec<String>,
}

/// The format that this version writes.
pub const FORMAT: u32 = 1;

/// What was there at one moment.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Sample {
    /// Unix time.
    pub at_ms: u64,
    /// Time since the machine was booted, suspended time included. It tells jumps of the clock.
    pub up_ms: u64,
    /// Time that the counts are of; 0 in the first sample of a recorder, which has no counts.
    pub over_ms: u64,
    /// Absent if the sockets were not read this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sockets: Option<Sockets>,
    /// TCP's counters of the network namespace, by the kernel's names.
    #[serde(skip_serializing_if = "Counts::is_empty")]
    pub kernel: Counts,
    /// Processors and memory.
    pub machine: Machine,
    /// The watched processes, master and workers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<Process>,
    /// Absent if no gateway is asked, or it did not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gateway: Option<Gateway>,
    /// Why the gateway did not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unanswered: Option<String>,
    /// Lines of error logs by their cause and peer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<Errors>,
    /// What the recorder itself used.
    pub own: Own,
}

/// Sockets, counted.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Sockets {
    /// All sockets by state.
    pub states: Counts,
    /// Those towards each destination; the ones with the most sockets.
    pub destinations: Vec<Destination>,
    /// How many destinations are left out.
    #[serde(skip_serializing_if = "is_zero")]
    pub destinations_more: u64,
    /// The listeners, the fullest first.
    pub listeners: Vec<Listener>,
}

/// Sockets from one address to one destination.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Destination {
    /// The address they come from.
    pub local: String,
    /// Address and port they go to.
    pub remote: String,
    /// Ports in use.
    pub used: u32,
    /// Ports in TIME_WAIT.
    #[serde(skip_serializing_if = "is_none")]
    pub time_wait: u32,
    /// Ports that `connect()` can still choose.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free: Option<u32>,
    /// In SYN_SENT.
    #[serde(skip_serializing_if = "is_none")]
    pub connecting: u32,
    /// In SYN_SENT, with a SYN that was sent again.
    #[serde(skip_serializing_if = "is_none")]
    pub unanswered: u32,
    /// Waiting for the acknowledgement of bytes that were sent again.
    #[serde(skip_serializing_if = "is_none")]
    pub retransmitting: u32,
}

/// A listening socket.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Listener {
    /// Its address.
    pub address: String,
    /// Connections that wait to be accepted.
    #[serde(skip_serializing_if = "is_none")]
    pub queue: u32,
    /// The backlog that the kernel granted; the queue holds one more.
    pub backlog: Option<u32>,
    /// SYNs and connections that it dropped.
    #[serde(skip_serializing_if = "is_none")]
    pub drops: u32,
}

impl Listener {
    /// Whether the queue has no room for another connection.
    pub fn is_full(&self) -> bool {
        self.backlog.is_some_and(|backlog| self.queue > backlog)
    }
}

/// Processors and memory. Times of processors are sums over all of them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Machine {
    /// Time that processors worked.
    pub busy_ms: u64,
    /// Time that a hypervisor took away.
    #[serde(skip_serializing_if = "is_zero")]
    pub steal_ms: u64,
    /// Time that at least one task waited for a processor (PSI).
    #[serde(skip_serializing_if = "is_zero")]
    pub cpu_wait_us: u64,
    /// Time that at least one task waited for memory (PSI).
    #[serde(skip_serializing_if = "is_zero")]
    pub memory_wait_us: u64,
    /// Time that at least one task waited for a disk (PSI).
    #[serde(skip_serializing_if = "is_zero")]
    pub disk_wait_us: u64,
    /// `MemTotal`
    pub memory_kb: u64,
    /// `MemAvailable`
    pub memory_available_kb: u64,
    /// Processes that the kernel killed for want of memory, in any control group.
    #[serde(skip_serializing_if = "is_zero")]
    pub oom_kills: u64,
    /// The control group of the watched process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<ControlGroup>,
}

/// Limits of a control group, and what they led to.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ControlGroup {
    /// The memory that it may use; absent without a limit.
    pub memory_limit_kb: Option<u64>,
    /// The memory that it uses.
    pub memory_kb: Option<u64>,
    /// Processes that the kernel killed for it.
    #[serde(skip_serializing_if = "is_zero")]
    pub oom_kills: u64,
    /// Time that its tasks were stopped since its quota of CPU was used up.
    #[serde(skip_serializing_if = "is_zero")]
    pub throttled_us: u64,
}

/// A watched process.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Process {
    /// Its pid.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// Open descriptors.
    pub descriptors: Option<u64>,
    /// Most descriptors that it may have.
    pub descriptors_max: Option<u64>,
    /// CPU time.
    pub cpu_ms: u64,
    /// Resident memory.
    pub memory_kb: u64,
}

/// The gateway's own figures, from its status.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Gateway {
    /// When the process that serves began.
    pub started_at_s: u64,
    /// The number of the configuration.
    pub generation: u64,
    /// What the last reload has changed, if the number is a new one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<String>,
    /// Open client connections.
    pub connections: u64,
    /// Client connections accepted.
    pub accepted: u64,
    /// Requests begun.
    pub requests: u64,
    /// Requests under way.
    pub under_way: u64,
    /// Responses by class.
    #[serde(skip_serializing_if = "Counts::is_empty")]
    pub responses: Counts,
    /// Handshakes with clients that were completed.
    #[serde(skip_serializing_if = "is_zero")]
    pub handshakes: u64,
    /// Those that failed.
    #[serde(skip_serializing_if = "is_zero")]
    pub handshakes_failed: u64,
    /// The certificate that ends first: its subject, and when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate: Option<(String, i64)>,
    /// What ran out: `accepts_failed` (descriptors), `connections_refused` (`worker_connections`), `accept_queue_full`.
    #[serde(skip_serializing_if = "Counts::is_empty")]
    pub overload: Counts,
    /// `memory_budget` in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<u64>,
    /// Bytes of it that workers have claimed.
    #[serde(skip_serializing_if = "is_zero")]
    pub claimed: u64,
    /// What is given up for want of memory.
    #[serde(skip_serializing_if = "Counts::is_empty")]
    pub shed: Counts,
    /// Groups of upstreams.
    pub groups: Vec<Group>,
    /// Lookups that failed, by the zone of the resolver.
    #[serde(skip_serializing_if = "Counts::is_empty")]
    pub lookups_failed: Counts,
    /// Responses that a cache could not write to the disk, by cache.
    #[serde(skip_serializing_if = "Counts::is_empty")]
    pub cache_failures: Counts,
    /// Log lines that were not written.
    #[serde(skip_serializing_if = "is_zero")]
    pub log_lines_dropped: u64,
    /// Panics that ended a connection.
    #[serde(skip_serializing_if = "is_zero")]
    pub panics: u64,
}

/// A group of upstreams.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Connections in use.
    #[serde(skip_serializing_if = "is_zero")]
    pub leased: u64,
    /// Idle connections.
    #[serde(skip_serializing_if = "is_zero")]
    pub idle: u64,
    /// Requests that wait for a connection.
    #[serde(skip_serializing_if = "is_zero")]
    pub waiting: u64,
    /// Connections opened.
    #[serde(skip_serializing_if = "is_zero")]
    pub opened: u64,
    /// Requests for which there was no peer.
    #[serde(skip_serializing_if = "is_zero")]
    pub no_live_peer: u64,
    /// Its peers that did something.
    pub peers: Vec<Peer>,
}

/// A peer of a group.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Peer {
    /// Its address.
    pub address: String,
    /// Attempts that ended.
    #[serde(skip_serializing_if = "is_zero")]
    pub attempts: u64,
    /// Those of them that failed.
    #[serde(skip_serializing_if = "is_zero")]
    pub failed: u64,
    /// Connections in use, and those being opened.
    #[serde(skip_serializing_if = "is_zero")]
    pub leased: u64,
    /// Responses of 5xx.
    #[serde(skip_serializing_if = "is_zero")]
    pub server_errors: u64,
    /// Responses that are in `mean_ms`.
    #[serde(skip_serializing_if = "is_zero")]
    pub timed: u64,
    /// Mean time from the beginning of an attempt to the end of its response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_ms: Option<f64>,
    /// The bound that half of the responses are below.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50_ms: Option<f64>,
    /// Its health check says that it is unhealthy.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unhealthy: bool,
}

/// Lines of error logs with one cause about one subject.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Errors {
    /// The name of the cause, as the doctor has it; `other` for lines without a known one.
    pub cause: String,
    /// The peer, the group, or the name that was looked up; empty if the lines name none.
    pub subject: String,
    /// How many lines.
    pub count: u64,
}

/// What the recorder itself used and lost.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Own {
    /// CPU time since the sample before.
    pub cpu_us: u64,
    /// Samples that could not be written, or came too late, since the one before.
    #[serde(skip_serializing_if = "is_zero")]
    pub lost: u64,
    /// Lines of error logs that came too fast to be read.
    #[serde(skip_serializing_if = "is_zero")]
    pub lines_lost: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde passes references
fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde passes references
fn is_none(count: &u32) -> bool {
    *count == 0
}
