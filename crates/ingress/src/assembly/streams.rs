//! TCP and UDP: servers of `stream`, and TLS that is passed through by its server name.

use super::{Assembly, Conflict, UpstreamName};
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

/// Server names with the objects that asked for them and their upstreams.
type Names = BTreeMap<String, (ObjectName, UpstreamName)>;

/// The servers of `stream` so far.
#[derive(Default)]
pub(super) struct Streams {
    /// By port and UDP.
    forwards: BTreeMap<(u16, bool), Forward>,
    /// By port: server names with their upstreams.
    passed: BTreeMap<u16, Names>,
}

impl Assembly<'_> {
    /// A server that passes a port to an upstream (of `stream`), with further lines and words of `listen`.
    pub(crate) fn forward(
        &mut self,
        owner: &ObjectName,
        (port, udp): (u16, bool),
        upstream: &UpstreamName,
        mut lines: Vec<Directive>,
        options: &[&str],
    ) -> Result<(), Conflict> {
        let what = || format!("port {port}");
        let settings = self.settings;
        if !udp && (self.has_port(port) || [settings.http_port, settings.https_port].contains(&port)) {
            return Err(Conflict { winner: self.own_name(), what: what() });
        }
        if let Some(first) = self.streams.forwards.get(&(port, udp)) {
            return Err(Conflict { winner: first.owner.clone(), what: what() });
        }
        let origin = self.origin(owner);
        lines.push(origin.line("proxy_pass", [upstream]));
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        self.streams.forwards.insert((port, udp), Forward { owner: owner.clone(), lines, options });
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
        let host = host.to_ascii_lowercase();
        let names = self.streams.passed.entry(port).or_default();
        if let Some((winner, _)) = names.get(&host) {
            return Err(Conflict { winner: winner.clone(), what: format!("host \"{host}\"") });
        }
        names.insert(host, (owner.clone(), upstream.clone()));
        Ok(())
    }

    /// Writes `stream`, and puts the TLS servers of a port behind the names that are passed through: so it comes before
    /// the servers are written.
    pub(super) fn write_streams(&mut self, own: Origin) -> Vec<Directive> {
        let mut out = std::mem::take(&mut self.stream);
        out.extend(self.upstreams.take_stream());
        let Streams { forwards, passed } = std::mem::take(&mut self.streams);
        let taken: BTreeSet<u16> = forwards.keys().map(|(port, _)| *port).chain(passed.keys().copied()).collect();
        for (port, names) in passed {
            out.extend(self.write_passed(own, port, &names, &taken));
        }
        for ((port, udp), forward) in forwards {
            let mut lines = Vec::new();
            for address in self.listen_addresses(port) {
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
    fn write_passed(&mut self, own: Origin, port: u16, names: &Names, taken: &BTreeSet<u16>) -> Vec<Directive> {
        let (next, table) = (format!("$hf_next_{port}"), format!("$hf_passed_{port}"));
        let inner = self.free_port(port, taken);
        let inside = format!("127.0.0.1:{}", self.free_port(inner, taken));
        let mut nexts = vec![own.line::<&str>("hostnames", [])];
        let mut upstreams = nexts.clone();
        for (host, (owner, upstream)) in names {
            let origin = self.origin(owner);
            let name = if host.is_empty() { "default" } else { host.as_str() };
            nexts.push(origin.line(name, [&inside]));
            upstreams.push(origin.line(name, [upstream]));
        }
        if self.has_port(port) && !names.contains_key("") {
            self.put_behind(port, inner);
            nexts.push(own.line("default", [format!("127.0.0.1:{inner}")]));
        }
        let addresses = self.listen_addresses(port);
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

    /// The next lower port that nothing listens on: 442 for 443, as in ingress-nginx. Ports above would meet those that the
    /// system gives to connections.
    fn free_port(&self, port: u16, taken: &BTreeSet<u16>) -> u16 {
        (1..port).rev().find(|port| !self.has_port(*port) && !taken.contains(port)).unwrap_or(1)
    }
}
