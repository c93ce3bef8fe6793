//! `keepalive … floor=`: connections that are opened ahead of demand, kept there through quiet times, and not forced on a
//! peer that refuses them. Each worker looks after its share of the peers by the clock; what it opens is `opening`'s.

use crate::connector::opening::{OpenedFor, Pending};
use crate::plan::generation::WarmingPlan;
use crate::registry::group::PeerSet;
use crate::worker::Worker;
use crate::worker::housekeeping::Chore;
use reactor::{Millis, PeerAddress};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;
use upstream::shared::KeyId;

/// How often a floor is looked at. What an expiry or a peer closes is back after this and a connect.
const LOOK_MS: u64 = 250;
/// Connections that one look opens to a peer: with a quarter of what is missing at a time, a floor is filled over some
/// seconds instead of by a burst that may overflow the peer's accept queue.
const OPENS_MAX: u32 = 8;
/// The first pause after a refusal, doubled with each further one.
const PAUSE_MIN_MS: u64 = 1000;
/// The longest pause: a peer that is back is warm again within this.
const PAUSE_MAX_MS: u64 = 30_000;

/// A peer that refuses, or closes what was opened for it.
#[derive(Debug, Clone, Copy)]
struct Pause {
    refusals: u32,
    until: Millis,
}

/// The peers that are left alone for a while.
#[derive(Debug, Default)]
pub(crate) struct Pauses(RefCell<HashMap<KeyId, Pause>>);

impl Pauses {
    fn holds(&self, key: KeyId, now: Millis) -> bool {
        self.0.borrow().get(&key).is_some_and(|pause| pause.until > now)
    }

    /// Another refusal. Several at the same time are one.
    pub(crate) fn refused(&self, key: KeyId, now: Millis) {
        let mut pauses = self.0.borrow_mut();
        let pause = pauses.entry(key).or_insert(Pause { refusals: 0, until: now });
        if pause.until <= now {
            let ms = PAUSE_MIN_MS.checked_shl(pause.refusals).unwrap_or(PAUSE_MAX_MS).min(PAUSE_MAX_MS);
            *pause = Pause {
                refusals: pause.refusals.saturating_add(1).min(16),
                until: now.after(Duration::from_millis(ms)),
            };
        }
    }

    /// The floor is full: the peer takes connections, and keeps them.
    fn end(&self, key: KeyId) {
        self.0.borrow_mut().remove(&key);
    }
}

impl Worker {
    /// Looks after the floors at the next opportunity: at the start, and after a reload.
    pub(crate) fn begin_warming(&self) {
        self.plan_chore(Chore::WarmPool, self.reactor.now());
    }

    pub(crate) fn warm_pool(self: &Rc<Self>) {
        let generation = self.generation();
        let workers = self.shared.workers();
        for floor in generation.floors.iter().skip(usize::from(self.index)).step_by(workers) {
            self.warm_peer(floor.key, &floor.address, &floor.warming);
        }
        for floor in &generation.moving_floors {
            // Those of a name as they are now: who has left is drained, and who is new is warm within a look or two.
            let held = floor.group.members.hold();
            let peers = floor.group.members.of(&held).into_iter().flat_map(PeerSet::distinct);
            for peer in peers.skip(usize::from(self.index)).step_by(workers) {
                self.warm_peer(peer.key, &peer.address, &floor.warming);
            }
        }
        let has_some = generation.floors.len() > usize::from(self.index) || !generation.moving_floors.is_empty();
        if has_some && !self.is_draining() {
            self.plan_chore(Chore::WarmPool, self.reactor.now().after(Duration::from_millis(LOOK_MS)));
        }
    }

    fn warm_peer(self: &Rc<Self>, key: KeyId, address: &PeerAddress, plan: &WarmingPlan) {
        let now = self.reactor.now();
        let pool = &self.shared.pool;
        let missing = plan.floor.saturating_sub(pool.peer_connections(key));
        if missing == 0 {
            return self.pauses.end(key);
        }
        if self.is_draining() || self.pauses.holds(key, now) {
            return;
        }
        for _ in 0..missing.div_ceil(4).min(OPENS_MAX) {
            // Nothing gives way to a connection that nobody has asked for.
            let Some(permit) = pool.open_spare(self.id(), key) else { return };
            // Its own task is made where it waits; until then no event comes.
            let Ok(stream) = self.reactor.connect(address, &plan.connect, self.house.task) else {
                return self.pauses.refused(key, now);
            };
            let port = self.shared.ports.opened(&stream, address);
            let pending = Pending { stream, port, permit };
            self.open_for_pool(pending, OpenedFor::Floor(key), now.after(plan.connect_timeout));
        }
    }

    /// A warm connection was closed by its peer before it was used.
    pub(crate) fn warm_was_closed(&self, key: KeyId) {
        self.pauses.refused(key, self.reactor.now());
    }
}
