//! TLS towards an upstream: with which settings, and under which name the upstream is asked for.

use crate::plan::tls::MadePairs;
use rules::template::Template;
use std::sync::Arc;
use tls::ClientSide;

/// How a proxy speaks TLS to its upstream.
#[derive(Clone)]
pub(crate) struct UpstreamTlsPlan {
    /// Whom it trusts, what it shows. The registry has one side for each identity, with the sessions that can be resumed.
    pub(crate) side: ClientSide,
    pub(crate) name: NamePlan,
    /// The certificate that requests name; `side` has none then.
    pub(crate) certificate: Option<Arc<MadePairs>>,
}

/// The name that goes into SNI and that the certificate must be for.
#[derive(Clone)]
pub(crate) enum NamePlan {
    /// It is neither sent nor verified.
    Nameless,
    /// The same for all requests.
    Fixed(Arc<str>),
    /// Each request's own, before its port is cut off.
    Made(Template),
}

/// What proxies that use each other's connections have in common of TLS.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct SharedTls {
    /// Identity of the settings.
    pub(crate) settings: Arc<[u8]>,
    pub(crate) name: SharedName,
}

/// The name that connections were opened for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum SharedName {
    Nameless,
    Fixed(Arc<str>),
    /// Each request brings its own, or its own certificate: a key of the pool for each.
    PerRequest,
}

impl UpstreamTlsPlan {
    pub(crate) fn shared(&self) -> SharedTls {
        let name = match &self.name {
            _ if self.certificate.is_some() => SharedName::PerRequest,
            NamePlan::Nameless => SharedName::Nameless,
            NamePlan::Fixed(name) => SharedName::Fixed(Arc::clone(name)),
            NamePlan::Made(_) => SharedName::PerRequest,
        };
        SharedTls { settings: Arc::clone(self.side.identity()), name }
    }
}

/// A name without its port, as nginx cuts it: behind the bracket of an IPv6 address, or at the first colon. In lower case, since names
/// have no case; `None` for what cannot be one.
pub(crate) fn without_port(name: &[u8]) -> Option<String> {
    let name = std::str::from_utf8(name).ok()?;
    let end = match name.strip_prefix('[').and_then(|rest| rest.find(']')) {
        Some(bracket) => bracket + 2,
        None => name.find(':').unwrap_or(name.len()),
    };
    name.get(..end).map(str::to_ascii_lowercase)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_is_cut_off_as_in_nginx() {
        let cut = |name: &str| without_port(name.as_bytes());
        assert_eq!(cut("App.example:8443").as_deref(), Some("app.example"));
        assert_eq!(cut("app.example").as_deref(), Some("app.example"));
        assert_eq!(cut("[::1]:8443").as_deref(), Some("[::1]"));
        assert_eq!(cut("[::1]").as_deref(), Some("[::1]"));
        assert_eq!(cut("").as_deref(), Some(""));
        assert_eq!(without_port(b"\xff"), None);
    }
}
