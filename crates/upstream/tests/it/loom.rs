//! The pool under the model checker: every interleaving (up to three preemptions) of two workers. Run with
//! `RUSTFLAGS="--cfg loom" cargo test -p upstream --release loom::`.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc as StdArc, Mutex as StdMutex};

use loom::sync::Arc;
use loom::thread;
use upstream::shared::{
    CheckIn, Driver, GroupId, GroupLimits, KeyId, Lease, Open, PeerAddress, PeerLimits, Pool, PoolKey, Removed,
};
use upstream::{DiscardReason, Millis, WorkerId};

const W0: WorkerId = WorkerId(0);
const W1: WorkerId = WorkerId(1);
const NOW: Millis = Millis(1);

const LIMITS: GroupLimits = GroupLimits {
    idle_max: 10,
    local: false,
    idle_per_peer_max: None,
    requests_max: 1000,
    age_max_ms: 1000,
    idle_timeout_ms: 1000,
    learn: true,
    connections_max: None,
    connecting_max: None,
    waiting_max: 0,
};

/// A connection that notices two users at a time.
#[derive(Debug)]
struct Wire {
    in_use: AtomicBool,
}

impl Wire {
    fn begin(&self) {
        assert!(!self.in_use.swap(true, SeqCst), "one connection, two exchanges");
    }

    fn end(&self) {
        assert!(self.in_use.swap(false, SeqCst));
    }
}

type Connection = Box<Wire>;

#[derive(Clone, Default)]
struct Notes {
    woken: StdArc<StdMutex<Vec<u64>>>,
}

impl Driver<Connection> for Notes {
    fn wake(&self, token: u64) {
        self.woken.lock().unwrap().push(token);
    }

    fn close(&self, removed: Removed<Connection>) {
        drop(removed);
    }
}

struct Scene {
    pool: Pool<Connection>,
    notes: Notes,
    group: GroupId,
    key: KeyId,
}

fn explore(limits: GroupLimits, conversation: impl Fn(Arc<Scene>) + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let notes = Notes::default();
        let pool = Pool::new(2, Box::new(notes.clone()));
        let group = pool.intern_group("app", &limits).unwrap();
        let key = pool.intern_key(&key_of(group, 1)).unwrap();
        conversation(Arc::new(Scene { pool, notes, group, key }));
    });
}

fn address(last: u8) -> PeerAddress {
    PeerAddress::Ip(([127, 0, 0, last], 80).into())
}

fn key_of(group: GroupId, last: u8) -> PoolKey {
    PoolKey { group, peer: address(last), tls: None, source: None, proxy_protocol: false, location: None }
}

impl Scene {
    fn open(&self, worker: WorkerId, key: KeyId) -> Lease<'_, Connection> {
        match self.pool.open(worker, key) {
            Open::Connect { permit, .. } => permit.established(Box::new(Wire { in_use: AtomicBool::new(false) }), NOW),
            Open::Full { limit, .. } => panic!("{limit:?}"),
        }
    }

    fn pooled(&self, worker: WorkerId) {
        assert!(matches!(self.open(worker, self.key).check_in(NOW), CheckIn::Pooled { .. }));
    }

    /// One exchange on an idle connection, where there is one.
    fn exchange(&self, worker: WorkerId) -> bool {
        let Some(checkout) = self.pool.checkout(worker, self.key, NOW) else { return false };
        checkout.lease.connection().begin();
        thread::yield_now();
        checkout.lease.connection().end();
        let _ = checkout.lease.check_in(NOW);
        true
    }

    fn drained(&self) -> usize {
        let mut removed = Vec::new();
        self.pool.drain(W0, DiscardReason::Drain, &mut removed);
        self.pool.drain(W1, DiscardReason::Drain, &mut removed);
        removed.len()
    }
}

/// Runs `other` on a second thread and `own` on this one.
fn both(scene: &Arc<Scene>, own: impl FnOnce(&Scene), other: impl FnOnce(&Scene) + 'static) {
    let theirs = scene.clone();
    let thread = thread::spawn(move || other(&theirs));
    own(scene);
    thread.join().unwrap();
}

#[test]
fn two_workers_never_share_and_never_lose_a_connection() {
    explore(LIMITS, |scene| {
        scene.pooled(W0);
        both(&scene, |scene| _ = scene.exchange(W0), |scene| _ = scene.exchange(W1));
        let snapshot = scene.pool.snapshot(scene.group);
        assert_eq!((snapshot.idle, snapshot.connections), (1, 1));
        assert_eq!(scene.drained(), 1);
        assert_eq!(scene.pool.snapshot(scene.group).connections, 0);
    });
}

#[test]
fn thief_and_owner_event_never_share_a_connection() {
    explore(LIMITS, |scene| {
        let CheckIn::Pooled { token, .. } = scene.open(W0, scene.key).check_in(NOW) else { panic!("pooled") };
        both(
            &scene,
            move |scene| {
                if let Some(removed) = scene.pool.take(W0, token, DiscardReason::PeerClosedIdle) {
                    removed.connection.begin();
                }
            },
            |scene| {
                if let Some(checkout) = scene.pool.checkout(W1, scene.key, NOW) {
                    checkout.lease.connection().begin();
                    let _ = checkout.lease.discard(DiscardReason::Error);
                }
            },
        );
        let snapshot = scene.pool.snapshot(scene.group);
        assert_eq!((snapshot.idle, snapshot.connections, snapshot.counts.discarded_total()), (0, 0, 1));
    });
}

#[test]
fn the_idle_limit_holds_for_any_check_in() {
    explore(GroupLimits { idle_max: 1, ..LIMITS }, |scene| {
        let check_in = |worker| {
            move |scene: &Scene| {
                let _ = scene.open(worker, scene.key).check_in(NOW);
                assert!(scene.pool.snapshot(scene.group).idle <= 1);
            }
        };
        both(&scene, check_in(W0), check_in(W1));
        let snapshot = scene.pool.snapshot(scene.group);
        assert_eq!((snapshot.idle, snapshot.connections, snapshot.counts.discarded_total()), (1, 1, 1));
        assert_eq!(scene.drained(), 1);
    });
}

#[test]
fn the_connection_limit_holds_for_any_opener() {
    explore(GroupLimits { connections_max: Some(1), ..LIMITS }, |scene| {
        let shared = StdArc::new(Wire { in_use: AtomicBool::new(false) });
        let attempt = |worker, wire: StdArc<Wire>| {
            move |scene: &Scene| {
                if let Open::Connect { permit, .. } = scene.pool.open(worker, scene.key) {
                    wire.begin();
                    thread::yield_now();
                    wire.end();
                    drop(permit);
                }
            }
        };
        both(&scene, attempt(W0, shared.clone()), attempt(W1, shared));
        let snapshot = scene.pool.snapshot(scene.group);
        assert_eq!((snapshot.connections, snapshot.connecting), (0, 0));
    });
}

/// A waiter comes while the only permitted connection ends in the given way: it must be served.
fn waiter_meets(release: fn(Lease<'_, Connection>)) {
    explore(GroupLimits { connections_max: Some(1), waiting_max: 1, ..LIMITS }, move |scene| {
        let lease = scene.open(W0, scene.key);
        both(
            &scene,
            |_| release(lease),
            |scene| {
                if let Ok(waiter) = scene.pool.wait(W1, scene.key, 7) {
                    std::mem::forget(waiter);
                }
            },
        );
        let snapshot = scene.pool.snapshot(scene.group);
        assert_eq!(snapshot.waiting, 0, "the connection is unused, and a request waits for it");
        assert_eq!(*scene.notes.woken.lock().unwrap(), [7]);
    });
}

#[test]
fn a_discard_never_misses_a_waiter() {
    waiter_meets(|lease| _ = lease.discard(DiscardReason::Error));
}

#[test]
fn a_check_in_never_misses_a_waiter() {
    waiter_meets(|lease| _ = lease.check_in(NOW));
}

#[test]
fn refused_open_never_hides_room_from_a_waiter() {
    explore(GroupLimits { connections_max: Some(1), waiting_max: 1, ..LIMITS }, |scene| {
        both(
            &scene,
            |scene| drop(scene.pool.open(W0, scene.key)),
            |scene| {
                if let Ok(waiter) = scene.pool.wait(W1, scene.key, 7) {
                    std::mem::forget(waiter);
                }
            },
        );
        assert_eq!(scene.pool.snapshot(scene.group).waiting, 0);
        assert_eq!(*scene.notes.woken.lock().unwrap(), [7]);
    });
}

/// The attempt holds the peer's only connect for a moment before the group's limit refuses it.
#[test]
fn a_refused_attempt_does_not_cost_a_waiter_its_connection() {
    explore(GroupLimits { connections_max: Some(1), waiting_max: 1, ..LIMITS }, |scene| {
        let limits = PeerLimits { connections_max: None, connecting_max: Some(1) };
        scene.pool.intern_peer(scene.group, &address(1), &limits).unwrap();
        let lease = scene.open(W0, scene.key);
        both(
            &scene,
            |scene| {
                if let Ok(waiter) = scene.pool.wait(W0, scene.key, 7) {
                    std::mem::forget(waiter);
                }
                let _ = lease.discard(DiscardReason::Error);
            },
            |scene| drop(scene.pool.open(W1, scene.key)),
        );
        assert_eq!(scene.pool.snapshot(scene.group).waiting, 0);
    });
}

#[test]
fn a_waiter_that_leaves_never_takes_the_room_along() {
    explore(GroupLimits { connections_max: Some(1), waiting_max: 2, ..LIMITS }, |scene| {
        std::mem::forget(scene.open(W0, scene.key));
        let leaver = scene.pool.wait(W0, scene.key, 1).unwrap();
        std::mem::forget(scene.pool.wait(W0, scene.key, 2).unwrap());
        let theirs = scene.clone();
        let thread = thread::spawn(move || _ = theirs.pool.intern_group("app", &raised()).unwrap());
        drop(leaver);
        thread.join().unwrap();
        assert_eq!(scene.pool.snapshot(scene.group).waiting, 0);
        assert!(scene.notes.woken.lock().unwrap().contains(&2));
    });
}

fn raised() -> GroupLimits {
    GroupLimits { connections_max: Some(2), waiting_max: 2, ..LIMITS }
}

/// A request begins to seek while a connection comes free: it finds that one, is given it, or is woken to find it.
#[test]
fn a_check_in_never_misses_a_seeker() {
    explore(LIMITS, |scene| {
        let lease = scene.open(W0, scene.key);
        both(
            &scene,
            |_| _ = lease.check_in(NOW),
            |scene| {
                let Some(mut seeker) = scene.pool.seek(W1, scene.key, 7) else { return };
                match seeker.poll(NOW) {
                    Some(checkout) => _ = checkout.lease.discard(DiscardReason::Error),
                    None => std::mem::forget(seeker),
                }
            },
        );
        let is_served = scene.pool.snapshot(scene.group).connections == 0;
        let is_woken = scene.notes.woken.lock().unwrap().contains(&7);
        assert!(is_served || is_woken, "a connection is free, and its seeker sleeps");
    });
}

/// The first of two seekers leaves while a connection comes free: the other one is woken, and gets it unless the first
/// had it in its hand when it left.
#[test]
fn a_seeker_that_leaves_takes_no_connection_along() {
    explore(LIMITS, |scene| {
        let leaver = scene.pool.seek(W1, scene.key, 1).unwrap();
        let mut next = scene.pool.seek(W0, scene.key, 2).unwrap();
        let theirs = scene.clone();
        let thread = thread::spawn(move || _ = theirs.open(W1, theirs.key).check_in(NOW));
        drop(leaver);
        thread.join().unwrap();
        assert!(scene.notes.woken.lock().unwrap().contains(&2));
        let checkout = next.poll(NOW).expect("it was woken");
        let _ = checkout.lease.discard(DiscardReason::Error);
        assert_eq!(scene.pool.snapshot(scene.group).connections, 0);
    });
}

/// The same where the first seeker was woken for a connection that is idle, and leaves it there.
#[test]
fn a_woken_seeker_that_leaves_wakes_the_next() {
    explore(LIMITS, |scene| {
        let lease = scene.open(W0, scene.key);
        both(
            &scene,
            |_| _ = lease.check_in(NOW),
            |scene| {
                let leaver = scene.pool.seek(W1, scene.key, 1).unwrap();
                let mut next = scene.pool.seek(W1, scene.key, 2).unwrap();
                let found = next.poll(NOW);
                drop(leaver);
                match found {
                    Some(checkout) => _ = checkout.lease.discard(DiscardReason::Error),
                    None => std::mem::forget(next),
                }
            },
        );
        let is_served = scene.pool.snapshot(scene.group).connections == 0;
        let is_woken = scene.notes.woken.lock().unwrap().contains(&2);
        assert!(is_served || is_woken, "a connection is free, and its seeker sleeps");
    });
}

#[test]
fn a_retired_key_leaves_nothing_behind() {
    explore(LIMITS, |scene| {
        let key = scene.key;
        both(
            &scene,
            |scene| _ = scene.open(W0, scene.key).check_in(NOW),
            move |scene| {
                let mut removed = Vec::new();
                scene.pool.retire_key(key, &mut removed);
            },
        );
        let snapshot = scene.pool.snapshot(scene.group);
        assert_eq!((snapshot.idle, snapshot.connections), (0, 0));
    });
}

/// A peer's number goes to another peer only when no worker counts there, and a worker that found the old key before that does not
/// begin to count later.
#[test]
fn reusing_a_peers_number_moves_no_connection() {
    explore(LIMITS, |scene| {
        let key = scene.key;
        let theirs = scene.clone();
        let opening = thread::spawn(move || match theirs.pool.open(W1, key) {
            Open::Connect { permit, .. } => std::mem::forget(permit),
            Open::Full { .. } => {}
        });
        scene.pool.retire_key(key, &mut Vec::new());
        let newcomer = scene.pool.intern_key(&key_of(scene.group, 2)).unwrap();
        let peer = scene.pool.intern_peer(scene.group, &address(2), &PeerLimits::default()).unwrap();
        opening.join().unwrap();
        assert_eq!(scene.pool.peer_snapshot(peer).connections, 0, "the other one counts at the former peer");
        assert_eq!(scene.pool.peer_connections(newcomer), 0);
    });
}

/// The same of a place in line, for which something may be granted at any time.
#[test]
fn number_of_an_awaited_peer_stays() {
    explore(GroupLimits { connections_max: Some(1), waiting_max: 1, ..LIMITS }, |scene| {
        let other = scene.pool.intern_key(&key_of(scene.group, 3)).unwrap();
        let lease = scene.open(W0, other);
        let key = scene.key;
        let theirs = scene.clone();
        let waiting = thread::spawn(move || {
            if let Ok(waiter) = theirs.pool.wait(W1, key, 7) {
                std::mem::forget(waiter);
            }
        });
        scene.pool.retire_key(key, &mut Vec::new());
        let newcomer = scene.pool.intern_key(&key_of(scene.group, 2)).unwrap();
        waiting.join().unwrap();
        let _ = lease.discard(DiscardReason::Error);
        assert_eq!(scene.pool.peer_connections(newcomer), 0, "what was granted counts at the former peer");
    });
}
