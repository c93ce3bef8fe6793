//! nginx's arithmetic by example, and properties that hold for any sequence of requests.

use super::*;
use proptest::prelude::*;
use rustc_hash::FxBuildHasher;

const ROOMY: u64 = 1 << 20;

fn rule(rate_milli: u64, burst: u32, delay: u32) -> RequestRule {
    RequestRule { rate_milli, burst, delay }
}

fn states(bytes: u64) -> RequestStates<FxBuildHasher> {
    RequestStates::new(bytes, FxBuildHasher)
}

#[test]
fn a_burst_is_let_in_and_leaks_at_the_rate() {
    let mut states = states(ROOMY);
    // One request a second, two more at once.
    let rule = rule(1000, 2, 0);
    let ask: Vec<_> = (0..4).map(|_| states.take(b"k", &rule, 5000)).collect();
    let refused = Err(RequestRefusal::TooMany { excess_milli: 3000 });
    assert_eq!(ask, [Ok(0), Ok(1000), Ok(2000), refused]);
    assert_eq!(states.take(b"k", &rule, 5999), Err(RequestRefusal::TooMany { excess_milli: 2001 }));
    assert_eq!(states.take(b"k", &rule, 6000), Ok(2000), "the one before was not counted");
    assert_eq!(states.take(b"other", &rule, 6000), Ok(0));
    assert_eq!(states.take(b"k", &rule, 60_000), Ok(0), "a bucket is never emptier than empty");
}

#[test]
fn delays_follow_the_excess() {
    assert_eq!(rule(1000, 5, 0).delay_ms(0), 0);
    assert_eq!(rule(1000, 5, 0).delay_ms(2000), 2000);
    assert_eq!(rule(10_000, 5, 0).delay_ms(2000), 200);
    assert_eq!(rule(500, 5, 1).delay_ms(2500), 3000);
    assert_eq!(rule(500, 5, 3).delay_ms(2500), 0);
    assert_eq!(rule(500, 5, u32::MAX).delay_ms(u64::MAX), 0, "nodelay");
    // `rate=1r/m` with a burst: the numbers stay whole.
    assert_eq!(rule(1000 / 60, 5, 0).delay_ms(1000), 62_500);
}

#[test]
fn a_probe_counts_only_when_charged() {
    let mut states = states(ROOMY);
    let rule = rule(1000, 0, 0);
    assert_eq!((states.probe(b"k", &rule, 1), states.probe(b"k", &rule, 1)), (Ok(0), Ok(0)));
    assert!(states.is_empty());
    assert_eq!(states.charge(b"k", &rule, 1), 0);
    assert_eq!(states.probe(b"k", &rule, 1), Err(RequestRefusal::TooMany { excess_milli: 1000 }));
    // Another request used the burst after the probe; the admitted request is still counted.
    assert_eq!(states.charge(b"k", &rule, 1), 1000);
}

#[test]
fn the_key_that_was_not_seen_for_longest_makes_room() {
    let mut states = states(3 * (REQUEST_STATE_BYTES + 16));
    let rule = rule(1000, 0, 0);
    for key in [b"a", b"b", b"c"] {
        assert_eq!(states.take(key, &rule, 1), Ok(0));
    }
    let refused = Err(RequestRefusal::TooMany { excess_milli: 1000 });
    assert_eq!(states.take(b"a", &rule, 1), refused, "a refusal is a sighting, too");
    assert_eq!(states.take(b"d", &rule, 1), Ok(0));
    assert_eq!((states.len(), states.take(b"b", &rule, 1)), (3, Ok(0)), "b was forgotten");
    assert_eq!(states.take(b"a", &rule, 1), refused);
    assert_eq!(states.take(&[b'x'; 4096], &rule, 1), Err(RequestRefusal::Exhausted));
    assert_eq!(states.probe(&[b'x'; 4096], &rule, 1), Err(RequestRefusal::Exhausted));
}

#[test]
fn stale_buckets_are_dropped_two_at_a_time() {
    let mut states = states(ROOMY);
    let rule = rule(1000, 0, 0);
    for key in [b"a", b"b", b"c", b"d"] {
        assert_eq!(states.take(key, &rule, 0), Ok(0));
    }
    assert_eq!(states.take(b"e", &rule, STALE_AFTER_MS - 1), Ok(0));
    assert_eq!(states.len(), 5);
    assert_eq!(states.take(b"f", &rule, STALE_AFTER_MS), Ok(0));
    assert_eq!(states.len(), 4);
}

#[test]
fn connections_are_counted_while_they_last() {
    let mut states = ConnectionStates::new(2 * (CONNECTION_STATE_BYTES + 16), FxBuildHasher);
    assert_eq!((states.admit(b"a", 2), states.admit(b"a", 2)), (Admission::Admitted, Admission::Admitted));
    assert_eq!((states.admit(b"a", 2), states.count(b"a")), (Admission::TooMany, 2));
    assert_eq!(states.admit(b"b", 2), Admission::Admitted);
    assert_eq!(states.admit(b"c", 2), Admission::Exhausted, "no key with connections is forgotten");
    states.leave(b"b");
    assert_eq!(states.admit(b"c", 2), Admission::Admitted);
    states.leave(b"unknown");
    states.leave(b"a");
    assert_eq!((states.admit(b"a", 2), states.admit(b"a", 2)), (Admission::Admitted, Admission::TooMany));
}

proptest! {
    /// For any arrival times, no second admits more than the burst and what leaks, and the memory is
    /// bounded.
    #[test]
    fn no_more_pass_than_rate_and_burst_allow(
        rate_milli in 1_u64..5_000_000,
        burst in 0_u32..20,
        steps in prop::collection::vec((0_u64..2_000, any::<bool>()), 1..200),
    ) {
        let mut states = states(ROOMY);
        let rule = rule(rate_milli, burst, 0);
        let (mut now, mut passed) = (1_000, 0_u64);
        for (wait, charged) in steps {
            now += wait;
            let verdict = states.probe(b"k", &rule, now);
            let taken = if charged && verdict.is_ok() { Ok(states.charge(b"k", &rule, now)) } else { states.take(b"k", &rule, now) };
            prop_assert_eq!(verdict, taken);
            passed += u64::from(taken.is_ok());
            if let Ok(excess) = taken {
                prop_assert!(excess <= u64::from(burst) * 1000);
            }
            let allowed = u128::from(burst + 1) * 1000 + u128::from(rate_milli) * u128::from(now - 1_000) / 1000;
            prop_assert!(u128::from(passed) * 1000 <= allowed, "{passed} passed within {} ms", now - 1_000);
        }
    }

    /// The bytes are those of the keys that are there, and never more than there are.
    #[test]
    fn states_stay_within_their_bytes(
        bytes_max in 100_u64..3000,
        keys in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..200), 0_u64..100_000), 1..200),
    ) {
        let mut states = states(bytes_max);
        let rule = rule(1000, 1, 0);
        let mut now = 0;
        for (key, wait) in keys {
            now += wait;
            let _ = states.take(&key, &rule, now);
            let bytes: u64 = states.buckets.iter().map(|(key, _)| cost(REQUEST_STATE_BYTES, key)).sum();
            prop_assert_eq!(bytes, states.bytes);
            prop_assert!(bytes <= bytes_max);
        }
    }

    /// Connections come and go in any order: the counters are exact.
    #[test]
    fn counters_are_exact(steps in prop::collection::vec((0_u8..4, any::<bool>()), 1..300)) {
        let mut states = ConnectionStates::new(ROOMY, FxBuildHasher);
        let mut there = [0_u32; 4];
        for (key, comes) in steps {
            let count = &mut there[usize::from(key)];
            if comes {
                let admitted = states.admit(&[key], 3) == Admission::Admitted;
                prop_assert_eq!(admitted, *count < 3);
                *count += u32::from(admitted);
            } else if *count > 0 {
                states.leave(&[key]);
                *count -= 1;
            }
            prop_assert_eq!(states.count(&[key]), *count);
        }
        prop_assert_eq!(states.counters.len(), there.iter().filter(|count| **count > 0).count());
    }
}
