//! `proxy_pass` whose URL has variables: what the URL comes to, and whether it is a group of the configuration.

use crate::base::logs::error::quoted;
use crate::plan::group::GroupUseId;
use crate::plan::name::ResolverPlan;
use crate::plan::proxy::ProxyId;
use conf::source::Span;
use conf::value::Host;
use conf::value::address::parse_url;
use rules::template::Template;
use std::sync::Arc;

/// Index of a [`GuestsPlan`] in its plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GuestsId(pub(crate) u32);

/// The peers of one `proxy_pass` that only requests name.
pub(crate) struct GuestsPlan {
    pub(crate) group: GroupUseId,
    pub(crate) span: Span,
}

/// `proxy_pass` with variables.
pub(crate) struct VariablePassPlan {
    pub(crate) url: Template,
    /// For what is no group of the configuration; its own group has no peers.
    pub(crate) other: ProxyId,
    pub(crate) known: Vec<KnownGroup>,
    pub(crate) resolver: Option<Arc<ResolverPlan>>,
    pub(crate) guests: GuestsId,
}

/// A group that the URL may name.
pub(crate) struct KnownGroup {
    /// In lower case.
    pub(crate) name: Box<str>,
    /// `None` for a written group, which has no port.
    pub(crate) port: Option<u16>,
    pub(crate) proxy: ProxyId,
}

/// What a URL came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PassUrl {
    /// Host and port as they were written: `$proxy_host`.
    pub(crate) host_text: Vec<u8>,
    pub(crate) host: Host,
    pub(crate) port: Option<u16>,
    /// What replaces the URI; empty for none.
    pub(crate) uri: Vec<u8>,
}

/// Port of http.
pub(crate) const PORT_DEFAULT: u16 = 80;

impl PassUrl {
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

impl VariablePassPlan {
    /// The proxy of that number: 0 for what is no group of the configuration.
    pub(crate) fn proxy(&self, place: u16) -> Option<ProxyId> {
        match usize::from(place).checked_sub(1) {
            None => Some(self.other),
            Some(known) => self.known.get(known).map(|known| known.proxy),
        }
    }

    /// The number of the proxy for a target.
    pub(crate) fn place(&self, target: &PassUrl) -> u16 {
        let Host::Name(name) = &target.host else { return 0 };
        let is = |known: &KnownGroup| *known.name == **name && known.port == target.port;
        self.known.iter().position(is).map_or(0, |place| place as u16 + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_taken_apart_as_nginx_does_it() {
        let parse = |url: &str| PassUrl::parse(url.as_bytes());
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
