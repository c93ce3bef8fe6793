//! The access rules of a location, and the proxies that it trusts for the client's address.

use crate::plan::auth_jwt::JwtPlan;
use crate::plan::files::PathPlan;
use conf::model::{AccessRule, Satisfy};
use conf::value::CidrPattern;
use reactor::PeerAddress;
use rules::forwarded::Hop;
use rules::template::Template;
use rules::variable::Slot;
use std::sync::Arc;
use std::time::Duration;

/// The checks of a location.
pub(crate) struct AccessPlan {
    /// Whether all checks must pass, or one is enough.
    pub(crate) satisfy: Satisfy,
    /// `allow` and `deny`, in order.
    pub(crate) rules: Vec<AccessRule>,
    /// `auth_basic`
    pub(crate) basic: Option<BasicPlan>,
    /// `auth_jwt`
    pub(crate) jwt: Option<Box<JwtPlan>>,
    /// `auth_request`
    pub(crate) request: Option<AuthRequestPlan>,
    /// `auth_delay`: how long a 401 is delayed.
    pub(crate) delay: Duration,
}

/// `auth_basic`: a name and a password decide.
pub(crate) struct BasicPlan {
    /// If its value is `off`, no password is asked for.
    pub(crate) realm: Template,
    /// `auth_basic_user_file`
    pub(crate) users: PathPlan,
}

/// `auth_request`: a subrequest decides.
pub(crate) struct AuthRequestPlan {
    /// The URI of the subrequest.
    pub(crate) uri: Box<[u8]>,
    /// `auth_request_set`
    pub(crate) sets: Arc<[SlotValue]>,
}

/// A variable and its new value.
#[derive(Debug)]
pub(crate) struct SlotValue {
    pub(crate) slot: Slot,
    pub(crate) value: Template,
}

/// How links of a location are protected.
pub(crate) enum LinkPlan {
    /// `secure_link` and `secure_link_md5`
    Checksum { value: Template, text: Template },
    /// `secure_link_secret`
    Secret(Box<[u8]>),
}

/// `mirror`: where copies of requests go.
pub(crate) struct MirrorPlan {
    pub(crate) uris: Vec<Box<[u8]>>,
    /// `mirror_request_body`
    pub(crate) with_body: bool,
}

/// Trusted proxies, and where they state the client's address.
pub(crate) struct RealIpPlan {
    /// Names were looked up when the configuration was loaded.
    pub(crate) trusted: Vec<CidrPattern>,
    pub(crate) source: RealIpSource,
    pub(crate) recursive: bool,
}

impl RealIpPlan {
    pub(crate) fn trusts(&self, hop: Hop) -> bool {
        self.trusted.iter().any(|one| match (one, hop) {
            (CidrPattern::All, _) | (CidrPattern::Unix, None) => true,
            (CidrPattern::Network(network), Some(ip)) => network.contains(ip),
            (CidrPattern::Unix | CidrPattern::Network(_) | CidrPattern::Name(..), _) => false,
        })
    }
}

/// Where the client's address is read from.
pub(crate) enum RealIpSource {
    /// In the first field of this name.
    Field(Box<[u8]>),
    /// In all fields `X-Forwarded-For`, from the last to the first.
    ForwardedFor,
    /// In the header of the PROXY protocol.
    ProxyProtocol,
}

/// The verdict of the first rule that matches the client; `None` if none does.
pub(crate) fn permits(rules: &[AccessRule], client: &PeerAddress) -> Option<bool> {
    let matches = |rule: &&AccessRule| match (&rule.who, client) {
        (CidrPattern::All, _) | (CidrPattern::Unix, PeerAddress::Unix(_)) => true,
        (CidrPattern::Network(network), PeerAddress::Ip(address)) => network.contains(address.ip()),
        (CidrPattern::Unix | CidrPattern::Network(_) | CidrPattern::Name(..), _) => false,
    };
    rules.iter().find(matches).map(|rule| rule.allow)
}
