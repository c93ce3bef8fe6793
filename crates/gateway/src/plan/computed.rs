//! `proxy_pass` with variables: what the URL comes to, whether it is a group of the configuration, and the peers of names
//! and addresses that only a request knows. Looking a name up is the exchange's.

use crate::base::logs::error::quoted;
use crate::plan::generation::ProxyPlan;
use crate::registry::group::PeerSet;
use crate::registry::names::moving::Passing;
use crate::registry::names::{Found, ResolverPlan};
use conf::value::Host;
use conf::value::address::parse_url;
use reactor::PeerAddress;
use rules::template::Template;
use rustc_hash::FxHashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// Sets of peers that one `proxy_pass` keeps for what requests have named; beyond it, and where the pool has no number for
/// another peer, the one that nobody has used for longest goes, with its idle connections.
const SETS_MAX: usize = 1024;
/// Sets that go for one that finds no number in the pool. Those that exchanges use give nothing back; without a number it
/// works, too, but its connections are not kept.
const LOOKS_MAX: usize = 4;

/// `proxy_pass` with variables.
pub(crate) struct ComputedPlan {
    pub(crate) url: Template,
    /// For what is no group of the configuration; its own group has no peers.
    pub(crate) other: ProxyPlan,
    pub(crate) known: Vec<KnownGroup>,
    pub(crate) resolver: Option<Arc<ResolverPlan>>,
    pub(crate) passing: Passing,
    pub(crate) sets: Mutex<PassingSets>,
}

/// A group that the URL may name.
pub(crate) struct KnownGroup {
    /// In lower case.
    pub(crate) name: Box<str>,
    /// `None` for a written group, which has no port.
    pub(crate) port: Option<u16>,
    pub(crate) plan: ProxyPlan,
}

/// What a URL came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ComputedTarget {
    /// Host and port as they were written: `$proxy_host`.
    pub(crate) host_text: Vec<u8>,
    pub(crate) host: Host,
    pub(crate) port: Option<u16>,
    /// What replaces the URI; empty for none.
    pub(crate) uri: Vec<u8>,
}

/// Port of http.
pub(crate) const PORT_DEFAULT: u16 = 80;

impl ComputedTarget {
    /// Takes a URL apart. The error is nginx's phrase.
    pub(crate) fn parse(url: &[u8]) -> Result<Self, String> {
        let rest = match url.split_at_checked(7) {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case(b"http://") => rest,
            _ if url.get(..8).is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"https://")) => {
                return Err(format!("https upstreams are not supported yet: \"{}\"", quoted(url)));
            }
            _ => return Err(format!("invalid URL prefix in \"{}\"", quoted(url))),
        };
        let parsed = parse_url(rest).map_err(|reason| format!("{reason} in upstream \"{}\"", quoted(rest)))?;
        let uri = match parsed.uri.first() {
            Some(b'?') => [b"/", parsed.uri].concat(),
            _ => parsed.uri.to_vec(),
        };
        let host_text = match parsed.host {
            Host::Unix(_) => b"localhost".to_vec(),
            _ => rest[..rest.len() - parsed.uri.len()].to_vec(),
        };
        Ok(Self { host_text, host: parsed.host, port: parsed.port, uri })
    }
}

impl ComputedPlan {
    /// The proxy of that number: 0 for what is no group of the configuration.
    pub(crate) fn proxy(&self, place: u16) -> Option<&ProxyPlan> {
        match usize::from(place).checked_sub(1) {
            None => Some(&self.other),
            Some(known) => self.known.get(known).map(|known| &known.plan),
        }
    }

    /// The number of the proxy for a target.
    pub(crate) fn place(&self, target: &ComputedTarget) -> u16 {
        let Host::Name(name) = &target.host else { return 0 };
        let is = |known: &KnownGroup| *known.name == **name && known.port == target.port;
        self.known.iter().position(is).map_or(0, |place| place as u16 + 1)
    }

    /// The peers of a name, which stands for these addresses now.
    pub(crate) fn peers(&self, host: &str, port: u16, found: &Arc<[Found]>, now_ms: u64) -> Arc<PeerSet> {
        let addresses = found.iter().map(|one| SocketAddr::new(one.ip, one.port.unwrap_or(port)).into());
        self.kept_or_made((Box::from(host), port), found, &addresses, now_ms)
    }

    /// The peer that is a Unix socket.
    pub(crate) fn unix_peer(&self, path: &str, now_ms: u64) -> Arc<PeerSet> {
        let key = (format!("unix:{path}").into(), 0);
        self.kept_or_made(key, &Arc::default(), &std::iter::once(PeerAddress::Unix(path.into())), now_ms)
    }

    fn kept_or_made(
        &self,
        key: (Box<str>, u16),
        found: &Arc<[Found]>,
        addresses: &(impl Iterator<Item = PeerAddress> + Clone),
        now_ms: u64,
    ) -> Arc<PeerSet> {
        let mut sets = self.sets.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = sets.0.get_mut(&key).filter(|kept| is_same(&kept.found, found)) {
            kept.used_at_ms = now_ms;
            return Arc::clone(&kept.set);
        }
        if sets.0.len() >= SETS_MAX {
            sets.forget_oldest();
        }
        let mut set = self.passing.set(addresses.clone());
        let mut looks = 0;
        while looks < LOOKS_MAX && set.peers.iter().any(|peer| !peer.is_pooled) && sets.forget_oldest() {
            set = self.passing.set(addresses.clone());
            looks += 1;
        }
        let set = Arc::new(set);
        sets.0.insert(key, PassingSet { found: Arc::clone(found), set: Arc::clone(&set), used_at_ms: now_ms });
        set
    }
}

/// Servers rotate their answers: the order of addresses says nothing.
fn is_same(one: &Arc<[Found]>, other: &Arc<[Found]>) -> bool {
    Arc::ptr_eq(one, other) || (one.len() == other.len() && one.iter().all(|found| other.contains(found)))
}

/// Sets of peers by host and port.
#[derive(Default)]
pub(crate) struct PassingSets(FxHashMap<(Box<str>, u16), PassingSet>);

impl PassingSets {
    /// `false`: there is none.
    fn forget_oldest(&mut self) -> bool {
        let oldest = self.0.iter().min_by_key(|(_, kept)| kept.used_at_ms).map(|(key, _)| key.clone());
        oldest.is_some_and(|oldest| self.0.remove(&oldest).is_some())
    }
}

struct PassingSet {
    found: Arc<[Found]>,
    set: Arc<PeerSet>,
    used_at_ms: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_taken_apart_as_nginx_does_it() {
        let parse = |url: &str| ComputedTarget::parse(url.as_bytes());
        let target = parse("HTTP://Example.com:8080/a?b").unwrap();
        assert_eq!((target.host, target.port), (Host::Name("example.com".into()), Some(8080)));
        assert_eq!((&target.host_text[..], &target.uri[..]), (&b"Example.com:8080"[..], &b"/a?b"[..]));
        let target = parse("http://[::1]?x=1").unwrap();
        assert_eq!(
            (target.host, target.port, &target.uri[..]),
            (Host::Ip("::1".parse().unwrap()), None, &b"/?x=1"[..])
        );
        assert_eq!(parse("http://unix:/run/a.sock:/uri").unwrap().uri, b"/uri");
        assert_eq!(parse("example.com").unwrap_err(), "invalid URL prefix in \"example.com\"");
        assert_eq!(parse("http://").unwrap_err(), "no host in upstream \"\"");
        assert_eq!(parse("http://a:0/").unwrap_err(), "invalid port in upstream \"a:0/\"");
        assert!(parse("https://a/").unwrap_err().starts_with("https upstreams"));
    }
}
