//! Requests that open a connection and take one that comes free meanwhile.
#![allow(clippy::unwrap_used)] // a failed step of a test is its end

use crate::scene;
use crate::scene::{Closed, LIMITS, Scene, W0, W1};
use upstream::shared::{CheckIn, Connecting, GroupLimits, Open, Seeker, Source};
use upstream::{DiscardReason, Millis, WorkerId};

fn seek(scene: &Scene, worker: WorkerId, token: u64) -> Seeker<'_, &'static str> {
    scene.pool.seek(worker, scene.key, token).expect("the group keeps connections")
}

fn permit(scene: &Scene, worker: WorkerId) -> Connecting<'_, &'static str> {
    match scene.pool.open(worker, scene.key) {
        Open::Connect { permit, .. } => permit,
        Open::Full { limit, .. } => panic!("{limit:?}"),
    }
}

#[test]
fn connection_ending_its_exchange_goes_to_a_seeker() {
    let scene = Scene::new(1, &LIMITS);
    let lease = scene.opened(W0, "a", Millis(0));
    let (mut first, mut second) = (seek(&scene, W0, 1), seek(&scene, W0, 2));
    assert!(first.poll(Millis(1)).is_none());
    assert!(matches!(lease.check_in(Millis(5)), CheckIn::HandedOver));
    assert_eq!(scene.driver.woken(), [1]);
    assert!(second.poll(Millis(6)).is_none());
    let checkout = first.poll(Millis(6)).expect("it was woken");
    assert_eq!((checkout.source, checkout.idle_since), (Source::Local, Millis(5)));
    assert!(checkout.lease.is_reused());
    let counts = scene.snapshot().counts;
    assert_eq!((counts.opened, counts.reused, counts.handed_over), (1, 1, 1));
    let _ = checkout.lease.discard(DiscardReason::Error);
    scene.assert_balance(0);
}

#[test]
fn opening_connection_goes_to_the_pool_or_next_seeker() {
    let scene = Scene::new(1, &LIMITS);
    let lease = scene.opened(W0, "a", Millis(0));
    let (own, mut seeker) = (permit(&scene, W0), seek(&scene, W0, 1));
    let _ = lease.check_in(Millis(1));
    let taken = seeker.poll(Millis(1)).expect("handed over");
    let mut next = seek(&scene, W0, 2);
    assert!(matches!(own.established_idle("b", Millis(2), |_, _| {}), CheckIn::HandedOver));
    let other = next.poll(Millis(2)).expect("handed over");
    assert_eq!(*other.lease.connection(), "b");
    let _ = taken.lease.check_in(Millis(3));
    assert!(matches!(other.lease.check_in(Millis(3)), CheckIn::Pooled { evicted: None, .. }));
    assert_eq!(scene.snapshot().idle, 2);
    scene.assert_balance(0);
}

#[test]
fn a_full_pool_discards_nothing_while_a_request_seeks() {
    let scene = Scene::new(1, &GroupLimits { idle_max: 1, ..LIMITS });
    let (a, b) = (scene.opened(W0, "a", Millis(0)), scene.opened(W0, "b", Millis(0)));
    let mut seeker = seek(&scene, W0, 1);
    let _ = a.check_in(Millis(1));
    let _ = b.check_in(Millis(1));
    assert_eq!(scene.snapshot().counts.discarded_total(), 0);
    let _ = seeker.poll(Millis(2)).unwrap().lease.discard(DiscardReason::Error);
    scene.assert_balance(0);
}

#[test]
fn own_workers_seekers_come_first_without_starvation() {
    let scene = Scene::new(2, &LIMITS);
    let (a, b) = (scene.opened(W0, "a", Millis(0)), scene.opened(W0, "b", Millis(0)));
    let (mut other, mut own) = (seek(&scene, W1, 1), seek(&scene, W0, 2));
    let _ = a.check_in(Millis(1));
    let _ = b.check_in(Millis(1));
    assert_eq!(scene.driver.woken(), [2, 1]);
    let (own, other) = (own.poll(Millis(2)).unwrap(), other.poll(Millis(2)).unwrap());
    assert_eq!((own.source, other.source), (Source::Local, Source::Stolen { from: W0 }));
    let _ = own.lease.discard(DiscardReason::Error);
    let _ = other.lease.discard(DiscardReason::Error);
    scene.assert_balance(0);
}

#[test]
fn local_pools_hand_nothing_to_other_workers() {
    let scene = Scene::new(2, &GroupLimits { local: true, ..LIMITS });
    let lease = scene.opened(W0, "a", Millis(0));
    let mut seeker = seek(&scene, W1, 1);
    assert!(matches!(lease.check_in(Millis(1)), CheckIn::Pooled { .. }));
    assert!(seeker.poll(Millis(1)).is_none());
    assert_eq!(scene.driver.woken(), []);
}

#[test]
fn poolless_group_and_retired_key_have_no_seekers() {
    let scene = Scene::new(1, &GroupLimits { idle_max: 0, ..LIMITS });
    assert!(scene.pool.seek(W0, scene.key, 1).is_none());
    let scene = Scene::new(1, &LIMITS);
    scene.pool.retire_key(scene.key, &mut Vec::new());
    assert!(scene.pool.seek(W0, scene.key, 1).is_none());
}

#[test]
fn other_keys_connections_are_not_for_a_seeker() {
    let scene = Scene::new(1, &LIMITS);
    let other = scene.key_with(|key| key.peer = scene::address(2));
    let lease = scene.opened_with(W0, other, "b", Millis(0));
    let mut seeker = seek(&scene, W0, 1);
    assert!(matches!(lease.check_in(Millis(1)), CheckIn::Pooled { .. }));
    assert!(seeker.poll(Millis(1)).is_none());
}

#[test]
fn seeker_of_a_retired_key_gets_no_newer_connection() {
    let scene = Scene::new(1, &LIMITS);
    let mut former = seek(&scene, W0, 1);
    scene.pool.retire_key(scene.key, &mut Vec::new());
    let key = scene.key_with(|key| key.peer = scene::address(2));
    let lease = scene.opened_with(W0, key, "b", Millis(0));
    let mut present = scene.pool.seek(W0, key, 2).unwrap();
    assert!(matches!(lease.check_in(Millis(1)), CheckIn::HandedOver));
    assert!(former.poll(Millis(1)).is_none());
    let _ = present.poll(Millis(1)).unwrap().lease.discard(DiscardReason::Error);
}

#[test]
fn seeker_with_its_own_connection_takes_its_gift_along() {
    let scene = Scene::new(1, &LIMITS);
    let (a, b) = (scene.opened(W0, "a", Millis(0)), scene.opened(W0, "b", Millis(0)));
    assert!(seek(&scene, W0, 1).finish().is_none());
    let seeker = seek(&scene, W0, 2);
    let _ = a.check_in(Millis(1));
    let _ = seeker.finish().expect("it was given one").lease.check_in(Millis(2));
    assert!(matches!(b.check_in(Millis(1)), CheckIn::Pooled { .. }), "no request seeks any more");
    assert_eq!(scene.driver.woken(), [2]);
    scene.assert_balance(0);
}

#[test]
fn leaving_seeker_passes_its_gift_on() {
    let scene = Scene::new(1, &LIMITS);
    let lease = scene.opened(W0, "a", Millis(0));
    let (first, mut second) = (seek(&scene, W0, 1), seek(&scene, W0, 2));
    let _ = lease.check_in(Millis(1));
    drop(first);
    assert_eq!(scene.driver.woken(), [1, 2]);
    let checkout = second.poll(Millis(2)).unwrap();
    let last = seek(&scene, W0, 3);
    let _ = checkout.lease.check_in(Millis(3));
    drop(last);
    let closed = scene.driver.closed();
    assert_eq!(closed, [Closed { connection: "a", reason: DiscardReason::Cancelled, worker: W0 }]);
    assert_eq!(scene.snapshot().connections, 0);
    scene.assert_balance(0);
}

#[test]
fn waiters_precede_seekers() {
    let scene = Scene::new(1, &GroupLimits { connections_max: Some(1), waiting_max: 1, ..LIMITS });
    let lease = scene.opened(W0, "a", Millis(0));
    let mut seeker = seek(&scene, W0, 1);
    let waiter = scene.pool.wait(W0, scene.key, 2).expect("room");
    let _ = lease.check_in(Millis(1));
    assert_eq!(scene.driver.woken(), [2]);
    assert!(seeker.poll(Millis(1)).is_none());
    drop(waiter);
    assert_eq!(scene.driver.woken(), [2, 1], "who leaves the line passes it on");
    let _ = seeker.poll(Millis(1)).unwrap().lease.discard(DiscardReason::Error);
}

#[test]
fn connection_may_come_free_if_an_exchange_is_open() {
    let scene = Scene::new(1, &LIMITS);
    assert!(!scene.pool.may_come_free(scene.key));
    let connecting = permit(&scene, W0);
    assert!(!scene.pool.may_come_free(scene.key), "its own request has it");
    let lease = connecting.established("a", Millis(0));
    assert!(scene.pool.may_come_free(scene.key));
    let _ = lease.check_in(Millis(1));
    assert!(!scene.pool.may_come_free(scene.key), "it is free");
}
