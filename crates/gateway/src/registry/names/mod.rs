//! Names that are looked up at run time: questions, answers, and waiting tasks. The cache belongs to the process and
//! outlives generations. Exchanges and groups ask it; the control plane, which it does not know, takes due names, looks
//! them up, and reports the results. This module opens no socket.

pub(crate) mod cache;
pub(crate) mod keys;
pub(crate) mod moving;
mod own;

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
    /// The port, if an SRV record gave one.
    pub port: Option<u16>,
    /// Priority of the SRV record; the lowest is used first. 0 without one.
    pub priority: u16,
    /// Weight of the SRV record; 0 without one.
    pub weight: u16,
}

/// Why a name has no addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NameFailure {
    /// The server did not understand the question.
    FormatError,
    /// The server failed to find the answer.
    ServerFailure,
    /// There is no such name, or it has no address.
    NotFound,
    /// The server does not support the question.
    Unimplemented,
    /// The server refused to answer.
    Refused,
    /// No server answered in time.
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

/// The result of a lookup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Addresses, and their stated validity in milliseconds.
    Found {
        /// At least one.
        addresses: Vec<Found>,
        /// The smallest TTL of all records.
        ttl_ms: u64,
    },
    /// No addresses.
    Failed {
        /// The reason.
        failure: NameFailure,
        /// The stated validity of this result, in milliseconds.
        ttl_ms: Option<u64>,
    },
}

impl Outcome {
    /// The new addresses for watchers of the name; `None`: they keep theirs.
    fn addresses_for_watchers(&self) -> Option<Arc<[Found]>> {
        match self {
            Self::Found { addresses, .. } => Some(addresses.clone().into()),
            Self::Failed { failure: NameFailure::NotFound, .. } => Some([].into()),
            Self::Failed { .. } => None,
        }
    }
}
