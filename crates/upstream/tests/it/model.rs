//! Random operations against the pool and against the simplest thing that could be called one: a list of idle
//! connections per worker, newest last. After every step the books must balance and no limit may be exceeded.

use crate::scene::{LIMITS, Scene, address};
use proptest::prelude::*;
use upstream::shared::{CheckIn, GroupLimits, IdleToken, KeyId, Lease, Open, Source};
use upstream::{DiscardReason, Millis, WorkerId};

const WORKERS: u16 = 3;
const KEYS: usize = 3;
const IDLE_MAX: usize = 4;
const CONNECTIONS_MAX: usize = 6;
const IDLE_TIMEOUT_MS: u64 = 50;
const REQUESTS_MAX: u32 = 5;

#[derive(Debug, Clone)]
enum Step {
    Checkout { worker: u16, key: usize },
    Open { worker: u16, key: usize },
    CheckIn { which: usize },
    Discard { which: usize },
    Event { which: usize },
    Expire { worker: u16 },
    Pass { ms: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let (worker, key) = (0..WORKERS, 0..KEYS);
    prop_oneof![
        4 => (worker.clone(), key.clone()).prop_map(|(worker, key)| Step::Checkout { worker, key }),
        3 => (worker.clone(), key).prop_map(|(worker, key)| Step::Open { worker, key }),
        6 => any::<usize>().prop_map(|which| Step::CheckIn { which }),
        1 => any::<usize>().prop_map(|which| Step::Discard { which }),
        1 => any::<usize>().prop_map(|which| Step::Event { which }),
        1 => worker.prop_map(|worker| Step::Expire { worker }),
        2 => (0u64..30).prop_map(|ms| Step::Pass { ms }),
    ]
}

/// What the reference knows of an idle connection.
#[derive(Debug, Clone, Copy)]
struct Idle {
    worker: u16,
    key: usize,
    since: u64,
    requests: u32,
    token: IdleToken,
}

struct Leased<'p> {
    worker: u16,
    key: usize,
    lease: Lease<'p, &'static str>,
}

struct Reference<'p> {
    scene: &'p Scene,
    keys: [KeyId; KEYS],
    /// In the order in which they went idle.
    idle: Vec<Idle>,
    leased: Vec<Leased<'p>>,
    now: u64,
}

impl Reference<'_> {
    fn is_fresh(&self, idle: &Idle) -> bool {
        self.now - idle.since < IDLE_TIMEOUT_MS
    }

    /// The newest of a shard's key, where it is fresh.
    fn newest(&self, worker: u16, key: usize) -> Option<usize> {
        let at = self.idle.iter().rposition(|idle| idle.worker == worker && idle.key == key)?;
        self.is_fresh(&self.idle[at]).then_some(at)
    }

    fn run(&mut self, step: &Step) {
        match *step {
            Step::Pass { ms } => self.now += ms,
            Step::Checkout { worker, key } => self.checkout(worker, key),
            Step::Open { worker, key } => self.open(worker, key),
            Step::CheckIn { which } => self.check_in(which),
            Step::Discard { which } => {
                if let Some(at) = which.checked_rem(self.leased.len()) {
                    let _ = self.leased.remove(at).lease.discard(DiscardReason::Error);
                }
            }
            Step::Event { which } => {
                if let Some(at) = which.checked_rem(self.idle.len()) {
                    let idle = self.idle.remove(at);
                    let worker = WorkerId(idle.worker);
                    let pool = &self.scene.pool;
                    assert!(pool.take(worker, idle.token, DiscardReason::PeerClosedIdle).is_some());
                    assert!(pool.take(worker, idle.token, DiscardReason::PeerClosedIdle).is_none());
                }
            }
            Step::Expire { worker } => self.expire(worker),
        }
    }

    fn checkout(&mut self, worker: u16, key: usize) {
        let own = self.newest(worker, key);
        let got = self.scene.pool.checkout(WorkerId(worker), self.keys[key], Millis(self.now));
        let Some(checkout) = got else {
            assert!((0..WORKERS).all(|other| self.newest(other, key).is_none()), "an idle connection was missed");
            return;
        };
        let at = match checkout.source {
            Source::Local => own.expect("the reference has one here, too"),
            Source::Stolen { from } => {
                assert!(own.is_none(), "own first");
                self.newest(from.0, key).expect("the reference has one there, too")
            }
        };
        let idle = self.idle.remove(at);
        assert_eq!(checkout.idle_since, Millis(idle.since));
        assert_eq!(checkout.lease.meta().requests, idle.requests + 1);
        self.leased.push(Leased { worker, key, lease: checkout.lease });
    }

    fn open(&mut self, worker: u16, key: usize) {
        let is_full = self.idle.len() + self.leased.len() == CONNECTIONS_MAX;
        match self.scene.pool.open(WorkerId(worker), self.keys[key]) {
            Open::Full { evicted, .. } => {
                assert!(is_full && self.idle.is_empty() && evicted.is_empty());
            }
            Open::Connect { permit, evicted } => {
                assert_eq!(evicted.len(), usize::from(is_full));
                for removed in evicted {
                    self.evicted(removed.worker, removed.idle_since);
                }
                let lease = permit.established("c", Millis(self.now));
                self.leased.push(Leased { worker, key, lease });
            }
        }
    }

    fn check_in(&mut self, which: usize) {
        let Some(at) = which.checked_rem(self.leased.len()) else { return };
        let Leased { worker, key, lease } = self.leased.remove(at);
        let requests = lease.meta().requests;
        match lease.check_in(Millis(self.now)) {
            CheckIn::Pooled { token, evicted, .. } => {
                assert!(requests < REQUESTS_MAX);
                assert_eq!(evicted.is_some(), self.idle.len() == IDLE_MAX);
                if let Some(removed) = evicted {
                    let has_own = self.idle.iter().any(|idle| idle.worker == worker);
                    assert_eq!(removed.worker == WorkerId(worker), has_own, "own shard first");
                    self.evicted(removed.worker, removed.idle_since);
                }
                self.idle.push(Idle { worker, key, since: self.now, requests, token });
            }
            CheckIn::Discarded { reason, .. } => {
                assert_eq!((reason, requests), (DiscardReason::RequestLimit, REQUESTS_MAX));
            }
            CheckIn::HandedOver => panic!("no request waits"),
        }
    }

    /// The pool chose a shard; within it the oldest must have gone.
    fn evicted(&mut self, worker: WorkerId, since: Millis) {
        let at = self.idle.iter().position(|idle| idle.worker == worker.0).expect("it has one");
        assert_eq!(self.idle.remove(at).since, since.0, "least recently used");
    }

    fn expire(&mut self, worker: u16) {
        let mut removed = Vec::new();
        let next = self.scene.pool.expire(WorkerId(worker), Millis(self.now), &mut removed);
        let before = self.idle.len();
        let now = self.now;
        self.idle.retain(|idle| idle.worker != worker || now - idle.since < IDLE_TIMEOUT_MS);
        assert_eq!(removed.len(), before - self.idle.len());
        let oldest = self.idle.iter().find(|idle| idle.worker == worker);
        assert_eq!(next, oldest.map(|idle| Millis(idle.since + IDLE_TIMEOUT_MS)));
    }

    fn assert_books(&self) {
        let snapshot = self.scene.snapshot();
        assert_eq!(snapshot.idle as usize, self.idle.len());
        assert_eq!(snapshot.connections as usize, self.idle.len() + self.leased.len());
        assert_eq!(snapshot.connecting, 0);
        assert!(snapshot.idle as usize <= IDLE_MAX && snapshot.connections as usize <= CONNECTIONS_MAX);
        self.scene.assert_balance(self.leased.len() as u64);
    }
}

proptest! {
    #[test]
    fn the_pool_behaves_like_a_list(steps in prop::collection::vec(step(), 1..200)) {
        let scene = Scene::new(WORKERS, &GroupLimits {
            idle_max: IDLE_MAX as u32,
            connections_max: Some(CONNECTIONS_MAX as u32),
            idle_timeout_ms: IDLE_TIMEOUT_MS,
            requests_max: REQUESTS_MAX,
            ..LIMITS
        });
        let keys = [1, 2, 3].map(|last| scene.key_with(|key| key.peer = address(last)));
        let mut reference = Reference { scene: &scene, keys, idle: Vec::new(), leased: Vec::new(), now: 0 };
        for step in &steps {
            reference.run(step);
            reference.assert_books();
        }
        for leased in reference.leased.drain(..) {
            let _ = leased.lease.discard(DiscardReason::Drain);
        }
        let mut removed = Vec::new();
        for worker in 0..WORKERS {
            scene.pool.drain(WorkerId(worker), DiscardReason::Drain, &mut removed);
        }
        prop_assert_eq!(removed.len(), reference.idle.len());
        prop_assert_eq!(scene.snapshot().connections, 0);
        scene.assert_balance(0);
    }
}
