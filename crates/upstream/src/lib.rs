//! The upstream side as policy: which peer, which connection, whether to try again. It opens no sockets, reads no clock
//! and starts no threads: connections are an opaque `C`, time arrives as [`Millis`], and actions outside (closing,
//! waking) are returned or delegated to a [`shared::Driver`]. The gateway's workers call it.
//!
//! * [`shared`] — state shared by worker threads: the pool of idle connections, limits, the waiting line, leases.
//! * [`balance`] — which peer gets the next attempt.
//! * [`check`] — when a peer is checked, and how the results change its state.
//! * [`churn`] — whether a limit is too small for the load.
//! * [`learn`] — a peer's own keepalive limits.
//! * [`ports`] — how many local ports are left towards a peer.
//! * [`reason`] — why a connection was discarded.
//! * [`retry`] — whether a failed attempt is tried again.
//! * [`streams`] — which HTTP/2 connection has room for a request, and when another one is opened.
//! * [`unsent`] — whether the peer took anything of a request that got no answer.

pub mod balance;
pub mod check;
pub mod churn;
pub mod learn;
pub mod ports;
pub mod reason;
pub mod retry;
pub mod shared;
pub mod streams;
pub mod sweep;
mod sync;
pub mod unsent;

pub use reason::DiscardReason;
pub use terms::Millis;

/// One data-plane thread, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId(pub u16);
