//! Servers and locations of `http`.

use super::Assembly;
use crate::tree::Origin;
use crate::{Level, ObjectName};
use conf::tree::Directive;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

/// A server of the assembly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ServerId(usize);

/// A port that a server listens on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Listen {
    /// The port.
    pub(crate) port: u16,
    /// TLS.
    pub(crate) tls: bool,
}

/// What can be listened on once: an address, or those of the settings, and a port.
pub(crate) type Spot = (Option<IpAddr>, u16);

/// Another object was first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Conflict {
    /// The object that has it.
    pub(crate) winner: ObjectName,
    /// What is taken.
    pub(crate) what: String,
}

/// What a location matches.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Matcher {
    /// `= path`
    Exact(String),
    /// `path`, by bytes: the caller makes two of them for a prefix by elements.
    Prefix(String),
    /// `~* pattern`
    CaselessRegex(String),
    /// `@name`
    Named(String),
}

/// A location under construction.
#[derive(Debug)]
pub(crate) struct LocationDraft {
    /// What it matches.
    pub(crate) matcher: Matcher,
    /// The object that it is from.
    pub(crate) owner: ObjectName,
    origin: Origin,
    /// Its lines.
    pub(crate) directives: Vec<Directive>,
}

/// A server under construction.
#[derive(Debug)]
pub(crate) struct ServerDraft {
    /// The object that asked first.
    pub(crate) owner: ObjectName,
    origin: Origin,
    /// The host; empty for all hosts that no other server has.
    pub(crate) host: String,
    /// Further names.
    pub(crate) aliases: Vec<String>,
    /// One address, of a Gateway; `None`: those of the settings.
    address: Option<IpAddr>,
    listens: Vec<Listen>,
    /// Paths of certificate and key, for ports with TLS; without, the default certificate.
    pub(crate) certificate: Option<(String, String)>,
    /// Lines besides `listen`, `server_name` and the certificate.
    pub(crate) directives: Vec<Directive>,
    locations: Vec<LocationDraft>,
    taken: BTreeMap<Matcher, usize>,
}

impl ServerDraft {
    /// A new location, or the object that has one for the same requests.
    pub(crate) fn location(
        &mut self,
        matcher: Matcher,
        owner: &ObjectName,
        origin: Origin,
    ) -> Result<&mut LocationDraft, Conflict> {
        if let Some(index) = self.taken.get(&matcher) {
            let winner = self.locations.get(*index).map_or(&self.owner, |location| &location.owner).clone();
            return Err(Conflict { winner, what: format!("the path of host \"{}\"", self.host) });
        }
        let index = self.locations.len();
        self.taken.insert(matcher.clone(), index);
        self.locations.push(LocationDraft { matcher, owner: owner.clone(), origin, directives: Vec::new() });
        Ok(&mut self.locations[index])
    }

    /// Whether there is a location for this.
    pub(crate) fn has(&self, matcher: &Matcher) -> bool {
        self.taken.contains_key(matcher)
    }
}

/// The servers so far.
#[derive(Default)]
pub(super) struct Servers {
    drafts: Vec<ServerDraft>,
    /// By port and name, in lower case.
    names: BTreeMap<(Spot, String), usize>,
    /// Whether a port has TLS, and the object that said so first.
    ports: BTreeMap<Spot, (bool, ObjectName)>,
    /// Options of `listen` and lines of the server, for ports that need some.
    options: BTreeMap<u16, Vec<String>>,
    /// Ports that are not opened to all but by the `stream` server before them: (address, port).
    inner: BTreeMap<Spot, u16>,
}

impl Assembly<'_> {
    /// The server for a host on these ports. Objects that ask for the same host on the same ports share it.
    pub(crate) fn server(&mut self, listens: &[Listen], host: &str, owner: &ObjectName) -> Result<ServerId, Conflict> {
        self.server_at(None, listens, host, owner)
    }

    /// The same at one address only.
    pub(crate) fn server_at(
        &mut self,
        address: Option<IpAddr>,
        listens: &[Listen],
        host: &str,
        owner: &ObjectName,
    ) -> Result<ServerId, Conflict> {
        let host = host.to_ascii_lowercase();
        for listen in listens {
            let (tls, winner) =
                self.servers.ports.entry((address, listen.port)).or_insert_with(|| (listen.tls, owner.clone()));
            if *tls != listen.tls {
                let what = format!("port {}, with another protocol", listen.port);
                return Err(Conflict { winner: winner.clone(), what });
            }
        }
        let found: Vec<Option<usize>> = listens
            .iter()
            .map(|listen| self.servers.names.get(&((address, listen.port), host.clone())).copied())
            .collect();
        if let Some(index) = found.iter().flatten().next().copied() {
            let draft = &self.servers.drafts[index];
            return if draft.listens == listens && draft.host == host {
                Ok(ServerId(index))
            } else {
                Err(Conflict { winner: draft.owner.clone(), what: format!("host \"{host}\"") })
            };
        }
        let index = self.servers.drafts.len();
        for listen in listens {
            self.servers.names.insert(((address, listen.port), host.clone()), index);
        }
        let origin = self.origin(owner);
        self.servers.drafts.push(ServerDraft {
            owner: owner.clone(),
            origin,
            host,
            aliases: Vec::new(),
            address,
            listens: listens.to_vec(),
            certificate: None,
            directives: Vec::new(),
            locations: Vec::new(),
            taken: BTreeMap::new(),
        });
        Ok(ServerId(index))
    }

    /// Ends the work on a server's locations. Returns its lines, with those of its locations.
    pub(crate) fn seal(&mut self, id: ServerId) -> Vec<Directive> {
        let draft = self.server_mut(id);
        draft.directives.extend(std::mem::take(&mut draft.locations).into_iter().map(write_location));
        draft.directives.clone()
    }

    /// A server to write to.
    pub(crate) fn server_mut(&mut self, id: ServerId) -> &mut ServerDraft {
        &mut self.servers.drafts[id.0]
    }

    /// Gives a server a further name, unless another server has it.
    pub(crate) fn alias(&mut self, id: ServerId, name: &str) -> Result<(), Conflict> {
        let name = name.to_ascii_lowercase();
        let listens = self.servers.drafts[id.0].listens.clone();
        let address = self.servers.drafts[id.0].address;
        for listen in &listens {
            if let Some(index) = self.servers.names.get(&((address, listen.port), name.clone())) {
                if *index == id.0 {
                    return Ok(());
                }
                let winner = self.servers.drafts[*index].owner.clone();
                return Err(Conflict { winner, what: format!("host \"{name}\"") });
            }
        }
        for listen in &listens {
            self.servers.names.insert(((address, listen.port), name.clone()), id.0);
        }
        self.servers.drafts[id.0].aliases.push(name);
        Ok(())
    }

    /// Whether a host has a server on a port.
    pub(crate) fn has_host(&self, port: u16, host: &str) -> bool {
        self.servers.names.contains_key(&((None, port), host.to_ascii_lowercase()))
    }

    /// Options of all listeners of a port, such as `proxy_protocol`.
    pub(crate) fn listen_options(&mut self, port: u16, options: &[&str]) {
        self.servers.options.insert(port, options.iter().map(|option| (*option).to_owned()).collect());
    }

    /// Puts the servers of a port behind the `stream` server that has it: they listen on the loopback at another port.
    pub(super) fn put_behind(&mut self, spot: Spot, inner: u16) {
        self.servers.inner.insert(spot, inner);
    }

    /// Whether a server listens on the port.
    pub(crate) fn has_port(&self, spot: Spot) -> bool {
        self.servers.ports.contains_key(&spot)
    }

    /// The ports of all servers, at any address.
    pub(super) fn server_ports(&self) -> impl Iterator<Item = u16> + '_ {
        self.servers.ports.keys().map(|(_, port)| *port)
    }

    /// Says that an object came second.
    pub(crate) fn report(&mut self, loser: &ObjectName, conflict: &Conflict) {
        let message = format!("{} already has {}", conflict.winner, conflict.what);
        self.find(loser, Level::Refused, "Conflict", message);
    }

    /// Every port has a server for hosts that no object names.
    pub(super) fn default_servers(&mut self) {
        let owner = self.own_name();
        let settings = self.settings;
        let own = [(settings.http_port, false), (settings.https_port, true)];
        for (port, tls) in own {
            self.servers.ports.entry((None, port)).or_insert_with(|| (tls, owner.clone()));
        }
        let ports: Vec<_> = self
            .servers
            .ports
            .iter()
            .map(|((address, port), (tls, _))| (*address, Listen { port: *port, tls: *tls }))
            .collect();
        for (address, listen) in ports {
            if self.servers.names.contains_key(&((address, listen.port), String::new())) {
                continue;
            }
            let Ok(id) = self.server_at(address, &[listen], "", &owner) else { continue };
            let origin = self.own();
            self.server_mut(id).directives.push(origin.line("return", ["404"]));
        }
    }

    pub(super) fn write_servers(&mut self, own: Origin, servers: Servers) -> Vec<Directive> {
        let default = self.default_certificate();
        let Servers { drafts, options, inner, .. } = servers;
        let mut out = Vec::with_capacity(drafts.len());
        for draft in drafts {
            let mut lines = Vec::new();
            for listen in &draft.listens {
                let options = options.get(&listen.port).map_or(&[][..], Vec::as_slice);
                let spot = (draft.address, listen.port);
                let inner = inner.get(&spot);
                lines.extend(self.listen_lines(own, (spot, listen.tls), draft.host.is_empty(), options, inner));
            }
            // The callers checked the names; `""` is a request without a Host field.
            let host = if draft.host.is_empty() { "_" } else { draft.host.as_str() };
            let names = std::iter::once(host).chain(draft.aliases.iter().map(String::as_str));
            lines.push(draft.origin.line("server_name", names));
            if draft.listens.iter().any(|listen| listen.tls) {
                let (certificate, key) = draft.certificate.as_ref().unwrap_or(&default);
                lines.push(draft.origin.line("ssl_certificate", [certificate]));
                lines.push(draft.origin.line("ssl_certificate_key", [key]));
            }
            lines.extend(draft.directives);
            lines.extend(draft.locations.into_iter().map(write_location));
            out.push(draft.origin.block::<&str>("server", [], lines));
        }
        out
    }

    fn listen_lines(
        &self,
        own: Origin,
        (spot, tls): (Spot, bool),
        is_default: bool,
        options: &[String],
        inner: Option<&u16>,
    ) -> Vec<Directive> {
        let mut words: Vec<&str> = Vec::new();
        if is_default {
            words.push("default_server");
        }
        if tls {
            words.push("ssl");
        }
        if let Some(inner) = inner {
            let address = format!("127.0.0.1:{inner}");
            return vec![own.line("listen", std::iter::once(address.as_str()).chain(words))];
        }
        words.extend(options.iter().map(String::as_str));
        let addresses = self.listen_addresses(spot);
        addresses
            .iter()
            .map(|address| own.line("listen", std::iter::once(address.as_str()).chain(words.clone())))
            .collect()
    }

    /// What `listen` has for a port.
    pub(crate) fn listen_addresses(&self, (address, port): Spot) -> Vec<String> {
        if let Some(address) = address {
            return vec![SocketAddr::new(address, port).to_string()];
        }
        if self.settings.listen_addresses.is_empty() {
            return vec![port.to_string(), format!("[::]:{port}")];
        }
        let addresses = self.settings.listen_addresses.iter();
        addresses.map(|address| SocketAddr::new(*address, port).to_string()).collect()
    }
}

fn write_location(draft: LocationDraft) -> Directive {
    let origin = draft.origin;
    let mut args = Vec::with_capacity(2);
    match &draft.matcher {
        Matcher::Exact(path) => args.extend([origin.bare("="), origin.word(path)]),
        Matcher::Prefix(path) => args.push(origin.word(path)),
        Matcher::CaselessRegex(pattern) => args.extend([origin.bare("~*"), origin.word(pattern)]),
        Matcher::Named(name) => args.push(origin.word(name)),
    }
    Directive { args, ..origin.block::<&str>("location", [], draft.directives) }
}
