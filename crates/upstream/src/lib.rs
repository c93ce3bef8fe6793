//! The upstream side as policy: which peer, which connection, whether to try again. No socket is opened, no clock is
//! read and no thread is started here: connections are an opaque `C`, time arrives as [`Millis`], and what has to
//! happen outside (closing, waking) is returned or asked of a [`shared::Driver`]. The gateway's workers call it.
//!
//! * [`shared`] — what several worker threads touch: the pool of idle connections, limits, the waiting line, leases.
//! * [`balance`] — which peer gets the next attempt.
//! * [`check`] — when a peer is asked whether it is well, and what its answers make of it.
//! * [`churn`] — whether a limit is too small for the load.
//! * [`learn`] — what a peer's own limits are.
//! * [`ports`] — how many local ports are left towards a peer.
//! * [`reason`] — why a connection was thrown away.
//! * [`retry`] — whether a failed attempt is tried again.
//! * [`streams`] — which connection of HTTP/2 has room for a request, and when another one is opened.
//! * [`unsent`] — whether a request that got no answer was taken at all.

pub mod balance;
pub mod check;
pub mod churn;
pub mod learn;
pub mod ports;
pub mod reason;
pub mod retry;
pub mod shared;
pub mod streams;
mod sync;
pub mod unsent;

pub use reason::DiscardReason;
pub use terms::Millis;

/// One data-plane thread, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId(pub u16);
