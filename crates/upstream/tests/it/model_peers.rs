//! Names that move for ever: peers come, are used, and go, and their numbers go to others. Random operations against a
//! plain map of who counts where; and more addresses in the end than there are numbers.

use std::collections::HashMap;

use crate::scene::{LIMITS, Scene};
use proptest::prelude::*;
use upstream::shared::{
    CheckIn, Connecting, GroupId, GroupLimits, KeyId, Lease, Open, PeerAddress, PeerId, PeerLimits, PoolKey,
    TunnelPermit,
};
use upstream::{DiscardReason, Millis, WorkerId};

const W0: WorkerId = WorkerId(0);
const NOW: Millis = Millis(1);

/// Nothing is closed for want of room.
const ROOMY: GroupLimits = GroupLimits { idle_max: 10_000, ..LIMITS };

fn address(number: u32) -> PeerAddress {
    PeerAddress::Ip((std::net::Ipv4Addr::from(0x0a00_0000 + number), 80).into())
}

fn key_of(group: GroupId, number: u32) -> PoolKey {
    PoolKey { group, peer: address(number), tls: None, source: None, proxy_protocol: false, location: None }
}

#[derive(Debug, Clone)]
enum Step {
    /// The name points to this many new addresses.
    Arrive {
        count: u32,
    },
    /// An address that was there before is back.
    Return {
        which: usize,
    },
    /// An address is gone: its key is retired.
    Leave {
        which: usize,
    },
    Connect {
        which: usize,
    },
    Settle {
        which: usize,
        how: u8,
    },
    EndTunnel {
        which: usize,
    },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (1u32..400).prop_map(|count| Step::Arrive { count }),
        2 => any::<usize>().prop_map(|which| Step::Return { which }),
        4 => any::<usize>().prop_map(|which| Step::Leave { which }),
        4 => any::<usize>().prop_map(|which| Step::Connect { which }),
        4 => (any::<usize>(), any::<u8>()).prop_map(|(which, how)| Step::Settle { which, how }),
        1 => any::<usize>().prop_map(|which| Step::EndTunnel { which }),
    ]
}

struct Held<T> {
    address: u32,
    peer: PeerId,
    what: T,
}

enum Use<'p> {
    Connecting(Connecting<'p, &'static str>),
    Lease(Lease<'p, &'static str>),
}

struct Reference<'p> {
    scene: &'p Scene,
    /// Addresses that have a key, with their peer.
    present: Vec<(u32, KeyId, PeerId)>,
    gone: Vec<u32>,
    uses: Vec<Held<Use<'p>>>,
    tunnels: Vec<Held<TunnelPermit<'p, &'static str>>>,
    /// Idle connections, by address.
    idle: HashMap<u32, u32>,
    next: u32,
}

impl Reference<'_> {
    fn arrive(&mut self, address_number: u32) {
        let (pool, group) = (&self.scene.pool, self.scene.group);
        let peer = pool.intern_peer(group, &address(address_number), &PeerLimits::default()).expect("a number");
        let key = pool.intern_key(&key_of(group, address_number)).expect("a key");
        self.present.push((address_number, key, peer));
    }

    fn run(&mut self, step: &Step) {
        let pool = &self.scene.pool;
        match *step {
            Step::Arrive { count } => {
                for _ in 0..count {
                    self.next += 1;
                    self.arrive(self.next);
                }
                // All but the last few go at once: that is what makes numbers run out.
                while self.present.len() > 8 {
                    self.leave(0);
                }
            }
            Step::Return { which } if !self.gone.is_empty() => {
                let address_number = self.gone.swap_remove(which % self.gone.len());
                self.arrive(address_number);
            }
            Step::Leave { which } if !self.present.is_empty() => self.leave(which % self.present.len()),
            Step::Connect { which } if !self.present.is_empty() => {
                let (address, key, peer) = self.present[which % self.present.len()];
                let what = match pool.checkout(W0, key, NOW) {
                    Some(checkout) => {
                        *self.idle.get_mut(&address).expect("an idle connection of this address") -= 1;
                        Use::Lease(checkout.lease)
                    }
                    None => match pool.open(W0, key) {
                        Open::Connect { permit, evicted } => {
                            assert!(evicted.is_empty());
                            Use::Connecting(permit)
                        }
                        Open::Full { limit, .. } => panic!("{limit:?}"),
                    },
                };
                self.uses.push(Held { address, peer, what });
            }
            Step::Settle { which, how } if !self.uses.is_empty() => self.settle(which % self.uses.len(), how),
            Step::EndTunnel { which } if !self.tunnels.is_empty() => {
                self.tunnels.swap_remove(which % self.tunnels.len());
            }
            _ => {}
        }
    }

    fn leave(&mut self, which: usize) {
        let (address, key, _) = self.present.swap_remove(which);
        let mut removed = Vec::new();
        self.scene.pool.retire_key(key, &mut removed);
        assert_eq!(removed.len() as u32, self.idle.remove(&address).unwrap_or(0));
        self.gone.push(address);
    }

    fn settle(&mut self, which: usize, how: u8) {
        let Held { address, peer, what } = self.uses.swap_remove(which);
        let lease = match what {
            Use::Connecting(permit) if how.is_multiple_of(4) => return drop(permit),
            Use::Connecting(permit) => permit.established("wire", NOW),
            Use::Lease(lease) => lease,
        };
        match how % 4 {
            0 => _ = lease.discard(DiscardReason::Error),
            1 => {
                let (_, what) = lease.into_tunnel();
                self.tunnels.push(Held { address, peer, what });
            }
            _ => match lease.check_in(NOW) {
                CheckIn::Pooled { evicted, .. } => {
                    assert!(evicted.is_none());
                    *self.idle.entry(address).or_default() += 1;
                }
                CheckIn::Discarded { reason, .. } => assert_eq!(reason, DiscardReason::Reload, "its key is gone"),
                CheckIn::HandedOver => panic!("no request waits"),
            },
        }
    }

    /// Workers that count at a peer are found under its number, and no others.
    fn check(&self) {
        let pool = &self.scene.pool;
        let mut expected: HashMap<PeerId, (u32, u32, u32)> = HashMap::new();
        for held in &self.uses {
            let counts = expected.entry(held.peer).or_default();
            counts.1 += 1;
            counts.2 += u32::from(matches!(held.what, Use::Connecting(_)));
        }
        for held in &self.tunnels {
            expected.entry(held.peer).or_default().1 += 1;
        }
        for (address, key, peer) in &self.present {
            let idle = self.idle.get(address).copied().unwrap_or(0);
            let counts = expected.entry(*peer).or_default();
            counts.0 += idle;
            counts.1 += idle;
            let seen = pool.peer_snapshot(*peer);
            assert_eq!((seen.idle, seen.connections, seen.connecting), *counts, "peer {peer:?} at {address}");
            assert_eq!(pool.peer_connections(*key), counts.1);
        }
        for (peer, counts) in expected {
            let seen = pool.peer_snapshot(peer);
            assert_eq!((seen.idle, seen.connections, seen.connecting), counts, "peer {peer:?}");
        }
        let connections: u32 = self.idle.values().sum::<u32>() + (self.uses.len() + self.tunnels.len()) as u32;
        assert_eq!(pool.snapshot(self.scene.group).connections, connections);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn number_belongs_to_one_peer_while_used(steps in prop::collection::vec(step(), 1..80)) {
        let scene = Scene::new(1, &ROOMY);
        let mut reference = Reference {
            scene: &scene,
            present: Vec::new(),
            gone: Vec::new(),
            uses: Vec::new(),
            tunnels: Vec::new(),
            idle: HashMap::new(),
            next: 0,
        };
        for step in &steps {
            reference.run(step);
            reference.check();
        }
        for held in std::mem::take(&mut reference.uses) {
            if let Use::Lease(lease) = held.what {
                let _ = lease.discard(DiscardReason::Error);
            }
        }
    }
}

#[test]
fn a_name_may_move_more_often_than_there_are_numbers() {
    let scene = Scene::new(1, &ROOMY);
    let (pool, group) = (&scene.pool, scene.group);
    // A tunnel at the first address outlives everything.
    let first = pool.intern_key(&key_of(group, 0)).unwrap();
    let Open::Connect { permit, .. } = pool.open(W0, first) else { panic!() };
    let (_, tunnel) = permit.established("wire", NOW).into_tunnel();
    let peer = pool.intern_peer(group, &address(0), &PeerLimits::default()).unwrap();
    pool.retire_key(first, &mut Vec::new());
    let limits = PeerLimits { connections_max: Some(1), ..PeerLimits::default() };
    for number in 1..150_000 {
        let later = pool.intern_peer(group, &address(number), &limits).unwrap();
        assert_ne!(later, peer);
        let key = pool.intern_key(&key_of(group, number)).unwrap();
        pool.retire_key(key, &mut Vec::new());
    }
    assert_eq!(pool.peer_snapshot(peer).connections, 1);
    drop(tunnel);
    assert_eq!(pool.peer_snapshot(peer).connections, 0);
    // Neither limits nor what was learned come along with a number.
    let newcomer = pool.intern_key(&key_of(group, 200_000)).unwrap();
    let permits: Vec<_> = (0..3).map(|_| pool.open(W0, newcomer)).collect();
    assert!(permits.iter().all(|open| matches!(open, Open::Connect { .. })));
    assert_eq!(pool.learned(newcomer), upstream::learn::Learned::default());
}

#[test]
fn remembers_a_peer_that_returns_soon() {
    let scene = Scene::new(1, &ROOMY);
    let (pool, group) = (&scene.pool, scene.group);
    let key = pool.intern_key(&key_of(group, 1)).unwrap();
    pool.observe_announced(key, NOW, 5_000);
    let learned = pool.learned(key);
    assert!(learned.idle_ms.is_some());
    pool.retire_key(key, &mut Vec::new());
    for number in 2..100 {
        let other = pool.intern_key(&key_of(group, number)).unwrap();
        pool.retire_key(other, &mut Vec::new());
    }
    let back = pool.intern_key(&key_of(group, 1)).unwrap();
    assert_eq!(pool.learned(back), learned);
}

#[test]
fn request_addresses_leave_half_the_numbers_to_groups() {
    let scene = Scene::new(1, &ROOMY);
    let (pool, written) = (&scene.pool, scene.group);
    let guests = pool.intern_group("guests", &ROOMY).unwrap();
    let take = |number| {
        pool.intern_guest(guests, &address(number)).ok()?;
        pool.intern_key(&key_of(guests, number)).ok()
    };
    let mut keys: Vec<KeyId> = (0..70_000).map_while(take).collect();
    assert_eq!(keys.len(), 32_768, "half of the numbers");
    assert!(take(0).is_some(), "who is known is known");
    // One with a connection keeps its number; the others' go to the next ones.
    let Open::Connect { permit, .. } = pool.open(W0, keys[0]) else { panic!("there is no limit") };
    let mut removed = Vec::new();
    keys.drain(..2).for_each(|key| pool.retire_key(key, &mut removed));
    assert!(take(100_000).is_some());
    assert!(take(100_001).is_none(), "the other one has a connection");
    drop(permit);
    assert!(take(100_001).is_some());
    for number in 200_000..232_767 {
        pool.intern_peer(written, &address(number), &PeerLimits::default()).unwrap();
    }
}
