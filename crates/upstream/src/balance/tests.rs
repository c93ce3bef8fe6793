//! Sequences that nginx is known to produce, and its rules of ejection and recovery.

use std::sync::Arc;

use super::*;
use crate::shared::PeerAddress;

const START: Millis = Millis(1_000_000);

fn weighted(method: Method, weights: &[u32]) -> Group {
    of(method, &weights.iter().map(|&weight| PeerSpec { weight, ..PeerSpec::default() }).collect::<Vec<_>>())
}

fn of(method: Method, specs: &[PeerSpec]) -> Group {
    Group::new(method, specs.iter().enumerate().map(|(index, spec)| member(index, *spec)).collect())
}

/// Servers are called `10.0.0.1:80`, `10.0.0.2:80` …, and sessions are bound to `a`, `b` …
fn member(index: usize, spec: PeerSpec) -> Member {
    let sid = [b'a' + index as u8];
    Member {
        spec,
        server: format!("10.0.0.{}:80", index + 1).into(),
        sid: sid.as_slice().into(),
        health: Arc::default(),
    }
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
fn down_peer_is_never_picked_and_alone_means_no_live_upstreams() {
    let spec = PeerSpec::default();
    let down = PeerSpec { down: true, ..spec };
    assert_eq!(sequence(&of(Method::RoundRobin, &[down, spec]), 3), "bbb");
    assert_eq!(sequence(&of(Method::RoundRobin, &[down, down]), 2), "--");
    assert_eq!(sequence(&of(Method::RoundRobin, &[down]), 1), "-");
}

#[test]
fn failed_peer_rests_and_then_gets_one_probe() {
    let group = weighted(Method::RoundRobin, &[1, 1]);
    assert_eq!(group.report(0, Outcome::Failed, START), PeerChange::Disabled);
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
fn failures_add_up_despite_successes_between() {
    let spec = PeerSpec { max_fails: 2, ..PeerSpec::default() };
    let group = of(Method::RoundRobin, &[spec, spec]);
    assert_eq!(group.report(0, Outcome::Failed, START), PeerChange::Unchanged);
    group.report(0, Outcome::Succeeded, START.plus(1));
    assert_eq!(group.report(0, Outcome::Failed, START.plus(2)), PeerChange::Disabled);
    assert_eq!(one(&group, START.plus(3)), Some(1));
}

#[test]
fn picks_no_peer_while_all_are_ejected() {
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
fn max_fails_0_and_a_neutral_outcome_eject_no_peer() {
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
fn max_conns_and_health_survive_a_reload() {
    let registry = HealthRegistry::default();
    let address = PeerAddress::Ip(([10, 0, 0, 1], 80).into());
    let other = PeerAddress::Ip(([10, 0, 0, 2], 80).into());
    let spec = PeerSpec { max_conns: Some(1), ..PeerSpec::default() };
    let generation = |order: [&PeerAddress; 2]| {
        Group::new(
            Method::RoundRobin,
            order
                .map(|address| Member {
                    health: registry.health("app", address, 0, Checked::Healthy),
                    ..member(0, spec)
                })
                .into(),
        )
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
fn hash_methods_are_stable_and_skip_ejected_peers() {
    for method in [Method::IpHash, Method::Hash, Method::ConsistentHash] {
        let group = weighted(method, &[1, 1, 1]);
        let inputs = Inputs { client: &[192, 168, 7], hash_key: b"/page", ..Inputs::default() };
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
fn distinguishes_more_than_64_peers() {
    let group = weighted(Method::RoundRobin, &[1; 130]);
    let mut selection = Selection::default();
    let mut seen = std::collections::HashSet::new();
    while let Some(index) = picked(&group.pick(&mut selection, &Inputs::default(), START)) {
        assert!(seen.insert(index));
    }
    assert_eq!(seen.len(), 130);
}

/// The peer of a request that is bound to a session's peer.
fn bound(group: &Group, sid: &[u8], now: Millis) -> Option<usize> {
    picked(&group.pick(&mut Selection::default(), &Inputs { bound: sid, ..Inputs::default() }, now))
}

#[test]
fn bound_session_keeps_its_peer_and_others_compensate() {
    let group = weighted(Method::RoundRobin, &[1, 1, 1]);
    assert_eq!(bound(&group, b"a", START), Some(0));
    assert_eq!(sequence(&group, 5), "bcabc", "the round was begun by the bound one");
    for _ in 0..100 {
        assert_eq!(bound(&group, b"c", START), Some(2));
    }
    let after = sequence(&group, 9);
    assert!(after[..6].contains('c'), "it owes one round, not a hundred: {after}");
    assert!(bound(&group, b"z", START).is_some(), "an unknown session is a new one");
}

#[test]
fn bound_sessions_may_use_drained_but_not_failed_peers() {
    let spec = PeerSpec::default();
    let drain = PeerSpec { drain: true, ..spec };
    let full = PeerSpec { max_conns: Some(1), ..spec };
    let group = of(Method::LeastConn, &[drain, PeerSpec { down: true, ..spec }, full, spec]);
    assert_eq!(bound(&group, b"a", START), Some(0));
    assert_ne!(bound(&group, b"b", START), Some(1));
    let held = group.pick(&mut Selection::default(), &Inputs { bound: b"c", ..Inputs::default() }, START);
    assert_eq!(picked(&held), Some(2));
    assert_eq!(bound(&group, b"c", START), Some(3));
    assert_eq!(bound(&group, b"d", START), Some(3));
    group.report(3, Outcome::Failed, START);
    assert_eq!(bound(&group, b"d", START), None, "drained, down, full, ejected");
    assert_eq!(bound(&of(Method::RoundRobin, &[drain]), b"", START), None);
    assert_eq!(bound(&of(Method::RoundRobin, &[drain]), b"a", START), Some(0));
}

#[test]
fn operator_removes_and_restores_a_peer_for_all_methods() {
    let spec = PeerSpec::default();
    for method in [Method::RoundRobin, Method::LeastConn, Method::IpHash] {
        let group = of(method, &[spec, spec]);
        let health = group.health(0).unwrap();
        health.set_mode(PeerMode::Down);
        assert!((0..4).all(|_| one(&group, START) == Some(1)), "{method:?}");
        assert_ne!(bound(&group, b"a", START), Some(0));
        health.set_mode(PeerMode::Drain);
        assert!((0..4).all(|_| one(&group, START) == Some(1)), "{method:?}");
        assert_eq!(bound(&group, b"a", START), Some(0), "its sessions stay with it");
        group.health(1).unwrap().set_mode(PeerMode::Down);
        assert_eq!(one(&group, START), None);
        health.set_mode(PeerMode::Up);
        assert_eq!(one(&group, START), Some(0));
    }
    // The only peer of a group is never ejected, but an operator may take it out.
    let alone = of(Method::RoundRobin, &[spec]);
    alone.health(0).unwrap().set_mode(PeerMode::Down);
    assert_eq!(one(&alone, START), None);
}

#[test]
fn a_peer_that_recovered_begins_slowly() {
    for method in [Method::RoundRobin, Method::LeastConn] {
        let slow = PeerSpec { slow_start_ms: 100_000, ..PeerSpec::default() };
        let group = of(method, &[slow, PeerSpec::default()]);
        assert_eq!(sequence(&group, 4), "abab", "nothing has to recover at the start");
        group.report(0, Outcome::Failed, START);
        let later = START.plus(10_001);
        let check = (0..4).find(|_| one(&group, later) == Some(0));
        assert!(check.is_some(), "it is checked");
        group.report(0, Outcome::Succeeded, later);
        let share = |now: Millis| (0..300).filter(|_| one(&group, now) == Some(0)).count();
        let shares = [share(later.plus(10_000)), share(later.plus(50_000)), share(later.plus(100_000))];
        for (share, expected) in shares.iter().zip([27, 100, 150]) {
            assert!(share.abs_diff(expected) <= 3, "{shares:?} of 300 with {method:?}");
        }
    }
}

#[test]
fn active_checks_may_remove_the_only_peer_and_slow_start_it() {
    let slow = PeerSpec { slow_start_ms: 100_000, ..PeerSpec::default() };
    for others in [0, 1] {
        let mut specs = vec![slow];
        specs.extend(std::iter::repeat_n(PeerSpec::default(), others));
        let group = of(Method::RoundRobin, &specs);
        let health = group.health(0).expect("it is there");
        health.set_checked(Checked::Unhealthy, START);
        assert!((0..4).all(|_| one(&group, START) != Some(0)));
        health.set_checked(Checked::Healthy, START.plus(5));
        let share = (0..100).filter(|_| one(&group, START.plus(1005)) == Some(0)).count();
        assert!(if others == 0 { share == 100 } else { share <= 2 }, "{share} of 100 with {others} others");
    }
}

#[test]
fn new_peer_starts_as_configured_and_known_one_keeps_state() {
    let registry = HealthRegistry::default();
    let [known, new] = [1, 2].map(|port| PeerAddress::Ip(std::net::SocketAddr::from(([192, 0, 2, 1], port))));
    let held = registry.health("app", &known, 0, Checked::Healthy);
    let again = registry.health("app", &known, 0, Checked::Pending);
    assert!(Arc::ptr_eq(&held, &again));
    assert_eq!(again.checked(), Checked::Healthy);
    let new = registry.health("app", &new, 0, Checked::Pending);
    assert_eq!(new.checked(), Checked::Pending);
    // It came back from nowhere: there is nothing to begin slowly after.
    new.set_checked(Checked::Healthy, START);
    assert_eq!(new.share(100_000, START.plus(1)), SHARE_WHOLE);
}

#[test]
fn a_remaining_peer_keeps_its_turn_and_failures() {
    let spec = PeerSpec::default();
    let members: Vec<_> = (0..4).map(|index| member(index, spec)).collect();
    let group = Group::new(Method::RoundRobin, members[..3].to_vec());
    assert_eq!(sequence(&group, 2), "ab");
    group.report(1, Outcome::Failed, START);
    // c is next; b rests; d is new.
    let changed = group.succeed(vec![members[3].clone(), members[2].clone(), members[1].clone()]);
    assert_eq!(one(&changed, START), Some(1));
    assert!((0..6).all(|_| one(&changed, START) != Some(2)));
    // A weight is changed: from now on three of four.
    let heavier = Member { spec: PeerSpec { weight: 3, ..spec }, ..members[0].clone() };
    let group = Group::new(Method::RoundRobin, vec![members[0].clone(), members[3].clone()]);
    let group = group.succeed(vec![heavier, members[3].clone()]);
    assert_eq!(sequence(&group, 8), "aabaaaba");
}

#[test]
fn leaving_peer_moves_only_its_keys_on_the_ring() {
    let spec = PeerSpec::default();
    let members: Vec<_> = (0..5).map(|index| member(index, spec)).collect();
    let before = Group::new(Method::ConsistentHash, members.clone());
    let after = before.succeed(members[..4].to_vec());
    let at = |group: &Group, key: &str| {
        let inputs = Inputs { hash_key: key.as_bytes(), ..Inputs::default() };
        picked(&group.pick(&mut Selection::default(), &inputs, START)).expect("all are live")
    };
    let mut held = [0; 5];
    for key in 0..2000 {
        let key = format!("key {key}");
        let home = at(&before, &key);
        held[home] += 1;
        assert!(home == 4 || at(&after, &key) == home, "{key}");
    }
    assert!(held.iter().all(|keys| (250..=600).contains(keys)), "{held:?}");
}

#[test]
fn addresses_of_one_name_share_its_points_and_take_turns() {
    let named = |index| Member { server: "a.example:80".into(), ..member(index, PeerSpec::default()) };
    let group = Group::new(Method::ConsistentHash, vec![named(0), named(1)]);
    let inputs = Inputs { hash_key: b"key", ..Inputs::default() };
    let picks: Vec<_> = (0..4).map(|_| picked(&group.pick(&mut Selection::default(), &inputs, START))).collect();
    assert_eq!(picks, [Some(0), Some(1), Some(0), Some(1)]);
}

#[test]
fn chance_follows_the_weights_and_finds_the_last_usable_peer() {
    let group = weighted(Method::Random, &[1, 3]);
    let picked_by = |group: &Group, random| {
        picked(&group.pick(&mut Selection::default(), &Inputs { random, ..Inputs::default() }, START))
    };
    let second = (0..4000).filter(|random| picked_by(&group, *random) == Some(1)).count();
    assert!((2836..=3164).contains(&second), "{second} of 4000: six standard deviations off three quarters");
    for method in [Method::Random, Method::RandomTwoLeastConn, Method::RandomTwoLeastTime(Measure::Header)] {
        let down = PeerSpec { down: true, weight: 1000, ..PeerSpec::default() };
        let group = of(method, &[down, PeerSpec::default(), down]);
        assert!((0..50).all(|random| picked_by(&group, random) == Some(1)), "{method:?}");
    }
}

#[test]
fn least_time_prefers_fast_peers_until_loaded() {
    let method = Method::LeastTime { measure: Measure::Header, inflight: false };
    let group = weighted(method, &[1, 1]);
    // Who was never asked is believed to be fast.
    assert_eq!(sequence(&group, 2), "ab");
    group.took(0, 15, 500);
    group.took(1, 55, 60);
    let mut held = Vec::new();
    let order: Vec<_> = (0..6)
        .map(|_| {
            let pick = group.pick(&mut Selection::default(), &Inputs::default(), START);
            let index = picked(&pick);
            held.push(pick);
            index
        })
        .collect();
    // 20 ms against 60: the next one takes 20, 40, 60 (a tie), 80, 100 at the first, 60 and then 120 at the second.
    assert_eq!(order.iter().filter(|index| **index == Some(0)).count(), 5, "{order:?}");
    assert_eq!(order[..2], [Some(0), Some(0)]);
}

#[test]
fn inflight_makes_a_hanging_peer_lose_early() {
    let method = Method::LeastTime { measure: Measure::Header, inflight: true };
    let group = weighted(method, &[1, 1]);
    let mut hanging = group.pick(&mut Selection::default(), &Inputs::default(), START);
    assert_eq!(picked(&hanging), Some(0));
    let later = START.plus(3000);
    assert!((0..5).all(|_| one(&group, later) == Some(1)));
    // Its head comes: the exchange goes on, but no longer counts by its age.
    let Pick::Peer { seat, .. } = &mut hanging else { unreachable!() };
    group.head_came(seat);
    drop(hanging);
    assert!((0..4).any(|_| one(&group, later) == Some(0)));
}

/// A group of one address that appears this often in it.
fn equals(registry: &HealthRegistry, specs: &[PeerSpec]) -> Group {
    let address = PeerAddress::Ip(([10, 0, 0, 1], 80).into());
    let mut ordinals = Ordinals::default();
    let mut equal = |spec: &PeerSpec| {
        let health = registry.health("app", &address, ordinals.next(&address), Checked::Healthy);
        Member { health, ..member(0, *spec) }
    };
    Group::new(Method::RoundRobin, specs.iter().map(&mut equal).collect())
}

#[test]
fn equal_lines_are_peers_with_their_own_state() {
    let (registry, spec) = (HealthRegistry::default(), PeerSpec::default());
    let group = equals(&registry, &[spec, spec, PeerSpec { backup: true, ..spec }]);
    assert_eq!([0, 1, 2].map(|index| group.health(index).map(PeerHealth::ordinal)), [Some(0), Some(1), Some(2)]);
    let ask = |group: &Group| one(group, START);
    group.report(0, Outcome::Failed, START);
    assert_eq!((ask(&group), ask(&group)), (Some(1), Some(1)));
    group.report(1, Outcome::Failed, START);
    assert_eq!(ask(&group), Some(2));
    // A generation after it has the same peers, and one that is new.
    let after = equals(&registry, &[spec; 4]);
    assert_eq!((ask(&after), ask(&after), ask(&after)), (Some(2), Some(3), Some(2)));

    let full = PeerSpec { max_conns: Some(1), ..spec };
    let group = equals(&HealthRegistry::default(), &[full, full]);
    let held = [0, 1].map(|_| group.pick(&mut Selection::default(), &Inputs::default(), START));
    assert_eq!(held.each_ref().map(picked), [Some(0), Some(1)]);
    assert_eq!(ask(&group), None);
}

#[test]
fn backup_session_returns_to_a_recovered_primary() {
    let spec = PeerSpec::default();
    for method in [Method::RoundRobin, Method::LeastConn, Method::IpHash] {
        let group = of(method, &[spec, PeerSpec { backup: true, ..spec }, PeerSpec { backup: true, ..spec }]);
        group.report(0, Outcome::Failed, START);
        assert!((0..4).all(|_| bound(&group, b"c", START) == Some(2)), "the backups are the tier in use");
        let later = START.plus(10_001);
        assert_eq!(bound(&group, b"c", later), Some(0), "{method:?}");
        group.report(0, Outcome::Succeeded, later);
        assert_eq!(bound(&group, b"c", later), Some(0), "{method:?}");
    }
}

#[test]
fn attempts_are_counted_without_peers_that_are_down_or_drained() {
    let spec = PeerSpec::default();
    let (down, drain) = (PeerSpec { down: true, ..spec }, PeerSpec { drain: true, ..spec });
    let group = of(Method::RoundRobin, &[spec, down, drain, PeerSpec { backup: true, ..spec }]);
    assert_eq!(group.tries_max(), 2);
    let mut selection = Selection::default();
    assert!(group.has_another(&selection, b"", START));
    assert_eq!(picked(&group.pick(&mut selection, &Inputs::default(), START)), Some(0));
    assert!(group.has_another(&selection, b"", START), "the backup");
    assert_eq!(picked(&group.pick(&mut selection, &Inputs::default(), START)), Some(3));
    assert!(!group.has_another(&selection, b"", START));
    assert!(group.has_another(&selection, b"c", START), "the session's peer is drained, but not for it");
    let busy = of(Method::RoundRobin, &[spec, PeerSpec { max_conns: Some(1), ..spec }]);
    let held = busy.pick(&mut Selection { tried: 1, ..Selection::default() }, &Inputs::default(), START);
    assert_eq!(picked(&held), Some(1));
    assert!(!busy.has_another(&Selection { tried: 1, ..Selection::default() }, b"", START), "it is busy");
}

#[test]
fn set_weight_applies_until_it_is_reset() {
    for method in [Method::RoundRobin, Method::Random, Method::LeastConn] {
        let members: Vec<Member> = (0..2).map(|index| member(index, PeerSpec::default())).collect();
        let health = Arc::clone(&members[0].health);
        let group = Group::new(method, members);
        let first_of = |requests: u64| {
            let ask = |seed: u64| {
                let inputs = Inputs { random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15), ..Inputs::default() };
                picked(&group.pick(&mut Selection::default(), &inputs, START))
            };
            (1..=requests).filter(|seed| ask(*seed) == Some(0)).count()
        };
        health.set_weight(Some(3));
        first_of(4);
        let share = first_of(400);
        // `random` is not exact; the others are.
        assert!((if method == Method::Random { 260..340 } else { 300..301 }).contains(&share), "{method:?}: {share}");
        health.set_weight(None);
        first_of(2);
        let share = first_of(400);
        assert!((if method == Method::Random { 160..240 } else { 200..201 }).contains(&share), "{method:?}: {share}");
    }
}
