//! Where `proxy_pass` leads: a group of peers, written as an `upstream {}` or implied by a host and port. Rules ask here how many
//! connections are kept for it, who its peers are, and which lines send requests to it.

use crate::configuration::{Configuration, Found, argument, is, number, seconds};
use crate::dialect::Dialect;
use conf::tree::Directive;
use std::net::{IpAddr, SocketAddr};

/// `keepalive` where an `upstream {}` says nothing, since 1.29.7.
const KEPT_DEFAULT: u64 = 32;
/// `keepalive_timeout` of an `upstream {}` if it is not set.
const IDLE_DEFAULT_SECONDS: u64 = 60;

/// A group that at least one `proxy_pass` leads to.
#[derive(Debug)]
pub struct Group<'a> {
    /// As `proxy_pass` has it: the name of an `upstream {}`, or host and port.
    pub name: String,
    /// Its block, unless it is implied.
    pub upstream: Option<&'a Directive>,
    /// The lines that lead to it, in the order of the text.
    pub passes: Vec<Found<'a>>,
}

/// All groups, in the order in which `proxy_pass` names them first. Where variables decide, there is none to be named.
pub fn groups(configuration: &Configuration) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for pass in configuration.all("proxy_pass") {
        let Some(name) = argument(pass.directive, 0).and_then(|target| group_of(&target)) else { continue };
        if let Some(known) = groups.iter_mut().find(|group| group.name == name) {
            known.passes.push(pass);
        } else {
            groups.push(Group { upstream: configuration.upstream(&name), name, passes: vec![pass] });
        }
    }
    groups
}

/// The host and port between the scheme and the URI. `None` where variables decide, and for Unix sockets.
pub fn group_of(target: &str) -> Option<String> {
    let rest = target.strip_prefix("http://").or_else(|| target.strip_prefix("https://"))?;
    if rest.starts_with("unix:") || rest.contains('$') {
        return None;
    }
    Some(rest.split('/').next().unwrap_or(rest).to_owned())
}

/// How many idle connections an `upstream {}` keeps for each worker.
pub fn kept(dialect: Dialect, upstream: &Directive) -> u64 {
    match setting(upstream, "keepalive") {
        Some(directive) => number(directive, 0).unwrap_or(0),
        None if dialect.pools_by_default() => KEPT_DEFAULT,
        None => 0,
    }
}

/// The directive in the block that counts.
pub fn setting<'a>(block: &'a Directive, name: &str) -> Option<&'a Directive> {
    block.block.as_deref()?.directives.iter().rev().find(|directive| is(directive, name))
}

/// A host without its port: `[::1]:80` and `::1` alike.
pub fn host_of(authority: &str) -> &str {
    if let Some(rest) = authority.strip_prefix('[') {
        return rest.split(']').next().unwrap_or(rest);
    }
    match authority.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') && port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    }
}

/// Whether it is an address rather than a name that somebody has to look up.
pub fn is_address(host: &str) -> bool {
    host.parse::<IpAddr>().is_ok() || host == "localhost" || host.starts_with("unix:")
}

impl<'a> Group<'a> {
    /// How many idle connections are kept for each worker; an implied group keeps none.
    pub fn kept(&self, dialect: Dialect) -> u64 {
        self.upstream.map_or(0, |upstream| kept(dialect, upstream))
    }

    /// Seconds after which an idle connection is closed from here, and the line that says so.
    pub fn idle_seconds(&self) -> (u64, Option<&'a Directive>) {
        let said = self.upstream.and_then(|upstream| setting(upstream, "keepalive_timeout"));
        (said.and_then(|directive| seconds(directive, 0)).unwrap_or(IDLE_DEFAULT_SECONDS), said)
    }

    /// Whether all that goes there asks to become a tunnel.
    pub fn is_for_tunnels(&self) -> bool {
        self.passes.iter().all(Found::upgrades)
    }

    /// The `server` lines; none where the group is implied.
    pub fn servers(&self) -> Vec<&'a Directive> {
        let block = self.upstream.and_then(|upstream| upstream.block.as_deref());
        block.map(|block| block.directives.iter().filter(|line| is(line, "server")).collect()).unwrap_or_default()
    }

    /// How many peers there are at least: names count once each, and those marked `down` do not count.
    pub fn peers(&self) -> u64 {
        let up = |server: &&&Directive| !server.args.iter().any(|word| word.value == *b"down");
        (self.servers().iter().filter(up).count() as u64).max(1)
    }

    /// The addresses that are written as numbers, with their ports.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let written = self.servers().into_iter().filter_map(|server| argument(server, 0));
        let implied = self.upstream.is_none().then(|| self.name.clone());
        written.chain(implied).filter_map(|text| address(&text)).collect()
    }

    /// Where to point: the block, or the first line that leads there.
    pub fn at(&self) -> Option<&'a Directive> {
        self.upstream.or_else(|| self.passes.first().map(|pass| pass.directive))
    }
}

/// `127.0.0.1`, `127.0.0.1:81`, `[::1]:81`, `localhost:81`; port 80 where none is given.
pub fn address(text: &str) -> Option<SocketAddr> {
    const PORT_DEFAULT: u16 = 80;
    let text = text.replacen("localhost", "127.0.0.1", usize::from(text.starts_with("localhost")));
    let plain = || host_of(&text).parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, PORT_DEFAULT));
    text.parse().ok().or_else(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports_are_told_apart() {
        for (text, host) in
            [("a.b:80", "a.b"), ("a", "a"), ("[::1]:80", "::1"), ("10.0.0.1:1", "10.0.0.1"), ("::1", "::1")]
        {
            assert_eq!(host_of(text), host);
        }
        assert_eq!(address("localhost:81"), "127.0.0.1:81".parse().ok());
        assert_eq!((address("[::1]"), address("10.0.0.1")), ("[::1]:80".parse().ok(), "10.0.0.1:80".parse().ok()));
        assert_eq!(address("api.example:80"), None);
        assert_eq!(group_of("http://api/x"), Some("api".to_owned()));
        assert_eq!((group_of("http://$host"), group_of("http://unix:/run/a")), (None, None));
    }
}
