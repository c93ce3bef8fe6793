//! The upstream's part of an explanation: the request that it would get, and the peer.

use crate::exchange::Exchange;
use crate::explain::Phase;
use crate::explain::recorder::{PASS, Recording, client_ip, shown, written};
use crate::plan::application::{ApplicationPlan, ApplicationProtocol};
use crate::plan::group::GroupServerPlan;
use crate::plan::upstream_tls::NamePlan;
use crate::registry::generation::BoundProxy;
use crate::registry::group::PeerSet;
use serde::Serialize;
use upstream::balance::Method;

/// A request for an upstream.
#[derive(Debug, Clone, Serialize)]
pub struct UpstreamAnswer {
    /// `http`, `https`, `grpc`, `grpcs`, `fastcgi`, `scgi` or `uwsgi`.
    pub protocol: &'static str,
    /// The request line; empty for an application.
    pub request_line: String,
    /// The fields of the head, or the parameters of an application, in order.
    pub headers: Vec<(String, String)>,
    /// The server name of TLS.
    pub tls_name: Option<String>,
    /// The group's name: that of the `upstream` block, or the address in the URL.
    pub group: String,
    /// The balancing method.
    pub method: &'static str,
    /// How it chooses.
    pub how: String,
    /// The peers.
    pub peers: Vec<ExplainedPeer>,
    /// The address of the peer that is chosen, if nothing but the request decides, or the group has one peer.
    pub peer: Option<String>,
    /// Milliseconds.
    pub connect_timeout_ms: u64,
    /// Milliseconds.
    pub send_timeout_ms: u64,
    /// Milliseconds.
    pub read_timeout_ms: u64,
    /// Most attempts; 0 for no limit besides the number of peers.
    pub tries_max: u32,
    /// The cache, if it is used.
    pub cache: Option<CacheAnswer>,
}

/// A peer of a group.
#[derive(Debug, Clone, Serialize)]
pub struct ExplainedPeer {
    /// `server` as it was written.
    pub server: String,
    /// Its address; `None` if its name is looked up at run time.
    pub address: Option<String>,
    /// `weight`
    pub weight: u32,
    /// `backup`
    pub backup: bool,
    /// `down`
    pub down: bool,
}

/// The cache's part.
#[derive(Debug, Clone, Serialize)]
pub struct CacheAnswer {
    /// The zone.
    pub zone: String,
    /// The text of the key.
    pub key: String,
    /// The response is fetched even if it is stored.
    pub bypassed: bool,
}

impl Recording<'_> {
    /// The request is made.
    pub(super) fn upstream(&mut self, exchange: &Exchange, plan: &BoundProxy) {
        let protocol = protocol(plan);
        let (request_line, headers) = match &plan.application {
            Some(application) => match application.memcached() {
                Some(memcached) => (format!("get {}", written(exchange, &memcached.key)), Vec::new()),
                None => (String::new(), params(exchange, application)),
            },
            None => head(exchange),
        };
        let at = self.directive(exchange, PASS);
        let group = shown(plan.group.name.as_bytes());
        let text = match &*request_line {
            "" => format!("The request goes to {group} by {protocol}."),
            line => format!("The request goes to {group} by {protocol}: {line}"),
        };
        self.step(Phase::Upstream, text, at);
        for fields in self.applying(exchange, &["proxy_set_header", "grpc_set_header", "fastcgi_param"]) {
            self.detail(fields.text.clone(), Some(fields));
        }
        let millis = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.upstream = Some(Box::new(UpstreamAnswer {
            protocol,
            request_line,
            headers,
            tls_name: tls_name(exchange, plan),
            group,
            method: method_word(plan.group.method),
            how: String::new(),
            peers: Vec::new(),
            peer: None,
            connect_timeout_ms: millis(plan.connect_timeout),
            send_timeout_ms: millis(plan.send_timeout),
            read_timeout_ms: millis(plan.read_timeout),
            tries_max: plan.tries.most,
            cache: self.cache.take(),
        }));
    }

    /// A peer is chosen.
    pub(super) fn peer(
        &mut self,
        exchange: &Exchange,
        plan: &BoundProxy,
        set: Option<&PeerSet>,
        bound: &[u8],
        chosen: Option<usize>,
    ) {
        let peers = peers(plan, set);
        let name = chosen.and_then(|index| Some(shown(&set?.peers.get(index)?.name)));
        let at = Some(self.places.at(plan.group.span));
        // A session that names no peer of the group is like none.
        let is_bound = set.zip(chosen).is_some_and(|(set, index)| !bound.is_empty() && set.balance.sid(index) == bound);
        let (how, is_certain) = how(exchange, plan, bound, is_bound, peers.len());
        let text = match &name {
            Some(name) if is_certain => format!("The peer is {name}: {how}."),
            Some(name) => format!("One of {} peers: {how}. The first request goes to {name}.", peers.len()),
            None if peers.iter().all(|peer| peer.address.is_none()) => {
                "The addresses of the peers are looked up at run time.".to_owned()
            }
            None => "No peer can take the request: 502.".to_owned(),
        };
        self.step(Phase::Upstream, text, at);
        for server in &plan.group.servers {
            let place = self.places.at(server.span);
            self.detail(place.text.clone(), Some(place));
        }
        self.assume("It is the only request: no limit is reached, and no peer is busy.");
        self.assume("All peers that are not marked down are healthy.");
        if let Some(upstream) = &mut self.upstream {
            upstream.how = how;
            upstream.peer = name.filter(|_| is_certain);
            upstream.peers = peers;
        }
    }
}

/// How a peer is chosen, and whether every such request gets the same one.
fn how(exchange: &Exchange, plan: &BoundProxy, bound: &[u8], is_bound: bool, peers: usize) -> (String, bool) {
    let key = || plan.group.hash_key.as_ref().map(|key| written(exchange, key)).unwrap_or_default();
    let (how, is_certain) = match plan.group.method {
        _ if peers == 1 => ("it is the only one".to_owned(), true),
        _ if is_bound => (format!("the session is bound to \"{}\"", shown(bound)), true),
        Method::RoundRobin => ("one after the other, by weight".to_owned(), false),
        Method::LeastConn => ("the one with the fewest requests for its weight".to_owned(), false),
        Method::LeastTime { .. } => ("the fastest one with the fewest requests".to_owned(), false),
        Method::IpHash => (format!("the hash of the client {} selects it", client_ip(exchange.client())), true),
        Method::Hash => (format!("the hash of \"{}\" selects it", key()), true),
        Method::ConsistentHash => (format!("the consistent hash of \"{}\" selects it", key()), true),
        Method::Random => ("a random one".to_owned(), false),
        Method::RandomTwoLeastConn => ("the one with fewer requests of two random ones".to_owned(), false),
        Method::RandomTwoLeastTime(_) => ("the faster one of two random ones".to_owned(), false),
    };
    (how, is_certain)
}

/// The request line and the fields of the head for the upstream.
fn head(exchange: &Exchange) -> (String, Vec<(String, String)>) {
    let head = &exchange.request.upstream_head;
    let line = head.as_bytes().split(|&byte| byte == b'\n').next().unwrap_or_default();
    let fields = head.fields().map(|(name, value)| (shown(name), shown(value))).collect();
    (shown(line.trim_ascii_end()), fields)
}

/// The parameters for an application.
fn params(exchange: &Exchange, application: &ApplicationPlan) -> Vec<(String, String)> {
    let params = application.params.iter().map(|param| (param, written(exchange, &param.value)));
    let sent = params.filter(|(param, value)| !(param.unless_empty && value.is_empty()));
    sent.map(|(param, value)| (shown(&param.name), value)).collect()
}

fn protocol(plan: &BoundProxy) -> &'static str {
    match (&plan.application, plan.is_grpc, plan.tls.is_some()) {
        (Some(application), ..) => match application.protocol {
            ApplicationProtocol::Fastcgi(_) => "fastcgi",
            ApplicationProtocol::Scgi => "scgi",
            ApplicationProtocol::Uwsgi { .. } => "uwsgi",
            ApplicationProtocol::Memcached(_) => "memcached",
        },
        (None, true, true) => "grpcs",
        (None, true, false) => "grpc",
        (None, false, true) => "https",
        (None, false, false) => "http",
    }
}

fn tls_name(exchange: &Exchange, plan: &BoundProxy) -> Option<String> {
    match &plan.tls.as_ref()?.name {
        NamePlan::Nameless => None,
        NamePlan::Fixed(name) => Some(name.to_string()),
        NamePlan::Made(name) => Some(written(exchange, name)),
    }
}

fn method_word(method: Method) -> &'static str {
    match method {
        Method::RoundRobin => "round robin",
        Method::LeastConn => "least_conn",
        Method::LeastTime { .. } => "least_time",
        Method::IpHash => "ip_hash",
        Method::Hash => "hash",
        Method::ConsistentHash => "hash consistent",
        Method::Random => "random",
        Method::RandomTwoLeastConn => "random two least_conn",
        Method::RandomTwoLeastTime(_) => "random two least_time",
    }
}

/// The peers: the known addresses, or the servers as they were written.
fn peers(plan: &BoundProxy, set: Option<&PeerSet>) -> Vec<ExplainedPeer> {
    let Some(set) = set.filter(|set| !set.peers.is_empty()) else {
        return plan.group.servers.iter().map(unknown).collect();
    };
    let known = set.peers.iter().enumerate().map(|(index, peer)| {
        let spec = set.balance.spec(index).copied().unwrap_or_default();
        let address = peer.address.to_string();
        let of_server = |server: &&GroupServerPlan| server.has(&peer.address);
        let server =
            plan.group.servers.iter().find(of_server).map_or_else(|| shown(&peer.name), |it| it.text.to_string());
        ExplainedPeer { server, address: Some(address), weight: spec.weight, backup: spec.backup, down: spec.down }
    });
    known.collect()
}

fn unknown(server: &GroupServerPlan) -> ExplainedPeer {
    let spec = &server.spec;
    let server = server.text.to_string();
    ExplainedPeer { server, address: None, weight: spec.weight, backup: spec.backup, down: spec.down }
}
