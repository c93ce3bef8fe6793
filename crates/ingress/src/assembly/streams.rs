//! TCP and UDP: servers of `stream`, and TLS that is passed through by its server name.

use super::{Assembly, Conflict, Spot, UpstreamName};
use crate::ObjectName;
use crate::tree::Origin;
use conf::tree::Directive;
use std::collections::{BTreeMap, BTreeSet};

/// A TCP or UDP server.
struct Forward {
    owner: ObjectName,
    lines: Vec<Directive>,
    options: Vec<String>,
}

/// Server names with the objects that asked for them and their upstreams. Connections for a name without one are closed.
type Names = BTreeMap<String, (ObjectName, Option<UpstreamName>)>;

/// A port at which servers of `stream` end TLS.
#[derive(Default)]
struct Ended {
    /// Without their `listen`.
    servers: Vec<(Origin, Vec<Directive>)>,
    /// The names of their listeners, which may be those of no server. The empty one is for all hosts.
    names: BTreeSet<String>,
}

/// The servers of `stream` so far.
#[derive(Default)]
pub(super) struct Streams {
    /// By port and UDP.
    forwards: BTreeMap<(Spot, bool), Forward>,
    /// By port: server names with their upstreams.
    passed: BTreeMap<Spot, Names>,
    ended: BTreeMap<Spot, Ended>,
}

impl Assembly<'_> {
    /// A server that passes a port to an upstream (of `stream`), with further lines and words of `listen`.
    pub(crate) fn forward(
        &mut self,
        owner: &ObjectName,
        (port, udp): (u16, bool),
        upstream: &UpstreamName,
        lines: Vec<Directive>,
        options: &[&str],
    ) -> Result<(), Conflict> {
        self.forward_at(owner, ((None, port), udp), upstream, lines, options)
    }

    /// The same at one address only.
    pub(crate) fn forward_at(
        &mut self,
        owner: &ObjectName,
        (spot, udp): (Spot, bool),
        upstream: &UpstreamName,
        mut lines: Vec<Directive>,
        options: &[&str],
    ) -> Result<(), Conflict> {
        let (address, port) = spot;
        let what = || format!("port {port}");
        let settings = self.settings;
        if !udp
            && (self.has_port(spot) || address.is_none() && [settings.http_port, settings.https_port].contains(&port))
        {
            return Err(Conflict { winner: self.own_name(), what: what() });
        }
        if let Some(first) = self.streams.forwards.get(&(spot, udp)) {
            return Err(Conflict { winner: first.owner.clone(), what: what() });
        }
        let origin = self.origin(owner);
        lines.push(origin.line("proxy_pass", [upstream]));
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        self.streams.forwards.insert((spot, udp), Forward { owner: owner.clone(), lines, options });
        Ok(())
    }

    /// Passes TLS for a server name (a host, `*.` allowed, or empty for all) on a port through to an upstream of `stream`.
    pub(crate) fn pass_through(
        &mut self,
        owner: &ObjectName,
        port: u16,
        host: &str,
        upstream: &UpstreamName,
    ) -> Result<(), Conflict> {
        self.pass_through_at(owner, (None, port), host, Some(upstream))
    }

    /// Opens a port, though nothing may be passed through there: its connections are closed.
    pub(crate) fn open_for_passing(&mut self, spot: Spot) {
        self.streams.passed.entry(spot).or_default();
    }

    /// Passes at one address only; without an upstream, connections for the name are closed.
    pub(crate) fn pass_through_at(
        &mut self,
        owner: &ObjectName,
        spot: Spot,
        host: &str,
        upstream: Option<&UpstreamName>,
    ) -> Result<(), Conflict> {
        let host = host.to_ascii_lowercase();
        let names = self.streams.passed.entry(spot).or_default();
        if let Some((winner, _)) = names.get(&host) {
            return Err(Conflict { winner: winner.clone(), what: format!("host \"{host}\"") });
        }
        names.insert(host, (owner.clone(), upstream.cloned()));
        Ok(())
    }

    /// Opens a port at which TLS ends, for the hostname of a listener. Handshakes for a name without a server are refused.
    pub(crate) fn open_for_ending(&mut self, spot: Spot, host: &str) {
        if !self.has_port(spot) {
            self.streams.ended.entry(spot).or_default().names.insert(host.to_ascii_lowercase());
        }
    }

    /// A server for one name of a port that [`Self::open_for_ending`] has opened; the lines are those without `listen`.
    pub(crate) fn end_tls_at(
        &mut self,
        owner: &ObjectName,
        spot: Spot,
        host: &str,
        lines: Vec<Directive>,
    ) -> Result<(), Conflict> {
        let origin = self.origin(owner);
        let Some(ended) = self.streams.ended.get_mut(&spot) else {
            return Err(Conflict { winner: self.own_name(), what: format!("port {}", spot.1) });
        };
        ended.names.insert(host.to_ascii_lowercase());
        ended.servers.push((origin, lines));
        Ok(())
    }

    /// Closes connections for the hostname of a listener that passes TLS through, if no route has it. Without this, a server
    /// that ends TLS at the same port would take them.
    pub(crate) fn close_unrouted(&mut self, owner: &ObjectName, spot: Spot, host: &str) {
        if self.streams.ended.contains_key(&spot) {
            let names = self.streams.passed.entry(spot).or_default();
            names.entry(host.to_ascii_lowercase()).or_insert_with(|| (owner.clone(), None));
        }
    }

    /// Writes `stream`, and puts the TLS servers of a port behind the names that are passed through: so it comes before
    /// the servers are written.
    pub(super) fn write_streams(&mut self, own: Origin) -> Vec<Directive> {
        let mut out = std::mem::take(&mut self.stream);
        out.extend(self.upstreams.take_stream());
        let Streams { forwards, passed, ended } = std::mem::take(&mut self.streams);
        let mut taken: BTreeSet<u16> = self.server_ports().collect();
        taken.extend(forwards.keys().map(|((_, port), _)| *port));
        taken.extend(passed.keys().chain(ended.keys()).map(|(_, port)| *port));
        for (spot, ended) in &ended {
            let inside = passed.get(spot).map(|names| {
                let inside = format!("127.0.0.1:{}", take_port(spot.1, &mut taken));
                (names, inside)
            });
            let addresses = match &inside {
                Some((_, inside)) => vec![inside.clone()],
                None => self.listen_addresses(*spot),
            };
            out.extend(write_ended(own, &addresses, ended));
            if let Some((names, inside)) = inside {
                out.extend(self.write_passed(own, *spot, names, Some((&ended.names, &inside)), &mut taken));
            }
        }
        for (spot, names) in passed.iter().filter(|(spot, _)| !ended.contains_key(*spot)) {
            out.extend(self.write_passed(own, *spot, names, None, &mut taken));
        }
        for ((spot, udp), forward) in forwards {
            let mut lines = Vec::new();
            for address in self.listen_addresses(spot) {
                let words = std::iter::once(address.as_str());
                let udp = udp.then_some("udp");
                lines.push(own.line("listen", words.chain(udp).chain(forward.options.iter().map(String::as_str))));
            }
            lines.extend(forward.lines);
            out.push(own.block::<&str>("server", [], lines));
        }
        out
    }

    /// A port with names that are passed through: its server gives each connection to a listener inside. That of `http`, or the
    /// one of `stream` with the names in `ended`, ends TLS; another one of `stream` is for the names. No connection is between
    /// them, so all see the client's address.
    fn write_passed(
        &mut self,
        own: Origin,
        spot: Spot,
        names: &Names,
        ended: Option<(&BTreeSet<String>, &str)>,
        taken: &mut BTreeSet<u16>,
    ) -> Vec<Directive> {
        let (next, table) = (table_of("next", spot), table_of("passed", spot));
        // For the servers of `http`, which share no port with those in `ended`.
        let inner = if ended.is_none() { take_port(spot.1, taken) } else { spot.1 };
        let inside = format!("127.0.0.1:{}", take_port(inner, taken));
        let mut nexts = vec![own.line::<&str>("hostnames", [])];
        let mut upstreams = nexts.clone();
        for (host, (owner, upstream)) in names {
            let origin = self.origin(owner);
            let name = if host.is_empty() { "default" } else { host.as_str() };
            nexts.push(origin.line(name, [&inside]));
            upstreams.push(origin.line(name, [upstream.as_deref().unwrap_or_default()]));
        }
        if let Some((ended, address)) = ended {
            let exact = ended.iter().filter(|host| !host.is_empty() && !names.contains_key(*host));
            nexts.extend(exact.map(|host| own.line(host, [address])));
            if !names.contains_key("") {
                nexts.push(own.line("default", [address]));
            }
        } else if self.has_port(spot) && !names.contains_key("") {
            self.put_behind(spot, inner);
            nexts.push(own.line("default", [format!("127.0.0.1:{inner}")]));
        }
        let addresses = self.listen_addresses(spot);
        let mut outer: Vec<_> = addresses.iter().map(|address| own.line("listen", [address])).collect();
        outer.push(own.line("ssl_preread", ["on"]));
        outer.push(own.line("pass", [&next]));
        let inner =
            vec![own.line("listen", [&inside]), own.line("ssl_preread", ["on"]), own.line("proxy_pass", [&table])];
        vec![
            own.block("map", ["$ssl_preread_server_name", next.as_str()], nexts),
            own.block("map", ["$ssl_preread_server_name", table.as_str()], upstreams),
            own.block::<&str>("server", [], outer),
            own.block::<&str>("server", [], inner),
        ]
    }
}

/// The servers of a port where TLS ends. The last one refuses the names that none has; it would otherwise be the first one.
fn write_ended(own: Origin, addresses: &[String], ended: &Ended) -> Vec<Directive> {
    let listens = |origin: Origin, words: &'static [&'static str]| {
        addresses
            .iter()
            .map(move |address| origin.line("listen", std::iter::once(address.as_str()).chain(words.iter().copied())))
    };
    let servers = ended.servers.iter().map(|(origin, lines)| {
        let lines = listens(*origin, &["ssl"]).chain(lines.iter().cloned()).collect();
        origin.block::<&str>("server", [], lines)
    });
    // Each server needs a handler, even if no connection reaches it.
    let refusal = [own.line("ssl_reject_handshake", ["on"]), own.line("return", [""])];
    let refusing = listens(own, &["ssl", "default_server"]).chain(refusal).collect();
    servers.chain([own.block::<&str>("server", [], refusing)]).collect()
}

/// The next lower port that nothing listens on: 442 for 443, as in ingress-nginx. Ports above would meet those that the
/// system gives to connections.
fn take_port(port: u16, taken: &mut BTreeSet<u16>) -> u16 {
    let free = (1..port).rev().find(|port| !taken.contains(port)).unwrap_or(1);
    taken.insert(free);
    free
}

/// The variable with what belongs to a server name.
fn table_of(what: &str, (address, port): Spot) -> String {
    match address {
        None => format!("$hf_{what}_{port}"),
        Some(address) => {
            let address = address.to_string().replace(['.', ':'], "_");
            format!("$hf_{what}_{address}_{port}")
        }
    }
}
