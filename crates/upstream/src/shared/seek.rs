//! Requests that open a connection but prefer one that comes free first. They hold nothing that others want, so no
//! request waits for them. Each worker has its own line of them per key, behind its shard's lock, because a connection
//! that stays on its worker costs no wake-up of another thread.
//!
//! No connection is missed: a seeker enters the line, then looks for an idle connection; a worker that ends an exchange
//! pools the connection, then looks for seekers. A fence between the two steps on either side ensures that one of them
//! sees the other.

use super::connection_queue::{Granted, Request};
use super::group::GroupSlot;
use super::key::{KeyId, KeySlot};
use super::lease::{Checkout, Source};
use super::shard::Parked;
use super::{Pool, lock};
use crate::sync::{Ordering, fence};
use crate::{Millis, WorkerId};
use std::sync::atomic::Ordering::Relaxed;

/// A request that opens its own connection, but takes one that comes free sooner. Poll it when the driver was told to
/// wake its token; drop it when the request leaves: a connection given in between goes to another request.
#[must_use = "dropping a seeker leaves the line"]
pub struct Seeker<'p, C: Send> {
    pool: &'p Pool<C>,
    key: KeyId,
    at: u32,
    worker: WorkerId,
    /// It got a connection, and is in no line.
    ended: bool,
}

impl<C: Send> Pool<C> {
    /// Enters the line for a connection with this key. `None` if none can come free: the group keeps no connections, or
    /// the key was retired. [`Seeker::poll`] it immediately: one may have come free before.
    pub fn seek(&self, worker: WorkerId, key: KeyId, token: u64) -> Option<Seeker<'_, C>> {
        let slot = self.live_key(key)?;
        if self.group_of(slot)?.idle_max.load(Relaxed) == 0 {
            return None;
        }
        let request = Request { worker, key, peer: slot.peer(), token };
        let mut shard = lock(self.shard(worker));
        let at = shard.seekers(key.index()).enqueue(request);
        slot.seekers.insert(worker);
        drop(shard);
        fence(Ordering::SeqCst);
        Some(Seeker { pool: self, key, at, worker, ended: false })
    }

    /// Whether an exchange is in progress on a connection to this key's peer, so that one may come free soon. A hint:
    /// the gauges are read one after the other.
    pub fn may_come_free(&self, key: KeyId) -> bool {
        let peer = self.live_key(key).and_then(|slot| self.peers.slot(u32::from(slot.peer())));
        peer.is_some_and(|peer| {
            let gauges = &peer.gauges.0;
            let others = gauges.idle.load(Relaxed).saturating_add(gauges.connecting.load(Relaxed));
            gauges.connections.load(Relaxed) > others
        })
    }

    /// Gives a connection directly to the first seeker of its key: of this worker, else of another.
    pub(super) fn hand_to_seeker(
        &self,
        group: &GroupSlot<C>,
        slot: &KeySlot,
        from: WorkerId,
        parked: Parked<C>,
    ) -> Result<(), Parked<C>> {
        if slot.seekers.is_empty() {
            return Err(parked);
        }
        for worker in Self::seeking_workers(group, slot, from) {
            let (key, number) = (parked.key, parked.group);
            let mut shard = lock(self.shard(worker));
            let line = shard.seekers(key.index());
            let Some((at, token)) = line.first_of(key) else { continue };
            let source = if worker == from { Source::Local } else { Source::Stolen { from } };
            line.grant(at, Granted::Connection(parked, source));
            if line.is_empty() {
                slot.seekers.remove(worker);
            }
            drop(shard);
            self.count_handed_over(from, number);
            self.driver.wake(token);
            return Ok(());
        }
        Err(parked)
    }

    /// The pooling side's second step, after the fence: wakes a seeker that came while the connection was being pooled,
    /// so that it finds it.
    pub(super) fn look_at_seekers(&self, group: &GroupSlot<C>, slot: &KeySlot, from: WorkerId, key: KeyId) {
        if slot.seekers.is_empty() {
            return;
        }
        for worker in Self::seeking_workers(group, slot, from) {
            let first = lock(self.shard(worker)).seekers(key.index()).first_of(key);
            if let Some((_, token)) = first {
                return self.driver.wake(token);
            }
        }
    }

    /// The workers whose seekers may get a connection of `from`, in order.
    fn seeking_workers(
        group: &GroupSlot<C>,
        slot: &KeySlot,
        from: WorkerId,
    ) -> impl Iterator<Item = WorkerId> + use<C> {
        let own = slot.seekers.contains(from).then_some(from);
        let others = (!group.is_local()).then(|| slot.seekers.others(from));
        own.into_iter().chain(others.into_iter().flatten())
    }
}

impl<'p, C: Send> Seeker<'p, C> {
    /// A connection that came free, `None` if there is none (and after one was taken).
    pub fn poll(&mut self, now: Millis) -> Option<Checkout<'p, C>> {
        if self.ended {
            return None;
        }
        let granted = lock(self.pool.shard(self.worker)).seekers(self.key.index()).collect(self.at);
        if let Some(granted) = granted {
            self.ended = true;
            return self.checkout_of(granted);
        }
        let checkout = self.pool.checkout(self.worker, self.key, now)?;
        if let Some(granted) = self.leave() {
            self.give_back(granted);
        }
        Some(checkout)
    }

    /// The request's own connection is established, or has failed: leaves the line, and returns a connection given
    /// before that.
    pub fn finish(mut self) -> Option<Checkout<'p, C>> {
        let granted = self.leave();
        granted.and_then(|granted| self.checkout_of(granted))
    }

    fn checkout_of(&self, granted: Granted<C>) -> Option<Checkout<'p, C>> {
        match granted {
            Granted::Connection(parked, source) => Some(Checkout::of(self.pool, self.worker, self.key, parked, source)),
            // Seekers are only given connections.
            Granted::Slot => None,
        }
    }

    fn leave(&mut self) -> Option<Granted<C>> {
        if std::mem::replace(&mut self.ended, true) {
            return None;
        }
        let slot = self.pool.keys.slot(self.key.index());
        let mut shard = lock(self.pool.shard(self.worker));
        let line = shard.seekers(self.key.index());
        let left = line.leave(self.at);
        if line.is_empty()
            && let Some(slot) = slot
        {
            slot.seekers.remove(self.worker);
        }
        left.err()
    }

    fn give_back(&self, granted: Granted<C>) {
        if let Granted::Connection(parked, source) = granted {
            self.pool.give_back(self.worker, self.key, parked, source);
        }
    }

    /// It may have been woken for an idle connection that it leaves in the pool: notifies the next seeker.
    fn pass_on(&self) {
        let Some(slot) = self.pool.live_key(self.key) else { return };
        if let Some(group) = self.pool.group_of(slot)
            && !slot.shards.is_empty()
        {
            self.pool.look_at_seekers(group, slot, self.worker, self.key);
        }
    }
}

impl<C: Send> Drop for Seeker<'_, C> {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        match self.leave() {
            Some(granted) => self.give_back(granted),
            None => self.pass_on(),
        }
    }
}
