//! Names that are looked up while the gateway runs: what is asked, what is known, who waits. The cache belongs to the
//! process and outlives generations. Exchanges and groups ask it; the control plane, which it does not know, sees what is
//! due, looks it up, and settles it. No socket is opened here.

pub(crate) mod cache;
pub(crate) mod keys;
pub(crate) mod moving;

pub use crate::plan::name::{Question, ResolverPlan};
pub use cache::{Due, Names};

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

/// One address of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// The address.
    pub ip: IpAddr,
    /// The port, where a SRV record gave one.
    pub port: Option<u16>,
    /// Of the SRV record; the lowest is used first. 0 without one.
    pub priority: u16,
    /// Of the SRV record; 0 without one.
    pub weight: u16,
}

/// Why a name has no addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NameFailure {
    /// The server did not understand.
    FormatError,
    /// The server could not find out.
    ServerFailure,
    /// There is no such name, or it has no address.
    NotFound,
    /// The server does not do this.
    Unimplemented,
    /// The server does not want to.
    Refused,
    /// No server has answered in time.
    TimedOut,
}

impl NameFailure {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::FormatError, Self::ServerFailure, Self::NotFound, Self::Unimplemented, Self::Refused, Self::TimedOut];

    /// The label in metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::FormatError => "formerr",
            Self::ServerFailure => "servfail",
            Self::NotFound => "nxdomain",
            Self::Unimplemented => "notimp",
            Self::Refused => "refused",
            Self::TimedOut => "timedout",
        }
    }
}

/// In nginx's words.
impl fmt::Display for NameFailure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::FormatError => "1: Format error",
            Self::ServerFailure => "2: Server failure",
            Self::NotFound => "3: Host not found",
            Self::Unimplemented => "4: Unimplemented",
            Self::Refused => "5: Operation refused",
            Self::TimedOut => "110: Operation timed out",
        })
    }
}

/// What a lookup came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Addresses, and how long they hold by their own account, in milliseconds.
    Found {
        /// At least one.
        addresses: Vec<Found>,
        /// The least time to live of all records.
        ttl_ms: u64,
    },
    /// None.
    Failed {
        /// Why.
        failure: NameFailure,
        /// How long that holds by the server's own account, in milliseconds.
        ttl_ms: Option<u64>,
    },
}

impl Outcome {
    /// The addresses that those who follow the name have from now on; `None`: those they have.
    fn told(&self) -> Option<Arc<[Found]>> {
        match self {
            Self::Found { addresses, .. } => Some(addresses.clone().into()),
            Self::Failed { failure: NameFailure::NotFound, .. } => Some([].into()),
            Self::Failed { .. } => None,
        }
    }
}
