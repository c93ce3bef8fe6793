//! The book by itself, and under everything that can happen to it in any order.

use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const LIMITS: Limits = Limits {
    connections_max: 2,
    streams_max: 3,
    line_max: 10,
    requests_max: 1000,
    age_ms_max: 1_000_000,
    idle_ms_max: 1_000,
    idle_max: 2,
};

/// The only one.
fn one<T: std::fmt::Debug>(mut list: Vec<T>) -> T {
    assert_eq!(list.len(), 1, "{list:?}");
    list.remove(0)
}

/// A book of one peer, and what it wants done.
struct Scene {
    book: StreamBook<u8, u32>,
    actions: Vec<Action<u8, u32>>,
    limits: Limits,
    now: Millis,
}

impl Scene {
    fn new(limits: Limits) -> Self {
        Self { book: StreamBook::default(), actions: Vec::new(), limits, now: Millis(0) }
    }

    fn lease(&mut self, waiter: u32) -> Grant {
        self.book.lease(1, waiter, self.now, &self.limits, &mut self.actions)
    }

    fn leased(&mut self, waiter: u32) -> StreamLease {
        match self.lease(waiter) {
            Grant::Lease(lease) => lease,
            other => panic!("no lease: {other:?}"),
        }
    }

    fn release(&mut self, lease: StreamLease) {
        self.book.release(lease, self.now, &self.limits, &mut self.actions);
    }

    /// What is to be done, since this was asked last.
    fn done(&mut self) -> Vec<Action<u8, u32>> {
        std::mem::take(&mut self.actions)
    }

    /// The connection that is to be opened, and nothing else.
    fn ordered_to_open(&mut self) -> ConnectionId {
        match self.done().as_slice() {
            [Action::Open(1, id)] => *id,
            other => panic!("not one connection: {other:?}"),
        }
    }

    /// It is open: who is served.
    fn open(&mut self, id: ConnectionId) -> Vec<(u32, StreamLease)> {
        self.book.opened(id, self.now, &self.limits, &mut self.actions);
        let served = |action| match action {
            Action::Serve(waiter, lease) => (waiter, lease),
            other => panic!("not served: {other:?}"),
        };
        self.done().into_iter().map(served).collect()
    }

    /// Its peer says how many streams it allows.
    fn settings(&mut self, id: ConnectionId, allowed: u32) {
        self.book.settings(id, allowed, self.now, &self.limits, &mut self.actions);
    }

    /// A first connection with one stream on it, whose peer allows many.
    fn begun(limits: Limits) -> (Self, ConnectionId, StreamLease) {
        let mut scene = Self::new(limits);
        assert_eq!(scene.lease(0), Grant::Waits);
        let id = scene.ordered_to_open();
        let mut served = scene.open(id);
        let (_, lease) = served.pop().expect("the first request is served");
        scene.settings(id, 100);
        (scene, id, lease)
    }
}

#[test]
fn moved_connection_continues_with_its_state() {
    let mut scene = Scene::new(Limits { requests_max: 5, ..LIMITS });
    for waiter in 0..3 {
        assert_eq!(scene.lease(waiter), Grant::Waits);
    }
    let id = scene.ordered_to_open();
    assert_eq!(scene.book.waiting(1).copied().collect::<Vec<_>>(), [0, 1, 2]);
    let earlier = Earlier { requests: 3, opened: Millis(0), allowed: Some(1) };
    scene.book.opened_before(id, earlier, scene.now, &scene.limits, &mut scene.actions);
    let mut done = scene.done().into_iter();
    let Some(Action::Serve(0, lease)) = done.next() else { panic!("the first request is served") };
    assert!(lease.is_reused());
    // Its peer allows one stream: the others need another connection.
    assert!(matches!(done.next(), Some(Action::Open(1, _))));
    assert_eq!(done.next(), None);
    scene.release(lease);
    let Some(Action::Serve(1, lease)) = scene.done().into_iter().next() else { panic!("the second is served") };
    scene.release(lease);
    assert_eq!(one(scene.done()), Action::Close(id, Retired::RequestLimit), "five requests in all");
}

#[test]
fn connection_without_waiting_requests_is_idle() {
    let mut scene = Scene::new(Limits { idle_max: 0, ..LIMITS });
    assert_eq!(scene.lease(0), Grant::Waits);
    let id = scene.ordered_to_open();
    assert!(scene.book.cancel(1, &0));
    scene.book.opened(id, scene.now, &scene.limits, &mut scene.actions);
    assert_eq!(one(scene.done()), Action::Close(id, Retired::IdleFull));
    assert_eq!(scene.book.sums(), Counts::default());
}

#[test]
fn one_connection_is_opened_for_all_that_it_will_carry() {
    let mut scene = Scene::new(LIMITS);
    for waiter in 0..3 {
        assert_eq!(scene.lease(waiter), Grant::Waits);
    }
    let first = scene.ordered_to_open();
    assert_eq!(scene.lease(3), Grant::Waits);
    let second = scene.ordered_to_open();
    // One request need not wait for the settings, the others do; no further connection is opened for them.
    let (0, lease) = one(scene.open(first)) else { panic!("another") };
    assert!(!lease.is_reused());
    scene.settings(first, 100);
    let mut served = vec![lease];
    for (action, expected) in scene.done().into_iter().zip(1..) {
        let Action::Serve(waiter, lease) = action else { panic!("not served: {action:?}") };
        assert_eq!((waiter, lease.is_reused()), (expected, true));
        served.push(lease);
    }
    assert_eq!(served.len(), 3);
    assert_eq!(scene.open(second).len(), 1);
    let counts = Counts { connections: 2, streams: 4, ..Counts::default() };
    assert_eq!((scene.book.counts(1), scene.book.sums()), (counts, counts));
    for lease in served {
        scene.release(lease);
    }
}

#[test]
fn the_fullest_connection_with_room_is_taken() {
    let (mut scene, first, lease) = Scene::begun(LIMITS);
    let more = [scene.leased(1), scene.leased(2)];
    assert_eq!(scene.lease(3), Grant::Waits);
    let second = scene.ordered_to_open();
    let (3, on_second) = one(scene.open(second)) else { panic!("another") };
    assert_eq!(on_second.connection(), second);
    scene.release(lease);
    let again = scene.leased(4);
    assert_eq!((again.connection(), again.is_reused()), (first, true));
    for lease in more.into_iter().chain([on_second, again]) {
        scene.release(lease);
    }
    assert_eq!(scene.book.sums(), Counts { connections: 2, idle: 2, ..Counts::default() });
}

#[test]
fn requests_beyond_the_limits_queue_and_then_fail() {
    let limits = Limits { connections_max: 1, streams_max: 1, line_max: 2, ..LIMITS };
    let (mut scene, _, lease) = Scene::begun(limits);
    assert_eq!((scene.lease(1), scene.lease(2), scene.lease(3)), (Grant::Waits, Grant::Waits, Grant::LineFull));
    assert!(scene.book.cancel(1, &1) && !scene.book.cancel(1, &1));
    assert_eq!(scene.lease(4), Grant::Waits);
    scene.release(lease);
    let Action::Serve(2, next) = one(scene.done()) else { panic!("another") };
    scene.release(next);
    let Action::Serve(4, _) = one(scene.done()) else { panic!("another") };
}

#[test]
fn peer_settings_open_another_connection_for_waiting_requests() {
    let (mut scene, first, lease) = Scene::begun(LIMITS);
    scene.settings(first, 1);
    assert_eq!(scene.lease(1), Grant::Waits);
    let second = scene.ordered_to_open();
    scene.settings(first, 2);
    let Action::Serve(1, other) = one(scene.done()) else { panic!("another") };
    assert_eq!(scene.open(second), []);
    scene.release(lease);
    scene.release(other);
}

#[test]
fn closing_connection_ends_with_its_last_stream() {
    let (mut scene, first, lease) = Scene::begun(LIMITS);
    let other = scene.leased(1);
    let Scene { book, actions, limits, now } = &mut scene;
    book.go_away(first, *now, limits, actions);
    assert_eq!(scene.done(), []);
    assert_eq!(scene.book.counts(1).leaving, 1);
    assert_eq!(scene.lease(2), Grant::Waits);
    let second = scene.ordered_to_open();
    scene.release(lease);
    assert_eq!(scene.done(), []);
    scene.release(other);
    assert_eq!(scene.done(), [Action::Close(first, Retired::GoneAway)]);
    assert_eq!(scene.open(second).len(), 1);
    // An idle one ends at once.
    let (mut scene, first, lease) = Scene::begun(LIMITS);
    scene.release(lease);
    let Scene { book, actions, limits, now } = &mut scene;
    book.go_away(first, *now, limits, actions);
    assert_eq!(scene.done(), [Action::Close(first, Retired::GoneAway)]);
    assert_eq!(scene.book.sums(), Counts::default());
}

#[test]
fn connection_without_settings_is_replaced_for_waiters() {
    for is_lost in [true, false] {
        let mut scene = Scene::new(LIMITS);
        assert_eq!((scene.lease(0), scene.lease(1)), (Grant::Waits, Grant::Waits));
        let first = scene.ordered_to_open();
        let (0, _lease) = one(scene.open(first)) else { panic!("another") };
        let Scene { book, actions, limits, now } = &mut scene;
        if is_lost {
            book.closed(first, *now, limits, actions);
        } else {
            book.go_away(first, *now, limits, actions);
        }
        let second = scene.ordered_to_open();
        let (1, _lease) = one(scene.open(second)) else { panic!("another") };
    }
}

#[test]
fn requests_fail_with_their_only_new_connection() {
    let mut scene = Scene::new(LIMITS);
    assert_eq!((scene.lease(0), scene.lease(1)), (Grant::Waits, Grant::Waits));
    let id = scene.ordered_to_open();
    let Scene { book, actions, limits, .. } = &mut scene;
    book.open_failed(id, limits, actions);
    assert_eq!(scene.done(), [Action::Fail(0), Action::Fail(1)]);
    assert_eq!(scene.book.sums(), Counts::default());
}

#[test]
fn lost_connection_is_replaced_and_its_leases_are_void() {
    let limits = Limits { connections_max: 1, streams_max: 1, ..LIMITS };
    let (mut scene, first, lease) = Scene::begun(limits);
    assert_eq!(scene.lease(1), Grant::Waits);
    let Scene { book, actions, limits, now } = &mut scene;
    book.closed(first, *now, limits, actions);
    let second = scene.ordered_to_open();
    assert_eq!(scene.open(second).len(), 1);
    scene.release(lease);
    assert_eq!(scene.book.counts(1), Counts { connections: 1, streams: 1, ..Counts::default() });
}

#[test]
fn requests_age_and_idleness_retire_a_connection() {
    let (mut scene, first, lease) = Scene::begun(Limits { requests_max: 2, ..LIMITS });
    let second_request = scene.leased(1);
    assert_eq!(scene.lease(2), Grant::Waits, "it has had its two requests");
    let second = scene.ordered_to_open();
    scene.release(lease);
    scene.release(second_request);
    assert_eq!(scene.done(), [Action::Close(first, Retired::RequestLimit)]);
    let (2, lease) = one(scene.open(second)) else { panic!("another") };
    scene.release(lease);
    let Scene { book, actions, limits, .. } = &mut scene;
    assert_eq!(book.tick(Millis(999), limits, actions), Some(Millis(1000)));
    assert_eq!(book.tick(Millis(1000), limits, actions), None);
    assert_eq!(scene.done(), [Action::Close(second, Retired::IdleLimit)]);

    let (mut scene, first, lease) = Scene::begun(Limits { age_ms_max: 50, ..LIMITS });
    scene.now = Millis(50);
    assert_eq!(scene.lease(1), Grant::Waits, "it is too old");
    let _second = scene.ordered_to_open();
    let Scene { book, actions, limits, now } = &mut scene;
    let _ = book.tick(*now, limits, actions);
    scene.release(lease);
    assert_eq!(scene.done(), [Action::Close(first, Retired::AgeLimit)]);
}

#[test]
fn surplus_idle_connections_close_longest_idle_first() {
    let (mut scene, first, lease) = Scene::begun(Limits { streams_max: 1, idle_max: 1, ..LIMITS });
    assert_eq!(scene.lease(1), Grant::Waits);
    let second = scene.ordered_to_open();
    let (1, other) = one(scene.open(second)) else { panic!("another") };
    scene.release(lease);
    scene.now = Millis(5);
    scene.release(other);
    assert_eq!(scene.done(), [Action::Close(first, Retired::IdleFull)]);
}

/// Something that happens to the book.
#[derive(Debug, Clone, Copy)]
enum Step {
    Lease(u8),
    Release(usize),
    Opened(usize),
    OpenFailed(usize),
    Settings(usize, u32),
    GoAway(usize),
    Closed(usize),
    Cancel(usize),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..3_u8).prop_map(Step::Lease),
        5 => any::<usize>().prop_map(Step::Release),
        4 => any::<usize>().prop_map(Step::Opened),
        1 => any::<usize>().prop_map(Step::OpenFailed),
        1 => (any::<usize>(), 0..5_u32).prop_map(|(at, allowed)| Step::Settings(at, allowed)),
        1 => any::<usize>().prop_map(Step::GoAway),
        1 => any::<usize>().prop_map(Step::Closed),
        1 => any::<usize>().prop_map(Step::Cancel),
        1 => (0..700_u64).prop_map(Step::Wait),
    ]
}

/// What the owner knows.
#[derive(Default)]
struct Owner {
    book: StreamBook<u8, u32>,
    opening: Vec<(u8, ConnectionId)>,
    open: Vec<(u8, ConnectionId)>,
    leases: Vec<(u8, StreamLease)>,
    waiting: BTreeMap<u32, u8>,
    allowed: BTreeMap<ConnectionId, u32>,
    /// Connections that take no further requests.
    leaving: BTreeSet<ConnectionId>,
    next_waiter: u32,
    now: Millis,
}

impl Owner {
    fn take(&mut self, actions: Vec<Action<u8, u32>>, limits: &Limits) {
        for action in actions {
            match action {
                Action::Open(peer, id) => self.opening.push((peer, id)),
                Action::Serve(waiter, lease) => {
                    let peer = self.waiting.remove(&waiter).expect("only who waits is served");
                    assert!(self.waiting.iter().all(|(other, at)| *at != peer || *other > waiter), "in their order");
                    self.hold(peer, lease, limits);
                }
                Action::Fail(waiter) => assert!(self.waiting.remove(&waiter).is_some(), "only who waits fails"),
                Action::Close(id, _) => {
                    assert!(self.leases.iter().all(|(_, lease)| lease.connection() != id), "no stream is cut off");
                    self.open.retain(|(_, other)| *other != id);
                }
            }
        }
    }

    fn hold(&mut self, peer: u8, lease: StreamLease, limits: &Limits) {
        let id = lease.connection();
        assert!(self.open.contains(&(peer, id)), "a lease is on an open connection of its peer");
        assert!(!self.leaving.contains(&id), "nothing new on a connection that goes away");
        let on_it = self.leases.iter().filter(|(_, other)| other.connection() == id).count() as u32;
        let allowed = self.allowed.get(&id).copied().unwrap_or(1).min(limits.streams_max);
        assert!(on_it < allowed, "{on_it} streams where {allowed} are allowed");
        self.leases.push((peer, lease));
    }

    /// Lets one thing happen, and does what the book wants done.
    fn apply(&mut self, step: Step, limits: &Limits) {
        let mut actions = Vec::new();
        let now = self.now;
        match step {
            Step::Lease(peer) => {
                let waiter = self.next_waiter;
                self.next_waiter += 1;
                match self.book.lease(peer, waiter, now, limits, &mut actions) {
                    Grant::Lease(lease) => self.hold(peer, lease, limits),
                    Grant::Waits => drop(self.waiting.insert(waiter, peer)),
                    Grant::LineFull => {}
                }
            }
            Step::Release(at) => {
                if let Some(at) = pick(&self.leases, at) {
                    let (_, lease) = self.leases.swap_remove(at);
                    self.book.release(lease, now, limits, &mut actions);
                }
            }
            Step::Opened(at) => {
                if let Some(at) = pick(&self.opening, at) {
                    let opened = self.opening.swap_remove(at);
                    self.open.push(opened);
                    self.book.opened(opened.1, now, limits, &mut actions);
                }
            }
            Step::OpenFailed(at) => {
                if let Some(at) = pick(&self.opening, at) {
                    let (_, id) = self.opening.swap_remove(at);
                    self.book.open_failed(id, limits, &mut actions);
                }
            }
            Step::Settings(at, allowed) => {
                if let Some(at) = pick(&self.open, at) {
                    let (_, id) = self.open[at];
                    self.allowed.insert(id, allowed);
                    self.book.settings(id, allowed, now, limits, &mut actions);
                }
            }
            Step::GoAway(at) => {
                if let Some(at) = pick(&self.open, at) {
                    let (_, id) = self.open[at];
                    self.leaving.insert(id);
                    self.book.go_away(id, now, limits, &mut actions);
                }
            }
            Step::Closed(at) => {
                if let Some(at) = pick(&self.open, at) {
                    let (_, id) = self.open.swap_remove(at);
                    self.book.closed(id, now, limits, &mut actions);
                }
            }
            Step::Cancel(at) => {
                let waiters: Vec<(u32, u8)> = self.waiting.iter().map(|(waiter, peer)| (*waiter, *peer)).collect();
                if let Some(at) = pick(&waiters, at) {
                    let (waiter, peer) = waiters[at];
                    assert!(self.book.cancel(peer, &waiter));
                    self.waiting.remove(&waiter);
                }
            }
            Step::Wait(ms) => {
                self.now = Millis(now.0 + ms);
                let _ = self.book.tick(self.now, limits, &mut actions);
            }
        }
        self.take(actions, limits);
    }

    fn check(&self, limits: &Limits) {
        for peer in 0..3 {
            let counts = self.book.counts(peer);
            let of = |list: &[(u8, ConnectionId)]| list.iter().filter(|(at, _)| *at == peer).count() as u32;
            assert_eq!((counts.opening, counts.connections), (of(&self.opening), of(&self.open)));
            assert!(counts.opening + counts.connections <= limits.connections_max);
            assert_eq!(counts.waiting, self.waiting.values().filter(|at| **at == peer).count() as u32);
            let streams = self
                .leases
                .iter()
                .filter(|(at, lease)| *at == peer && self.open.iter().any(|(_, id)| *id == lease.connection()));
            assert_eq!(counts.streams, streams.count() as u32);
            if counts.waiting > 0 {
                let is_full = counts.opening + counts.connections == limits.connections_max;
                let has_no_settings = |(at, id): &(u8, ConnectionId)| {
                    *at == peer && !self.allowed.contains_key(id) && !self.leaving.contains(id)
                };
                let is_expected = counts.opening > 0 || self.open.iter().any(has_no_settings);
                assert!(is_expected || is_full, "a waiter has something to wait for: {counts:?}");
            }
        }
    }
}

fn pick<T>(list: &[T], at: usize) -> Option<usize> {
    (!list.is_empty()).then(|| at % list.len())
}

proptest! {
    #[test]
    fn nothing_is_lost_whatever_happens(
        steps in proptest::collection::vec(step(), 1..200),
        connections_max in 1..4_u32,
        streams_max in 1..4_u32,
        requests_max in 1..20_u32,
    ) {
        let limits = Limits { connections_max, streams_max, requests_max, line_max: 5, ..LIMITS };
        let mut owner = Owner::default();
        for step in steps {
            owner.apply(step, &limits);
            owner.check(&limits);
        }
    }
}
