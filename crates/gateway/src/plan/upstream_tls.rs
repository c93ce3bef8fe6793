//! TLS towards an upstream: its settings, and the server name.

use crate::plan::tls::MadePairs;
use rules::template::Template;
use std::sync::Arc;
use tls::ClientSide;

/// How a proxy uses TLS towards its upstream.
#[derive(Clone)]
pub(crate) struct UpstreamTlsPlan {
    /// Trusted authorities and own certificate. The registry has one side for each identity, with the sessions that can
    /// be resumed.
    pub(crate) side: ClientSide,
    pub(crate) name: NamePlan,
    /// The certificate that requests name; `side` then has none.
    pub(crate) certificate: Option<Arc<MadePairs>>,
}

/// The server name for SNI, which the certificate must match.
#[derive(Clone)]
pub(crate) enum NamePlan {
    /// No name is sent or verified.
    Nameless,
    /// The same for all requests.
    Fixed(Arc<str>),
    /// Each request has its own; the port is not removed yet.
    Made(Template),
}

/// The TLS properties that proxies sharing connections have in common.
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
    /// Each request has its own name or certificate, and each of those a key in the pool.
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

/// A name without its port, cut as in nginx: after the bracket of an IPv6 address, or at the first colon. In lower
/// case, since names have no case; `None` if it cannot be a name.
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
