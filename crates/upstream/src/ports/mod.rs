//! Local ports as a resource (founding report 2): for each pair of a source address and a peer, how many of the system's
//! ephemeral ports our connections use, how many are in TIME_WAIT because we closed first, how many are left, and for
//! how long at the present rate. A value driven by `now` and by socket events: it asks the kernel nothing, and knows
//! nothing of other processes' sockets. The gateway reports to it, uses it to pick the source with the most free ports,
//! and shows it on the status page.

mod ledger;
mod limits;

pub use ledger::{Ledger, PAIRS_MAX, Pair, PairId, PairUsage, PortEnding};
pub use limits::{Limits, Reuse};
