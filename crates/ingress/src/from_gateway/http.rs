//! HTTP listeners become servers: one for each hostname of a listener and of its routes. In a server, each path that a match
//! names has a location. It tries the matches that such a path can meet, in the order of the specification, with `route_to`.

use super::attach::RoutePlan;
use super::backends::Backends;
use super::hostname::{covers, precision};
use super::listeners::{Listeners, Protocol};
use super::matches::{Match, Place, Rank, quoted};
use super::render::{RuleLocation, Site, depends_on_prefix, render};
use super::rules::HttpPlan;
use super::status::Fault;
use crate::assembly::{Assembly, Conflict, Listen, Matcher, ServerDraft, ServerId};
use crate::tree::Origin;
use crate::{Level, Name, ObjectName};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Most `route_to` lines of one location, as the configuration language has it.
const LINES_MAX: usize = 4096;

/// Most `route_to` lines of one server. Each path repeats the lines of the paths around it, so a few routes with many paths
/// could fill the memory.
const SERVER_LINES_MAX: usize = 65_536;

/// A route and where it is attached.
pub(crate) struct AttachedHttp<'a> {
    pub(crate) plan: HttpPlan<'a>,
    pub(crate) route: RoutePlan<'a>,
}

impl AttachedHttp<'_> {
    /// When the route was created.
    pub(super) fn created(&self) -> &str {
        &self.plan.head.metadata.creation_timestamp
    }

    /// Whether it is attached with exactly this hostname.
    pub(super) fn names(&self, host: &Host) -> bool {
        self.route.attachments().any(|at| at.listener == host.listener && at.hostnames.contains(&host.name))
    }
}

/// What is rendered once and written into every server that needs it: route, rule, prefix, port, client certificate.
type RenderKey = (usize, usize, Option<String>, u16, Option<Name>);

/// A match of a rule in one server.
struct Entry<'p> {
    rank: Rank,
    matched: &'p Match,
    route: usize,
    rule: usize,
}

/// One hostname of a listener.
pub(super) struct Host {
    pub(super) listener: usize,
    pub(super) name: String,
}

/// Writes all HTTP listeners.
pub(crate) fn write(
    assembly: &mut Assembly<'_>,
    listeners: &mut Listeners<'_>,
    routes: &mut [AttachedHttp<'_>],
    backends: Backends<'_>,
    certificates: &BTreeMap<Name, Name>,
) {
    let mut rendered: BTreeMap<RenderKey, Vec<RuleLocation>> = BTreeMap::new();
    let by_listener = routes_by_listener(routes);
    for spot in spots(listeners) {
        let hosts = hosts(&spot, listeners, routes, &by_listener);
        let misdirected = misdirected(assembly, &spot, listeners);
        for host in hosts {
            let Some(server) = server(assembly, listeners, &host, routes) else { continue };
            if let Some((variable, numbers)) = &misdirected
                && let Some(number) = numbers.get(&host.listener)
            {
                refuse_misdirected(assembly, server, variable, *number);
            }
            let attached = by_listener.get(&host.listener).map(Vec::as_slice).unwrap_or_default();
            let certificate = listeners.all.get(host.listener).and_then(|each| certificates.get(&each.gateway));
            let mut writer =
                Writer { assembly, backends, rendered: &mut rendered, certificate: certificate.cloned(), server };
            writer.locations(listeners, &host, routes, attached);
        }
    }
    // What no listener serves is looked at, too: its status says what is wrong.
    for index in 0..routes.len() {
        render_unused(assembly, backends, routes, index, &rendered);
    }
}

pub(super) fn routes_by_listener(routes: &[AttachedHttp<'_>]) -> BTreeMap<usize, Vec<usize>> {
    let mut map: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (index, route) in routes.iter().enumerate() {
        let listeners: BTreeSet<usize> = route.route.attachments().map(|each| each.listener).collect();
        for listener in listeners {
            map.entry(listener).or_default().push(index);
        }
    }
    map
}

/// Listeners that share a port, in order of precedence.
pub(super) fn spots(listeners: &Listeners<'_>) -> Vec<Vec<usize>> {
    let mut map: BTreeMap<(&[IpAddr], u16), Vec<usize>> = BTreeMap::new();
    for (index, each) in listeners.all.iter().enumerate() {
        if each.is_programmed() && matches!(each.protocol, Some(Protocol::Http | Protocol::Https)) {
            map.entry((each.listen.as_slice(), each.listener.port)).or_default().push(index);
        }
    }
    map.into_values().collect()
}

/// The hostnames of a port. A request belongs to the listener with the most exact hostname for it, so a hostname of a route
/// counts only if its listener is that one.
pub(super) fn hosts(
    spot: &[usize],
    listeners: &Listeners<'_>,
    routes: &[AttachedHttp<'_>],
    by_listener: &BTreeMap<usize, Vec<usize>>,
) -> Vec<Host> {
    let mut hosts = Vec::new();
    let names: Vec<(usize, &str)> =
        spot.iter().filter_map(|index| Some((*index, listeners.all.get(*index)?.hostname.as_str()))).collect();
    let owner_of = |host: &str| {
        let covering = names.iter().filter(|(_, name)| covers(name, host));
        covering.max_by_key(|(_, name)| precision(name)).map(|(index, _)| *index)
    };
    for (index, own) in &names {
        let mut wanted: BTreeSet<String> = BTreeSet::from([(*own).to_owned()]);
        for route in by_listener.get(index).into_iter().flatten() {
            let attachments = routes.get(*route).into_iter().flat_map(|route| route.route.attachments());
            wanted.extend(attachments.filter(|each| each.listener == *index).flat_map(|each| each.hostnames.clone()));
        }
        let own_hosts = wanted.into_iter().filter(|host| owner_of(host) == Some(*index));
        hosts.extend(own_hosts.map(|name| Host { listener: *index, name }));
    }
    hosts
}

/// The server of a host; a conflict goes to the status of its listener, and to the routes that name the host.
fn server(
    assembly: &mut Assembly<'_>,
    listeners: &mut Listeners<'_>,
    host: &Host,
    routes: &[AttachedHttp<'_>],
) -> Option<ServerId> {
    let plan = listeners.all.get(host.listener)?;
    let owner = plan.owner.clone();
    let tls = plan.protocol == Some(Protocol::Https);
    let listens = [Listen { port: plan.listener.port, tls }];
    let address = plan.listen.first().copied();
    let result = assembly.server_at(address, &listens, &host.name, &owner).and_then(|id| {
        let winner = assembly.server_mut(id).owner.clone();
        let is_ours = matches!(winner.kind, crate::Kind::Gateway | crate::Kind::ListenerSet);
        let what = format!("host \"{}\"", host.name);
        if is_ours { Ok(id) } else { Err(Conflict { winner, what }) }
    });
    match result {
        Ok(id) => {
            write_tls(assembly, listeners, host.listener, id);
            Some(id)
        }
        Err(conflict) => {
            for route in routes.iter().filter(|each| each.names(host)) {
                assembly.report(&route.route.name, &conflict);
            }
            let is_host = conflict.what.starts_with("host");
            let reason = if is_host { "HostnameConflict" } else { "ProtocolConflict" };
            let fault = Fault::new(reason, format!("{} has {}", conflict.winner, conflict.what));
            if let Some(plan) = listeners.all.get_mut(host.listener).filter(|plan| plan.hostname == host.name) {
                plan.set_conflict(fault);
                assembly.report(&owner, &conflict);
            }
            None
        }
    }
}

fn write_tls(assembly: &mut Assembly<'_>, listeners: &Listeners<'_>, index: usize, id: ServerId) {
    let Some(plan) = listeners.all.get(index) else { return };
    let origin = assembly.origin(&plan.owner);
    if plan.protocol == Some(Protocol::Http) {
        // gRPC without TLS begins with HTTP/2 at once.
        assembly.server_mut(id).directives.push(origin.line("http2", ["on"]));
        return;
    }
    let mut pairs: Vec<_> = plan.certificates.iter().filter_map(|name| assembly.certificate(name)).collect();
    let first = if pairs.is_empty() { None } else { Some(pairs.remove(0)) };
    let authority = plan.clients.as_ref().and_then(|clients| {
        let path = assembly.file(clients.authorities.first()?.clone());
        Some((path, clients.is_optional))
    });
    let server = assembly.server_mut(id);
    server.certificate = first;
    server.directives.push(origin.line("http2", ["on"]));
    for (certificate, key) in pairs {
        server.directives.push(origin.line("ssl_certificate", [certificate]));
        server.directives.push(origin.line("ssl_certificate_key", [key]));
    }
    match authority {
        None => {}
        // Every certificate is let in, so none is compared with an authority: one with the same name and another key would fail.
        Some((_, true)) => server.directives.push(origin.line("ssl_verify_client", ["optional_no_ca"])),
        Some((path, false)) => {
            server.directives.push(origin.line("ssl_client_certificate", [path]));
            server.directives.push(origin.line("ssl_verify_depth", ["8"]));
            server.directives.push(origin.line("ssl_verify_client", ["on"]));
            close_refused(server, origin);
        }
    }
}

/// Closes the connections of clients with a missing or a wrong certificate. nginx answers 400; the API wants no answer.
fn close_refused(server: &mut ServerDraft, origin: Origin) {
    const REFUSED: &str = "@refused";
    server.directives.push(origin.line("error_page", ["495", "496", REFUSED]));
    let owner = server.owner.clone();
    if let Ok(location) = server.location(Matcher::Named(REFUSED.to_owned()), &owner, origin) {
        location.directives.push(origin.line("return", ["444"]));
    }
}

/// A variable with the number of the listener that a client named in its handshake, and the numbers; `None`: there is one.
fn misdirected(
    assembly: &mut Assembly<'_>,
    spot: &[usize],
    listeners: &Listeners<'_>,
) -> Option<(String, BTreeMap<usize, usize>)> {
    let secured: Vec<_> = spot
        .iter()
        .filter_map(|index| Some((*index, listeners.all.get(*index)?)))
        .filter(|(_, each)| each.protocol == Some(Protocol::Https))
        .collect();
    let (_, first) = secured.first().filter(|_| secured.len() > 1)?;
    let (variable, is_new) = assembly.variable(&format!("listener at {:?} {}", first.listen, first.listener.port));
    let own = assembly.own();
    let mut entries = vec![own.line::<&str>("hostnames", []), own.line("", [""]), own.line("default", ["0"])];
    let mut numbers = BTreeMap::new();
    for (number, (index, each)) in secured.iter().enumerate() {
        let origin = assembly.origin(&each.owner);
        numbers.insert(*index, number + 1);
        if each.hostname.is_empty() {
            entries[2] = origin.line("default", [(number + 1).to_string()]);
        } else {
            // A single label may be a word of the table, such as `include`.
            let is_plain = each.hostname.contains('.');
            let key = if is_plain { each.hostname.clone() } else { format!("~^{}$", quoted(&each.hostname)) };
            entries.push(origin.line(&key, [(number + 1).to_string()]));
        }
    }
    if is_new {
        assembly.http.push(own.block("map", ["$ssl_server_name", variable.as_str()], entries));
    }
    Some((variable, numbers))
}

/// A request for a host of another listener than the one of the handshake gets 421 (RFC 9110 section 15.5.20): the listeners
/// may have other certificates and other rules for clients.
fn refuse_misdirected(assembly: &mut Assembly<'_>, server: ServerId, variable: &str, number: usize) {
    let own = assembly.own();
    let mut block = own.block::<&str>("if", [], vec![own.line("return", ["421"])]);
    let pattern = format!("^{number}?$");
    block.args = vec![own.bare(format!("({variable}")), own.bare("!~"), own.word(pattern), own.bare(")")];
    assembly.server_mut(server).directives.push(block);
}

/// Writes the locations of one server.
struct Writer<'w, 'a> {
    assembly: &'w mut Assembly<'a>,
    backends: Backends<'w>,
    rendered: &'w mut BTreeMap<RenderKey, Vec<RuleLocation>>,
    certificate: Option<Name>,
    server: ServerId,
}

impl Writer<'_, '_> {
    fn locations(
        &mut self,
        listeners: &Listeners<'_>,
        host: &Host,
        routes: &mut [AttachedHttp<'_>],
        attached: &[usize],
    ) {
        let Some(plan) = listeners.all.get(host.listener) else { return };
        let (owner, port) = (plan.owner.clone(), plan.listener.port);
        let lists = self.lists(host, routes, attached);
        let mut written: BTreeSet<(usize, usize, Option<String>)> = BTreeSet::new();
        let mut lines_left = SERVER_LINES_MAX;
        for (place, list) in lists {
            let mut lines = Vec::with_capacity(list.len() + 1);
            if list.len() > lines_left.min(LINES_MAX) {
                let message = format!("host \"{}\" has too many matches; some paths are not served", host.name);
                self.assembly.find(&owner, Level::Warning, "TooManyMatches", message);
            }
            for (words, (route, rule, prefix)) in list.into_iter().take(lines_left.min(LINES_MAX)) {
                lines_left -= 1;
                let Some(entry) = routes.get_mut(route) else { continue };
                let name = location_name(&entry.route.name, &entry.plan, rule, prefix.as_deref());
                let origin = self.assembly.origin(&entry.route.name);
                lines.push(origin.line("route_to", std::iter::once(&name).chain(&words)));
                if written.insert((route, rule, prefix.clone())) {
                    self.rule(entry, (route, rule), prefix.as_deref(), &name, port);
                }
            }
            let matcher = match place {
                Place::Exact(path) => Matcher::Exact(path),
                Place::Below(path) => Matcher::Prefix(format!("{path}/")),
            };
            let origin = self.assembly.origin(&owner);
            lines.push(origin.line("return", ["404"]));
            if let Ok(location) = self.assembly.server_mut(self.server).location(matcher, &owner, origin) {
                location.directives = lines;
            }
        }
    }

    /// For each place the matches that are tried, with their words and targets.
    #[allow(clippy::type_complexity)] // words and target of each line of each place
    fn lists(
        &self,
        host: &Host,
        routes: &[AttachedHttp<'_>],
        attached: &[usize],
    ) -> Vec<(Place, Vec<(Vec<String>, (usize, usize, Option<String>))>)> {
        let mut entries = Vec::new();
        for index in attached {
            let Some(each) = routes.get(*index) else { continue };
            if self.assembly.is_refused(&each.route.name) {
                continue;
            }
            let names = each.route.attachments().filter(|at| at.listener == host.listener).flat_map(|at| &at.hostnames);
            let Some(name) = names.filter(|name| covers(name, &host.name)).max_by_key(|name| precision(name)) else {
                continue;
            };
            for (number, rule) in each.plan.rules.iter().enumerate() {
                let matches = rule.iter().flat_map(|rule| rule.matches.iter().enumerate());
                entries.extend(matches.map(|(at, matched)| Entry {
                    rank: matched.rank(name, each.plan.age, (number, at)),
                    matched,
                    route: *index,
                    rule: number,
                }));
            }
        }
        entries.sort_by(|one, other| one.rank.cmp(&other.rank));
        let mut places: BTreeSet<Place> = entries.iter().flat_map(|entry| entry.matched.path.places()).collect();
        places.insert(Place::Below(String::new()));
        let mut out = Vec::with_capacity(places.len());
        for place in places {
            let mut list = Vec::new();
            for entry in entries.iter().filter(|entry| entry.matched.path.covers(&place)) {
                let rule = routes.get(entry.route).and_then(|route| route.plan.rules.get(entry.rule)?.as_ref());
                let prefix = rule.filter(|rule| depends_on_prefix(rule)).and_then(|_| entry.matched.path.prefix());
                let words = entry.matched.words.clone();
                let is_last = words.is_empty();
                list.push((words, (entry.route, entry.rule, prefix.map(str::to_owned))));
                if is_last {
                    break;
                }
            }
            out.push((place, list));
        }
        out
    }

    /// Writes the locations of a rule into the server.
    fn rule(
        &mut self,
        entry: &mut AttachedHttp<'_>,
        (route, rule): (usize, usize),
        prefix: Option<&str>,
        name: &str,
        port: u16,
    ) {
        let key = (route, rule, prefix.map(str::to_owned), port, self.certificate.clone());
        let owner = entry.route.name.clone();
        let origin = self.assembly.origin(&owner);
        if !self.rendered.contains_key(&key) {
            let site =
                Site { owner: &owner, origin, name, prefix, port, client_certificate: self.certificate.as_ref() };
            let locations = render(self.assembly, self.backends, &mut entry.plan, rule, &site);
            self.rendered.insert(key.clone(), locations);
        }
        for each in self.rendered.get(&key).into_iter().flatten() {
            let draft = self.assembly.server_mut(self.server).location(each.matcher.clone(), &owner, origin);
            if let Ok(location) = draft {
                location.directives.clone_from(&each.lines);
            }
        }
    }
}

/// The same in every run, so that an unchanged rule stays an unchanged location.
fn location_name(object: &ObjectName, plan: &HttpPlan<'_>, rule: usize, prefix: Option<&str>) -> String {
    let Name { namespace, name } = &object.name;
    let kind = if plan.is_grpc() { "grpc" } else { "http" };
    let base = format!("@{kind}.{namespace}.{name}.{rule}");
    match prefix {
        None => base,
        Some(prefix) => format!("{base}.{:08x}", crate::assembly::stable_hash(prefix.as_bytes()) as u32),
    }
}

/// Finds the faults of rules that no server has, and forgets the locations.
fn render_unused(
    assembly: &mut Assembly<'_>,
    backends: Backends<'_>,
    routes: &mut [AttachedHttp<'_>],
    index: usize,
    rendered: &BTreeMap<RenderKey, Vec<RuleLocation>>,
) {
    let Some(entry) = routes.get_mut(index) else { return };
    let owner = entry.route.name.clone();
    if entry.route.is_foreign() || assembly.is_refused(&owner) {
        return;
    }
    for rule in 0..entry.plan.rules.len() {
        let first = (index, rule, None, 0, None);
        let is_known = rendered.range(first..).next().is_some_and(|(key, _)| key.0 == index && key.1 == rule);
        if is_known {
            continue;
        }
        let origin = assembly.origin(&owner);
        let site = Site { owner: &owner, origin, name: "@unused", prefix: None, port: 0, client_certificate: None };
        drop(render(assembly, backends, &mut entry.plan, rule, &site));
    }
}
