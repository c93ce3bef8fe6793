//! `sticky`: a group's settings for sessions.

use conf::diagnostic::Diagnostic;
use conf::source::Span;
use reactor::PeerAddress;
use rules::template::Template;
use rules::variable::FieldName;
use std::time::Duration;
use upstream::balance::SessionKey;

/// Whether browsers know this value of `SameSite`.
pub(crate) fn is_same_site(value: &[u8]) -> bool {
    [&b"strict"[..], b"lax", b"none"].iter().any(|known| value.eq_ignore_ascii_case(known))
}

/// `sticky`.
pub(crate) enum StickyPlan {
    Cookie(Box<CookiePlan>),
    /// The first template with a value that is not empty names the peer.
    Route(Vec<Template>),
    Learn(Box<LearnPlan>),
    /// A response field names the peer, and a request field brings it back.
    Header {
        name: FieldName,
        written: Box<[u8]>,
    },
}

impl StickyPlan {
    /// The zone of `sticky learn`.
    pub(crate) fn zone(&self) -> Option<&str> {
        match self {
            Self::Learn(learn) => Some(&learn.zone),
            _ => None,
        }
    }
}

/// The error for a zone with sessions of another group: they refer to that group's peers.
pub(crate) fn zone_of_another(zone: &str, span: Span) -> Diagnostic {
    Diagnostic::error(span, format!("the zone \"{zone}\" of \"sticky learn\" belongs to another upstream"))
}

/// `sticky cookie`.
pub(crate) struct CookiePlan {
    pub(crate) name: Box<[u8]>,
    /// Lifetime; `Duration::MAX` for ever.
    pub(crate) expires: Option<Duration>,
    pub(crate) domain: Option<Template>,
    pub(crate) path: Option<Template>,
    pub(crate) samesite: Option<Template>,
    pub(crate) httponly: bool,
    pub(crate) secure: bool,
}

/// `sticky learn`.
pub(crate) struct LearnPlan {
    pub(crate) create: Vec<Template>,
    pub(crate) lookup: Vec<Template>,
    /// All groups and configurations with this zone share one table of sessions.
    pub(crate) zone: String,
    pub(crate) zone_bytes: u64,
    pub(crate) timeout: Duration,
    /// Sessions are learned when the head comes, not at the end of the response.
    pub(crate) at_header: bool,
}

/// The digest that identifies a session.
pub(crate) fn session_key(name: &[u8]) -> SessionKey {
    use md5::Digest as _;
    u128::from_be_bytes(md5::Md5::digest(name).into())
}

/// How a session names a peer: by its `route`, or by a digest of its address.
pub(crate) fn sid(route: Option<&str>, address: &PeerAddress) -> Vec<u8> {
    use md5::Digest as _;
    if let Some(route) = route.filter(|route| !route.is_empty()) {
        return route.as_bytes().to_vec();
    }
    let digest = md5::Md5::digest(address.to_string());
    format!("{:032x}", u128::from_be_bytes(digest.into())).into_bytes()
}
