//! Data that all workers of a run share and none changes: the requests as bytes, the addresses, the timeouts. It is created
//! once, before the first socket.

use crate::options::{Options, OptionsError, Target, Version};
use crate::pace::Ramp;
use crate::places::{NO_ADDRESS, Places};
use crate::plan::{Limits, Need, Plan};
use crate::request::PreparedRequest;
use crate::scenario::Compiled;
use crate::script::ScriptError;
use crate::tcp::Messages;
use crate::tls::Side;
use crate::upload::Upload;
use reactor::{ConnectOptions, PeerAddress, Stream};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use transport::Transport;

/// How long each address of a name is tried before the next one: slightly longer than the kernel waits before it
/// retransmits a SYN.
const PROBE_TIMEOUT: Duration = Duration::from_millis(1500);

/// Why a run cannot begin.
#[derive(Debug, Error)]
pub enum StartError {
    /// The options contradict each other.
    #[error("{0}")]
    Options(#[from] OptionsError),
    /// A name could not be resolved.
    #[error("the name `{host}` cannot be resolved: {error}")]
    Name {
        /// The name.
        host: String,
        /// The resolver's error.
        error: io::Error,
    },
    /// There are fewer connections than addresses.
    #[error("{connections} connections do not suffice for {addresses} different addresses")]
    TooFewConnections {
        /// Connections asked for.
        connections: usize,
        /// Addresses of the targets.
        addresses: usize,
    },
    /// There are more processes than connections to some address.
    #[error("{processes} processes need at least as many connections to each address")]
    TooManyProcesses {
        /// Processes asked for.
        processes: usize,
    },
    /// Another process could not take its part of the load.
    #[error("a process of the load {0}")]
    Process(String),
    /// Agents of the farm could not take their parts of the load.
    #[error("the farm cannot run the load: {0}")]
    Farm(String),
    /// The system lacks something that the load needs.
    #[error("{}", starved(.0))]
    Starved(Vec<Need>),
    /// A source address does not belong to this machine, or may not be bound.
    #[error("the source address {address} cannot be used: {error}")]
    Source {
        /// The address.
        address: IpAddr,
        /// The system's error.
        error: io::Error,
    },
    /// The options of a WebSocket load contradict each other.
    #[error("{0}")]
    WebSocket(String),
    /// The shared counters of a WebSocket load's processes could not be created or found.
    #[error("no memory that processes share: {0}")]
    Counters(io::Error),
    /// The options for TLS cannot be used.
    #[error("TLS cannot be set up: {0}")]
    Tls(String),
    /// A script could not be read, or failed in `setup` or `init`.
    #[error("the script failed: {0}")]
    Script(#[from] ScriptError),
    /// A thread or an event loop could not be created.
    #[error("a worker cannot be started: {0}")]
    Worker(io::Error),
}

/// The targets at one address.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) address: SocketAddr,
    peer: PeerAddress,
    /// Connections of all workers to this address.
    pub(crate) connections: usize,
    ways: Vec<ConnectOptions>,
    /// The name that TLS requests and verifies; `None` without TLS.
    name: Option<String>,
}

/// Data that the workers share.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) plan: Plan,
    requests: Vec<PreparedRequest>,
    group_of: Vec<u16>,
    pub(crate) groups: Vec<Group>,
    pub(crate) keepalive: bool,
    pub(crate) pipeline: usize,
    /// Streams on each HTTP/2 connection; `None` over HTTP/1.
    pub(crate) streams: Option<usize>,
    pub(crate) grpc: bool,
    /// How bodies are sent in pieces.
    pub(crate) upload: Option<Upload>,
    /// The messages of a load over TCP.
    pub(crate) messages: Option<Arc<Messages>>,
    pub(crate) connect_timeout: Duration,
    pub(crate) response_timeout: Duration,
    tls: Option<Side>,
    pub(crate) handshakes_only: bool,
    /// The scenario, if there is one.
    pub(crate) scenario: Option<Compiled>,
    /// Connections over time, or users of the scenario, if they are not all active from the start.
    pub(crate) ramp: Option<Ramp>,
}

/// The protocols that are offered under TLS. A target without HTTP/2 shows that by selecting http/1.1.
fn protocols(version: Version) -> &'static [&'static str] {
    match version {
        Version::Http2 => &["h2", "http/1.1"],
        Version::Http10 | Version::Http11 => &["http/1.1"],
        Version::Tcp => &[],
    }
}

impl Setup {
    /// Resolves names, or takes the known addresses of the targets, and prepares the requests.
    pub(crate) fn new(options: &Options, given: Option<&[SocketAddr]>, limits: &Limits) -> Result<Self, StartError> {
        options.check()?;
        let mut requests = Vec::new();
        for target in &options.targets {
            requests.push(PreparedRequest::new(target, options)?);
        }
        let scenario = options.scenario.as_ref().map(|scenario| Compiled::new(scenario, options)).transpose()?;
        let of_targets = match given {
            // The process that supplies the addresses has checked the plan.
            Some(addresses) => addresses.to_vec(),
            None => resolve_all(options, limits)?,
        };
        check_sources(&options.sources)?;
        let (mut group_of, mut addresses, mut weights) =
            (Vec::new(), Vec::<(SocketAddr, Option<String>)>::new(), Vec::<u64>::new());
        let mut known: HashMap<(SocketAddr, Option<String>), u16> = HashMap::new();
        for (target, address) in options.targets.iter().zip(of_targets) {
            let name = target.url.tls.then(|| options.tls.name.clone().unwrap_or_else(|| target.url.host.clone()));
            let key = (address, name);
            let group = *known.entry(key.clone()).or_insert_with(|| {
                addresses.push(key);
                weights.push(0);
                (addresses.len() - 1) as u16
            });
            group_of.push(group);
            if let Some(weight) = weights.get_mut(usize::from(group)) {
                *weight += u64::from(target.weight);
            }
        }
        check_connections(options, addresses.len())?;
        let sockets: Vec<SocketAddr> = addresses.iter().map(|(address, _)| *address).collect();
        let sockets = if options.places.unix.is_some() { Vec::new() } else { sockets };
        let plan = Plan::new(options, &sockets, limits);
        let names = addresses.iter().filter_map(|(_, name)| name.as_deref());
        let is_tls = options.targets.iter().any(|target| target.url.tls);
        let tls = if is_tls { Some(Side::new(&options.tls, protocols(options.version), names)?) } else { None };
        let shares = match &scenario {
            // Each user has a connection to each address.
            Some(_) => vec![options.connections; addresses.len()],
            None => divide(options.connections, &weights),
        };
        let groups = addresses.into_iter().zip(shares).map(|((address, name), connections)| Group {
            address,
            peer: options.places.peer(address),
            connections,
            ways: ways(&options.sources, address),
            name,
        });
        Ok(Self {
            plan,
            requests,
            group_of,
            groups: groups.collect(),
            keepalive: options.keepalive,
            pipeline: options.pipeline,
            streams: options.is_http2().then_some(options.streams),
            grpc: options.grpc,
            upload: options.upload,
            messages: options
                .is_tcp()
                .then(|| Arc::new(Messages::new(options.exchange, options.keepalive, options.seed))),
            connect_timeout: options.connect_timeout,
            response_timeout: options.response_timeout,
            tls,
            handshakes_only: options.tls.handshakes_only,
            scenario,
            ramp: (!options.ramp.is_empty()).then(|| Ramp(options.ramp.clone())),
        })
    }

    /// The address of each target.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        let groups = self.group_of.iter().filter_map(|group| self.groups.get(usize::from(*group)));
        groups.map(|group| group.address).collect()
    }

    /// The smallest number of connections to an address: a worker without one could not keep its share of the rate.
    pub(crate) fn connections_least(&self) -> usize {
        self.groups.iter().map(|group| group.connections).min().unwrap_or(1)
    }

    /// The request of a target.
    #[inline]
    pub(crate) fn request(&self, target: u16) -> &PreparedRequest {
        &self.requests[usize::from(target)]
    }

    /// The group that a target belongs to.
    pub(crate) fn group_of(&self, target: u16) -> usize {
        self.group_of.get(usize::from(target)).copied().map_or(0, usize::from)
    }

    /// A connection of a group, under TLS if its targets require it.
    pub(crate) fn transport(&self, group: u16, stream: Stream) -> Transport {
        let name = self.groups.get(usize::from(group)).and_then(|group| group.name.as_deref());
        match (&self.tls, name) {
            (Some(side), Some(name)) => side.wrap(stream, name),
            _ => Transport::plain(stream),
        }
    }

    /// The address and options of a connection, given by its number among those of all workers.
    pub(crate) fn way(&self, group: u16, number: usize) -> Option<(&PeerAddress, &ConnectOptions)> {
        let group = self.groups.get(usize::from(group))?;
        group.ways.get(number % group.ways.len().max(1)).map(|way| (&group.peer, way))
    }
}

/// Without a scenario the addresses share the connections.
fn check_connections(options: &Options, addresses: usize) -> Result<(), StartError> {
    if options.scenario.is_some() {
        return Ok(());
    }
    if options.connections < addresses {
        return Err(StartError::TooFewConnections { connections: options.connections, addresses });
    }
    if !options.ramp.is_empty() && addresses > 1 {
        return Err(OptionsError::Contradiction("connections over time are for URLs of one address").into());
    }
    Ok(())
}

/// After this check, "cannot assign requested address" can only mean that no port is free.
pub(crate) fn check_sources(sources: &[IpAddr]) -> Result<(), StartError> {
    let check = |&address: &IpAddr| {
        TcpListener::bind((address, 0)).map(drop).map_err(|error| StartError::Source { address, error })
    };
    sources.iter().try_for_each(check)
}

/// The unmet needs in words, the scarcest first.
fn starved(needs: &[Need]) -> String {
    let line =
        |need: &Need| format!("{} {} are needed, {} are there: {}", need.needed, need.what, need.available, need.cure);
    needs.iter().map(line).collect::<Vec<_>>().join("; ")
}

pub(crate) fn ways(sources: &[IpAddr], address: SocketAddr) -> Vec<ConnectOptions> {
    let fits = sources.iter().filter(|source| source.is_ipv4() == address.is_ipv4());
    let ways: Vec<_> =
        fits.map(|source| ConnectOptions { source: Some(*source), ..ConnectOptions::default() }).collect();
    if ways.is_empty() { vec![ConnectOptions::default()] } else { ways }
}

/// Divides connections by weight, each share at least 1; the largest share takes the rounding error.
fn divide(connections: usize, weights: &[u64]) -> Vec<usize> {
    let sum = weights.iter().sum::<u64>().max(1);
    let share = |weight: &u64| ((connections as u128 * u128::from(*weight)) / u128::from(sum)) as usize;
    let mut shares: Vec<usize> = weights.iter().map(|weight| share(weight).max(1)).collect();
    let given: usize = shares.iter().sum();
    if let Some(largest) = shares.iter_mut().max() {
        *largest = (*largest + connections).saturating_sub(given).max(1);
    }
    shares
}

/// The address of each target. The plan is checked before any socket is opened, even before the probes that select one of a
/// name's addresses.
fn resolve_all(options: &Options, limits: &Limits) -> Result<Vec<SocketAddr>, StartError> {
    if options.places.unix.is_some() {
        refuse_unless_met(options.plan, &Plan::new(options, &[], limits))?;
        return Ok(vec![NO_ADDRESS; options.targets.len()]);
    }
    let mut known: HashMap<(&str, u16), Addresses> = HashMap::new();
    for target in &options.targets {
        if let Entry::Vacant(place) = known.entry((&target.url.host, target.url.port)) {
            place.insert(Addresses::resolve(&options.places, &target.url.host, target.url.port)?);
        }
    }
    let firsts: Vec<SocketAddr> = known.values().map(|addresses| addresses.first).collect();
    refuse_unless_met(options.plan, &Plan::new(options, &firsts, limits))?;
    let chosen: HashMap<_, _> = known.into_iter().map(|(key, addresses)| (key, addresses.choose())).collect();
    let of_target = |target: &Target| chosen.get(&(target.url.host.as_str(), target.url.port)).copied();
    Ok(options.targets.iter().filter_map(of_target).collect())
}

/// Refuses a load that cannot fit, if plans are enforced.
pub(crate) fn refuse_unless_met(keep: bool, plan: &Plan) -> Result<(), StartError> {
    let unmet: Vec<Need> = plan.unmet().filter(|_| keep).cloned().collect();
    if unmet.is_empty() { Ok(()) } else { Err(StartError::Starved(unmet)) }
}

/// The addresses of a name.
#[derive(Debug)]
pub(crate) struct Addresses {
    pub(crate) first: SocketAddr,
    others: Vec<SocketAddr>,
}

impl Addresses {
    pub(crate) fn resolve(places: &Places, host: &str, port: u16) -> Result<Self, StartError> {
        if let Some(first) = places.other(host, port) {
            return Ok(Self { first, others: Vec::new() });
        }
        let name = |error| StartError::Name { host: host.to_owned(), error };
        let mut addresses = (host, port).to_socket_addrs().map_err(name)?;
        let nothing = || name(io::Error::new(io::ErrorKind::NotFound, "it has no address"));
        Ok(Self { first: addresses.next().ok_or_else(nothing)?, others: addresses.collect() })
    }

    /// The first address that accepts a connection, or the first one if none does. For example, `localhost` often has two
    /// addresses and a server on one.
    pub(crate) fn choose(&self) -> SocketAddr {
        if self.others.is_empty() {
            return self.first;
        }
        let accepts = |address: &&SocketAddr| TcpStream::connect_timeout(address, PROBE_TIMEOUT).is_ok();
        *std::iter::once(&self.first).chain(&self.others).find(accepts).unwrap_or(&self.first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_divided_by_weight_and_none_is_lost() {
        assert_eq!(divide(10, &[1]), [10]);
        assert_eq!(divide(10, &[3, 1]), [8, 2]);
        assert_eq!(divide(3, &[1000, 1, 1]), [1, 1, 1]);
        assert_eq!(divide(7, &[1, 1, 1]).iter().sum::<usize>(), 7);
    }

    #[test]
    fn a_name_that_does_not_exist_is_named() {
        let error = Addresses::resolve(&Places::default(), "nothing.invalid", 80).unwrap_err();
        assert!(error.to_string().starts_with("the name `nothing.invalid` cannot be resolved"), "{error}");
    }

    #[test]
    fn uses_the_served_address_and_refuses_impossible_loads() {
        let served = TcpListener::bind("127.0.0.1:0").unwrap();
        served.set_nonblocking(true).unwrap();
        let address = served.local_addr().unwrap();
        // No other socket has this port there, because these tests listen on 127.0.0.1.
        let closed = TcpListener::bind("127.0.0.77:0").unwrap().local_addr().unwrap();
        let addresses = Addresses { first: closed, others: vec![address] };
        assert_eq!(addresses.choose(), address);
        assert!(served.accept().is_ok(), "it was asked");
        let options = Options {
            connections: 5_000_000,
            ..Options::new(Target::new(format!("http://localhost:{}/", address.port()).parse().unwrap()))
        };
        assert!(matches!(Setup::new(&options, None, &Limits::read()), Err(StartError::Starved(_))));
        let nobody = served.accept().unwrap_err();
        assert_eq!(nobody.kind(), io::ErrorKind::WouldBlock, "the plan comes before the first socket");
    }
}
