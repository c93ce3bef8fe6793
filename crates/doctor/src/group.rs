//! The target of a `proxy_pass`: a group of peers, written as an `upstream {}` or implied by a host and port. Gives
//! rules the number of kept connections, the peers, and the lines that send requests to the group.

use crate::configuration::{Configuration, Found, argument, is, number, seconds};
use crate::dialect::Dialect;
use conf::tree::Directive;
use std::net::{IpAddr, SocketAddr};

/// The default of `keepalive` in an `upstream {}`, since 1.29.7.
const KEPT_DEFAULT: u64 = 32;
/// The default of `keepalive_timeout` in an `upstream {}`.
const IDLE_DEFAULT_SECONDS: u64 = 60;

/// A group that is the target of at least one `proxy_pass`.
#[derive(Debug)]
pub struct Group<'a> {
    /// The name in `proxy_pass`: that of an `upstream {}`, or host and port.
    pub name: String,
    /// Its block, unless it is implied.
    pub upstream: Option<&'a Directive>,
    /// The lines that pass requests to it, in the order of the text.
    pub passes: Vec<Found<'a>>,
}

/// All groups, in the order in which `proxy_pass` first names them, without targets that contain variables.
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

/// The host and port between the scheme and the URI. `None` for a target with variables, and for Unix sockets.
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

/// The effective directive of that name in the block.
pub fn setting<'a>(block: &'a Directive, name: &str) -> Option<&'a Directive> {
    block.block.as_deref()?.directives.iter().rev().find(|directive| is(directive, name))
}

/// A host without its port, for `[::1]:80` as well as `::1`.
pub fn host_of(authority: &str) -> &str {
    if let Some(rest) = authority.strip_prefix('[') {
        return rest.split(']').next().unwrap_or(rest);
    }
    match authority.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') && port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    }
}

/// Whether it is an address, not a name to be resolved.
pub fn is_address(host: &str) -> bool {
    host.parse::<IpAddr>().is_ok() || host == "localhost" || host.starts_with("unix:")
}

impl<'a> Group<'a> {
    /// How many idle connections are kept for each worker; an implied group keeps none.
    pub fn kept(&self, dialect: Dialect) -> u64 {
        self.upstream.map_or(0, |upstream| kept(dialect, upstream))
    }

    /// Seconds after which this side closes an idle connection, and the line that sets it.
    pub fn idle_seconds(&self) -> (u64, Option<&'a Directive>) {
        let said = self.upstream.and_then(|upstream| setting(upstream, "keepalive_timeout"));
        (said.and_then(|directive| seconds(directive, 0)).unwrap_or(IDLE_DEFAULT_SECONDS), said)
    }

    /// Whether all its requests may become tunnels.
    pub fn is_for_tunnels(&self) -> bool {
        self.passes.iter().all(Found::upgrades)
    }

    /// The `server` lines; none where the group is implied.
    pub fn servers(&self) -> Vec<&'a Directive> {
        let block = self.upstream.and_then(|upstream| upstream.block.as_deref());
        block.map(|block| block.directives.iter().filter(|line| is(line, "server")).collect()).unwrap_or_default()
    }

    /// The least number of peers: a name counts once, and a server marked `down` does not count.
    pub fn peers(&self) -> u64 {
        let up = |server: &&&Directive| !server.args.iter().any(|word| word.value == *b"down");
        (self.servers().iter().filter(up).count() as u64).max(1)
    }

    /// The peers that are written as addresses, with their ports.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let written = self.servers().into_iter().filter_map(|server| argument(server, 0));
        let implied = self.upstream.is_none().then(|| self.name.clone());
        written.chain(implied).filter_map(|text| address(&text)).collect()
    }

    /// The place for a finding: the block, or the first line that passes requests to it.
    pub fn at(&self) -> Option<&'a Directive> {
        self.upstream.or_else(|| self.passes.first().map(|pass| pass.directive))
    }
}

/// `127.0.0.1`, `127.0.0.1:81`, `[::1]:81`, `localhost:81`; port 80 if none is given.
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
    fn distinguishes_hosts_and_ports() {
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
