//! Who the client is, and what the limits said to it.

use crate::registry::limit_zones::Limited;
use reactor::PeerAddress;

/// What was found out before a request's content.
#[derive(Default)]
pub(crate) struct Admission {
    /// The client whom a trusted proxy has named.
    pub(crate) real_client: Option<Box<PeerAddress>>,
    /// What `limit_req` and `limit_conn` said; `None` until they are asked.
    pub(crate) limited: Option<Box<Limited>>,
}

impl Admission {
    /// What a subrequest begins with: limits that were asked are not asked again, and the permits stay here.
    pub(crate) fn inherited(&self) -> Self {
        let asked = |limited: &Limited| {
            Box::new(Limited { requests: limited.requests, connections: limited.connections, permits: Vec::new() })
        };
        Self { real_client: self.real_client.clone(), limited: self.limited.as_deref().map(asked) }
    }
}
