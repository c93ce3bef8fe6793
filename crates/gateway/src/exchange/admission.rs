//! The client's address, and the results of the limits.

use crate::exchange::Exchange;
use crate::registry::limit_zones::Limited;
use reactor::PeerAddress;

/// What was found out before a request's content.
#[derive(Default)]
pub(crate) struct Admission {
    /// The client that a trusted proxy has named.
    pub(crate) real_client: Option<Box<PeerAddress>>,
    /// The results of `limit_req` and `limit_conn`; `None` until they are checked.
    pub(crate) limited: Option<Box<Limited>>,
}

impl Admission {
    /// The start value of a subrequest: limits already checked are not checked again, and the permits stay here.
    pub(crate) fn inherited(&self) -> Self {
        let asked = |limited: &Limited| {
            Box::new(Limited { requests: limited.requests, connections: limited.connections, permits: Vec::new() })
        };
        Self { real_client: self.real_client.clone(), limited: self.limited.as_deref().map(asked) }
    }
}

impl Exchange {
    /// The client's address: of the connection, or as a trusted proxy reported it.
    pub(crate) fn client(&self) -> &PeerAddress {
        self.admission.real_client.as_deref().unwrap_or(self.down.peer())
    }
}
