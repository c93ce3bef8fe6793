//! Limits and counters of a group and of a peer, process-wide. They live as long as the process: a reload changes the
//! limits in place and finds the counters as they were.

use std::sync::atomic::{AtomicBool, AtomicU32 as PlainU32, AtomicU64 as PlainU64, Ordering::Relaxed};

use super::connection_queue::Line;
use super::learned::Knowledge;
use super::table::{Padded, WorkerSet};
use crate::DiscardReason;
use crate::sync::{AtomicU32, Mutex, Ordering, PlainMutex, fence, lock_plain};

/// The stored value of "no limit".
const UNLIMITED: u32 = u32::MAX;

/// An `upstream {}` block, or an implicit one; by name, so that it survives reloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct GroupId(pub(crate) u16);

/// One address in a group: 16 bits for the place, 16 bits for its generation. A place is reused for another address
/// once no key and no connection of the former one is left; the old number then finds nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PeerId(u32);

impl PeerId {
    pub(crate) fn new(number: u16, generation: u32) -> Self {
        Self((generation << 16) | u32::from(number))
    }

    pub(crate) fn number(self) -> u16 {
        self.0 as u16
    }

    fn generation(self) -> u32 {
        self.0 >> 16
    }
}

/// The configured limits for a group's connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupLimits {
    /// Idle connections: of the whole process, or of each worker where `local`. 0 keeps none.
    pub idle_max: u32,
    /// `keepalive N local`: every worker keeps its own, and nothing is stolen.
    pub local: bool,
    /// Idle connections to one peer, process-wide (`per_peer=`).
    pub idle_per_peer_max: Option<u32>,
    /// `keepalive_requests`: exchanges on one connection.
    pub requests_max: u32,
    /// `keepalive_time`, in milliseconds; checked after an exchange, as in nginx.
    pub age_max_ms: u64,
    /// `keepalive_timeout`, in milliseconds.
    pub idle_timeout_ms: u64,
    /// `keepalive_learn`: connections retire before the time at which the peer is known to close them.
    pub learn: bool,
    /// `max_connections`: idle, leased, connecting and tunnels together, process-wide.
    pub connections_max: Option<u32>,
    /// `connecting=`: simultaneous connects, process-wide.
    pub connecting_max: Option<u32>,
    /// `queue=`: length of the waiting line.
    pub waiting_max: u32,
}

impl GroupLimits {
    /// nginx's defaults (1.29.7 and later) with `keepalive N [local]`. In nginx N applies to each worker: a shared pool
    /// holds N × workers, so that no pool shrinks on migration.
    pub fn keepalive(idle_per_worker: u32, local: bool, workers: u16) -> Self {
        let idle_max = if local { idle_per_worker } else { idle_per_worker.saturating_mul(u32::from(workers)) };
        Self {
            idle_max,
            local,
            idle_per_peer_max: None,
            requests_max: 1000,
            age_max_ms: 3_600_000,
            idle_timeout_ms: 60_000,
            learn: true,
            connections_max: None,
            connecting_max: None,
            waiting_max: 0,
        }
    }
}

/// The configured limits for one peer's connections (`server … max_connections`), process-wide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PeerLimits {
    /// Idle, leased, connecting and tunnels together.
    pub connections_max: Option<u32>,
    /// Simultaneous connects.
    pub connecting_max: Option<u32>,
}

/// Events of a group in one shard, or summed over all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GroupCounts {
    /// Connections established.
    pub opened: u64,
    /// Exchanges begun on a pooled connection.
    pub reused: u64,
    /// Those of `reused` whose connection came from another worker's shard.
    pub stolen: u64,
    /// Those of `reused` that were passed directly from one exchange to a request that waited in line, or for its own
    /// connection to open.
    pub handed_over: u64,
    /// Requests that found every permitted connection in use, and no place in the line.
    pub refused: u64,
    /// Connections discarded, by [`DiscardReason::index`].
    pub discarded: [u64; DiscardReason::ALL.len()],
}

impl GroupCounts {
    /// Connections discarded for any reason.
    pub fn discarded_total(&self) -> u64 {
        self.discarded.iter().sum()
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.opened += other.opened;
        self.reused += other.reused;
        self.stolen += other.stolen;
        self.handed_over += other.handed_over;
        self.refused += other.refused;
        for (sum, more) in self.discarded.iter_mut().zip(&other.discarded) {
            *sum += more;
        }
    }
}

/// A group at one moment. The gauges are read one after the other: under load they need not add up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupSnapshot {
    /// Connections in the pool.
    pub idle: u32,
    /// All connections: idle, leased, connecting, tunnels.
    pub connections: u32,
    /// Connects under way.
    pub connecting: u32,
    /// Requests waiting in line.
    pub waiting: u32,
    /// Events since the process began.
    pub counts: GroupCounts,
}

impl GroupSnapshot {
    /// Connections in use by exchanges and tunnels.
    pub fn leased(&self) -> u32 {
        self.connections.saturating_sub(self.idle).saturating_sub(self.connecting)
    }
}

/// A peer at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerSnapshot {
    /// Connections in the pool.
    pub idle: u32,
    /// All connections: idle, leased, connecting, tunnels.
    pub connections: u32,
    /// Connects under way.
    pub connecting: u32,
}

impl PeerSnapshot {
    /// Connections in use by exchanges and tunnels.
    pub fn leased(&self) -> u32 {
        self.connections.saturating_sub(self.idle).saturating_sub(self.connecting)
    }
}

/// The counters that limits are checked against.
#[derive(Default)]
pub(crate) struct Gauges {
    pub(crate) idle: AtomicU32,
    pub(crate) connections: AtomicU32,
    pub(crate) connecting: AtomicU32,
}

/// Adds one unless that would exceed the limit.
pub(crate) fn acquire(gauge: &AtomicU32, limit: u32) -> bool {
    if limit == UNLIMITED {
        gauge.fetch_add(1, Ordering::AcqRel);
        return true;
    }
    let mut seen = gauge.load(Ordering::Acquire);
    while seen < limit {
        match gauge.compare_exchange_weak(seen, seen + 1, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return true,
            Err(now) => seen = now,
        }
    }
    false
}

/// Undoes [`acquire`].
pub(crate) fn release(gauge: &AtomicU32) {
    let before = gauge.fetch_sub(1, Ordering::AcqRel);
    debug_assert!(before > 0, "a gauge fell below zero");
}

/// A limit that a reload may change at any time; no other value depends on it, so no memory ordering is needed.
pub(crate) struct Limit(PlainU32);

impl Limit {
    fn new() -> Self {
        Self(PlainU32::new(UNLIMITED))
    }

    fn set(&self, limit: Option<u32>) {
        self.0.store(limit.unwrap_or(UNLIMITED), Relaxed);
    }

    fn limit(&self) -> Option<u32> {
        Some(self.value()).filter(|&limit| limit != UNLIMITED)
    }

    /// The limit, [`UNLIMITED`] if there is none.
    pub(crate) fn value(&self) -> u32 {
        self.0.load(Relaxed)
    }
}

/// A group's place in the pool's table.
pub(crate) struct GroupSlot<C> {
    pub(crate) idle_max: PlainU32,
    pub(crate) local: AtomicBool,
    pub(crate) idle_per_peer_max: Limit,
    pub(crate) requests_max: PlainU32,
    pub(crate) age_max_ms: PlainU64,
    pub(crate) idle_timeout_ms: PlainU64,
    pub(crate) learn: AtomicBool,
    pub(crate) connections_max: Limit,
    pub(crate) connecting_max: Limit,
    pub(crate) waiting_max: PlainU32,
    pub(crate) waiting: AtomicU32,
    /// Shards that hold idle connections of this group.
    pub(crate) shards: WorkerSet,
    pub(crate) line: Mutex<Line<C>>,
    /// Written by every check-in and checkout: kept apart from the limits, which all workers read and none writes.
    pub(crate) gauges: Padded<Gauges>,
}

impl<C> Default for GroupSlot<C> {
    fn default() -> Self {
        Self {
            idle_max: PlainU32::new(0),
            local: AtomicBool::new(false),
            idle_per_peer_max: Limit::new(),
            requests_max: PlainU32::new(0),
            age_max_ms: PlainU64::new(0),
            idle_timeout_ms: PlainU64::new(0),
            learn: AtomicBool::new(false),
            connections_max: Limit::new(),
            connecting_max: Limit::new(),
            waiting_max: PlainU32::new(0),
            waiting: AtomicU32::new(0),
            shards: WorkerSet::default(),
            line: Mutex::new(Line::new()),
            gauges: Padded(Gauges::default()),
        }
    }
}

impl<C> GroupSlot<C> {
    pub(crate) fn apply(&self, limits: &GroupLimits) {
        self.idle_max.store(limits.idle_max, Relaxed);
        self.local.store(limits.local, Relaxed);
        self.idle_per_peer_max.set(limits.idle_per_peer_max);
        self.requests_max.store(limits.requests_max, Relaxed);
        self.age_max_ms.store(limits.age_max_ms, Relaxed);
        self.idle_timeout_ms.store(limits.idle_timeout_ms, Relaxed);
        self.learn.store(limits.learn, Relaxed);
        self.connections_max.set(limits.connections_max);
        self.connecting_max.set(limits.connecting_max);
        self.waiting_max.store(limits.waiting_max, Relaxed);
    }

    pub(crate) fn limits(&self) -> GroupLimits {
        GroupLimits {
            idle_max: self.idle_max.load(Relaxed),
            local: self.is_local(),
            idle_per_peer_max: self.idle_per_peer_max.limit(),
            requests_max: self.requests_max.load(Relaxed),
            age_max_ms: self.age_max_ms.load(Relaxed),
            idle_timeout_ms: self.idle_timeout_ms.load(Relaxed),
            learn: self.learn.load(Relaxed),
            connections_max: self.connections_max.limit(),
            connecting_max: self.connecting_max.limit(),
            waiting_max: self.waiting_max.load(Relaxed),
        }
    }

    pub(crate) fn is_local(&self) -> bool {
        self.local.load(Relaxed)
    }
}

/// A peer's place in the pool's table.
pub(crate) struct PeerSlot {
    /// Counts the former addresses of the place; 16 bits.
    generation: PlainU32,
    /// Requests in line that want this peer: they may be granted a connection to it at any time.
    pub(crate) waiters: AtomicU32,
    pub(crate) connections_max: Limit,
    pub(crate) connecting_max: Limit,
    pub(crate) knowledge: PlainMutex<Knowledge>,
    pub(crate) gauges: Padded<Gauges>,
}

impl Default for PeerSlot {
    fn default() -> Self {
        Self {
            generation: PlainU32::new(0),
            waiters: AtomicU32::new(0),
            connections_max: Limit::new(),
            connecting_max: Limit::new(),
            knowledge: PlainMutex::default(),
            gauges: Padded(Gauges::default()),
        }
    }
}

impl PeerSlot {
    pub(crate) fn id(&self, number: u16) -> PeerId {
        PeerId::new(number, self.generation.load(Relaxed))
    }

    pub(crate) fn is_of(&self, peer: PeerId) -> bool {
        self.generation.load(Relaxed) == peer.generation()
    }

    /// Prepares the place for another address, unless something of the former one is left. No key leads here any more;
    /// a caller that found one before counts itself first, and then checks whether the key still leads here.
    pub(crate) fn vacate(&self) -> bool {
        fence(Ordering::SeqCst);
        let Gauges { idle, connections, connecting } = &self.gauges.0;
        if [idle, connections, connecting, &self.waiters].iter().any(|gauge| gauge.load(Ordering::Acquire) > 0) {
            return false;
        }
        self.generation.store((self.generation.load(Relaxed) + 1) & 0xffff, Relaxed);
        self.apply(&PeerLimits::default());
        *lock_plain(&self.knowledge) = Knowledge::default();
        true
    }

    pub(crate) fn apply(&self, limits: &PeerLimits) {
        self.connections_max.set(limits.connections_max);
        self.connecting_max.set(limits.connecting_max);
    }
}
