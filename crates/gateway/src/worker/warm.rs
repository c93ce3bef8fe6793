//! `keepalive … floor=`: connections that are opened ahead of demand, kept there through quiet times, and not forced on a
//! peer that refuses them. Each worker looks after its share of the peers by the clock; what it opens is `opening`'s.

use crate::connector::connect::dial;
use crate::connector::opening::{OpenedFor, open_for_pool};
use crate::connector::pending::{Handshake, Pending};
use crate::plan::group::WarmingPlan;
use crate::registry::group::PeerSet;
use crate::thread::chores::Chore;
use crate::worker::Worker;
use reactor::PeerAddress;
use std::rc::Rc;
use std::time::Duration;
use upstream::shared::KeyId;

/// How often a floor is looked at. What an expiry or a peer closes is back after this and a connect.
const LOOK_MS: u64 = 250;
/// Connections that one look opens to a peer: with a quarter of what is missing at a time, a floor is filled over some
/// seconds instead of by a burst that may overflow the peer's accept queue.
const OPENS_MAX: u32 = 8;

impl Worker {
    /// Looks after the floors at the next opportunity: at the start, and after a reload.
    pub(crate) fn begin_warming(&self) {
        self.thread.chores.plan(Chore::WarmPool, self.thread.reactor.now());
    }

    pub(crate) fn warm_pool(self: &Rc<Self>) {
        let generation = self.generation();
        let workers = self.thread.shared.workers();
        for floor in generation.floors.iter().skip(usize::from(self.thread.index)).step_by(workers) {
            self.warm_peer(floor.key, &floor.address, &floor.warming);
        }
        for floor in &generation.moving_floors {
            // Those of a name as they are now: who has left is drained, and who is new is warm within a look or two.
            let held = floor.group.members.hold();
            let peers = floor.group.members.of(&held).into_iter().flat_map(PeerSet::distinct);
            for peer in peers.skip(usize::from(self.thread.index)).step_by(workers) {
                self.warm_peer(peer.key, &peer.address, &floor.warming);
            }
        }
        let has_some = generation.floors.len() > usize::from(self.thread.index) || !generation.moving_floors.is_empty();
        if has_some && !self.thread.is_draining() {
            self.thread.chores.plan(Chore::WarmPool, self.thread.reactor.now().after(Duration::from_millis(LOOK_MS)));
        }
    }

    fn warm_peer(self: &Rc<Self>, key: KeyId, address: &PeerAddress, plan: &WarmingPlan) {
        let now = self.thread.reactor.now();
        let pool = &self.thread.shared.pool;
        let missing = plan.floor.saturating_sub(pool.peer_connections(key));
        if missing == 0 {
            return self.thread.pauses.end(key);
        }
        if self.thread.is_draining() || self.thread.pauses.holds(key, now) {
            return;
        }
        for _ in 0..missing.div_ceil(4).min(OPENS_MAX) {
            // Nothing gives way to a connection that no request needs yet.
            let Some(permit) = pool.open_spare(self.thread.id(), key) else { return };
            // Its own task is made where it waits; until then no event comes.
            let Ok((stream, port)) = dial(&self.thread, address, &plan.connect, self.thread.chores.task) else {
                return self.thread.pauses.refused(key, now);
            };
            let tls = plan.tls.as_ref().map(|tls| Handshake::without_request(tls, address));
            let pending = Pending::new(stream, port, permit, tls);
            open_for_pool(
                &self.thread,
                pending,
                OpenedFor::Floor { key, http2: plan.http2 },
                now.after(plan.connect_timeout),
            );
        }
    }
}
