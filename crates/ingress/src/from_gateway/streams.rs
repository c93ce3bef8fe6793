//! `TLSRoute`, `TCPRoute`, `UDPRoute`: connections that are passed on without looking at HTTP.

use super::attach::{RouteFaults, RouteHead, RoutePlan};
use super::backends::{Backend, Backends};
use super::hostname::{covers, precision};
use super::listeners::{ListenerPlan, Listeners, Protocol, may_share_port};
use super::status::Fault;
use crate::assembly::{Assembly, BackendWish, Conflict, Place, Target, UpstreamName};
use crate::objects::routes::{BackendRef, StreamRule, TcpRoute, TlsRoute, UdpRoute};
use crate::tree::Origin;
use crate::{EndpointSource, Kind};
use conf::tree::Directive;
use std::collections::BTreeMap;

/// Largest weight in an upstream.
const WEIGHT_MAX: u32 = 1000;

/// A route and where it is attached.
pub(crate) struct AttachedStream<'a> {
    pub(crate) route: RoutePlan<'a>,
    pub(crate) faults: RouteFaults,
    /// The backends that can be used, with their weights.
    backends: Vec<(Backend, u32)>,
}

/// What routes of these kinds have in common.
pub(crate) fn of_tls(route: &TlsRoute) -> (RouteHead<'_>, &[StreamRule]) {
    let spec = &route.spec;
    (head(Kind::TlsRoute, &route.metadata, &spec.parent_refs, &spec.hostnames, &route.status), &spec.rules)
}

pub(crate) fn of_tcp(route: &TcpRoute) -> (RouteHead<'_>, &[StreamRule]) {
    (head(Kind::TcpRoute, &route.metadata, &route.spec.parent_refs, &[], &route.status), &route.spec.rules)
}

pub(crate) fn of_udp(route: &UdpRoute) -> (RouteHead<'_>, &[StreamRule]) {
    (head(Kind::UdpRoute, &route.metadata, &route.spec.parent_refs, &[], &route.status), &route.spec.rules)
}

fn head<'a>(
    kind: Kind,
    metadata: &'a crate::objects::Metadata,
    parents: &'a [crate::objects::routes::ParentReference],
    hostnames: &'a [String],
    status: &'a crate::objects::routes::RouteStatus,
) -> RouteHead<'a> {
    RouteHead { kind, metadata, parents, hostnames, status }
}

impl<'a> AttachedStream<'a> {
    /// Attaches a route and resolves its backends. Of several rules only the first one can ever be used.
    pub(crate) fn new(
        backends: Backends<'_>,
        listeners: &mut Listeners<'_>,
        (head, rules): (RouteHead<'a>, &'a [StreamRule]),
    ) -> Self {
        let route = RoutePlan::attach(backends.cluster, listeners, head);
        let mut faults = RouteFaults::default();
        let mut usable = Vec::new();
        if rules.len() > 1 {
            faults.unsupported = Some((Fault::new("UnsupportedValue", "only the first rule is used"), true));
        }
        let references: &[BackendRef] = rules.first().map(|rule| rule.backend_refs.as_slice()).unwrap_or_default();
        for reference in references {
            match backends.resolve((head.kind, &head.metadata.namespace), reference) {
                Ok(backend) => usable.push((backend, reference.weight.unwrap_or(1))),
                Err(fault) => faults.unresolved(fault),
            }
        }
        usable.retain(|(_, weight)| *weight > 0);
        Self { route, faults, backends: usable }
    }

    /// The Services that it uses.
    pub(crate) fn services(&self) -> impl Iterator<Item = &Backend> {
        self.backends.iter().map(|(backend, _)| backend)
    }

    fn upstream(&self, assembly: &mut Assembly<'_>) -> Option<UpstreamName> {
        let udp = self.route.name.kind == Kind::UdpRoute;
        let highest = self.backends.iter().map(|(_, weight)| *weight).max()?;
        let scale = highest.div_ceil(WEIGHT_MAX).max(1);
        let targets = self
            .backends
            .iter()
            .map(|(backend, weight)| Target {
                place: Place::Service(EndpointSource { service: backend.service.clone(), port: backend.port, udp }),
                weight: u16::try_from((weight / scale).max(1)).unwrap_or(u16::MAX),
            })
            .collect();
        let wish = BackendWish { targets, stream: true, ..BackendWish::default() };
        Some(assembly.upstream(&self.route.name, &wish))
    }
}

/// Writes all listeners of TCP, UDP and TLS. Routes are in order of age: the older one wins.
pub(crate) fn write(
    assembly: &mut Assembly<'_>,
    listeners: &mut Listeners<'_>,
    routes: &[AttachedStream<'_>],
    backends: Backends<'_>,
) {
    let mut names: BTreeMap<usize, BTreeMap<String, usize>> = BTreeMap::new();
    for (index, each) in routes.iter().enumerate() {
        if assembly.is_refused(&each.route.name) {
            continue;
        }
        for attachment in each.route.attachments() {
            for hostname in &attachment.hostnames {
                names.entry(attachment.listener).or_default().entry(hostname.clone()).or_insert(index);
            }
        }
    }
    open(assembly, listeners);
    for (index, hosts) in names {
        let Some(plan) = listeners.all.get(index).filter(|plan| plan.is_programmed()) else { continue };
        let Some(protocol) = plan.protocol else { continue };
        let mut conflicts: Vec<Conflict> = Vec::new();
        for (hostname, route) in hosts {
            let Some(route) = routes.get(route) else { continue };
            if protocol.has_hostnames() && !is_own(listeners, index, &hostname) {
                continue;
            }
            let upstream = route.upstream(assembly);
            conflicts.extend(connect(assembly, listeners, index, (&hostname, route, upstream), backends).err());
        }
        if let (Some(conflict), Some(plan)) = (conflicts.pop(), listeners.all.get_mut(index)) {
            let owner = plan.owner.clone();
            assembly.report(&owner, &conflict);
            plan.set_conflict(Fault::new("ProtocolConflict", format!("{} has {}", conflict.winner, conflict.what)));
        }
    }
    close_unrouted(assembly, listeners);
}

/// A listener without routes is open: it closes connections or refuses handshakes, as it does for names that no route has.
fn open(assembly: &mut Assembly<'_>, listeners: &Listeners<'_>) {
    for plan in listeners.all.iter().filter(|plan| plan.is_programmed()) {
        let spot = (plan.listen.first().copied(), plan.listener.port);
        match plan.protocol {
            Some(Protocol::TlsPassthrough) => assembly.open_for_passing(spot),
            Some(Protocol::TlsTerminate) => assembly.open_for_ending(spot, &plan.hostname),
            _ => {}
        }
    }
}

/// At a port with both modes of TLS, hostnames of listeners that pass it through are theirs, even without a route.
fn close_unrouted(assembly: &mut Assembly<'_>, listeners: &Listeners<'_>) {
    for plan in listeners.all.iter().filter(|plan| plan.is_programmed()) {
        if plan.protocol == Some(Protocol::TlsPassthrough) {
            assembly.close_unrouted(&plan.owner, (plan.listen.first().copied(), plan.listener.port), &plan.hostname);
        }
    }
}

/// Whether this listener is the one with the most exact hostname at its port.
fn is_own(listeners: &Listeners<'_>, index: usize, hostname: &str) -> bool {
    let Some(own) = listeners.all.get(index) else { return false };
    let rivals = listeners.all.iter().enumerate().filter(|(_, each)| {
        each.is_programmed()
            && each.listen == own.listen
            && each.listener.port == own.listener.port
            && may_share_port(each.protocol, own.protocol)
            && covers(&each.hostname, hostname)
    });
    rivals.max_by_key(|(_, each)| precision(&each.hostname)).is_some_and(|(best, _)| best == index)
}

fn connect(
    assembly: &mut Assembly<'_>,
    listeners: &Listeners<'_>,
    index: usize,
    (hostname, route, upstream): (&str, &AttachedStream<'_>, Option<UpstreamName>),
    backends: Backends<'_>,
) -> Result<(), Conflict> {
    let Some(plan) = listeners.all.get(index) else { return Ok(()) };
    let spot = (plan.listen.first().copied(), plan.listener.port);
    let owner = &route.route.name;
    match plan.protocol {
        Some(Protocol::Tcp | Protocol::Udp) => {
            let Some(upstream) = upstream else { return Ok(()) };
            let udp = plan.protocol == Some(Protocol::Udp);
            assembly.forward_at(owner, (spot, udp), &upstream, Vec::new(), &[])
        }
        Some(Protocol::TlsPassthrough) => assembly.pass_through_at(owner, spot, hostname, upstream.as_ref()),
        Some(Protocol::TlsTerminate) => {
            let origin = assembly.origin(owner);
            let mut lines = certificate_lines(assembly, origin, plan);
            lines.extend(backend_tls_lines(assembly, origin, route, backends));
            // A regular expression comes after all names, and before the server that refuses the rest.
            let name = if hostname.is_empty() { "~^" } else { hostname };
            lines.push(origin.line("server_name", [name]));
            lines.push(match upstream {
                Some(upstream) => origin.line("proxy_pass", [upstream]),
                None => origin.line("return", [""]),
            });
            assembly.end_tls_at(owner, spot, hostname, lines)
        }
        Some(Protocol::Http | Protocol::Https) | None => Ok(()),
    }
}

fn certificate_lines(assembly: &mut Assembly<'_>, origin: Origin, plan: &ListenerPlan<'_>) -> Vec<Directive> {
    let mut lines = Vec::new();
    for (certificate, key) in plan.certificates.iter().filter_map(|name| assembly.certificate(name)) {
        lines.push(origin.line("ssl_certificate", [certificate]));
        lines.push(origin.line("ssl_certificate_key", [key]));
    }
    lines
}

/// TLS towards the backends, as the policy of the first one says.
fn backend_tls_lines(
    assembly: &mut Assembly<'_>,
    origin: Origin,
    route: &AttachedStream<'_>,
    backends: Backends<'_>,
) -> Vec<Directive> {
    let policy = route.services().next().and_then(|backend| backend.tls.as_ref());
    let Some(verification) = policy.and_then(|policy| backends.policies.verification(policy)) else {
        return Vec::new();
    };
    let mut lines = vec![
        origin.line("proxy_ssl", ["on"]),
        origin.line("proxy_ssl_verify", ["on"]),
        origin.line("proxy_ssl_verify_depth", ["8"]),
        origin.line("proxy_ssl_server_name", ["on"]),
        origin.line("proxy_ssl_name", [&verification.hostname]),
    ];
    if !verification.names.is_empty() {
        lines.push(origin.line("proxy_ssl_verify_san", &verification.names));
    }
    if let Some(authority) = verification.authorities.first() {
        let path = assembly.file(authority.clone());
        lines.push(origin.line("proxy_ssl_trusted_certificate", [path]));
    }
    lines
}
