//! The description of a chain: tiers of hosts from the clients to the service, and the traffic through them. Read from
//! TOML.

use crate::kernel::{PORTS_DEFAULT, PORTS_WIDEST};
use serde::{Deserialize, Deserializer};

/// The content of the file, checked.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chain {
    /// The headline of the report.
    #[serde(default)]
    pub title: String,
    /// Number of concurrent client connections wanted.
    pub connections: u64,
    /// The traffic of each connection.
    #[serde(default)]
    pub traffic: Traffic,
    /// The tiers from the clients to the service; at least two.
    #[serde(rename = "tier")]
    pub tiers: Vec<Tier>,
}

/// What each connection does, on average.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Traffic {
    /// Messages a second towards the service.
    pub sent_per_second: f64,
    /// Messages a second towards the client, broadcasts counted once per receiver.
    pub received_per_second: f64,
    /// Bytes of one message.
    pub message_bytes: u64,
    /// Connections that end and are opened again, per second, over the whole chain.
    pub churn_per_second: f64,
    /// Seconds between heartbeats; 0: none.
    pub heartbeat_seconds: u64,
}

/// Hosts of one kind. Limits without a value are not checked, except for ports.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tier {
    /// The name in the report.
    pub name: String,
    /// Number of hosts.
    #[serde(default = "one")]
    pub hosts: u64,
    /// Source addresses that each host connects from.
    #[serde(default = "one")]
    pub addresses: u64,
    /// Ports that each host listens on for the tier before it, multiplied by the addresses it listens on.
    #[serde(default = "one")]
    pub listen_ports: u64,
    /// `net.ipv4.ip_local_port_range`, as in "32768-60999".
    #[serde(default)]
    pub ports: Ports,
    /// Ports of the range that are not available: `ip_local_reserved_ports`, other connections to the same peers.
    #[serde(default)]
    pub ports_taken: u64,
    /// Whether `net.ipv4.tcp_tw_reuse` is 1.
    #[serde(default)]
    pub tw_reuse: bool,
    /// `net.ipv4.tcp_max_tw_buckets`.
    pub tw_buckets: Option<u64>,
    /// Descriptors of one process (`nofile`, `worker_rlimit_nofile`).
    pub descriptors: Option<u64>,
    /// `worker_connections`, if the program is nginx. nginx also reserves memory for each.
    pub worker_connections: Option<u64>,
    /// Processes that hold connections (`worker_processes`).
    #[serde(default = "one")]
    pub processes: u64,
    /// `fs.file-max`.
    pub file_max: Option<u64>,
    /// Memory for connections, as in "64G".
    pub memory: Option<Size>,
    /// Bytes that the program keeps for each idle connection through it.
    #[serde(default)]
    pub user_bytes: u64,
    /// Bytes queued in the kernel for each socket, because the other side is too slow.
    #[serde(default)]
    pub queued_bytes: u64,
    /// The third number of `net.ipv4.tcp_mem`, in pages.
    pub tcp_mem_pages: Option<u64>,
    /// `net.netfilter.nf_conntrack_max`, if connections are tracked.
    pub conntrack_max: Option<u64>,
    /// Bandwidth of one host and direction, in bits per second, as in "10G".
    pub bandwidth: Option<Rate>,
    /// Seconds without traffic after which this tier closes.
    pub idle_timeout_seconds: Option<u64>,
}

impl Tier {
    /// One host with the kernel's defaults and no other known values.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            hosts: 1,
            addresses: 1,
            listen_ports: 1,
            ports: Ports::default(),
            ports_taken: 0,
            tw_reuse: false,
            tw_buckets: None,
            descriptors: None,
            worker_connections: None,
            processes: 1,
            file_max: None,
            memory: None,
            user_bytes: 0,
            queued_bytes: 0,
            tcp_mem_pages: None,
            conntrack_max: None,
            bandwidth: None,
            idle_timeout_seconds: None,
        }
    }
}

fn one() -> u64 {
    1
}

/// Bytes, written as `65536`, `"64k"`, `"16M"` or `"64G"`, in powers of 1024 as in nginx.conf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size(pub u64);

/// Bits per second, written as a number or `"10G"`, in powers of 1000 as for network interfaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate(pub u64);

/// First and last port, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ports {
    /// The first.
    pub first: u16,
    /// The last; not below the first.
    pub last: u16,
}

impl Default for Ports {
    fn default() -> Self {
        Self { first: PORTS_DEFAULT.0, last: PORTS_DEFAULT.1 }
    }
}

impl Ports {
    /// The widest range without special privileges.
    pub const WIDEST: Self = Self { first: PORTS_WIDEST.0, last: PORTS_WIDEST.1 };

    /// The number of ports.
    pub fn count(self) -> u64 {
        u64::from(self.last) - u64::from(self.first) + 1
    }
}

impl std::str::FromStr for Ports {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad =
            || format!("\"{text}\" is not a port range: write the first and the last port, as in \"32768-60999\"");
        let (first, last) = text.split_once(['-', ' ', '\t']).ok_or_else(bad)?;
        let port = |text: &str| text.trim().parse::<u16>().ok().filter(|port| *port > 0);
        let (first, last) = port(first).zip(port(last)).ok_or_else(bad)?;
        if first > last { Err(bad()) } else { Ok(Self { first, last }) }
    }
}

impl<'de> Deserialize<'de> for Ports {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum NumberOrText {
    Number(u64),
    Text(String),
}

fn scaled<'de, D: Deserializer<'de>>(deserializer: D, base: u64, what: &str) -> Result<u64, D::Error> {
    let text = match NumberOrText::deserialize(deserializer)? {
        NumberOrText::Number(number) => return Ok(number),
        NumberOrText::Text(text) => text,
    };
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let power = match &text[digits.len()..] {
        "" => Some(0),
        "k" | "K" => Some(1),
        "m" | "M" => Some(2),
        "g" | "G" => Some(3),
        "t" | "T" => Some(4),
        _ => None,
    };
    let number = power.zip(digits.parse::<u64>().ok()).and_then(|(power, n)| n.checked_mul(base.pow(power)));
    number.ok_or_else(|| {
        serde::de::Error::custom(format!("\"{text}\" is no {what}: write 65536, \"64k\", \"16M\" or \"10G\""))
    })
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        scaled(deserializer, 1024, "size").map(Self)
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        scaled(deserializer, 1000, "bandwidth").map(Self)
    }
}

/// Why a description cannot be used for a plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChainError {
    /// Not TOML, an unknown key, or a value of the wrong kind; the text shows the line.
    #[error("{0}")]
    Toml(String),
    /// The chain has no hop.
    #[error("a chain needs at least two tiers: a client and a server")]
    TooShort,
    /// More than [`TIERS_MAX`].
    #[error("{0} tiers: a chain has at most {TIERS_MAX}")]
    TooLong(usize),
    /// A value that must not be zero or negative, or that no machine can have.
    #[error("tier \"{tier}\": {what}")]
    Tier {
        /// The name of the tier.
        tier: String,
        /// The fault.
        what: String,
    },
    /// A rate of the traffic is invalid.
    #[error("[traffic]: rates are finite and not negative")]
    Traffic,
}

/// Most tiers: bounds the work; longer chains do not exist in practice.
pub const TIERS_MAX: usize = 32;
/// Larger counts are typos, and their products would overflow.
const COUNT_MAX: u64 = 1 << 32;

/// Reads a description.
pub fn parse_chain(text: &str) -> Result<Chain, ChainError> {
    let chain: Chain =
        toml::from_str(text).map_err(|error| ChainError::Toml(error.to_string().trim_end().to_owned()))?;
    check(&chain)?;
    Ok(chain)
}

/// Refuses values for which the arithmetic has no answer. Also used for chains made from flags.
pub fn check(chain: &Chain) -> Result<(), ChainError> {
    match chain.tiers.len() {
        0 | 1 => return Err(ChainError::TooShort),
        tiers if tiers > TIERS_MAX => return Err(ChainError::TooLong(tiers)),
        _ => {}
    }
    let traffic = &chain.traffic;
    let rates = [traffic.sent_per_second, traffic.received_per_second, traffic.churn_per_second];
    if rates.iter().any(|rate| !rate.is_finite() || *rate < 0.0) {
        return Err(ChainError::Traffic);
    }
    for tier in &chain.tiers {
        let error = |what: String| Err(ChainError::Tier { tier: tier.name.clone(), what });
        let counts = [
            ("hosts", tier.hosts),
            ("addresses", tier.addresses),
            ("listen_ports", tier.listen_ports),
            ("processes", tier.processes),
        ];
        for (name, count) in counts {
            if !(1..=COUNT_MAX).contains(&count) {
                return error(format!("{name} is {count}: from 1 to {COUNT_MAX}"));
            }
        }
        if tier.ports_taken >= tier.ports.count() {
            return error(format!("ports_taken is {}, of a range of {}", tier.ports_taken, tier.ports.count()));
        }
    }
    Ok(())
}
