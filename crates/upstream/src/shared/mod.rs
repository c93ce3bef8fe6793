//! State shared by worker threads: one process-wide pool of idle upstream connections, its exact limits, and the
//! waiting line. Not in here: sockets (the connection is an opaque `C`), event loops, and the choice of a peer
//! (`balance`).
//!
//! A worker keeps its idle connections in its own shard, behind a mutex that is nearly always free. It looks there
//! first; then a hint per key (a bit per worker) says which shards to try. A worker that removes the entry under that
//! shard's lock owns the connection; an event that the former owner still gets has a token that finds nothing.
//!
//! Lock order: a group's line, then a shard; never two shards, never a group's line under a shard. No call of the
//! [`Driver`] is made under a lock.
//!
//! ```text
//! checkout ──────────────► Some(lease) ──────────────► check_in / discard / into_tunnel
//!    │ None                    ▲
//!    ▼                         │ established
//! open ──► Connect(permit) ────┤
//!    │ Full                    │        (with [`Pool::seek`] beside it: what comes free first)
//!    ▼                         │
//! wait ──► Waiter … wake … poll ──► Reuse(lease) or Connect(permit)
//! ```

mod admission;
mod connection_queue;
mod contradiction;
mod group;
mod idle;
mod key;
mod learned;
mod lease;
mod seek;
mod shard;
mod table;

pub use admission::{Full, Open};
pub use connection_queue::{Grant, Waiter};
pub use contradiction::Contradiction;
pub use group::{GroupCounts, GroupId, GroupLimits, GroupSnapshot, PeerId, PeerLimits, PeerSnapshot};
pub use idle::{EXPIRIES_MAX, Inspection};
pub use key::{KeyId, PoolKey, TableFull, TlsIdentity};
pub use lease::{CheckIn, Checkout, Connecting, Lease, Removed, Source, TunnelCount, TunnelPermit};
pub use seek::Seeker;
pub use shard::{IdleToken, Meta};
pub use table::WORKERS_MAX;
pub use terms::PeerAddress;

use crate::sync::{Mutex, Ordering, PlainMutex, lock};
use crate::{DiscardReason, WorkerId};
use group::{GroupSlot, PeerSlot};
use key::{GUESTS_MAX, KeySlot, Names};
use shard::Shard;
use table::{Padded, Table};

/// What the pool needs from outside; never called under a lock.
pub trait Driver<C>: Send + Sync {
    /// A waiter was served: wake the task that packed `token` (worker, slot, generation). The task may be gone.
    fn wake(&self, token: u64);

    /// Close a connection that was removed while no caller could take it.
    fn close(&self, removed: Removed<C>);
}

/// All idle upstream connections of the process, and the counts of all others.
pub struct Pool<C: Send> {
    shards: Box<[Padded<Mutex<Shard<C>>>]>,
    groups: Table<GroupSlot<C>>,
    peers: Table<PeerSlot>,
    keys: Table<KeySlot>,
    /// Off the request path.
    names: PlainMutex<Names>,
    driver: Box<dyn Driver<C>>,
}

impl<C: Send> Pool<C> {
    /// A pool for workers `0..workers`, at least one and at most [`WORKERS_MAX`].
    pub fn new(workers: u16, driver: Box<dyn Driver<C>>) -> Self {
        let workers = workers.clamp(1, WORKERS_MAX);
        Self {
            shards: (0..workers).map(|_| Padded(Mutex::new(Shard::new()))).collect(),
            groups: Table::new(),
            peers: Table::new(),
            keys: Table::new(),
            names: PlainMutex::new(Names::default()),
            driver,
        }
    }

    /// Workers the pool was made for.
    pub fn workers(&self) -> u16 {
        self.shards.len() as u16
    }

    /// The group with this name (an `upstream {}` name, or the URL of an implicit one), with these limits from now on.
    /// Idle connections above a lowered limit are removed as others are added.
    pub fn intern_group(&self, name: &str, limits: &GroupLimits) -> Result<GroupId, TableFull> {
        let group = self.names().group(name)?;
        self.groups.slot_or_new(u32::from(group.0)).ok_or(TableFull)?.apply(limits);
        if !limits.learn {
            self.forget_learned(group);
        }
        self.serve_line(group.0);
        Ok(group)
    }

    /// The peer with this address in the group, with these limits from now on.
    pub fn intern_peer(&self, group: GroupId, address: &PeerAddress, limits: &PeerLimits) -> Result<PeerId, TableFull> {
        self.intern_one(group, address, limits, usize::MAX)
    }

    /// The peer for an address that a request has named. Such peers of a group have at most half of all numbers; beyond
    /// that each needs the number of a former one.
    pub fn intern_guest(&self, group: GroupId, address: &PeerAddress) -> Result<PeerId, TableFull> {
        self.intern_one(group, address, &PeerLimits::default(), GUESTS_MAX)
    }

    fn intern_one(
        &self,
        group: GroupId,
        address: &PeerAddress,
        limits: &PeerLimits,
        most: usize,
    ) -> Result<PeerId, TableFull> {
        let number = self.peer_number(&mut self.names(), group, address, most)?;
        let slot = self.peers.slot_or_new(u32::from(number)).ok_or(TableFull)?;
        slot.apply(limits);
        self.serve_line(group.0);
        Ok(slot.id(number))
    }

    fn peer_number(
        &self,
        names: &mut Names,
        group: GroupId,
        address: &PeerAddress,
        most: usize,
    ) -> Result<u16, TableFull> {
        names.peer(group, address, most, |number| self.peers.slot(u32::from(number)).is_none_or(PeerSlot::vacate))
    }

    /// The number of a key; an equal key has the same number until it is retired. Also interns its peer, without limits
    /// if it is new.
    pub fn intern_key(&self, key: &PoolKey) -> Result<KeyId, TableFull> {
        let mut names = self.names();
        let peer = self.peer_number(&mut names, key.group, &key.peer, usize::MAX)?;
        self.peers.slot_or_new(u32::from(peer)).ok_or(TableFull)?;
        let (index, is_new) = names.key(key, peer)?;
        let slot = self.keys.slot_or_new(index).ok_or(TableFull)?;
        if is_new {
            slot.settle(key.group.0, peer);
            self.publish_key(slot);
        }
        Ok(KeyId::new(index, slot.generation()))
    }

    /// Ends a key that no generation uses any more: its idle connections are returned to be closed, and leases in use
    /// are discarded at check-in. Its number then finds nothing. The number of a peer without keys may be reused once
    /// its last connection is gone.
    pub fn retire_key(&self, key: KeyId, removed: &mut Vec<Removed<C>>) {
        let Some(slot) = self.live_key(key) else { return };
        if !self.names().forget(key.index()) {
            return;
        }
        let peer = slot.peer();
        slot.retire();
        for worker in self.worker_ids() {
            self.drain_key_of(worker, key, removed);
        }
        let mut names = self.names();
        names.vacate(key.index());
        names.leave_peer(peer);
    }

    /// Counts a tunnel that another process has opened, whatever the limits; `None` if the pool does not know the peer.
    /// Off the request path.
    pub fn count_tunnel(&self, group: &str, address: &PeerAddress) -> Option<TunnelPermit<'_, C>> {
        // A peer's number passes to another peer only under this lock, and only if nothing is counted.
        let names = self.names();
        let (group, number) = names.known_peer(group, address)?;
        self.groups.slot(u32::from(group.0))?.gauges.0.connections.fetch_add(1, Ordering::AcqRel);
        if let Some(peer) = self.peers.slot(u32::from(number)) {
            peer.gauges.0.connections.fetch_add(1, Ordering::AcqRel);
        }
        Some(TunnelPermit::new(self, group.0, number))
    }

    /// A key with the name of its group, for another process; `None` once it is retired. Off the request path.
    pub fn describe(&self, key: KeyId) -> Option<(Box<str>, PoolKey)> {
        let names = self.names();
        self.live_key(key)?;
        names.describe(key.index())
    }

    /// The number of a key that is in use. Off the request path.
    pub fn known_key(&self, group: &str, key: impl FnOnce(GroupId) -> PoolKey) -> Option<KeyId> {
        let names = self.names();
        let index = names.known_key(group, key)?;
        Some(KeyId::new(index, self.keys.slot(index)?.generation()))
    }

    pub(crate) fn name_of_peer(&self, group: u16, peer: u16) -> Option<(Box<str>, PeerAddress)> {
        self.names().name_of_peer(GroupId(group), peer)
    }

    /// All groups that were ever interned, with their names. Off the request path.
    pub fn groups(&self) -> Vec<(Box<str>, GroupId)> {
        self.names().groups()
    }

    /// The present limits of a group.
    pub fn limits(&self, group: GroupId) -> Option<GroupLimits> {
        self.groups.slot(u32::from(group.0)).map(GroupSlot::limits)
    }

    /// A group's gauges and counters.
    pub fn snapshot(&self, group: GroupId) -> GroupSnapshot {
        let index = u32::from(group.0);
        let mut counts = GroupCounts::default();
        for shard in &self.shards {
            if let Some(here) = lock(&shard.0).counts_if_any(index) {
                counts.add(here);
            }
        }
        let mut snapshot = GroupSnapshot { idle: 0, connections: 0, connecting: 0, waiting: 0, counts };
        if let Some(slot) = self.groups.slot(index) {
            snapshot.idle = slot.gauges.0.idle.load(Ordering::Acquire);
            snapshot.connections = slot.gauges.0.connections.load(Ordering::Acquire);
            snapshot.connecting = slot.gauges.0.connecting.load(Ordering::Acquire);
            snapshot.waiting = slot.waiting.load(Ordering::Acquire);
        }
        snapshot
    }

    /// The present peer with this number.
    pub(crate) fn peer_id(&self, number: u16) -> Option<PeerId> {
        self.peers.slot(u32::from(number)).map(|slot| slot.id(number))
    }

    /// A peer's gauges.
    pub fn peer_snapshot(&self, peer: PeerId) -> PeerSnapshot {
        let read = |slot: &PeerSlot| PeerSnapshot {
            idle: slot.gauges.0.idle.load(Ordering::Acquire),
            connections: slot.gauges.0.connections.load(Ordering::Acquire),
            connecting: slot.gauges.0.connecting.load(Ordering::Acquire),
        };
        let none = PeerSnapshot { idle: 0, connections: 0, connecting: 0 };
        self.peers.slot(u32::from(peer.number())).filter(|slot| slot.is_of(peer)).map_or(none, read)
    }

    /// All connections to the peer behind a key: idle, leased, connecting, tunnels.
    pub fn peer_connections(&self, key: KeyId) -> u32 {
        let peer = self.live_key(key).and_then(|slot| self.peers.slot(u32::from(slot.peer())));
        peer.map_or(0, |peer| peer.gauges.0.connections.load(Ordering::Acquire))
    }

    fn names(&self) -> std::sync::MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn worker_ids(&self) -> impl Iterator<Item = WorkerId> + use<C> {
        (0..self.workers()).map(WorkerId)
    }

    /// The slot of a key that was not retired.
    fn live_key(&self, key: KeyId) -> Option<&KeySlot> {
        self.keys.slot(key.index()).filter(|slot| slot.is_live(key))
    }

    fn group_of(&self, slot: &KeySlot) -> Option<&GroupSlot<C>> {
        self.groups.slot(u32::from(slot.group()))
    }

    /// A worker's shard; a number out of range is a bug of the caller, and shares the first shard.
    fn shard(&self, worker: WorkerId) -> &Mutex<Shard<C>> {
        debug_assert!(worker.0 < self.workers(), "worker {} of {}", worker.0, self.workers());
        &self.shards.get(usize::from(worker.0)).unwrap_or(&self.shards[0]).0
    }

    fn count_opened(&self, worker: WorkerId, group: u16) {
        lock(self.shard(worker)).counts(u32::from(group)).opened += 1;
    }

    fn count_reuse(&self, worker: WorkerId, group: u16) {
        lock(self.shard(worker)).counts(u32::from(group)).reused += 1;
    }

    fn count_discard(&self, worker: WorkerId, group: u16, reason: DiscardReason) {
        lock(self.shard(worker)).count_discard(u32::from(group), reason);
    }
}
