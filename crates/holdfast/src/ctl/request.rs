//! Requests to a running instance. The same type is parsed from the command line, sent as JSON, and executed.

use conf::value::Cidr;
use gateway::Registry;
use gateway::inspect::{PeerMode, RowFilter, SortBy};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::Duration;

/// Most bytes of a request: the master sends it to the child in one packet.
pub(crate) const REQUEST_BYTES_MAX: usize = 3 * 1024;
/// Error lines that are shown by default.
const ERRORS_DEFAULT: usize = 20;
/// Rows that a list shows by default.
const ROWS_DEFAULT: usize = 50;
/// Maximum rows of an answer: about 3 MB, which the master holds for each of a few clients.
pub(crate) const ROWS_MAX: usize = 10_000;

/// A request.
#[derive(Debug, Clone, PartialEq, Eq, clap::Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Request {
    /// Show the processes, the configuration, connections and groups
    Status,
    /// Show rates, groups, locations and the last errors, live; `q` ends it
    Top {
        /// Time between two looks
        #[arg(long, value_name = "TIME", default_value = "2s", value_parser = crate::typed::duration)]
        #[serde(skip)]
        interval: Duration,
        /// End after this many looks
        #[arg(short = 'n', long, value_name = "N", value_parser = crate::typed::count)]
        #[serde(skip)]
        count: Option<u64>,
    },
    /// Show the last lines of the error logs from level warn on, with their causes
    Errors {
        /// Show at most this many of the last hundred lines
        #[arg(short = 'n', long, value_name = "N", default_value_t = ERRORS_DEFAULT, value_parser = crate::typed::size)]
        limit: usize,
        /// Follow new lines until Ctrl-C
        #[arg(short, long)]
        #[serde(skip)]
        follow: bool,
        /// Only lines after the one with this number
        #[arg(skip)]
        #[serde(default)]
        after: u64,
    },
    /// Show the peers of all groups; `up`, `drain`, `down` and `weight` change one
    Peers {
        #[command(subcommand)]
        #[serde(default)]
        change: Option<PeerChange>,
    },
    /// Show the pools of idle upstream connections; `flush` empties them
    Pools {
        #[command(subcommand)]
        #[serde(default)]
        change: Option<PoolChange>,
    },
    /// Show the client connections without tunnels; `close` closes one, `close-all` all that the flags select
    Connections {
        #[command(flatten)]
        list: Listing,
        #[command(subcommand)]
        #[serde(default)]
        change: Option<ConnectionChange>,
    },
    /// Show the tunnels; `close` closes one, `close-all` all that the flags select
    Tunnels {
        #[command(flatten)]
        list: Listing,
        #[command(subcommand)]
        #[serde(default)]
        change: Option<ConnectionChange>,
    },
    /// Show the caches; `list` lists the responses in one, `purge` removes them
    Cache {
        #[command(subcommand)]
        #[serde(default)]
        act: Option<CacheAct>,
    },
    /// Read the configuration again, as after SIGHUP, and wait for the outcome
    Reload {
        /// Only print what would change
        #[arg(long)]
        #[serde(default)]
        dry_run: bool,
    },
    /// Show the level of all error logs that was set at run time, or set it until the process ends
    LogLevel {
        /// debug, info, notice, warn, error, crit, alert or emerg; `default` is what the configuration says
        level: Option<String>,
    },
}

/// Availability of a peer. It survives reloads, until the worker process is replaced.
#[derive(Debug, Clone, PartialEq, Eq, clap::Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum PeerChange {
    /// Send requests to the peer again
    Up(PeerName),
    /// Send only requests of its sessions (`sticky`) to the peer, and close its tunnels at `drain_rate`
    Drain(PeerName),
    /// Send no more requests to the peer; requests in flight continue
    Down(PeerName),
    /// Change the weight of the peer
    Weight {
        #[command(flatten)]
        of: PeerName,
        /// 1 to 65535; `default` is what the configuration says
        #[arg(value_parser = parse_weight)]
        weight: u32,
    },
}

/// What `peers … weight` takes; 0 is the configured weight.
fn parse_weight(text: &str) -> Result<u32, String> {
    if text == "default" {
        return Ok(0);
    }
    let weight = text.parse().ok().filter(|weight| (1..=65_535).contains(weight));
    weight.ok_or_else(|| "a number from 1 to 65535, or default".to_owned())
}

/// A peer.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args, Serialize, Deserialize)]
pub(crate) struct PeerName {
    /// The name of its `upstream {}`
    pub(crate) group: String,
    /// Its address as `ctl peers` shows it
    pub(crate) peer: String,
}

impl PeerChange {
    pub(crate) fn peer(&self) -> &PeerName {
        let (Self::Up(peer) | Self::Drain(peer) | Self::Down(peer) | Self::Weight { of: peer, .. }) = self;
        peer
    }

    /// Whether another change makes this one irrelevant.
    pub(crate) fn replaced_by(&self, other: &Self) -> bool {
        let sets_weight = |change: &Self| matches!(change, Self::Weight { .. });
        self.peer() == other.peer() && sets_weight(self) == sets_weight(other)
    }

    /// Makes the change; `false`: there is no such peer.
    pub(crate) fn carry_out(&self, registry: &Registry) -> bool {
        let PeerName { group, peer } = self.peer();
        let mode = match self {
            Self::Up(_) => PeerMode::Up,
            Self::Drain(_) => PeerMode::Drain,
            Self::Down(_) => PeerMode::Down,
            Self::Weight { weight, .. } => {
                return registry.set_peer_weight(group, peer, Some(*weight).filter(|weight| *weight > 0));
            }
        };
        registry.set_peer_mode(group, peer, mode)
    }

    fn words(&self) -> String {
        let PeerName { group, peer } = self.peer();
        match self {
            Self::Up(_) => format!("up {group} {peer}"),
            Self::Drain(_) => format!("drain {group} {peer}"),
            Self::Down(_) => format!("down {group} {peer}"),
            Self::Weight { weight: 0, .. } => format!("weight {group} {peer} default"),
            Self::Weight { weight, .. } => format!("weight {group} {peer} {weight}"),
        }
    }
}

/// A change of pools.
#[derive(Debug, Clone, PartialEq, Eq, clap::Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum PoolChange {
    /// Close the idle connections of a group, or of all
    Flush {
        /// The name of an `upstream {}`
        group: Option<String>,
    },
}

/// A change of client connections.
#[derive(Debug, Clone, PartialEq, Eq, clap::Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ConnectionChange {
    /// Close it at once, whatever it is doing
    Close {
        /// Its number, the `*` of the error log and `$connection`
        connection: u64,
    },
    /// Close at once all that --client, --state, --upstream or --route select
    CloseAll,
}

/// Commands on the responses in a cache.
#[derive(Debug, Clone, PartialEq, Eq, clap::Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum CacheAct {
    /// Show responses with their keys, sizes and times
    List {
        #[command(flatten)]
        of: CachedKeys,
    },
    /// Remove responses, also those that `Vary` keeps apart
    Purge {
        #[command(flatten)]
        of: CachedKeys,
    },
}

/// Responses in a cache.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args, Serialize, Deserialize)]
pub(crate) struct CachedKeys {
    /// The name in `keys_zone` of `proxy_cache_path`
    pub(crate) zone: String,
    /// A key as `proxy_cache_key` writes it; with an asterisk at its end all keys that begin so
    pub(crate) key: String,
    /// Rows at most; all that match are counted
    #[arg(long, value_name = "N", default_value_t = ROWS_DEFAULT, value_parser = crate::typed::size)]
    #[serde(default = "rows_default")]
    pub(crate) limit: usize,
}

/// Which rows, and in which order.
#[derive(Debug, Clone, PartialEq, Eq, Default, clap::Args, Serialize, Deserialize)]
pub(crate) struct Listing {
    /// Only those of this client: an address or a network
    #[arg(long, value_name = "ADDRESS|CIDR")]
    #[serde(default)]
    pub(crate) client: Option<String>,
    /// Only those in this state: idle, head, exchange, closing; of tunnels: tunnel, session, draining
    #[arg(long, value_name = "STATE")]
    #[serde(default)]
    pub(crate) state: Option<String>,
    /// Only tunnels to this upstream address
    #[arg(long, value_name = "ADDRESS:PORT")]
    #[serde(default)]
    pub(crate) upstream: Option<String>,
    /// Only tunnels of this location, such as /ws, or of one server: "shop.example /ws"
    #[arg(long, value_name = "LOCATION")]
    #[serde(default)]
    pub(crate) route: Option<String>,
    /// Sort by this column, largest first
    #[arg(long, value_enum, default_value_t)]
    #[serde(default)]
    pub(crate) sort: SortWord,
    /// Rows at most
    #[arg(long, value_name = "N", default_value_t = ROWS_DEFAULT, value_parser = crate::typed::size)]
    #[serde(default = "rows_default")]
    pub(crate) limit: usize,
}

fn rows_default() -> usize {
    ROWS_DEFAULT
}

/// What a list is sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum SortWord {
    /// Time since it was accepted
    #[default]
    Age,
    /// Time since it did something last
    Idle,
    /// Bytes of memory that it holds
    Memory,
    /// Bytes that went through; of tunnels
    Bytes,
}

impl Listing {
    /// Whether it leaves anything out: closing all connections of an instance is no change that a typing error should make.
    pub(crate) fn selects(&self) -> bool {
        self.client.is_some() || self.state.is_some() || self.upstream.is_some() || self.route.is_some()
    }

    /// What it selects, for the log.
    fn words(&self) -> String {
        let Self { client, state, upstream, route, .. } = self;
        let flags = [("client", client), ("state", state), ("upstream", upstream), ("route", route)];
        let given = flags.iter().filter_map(|(name, value)| Some(format!(" --{name} {}", value.as_ref()?)));
        given.collect()
    }

    /// The filter for the workers, or an error for the operator.
    pub(crate) fn filter(&self) -> Result<RowFilter, String> {
        let client = self.client.as_deref().map(|text| {
            let network = Cidr::parse(text.as_bytes()).map(|(network, _)| network);
            network
                .ok_or_else(|| format!("`{text}` is neither an address nor a network, such as 10.0.0.7 or 10.0.0.0/8"))
        });
        let sort = match self.sort {
            SortWord::Age => SortBy::Age,
            SortWord::Idle => SortBy::Idle,
            SortWord::Memory => SortBy::Memory,
            SortWord::Bytes => SortBy::Bytes,
        };
        Ok(RowFilter {
            client: client.transpose()?,
            state: self.state.clone(),
            upstream: self.upstream.clone(),
            route: self.route.clone(),
            sort,
            limit: self.limit.min(ROWS_MAX),
        })
    }
}

impl Request {
    /// Encodes the request as one line.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).expect("a request is strings and numbers");
        line.push(b'\n');
        line
    }

    /// Whether it changes something. Changes are logged with the caller.
    pub(crate) fn is_change(&self) -> bool {
        match self {
            Self::Status | Self::Top { .. } | Self::Errors { .. } => false,
            Self::Peers { change } => change.is_some(),
            Self::Pools { change } => change.is_some(),
            Self::Connections { change, .. } | Self::Tunnels { change, .. } => change.is_some(),
            Self::Cache { act } => matches!(act, Some(CacheAct::Purge { .. })),
            Self::Reload { dry_run } => !dry_run,
            Self::LogLevel { level } => level.is_some(),
        }
    }

    /// The words of the command line, for the log.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Status => "status".to_owned(),
            Self::Top { .. } => "top".to_owned(),
            Self::Errors { .. } => "errors".to_owned(),
            Self::Peers { change: None } => "peers".to_owned(),
            Self::Peers { change: Some(change) } => format!("peers {}", change.words()),
            Self::Pools { change: None } => "pools".to_owned(),
            Self::Pools { change: Some(PoolChange::Flush { group }) } => {
                format!("pools flush{}", group.as_ref().map(|group| format!(" {group}")).unwrap_or_default())
            }
            Self::Connections { list, change } => format!("connections{}", closed(list, change.as_ref())),
            Self::Tunnels { list, change } => format!("tunnels{}", closed(list, change.as_ref())),
            Self::Cache { act: None } => "cache".to_owned(),
            Self::Cache { act: Some(act) } => {
                let (word, CachedKeys { zone, key, .. }) = match act {
                    CacheAct::List { of } => ("list", of),
                    CacheAct::Purge { of } => ("purge", of),
                };
                format!("cache {word} {zone} {}", key.escape_debug())
            }
            Self::Reload { dry_run: false } => "reload".to_owned(),
            Self::Reload { dry_run: true } => "reload --dry-run".to_owned(),
            Self::LogLevel { level } => format!("log-level {}", level.as_deref().unwrap_or_default()),
        }
    }
}

fn closed(list: &Listing, change: Option<&ConnectionChange>) -> String {
    match change {
        None => String::new(),
        Some(ConnectionChange::Close { connection }) => format!(" close {connection}"),
        Some(ConnectionChange::CloseAll) => format!("{} close-all", list.words()),
    }
}

/// A result, or the reason why there is none.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct Answer {
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub(crate) result: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
}

impl Answer {
    pub(crate) fn of(result: Result<Value, String>) -> Self {
        match result {
            Ok(result) => Self { result, error: None },
            Err(error) => Self { result: Value::Null, error: Some(error) },
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec(self).expect("values are always JSON");
        bytes.push(b'\n');
        bytes
    }

    /// The result as indented JSON.
    pub(crate) fn as_json(&self) -> String {
        serde_json::to_string_pretty(&self.result).expect("values are always JSON") + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_come_back_from_the_wire() {
        let peer = PeerName { group: "app".to_owned(), peer: "10.0.0.7:80".to_owned() };
        let list = Listing { client: Some("10.0.0.0/8".to_owned()), limit: 7, ..Listing::default() };
        for request in [
            Request::Status,
            Request::Peers { change: Some(PeerChange::Drain(peer)) },
            Request::Pools { change: Some(PoolChange::Flush { group: None }) },
            Request::Tunnels { list: list.clone(), change: None },
            Request::Connections { list, change: Some(ConnectionChange::Close { connection: 7 }) },
            Request::Cache {
                act: Some(CacheAct::Purge {
                    of: CachedKeys { zone: "one".to_owned(), key: "/a*".to_owned(), limit: 7 },
                }),
            },
            Request::Peers {
                change: Some(PeerChange::Weight {
                    of: PeerName { group: "a".to_owned(), peer: "b".to_owned() },
                    weight: 7,
                }),
            },
            Request::Errors { limit: 3, follow: false, after: 9 },
            Request::Reload { dry_run: true },
            Request::LogLevel { level: Some("debug".to_owned()) },
        ] {
            let line = request.encode();
            assert!(line.len() < REQUEST_BYTES_MAX && line.ends_with(b"\n"));
            assert_eq!(serde_json::from_slice::<Request>(&line).unwrap(), request);
        }
    }

    #[test]
    fn distinguishes_changes_from_questions() {
        assert!(!Request::Reload { dry_run: true }.is_change());
        assert!(Request::Reload { dry_run: false }.is_change());
        let peer = PeerName { group: "app".to_owned(), peer: "a:1".to_owned() };
        let down = Request::Peers { change: Some(PeerChange::Down(peer)) };
        assert_eq!((down.is_change(), down.words().as_str()), (true, "peers down app a:1"));
        let list = Listing { route: Some("/ws".to_owned()), ..Listing::default() };
        let all = Request::Tunnels { list, change: Some(ConnectionChange::CloseAll) };
        assert_eq!((all.is_change(), all.words().as_str()), (true, "tunnels --route /ws close-all"));
    }

    #[test]
    fn a_wrong_network_is_named() {
        let list = Listing { client: Some("10.0.0/8".to_owned()), ..Listing::default() };
        assert!(list.filter().unwrap_err().contains("`10.0.0/8` is neither an address"));
    }
}
