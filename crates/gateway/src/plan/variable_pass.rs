//! `proxy_pass` with variables: parses the URL, and tells whether it names a group of the configuration.

use crate::base::logs::error::quoted;
use crate::plan::group::GroupUseId;
use crate::plan::name::ResolverPlan;
use crate::plan::proxy::ProxyId;
use conf::model::Scheme;
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
    /// Targets for plain URLs; `None` if the template begins with the other scheme.
    pub(crate) plain: Option<PassTargets>,
    /// The same for `https`.
    pub(crate) secure: Option<PassTargets>,
    pub(crate) resolver: Option<Arc<ResolverPlan>>,
}

/// The targets for URLs with one scheme.
pub(crate) struct PassTargets {
    /// For hosts that are no group of the configuration; its own group has no peers.
    pub(crate) other: ProxyId,
    pub(crate) known: Vec<KnownGroup>,
    pub(crate) guests: GuestsId,
}

/// A group that the URL may name.
pub(crate) struct KnownGroup {
    /// In lower case.
    pub(crate) name: Box<str>,
    /// `None` for an `upstream {}`, which has no port.
    pub(crate) port: Option<u16>,
    pub(crate) proxy: ProxyId,
}

/// A parsed URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PassUrl {
    pub(crate) scheme: Scheme,
    /// Host and port as they were written: `$proxy_host`.
    pub(crate) host_text: Vec<u8>,
    pub(crate) host: Host,
    pub(crate) port: Option<u16>,
    /// The URI part; empty for none.
    pub(crate) uri: Vec<u8>,
}

/// The bit of a place that marks the scheme `https`.
const SECURE: u16 = 1 << 15;

impl PassUrl {
    /// Parses a URL. The error is nginx's phrase.
    pub(crate) fn parse(url: &[u8]) -> Result<Self, String> {
        let begins =
            |scheme: &str| url.get(..scheme.len()).is_some_and(|text| text.eq_ignore_ascii_case(scheme.as_bytes()));
        let (scheme, length) = match () {
            () if begins("http://") => (Scheme::Http, 7),
            () if begins("https://") => (Scheme::Https, 8),
            () if begins("fastcgi://") => (Scheme::Fastcgi, 10),
            () if begins("scgi://") => (Scheme::Scgi, 7),
            // The variable may contain a scheme, after the one that is added to an address written without it.
            () if begins("uwsgi://suwsgi://") => (Scheme::Suwsgi, 17),
            () if begins("uwsgi://uwsgi://") => (Scheme::Uwsgi, 16),
            () if begins("uwsgi://") => (Scheme::Uwsgi, 8),
            () if begins("suwsgi://") => (Scheme::Suwsgi, 9),
            // As above.
            () if begins("grpc://grpcs://") => (Scheme::Grpcs, 15),
            () if begins("grpc://grpc://") => (Scheme::Grpc, 14),
            () if begins("grpc://") => (Scheme::Grpc, 7),
            () if begins("grpcs://") => (Scheme::Grpcs, 8),
            () => return Err(format!("invalid URL prefix in \"{}\"", quoted(url))),
        };
        let rest = &url[length..];
        let parsed = parse_url(rest).map_err(|reason| format!("{reason} in upstream \"{}\"", quoted(rest)))?;
        let uri = match parsed.uri.first() {
            Some(b'?') => [b"/", parsed.uri].concat(),
            _ => parsed.uri.to_vec(),
        };
        let host_text = match parsed.host {
            Host::Unix(_) => b"localhost".to_vec(),
            _ => rest[..rest.len() - parsed.uri.len()].to_vec(),
        };
        let is_application = scheme.default_port().is_none() && !scheme.is_grpc();
        let host_text = if is_application { rest.to_vec() } else { host_text };
        Ok(Self { scheme, host_text, host: parsed.host, port: parsed.port, uri })
    }

    /// The port; without one, the scheme's default.
    pub(crate) fn port(&self) -> Option<u16> {
        self.port.or(self.scheme.default_port())
    }
}

impl VariablePassPlan {
    /// The proxy with this index: 0 for hosts that are no group of the configuration.
    pub(crate) fn proxy(&self, place: u16) -> Option<ProxyId> {
        let targets = if place & SECURE == 0 { &self.plain } else { &self.secure };
        targets.as_ref()?.proxy(place & !SECURE)
    }

    /// The targets for URLs with a scheme.
    pub(crate) fn targets(&self, scheme: Scheme) -> Option<&PassTargets> {
        match scheme {
            Scheme::Https | Scheme::Suwsgi | Scheme::Grpcs => self.secure.as_ref(),
            Scheme::Http | Scheme::Fastcgi | Scheme::Scgi | Scheme::Uwsgi | Scheme::Memcached | Scheme::Grpc => {
                self.plain.as_ref()
            }
        }
    }

    /// The index of the proxy for a target, and whether the target is a group of the configuration.
    pub(crate) fn place(&self, target: &PassUrl) -> (u16, bool) {
        let place = self.targets(target.scheme).map_or(0, |targets| targets.place(target));
        let scheme = if target.scheme.is_secure() { SECURE } else { 0 };
        (place | scheme, place > 0)
    }
}

impl PassTargets {
    fn proxy(&self, place: u16) -> Option<ProxyId> {
        match usize::from(place).checked_sub(1) {
            None => Some(self.other),
            Some(known) => self.known.get(known).map(|known| known.proxy),
        }
    }

    fn place(&self, target: &PassUrl) -> u16 {
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
        let grpc = |url: &str| parse(url).map(|target| (target.scheme, target.port, target.host_text)).unwrap();
        assert_eq!(grpc("grpc://a:1"), (Scheme::Grpc, Some(1), b"a:1".to_vec()));
        assert_eq!(grpc("grpc://GRPCS://a:1"), (Scheme::Grpcs, Some(1), b"a:1".to_vec()));
        assert_eq!(grpc("grpc://grpc://a"), (Scheme::Grpc, None, b"a".to_vec()));
        assert_eq!(grpc("grpcs://unix:/a.sock"), (Scheme::Grpcs, None, b"localhost".to_vec()));
        let secure = parse("HTTPS://a/").unwrap();
        assert_eq!((secure.scheme, secure.port(), &secure.host_text[..]), (Scheme::Https, Some(443), &b"a"[..]));
    }
}
