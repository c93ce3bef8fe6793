//! `keepalive … floor=`: connections opened ahead of demand, kept open through quiet times, and not forced on a peer
//! that refuses them. Each worker periodically handles its share of the peers; the connector opens the connections.

use crate::connector::opening::{Spare, open_spare};
use crate::plan::group::WarmingPlan;
use crate::registry::group::PeerSet;
use crate::thread::chores::Chore;
use crate::worker::Worker;
use reactor::PeerAddress;
use std::rc::Rc;
use std::time::Duration;
use upstream::shared::KeyId;

/// How often a floor is checked. A connection that expires or that the peer closes is replaced after this time and a
/// connect.
const LOOK_MS: u64 = 250;
/// Most connections that one check opens to a peer: each check opens a quarter of the missing ones, so a floor fills
/// over some seconds instead of by a burst that may overflow the peer's accept queue.
const OPENS_MAX: u32 = 8;

impl Worker {
    /// Starts checking the floors: at the start, and after a reload.
    pub(crate) fn begin_warming(&self) {
        self.thread.chores.plan(Chore::WarmPool, self.thread.reactor.now());
    }

    pub(crate) fn warm_pool(self: &Rc<Self>) {
        let generation = self.generation();
        let workers = self.thread.registry.workers();
        for floor in generation.floors.iter().skip(usize::from(self.thread.index)).step_by(workers) {
            self.warm_peer(floor.key, &floor.address, &floor.warming);
        }
        for floor in &generation.moving_floors {
            // The present peers of a name: peers that have left are drained, and new ones get connections within a
            // check or two.
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
        let pool = &self.thread.registry.pool;
        let missing = plan.floor.saturating_sub(pool.peer_connections(key));
        if missing == 0 {
            return self.thread.pauses.end(key);
        }
        if self.thread.is_draining() || self.thread.pauses.holds(key, now) {
            return;
        }
        for _ in 0..missing.div_ceil(4).min(OPENS_MAX) {
            if open_spare(&self.thread, key, address, plan) != Spare::Opening {
                return;
            }
        }
    }
}
