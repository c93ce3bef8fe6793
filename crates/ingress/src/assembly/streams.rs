//! TCP and UDP: servers of `stream`, and TLS that is passed through by its server name.

use super::{Assembly, Conflict, Spot, UpstreamName};
use crate::ObjectName;
use crate::tree::Origin;
use conf::tree::Directive;
use std::collections::BTreeMap;

/// A TCP or UDP server.
struct Forward {
    owner: ObjectName,
    lines: Vec<Directive>,
    options: Vec<String>,
}

/// The servers of `stream` so far.
#[derive(Default)]
pub(super) struct Streams {
    /// By port and UDP.
    forwards: BTreeMap<(Spot, bool), Forward>,
    /// By port: server names with their upstreams.
    passed: BTreeMap<Spot, BTreeMap<String, (ObjectName, UpstreamName)>>,
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
        self.pass_through_at(owner, (None, port), host, upstream)
    }

    /// The same at one address only.
    pub(crate) fn pass_through_at(
        &mut self,
        owner: &ObjectName,
        spot: Spot,
        host: &str,
        upstream: &UpstreamName,
    ) -> Result<(), Conflict> {
        let host = host.to_ascii_lowercase();
        let names = self.streams.passed.entry(spot).or_default();
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
        for (spot, names) in passed {
            let table = table_of(spot);
            let mut entries = vec![own.line::<&str>("hostnames", [])];
            for (host, (owner, upstream)) in &names {
                let origin = self.origin(owner);
                let name = if host.is_empty() { "default" } else { host.as_str() };
                entries.push(origin.line(name, [upstream]));
            }
            if self.has_port(spot) && !names.contains_key("") {
                let inner = self.put_behind(spot);
                entries.push(own.line("default", [format!("127.0.0.1:{inner}")]));
            }
            out.push(own.block("map", ["$ssl_preread_server_name", table.as_str()], entries));
            let addresses = self.listen_addresses(spot);
            let mut lines: Vec<_> = addresses.iter().map(|address| own.line("listen", [address])).collect();
            lines.push(own.line("ssl_preread", ["on"]));
            lines.push(own.line("proxy_pass", [table.as_str()]));
            out.push(own.block::<&str>("server", [], lines));
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
}

/// The variable with the upstream for a server name.
fn table_of((address, port): Spot) -> String {
    match address {
        None => format!("$hf_passed_{port}"),
        Some(address) => {
            let address = address.to_string().replace(['.', ':'], "_");
            format!("$hf_passed_{address}_{port}")
        }
    }
}
