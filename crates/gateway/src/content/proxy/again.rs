//! Further attempts beyond one at each peer (`proxy_next_upstream_again`), and the pause before them
//! (`proxy_next_upstream_pause`).

use crate::connector::Caller as _;
use crate::content::proxy::Tries;
use crate::exchange::Exchange;
use crate::registry::generation::BoundProxy;
use reactor::{Millis, Woken};
use std::time::Duration;
use upstream::balance::{Group, Selection};

/// Milliseconds of the pause before another attempt.
pub(super) fn pause_ms(plan: &BoundProxy) -> u64 {
    plan.tries.pause.map_or(0, |pause| u64::try_from(pause.as_millis()).unwrap_or(u64::MAX))
}

impl Tries {
    /// Whether another peer, or one that is asked again, would take the request.
    pub(super) fn has_another(&self, plan: &BoundProxy, balance: &Group, failed: Option<usize>, now: Millis) -> bool {
        balance.has_another(&self.choice.selection, &self.choice.bound, now)
            || plan.tries.again && failed.is_some_and(|failed| balance.may_repeat(failed, &self.choice.bound, now))
    }

    /// All peers were tried: begins with the first one again. Returns whether that changes anything.
    pub(super) fn begin_again(&mut self, plan: &BoundProxy) -> bool {
        if !plan.tries.again || !self.choice.selection.has_begun() {
            return false;
        }
        self.choice.selection = Selection::default();
        true
    }
}

impl Exchange {
    /// Waits before the next attempt, without a seat at a peer. The limit of a whole request ends the wait, too.
    pub(super) async fn pause_tries(&mut self, plan: &BoundProxy, tries: &Tries) -> Woken {
        let Some(pause) = plan.tries.pause.filter(|_| tries.fresh_on.is_none()) else { return Woken::Ready };
        self.upstream.leave_seat();
        let until = self.thread.reactor.now().after(pause);
        loop {
            let left = Duration::from_millis(until.since(self.thread.reactor.now()));
            if left.is_zero() || self.is_call_over() {
                return Woken::Deadline;
            }
            if self.wait_for(None, left).await == Woken::PeerGone {
                return Woken::PeerGone;
            }
        }
    }
}
