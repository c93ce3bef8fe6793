//! The contents of an experiment file as plain values: hosts, processes, arms, loads, probes, rounds and claims.
//!
//! Nothing is started or judged here. Every file, argument, URL and value is a [template](crate::template): `{{proxy}}` is
//! the first address of host `proxy`, `{{proxy.2}}` its second, `{{proxy.*}}` all of them separated by commas.
//! `{{keepalive}}` is a value of the arm or the experiment. `{{folder}}` is the folder of the process or load, which is
//! removed after the sample. `{{file:nginx.conf}}` is the path of a file of this experiment, whose templates are filled in.
//! `{{{{` is a literal `{{`.

use crate::limits::{
    ADDRESSES_MAX, ARGUMENTS_MAX, ARMS_MAX, CLAIMS_MAX, CORE_MAX, DESCRIPTORS_MAX, LOADS_MAX, LOOK_SECONDS_MAX,
    LOOK_SECONDS_MIN, NAME_CHARS_MAX, PROBES_MAX, PROCESSES_MAX, REQUESTS_MAX, ROUNDS_MAX, SECONDS_MAX, SHARES_MAX,
    WAIT_SECONDS_MAX,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// The name on the command line: lower-case letters, digits, hyphens.
    pub name: String,
    /// The title of the report.
    pub title: String,
    /// A description, in paragraphs: subject, source, how to read the results.
    pub about: String,
    /// Number of rounds, their order, and times.
    #[serde(default)]
    pub method: Method,
    /// Differences of `--quick` in `method` and in the loads.
    #[serde(default)]
    pub quick: Quick,
    /// The network of the hosts.
    #[serde(default)]
    pub network: Network,
    /// Hosts by name. By default all processes are on one host, `here`.
    #[serde(default)]
    pub hosts: BTreeMap<String, Host>,
    /// Values of template variables; an arm can override them.
    #[serde(default)]
    pub values: BTreeMap<String, String>,
    /// Values that change from run to run: each combination is a run with its own record.
    #[serde(default)]
    pub sweep: BTreeMap<String, Vec<String>>,
    /// Files for processes, by name.
    #[serde(default)]
    pub files: BTreeMap<String, File>,
    /// Processes, started in this order and ended in reverse order, anew for each sample.
    #[serde(default, rename = "process")]
    #[schemars(length(max = PROCESSES_MAX))]
    pub processes: Vec<Process>,
    /// Loads that run one after the other before the warm-up and are not measured, for example to fill a pool.
    #[serde(default, rename = "fill")]
    #[schemars(length(max = LOADS_MAX))]
    pub fills: Vec<Load>,
    /// Loads that run at the same time and are measured together (report 3 has two clients).
    #[serde(rename = "load")]
    #[schemars(length(min = 1, max = LOADS_MAX))]
    pub loads: Vec<Load>,
    /// Extra measurements. CPU, RSS and descriptors of each process, TCP states and TcpExt counters are always measured.
    #[serde(default, rename = "probe")]
    #[schemars(length(max = PROBES_MAX))]
    pub probes: Vec<Probe>,
    /// The compared sides; at least one.
    #[serde(rename = "arm")]
    #[schemars(length(min = 1, max = ARMS_MAX))]
    pub arms: Vec<Arm>,
    /// Figures defined by this experiment: `share.NAME`.
    #[serde(default, rename = "share")]
    #[schemars(length(max = SHARES_MAX))]
    pub shares: Vec<Share>,
    /// Expected results, written before the run.
    #[serde(default, rename = "claim")]
    #[schemars(length(max = CLAIMS_MAX))]
    pub claims: Vec<Claim>,
}

/// Number of rounds, their order, and times.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Method {
    /// Rounds; each runs every arm once. With fewer than 6 there are figures but no verdicts.
    #[schemars(range(min = 1, max = ROUNDS_MAX))]
    pub rounds: u32,
    /// Most extra rounds at the end, run one by one while void samples leave a claim fewer than 6 rounds.
    #[schemars(range(min = 0, max = ROUNDS_MAX))]
    pub spare: u32,
    /// Order of the arms within a round.
    pub order: Order,
    /// Seconds of load before measuring begins.
    #[schemars(range(min = 0, max = WAIT_SECONDS_MAX))]
    pub warm_up: f64,
    /// Seconds between two looks at sockets and processes.
    #[schemars(range(min = LOOK_SECONDS_MIN, max = LOOK_SECONDS_MAX))]
    pub look: f64,
    /// Seconds without load that are measured before each sample (report 0's idle reference).
    #[schemars(range(min = 0, max = WAIT_SECONDS_MAX))]
    pub idle: f64,
}

/// The order of the arms within the rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// Forward in one round, backward in the next: ABBA.
    #[default]
    Mirrored,
    /// Random for each round, from the printed seed.
    Random,
}

impl Default for Method {
    fn default() -> Self {
        Self { rounds: 12, spare: 2, order: Order::Mirrored, warm_up: 1.0, look: 0.5, idle: 0.0 }
    }
}

/// Differences of `--quick`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Quick {
    /// Replaces the method's.
    #[schemars(range(min = 1, max = ROUNDS_MAX))]
    pub rounds: Option<u32>,
    /// Replaces the method's.
    #[schemars(range(min = 0, max = ROUNDS_MAX))]
    pub spare: Option<u32>,
    /// Replaces the method's.
    #[schemars(range(min = 0, max = WAIT_SECONDS_MAX))]
    pub warm_up: Option<f64>,
    /// Replaces the method's.
    #[schemars(range(min = LOOK_SECONDS_MIN, max = LOOK_SECONDS_MAX))]
    pub look: Option<f64>,
    /// Replaces the loads' `seconds`.
    #[schemars(range(min = 0.1, max = SECONDS_MAX))]
    pub seconds: Option<f64>,
    /// Replaces the loads' `requests`.
    #[schemars(range(min = 1, max = REQUESTS_MAX))]
    pub requests: Option<u64>,
    /// Replaces the method's.
    #[schemars(range(min = 0, max = WAIT_SECONDS_MAX))]
    pub idle: Option<f64>,
    /// Overrides the values of the experiment and its arms, and its sweeps.
    pub values: BTreeMap<String, String>,
    /// Only these arms.
    pub arms: Vec<String>,
}

/// The network of the hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Network {
    /// Kind of network; loopback, with a note in the report, if namespaces are not available.
    pub kind: NetworkKind,
}

/// Kind of network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NetworkKind {
    /// Each host is a network namespace with its own sysctls, all on one virtual switch; new for each sample.
    #[default]
    Hosts,
    /// One network namespace for all hosts, which use its loopback; new for each sample.
    Namespace,
    /// The machine's loopback; hosts are addresses in 127.0.0.0/8.
    Loopback,
}

/// One machine of the topology.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Host {
    /// Number of its addresses; default 1.
    #[schemars(range(min = 1, max = ADDRESSES_MAX))]
    pub addresses: Option<u32>,
    /// For example `"net.core.somaxconn" = "128"`; only sysctls of a network namespace.
    pub sysctls: BTreeMap<String, String>,
}

/// A file of the experiment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "lowercase")]
pub enum File {
    /// The text, a template.
    Text(String),
    /// The path, relative to the experiment file; its text is a template.
    Path(String),
    /// A file of this many bytes `x`.
    Bytes(u64),
}

/// A process of the topology.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Process {
    /// Its name in claims and tables: `origin`, `proxy`.
    pub name: String,
    /// Its host; default: the only host.
    #[serde(default)]
    pub host: Option<String>,
    /// `nginx`, `haproxy`, `holdfast`, `go` (builds the file that is its first argument, outside the measurement), or a command.
    pub program: String,
    /// Its configuration: the name of a file of the experiment.
    #[serde(default)]
    pub conf: Option<String>,
    /// Arguments after those that the program always gets. Templates.
    #[serde(default)]
    #[schemars(length(max = ARGUMENTS_MAX))]
    pub arguments: Vec<String>,
    /// The check that shows that it serves; it must succeed within 10 s.
    #[serde(default)]
    pub ready: Option<Ready>,
    /// Soft and hard `RLIMIT_NOFILE`.
    #[serde(default)]
    #[schemars(range(min = 1, max = DESCRIPTORS_MAX))]
    pub descriptors: Option<u64>,
    /// The core it is pinned to, modulo the number of cores.
    #[serde(default)]
    #[schemars(range(max = CORE_MAX))]
    pub core: Option<usize>,
    /// The run goes on if this process ends, because the experiment shows that end (report 2: a proxy killed for memory).
    #[serde(default)]
    pub may_die: bool,
}

/// A check that a process serves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "lowercase")]
pub enum Ready {
    /// A GET from the process's own host gets a response with any status.
    Http(String),
    /// The address accepts a connection, for example `{{proxy}}:8080`.
    Tcp(String),
}

/// A load on the topology.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// Its name in claims and tables; default `client`.
    #[serde(default)]
    pub name: Option<String>,
    /// Its host; default: `client` if that exists.
    #[serde(default)]
    pub host: Option<String>,
    /// The program; default: `holdfast load`.
    #[serde(default)]
    pub program: Client,
    /// The URL, a template; only `floor` needs none.
    #[serde(default)]
    pub url: String,
    /// Arguments of the program, for example `-c 30 -k`. Templates.
    #[serde(default)]
    #[schemars(length(max = ARGUMENTS_MAX))]
    pub arguments: Vec<String>,
    /// Its duration; or `requests`.
    #[serde(default)]
    #[schemars(range(min = 0.1, max = SECONDS_MAX))]
    pub seconds: Option<f64>,
    /// Its number of requests; or `seconds`.
    #[serde(default)]
    #[schemars(range(min = 1, max = REQUESTS_MAX))]
    pub requests: Option<u64>,
    /// Soft and hard `RLIMIT_NOFILE`.
    #[serde(default)]
    #[schemars(range(min = 1, max = DESCRIPTORS_MAX))]
    pub descriptors: Option<u64>,
    /// The core it is pinned to, modulo the number of cores.
    #[serde(default)]
    #[schemars(range(max = CORE_MAX))]
    pub core: Option<usize>,
    /// A sample in which this load was late or the bottleneck is not void: that is measured, or no figure depends on it.
    #[serde(default)]
    pub may_limit: bool,
}

impl Load {
    /// Its name.
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(crate::plan::CLIENT)
    }
}

/// A load program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Client {
    /// `holdfast load`.
    #[default]
    Load,
    /// `ab`, of Apache.
    Ab,
    /// `wrk`, with or without a Lua script.
    Wrk,
    /// `siege`, as in report 3.
    Siege,
    /// `h2load`, of nghttp2; with `--h1` it uses HTTP/1.1.
    H2load,
    /// `hey`, in Go.
    Hey,
    /// `oha`, in Rust on tokio.
    Oha,
    /// `holdfast lab hold`: opens `-c` connections one after the other and holds them, `--kind idle`, `half-head` or `tunnel`.
    Hold,
    /// `holdfast load floor`: sends nothing; it waits for the moments at which requests of `-R` would be due, and tells how
    /// late it was woken, in the figures that `holdfast load` has for its own lag.
    Floor,
}

impl Client {
    /// Whether it sends requests.
    pub fn asks(self) -> bool {
        self != Self::Floor
    }

    /// Whether it is this program.
    pub fn is_own(self) -> bool {
        matches!(self, Self::Load | Self::Hold | Self::Floor)
    }
}

/// An extra measurement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "lowercase", tag = "kind")]
pub enum Probe {
    /// Sockets by TCP state on a port of one host: `sockets.NAME.STATE`, all together `sockets.NAME`. `closed_first.NAME` counts
    /// those in TIME_WAIT that the listening side closed first.
    Port {
        /// Its name in claims.
        name: String,
        /// The host.
        host: String,
        /// The port, local or remote.
        port: u16,
    },
    /// The accept queue of a listener: `queue.NAME.length`, `queue.NAME.backlog`.
    Queue {
        /// Its name in claims.
        name: String,
        /// The host.
        host: String,
        /// The listener's port.
        port: u16,
    },
    /// Bytes on a port that the application or the peer has not read: `bytes.NAME.receive`, `bytes.NAME.send`,
    /// `bytes.NAME.zero_windows`.
    Bytes {
        /// Its name in claims.
        name: String,
        /// The host.
        host: String,
        /// The port, local or remote.
        port: u16,
    },
    /// System calls of a process for each answered request: `calls_per_request.NAME`. strace counts them and slows everything down,
    /// so such an experiment should measure nothing else.
    Calls {
        /// Its name in claims.
        name: String,
        /// The process; its children are included.
        process: String,
    },
    /// Metrics that a process serves over HTTP, in Prometheus text or as nginx's `stub_status` (without the request for them):
    /// `told.NAME.METRIC`.
    Told {
        /// Its name in claims.
        name: String,
        /// The host that sends the request.
        host: String,
        /// The URL, a template.
        url: String,
    },
}

/// A figure divided by another in each sample: `share.NAME`. A sample without a value of `over` has no share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Share {
    /// Its name in claims, after `share.`.
    pub name: String,
    /// The part: any figure except a share.
    pub of: String,
    /// The whole, in any unit.
    pub over: String,
}

/// One side of the comparison: the topology with named changes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Arm {
    /// Its name in claims and tables: `nginx unpooled`.
    #[schemars(length(min = 1, max = NAME_CHARS_MAX))]
    pub name: String,
    /// Values of template variables in this arm; they override the experiment's.
    #[serde(default)]
    pub values: BTreeMap<String, String>,
    /// Processes that this arm does not start.
    #[serde(default)]
    pub without: Vec<String>,
    /// Other programs for processes.
    #[serde(default)]
    pub programs: BTreeMap<String, String>,
    /// Other programs for loads.
    #[serde(default)]
    pub clients: BTreeMap<String, Client>,
    /// Other configuration files for processes.
    #[serde(default)]
    pub confs: BTreeMap<String, String>,
    /// Other arguments for processes, instead of their own. Templates.
    #[serde(default)]
    pub process_arguments: BTreeMap<String, Vec<String>>,
    /// Sysctls of hosts; they override the host's.
    #[serde(default)]
    pub sysctls: BTreeMap<String, BTreeMap<String, String>>,
    /// Other limits of descriptors for processes.
    #[serde(default)]
    pub descriptors: BTreeMap<String, u64>,
    /// Another URL for all loads and fills.
    #[serde(default)]
    pub url: Option<String>,
    /// Arguments after those of the loads.
    #[serde(default)]
    #[schemars(length(max = ARGUMENTS_MAX))]
    pub arguments: Vec<String>,
}

/// An expected value of a figure, in one arm or between two.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The claim in words.
    pub says: String,
    /// The figure, by the name that [`Sample::figures`](crate::record::Sample) has for it.
    pub figure: String,
    /// The arm.
    pub of: String,
    /// The arm that it is compared with, round by round; without it, the value itself is judged.
    #[serde(default)]
    pub against: Option<String>,
    /// The whole interval of `of` over `against` lies at or above this.
    #[serde(default)]
    pub times_at_least: Option<f64>,
    /// The whole interval of `of` over `against` lies at or below this.
    #[serde(default)]
    pub times_at_most: Option<f64>,
    /// The whole interval of `of` minus `against` lies at or above this.
    #[serde(default)]
    pub more_at_least: Option<f64>,
    /// The whole interval of `of` minus `against` lies at or below this.
    #[serde(default)]
    pub more_at_most: Option<f64>,
    /// The whole interval of the figure lies at or above this.
    #[serde(default)]
    pub value_at_least: Option<f64>,
    /// The whole interval of the figure lies at or below this.
    #[serde(default)]
    pub value_at_most: Option<f64>,
    /// Shown like a claim, but it cannot make the run fail.
    #[serde(default)]
    pub observed: bool,
    /// The only form in which it is judged, for example because `--quick` is too short.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only: Option<Form>,
}

/// A form of an experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// `--quick`.
    Quick,
    /// The full form.
    Full,
}
