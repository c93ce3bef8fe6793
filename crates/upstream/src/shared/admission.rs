//! Permission to open a connection: exact process-wide limits, and the waiting line. No wake-up is missed: a waiter
//! enters the line, then tries; the releasing side releases, then looks at the line. A fence between the two steps on
//! either side ensures that one of them sees the other.

use super::connection_queue::{Granted, Pinned, Request, Waiter};
use super::group::{GroupSlot, acquire, release};
use super::key::{KeyId, KeySlot};
use super::lease::{Connecting, Removed, Source};
use super::shard::Parked;
use super::{Pool, lock};
use crate::sync::{Ordering, fence};
use crate::{DiscardReason, Millis, WorkerId};

/// Idle connections that one attempt to open may close to make room. One is enough unless other workers take the room
/// each time; after a few such failures waiting in line is fairer.
const EVICTIONS_MAX: usize = 3;

/// Entries of a group's age list that a search for a peer examines, under the shard's lock: about a microsecond.
pub(super) const PEER_SEARCH_MAX: usize = 256;

/// Which limit is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// `max_connections` of the group.
    Connections,
    /// `connecting=` of the group.
    Connecting,
    /// `max_connections` of the server.
    PeerConnections,
    /// `connecting=` of the server.
    PeerConnecting,
    /// Others are already waiting.
    Line,
    /// The waiting line is as long as `queue=` permits.
    LineFull,
    /// The key was retired by a reload: route again.
    Retired,
}

/// Answer of [`Pool::open`].
#[must_use]
pub enum Open<'p, C: Send> {
    /// Connect.
    Connect {
        /// Counted as a connection from now on.
        permit: Connecting<'p, C>,
        /// Idle connections that were removed for it; the caller closes them.
        evicted: Vec<Removed<C>>,
    },
    /// Not now.
    Full {
        /// Why.
        limit: Full,
        /// Idle connections that were removed in vain; the caller closes them.
        evicted: Vec<Removed<C>>,
    },
}

/// Whether a key still leads to the same peer as when it was looked up, now that this caller is counted there: a peer's
/// number is reused only when no worker is counted.
fn still_leads(slot: &KeySlot, key: KeyId) -> bool {
    fence(Ordering::SeqCst);
    slot.is_live(key)
}

impl<C: Send> Pool<C> {
    /// Permission to open a connection for a key, if the limits permit it. Idle connections of the group are removed
    /// for it: they have other keys, or this caller would have got one from [`Pool::checkout`].
    pub fn open(&self, worker: WorkerId, key: KeyId) -> Open<'_, C> {
        let mut evicted = Vec::new();
        let Some((slot, group)) = self.live_key(key).and_then(|slot| Some((slot, self.group_of(slot)?))) else {
            return Open::Full { limit: Full::Retired, evicted };
        };
        if group.waiting.load(Ordering::Acquire) > 0 {
            return Open::Full { limit: Full::Line, evicted };
        }
        let (group_number, peer_number) = (slot.group(), slot.peer());
        loop {
            let limit = match self.reserve(group, peer_number) {
                Ok(()) => {
                    let permit = Connecting::new(self, worker, key, group_number, peer_number);
                    if !still_leads(slot, key) {
                        drop(permit);
                        return Open::Full { limit: Full::Retired, evicted };
                    }
                    return Open::Connect { permit, evicted };
                }
                Err(limit) => limit,
            };
            // The attempt held its reservations for a moment, and a waiter that looked just then may have been refused.
            self.look_at_line(group_number);
            let victim = match limit {
                _ if evicted.len() == EVICTIONS_MAX => None,
                Full::Connections => self.evict_idle(worker, group_number, None),
                Full::PeerConnections => self.evict_idle(worker, group_number, Some(peer_number)),
                _ => None,
            };
            match victim {
                Some(removed) => evicted.push(removed),
                None => return Open::Full { limit, evicted },
            }
        }
    }

    /// Permission to open a connection without a request: only if no limit is reached, and without removing another.
    pub fn open_spare(&self, worker: WorkerId, key: KeyId) -> Option<Connecting<'_, C>> {
        let slot = self.live_key(key)?;
        let group = self.group_of(slot)?;
        if group.waiting.load(Ordering::Acquire) > 0 {
            return None;
        }
        let (group_number, peer_number) = (slot.group(), slot.peer());
        if self.reserve(group, peer_number).is_err() {
            self.look_at_line(group_number);
            return None;
        }
        let permit = Connecting::new(self, worker, key, group_number, peer_number);
        Some(permit).filter(|_| still_leads(slot, key))
    }

    /// Enters the line for a connection; the driver wakes `token` when there is something to [`Waiter::poll`], possibly
    /// before this returns.
    pub fn wait(&self, worker: WorkerId, key: KeyId, token: u64) -> Result<Waiter<'_, C>, Full> {
        let (slot, group) =
            self.live_key(key).and_then(|slot| Some((slot, self.group_of(slot)?))).ok_or(Full::Retired)?;
        let peer_number = slot.peer();
        let peer = self.peers.slot(u32::from(peer_number)).ok_or(Full::Retired)?;
        let pinned = Pinned::new(peer);
        if !still_leads(slot, key) {
            return Err(Full::Retired);
        }
        let waiting_max = group.waiting_max.load(Ordering::Relaxed);
        if !acquire(&group.waiting, waiting_max) {
            lock(self.shard(worker)).counts(u32::from(slot.group())).refused += 1;
            return Err(Full::LineFull);
        }
        let request = Request { worker, key, peer: peer_number, token };
        let at = lock(&group.line).enqueue(request);
        let waiter = Waiter::new(self, at, slot.group(), request, pinned);
        self.look_at_line(slot.group());
        Ok(waiter)
    }

    /// Takes one connection and one connect from every limit, or nothing.
    fn reserve(&self, group: &GroupSlot<C>, peer: u16) -> Result<(), Full> {
        let peer = self.peers.slot(u32::from(peer)).ok_or(Full::Retired)?;
        let steps = [
            (&peer.gauges.0.connecting, peer.connecting_max.value(), Full::PeerConnecting),
            (&peer.gauges.0.connections, peer.connections_max.value(), Full::PeerConnections),
            (&group.gauges.0.connecting, group.connecting_max.value(), Full::Connecting),
            (&group.gauges.0.connections, group.connections_max.value(), Full::Connections),
        ];
        for (taken, (gauge, limit, full)) in steps.iter().enumerate() {
            if !acquire(gauge, *limit) {
                steps[..taken].iter().for_each(|(gauge, _, _)| release(gauge));
                return Err(*full);
            }
        }
        Ok(())
    }

    /// Releases a connection.
    pub(super) fn release_connection(&self, group: u16, peer: u16) {
        self.forget_connection(group, peer);
        self.look_at_line(group);
    }

    fn forget_connection(&self, group: u16, peer: u16) {
        if let Some(peer) = self.peers.slot(u32::from(peer)) {
            release(&peer.gauges.0.connections);
        }
        if let Some(group) = self.groups.slot(u32::from(group)) {
            release(&group.gauges.0.connections);
        }
    }

    fn end_connect(&self, group: u16, peer: u16) {
        if let Some(peer) = self.peers.slot(u32::from(peer)) {
            release(&peer.gauges.0.connecting);
        }
        if let Some(group) = self.groups.slot(u32::from(group)) {
            release(&group.gauges.0.connecting);
        }
    }

    pub(super) fn finish_connect(&self, group: u16, peer: u16) {
        self.end_connect(group, peer);
        self.look_at_line(group);
    }

    pub(super) fn give_up_connect(&self, group: u16, peer: u16) {
        self.end_connect(group, peer);
        self.release_connection(group, peer);
    }

    /// The releasing side's second step.
    pub(super) fn look_at_line(&self, group: u16) {
        fence(Ordering::SeqCst);
        self.serve_line(group);
    }

    /// Serves waiters while there is something to grant.
    pub(super) fn serve_line(&self, group_number: u16) {
        let Some(group) = self.groups.slot(u32::from(group_number)) else { return };
        while group.waiting.load(Ordering::Acquire) > 0 {
            let mut evicted = None;
            let served = self.serve_one(group, group_number, &mut evicted);
            let made_room = evicted.is_some();
            if let Some(removed) = evicted {
                self.driver.close(removed);
            }
            match served {
                Some(token) => self.driver.wake(token),
                // If a reload has lowered a limit, one may not be enough; there are few idle ones.
                None if made_room => {}
                None => return,
            }
        }
    }

    /// Grants something to the first waiter that can use what is free, and returns its token.
    fn serve_one(&self, group: &GroupSlot<C>, number: u16, evicted: &mut Option<Removed<C>>) -> Option<u64> {
        let mut line = lock(&group.line);
        let mut at = line.front();
        while let Some((request, behind)) = line.request(at) {
            match self.grant_for(group, number, request, evicted) {
                Ok(granted) => {
                    line.grant(at, granted);
                    group.waiting.fetch_sub(1, Ordering::AcqRel);
                    return Some(request.token);
                }
                // Only this waiter's peer is at its limit: the next waiter may want another.
                Err(Full::PeerConnections | Full::PeerConnecting) => at = behind,
                Err(_) => return None,
            }
        }
        None
    }

    fn grant_for(
        &self,
        group: &GroupSlot<C>,
        number: u16,
        request: Request,
        evicted: &mut Option<Removed<C>>,
    ) -> Result<Granted<C>, Full> {
        if let Some(slot) = self.live_key(request.key) {
            // There is no clock here: it may grant a connection past its idle limit that the timer has not collected
            // yet.
            if let Some((parked, source)) = self.find_idle(request.worker, request.key, slot, group, Millis(0)) {
                return Ok(Granted::Connection(parked, source));
            }
        }
        loop {
            let limit = match self.reserve(group, request.peer) {
                Ok(()) => return Ok(Granted::Slot),
                Err(limit) => limit,
            };
            let peer = match limit {
                Full::Connections => None,
                Full::PeerConnections => Some(request.peer),
                _ => return Err(limit),
            };
            if evicted.is_some() {
                return Err(limit);
            }
            *evicted = self.evict_idle(request.worker, number, peer);
            if evicted.is_none() {
                return Err(limit);
            }
        }
    }

    /// Removes the least recently used idle connection of a group, or of one of its peers, from this worker's shard or
    /// from another's, to make room for a connection of another key.
    fn evict_idle(&self, worker: WorkerId, group: u16, peer: Option<u16>) -> Option<Removed<C>> {
        let (parked, from) = self.remove_oldest(None, worker, group, peer, DiscardReason::MadeRoom)?;
        self.release_idle(&parked);
        self.forget_connection(parked.group as u16, parked.peer as u16);
        Some(Self::removed(from, parked, DiscardReason::MadeRoom))
    }

    /// Gives a connection directly to the first waiter, if that wants its key.
    pub(super) fn hand_over(
        &self,
        group: &GroupSlot<C>,
        from: WorkerId,
        key: KeyId,
        parked: Parked<C>,
    ) -> Result<(), Parked<C>> {
        if group.waiting.load(Ordering::Acquire) == 0 {
            return Err(parked);
        }
        let mut line = lock(&group.line);
        let front = line.front();
        let Some((request, _)) = line.request(front).filter(|(request, _)| request.key == key) else {
            return Err(parked);
        };
        let source = if request.worker == from { Source::Local } else { Source::Stolen { from } };
        let group_number = parked.group;
        line.grant(front, Granted::Connection(parked, source));
        group.waiting.fetch_sub(1, Ordering::AcqRel);
        drop(line);
        self.count_handed_over(from, group_number);
        self.driver.wake(request.token);
        Ok(())
    }

    pub(super) fn count_handed_over(&self, from: WorkerId, group: u32) {
        let mut shard = lock(self.shard(from));
        let counts = shard.counts(group);
        counts.reused += 1;
        counts.handed_over += 1;
    }

    /// A waiter, or a seeker, left with a granted connection. The next one may have it; it is not pooled again, because
    /// no worker watches it for the peer's FIN now.
    pub(super) fn give_back(&self, worker: WorkerId, key: KeyId, parked: Parked<C>, source: Source) {
        let from = match source {
            Source::Local => worker,
            Source::Stolen { from } => from,
        };
        let Some(group) = self.groups.slot(parked.group) else { return };
        let refused = self.hand_over(group, from, key, parked).or_else(|parked| match self.live_key(key) {
            Some(slot) => self.hand_to_seeker(group, slot, from, parked),
            None => Err(parked),
        });
        if let Err(parked) = refused {
            let (group, peer) = (parked.group as u16, parked.peer as u16);
            self.count_discard(worker, group, DiscardReason::Cancelled);
            self.driver.close(Self::removed(from, parked, DiscardReason::Cancelled));
            self.release_connection(group, peer);
        }
    }
}
