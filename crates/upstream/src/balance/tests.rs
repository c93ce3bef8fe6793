//! Sequences that nginx is known to produce, and its rules of ejection and recovery.

use std::sync::Arc;

use super::*;
use crate::shared::PeerAddress;

const START: Millis = Millis(1_000_000);

fn weighted(method: Method, weights: &[u32]) -> Group {
    of(method, &weights.iter().map(|&weight| PeerSpec { weight, ..PeerSpec::default() }).collect::<Vec<_>>())
}

fn of(method: Method, specs: &[PeerSpec]) -> Group {
    Group::new(method, specs.iter().map(|spec| (*spec, Arc::default())).collect())
}

fn picked(pick: &Pick) -> Option<usize> {
    match pick {
        Pick::Peer { index, .. } => Some(*index),
        Pick::NoLive => None,
    }
}

/// A request with one attempt, over before the next.
fn one(group: &Group, now: Millis) -> Option<usize> {
    picked(&group.pick(&mut Selection::default(), &Inputs::default(), now))
}

fn sequence(group: &Group, requests: usize) -> String {
    (0..requests).map(|_| one(group, START).map_or('-', |index| char::from(b'a' + index as u8))).collect()
}

#[test]
fn weights_5_1_1_are_spread_smoothly() {
    assert_eq!(sequence(&weighted(Method::RoundRobin, &[5, 1, 1]), 14), "aabacaaaabacaa");
}

#[test]
fn equal_weights_take_turns_and_3_1_interleaves() {
    assert_eq!(sequence(&weighted(Method::RoundRobin, &[1, 1, 1]), 6), "abcabc");
    assert_eq!(sequence(&weighted(Method::RoundRobin, &[3, 1]), 8), "aabaaaba");
}

#[test]
fn a_request_tries_each_peer_once_backups_last() {
    let spec = PeerSpec::default();
    let group = of(Method::RoundRobin, &[spec, PeerSpec { backup: true, ..spec }, spec]);
    let mut selection = Selection::default();
    let mut tried = Vec::new();
    while let Some(index) = picked(&group.pick(&mut selection, &Inputs::default(), START)) {
        tried.push(index);
    }
    assert_eq!(tried, [0, 2, 1]);
}

#[test]
fn down_is_never_picked_and_nothing_else_means_no_live_upstreams() {
    let spec = PeerSpec::default();
    let down = PeerSpec { down: true, ..spec };
    assert_eq!(sequence(&of(Method::RoundRobin, &[down, spec]), 3), "bbb");
    assert_eq!(sequence(&of(Method::RoundRobin, &[down, down]), 2), "--");
    assert_eq!(sequence(&of(Method::RoundRobin, &[down]), 1), "-");
}

#[test]
fn a_failed_peer_rests_for_fail_timeout_then_gets_one_request_as_a_check() {
    let group = weighted(Method::RoundRobin, &[1, 1]);
    assert_eq!(group.report(0, Outcome::Failed, START), Standing::Disabled);
    for ms in [0, 5_000, 10_000] {
        assert_eq!(one(&group, START.plus(ms)), Some(1));
    }
    let later = START.plus(10_001);
    let after: Vec<_> = (0..4).map(|_| one(&group, later)).collect();
    assert_eq!(after.iter().filter(|index| **index == Some(0)).count(), 1, "{after:?}");
    group.report(0, Outcome::Succeeded, later);
    let after: Vec<_> = (0..4).map(|_| one(&group, later)).collect();
    assert_eq!(after.iter().filter(|index| **index == Some(0)).count(), 2, "{after:?}");
}

#[test]
fn failures_add_up_to_max_fails_and_a_success_between_does_not_clear_them() {
    let spec = PeerSpec { max_fails: 2, ..PeerSpec::default() };
    let group = of(Method::RoundRobin, &[spec, spec]);
    assert_eq!(group.report(0, Outcome::Failed, START), Standing::Unchanged);
    group.report(0, Outcome::Succeeded, START.plus(1));
    assert_eq!(group.report(0, Outcome::Failed, START.plus(2)), Standing::Disabled);
    assert_eq!(one(&group, START.plus(3)), Some(1));
}

#[test]
fn when_all_are_ejected_nobody_is_picked_until_the_time_is_over() {
    let group = weighted(Method::RoundRobin, &[1, 1]);
    group.report(0, Outcome::Failed, START);
    group.report(1, Outcome::Failed, START);
    assert_eq!(one(&group, START.plus(1)), None);
    assert_eq!(one(&group, START.plus(2)), None, "asking does not revive them");
    assert!(one(&group, START.plus(10_001)).is_some());
}

#[test]
fn a_failure_lowers_the_effective_weight_which_grows_back() {
    let spec = PeerSpec { weight: 4, max_fails: 2, ..PeerSpec::default() };
    let group = of(Method::RoundRobin, &[spec, spec]);
    group.report(0, Outcome::Failed, START);
    // Effective weights 2, 3, 4 against 4: a healthy pair begins with a.
    assert_eq!(sequence(&group, 6), "bababa");
}

#[test]
fn max_fails_0_and_a_neutral_outcome_eject_nobody() {
    let spec = PeerSpec { max_fails: 0, ..PeerSpec::default() };
    let group = of(Method::RoundRobin, &[spec, PeerSpec::default()]);
    group.report(0, Outcome::Failed, START);
    group.report(1, Outcome::Neutral, START);
    assert_eq!(sequence(&group, 4), "abab");
}

#[test]
fn the_only_peer_is_never_ejected_but_obeys_max_conns() {
    let group = of(Method::RoundRobin, &[PeerSpec { max_conns: Some(1), ..PeerSpec::default() }]);
    group.report(0, Outcome::Failed, START);
    let seat = group.pick(&mut Selection::default(), &Inputs::default(), START);
    assert_eq!(picked(&seat), Some(0));
    assert_eq!(one(&group, START), None);
    drop(seat);
    assert_eq!(one(&group, START), Some(0));
}

#[test]
fn max_conns_is_shared_by_generations_and_health_survives_a_reload() {
    let registry = HealthRegistry::default();
    let address = PeerAddress::Ip(([10, 0, 0, 1], 80).into());
    let other = PeerAddress::Ip(([10, 0, 0, 2], 80).into());
    let spec = PeerSpec { max_conns: Some(1), ..PeerSpec::default() };
    let generation = |order: [&PeerAddress; 2]| {
        Group::new(Method::RoundRobin, order.map(|address| (spec, registry.health("app", address))).into())
    };
    let before = generation([&address, &other]);
    let held = before.pick(&mut Selection::default(), &Inputs::default(), START);
    assert_eq!(picked(&held), Some(0));
    let after = generation([&other, &address]);
    drop(before);
    assert_eq!((one(&after, START), one(&after, START)), (Some(0), Some(0)), "the other one is full");
    after.report(0, Outcome::Failed, START);
    assert_eq!(one(&after, START), None);
    drop(held);
    assert_eq!(one(&after, START), Some(1));
}

#[test]
fn least_conn_prefers_the_idle_peer_by_weight() {
    let group = weighted(Method::LeastConn, &[1, 2]);
    let mut held = Vec::new();
    let mut order = Vec::new();
    for _ in 0..6 {
        let pick = group.pick(&mut Selection::default(), &Inputs::default(), START);
        order.push(picked(&pick).expect("all are live"));
        held.push(pick);
    }
    assert_eq!(order.iter().filter(|index| **index == 1).count(), 4, "{order:?}");
    held.retain(|pick| picked(pick) != Some(0));
    assert_eq!(one(&group, START), Some(0));
}

#[test]
fn ip_hash_and_hash_are_faithful_and_move_on_when_the_peer_is_ejected() {
    for method in [Method::IpHash, Method::Hash] {
        let group = weighted(method, &[1, 1, 1]);
        let inputs = Inputs { client: &[192, 168, 7], hash_key: b"/page" };
        let ask = |now| picked(&group.pick(&mut Selection::default(), &inputs, now));
        let home = ask(START).expect("all are live");
        assert!((0..10).all(|_| ask(START) == Some(home)));
        group.report(home, Outcome::Failed, START);
        let refuge = ask(START).expect("two are live");
        assert_ne!(refuge, home);
        assert!((0..10).all(|_| ask(START) == Some(refuge)));
    }
}

#[test]
fn ip_hash_takes_nginxs_arithmetic() {
    // ((((89 * 113 + 127) % 6271 * 113 + 0) % 6271) * 113 + 0) % 6271 % 3, by hand: 10184 % 6271 = 3913,
    // 3913 * 113 % 6271 = 3199, 3199 * 113 % 6271 = 4040, 4040 % 3 = 2.
    let group = weighted(Method::IpHash, &[1, 1, 1]);
    let inputs = Inputs { client: &[127, 0, 0], ..Inputs::default() };
    assert_eq!(picked(&group.pick(&mut Selection::default(), &inputs, START)), Some(2));
}

#[test]
fn more_than_64_peers_are_told_apart() {
    let group = weighted(Method::RoundRobin, &[1; 130]);
    let mut selection = Selection::default();
    let mut seen = std::collections::HashSet::new();
    while let Some(index) = picked(&group.pick(&mut selection, &Inputs::default(), START)) {
        assert!(seen.insert(index));
    }
    assert_eq!(seen.len(), 130);
}
