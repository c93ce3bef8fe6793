//! What a location says about who may come in, and whose word it takes for who a client is.

use conf::model::{AccessRule, Satisfy};
use conf::value::CidrPattern;
use rules::forwarded::Hop;

/// What a location checks.
pub(crate) struct AccessPlan {
    /// Whether one check that agrees is enough.
    pub(crate) satisfy: Satisfy,
    /// `allow` and `deny`, in order.
    pub(crate) rules: Vec<AccessRule>,
}

/// Whose word is believed, and where it stands.
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

/// Where an address is said.
pub(crate) enum RealIpSource {
    /// In the first field of this name.
    Field(Box<[u8]>),
    /// In all fields `X-Forwarded-For`, from the last to the first.
    ForwardedFor,
    /// In the header of the PROXY protocol.
    ProxyProtocol,
}
