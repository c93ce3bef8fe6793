//! A pool with one group and one peer, and a driver that writes down what it was asked.

#![allow(clippy::unwrap_used)] // a failed step of a test is its end

use std::sync::{Arc, Mutex};

use upstream::shared::{
    CheckIn, Driver, GroupId, GroupLimits, GroupSnapshot, IdleToken, KeyId, Lease, Open, PeerAddress, Pool, PoolKey,
    Removed,
};
use upstream::{DiscardReason, Millis, WorkerId};

pub(crate) const W0: WorkerId = WorkerId(0);
pub(crate) const W1: WorkerId = WorkerId(1);
pub(crate) const W2: WorkerId = WorkerId(2);

/// Roomy limits that each test narrows where it looks.
pub(crate) const LIMITS: GroupLimits = GroupLimits {
    idle_max: 100,
    local: false,
    idle_per_peer_max: None,
    requests_max: 1000,
    age_max_ms: 3_600_000,
    idle_timeout_ms: 60_000,
    learn: true,
    connections_max: None,
    connecting_max: None,
    waiting_max: 0,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Closed {
    pub(crate) connection: &'static str,
    pub(crate) reason: DiscardReason,
    pub(crate) worker: WorkerId,
}

#[derive(Default)]
pub(crate) struct Notes {
    woken: Mutex<Vec<u64>>,
    closed: Mutex<Vec<Closed>>,
}

impl Notes {
    pub(crate) fn woken(&self) -> Vec<u64> {
        self.woken.lock().unwrap().clone()
    }

    pub(crate) fn closed(&self) -> Vec<Closed> {
        self.closed.lock().unwrap().clone()
    }
}

struct Scribe(Arc<Notes>);

impl Driver<&'static str> for Scribe {
    fn wake(&self, token: u64) {
        self.0.woken.lock().unwrap().push(token);
    }

    fn close(&self, removed: Removed<&'static str>) {
        let Removed { connection, reason, worker, .. } = removed;
        self.0.closed.lock().unwrap().push(Closed { connection, reason, worker });
    }
}

pub(crate) struct Scene {
    pub(crate) pool: Pool<&'static str>,
    pub(crate) driver: Arc<Notes>,
    pub(crate) group: GroupId,
    pub(crate) key: KeyId,
}

pub(crate) fn address(last: u8) -> PeerAddress {
    PeerAddress::Ip(([127, 0, 0, last], 8080).into())
}

impl Scene {
    pub(crate) fn new(workers: u16, limits: &GroupLimits) -> Self {
        let driver = Arc::new(Notes::default());
        let pool = Pool::new(workers, Box::new(Scribe(driver.clone())));
        let group = pool.intern_group("app", limits).unwrap();
        let key = pool.intern_key(&plain_key(group)).unwrap();
        Self { pool, driver, group, key }
    }

    /// The plain key with something different about it.
    pub(crate) fn key_with(&self, change: impl FnOnce(&mut PoolKey)) -> KeyId {
        let mut key = plain_key(self.group);
        change(&mut key);
        self.pool.intern_key(&key).unwrap()
    }

    /// A connection fresh from connect, leased.
    pub(crate) fn opened(&self, worker: WorkerId, name: &'static str, now: Millis) -> Lease<'_, &'static str> {
        self.opened_with(worker, self.key, name, now)
    }

    pub(crate) fn opened_with(
        &self,
        worker: WorkerId,
        key: KeyId,
        name: &'static str,
        now: Millis,
    ) -> Lease<'_, &'static str> {
        match self.pool.open(worker, key) {
            Open::Connect { permit, .. } => permit.established(name, now),
            Open::Full { limit, .. } => panic!("no room for {name}: {limit:?}"),
        }
    }

    /// A connection that served one exchange and is idle now.
    pub(crate) fn pooled(&self, worker: WorkerId, name: &'static str, now: Millis) -> IdleToken {
        self.pooled_with(worker, self.key, name, now)
    }

    pub(crate) fn pooled_with(&self, worker: WorkerId, key: KeyId, name: &'static str, now: Millis) -> IdleToken {
        match self.opened_with(worker, key, name, now).check_in(now) {
            CheckIn::Pooled { token, evicted: None, .. } => token,
            other => panic!("{name} was not simply pooled: {other:?}"),
        }
    }

    pub(crate) fn snapshot(&self) -> GroupSnapshot {
        self.pool.snapshot(self.group)
    }

    /// Every connection ever opened is idle, on one of `leased` leases, or was thrown away for a reason.
    pub(crate) fn assert_balance(&self, leased: u64) {
        let snapshot = self.snapshot();
        let known = u64::from(snapshot.idle) + leased + snapshot.counts.discarded_total();
        assert_eq!(snapshot.counts.opened, known, "{snapshot:?}");
    }
}

fn plain_key(group: GroupId) -> PoolKey {
    PoolKey { group, peer: address(1), tls: None, source: None, proxy_protocol: false, location: None }
}
