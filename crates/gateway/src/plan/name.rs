//! Names that are looked up at run time, and their name servers.

use std::net::SocketAddr;
use std::sync::Arc;

/// `resolver` with its `resolver_timeout`. Equal ones share their cache.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ResolverPlan {
    /// Name servers, in order.
    pub servers: Vec<SocketAddr>,
    /// `valid=` in milliseconds: how long an answer is valid, in place of its TTL.
    pub valid_ms: Option<u64>,
    /// Whether IPv4 addresses are looked up.
    pub ipv4: bool,
    /// Whether IPv6 addresses are looked up.
    pub ipv6: bool,
    /// `resolver_timeout` in milliseconds: longest duration of a lookup.
    pub timeout_ms: u64,
    /// `status_zone=`: the name under which its lookups are counted.
    pub zone: Option<Box<str>>,
}

/// A name to be looked up.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Question {
    /// The resolver to ask.
    pub resolver: Arc<ResolverPlan>,
    /// In lower case, without the root's dot.
    pub name: Box<str>,
    /// `service=`: looks up SRV records of this service, then the addresses of their targets.
    pub service: Option<Box<str>>,
}
