//! Idle connections: checkout, check-in, eviction, expiry. The idle limits are exact because of reservations: a slot of
//! the process-wide gauge is taken under the lock of the shard that gets the connection, and released, or passed to the
//! new connection, under the lock of the shard that loses one.

use std::sync::atomic::Ordering::Relaxed;

use super::admission::PEER_SEARCH_MAX;
use super::group::{GroupId, GroupSlot, PeerSlot, acquire, release};
use super::key::{KeyId, KeySlot};
use super::lease::{CheckIn, Checkout, Removed, Source};
use super::shard::{Emptied, IdleToken, Parked, Shard};
use super::{Pool, lock};
use crate::sync::Ordering;
use crate::{DiscardReason, Millis, WorkerId};
use std::ops::Range;

/// Attempts to find a place in a full pool. The second succeeds unless other workers took every place and every victim
/// in between; then the new connection is dropped.
const CHECK_IN_ROUNDS_MAX: usize = 3;

/// Connections that one call of [`Pool::expire`] takes: closing more at once would delay the worker's other tasks, and
/// other workers that wait for the lock.
pub const EXPIRIES_MAX: usize = 256;

/// The result of looking at an idle connection after an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inspection {
    /// Nothing: a spurious event.
    Keep,
    /// A FIN, a reset, or bytes.
    Remove(DiscardReason),
}

/// Reservations that a check-in holds for the connection it wants to pool.
#[derive(Default, Clone, Copy)]
struct Held {
    peer: bool,
    group: bool,
}

impl<C: Send> Pool<C> {
    /// The most recently used idle connection of a key: this worker's, else another's.
    #[inline]
    pub fn checkout(&self, worker: WorkerId, key: KeyId, now: Millis) -> Option<Checkout<'_, C>> {
        let slot = self.live_key(key)?;
        let group = self.group_of(slot)?;
        if group.waiting.load(Relaxed) > 0 {
            return None;
        }
        let (parked, source) = self.find_idle(worker, key, slot, group, now)?;
        Some(Checkout::of(self, worker, key, parked, source))
    }

    pub(super) fn find_idle(
        &self,
        worker: WorkerId,
        key: KeyId,
        slot: &KeySlot,
        group: &GroupSlot<C>,
        now: Millis,
    ) -> Option<(Parked<C>, Source)> {
        let idle_max_ms = idle_max_ms(slot, group);
        // Only this worker sets its own bit, so the bit is exact here.
        if slot.shards.contains(worker) {
            let mut shard = lock(self.shard(worker));
            if let Some((parked, emptied)) = shard.pop_newest(key.index(), now, idle_max_ms) {
                self.settle_removal(worker, &parked, &emptied);
                self.release_idle(&parked);
                shard.counts(parked.group).reused += 1;
                return Some((parked, Source::Local));
            }
        }
        if group.is_local() {
            return None;
        }
        self.steal(worker, key, slot, now, idle_max_ms)
    }

    /// Tries the shards in the hint: first those with a free lock, so that a worker that lost its processor while
    /// holding the lock does not stop the thief; then the others.
    fn steal(
        &self,
        worker: WorkerId,
        key: KeyId,
        slot: &KeySlot,
        now: Millis,
        idle_max_ms: u64,
    ) -> Option<(Parked<C>, Source)> {
        for may_block in [false, true] {
            let mut some_busy = false;
            for from in slot.shards.others(worker) {
                let mutex = self.shard(from);
                let mut shard = match mutex.try_lock() {
                    Ok(shard) => shard,
                    Err(_) if may_block => lock(mutex),
                    Err(_) => {
                        some_busy = true;
                        continue;
                    }
                };
                if let Some((parked, emptied)) = shard.pop_newest(key.index(), now, idle_max_ms) {
                    self.settle_removal(from, &parked, &emptied);
                    self.release_idle(&parked);
                    let counts = shard.counts(parked.group);
                    counts.reused += 1;
                    counts.stolen += 1;
                    return Some((parked, Source::Stolen { from }));
                }
            }
            if !some_busy {
                return None;
            }
        }
        None
    }

    #[inline]
    pub(super) fn check_in(
        &self,
        worker: WorkerId,
        key: KeyId,
        parked: Parked<C>,
        register: impl FnOnce(&C, IdleToken),
    ) -> CheckIn<C> {
        let group_number = parked.group as u16;
        let (Some(group), Some(slot)) = (self.groups.slot(parked.group), self.live_key(key)) else {
            return self.refuse(worker, parked, DiscardReason::Reload);
        };
        if let Some(reason) = retire_reason(group, slot, &parked) {
            return self.refuse(worker, parked, reason);
        }
        let parked = match self.hand_over(group, worker, key, parked) {
            Ok(()) => return CheckIn::HandedOver,
            Err(parked) => parked,
        };
        let idle_max_ms = idle_max_ms(slot, group);
        if group.idle_max.load(Relaxed) == 0 {
            return self.refuse(worker, parked, DiscardReason::KeepaliveOff);
        }
        if idle_max_ms == 0 {
            return self.refuse(worker, parked, DiscardReason::IdleLimit);
        }
        let parked = match self.hand_to_seeker(group, slot, worker, parked) {
            Ok(()) => return CheckIn::HandedOver,
            Err(parked) => parked,
        };
        match self.park(worker, key, slot, group, parked, register) {
            Ok((token, evicted)) => {
                let evicted = evicted.map(|(victim, from)| {
                    self.release_connection(group_number, victim.peer as u16);
                    Self::removed(from, victim, DiscardReason::PoolFull)
                });
                self.look_at_line(group_number);
                self.look_at_seekers(group, slot, worker, key);
                CheckIn::Pooled { token, idle_max_ms, evicted }
            }
            Err((parked, reason)) => self.refuse(worker, parked, reason),
        }
    }

    /// An idle HTTP/2 connection of this worker has received frames. It is leased to read them, unless another worker
    /// has taken it already; this counts as no request.
    pub fn attend(&self, worker: WorkerId, token: IdleToken) -> Option<Checkout<'_, C>> {
        let mut shard = lock(self.shard(worker));
        let (mut parked, emptied) = shard.take(token)?;
        self.settle_removal(worker, &parked, &emptied);
        self.release_idle(&parked);
        drop(shard);
        parked.meta.requests = parked.meta.requests.saturating_sub(1);
        Some(Checkout::of(self, worker, parked.key, parked, Source::Local))
    }

    /// An idle connection of this worker had an event: returns it to be closed, unless another worker has taken it
    /// already.
    pub fn take(&self, worker: WorkerId, token: IdleToken, reason: DiscardReason) -> Option<Removed<C>> {
        self.inspect(worker, token, |_| Inspection::Remove(reason))
    }

    /// Like [`Self::take`], after a look at the connection (a `recv` with `MSG_PEEK`). `look` runs under the shard's
    /// lock, since no other worker may use the connection meanwhile: at most one system call.
    pub fn inspect(
        &self,
        worker: WorkerId,
        token: IdleToken,
        look: impl FnOnce(&C) -> Inspection,
    ) -> Option<Removed<C>> {
        let mut shard = lock(self.shard(worker));
        let Inspection::Remove(reason) = look(shard.peek(token)?) else { return None };
        let (parked, emptied) = shard.take(token)?;
        self.settle_removal(worker, &parked, &emptied);
        self.release_idle(&parked);
        shard.count_discard(parked.group, reason);
        drop(shard);
        self.release_connection(parked.group as u16, parked.peer as u16);
        Some(Self::removed(worker, parked, reason))
    }

    /// Takes this worker's connections that have been idle too long, and those above an idle limit that a reload
    /// lowered, at most [`EXPIRIES_MAX`] at a time. Returns when to call again, `None` when nothing is idle.
    pub fn expire(&self, worker: WorkerId, now: Millis, removed: &mut Vec<Removed<C>>) -> Option<Millis> {
        let first = removed.len();
        let mut next = None;
        let mut out_of_date = None;
        let mut shard = lock(self.shard(worker));
        for key in 0..shard.keys_seen() {
            let Some(slot) = self.keys.slot(key) else { continue };
            if slot.learned_until_ms.load(Relaxed) <= now.0 {
                out_of_date = Some(slot.peer());
            }
            let Some(group) = self.group_of(slot) else { continue };
            let idle_max_ms = idle_max_ms(slot, group);
            while let Some(since) = shard.oldest_of_key(key) {
                let due = since.plus(idle_max_ms);
                let reason = if due <= now {
                    DiscardReason::IdleLimit
                } else if group.gauges.0.idle.load(Ordering::Acquire) > idle_ceiling(group, self.workers()) {
                    DiscardReason::PoolFull
                } else {
                    next = Some(next.map_or(due, |earliest: Millis| earliest.min(due)));
                    break;
                };
                if removed.len() - first == EXPIRIES_MAX {
                    next = Some(now);
                    break;
                }
                self.expel(worker, &mut shard, key, reason, removed);
            }
        }
        drop(shard);
        self.release_all(removed.get(first..).unwrap_or_default());
        if let Some(peer) = out_of_date {
            // One at a time is enough: the next call finds the next one.
            self.conclude(peer, now, |_| {});
        }
        next
    }

    /// Takes all of this worker's idle connections when the worker ends.
    pub fn drain(&self, worker: WorkerId, reason: DiscardReason, removed: &mut Vec<Removed<C>>) {
        self.expel_all(worker, (0..u32::MAX, |_| true), reason, removed);
    }

    /// Whether a worker has idle connections.
    pub fn has_idle(&self, worker: WorkerId) -> bool {
        lock(self.shard(worker)).has_idle()
    }

    /// Takes the idle connections of a group, or of all, from all workers, for an operator.
    pub fn flush(&self, group: Option<GroupId>, removed: &mut Vec<Removed<C>>) {
        let is_wanted = |key: u32| {
            let slot = self.keys.slot(key);
            slot.is_some_and(|slot| group.is_none_or(|group| slot.group() == group.0))
        };
        for worker in self.worker_ids() {
            self.expel_all(worker, (0..u32::MAX, is_wanted), DiscardReason::Flushed, removed);
        }
    }

    pub(super) fn drain_key_of(&self, worker: WorkerId, key: KeyId, removed: &mut Vec<Removed<C>>) {
        let index = key.index();
        self.expel_all(worker, (index..index + 1, |_| true), DiscardReason::Reload, removed);
    }

    fn expel_all(
        &self,
        worker: WorkerId,
        (keys, is_wanted): (Range<u32>, impl Fn(u32) -> bool),
        reason: DiscardReason,
        removed: &mut Vec<Removed<C>>,
    ) {
        let first = removed.len();
        let mut shard = lock(self.shard(worker));
        let keys = keys.start..keys.end.min(shard.keys_seen());
        for key in keys.filter(|key| is_wanted(*key)) {
            while self.expel(worker, &mut shard, key, reason, removed) {}
        }
        drop(shard);
        self.release_all(removed.get(first..).unwrap_or_default());
    }

    /// Removes the oldest connection of a key; its connection gauge must still be released.
    fn expel(
        &self,
        worker: WorkerId,
        shard: &mut Shard<C>,
        key: u32,
        reason: DiscardReason,
        removed: &mut Vec<Removed<C>>,
    ) -> bool {
        let Some((parked, emptied)) = shard.pop_oldest_of_key(key) else { return false };
        self.settle_removal(worker, &parked, &emptied);
        self.release_idle(&parked);
        shard.count_discard(parked.group, reason);
        removed.push(Self::removed(worker, parked, reason));
        true
    }

    fn release_all(&self, removed: &[Removed<C>]) {
        for one in removed {
            self.release_connection(one.group.0, one.peer);
        }
    }

    /// Pools a connection within the idle limits; if they are reached, the least recently used one is removed. `Err`
    /// returns the connection.
    #[allow(clippy::type_complexity)] // two outcomes, each with what the one caller needs; a struct would hide it
    fn park(
        &self,
        worker: WorkerId,
        key: KeyId,
        slot: &KeySlot,
        group: &GroupSlot<C>,
        parked: Parked<C>,
        register: impl FnOnce(&C, IdleToken),
    ) -> Result<(IdleToken, Option<(Parked<C>, WorkerId)>), (Parked<C>, DiscardReason)> {
        let Some(peer) = self.peers.slot(parked.peer) else { return Err((parked, DiscardReason::Reload)) };
        let mut held = Held::default();
        let mut evicted = None;
        let mut reason = DiscardReason::PoolFull;
        for round in 1..=CHECK_IN_ROUNDS_MAX {
            let mut shard = lock(self.shard(worker));
            if !slot.is_live(key) {
                reason = DiscardReason::Reload;
                break;
            }
            if evicted.is_none() {
                evicted = self.reserve_idle(worker, group, peer, &parked, &mut shard, &mut held);
            }
            if held.peer && held.group {
                let (token, was_empty) = shard.push(parked);
                if was_empty.key {
                    slot.shards.insert(worker);
                }
                if was_empty.group {
                    group.shards.insert(worker);
                }
                if let Some(connection) = shard.peek(token) {
                    register(connection, token);
                }
                return Ok((token, evicted));
            }
            drop(shard);
            if round == CHECK_IN_ROUNDS_MAX {
                break;
            }
            evicted = self.take_place_elsewhere(worker, &parked, &mut held);
        }
        if held.peer {
            release(&peer.gauges.0.idle);
        }
        if held.group {
            release(&group.gauges.0.idle);
        }
        if let Some((victim, from)) = evicted {
            // Only a reload leads here: the victim's place was won, and then the key was retired.
            let (group, peer) = (victim.group as u16, victim.peer as u16);
            self.driver.close(Self::removed(from, victim, DiscardReason::PoolFull));
            self.release_connection(group, peer);
        }
        Err((parked, reason))
    }

    /// Takes the missing reservations, by increasing the gauges or from a victim in its own shard, which is returned.
    fn reserve_idle(
        &self,
        worker: WorkerId,
        group: &GroupSlot<C>,
        peer: &PeerSlot,
        parked: &Parked<C>,
        shard: &mut Shard<C>,
        held: &mut Held,
    ) -> Option<(Parked<C>, WorkerId)> {
        if !held.peer {
            held.peer = acquire(&peer.gauges.0.idle, group.idle_per_peer_max.value());
        }
        if !held.peer {
            let (victim, emptied) = shard
                .pop_oldest_of_key(parked.key.index())
                .or_else(|| shard.pop_oldest_of_peer(parked.group, parked.peer, PEER_SEARCH_MAX))?;
            *held = Held { peer: true, group: true };
            return Some(self.evicted(worker, victim, &emptied, shard));
        }
        let idle_max = group.idle_max.load(Relaxed);
        held.group = held.group
            || if group.is_local() {
                shard.idle_in_group(parked.group) < idle_max && acquire(&group.gauges.0.idle, u32::MAX)
            } else {
                acquire(&group.gauges.0.idle, idle_max)
            };
        if held.group {
            return None;
        }
        let (victim, emptied) = shard.pop_oldest_of_group(parked.group)?;
        held.group = true;
        self.release_idle_of_peer(&victim);
        Some(self.evicted(worker, victim, &emptied, shard))
    }

    /// The same with a victim from another worker's shard.
    fn take_place_elsewhere(
        &self,
        worker: WorkerId,
        parked: &Parked<C>,
        held: &mut Held,
    ) -> Option<(Parked<C>, WorkerId)> {
        let peer = if held.peer { None } else { Some(parked.peer as u16) };
        let (victim, from) =
            self.remove_oldest(Some(worker), worker, parked.group as u16, peer, DiscardReason::PoolFull)?;
        if held.peer {
            self.release_idle_of_peer(&victim);
        }
        *held = Held { peer: true, group: true };
        Some((victim, from))
    }

    fn evicted(
        &self,
        worker: WorkerId,
        victim: Parked<C>,
        emptied: &Emptied,
        shard: &mut Shard<C>,
    ) -> (Parked<C>, WorkerId) {
        self.settle_removal(worker, &victim, emptied);
        shard.count_discard(victim.group, DiscardReason::PoolFull);
        (victim, worker)
    }

    /// Removes the least recently used idle connection of a group, or of one of its peers, from the first shard that
    /// has one, starting with `worker`'s unless that is excepted. The idle gauges stay unchanged: the place may be
    /// passed on.
    pub(super) fn remove_oldest(
        &self,
        except: Option<WorkerId>,
        worker: WorkerId,
        group: u16,
        peer: Option<u16>,
        reason: DiscardReason,
    ) -> Option<(Parked<C>, WorkerId)> {
        let slot = self.groups.slot(u32::from(group))?;
        let group = u32::from(group);
        let own = std::iter::once(worker).filter(|own| Some(*own) != except);
        for from in own.chain(slot.shards.others(worker)) {
            let mut shard = lock(self.shard(from));
            let victim = match peer {
                Some(peer) => shard.pop_oldest_of_peer(group, u32::from(peer), PEER_SEARCH_MAX),
                None => shard.pop_oldest_of_group(group),
            };
            if let Some((victim, emptied)) = victim {
                self.settle_removal(from, &victim, &emptied);
                shard.count_discard(group, reason);
                return Some((victim, from));
            }
        }
        None
    }

    /// Keeps the hints correct; called under the lock of `worker`'s shard.
    fn settle_removal(&self, worker: WorkerId, parked: &Parked<C>, emptied: &Emptied) {
        if emptied.key
            && let Some(slot) = self.keys.slot(parked.key.index())
        {
            slot.shards.remove(worker);
        }
        if emptied.group
            && let Some(group) = self.groups.slot(parked.group)
        {
            group.shards.remove(worker);
        }
    }

    pub(super) fn release_idle(&self, parked: &Parked<C>) {
        self.release_idle_of_peer(parked);
        if let Some(group) = self.groups.slot(parked.group) {
            release(&group.gauges.0.idle);
        }
    }

    fn release_idle_of_peer(&self, parked: &Parked<C>) {
        if let Some(peer) = self.peers.slot(parked.peer) {
            release(&peer.gauges.0.idle);
        }
    }

    pub(super) fn removed(from: WorkerId, parked: Parked<C>, reason: DiscardReason) -> Removed<C> {
        Removed {
            connection: parked.connection,
            worker: from,
            key: parked.key,
            group: GroupId(parked.group as u16),
            peer: parked.peer as u16,
            meta: parked.meta,
            idle_since: parked.idle_since,
            reason,
        }
    }

    fn refuse(&self, worker: WorkerId, parked: Parked<C>, reason: DiscardReason) -> CheckIn<C> {
        self.count_discard(worker, parked.group as u16, reason);
        self.release_connection(parked.group as u16, parked.peer as u16);
        CheckIn::Discarded { connection: parked.connection, reason }
    }
}

/// Whether a connection has reached its limit of exchanges or age.
fn retire_reason<C>(group: &GroupSlot<C>, slot: &KeySlot, parked: &Parked<C>) -> Option<DiscardReason> {
    let requests_max = group.requests_max.load(Relaxed).min(slot.learned_requests.load(Relaxed));
    if parked.meta.requests >= requests_max {
        return Some(DiscardReason::RequestLimit);
    }
    // The check-in time is the beginning of the idle time.
    if parked.idle_since.since(parked.meta.created_at) > group.age_max_ms.load(Relaxed) {
        return Some(DiscardReason::AgeLimit);
    }
    None
}

/// Longest idle time of a key's connections: `keepalive_timeout`, or less if the peer is known to close earlier.
fn idle_max_ms<C>(slot: &KeySlot, group: &GroupSlot<C>) -> u64 {
    group.idle_timeout_ms.load(Relaxed).min(slot.learned_idle_ms.load(Relaxed))
}

/// The idle limit of the whole process.
fn idle_ceiling<C>(group: &GroupSlot<C>, workers: u16) -> u32 {
    let idle_max = group.idle_max.load(Relaxed);
    if group.is_local() { idle_max.saturating_mul(u32::from(workers)) } else { idle_max }
}
