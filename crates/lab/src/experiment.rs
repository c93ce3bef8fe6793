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
    /// Its name on the command line: lower case, digits, hyphens.
    pub name: String,
    /// The headline of its report.
    pub title: String,
    /// What it is about, where it comes from, and how it is to be read: paragraphs.
    pub about: String,
    /// How often, in which order, and how it is judged.
    #[serde(default)]
    pub method: Method,
    /// What `--quick` changes in `method` and in the loads.
    #[serde(default)]
    pub quick: Quick,
    /// Where the hosts are.
    #[serde(default)]
    pub network: Network,
    /// By name. Without any, all processes are on one, `here`.
    #[serde(default)]
    pub hosts: BTreeMap<String, Host>,
    /// What templates say, in all arms that do not say otherwise.
    #[serde(default)]
    pub values: BTreeMap<String, String>,
    /// Values that change from one run of the whole experiment to the next: each combination is a run with its own record.
    #[serde(default)]
    pub sweep: BTreeMap<String, Vec<String>>,
    /// Files that processes read, by name.
    #[serde(default)]
    pub files: BTreeMap<String, File>,
    /// Started in this order and ended in the reverse one, afresh for each sample.
    #[serde(default, rename = "process")]
    #[schemars(length(max = PROCESSES_MAX))]
    pub processes: Vec<Process>,
    /// Loads that run to their end one after the other before the warm-up, and are not measured: to fill a pool.
    #[serde(default, rename = "fill")]
    #[schemars(length(max = LOADS_MAX))]
    pub fills: Vec<Load>,
    /// Run at the same time, and measured together as one load (F3 has two clients).
    #[serde(rename = "load")]
    #[schemars(length(min = 1, max = LOADS_MAX))]
    pub loads: Vec<Load>,
    /// What is watched besides what always is: CPU, RSS and descriptors of each process, TCP states, TcpExt counters.
    #[serde(default, rename = "probe")]
    #[schemars(length(max = PROBES_MAX))]
    pub probes: Vec<Probe>,
    /// The sides that are compared; at least one.
    #[serde(rename = "arm")]
    #[schemars(length(min = 1, max = ARMS_MAX))]
    pub arms: Vec<Arm>,
    /// Figures of its own: `share.NAME`.
    #[serde(default, rename = "share")]
    #[schemars(length(max = SHARES_MAX))]
    pub shares: Vec<Share>,
    /// What is expected, said beforehand.
    #[serde(default, rename = "claim")]
    #[schemars(length(max = CLAIMS_MAX))]
    pub claims: Vec<Claim>,
}

/// How often, in which order, and how it is judged.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Method {
    /// Each is every arm once. Below 6 there are figures, but no verdicts.
    #[schemars(range(min = 1, max = ROUNDS_MAX))]
    pub rounds: u32,
    /// Rounds that are run besides, at the end, one by one, while a claim has fewer than 6 left since samples were void.
    #[schemars(range(min = 0, max = ROUNDS_MAX))]
    pub spare: u32,
    /// Within a round.
    pub order: Order,
    /// The load runs for so long before anything is measured; in seconds.
    #[schemars(range(min = 0, max = WAIT_SECONDS_MAX))]
    pub warm_up: f64,
    /// Between two looks at sockets and processes; in seconds.
    #[schemars(range(min = LOOK_SECONDS_MIN, max = LOOK_SECONDS_MAX))]
    pub look: f64,
    /// Nothing is loaded while this long is watched before each sample (F0's idle reference); in seconds.
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
    /// Drawn anew for each round from the seed, which is printed.
    Random,
}

impl Default for Method {
    fn default() -> Self {
        Self { rounds: 12, spare: 2, order: Order::Mirrored, warm_up: 1.0, look: 0.5, idle: 0.0 }
    }
}

/// What `--quick` changes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Quick {
    /// Instead of the method's.
    #[schemars(range(min = 1, max = ROUNDS_MAX))]
    pub rounds: Option<u32>,
    /// Instead of the method's.
    #[schemars(range(min = 0, max = ROUNDS_MAX))]
    pub spare: Option<u32>,
    /// Instead of the method's.
    #[schemars(range(min = 0, max = WAIT_SECONDS_MAX))]
    pub warm_up: Option<f64>,
    /// Instead of the method's.
    #[schemars(range(min = LOOK_SECONDS_MIN, max = LOOK_SECONDS_MAX))]
    pub look: Option<f64>,
    /// Instead of the loads'.
    #[schemars(range(min = 0.1, max = SECONDS_MAX))]
    pub seconds: Option<f64>,
    /// Instead of the loads'.
    #[schemars(range(min = 1, max = REQUESTS_MAX))]
    pub requests: Option<u64>,
    /// Instead of the method's.
    #[schemars(range(min = 0, max = WAIT_SECONDS_MAX))]
    pub idle: Option<f64>,
    /// Over the experiment's and the arms', and instead of a sweep.
    pub values: BTreeMap<String, String>,
    /// Only these arms.
    pub arms: Vec<String>,
}

/// Where the hosts are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Network {
    /// Falls back to loopback, and says so in the report, where namespaces are not to be had.
    pub kind: NetworkKind,
}

/// Where the hosts are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NetworkKind {
    /// Each host is a network namespace of its own with its own sysctls, all on one virtual switch; new for each sample.
    #[default]
    Hosts,
    /// One network namespace for all hosts, which talk over its loopback; new for each sample.
    Namespace,
    /// The machine's own loopback; hosts are addresses in 127.0.0.0/8.
    Loopback,
}

/// One machine of the topology.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Host {
    /// How many it has; 1 if not said.
    #[schemars(range(min = 1, max = ADDRESSES_MAX))]
    pub addresses: Option<u32>,
    /// As in `"net.core.somaxconn" = "128"`; only those of a network namespace.
    pub sysctls: BTreeMap<String, String>,
}

/// A file of the experiment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "lowercase")]
pub enum File {
    /// The text itself, a template.
    Text(String),
    /// Beside the experiment file; a template too.
    Path(String),
    /// This many bytes of `x`.
    Bytes(u64),
}

/// A process of the topology.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Process {
    /// As claims and tables name it: `origin`, `proxy`.
    pub name: String,
    /// Where it runs; the only host if not said.
    #[serde(default)]
    pub host: Option<String>,
    /// `nginx`, `haproxy`, `holdfast`, `go` (builds the file that is its first argument, outside the measurement), or a command.
    pub program: String,
    /// A file of the experiment that becomes its configuration, for programs that have one.
    #[serde(default)]
    pub conf: Option<String>,
    /// Behind those that the program always gets. Templates.
    #[serde(default)]
    #[schemars(length(max = ARGUMENTS_MAX))]
    pub arguments: Vec<String>,
    /// How one can tell that it serves; within 10 s.
    #[serde(default)]
    pub ready: Option<Ready>,
    /// `RLIMIT_NOFILE`, soft and hard.
    #[serde(default)]
    #[schemars(range(min = 1, max = DESCRIPTORS_MAX))]
    pub descriptors: Option<u64>,
    /// Pinned to this core, modulo how many there are.
    #[serde(default)]
    #[schemars(range(max = CORE_MAX))]
    pub core: Option<usize>,
    /// An end of this process is what is being shown (F2's proxy killed for memory), and does not end the run.
    #[serde(default)]
    pub may_die: bool,
}

/// How one can tell that a process serves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "lowercase")]
pub enum Ready {
    /// Answers a GET with any status, asked from the process's own host.
    Http(String),
    /// Accepts a connection, as `{{proxy}}:8080`.
    Tcp(String),
}

/// What loads the topology.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// As claims and tables name it; `client` if not said.
    #[serde(default)]
    pub name: Option<String>,
    /// Where it runs; `client` if there is one.
    #[serde(default)]
    pub host: Option<String>,
    /// Ours if not said.
    #[serde(default)]
    pub program: Client,
    /// What is asked for; only `floor` asks for nothing. A template.
    #[serde(default)]
    pub url: String,
    /// In its program's own words, such as `-c 30 -k`. Templates.
    #[serde(default)]
    #[schemars(length(max = ARGUMENTS_MAX))]
    pub arguments: Vec<String>,
    /// How long it lasts; or `requests`.
    #[serde(default)]
    #[schemars(range(min = 0.1, max = SECONDS_MAX))]
    pub seconds: Option<f64>,
    /// How many requests it makes; or `seconds`.
    #[serde(default)]
    #[schemars(range(min = 1, max = REQUESTS_MAX))]
    pub requests: Option<u64>,
    /// `RLIMIT_NOFILE`, soft and hard.
    #[serde(default)]
    #[schemars(range(min = 1, max = DESCRIPTORS_MAX))]
    pub descriptors: Option<u64>,
    /// Pinned to this core, modulo how many there are.
    #[serde(default)]
    #[schemars(range(max = CORE_MAX))]
    pub core: Option<usize>,
    /// That it was the bottleneck, or late, does not void the sample: it is itself what is measured, or nothing that depends on it.
    #[serde(default)]
    pub may_limit: bool,
}

impl Load {
    /// What it is called.
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(crate::plan::CLIENT)
    }
}

/// A program that makes load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Client {
    /// `holdfast load`.
    #[default]
    Load,
    /// Apache's.
    Ab,
    /// With or without a script in Lua.
    Wrk,
    /// As in F3.
    Siege,
    /// nghttp2's; `--h1` speaks HTTP/1.1.
    H2load,
    /// In Go.
    Hey,
    /// In Rust, on tokio.
    Oha,
    /// `holdfast lab hold`: opens `-c` connections one after the other and holds them, `--kind idle`, `half-head` or `tunnel`.
    Hold,
    /// `holdfast load floor`: sends nothing; it waits for the moments at which requests of `-R` would be due, and tells how
    /// late it was woken, in the figures that `holdfast load` has for its own lag.
    Floor,
}

impl Client {
    /// Whether it sends anything to anybody.
    pub fn asks(self) -> bool {
        self != Self::Floor
    }

    /// Whether it is this program itself.
    pub fn is_own(self) -> bool {
        matches!(self, Self::Load | Self::Hold | Self::Floor)
    }
}

/// Something that is watched in addition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "lowercase", tag = "kind")]
pub enum Probe {
    /// Sockets by TCP state on a port, on one host: `sockets.NAME.STATE`, `sockets.NAME` for all of them, and of those in TIME_WAIT
    /// `closed_first.NAME` that are the port's own: who listens there closed first.
    Port {
        /// As claims name it.
        name: String,
        /// Where to look.
        host: String,
        /// Local or remote.
        port: u16,
    },
    /// The accept queue of a listener: `queue.NAME.length`, `queue.NAME.backlog`.
    Queue {
        /// As claims name it.
        name: String,
        /// Where to look.
        host: String,
        /// Of the listener.
        port: u16,
    },
    /// Bytes that the application or the peer has not read, on a port: `bytes.NAME.receive`, `bytes.NAME.send`, `bytes.NAME.zero_windows`.
    Bytes {
        /// As claims name it.
        name: String,
        /// Where to look.
        host: String,
        /// Local or remote.
        port: u16,
    },
    /// System calls of a process for each answered request: `calls_per_request.NAME`. strace counts them and makes everything slow, so
    /// that nothing else should be taken from such an experiment.
    Calls {
        /// As claims name it.
        name: String,
        /// Which one, with all that it has started.
        process: String,
    },
    /// Numbers that a process tells over HTTP, in Prometheus text or as nginx's `stub_status` (without what asking added):
    /// `told.NAME.METRIC`.
    Told {
        /// As claims name it.
        name: String,
        /// From where it is asked.
        host: String,
        /// A template.
        url: String,
    },
}

/// One figure as a part of another, within each sample: `share.NAME`. A sample in which the whole is nothing has none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Share {
    /// As claims name it, behind `share.`.
    pub name: String,
    /// The part: any figure but a share.
    pub of: String,
    /// The whole, in the same unit or another.
    pub over: String,
}

/// One side of the comparison: the topology with named differences.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Arm {
    /// As claims and tables name it: `nginx unpooled`.
    #[schemars(length(min = 1, max = NAME_CHARS_MAX))]
    pub name: String,
    /// What templates say in this arm, over what they say in all.
    #[serde(default)]
    pub values: BTreeMap<String, String>,
    /// Processes that this arm does without.
    #[serde(default)]
    pub without: Vec<String>,
    /// Another program for a process.
    #[serde(default)]
    pub programs: BTreeMap<String, String>,
    /// Another program for a load.
    #[serde(default)]
    pub clients: BTreeMap<String, Client>,
    /// Another configuration file for a process.
    #[serde(default)]
    pub confs: BTreeMap<String, String>,
    /// Other arguments for a process, instead of its own. Templates.
    #[serde(default)]
    pub process_arguments: BTreeMap<String, Vec<String>>,
    /// Other sysctls of a host, over those that it has.
    #[serde(default)]
    pub sysctls: BTreeMap<String, BTreeMap<String, String>>,
    /// Another limit of descriptors for a process.
    #[serde(default)]
    pub descriptors: BTreeMap<String, u64>,
    /// Another URL for all loads and fills.
    #[serde(default)]
    pub url: Option<String>,
    /// Behind those of the loads.
    #[serde(default)]
    #[schemars(length(max = ARGUMENTS_MAX))]
    pub arguments: Vec<String>,
}

/// What is expected of a figure, in one arm or between two.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// In words, for people.
    pub says: String,
    /// The figure, by the name that [`Sample::figures`](crate::record::Sample) has for it.
    pub figure: String,
    /// The arm that it is claimed of.
    pub of: String,
    /// The arm that it is compared with, round by round; without one, the figure itself is judged.
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
    /// What is shown rather than claimed: reported like the others, but its failing does not make the run fail.
    #[serde(default)]
    pub observed: bool,
    /// Claimed of this form alone: what needs a time that `--quick` does not have, or what replaces it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only: Option<Form>,
}

/// Which form of an experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// With `--quick`.
    Quick,
    /// Without.
    Full,
}
