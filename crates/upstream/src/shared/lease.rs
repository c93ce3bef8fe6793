//! Leases and permits: the right to one exchange on a connection, the right to open one, and the count of a tunnel. All
//! borrow the pool. The gateway's pool lives as long as the process, so there the borrow is `&'static` and a lease
//! costs no reference count; tests borrow a pool on their stack.

use super::Pool;
use super::group::{GroupId, PeerId};
use super::key::KeyId;
use super::shard::{IdleToken, Meta, Parked};
use crate::{DiscardReason, Millis, WorkerId};

/// Why the `Option` in a lease is full: only the consuming calls and `drop` empty it.
const HELD: &str = "a lease holds its connection until it is consumed";

/// Which shard an idle connection came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The worker's own: it is in this worker's epoll already.
    Local,
    /// Another worker's: the thief moves it from that worker's epoll to its own.
    Stolen {
        /// The worker that had it.
        from: WorkerId,
    },
}

/// An idle connection that was taken out of the pool.
#[must_use = "a lease must be checked in or discarded"]
pub struct Checkout<'p, C: Send> {
    /// The lease of the connection, which must be settled.
    pub lease: Lease<'p, C>,
    /// Its own shard or another's.
    pub source: Source,
    /// When its last exchange ended.
    pub idle_since: Millis,
}

impl<'p, C: Send> Checkout<'p, C> {
    pub(crate) fn of(pool: &'p Pool<C>, worker: WorkerId, key: KeyId, parked: Parked<C>, source: Source) -> Self {
        Self { idle_since: parked.idle_since, source, lease: Lease::reuse(pool, worker, key, parked) }
    }
}

/// A connection that left the pool without a new exchange, for the caller to close.
#[derive(Debug)]
#[must_use = "the connection is still open"]
pub struct Removed<C> {
    /// The connection.
    pub connection: C,
    /// The worker in whose shard (and epoll) it was.
    pub worker: WorkerId,
    /// Its key.
    pub key: KeyId,
    /// Its group.
    pub group: GroupId,
    /// Its peer's number, as long as it counts there.
    pub(crate) peer: u16,
    /// Its age and use.
    pub meta: Meta,
    /// When its last exchange ended.
    pub idle_since: Millis,
    /// Why it left.
    pub reason: DiscardReason,
}

/// The result of a check-in.
#[derive(Debug)]
#[must_use = "a connection in it is still open"]
pub enum CheckIn<C> {
    /// It is idle in this worker's shard.
    Pooled {
        /// Names it for [`Pool::take`].
        token: IdleToken,
        /// Longest time that it may stay, in milliseconds; arm the expiry timer for then, unless it is armed for
        /// earlier.
        idle_max_ms: u64,
        /// The connection that was removed for it.
        evicted: Option<Removed<C>>,
    },
    /// A request that waited for one, or for its own to open, got it and was woken. It then has a thief's duties.
    HandedOver,
    /// It is not kept: close it.
    Discarded {
        /// The connection.
        connection: C,
        /// Why.
        reason: DiscardReason,
    },
}

/// The right to one exchange on an upstream connection. Consume it with [`Self::check_in`], [`Self::discard`] or
/// [`Self::into_tunnel`]. If it is dropped otherwise, it counts as [`DiscardReason::Dropped`], and its connection is
/// dropped with it; a debug build that is not unwinding then asserts, since that is a bug.
#[must_use = "a lease must be checked in or discarded"]
pub struct Lease<'p, C: Send> {
    pool: &'p Pool<C>,
    /// `None` once consumed.
    connection: Option<C>,
    meta: Meta,
    key: KeyId,
    group: u16,
    peer: u16,
    worker: WorkerId,
    reused: bool,
}

impl<'p, C: Send> Lease<'p, C> {
    pub(crate) fn reuse(pool: &'p Pool<C>, worker: WorkerId, key: KeyId, parked: Parked<C>) -> Self {
        let meta = Meta { requests: parked.meta.requests.saturating_add(1), ..parked.meta };
        let (group, peer) = (parked.group as u16, parked.peer as u16);
        let connection = Some(parked.connection);
        Self { pool, connection, meta, key, group, peer, worker, reused: true }
    }

    /// The connection.
    pub fn connection(&self) -> &C {
        self.connection.as_ref().expect(HELD)
    }

    /// The connection, to be changed.
    pub fn connection_mut(&mut self) -> &mut C {
        self.connection.as_mut().expect(HELD)
    }

    /// Age and use.
    pub fn meta(&self) -> Meta {
        self.meta
    }

    /// Whether it served an exchange before: then a failure may be the keepalive race (P2, P3).
    pub fn is_reused(&self) -> bool {
        self.reused
    }

    /// Its key in the pool.
    pub fn key(&self) -> KeyId {
        self.key
    }

    /// Counts another exchange on the connection while others are in progress (HTTP/2).
    pub fn count_exchange(&mut self) {
        self.meta.requests = self.meta.requests.saturating_add(1);
        self.pool.count_reuse(self.worker, self.group);
    }

    /// Ends the exchange and keeps the connection, within the group's limits.
    pub fn check_in(self, now: Millis) -> CheckIn<C> {
        self.check_in_with(now, |_, _| {})
    }

    /// Like [`Self::check_in`], and runs `register` before any other worker can see the connection: for entering the
    /// token in the worker's event table, or in the epoll set. It runs under the shard's lock, so it should make at
    /// most one system call.
    pub fn check_in_with(mut self, now: Millis, register: impl FnOnce(&C, IdleToken)) -> CheckIn<C> {
        let parked = Parked {
            connection: self.consume(),
            meta: self.meta,
            idle_since: now,
            key: self.key,
            group: u32::from(self.group),
            peer: u32::from(self.peer),
        };
        self.pool.check_in(self.worker, self.key, parked, register)
    }

    /// Ends the exchange and returns the connection to be closed, counted with its reason.
    #[must_use = "the connection is still open"]
    pub fn discard(mut self, reason: DiscardReason) -> C {
        let connection = self.consume();
        self.settle(reason);
        connection
    }

    /// Ends the exchange with a tunnel: the connection leaves the pool for good, but counts against the limits until
    /// the permit is dropped.
    pub fn into_tunnel(mut self) -> (C, TunnelPermit<'p, C>) {
        let connection = self.consume();
        self.pool.count_discard(self.worker, self.group, DiscardReason::Upgraded);
        (connection, TunnelPermit::new(self.pool, self.group, self.peer))
    }

    fn consume(&mut self) -> C {
        self.connection.take().expect(HELD)
    }

    fn settle(&self, reason: DiscardReason) {
        self.pool.count_discard(self.worker, self.group, reason);
        self.pool.release_connection(self.group, self.peer);
    }
}

impl<C: Send> Drop for Lease<'_, C> {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            drop(connection);
            self.settle(DiscardReason::Dropped);
            debug_assert!(std::thread::panicking(), "a lease was dropped: check it in or discard it");
        }
    }
}

/// The right to open one connection, counted as a connection and as a connect from the beginning. If it is dropped
/// without [`Self::established`], the connect failed or was given up.
#[must_use = "dropping it gives up the connect"]
pub struct Connecting<'p, C: Send> {
    pool: &'p Pool<C>,
    key: KeyId,
    group: u16,
    peer: u16,
    worker: WorkerId,
    done: bool,
}

impl<'p, C: Send> Connecting<'p, C> {
    pub(crate) fn new(pool: &'p Pool<C>, worker: WorkerId, key: KeyId, group: u16, peer: u16) -> Self {
        Self { pool, key, group, peer, worker, done: false }
    }

    /// The connection is established, including handshakes: its first exchange may begin.
    pub fn established(self, connection: C, now: Millis) -> Lease<'p, C> {
        self.pool.count_opened(self.worker, self.group);
        self.lease(connection, Meta { created_at: now, requests: 1 })
    }

    fn lease(mut self, connection: C, meta: Meta) -> Lease<'p, C> {
        self.done = true;
        self.pool.finish_connect(self.group, self.peer);
        Lease {
            pool: self.pool,
            connection: Some(connection),
            meta,
            key: self.key,
            group: self.group,
            peer: self.peer,
            worker: self.worker,
            reused: false,
        }
    }
}

impl<C: Send> Connecting<'_, C> {
    /// The connection is established and is pooled before its first exchange, as by [`Lease::check_in_with`].
    pub fn established_idle(self, connection: C, now: Millis, register: impl FnOnce(&C, IdleToken)) -> CheckIn<C> {
        let mut lease = self.established(connection, now);
        lease.meta.requests = 0;
        lease.check_in_with(now, register)
    }

    /// The connection is another process's, with its age and use there, and is pooled as if it had been idle here. It does
    /// not count as opened.
    pub fn taken_over(
        self,
        connection: C,
        meta: Meta,
        idle_since: Millis,
        register: impl FnOnce(&C, IdleToken),
    ) -> CheckIn<C> {
        self.lease(connection, meta).check_in_with(idle_since, register)
    }
}

impl<C: Send> Drop for Connecting<'_, C> {
    fn drop(&mut self) {
        if !self.done {
            self.pool.give_up_connect(self.group, self.peer);
        }
    }
}

/// Counts a tunnel among the connections of its group and peer, until dropped.
#[must_use = "dropping it tells the pool that the tunnel ended"]
pub struct TunnelPermit<'p, C: Send> {
    pool: &'p Pool<C>,
    group: u16,
    peer: u16,
}

impl<'p, C: Send> TunnelPermit<'p, C> {
    pub(crate) fn new(pool: &'p Pool<C>, group: u16, peer: u16) -> Self {
        Self { pool, group, peer }
    }

    /// Its group.
    pub fn group(&self) -> GroupId {
        GroupId(self.group)
    }

    /// Its peer.
    pub fn peer(&self) -> Option<PeerId> {
        self.pool.peer_id(self.peer)
    }
}

impl<C: Send> Drop for TunnelPermit<'_, C> {
    fn drop(&mut self) {
        self.pool.release_connection(self.group, self.peer);
    }
}

/// What a [`TunnelPermit`] counts, for an owner that need not refer to the pool: there may be a million tunnels.
#[derive(Debug)]
#[must_use = "the tunnel counts until its permit is resumed and dropped"]
pub struct TunnelCount {
    group: u16,
    peer: u16,
}

impl<C: Send> TunnelPermit<'_, C> {
    /// Leaves the tunnel counted; its owner calls [`TunnelCount::resume`] when it ends.
    pub fn into_count(self) -> TunnelCount {
        let count = TunnelCount { group: self.group, peer: self.peer };
        std::mem::forget(self);
        count
    }
}

impl TunnelCount {
    /// The inverse of [`TunnelPermit::into_count`], with the same pool.
    pub fn resume<C: Send>(self, pool: &Pool<C>) -> TunnelPermit<'_, C> {
        TunnelPermit::new(pool, self.group, self.peer)
    }

    /// Its group.
    pub fn group(&self) -> GroupId {
        GroupId(self.group)
    }

    /// Its peer.
    pub fn peer<C: Send>(&self, pool: &Pool<C>) -> Option<PeerId> {
        pool.peer_id(self.peer)
    }

    /// The group's name and the peer's address. Off the request path.
    pub fn names<C: Send>(&self, pool: &Pool<C>) -> Option<(Box<str>, super::PeerAddress)> {
        pool.name_of_peer(self.group, self.peer)
    }
}
