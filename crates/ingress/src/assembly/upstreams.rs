//! Upstreams: one for each distinct wish.

use super::{Assembly, stable_hash};
use crate::tree::Origin;
use crate::{EndpointSource, ObjectName};
use conf::tree::Directive;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// The end of the names of endpoints. `.invalid` is reserved (RFC 6761): no name of the DNS ends with it.
const ENDPOINTS: &str = "endpoints.invalid";

/// The name of an upstream in `http` or `stream`.
pub(crate) type UpstreamName = String;

/// What an object wants behind a location.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BackendWish {
    /// Where requests go.
    pub(crate) targets: Vec<Target>,
    /// How a peer is chosen.
    pub(crate) balance: Balance,
    /// Keeps a client at its peer.
    pub(crate) sticky: Option<Sticky>,
    /// Idle connections.
    pub(crate) keepalive: Keepalive,
    /// Most requests at a peer at once; 0 is no limit.
    pub(crate) max_conns: u32,
    /// In `stream`, not in `http`.
    pub(crate) stream: bool,
}

/// One target.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Target {
    /// Where it is.
    pub(crate) place: Place,
    /// Its share; at least 1.
    pub(crate) weight: u16,
}

/// Where a target is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// The endpoints of a port of a Service.
    Service(EndpointSource),
    /// An `ExternalName`: a name of the DNS, and a port.
    External(String, u16),
    /// One address, as that of a Service.
    Address(IpAddr, u16),
}

/// How a peer is chosen.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Balance {
    /// In turn.
    #[default]
    RoundRobin,
    /// The peer with the fewest requests.
    LeastConn,
    /// The peer with the least response time.
    LeastTime,
    /// By the client's address.
    IpHash,
    /// By a text with variables, which the caller has checked.
    Hash(String),
}

/// A cookie that keeps a client at its peer: the words behind `sticky cookie`, which the caller has checked.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Sticky {
    /// Its name.
    pub(crate) name: String,
    /// `expires=…`, `path=…`, `domain=…`, `samesite=…`, `secure`, `httponly`.
    pub(crate) words: Vec<String>,
}

/// Idle connections of an upstream, as ingress-nginx keeps them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Keepalive {
    /// How many are kept; 0 keeps none.
    pub(crate) connections: u32,
    /// Seconds that a connection may serve requests.
    pub(crate) time: u32,
    /// Seconds that an idle one is kept.
    pub(crate) timeout: u32,
    /// Requests on one connection.
    pub(crate) requests: u32,
}

impl Default for Keepalive {
    fn default() -> Self {
        Self { connections: 320, time: 3600, timeout: 60, requests: 10_000 }
    }
}

/// The upstreams so far.
#[derive(Default)]
pub(super) struct Upstreams {
    names: BTreeMap<BackendWish, UpstreamName>,
    taken: BTreeSet<(bool, UpstreamName)>,
    http: Vec<Directive>,
    stream: Vec<Directive>,
}

impl Upstreams {
    pub(super) fn take_http(&mut self) -> Vec<Directive> {
        std::mem::take(&mut self.http)
    }

    pub(super) fn take_stream(&mut self) -> Vec<Directive> {
        std::mem::take(&mut self.stream)
    }
}

impl Assembly<'_> {
    /// Returns the upstream for a wish; equal wishes share one. The caller handles wishes with all weights 0.
    pub(crate) fn upstream(&mut self, owner: &ObjectName, wish: &BackendWish) -> UpstreamName {
        let name = self.known_or_new_upstream(owner, wish);
        self.note_upstream(owner, wish, &name);
        name
    }

    fn known_or_new_upstream(&mut self, owner: &ObjectName, wish: &BackendWish) -> UpstreamName {
        if let Some(name) = self.upstreams.names.get(wish) {
            return name.clone();
        }
        let base = name_of(wish);
        let mut name = base.clone();
        while self.upstreams.taken.contains(&(wish.stream, name.clone())) {
            name = format!("{base}_{}", self.upstreams.taken.len());
        }
        self.upstreams.taken.insert((wish.stream, name.clone()));
        self.upstreams.names.insert(wish.clone(), name.clone());
        let origin = self.origin(owner);
        let block = self.upstream_block(origin, &name, wish);
        if wish.stream {
            self.upstreams.stream.push(block);
        } else {
            self.upstreams.http.push(block);
        }
        name
    }

    fn upstream_block(&mut self, origin: Origin, name: &str, wish: &BackendWish) -> Directive {
        let mut lines = vec![origin.line("zone", [name, "64k"])];
        match &wish.balance {
            Balance::RoundRobin => {}
            Balance::LeastConn => lines.push(origin.line::<&str>("least_conn", [])),
            Balance::LeastTime if wish.stream => lines.push(origin.line("least_time", ["first_byte"])),
            Balance::LeastTime => lines.push(origin.line("least_time", ["header"])),
            Balance::IpHash if wish.stream => lines.push(origin.line("hash", ["$remote_addr", "consistent"])),
            Balance::IpHash => lines.push(origin.line::<&str>("ip_hash", [])),
            Balance::Hash(key) => lines.push(origin.line("hash", [key, "consistent"])),
        }
        for target in &wish.targets {
            let server = self.server_line(origin, target, wish.max_conns);
            lines.push(server);
        }
        if wish.stream {
            let resolver = self.resolver_line(origin);
            lines.push(resolver);
        } else {
            if let Some(sticky) = &wish.sticky {
                let words = ["cookie", sticky.name.as_str()];
                let rest = sticky.words.iter().map(String::as_str);
                lines.push(origin.line("sticky", words.into_iter().chain(rest)));
            }
            lines.extend(keepalive_lines(origin, &wish.keepalive));
        }
        origin.block("upstream", [name], lines)
    }

    /// The name servers. Names of endpoints are never asked for there, but the language wants a resolver for `resolve`.
    pub(super) fn resolver_line(&self, origin: Origin) -> Directive {
        let known = self.settings.resolvers.iter().map(|address| match address {
            IpAddr::V4(address) => address.to_string(),
            IpAddr::V6(address) => format!("[{address}]"),
        });
        let mut words: Vec<String> = known.collect();
        if words.is_empty() {
            words.push("127.0.0.1".into());
        }
        origin.line("resolver", words)
    }

    fn server_line(&mut self, origin: Origin, target: &Target, max_conns: u32) -> Directive {
        let mut words = match &target.place {
            Place::Service(source) => {
                let name = endpoints_name(source);
                let address = format!("{name}:1");
                self.endpoints.insert(name, source.clone());
                vec![address, "resolve".into()]
            }
            Place::External(name, port) => vec![format!("{name}:{port}"), "resolve".into()],
            Place::Address(IpAddr::V6(address), port) => vec![format!("[{address}]:{port}")],
            Place::Address(IpAddr::V4(address), port) => vec![format!("{address}:{port}")],
        };
        if target.weight > 1 {
            words.push(format!("weight={}", target.weight));
        }
        if max_conns > 0 {
            words.push(format!("max_conns={max_conns}"));
        }
        // As in ingress-nginx, one failure does not take a Pod out: Kubernetes' own probes do that.
        words.push("max_fails=0".into());
        origin.line("server", words)
    }

    /// A variable that names one of several upstreams for each request, by their shares. Unlike weights of one upstream,
    /// the shares do not depend on the number of Pods.
    pub(crate) fn split(&mut self, owner: &ObjectName, parts: &[(UpstreamName, u32)]) -> String {
        let total: u64 = parts.iter().map(|(_, weight)| u64::from(*weight)).sum();
        let (variable, is_new) = self.variable(&format!("split {parts:?}"));
        if !is_new {
            return variable;
        }
        let origin = self.origin(owner);
        let filled: Vec<_> = parts.iter().filter(|(_, weight)| *weight > 0).collect();
        let mut entries = Vec::new();
        let (mut sum, mut before) = (0u64, 0u64);
        for (index, (name, weight)) in filled.iter().enumerate() {
            sum += u64::from(*weight);
            // In hundredths of a percent; each share is the difference of two rounded sums, so no rest is lost.
            let upto = sum * 10_000 / total.max(1);
            let share = upto - before;
            before = upto;
            if index + 1 == filled.len() {
                entries.push(origin.line("*", [name]));
            } else if share > 0 {
                entries.push(origin.line(&format!("{}.{:02}%", share / 100, share % 100), [name]));
            }
        }
        self.http.push(origin.block("split_clients", ["$request_id", variable.as_str()], entries));
        variable
    }
}

fn keepalive_lines(origin: Origin, keepalive: &Keepalive) -> Vec<Directive> {
    if keepalive.connections == 0 {
        return vec![origin.line("keepalive", ["0"])];
    }
    vec![
        origin.line("keepalive", [keepalive.connections.to_string()]),
        origin.line("keepalive_time", [format!("{}s", keepalive.time)]),
        origin.line("keepalive_timeout", [format!("{}s", keepalive.timeout)]),
        origin.line("keepalive_requests", [keepalive.requests.to_string()]),
    ]
}

/// The name that the controller answers with the endpoints. Names of namespaces and Services have no dots, so no two
/// sources share one.
fn endpoints_name(source: &EndpointSource) -> String {
    let protocol = if source.udp { "udp" } else { "tcp" };
    format!("{}.{}.{}.{protocol}.{ENDPOINTS}", source.service.name, source.service.namespace, source.port)
}

/// Readable in logs and metrics: `shop_front_80`, and a hash where the wish is not the plain one.
fn name_of(wish: &BackendWish) -> UpstreamName {
    let first = wish.targets.first().map(|target| match &target.place {
        // Names of objects have no `_`, so two namespaces never share a name.
        Place::Service(source) => format!("{}_{}_{}", source.service.namespace, source.service.name, source.port),
        Place::External(name, port) => format!("external_{name}_{port}"),
        Place::Address(address, port) => format!("address_{}_{port}", address.to_string().replace(':', "-")),
    });
    let first = first.unwrap_or_else(|| "none".into());
    let plain = BackendWish { targets: wish.targets.iter().take(1).cloned().collect(), ..BackendWish::default() };
    if *wish == plain || *wish == (BackendWish { stream: true, ..plain }) {
        first
    } else {
        format!("{first}_{:016x}", stable_hash(format!("{wish:?}").as_bytes()))
    }
}
