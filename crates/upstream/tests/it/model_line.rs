//! Random operations against a pool with every limit it has, a waiting line, tunnels and connects that fail: no limit is
//! exceeded, no connection has two users, none is lost, and no request waits for what is free. `model` checks which connection
//! one gets; here only counts are kept.
#![allow(clippy::unwrap_used)] // a failed step of a test is its end

use proptest::prelude::*;
use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use upstream::shared::{
    CheckIn, Connecting, Driver, Full, Grant, GroupId, GroupLimits, KeyId, Lease, Open, PeerAddress, PeerLimits, Pool,
    PoolKey, Removed, TunnelPermit, Waiter,
};
use upstream::{DiscardReason, Millis, WorkerId};

const WORKERS: u16 = 3;
const PEERS: usize = 2;
const CONNECTIONS_MAX: usize = 6;
const CONNECTING_MAX: usize = 3;
const WAITING_MAX: usize = 4;
const PEER_CONNECTIONS_MAX: usize = 4;
const PEER_CONNECTING_MAX: usize = 2;
const NOW: Millis = Millis(1);

/// A connection's serial number.
type Serial = u32;

#[derive(Debug, Clone, Copy)]
enum Step {
    Ask { worker: u16, peer: usize },
    Establish { which: usize },
    Fail { which: usize },
    CheckIn { which: usize },
    Discard { which: usize },
    Tunnel { which: usize },
    EndTunnel { which: usize },
    Leave { which: usize },
    Limits { connections: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let which = any::<usize>();
    prop_oneof![
        8 => (0..WORKERS, 0..PEERS).prop_map(|(worker, peer)| Step::Ask { worker, peer }),
        6 => which.prop_map(|which| Step::Establish { which }),
        1 => which.prop_map(|which| Step::Fail { which }),
        5 => which.prop_map(|which| Step::CheckIn { which }),
        1 => which.prop_map(|which| Step::Discard { which }),
        1 => which.prop_map(|which| Step::Tunnel { which }),
        1 => which.prop_map(|which| Step::EndTunnel { which }),
        1 => which.prop_map(|which| Step::Leave { which }),
        1 => (2..=CONNECTIONS_MAX).prop_map(|connections| Step::Limits { connections }),
    ]
}

/// Who was woken, and what was closed by the pool itself.
#[derive(Default)]
struct Notes {
    woken: Mutex<Vec<u64>>,
    closed: Mutex<Vec<Serial>>,
}

struct Scribe(Arc<Notes>);

impl Driver<Serial> for Scribe {
    fn wake(&self, token: u64) {
        self.0.woken.lock().unwrap().push(token);
    }

    fn close(&self, removed: Removed<Serial>) {
        self.0.closed.lock().unwrap().push(removed.connection);
    }
}

fn limits(connections: usize) -> GroupLimits {
    GroupLimits {
        connections_max: Some(connections as u32),
        connecting_max: Some(CONNECTING_MAX as u32),
        waiting_max: WAITING_MAX as u32,
        ..GroupLimits::keepalive(1, false, WORKERS)
    }
}

struct Waiting<'p> {
    waiter: Waiter<'p, Serial>,
    token: u64,
    peer: usize,
}

struct Reference<'p> {
    pool: &'p Pool<Serial>,
    notes: Arc<Notes>,
    group: GroupId,
    keys: [KeyId; PEERS],
    connections_max: usize,
    connecting: Vec<(usize, Connecting<'p, Serial>)>,
    leased: Vec<(usize, Lease<'p, Serial>)>,
    tunnels: Vec<(usize, TunnelPermit<'p, Serial>)>,
    waiting: Vec<Waiting<'p>>,
    /// Serial numbers of connections that are pooled, with their peer.
    idle: Vec<(usize, Serial)>,
    serials: Serial,
    tokens: u64,
}

impl<'p> Reference<'p> {
    fn run(&mut self, step: Step) {
        let at = |which: usize, len: usize| which.checked_rem(len);
        match step {
            Step::Ask { worker, peer } => self.ask(WorkerId(worker), peer),
            Step::Establish { which } => {
                if let Some(at) = at(which, self.connecting.len()) {
                    let (peer, permit) = self.connecting.remove(at);
                    self.serials += 1;
                    self.leased.push((peer, permit.established(self.serials, NOW)));
                }
            }
            Step::Fail { which } => {
                if let Some(at) = at(which, self.connecting.len()) {
                    drop(self.connecting.remove(at));
                }
            }
            Step::CheckIn { which } => {
                if let Some(at) = at(which, self.leased.len()) {
                    let (peer, lease) = self.leased.remove(at);
                    self.check_in(peer, lease);
                }
            }
            Step::Discard { which } => {
                if let Some(at) = at(which, self.leased.len()) {
                    let _ = self.leased.remove(at).1.discard(DiscardReason::Error);
                }
            }
            Step::Tunnel { which } => {
                if let Some(at) = at(which, self.leased.len()) {
                    let (peer, lease) = self.leased.remove(at);
                    self.tunnels.push((peer, lease.into_tunnel().1));
                }
            }
            Step::EndTunnel { which } => {
                if let Some(at) = at(which, self.tunnels.len()) {
                    drop(self.tunnels.remove(at));
                }
            }
            Step::Leave { which } => {
                if let Some(at) = at(which, self.waiting.len()) {
                    drop(self.waiting.remove(at));
                }
            }
            Step::Limits { connections } => {
                self.connections_max = connections;
                self.pool.intern_group("app", &limits(connections)).unwrap();
            }
        }
        self.settle();
    }

    /// As the gateway asks: an idle one, else the right to open one, else a place in the line.
    fn ask(&mut self, worker: WorkerId, peer: usize) {
        let key = self.keys[peer];
        if let Some(checkout) = self.pool.checkout(worker, key, NOW) {
            return self.lease(peer, checkout.lease);
        }
        match self.pool.open(worker, key) {
            Open::Connect { permit, evicted } => {
                self.evicted(evicted);
                self.connecting.push((peer, permit));
            }
            Open::Full { limit, evicted } => {
                self.evicted(evicted);
                assert_ne!(limit, Full::Retired);
                self.tokens += 1;
                let token = self.tokens;
                match self.pool.wait(worker, key, token) {
                    Ok(waiter) => self.waiting.push(Waiting { waiter, token, peer }),
                    Err(full) => assert_eq!((full, self.waiting.len()), (Full::LineFull, WAITING_MAX)),
                }
            }
        }
    }

    fn lease(&mut self, peer: usize, lease: Lease<'p, Serial>) {
        let serial = *lease.connection();
        let at = self.idle.iter().position(|idle| *idle == (peer, serial));
        self.idle.remove(at.expect("what is leased was idle, and to that peer"));
        self.leased.push((peer, lease));
    }

    fn check_in(&mut self, peer: usize, lease: Lease<'p, Serial>) {
        let serial = *lease.connection();
        match lease.check_in(NOW) {
            CheckIn::Pooled { evicted, .. } => {
                self.idle.push((peer, serial));
                self.evicted(evicted);
            }
            // Its waiter collects it below, as if it had been idle for a moment.
            CheckIn::HandedOver => self.idle.push((peer, serial)),
            CheckIn::Discarded { .. } => {}
        }
    }

    fn evicted(&mut self, removed: impl IntoIterator<Item = Removed<Serial>>) {
        for removed in removed {
            self.closed(removed.connection);
        }
    }

    fn closed(&mut self, serial: Serial) {
        let at = self.idle.iter().position(|(_, idle)| *idle == serial);
        self.idle.remove(at.expect("only idle connections are closed by the pool"));
    }

    /// What the driver was told: woken waiters collect, closed connections are gone.
    fn settle(&mut self) {
        loop {
            let woken = std::mem::take(&mut *self.notes.woken.lock().unwrap());
            if woken.is_empty() {
                break;
            }
            for token in woken {
                // It may have left in the meantime.
                let Some(at) = self.waiting.iter().position(|waiting| waiting.token == token) else { continue };
                let Waiting { mut waiter, peer, .. } = self.waiting.remove(at);
                match waiter.poll().expect("a woken waiter has something") {
                    Grant::Reuse(checkout) => self.lease(peer, checkout.lease),
                    Grant::Connect(permit) => self.connecting.push((peer, permit)),
                }
            }
        }
        let closed = std::mem::take(&mut *self.notes.closed.lock().unwrap());
        for serial in closed {
            self.closed(serial);
        }
    }

    fn of_peer(&self, peer: usize) -> (usize, usize) {
        let connecting = self.connecting.iter().filter(|(of, _)| *of == peer).count();
        let others = [
            self.leased.iter().filter(|(of, _)| *of == peer).count(),
            self.tunnels.iter().filter(|(of, _)| *of == peer).count(),
            self.idle.iter().filter(|(of, _)| *of == peer).count(),
        ];
        (connecting + others.iter().sum::<usize>(), connecting)
    }

    fn assert_books(&self) {
        let snapshot = self.pool.snapshot(self.group);
        let all = self.connecting.len() + self.leased.len() + self.tunnels.len() + self.idle.len();
        assert_eq!(snapshot.idle as usize, self.idle.len());
        assert_eq!(snapshot.connecting as usize, self.connecting.len());
        assert_eq!(snapshot.connections as usize, all);
        assert_eq!(snapshot.waiting as usize, self.waiting.len());
        assert!(self.idle.len() <= usize::from(WORKERS) && self.connecting.len() <= CONNECTING_MAX);
        assert!(all <= CONNECTIONS_MAX, "the highest limit there ever was");
        let known = (self.leased.len() + self.idle.len()) as u64 + snapshot.counts.discarded_total();
        assert_eq!(snapshot.counts.opened, known, "{snapshot:?}");
        let in_use: HashSet<Serial> = self.leased.iter().map(|(_, lease)| *lease.connection()).collect();
        assert_eq!(in_use.len(), self.leased.len(), "one connection, two leases");
        for peer in 0..PEERS {
            let (connections, connecting) = self.of_peer(peer);
            assert!(connections <= PEER_CONNECTIONS_MAX && connecting <= PEER_CONNECTING_MAX);
        }
        self.assert_no_waiter_is_missed(all);
    }

    fn assert_no_waiter_is_missed(&self, all: usize) {
        let Some(first) = self.waiting.first() else { return };
        let (connections, connecting) = self.of_peer(first.peer);
        let idle_of_peer = self.idle.iter().filter(|(of, _)| *of == first.peer).count();
        // Idle connections give way.
        let room_of_group = all - self.idle.len() < self.connections_max;
        let room_of_peer = connections - idle_of_peer < PEER_CONNECTIONS_MAX;
        let may_connect = self.connecting.len() < CONNECTING_MAX && connecting < PEER_CONNECTING_MAX;
        assert!(!(room_of_group && room_of_peer && may_connect), "there is room, and somebody waits");
    }
}

proptest! {
    #[test]
    fn limits_hold_counts_balance_and_no_waiter_is_missed(steps in prop::collection::vec(step(), 1..200)) {
        let notes = Arc::new(Notes::default());
        let pool = Pool::new(WORKERS, Box::new(Scribe(notes.clone())));
        let group = pool.intern_group("app", &limits(CONNECTIONS_MAX)).unwrap();
        let keys = [1, 2].map(|last| {
            let peer = PeerAddress::Ip(([127, 0, 0, last], 80).into());
            let limits = PeerLimits {
                connections_max: Some(PEER_CONNECTIONS_MAX as u32),
                connecting_max: Some(PEER_CONNECTING_MAX as u32),
            };
            pool.intern_peer(group, &peer, &limits).unwrap();
            let key = PoolKey { group, peer, tls: None, source: None, proxy_protocol: false, location: None };
            pool.intern_key(&key).unwrap()
        });
        let mut reference = Reference {
            pool: &pool,
            notes,
            group,
            keys,
            connections_max: CONNECTIONS_MAX,
            connecting: Vec::new(),
            leased: Vec::new(),
            tunnels: Vec::new(),
            waiting: Vec::new(),
            idle: Vec::new(),
            serials: 0,
            tokens: 0,
        };
        for step in steps {
            reference.run(step);
            reference.assert_books();
        }
        reference.waiting.clear();
        reference.connecting.clear();
        reference.tunnels.clear();
        for (_, lease) in reference.leased.drain(..) {
            let _ = lease.discard(DiscardReason::Drain);
        }
        let mut removed = Vec::new();
        for worker in 0..WORKERS {
            pool.drain(WorkerId(worker), DiscardReason::Drain, &mut removed);
        }
        let snapshot = pool.snapshot(group);
        prop_assert_eq!((snapshot.connections, snapshot.connecting, snapshot.idle, snapshot.waiting), (0, 0, 0, 0));
        prop_assert_eq!(snapshot.counts.opened, snapshot.counts.discarded_total());
    }
}
