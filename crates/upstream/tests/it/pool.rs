//! The pool as a worker sees it: one conversation per rule of the catalogue's section P and per limit.

use crate::scene::{Closed, LIMITS, Scene, W0, W1, W2, address};
use upstream::shared::{CheckIn, Full, Grant, GroupLimits, Inspection, Meta, Open, PeerLimits, PoolKey, Source};
use upstream::{DiscardReason, Millis};

#[test]
fn an_idle_connection_is_reused_by_its_worker_newest_first() {
    let scene = Scene::new(2, &LIMITS);
    scene.pooled(W0, "a", Millis(10));
    scene.pooled(W0, "b", Millis(20));
    let checkout = scene.pool.checkout(W0, scene.key, Millis(30)).expect("two are idle");
    assert_eq!(*checkout.lease.connection(), "b");
    assert_eq!(checkout.source, Source::Local);
    assert_eq!(checkout.idle_since, Millis(20));
    assert_eq!(checkout.lease.meta().requests, 2);
    assert!(checkout.lease.is_reused());
    assert_eq!(checkout.lease.discard(DiscardReason::ConnectionClose), "b");
    scene.assert_balance(0);
}

#[test]
fn empty_shard_takes_from_another_worker() {
    let scene = Scene::new(3, &LIMITS);
    scene.pooled(W2, "a", Millis(10));
    let checkout = scene.pool.checkout(W0, scene.key, Millis(30)).expect("one is idle elsewhere");
    assert_eq!(checkout.source, Source::Stolen { from: W2 });
    assert!(matches!(checkout.lease.check_in(Millis(31)), CheckIn::Pooled { .. }));
    let again = scene.pool.checkout(W0, scene.key, Millis(32)).expect("it is the thief's now");
    assert_eq!(again.source, Source::Local);
    let _ = again.lease.discard(DiscardReason::Error);
    let counts = scene.snapshot().counts;
    assert_eq!((counts.reused, counts.stolen), (2, 1));
    scene.assert_balance(0);
}

#[test]
fn local_pools_are_not_stolen_from_and_are_limited_each() {
    let scene = Scene::new(2, &GroupLimits { local: true, idle_max: 1, ..LIMITS });
    scene.pooled(W0, "a", Millis(1));
    assert!(scene.pool.checkout(W1, scene.key, Millis(2)).is_none());
    scene.pooled(W1, "b", Millis(3));
    assert_eq!(scene.snapshot().idle, 2);
    let lease = scene.opened(W0, "c", Millis(4));
    let CheckIn::Pooled { evicted: Some(evicted), .. } = lease.check_in(Millis(5)) else { panic!("worker 0 has one") };
    assert_eq!((evicted.connection, evicted.worker), ("a", W0));
    scene.assert_balance(0);
}

#[test]
fn p01_p04_event_on_an_idle_connection_removes_it_once() {
    let scene = Scene::new(2, &LIMITS);
    let token = scene.pooled(W0, "a", Millis(1));
    let kept = scene.pool.inspect(W0, token, |connection| {
        assert_eq!(*connection, "a");
        Inspection::Keep
    });
    assert!(kept.is_none());
    let taken = scene.pool.take(W0, token, DiscardReason::PeerClosedIdle).expect("it was not taken");
    assert_eq!((taken.connection, taken.reason), ("a", DiscardReason::PeerClosedIdle));
    assert!(scene.pool.take(W0, token, DiscardReason::DataOnIdle).is_none());
    assert_eq!(scene.snapshot().counts.discarded[DiscardReason::PeerClosedIdle.index()], 1);
    scene.assert_balance(0);
}

#[test]
fn late_event_for_a_stolen_connection_is_ignored() {
    let scene = Scene::new(2, &LIMITS);
    let token = scene.pooled(W0, "a", Millis(1));
    let stolen = scene.pool.checkout(W1, scene.key, Millis(2)).expect("one is idle");
    scene.pooled(W0, "b", Millis(3));
    assert!(scene.pool.take(W0, token, DiscardReason::PeerClosedIdle).is_none());
    let _ = stolen.lease.discard(DiscardReason::Cancelled);
    scene.assert_balance(0);
}

#[test]
fn p07_requests_age_and_idle_time_end_a_connection() {
    let scene = Scene::new(1, &GroupLimits { requests_max: 2, age_max_ms: 100, idle_timeout_ms: 50, ..LIMITS });
    scene.pooled(W0, "used up", Millis(0));
    let second = scene.pool.checkout(W0, scene.key, Millis(1)).expect("one exchange is left");
    let CheckIn::Discarded { reason, .. } = second.lease.check_in(Millis(2)) else {
        panic!("two requests are the limit")
    };
    assert_eq!(reason, DiscardReason::RequestLimit);

    let old = scene.opened(W0, "old", Millis(0));
    let CheckIn::Discarded { reason, .. } = old.check_in(Millis(101)) else { panic!("100 ms are the limit") };
    assert_eq!(reason, DiscardReason::AgeLimit);

    scene.pooled(W0, "idle", Millis(200));
    assert!(scene.pool.checkout(W0, scene.key, Millis(250)).is_none(), "at its limit before the timer came");
    let mut removed = Vec::new();
    assert_eq!(scene.pool.expire(W0, Millis(249), &mut removed), Some(Millis(250)));
    assert!(removed.is_empty());
    assert_eq!(scene.pool.expire(W0, Millis(250), &mut removed), None);
    assert_eq!((removed.len(), removed[0].reason), (1, DiscardReason::IdleLimit));
    scene.assert_balance(0);
}

#[test]
fn p07_a_reload_applies_to_connections_that_are_idle_already() {
    let scene = Scene::new(1, &LIMITS);
    for at in 0..4 {
        scene.pooled(W0, "a", Millis(at));
    }
    scene.pool.intern_group("app", &GroupLimits { idle_max: 2, idle_timeout_ms: 1000, ..LIMITS }).expect("known");
    let mut removed = Vec::new();
    assert_eq!(scene.pool.expire(W0, Millis(10), &mut removed), Some(Millis(1002)));
    assert_eq!(removed.iter().map(|one| one.idle_since.0).collect::<Vec<_>>(), [0, 1], "the oldest go");
    scene.assert_balance(0);
}

#[test]
fn p08_identities_never_share_and_retired_keys_are_empty() {
    let scene = Scene::new(2, &LIMITS);
    let other = scene.key_with(|key| key.source = Some([10, 0, 0, 1].into()));
    assert_eq!(scene.key, scene.key_with(|_| ()), "the same identity has the same number");
    scene.pooled(W0, "a", Millis(1));
    assert!(scene.pool.checkout(W0, other, Millis(2)).is_none());
    assert!(scene.pool.checkout(W1, other, Millis(2)).is_none());

    let leased = scene.opened(W1, "b", Millis(2));
    let mut removed = Vec::new();
    scene.pool.retire_key(scene.key, &mut removed);
    assert_eq!((removed.len(), removed[0].reason), (1, DiscardReason::Reload));
    let next = scene.key_with(|key| key.proxy_protocol = true);
    assert_ne!(next, scene.key, "the place is another's now");
    let CheckIn::Discarded { reason, .. } = leased.check_in(Millis(3)) else { panic!("its key was retired") };
    assert_eq!(reason, DiscardReason::Reload);
    assert!(scene.pool.checkout(W1, scene.key, Millis(4)).is_none());
    assert!(matches!(scene.pool.open(W1, scene.key), Open::Full { limit: Full::Retired, .. }));
    scene.assert_balance(0);
}

#[test]
fn p09_full_pool_closes_the_least_recently_used_own_first() {
    let scene = Scene::new(2, &GroupLimits { idle_max: 2, ..LIMITS });
    scene.pooled(W1, "theirs", Millis(1));
    scene.pooled(W0, "mine", Millis(2));
    let CheckIn::Pooled { evicted: Some(evicted), .. } = scene.opened(W0, "new", Millis(3)).check_in(Millis(3)) else {
        panic!("two are the limit")
    };
    assert_eq!((evicted.connection, evicted.worker, evicted.reason), ("mine", W0, DiscardReason::PoolFull));
    let held = scene.pool.checkout(W0, scene.key, Millis(4)).expect("the new one");
    scene.pooled(W1, "theirs too", Millis(5));
    let CheckIn::Pooled { evicted: Some(evicted), .. } = held.lease.check_in(Millis(6)) else {
        panic!("two are the limit")
    };
    assert_eq!((evicted.connection, evicted.worker), ("theirs", W1));
    assert_eq!(scene.snapshot().idle, 2);
    scene.assert_balance(0);
}

#[test]
fn idle_per_peer_is_exact_and_leaves_other_peers_alone() {
    let scene = Scene::new(2, &GroupLimits { idle_max: 10, idle_per_peer_max: Some(1), ..LIMITS });
    let second = scene.key_with(|key| key.peer = address(2));
    scene.pooled(W0, "peer 1", Millis(1));
    scene.pooled_with(W0, second, "peer 2", Millis(2));
    let lease = scene.opened(W1, "peer 1 again", Millis(3));
    let CheckIn::Pooled { evicted: Some(evicted), .. } = lease.check_in(Millis(3)) else { panic!("one per peer") };
    assert_eq!((evicted.connection, evicted.worker), ("peer 1", W0));
    assert_eq!(scene.snapshot().idle, 2);
    scene.assert_balance(0);
}

#[test]
fn keepalive_0_keeps_nothing() {
    let scene = Scene::new(1, &GroupLimits::keepalive(0, false, 1));
    let CheckIn::Discarded { reason, .. } = scene.opened(W0, "a", Millis(1)).check_in(Millis(2)) else {
        panic!("the pool is off")
    };
    assert_eq!(reason, DiscardReason::KeepaliveOff);
    scene.assert_balance(0);
}

#[test]
fn p10_a_learned_limit_shortens_the_idle_time() {
    let scene = Scene::new(1, &LIMITS);
    scene.pooled(W0, "a", Millis(0));
    scene.pool.observe_announced(scene.key, Millis(0), 5000);
    assert_eq!(scene.pool.learned(scene.key).idle_ms, Some(4375));
    assert!(scene.pool.checkout(W0, scene.key, Millis(4375)).is_none());
    let mut removed = Vec::new();
    assert_eq!(scene.pool.expire(W0, Millis(4375), &mut removed), None);
    assert_eq!(removed.len(), 1);
    scene.assert_balance(0);
}

#[test]
fn p10_learned_limits_cover_all_keys_and_survive_reload() {
    let scene = Scene::new(1, &LIMITS);
    for now in [10_000, 20_000] {
        scene.pool.observe_end(scene.key, Millis(now), 8000, 7);
    }
    assert_eq!(scene.pool.intern_group("app", &LIMITS), Ok(scene.group));
    let other = scene.key_with(|key| key.source = Some([127, 0, 0, 9].into()));
    scene.pooled_with(W0, other, "a", Millis(20_000));
    assert!(scene.pool.checkout(W0, other, Millis(27_000)).is_none(), "its eighth second is its last");
    // Another peer is another matter; and with `keepalive_learn off` nothing holds.
    let elsewhere = scene.key_with(|key| key.peer = address(2));
    assert_eq!(scene.pool.learned(elsewhere).idle_ms, None);
    scene.pool.intern_group("app", &GroupLimits { learn: false, ..LIMITS }).unwrap();
    scene.pool.observe_end(scene.key, Millis(30_000), 8000, 7);
    let checkout = scene.pool.checkout(W0, other, Millis(27_000)).expect("idle for seven seconds");
    let _ = checkout.lease.discard(DiscardReason::Error);
    scene.assert_balance(0);
}

#[test]
fn p10_retires_before_a_peer_that_closes_after_n_requests() {
    let scene = Scene::new(1, &LIMITS);
    for now in [1000, 2000, 3000] {
        scene.pool.observe_end(scene.key, Millis(now), 0, 2);
    }
    scene.pooled(W0, "a", Millis(4000));
    let checkout = scene.pool.checkout(W0, scene.key, Millis(4001)).expect("its second request");
    let CheckIn::Discarded { reason, .. } = checkout.lease.check_in(Millis(4002)) else { panic!("it had its two") };
    assert_eq!(reason, DiscardReason::RequestLimit);
}

#[test]
fn p10_learned_limits_expire() {
    let scene = Scene::new(1, &LIMITS);
    for now in [1000, 3000] {
        scene.pool.observe_end(scene.key, Millis(now), 900, 1);
    }
    let until = scene.pool.learned(scene.key).until.expect("a time");
    scene.pooled(W0, "a", until);
    let mut removed = Vec::new();
    scene.pool.expire(W0, until, &mut removed);
    assert_eq!((removed.len(), scene.pool.learned(scene.key).idle_ms), (0, None));
    let checkout = scene.pool.checkout(W0, scene.key, until.plus(2000)).expect("as patient as the configuration");
    let _ = checkout.lease.discard(DiscardReason::Error);
}

#[test]
fn max_connections_counts_leases_connects_idle_and_tunnels() {
    let scene = Scene::new(2, &GroupLimits { connections_max: Some(3), ..LIMITS });
    let leased = scene.opened(W0, "leased", Millis(0));
    let Open::Connect { permit: connecting, .. } = scene.pool.open(W1, scene.key) else { panic!("one of three") };
    let (_, tunnel) = scene.opened(W0, "tunnel", Millis(0)).into_tunnel();
    let tunnel = tunnel.into_count();
    assert!(matches!(scene.pool.open(W0, scene.key), Open::Full { limit: Full::Connections, .. }));
    drop(connecting);
    let Open::Connect { permit, .. } = scene.pool.open(W0, scene.key) else { panic!("the connect was given up") };
    drop(permit);
    drop(tunnel.resume(&scene.pool));
    assert_eq!(scene.snapshot().connections, 1);
    let _ = leased.discard(DiscardReason::Error);
    scene.assert_balance(0);
}

#[test]
fn foreign_idle_connection_yields_under_max_connections() {
    let scene = Scene::new(2, &GroupLimits { connections_max: Some(1), ..LIMITS });
    let second = scene.key_with(|key| key.peer = address(2));
    scene.pooled_with(W1, second, "idle", Millis(0));
    let Open::Connect { permit, evicted } = scene.pool.open(W0, scene.key) else { panic!("the idle one can go") };
    assert_eq!(evicted.len(), 1);
    assert_eq!((evicted[0].connection, evicted[0].reason), ("idle", DiscardReason::MadeRoom));
    drop(permit);
    scene.assert_balance(0);
}

#[test]
fn a_servers_own_limit_holds_beside_the_groups() {
    let scene = Scene::new(1, &LIMITS);
    let limits = PeerLimits { connections_max: Some(1), connecting_max: None };
    scene.pool.intern_peer(scene.group, &address(1), &limits).expect("known");
    let lease = scene.opened(W0, "a", Millis(0));
    assert!(matches!(scene.pool.open(W0, scene.key), Open::Full { limit: Full::PeerConnections, .. }));
    let second = scene.key_with(|key| key.peer = address(2));
    assert!(matches!(scene.pool.open(W0, second), Open::Connect { .. }));
    let _ = lease.discard(DiscardReason::Error);
    scene.assert_balance(0);
}

#[test]
fn waiters_get_connections_in_order() {
    let scene = Scene::new(2, &GroupLimits { connections_max: Some(1), waiting_max: 2, ..LIMITS });
    let lease = scene.opened(W0, "a", Millis(0));
    assert!(matches!(scene.pool.open(W1, scene.key), Open::Full { .. }));
    let mut first = scene.pool.wait(W1, scene.key, 71).expect("room in line");
    let mut second = scene.pool.wait(W0, scene.key, 72).expect("room in line");
    assert!(matches!(scene.pool.wait(W0, scene.key, 73), Err(Full::LineFull)));
    assert!(first.poll().is_none());
    assert!(matches!(lease.check_in(Millis(5)), CheckIn::HandedOver));
    assert_eq!(scene.driver.woken(), [71]);
    let Some(Grant::Reuse(checkout)) = first.poll() else { panic!("it was woken") };
    assert_eq!(checkout.source, Source::Stolen { from: W0 });
    assert!(second.poll().is_none());
    let _ = checkout.lease.discard(DiscardReason::ConnectionClose);
    assert_eq!(scene.driver.woken(), [71, 72]);
    let Some(Grant::Connect(permit)) = second.poll() else { panic!("a place is free") };
    drop(permit);
    assert_eq!(scene.snapshot().waiting, 0);
    scene.assert_balance(0);
}

#[test]
fn leaving_waiter_passes_its_grant_on() {
    let scene = Scene::new(2, &GroupLimits { connections_max: Some(1), waiting_max: 3, ..LIMITS });
    let lease = scene.opened(W0, "a", Millis(0));
    let first = scene.pool.wait(W1, scene.key, 1).expect("room");
    let gone = scene.pool.wait(W1, scene.key, 2).expect("room");
    let mut third = scene.pool.wait(W1, scene.key, 3).expect("room");
    drop(gone);
    assert!(matches!(lease.check_in(Millis(5)), CheckIn::HandedOver));
    drop(first);
    assert_eq!(scene.driver.woken(), [1, 3]);
    let Some(Grant::Reuse(checkout)) = third.poll() else { panic!("the first left it") };
    assert!(matches!(checkout.lease.check_in(Millis(6)), CheckIn::Pooled { .. }));

    let held = scene.pool.checkout(W0, scene.key, Millis(7)).expect("idle");
    let last = scene.pool.wait(W1, scene.key, 4).expect("room");
    assert!(matches!(held.lease.check_in(Millis(8)), CheckIn::HandedOver));
    drop(last);
    let closed = scene.driver.closed();
    assert_eq!(closed, [Closed { connection: "a", reason: DiscardReason::Cancelled, worker: W0 }]);
    assert_eq!(scene.snapshot().connections, 0);
    scene.assert_balance(0);
}

#[test]
fn a_raised_limit_serves_the_line() {
    let scene = Scene::new(1, &GroupLimits { connections_max: Some(1), waiting_max: 1, ..LIMITS });
    let lease = scene.opened(W0, "a", Millis(0));
    let mut waiter = scene.pool.wait(W0, scene.key, 9).expect("room");
    scene.pool.intern_group("app", &GroupLimits { connections_max: Some(2), ..LIMITS }).expect("known");
    assert!(matches!(waiter.poll(), Some(Grant::Connect(_))));
    let _ = lease.discard(DiscardReason::Error);
    scene.assert_balance(0);
}

#[test]
fn lease_dropped_by_a_panic_frees_its_place() {
    let scene = Scene::new(1, &GroupLimits { connections_max: Some(1), ..LIMITS });
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _lease = scene.opened(W0, "a", Millis(0));
        panic!("an exchange failed");
    }));
    assert!(outcome.is_err());
    assert_eq!(scene.snapshot().counts.discarded[DiscardReason::Dropped.index()], 1);
    assert_eq!(scene.snapshot().connections, 0);
    scene.assert_balance(0);
}

#[test]
fn draining_a_worker_empties_its_shard() {
    let scene = Scene::new(2, &LIMITS);
    scene.pooled(W0, "a", Millis(0));
    scene.pooled(W1, "b", Millis(0));
    let mut removed = Vec::new();
    scene.pool.drain(W0, DiscardReason::Drain, &mut removed);
    assert_eq!(removed.iter().map(|one| one.connection).collect::<Vec<_>>(), ["a"]);
    scene.assert_balance(0);
}

#[test]
fn flushing_a_group_empties_all_shards_of_it_alone() {
    let scene = Scene::new(2, &LIMITS);
    scene.pooled(W0, "a", Millis(0));
    scene.pooled(W1, "b", Millis(0));
    let other = scene.pool.intern_group("other", &LIMITS).unwrap();
    let mut removed = Vec::new();
    scene.pool.flush(Some(other), &mut removed);
    assert!(removed.is_empty());
    scene.pool.flush(Some(scene.group), &mut removed);
    let mut connections: Vec<_> = removed.iter().map(|one| one.connection).collect();
    connections.sort_unstable();
    assert_eq!(connections, ["a", "b"]);
    assert!(removed.iter().all(|one| one.reason == DiscardReason::Flushed));
    assert_eq!(scene.snapshot().idle, 0);
    scene.assert_balance(0);
}

#[test]
fn a_lease_is_small() {
    // A descriptor-sized connection: the lease lives in every exchange's future.
    assert!(size_of::<upstream::shared::Lease<'static, u64>>() <= 56);
}

#[test]
fn a_connection_of_another_process_keeps_its_age_and_use() {
    let limits = GroupLimits { requests_max: 9, age_max_ms: 1000, idle_timeout_ms: 50, ..LIMITS };
    let here = Scene::new(2, &limits);
    let there = Scene::new(1, &limits);
    assert!(!there.pool.has_idle(W0));
    let (group, key) = there.pool.describe(there.key).expect("it is in use");
    let known = here.pool.known_key(&group, |group| PoolKey { group, ..key.clone() }).expect("the same names");
    assert_eq!(known, here.key);
    assert_eq!(here.pool.known_key("another", |group| PoolKey { group, ..key.clone() }), None);
    let bound = |group| PoolKey { group, source: Some([127, 0, 0, 9].into()), ..key.clone() };
    assert_eq!(here.pool.known_key(&group, bound), None);
    let take_over = |name, requests, created_at, idle_since| {
        let permit = here.pool.open_spare(W1, known).expect("there is room");
        permit.taken_over(name, Meta { created_at, requests }, idle_since, |_, _| {})
    };
    assert!(matches!(take_over("a", 3, Millis(10), Millis(100)), CheckIn::Pooled { .. }));
    assert!(here.pool.has_idle(W1) && !here.pool.has_idle(W0));
    assert!(here.pool.checkout(W1, here.key, Millis(150)).is_none(), "it is idle for too long, with the time there");
    let checkout = here.pool.checkout(W1, here.key, Millis(149)).expect("it is idle");
    assert_eq!(checkout.lease.meta(), Meta { created_at: Millis(10), requests: 4 });
    assert_eq!(here.snapshot().counts.opened, 0);
    let _ = checkout.lease.discard(DiscardReason::ConnectionClose);
    let reason = |outcome| match outcome {
        CheckIn::Discarded { reason, .. } => reason,
        other => panic!("{other:?}"),
    };
    assert_eq!(reason(take_over("used up", 9, Millis(10), Millis(100))), DiscardReason::RequestLimit);
    assert_eq!(reason(take_over("old", 1, Millis(10), Millis(1011))), DiscardReason::AgeLimit);
}
