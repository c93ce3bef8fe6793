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

/// The servers of `stream` so far.
#[derive(Default)]
pub(super) struct Streams {
    /// By port and UDP.
    forwards: BTreeMap<(Spot, bool), Forward>,
    /// By port: server names with their upstreams.
    passed: BTreeMap<Spot, Names>,
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

    /// Writes `stream`, and puts the TLS servers of a port behind the names that are passed through: so it comes before
    /// the servers are written.
    pub(super) fn write_streams(&mut self, own: Origin) -> Vec<Directive> {
        let mut out = std::mem::take(&mut self.stream);
        out.extend(self.upstreams.take_stream());
        let Streams { forwards, passed } = std::mem::take(&mut self.streams);
        let mut taken: BTreeSet<u16> = self.server_ports().collect();
        taken.extend(forwards.keys().map(|((_, port), _)| *port));
        taken.extend(passed.keys().map(|(_, port)| *port));
        for (spot, names) in passed {
            out.extend(self.write_passed(own, spot, &names, &mut taken));
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

    /// A port with names that are passed through: its server gives each connection to a listener inside. That of `http`
    /// ends TLS; the other one is a server of `stream` for the names. No connection is between them, so both see the
    /// client's address.
    fn write_passed(&mut self, own: Origin, spot: Spot, names: &Names, taken: &mut BTreeSet<u16>) -> Vec<Directive> {
        let (next, table) = (table_of("next", spot), table_of("passed", spot));
        let inner = take_port(spot.1, taken);
        let inside = format!("127.0.0.1:{}", take_port(inner, taken));
        let mut nexts = vec![own.line::<&str>("hostnames", [])];
        let mut upstreams = nexts.clone();
        for (host, (owner, upstream)) in names {
            let origin = self.origin(owner);
            let name = if host.is_empty() { "default" } else { host.as_str() };
            nexts.push(origin.line(name, [&inside]));
            upstreams.push(origin.line(name, [upstream.as_deref().unwrap_or_default()]));
        }
        if self.has_port(spot) && !names.contains_key("") {
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
