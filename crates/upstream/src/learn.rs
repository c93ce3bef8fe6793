//! Learns a peer's own keepalive limits (P10, `keepalive_learn`): from `Keep-Alive: timeout=`, from how long
//! connections had been idle when the peer's FIN came, and from how many requests they had served. A pure value; the
//! pool keeps one for each peer, and queries it only after a new observation.

use crate::Millis;

/// Closes remembered for a peer: enough for two patterns at the same time (a timer and a number of requests), few
/// enough that a new pattern is known after a few closes.
const ENDS_MAX: usize = 8;

/// A FIN this soon after the last response came from no timer: the peer closed because of what it had just done. No
/// server that wants its connections reused waits less.
const IDLE_MIN_MS: u64 = 50;

/// Closes this close to each other are one event: a peer that restarts closes all its connections, and their ages say
/// nothing about a timer.
const BURST_MS: u64 = 50;

/// Closes after a similar idle time that make a pattern.
const IDLE_ENDS: usize = 2;

/// Closes after the same number of requests that make a pattern. One more than for times, since small numbers coincide
/// by chance.
const REQUEST_ENDS: usize = 3;

/// How long a learned pattern is used without a new observation. Meanwhile connections retire before the peer would
/// close them, so there are no new observations, and a longer timeout of the peer would otherwise go unnoticed.
const BELIEVED_MS: u64 = 10 * 60 * 1000;

/// The learned limits of a peer's connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Learned {
    /// Longest idle time in milliseconds: less than the peer's timeout.
    pub idle_ms: Option<u64>,
    /// Most requests per connection.
    pub requests: Option<u32>,
    /// When this must be evaluated again.
    pub until: Option<Millis>,
}

/// A close by the peer.
#[derive(Debug, Clone, Copy)]
struct End {
    at: Millis,
    idle_ms: u64,
    requests: u32,
}

/// The observations of one peer.
#[derive(Debug, Clone, Default)]
pub struct Learner {
    ends: Vec<End>,
    announced_ms: Option<u64>,
}

impl Learner {
    /// Records that the peer closed a connection that had been idle for `idle_ms` after `requests` requests.
    pub fn end(&mut self, now: Millis, idle_ms: u64, requests: u32) {
        if let Some(last) = self.ends.last_mut()
            && idle_ms >= IDLE_MIN_MS
            && last.idle_ms >= IDLE_MIN_MS
            && now.since(last.at) < BURST_MS
        {
            last.idle_ms = last.idle_ms.min(idle_ms);
            return;
        }
        if self.ends.len() == ENDS_MAX {
            self.ends.remove(0);
        }
        self.ends.push(End { at: now, idle_ms, requests });
    }

    /// Records the timeout that the peer announced.
    pub fn announced(&mut self, timeout_ms: u64) {
        self.announced_ms = Some(timeout_ms);
    }

    /// The limits that follow from the observations.
    pub fn learned(&self, now: Millis) -> Learned {
        let recent = || self.ends.iter().filter(|end| now.since(end.at) < BELIEVED_MS);
        let timed = || recent().filter(|end| end.idle_ms >= IDLE_MIN_MS);
        let is_habit = |shortest: &&End| {
            let similar = shortest.idle_ms..=shortest.idle_ms + margin_ms(shortest.idle_ms) * 2;
            timed().filter(|end| similar.contains(&end.idle_ms)).count() >= IDLE_ENDS
        };
        let observed = timed().filter(is_habit).min_by_key(|end| end.idle_ms);
        let at_once = || recent().filter(|end| end.idle_ms < IDLE_MIN_MS);
        let is_count = |first: &&End| at_once().filter(|end| end.requests == first.requests).count() >= REQUEST_ENDS;
        let counted = at_once().filter(is_count).min_by_key(|end| end.requests);
        let waits_ms = match (observed.map(|end| end.idle_ms), self.announced_ms) {
            (Some(observed), Some(announced)) => Some(observed.min(announced)),
            (one, other) => one.or(other),
        };
        let from_ends = observed.is_some() || counted.is_some();
        Learned {
            idle_ms: waits_ms.map(|waits_ms| waits_ms - margin_ms(waits_ms)),
            requests: counted.map(|end| end.requests),
            until: recent().map(|end| end.at.plus(BELIEVED_MS)).min().filter(|_| from_ends),
        }
    }
}

/// How much earlier than the peer a connection is retired: an eighth, for timers that tick in steps and for a request's
/// travel time; at most two seconds, which is more than either.
fn margin_ms(waits_ms: u64) -> u64 {
    (waits_ms / 8).clamp(20, 2000).min(waits_ms)
}

/// The `timeout` of a `Keep-Alive` field, in milliseconds: `timeout=5, max=100`. The field was never standardised; this is
/// what servers send (RFC 2068 section 19.7.1.1 has its grammar).
pub fn parse_keep_alive(value: &[u8]) -> Option<u64> {
    value.split(|&byte| byte == b',').find_map(|parameter| {
        let (name, number) = parameter.trim_ascii().split_at_checked(b"timeout=".len())?;
        if !name.eq_ignore_ascii_case(b"timeout=") {
            return None;
        }
        let seconds: u32 = std::str::from_utf8(number).ok()?.trim_matches('"').parse().ok()?;
        Some(u64::from(seconds) * 1000)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn after(ends: &[(u64, u64, u32)]) -> Learned {
        let mut learner = Learner::default();
        for &(at, idle_ms, requests) in ends {
            learner.end(Millis(at), idle_ms, requests);
        }
        learner.learned(Millis(ends.last().map_or(0, |end| end.0)))
    }

    #[test]
    fn p10_two_ends_at_a_similar_age_are_a_timer() {
        assert_eq!(after(&[(5000, 5000, 3)]).idle_ms, None, "one may be anything");
        assert_eq!(after(&[(5000, 5010, 3), (15_000, 5003, 9)]).idle_ms, Some(5003 - 625));
        assert_eq!(after(&[(5000, 300, 3), (15_000, 5003, 9)]).idle_ms, None, "they have nothing in common");
        assert_eq!(after(&[(1000, 300, 3), (2000, 310, 9), (9000, 900, 1)]).idle_ms, Some(300 - 37));
    }

    #[test]
    fn a_peer_that_restarts_has_no_timer() {
        assert_eq!(after(&[(9000, 5000, 3), (9010, 5010, 2), (9020, 5020, 9)]).idle_ms, None);
    }

    #[test]
    fn three_equal_request_counts_reveal_a_limit() {
        assert_eq!(after(&[(1, 0, 100), (2, 1, 100)]).requests, None);
        let learned = after(&[(1, 0, 100), (2, 1, 100), (3, 0, 7), (4, 0, 100)]);
        assert_eq!((learned.requests, learned.idle_ms), (Some(100), None));
    }

    #[test]
    fn an_announced_limit_holds_at_once_and_is_not_forgotten() {
        let mut learner = Learner::default();
        learner.announced(5000);
        let learned = learner.learned(Millis(u64::MAX));
        assert_eq!((learned.idle_ms, learned.until), (Some(4375), None));
        learner.end(Millis(1000), 900, 1);
        learner.end(Millis(3000), 900, 1);
        assert_eq!(
            learner.learned(Millis(3000)).idle_ms,
            Some(900 - 112),
            "what it does counts more than what it says"
        );
    }

    #[test]
    fn forgets_conclusions_from_old_closes() {
        let mut learner = Learner::default();
        learner.end(Millis(0), 900, 1);
        learner.end(Millis(3000), 900, 1);
        let until = learner.learned(Millis(3000)).until.unwrap();
        assert_eq!(until, Millis(BELIEVED_MS));
        assert_eq!(learner.learned(until), Learned::default());
    }

    #[test]
    fn the_field_as_servers_send_it() {
        assert_eq!(parse_keep_alive(b"timeout=5, max=100"), Some(5000));
        assert_eq!(parse_keep_alive(b"max=100,Timeout=15"), Some(15_000));
        for nonsense in [&b""[..], b"timeout", b"timeout=", b"timeout=x", b"timeout=-1", b"timeout=99999999999", b"5"] {
            assert_eq!(parse_keep_alive(nonsense), None, "{}", nonsense.escape_ascii());
        }
    }

    proptest! {
        #[test]
        fn a_limit_is_below_everything_that_makes_it(
            ends in prop::collection::vec((0u64..5000, 0u64..100_000, 1u32..50), 0..40),
            announced in prop::option::of(0u64..100_000),
        ) {
            let mut learner = Learner::default();
            let mut now = 0;
            for (later, idle_ms, requests) in &ends {
                now += later;
                learner.end(Millis(now), *idle_ms, *requests);
            }
            if let Some(announced) = announced {
                learner.announced(announced);
            }
            let learned = learner.learned(Millis(now));
            prop_assert!(learner.ends.len() <= ENDS_MAX);
            if let (Some(idle_ms), Some(announced)) = (learned.idle_ms, announced) {
                prop_assert!(idle_ms < announced.max(1));
            }
            if let Some(idle_ms) = learned.idle_ms {
                let seen = ends.iter().map(|end| end.1).filter(|age| *age >= IDLE_MIN_MS).chain(announced);
                prop_assert!(seen.clone().min().is_some_and(|least| idle_ms >= least - margin_ms(least)));
                prop_assert!(seen.max().is_some_and(|most| idle_ms <= most - margin_ms(most)));
            }
            if let Some(requests) = learned.requests {
                prop_assert!(ends.iter().filter(|end| end.2 == requests).count() >= REQUEST_ENDS);
            }
        }

        #[test]
        fn learns_the_idle_limit_of_a_peer_despite_jitter(
            timer_ms in 100u64..120_000,
            jitter in prop::collection::vec(0u64..10, 4),
        ) {
            let mut learner = Learner::default();
            let mut now = 0;
            for jitter in jitter {
                now += timer_ms + 1000;
                learner.end(Millis(now), timer_ms + jitter, 1);
            }
            let idle_ms = learner.learned(Millis(now)).idle_ms;
            prop_assert!(idle_ms.is_some_and(|idle_ms| idle_ms < timer_ms && idle_ms >= timer_ms / 4 * 3));
        }

        #[test]
        fn no_field_makes_it_panic(value in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = parse_keep_alive(&value);
        }
    }
}
