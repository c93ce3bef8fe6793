//! Names that are looked up while the gateway runs: which, and which name servers are asked.

use std::net::SocketAddr;
use std::sync::Arc;

/// `resolver` with its `resolver_timeout`. Two that are equal share what they know.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ResolverPlan {
    /// Name servers, in order.
    pub servers: Vec<SocketAddr>,
    /// `valid=` in milliseconds: how long an answer holds, whatever it says itself.
    pub valid_ms: Option<u64>,
    /// Whether IPv4 addresses are asked for.
    pub ipv4: bool,
    /// Whether IPv6 addresses are asked for.
    pub ipv6: bool,
    /// `resolver_timeout` in milliseconds: how long one lookup may take.
    pub timeout_ms: u64,
    /// `status_zone=`: under which name its lookups are counted.
    pub zone: Option<Box<str>>,
}

/// A name to be looked up.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Question {
    /// Whom to ask.
    pub resolver: Arc<ResolverPlan>,
    /// In lower case, without the root's dot.
    pub name: Box<str>,
    /// `service=`: SRV records of this service are asked for, then the addresses of their targets.
    pub service: Option<Box<str>>,
}
