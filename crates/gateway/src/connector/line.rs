//! Waiting in line: for a peer where none could be chosen (`queue`), and for a connection where all that `max_connections`
//! permits are in use. Who is next is decided by `upstream`; called by `proxy` and `attempt`.

use crate::content::proxy::{Asked, NoPeer, Tries};
use crate::exchange::Exchange;
use crate::exchange::waiting::Wants;
use crate::plan::generation::ProxyPlan;
use crate::registry::group::PeerPlan;
use crate::registry::pool::IdleSocket;
use crate::registry::shared::wake_token;
use reactor::{Millis, Woken};
use std::sync::Arc;
use std::time::Duration;
use upstream::balance::{Pick, SeatLine};
use upstream::retry::Failure;
use upstream::shared::{Full, Grant};

/// How often somebody in line looks without having been woken: nobody is told that a peer's `fail_timeout` is over, or that
/// a name has other addresses. As coarse as nginx's own clock of failures.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

impl Exchange {
    /// Chooses a peer of a group with `queue`. Who finds others waiting waits behind them.
    pub(crate) async fn pick_in_turn(
        &mut self,
        plan: &ProxyPlan,
        tries: &mut Tries,
        asked: &Asked,
        line: &Arc<SeatLine>,
    ) -> Result<usize, NoPeer> {
        let Some(balance) = tries.set(plan).map(|set| Arc::clone(&set.balance)) else { return Err(NoPeer::NoLive) };
        // A hash that has found nobody goes on elsewhere; whoever waits begins where it began.
        let before = tries.selection.clone();
        if line.waiting() == 0
            && let Pick::Peer { index, seat } =
                balance.pick(&mut tries.selection, &asked.inputs(&tries.bound), self.thread.pool_now())
        {
            self.seat = Some(seat);
            return Ok(index);
        }
        if !balance.may_come(&before, &tries.bound) {
            return Err(NoPeer::NoLive);
        }
        let token = wake_token(self.thread.index, self.task());
        let place = line.stand(&balance, before, &asked.inputs(&tries.bound), token);
        let Ok(mut waiter) = place else { return Err(NoPeer::QueueFull { length: line.waiting_max() }) };
        let began = self.thread.reactor.now();
        loop {
            if let Some(granted) = waiter.poll(self.thread.pool_now()) {
                self.seat = Some(granted.seat);
                tries.selection = granted.selection;
                tries.queue_ms = Some(self.thread.reactor.now().since(began));
                return Ok(granted.index);
            }
            let Some(left) = self.left_in_line(plan, began) else {
                tries.queue_ms = Some(self.thread.reactor.now().since(began));
                return Err(NoPeer::QueueTimeout);
            };
            if self.wait(Wants::NOTHING, left.min(LOOK_AGAIN)).await == Woken::PeerGone {
                return Err(NoPeer::ClientGone);
            }
            let present = plan.group.members.hold();
            if let (Some(now), Some(then)) = (&present, &tries.held)
                && !Arc::ptr_eq(now, then)
                && waiter.follow(&now.balance)
            {
                tries.held = present;
            }
        }
    }

    /// Every permitted connection is in use: waits for one, in the order of arrival, as long as the line permits.
    pub(crate) async fn wait_in_line(
        &mut self,
        plan: &ProxyPlan,
        peer: &PeerPlan,
        limit: Full,
    ) -> Result<Grant<'static, IdleSocket>, Failure> {
        let token = wake_token(self.thread.index, self.task());
        let Ok(mut waiter) = self.thread.shared.pool.wait(self.thread.id(), peer.key, token) else {
            self.error_log(&format!("upstream connection limit reached ({limit:?}) while connecting to upstream"));
            return Err(Failure::NotAdmitted);
        };
        let began = self.thread.reactor.now();
        let end = loop {
            if let Some(grant) = waiter.poll() {
                break Ok(grant);
            }
            let Some(left) = self.left_in_line(plan, began) else {
                self.error_log(&format!("no upstream connection became free ({limit:?}) while connecting to upstream"));
                break Err(Failure::NotAdmitted);
            };
            if self.wait(Wants::NOTHING, left).await == Woken::PeerGone {
                break Err(Failure::ClientGone);
            }
        };
        let waited_ms = self.thread.reactor.now().since(began);
        if let Some(record) = self.attempts.last_mut() {
            *record.queue_ms.get_or_insert(0) += waited_ms;
            // Counted anew where there is a connection at the end of it.
            record.pool_wait_ms += waited_ms;
        }
        end
    }

    /// What is left of the time in line; `None` where it is over.
    fn left_in_line(&self, plan: &ProxyPlan, began: Millis) -> Option<Duration> {
        let waited = Duration::from_millis(self.thread.reactor.now().since(began));
        plan.group.queue_timeout.checked_sub(waited).filter(|left| !left.is_zero())
    }
}
