//! Policy of active health checks: when a peer is checked next, and how results change its state. The control plane
//! makes the checks, and the gateway evaluates the answers. A [`Checkup`] is driven by arguments: `now`, results and
//! random numbers; the gateway's schedule has one for each peer.
//!
//! A peer is [`Checked::Healthy`] until `fails` checks in a row have failed, and [`Checked::Unhealthy`] until `passes`
//! checks in a row have passed. One that must pass before it is used ([`Checked::Pending`]) is decided by its first check.

use crate::Millis;
use crate::balance::Checked;

/// The first check comes within this time, so that a peer that is down when the configuration is loaded is detected
/// within a second, and not all peers of a large configuration are checked at once.
const FIRST_WITHIN_MS: u64 = 1000;

/// The part of `health_check` that decides when to check, and what the results mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckPolicy {
    /// From the end of a check to the next one, in milliseconds, above 0.
    pub interval_ms: u64,
    /// Each check is put off by a random part of this, in milliseconds.
    pub jitter_ms: u64,
    /// Failed checks in a row that make a peer unhealthy, at least 1.
    pub fails: u32,
    /// Passed checks in a row that make it healthy again, at least 1.
    pub passes: u32,
}

/// What a check came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckVerdict {
    /// The peer is well.
    Passed,
    /// It is not.
    Failed,
    /// The check could not be made, by no fault of the peer: the result is unknown.
    NotMade,
}

/// The checks of one peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkup {
    state: Checked,
    /// Since when.
    since: Millis,
    /// Results in a row that are alike, and which.
    run: u32,
    run_passed: bool,
    /// When it is asked next; `None` while it is asked.
    due: Option<Millis>,
    /// Checks that were begun, up to 2.
    begun: u8,
}

impl Checkup {
    /// For a peer that has not been asked yet. Who must pass first is asked at once.
    pub fn new(state: Checked, policy: &CheckPolicy, random: u64, now: Millis) -> Self {
        let delay_ms = match state {
            Checked::Pending => 0,
            Checked::Healthy | Checked::Unhealthy => part_of(FIRST_WITHIN_MS.min(policy.interval_ms), random),
        };
        Self { state, since: now, run: 0, run_passed: true, due: Some(now.plus(delay_ms)), begun: 0 }
    }

    /// What is known of the peer.
    pub fn state(&self) -> Checked {
        self.state
    }

    /// Since when that is so.
    pub fn since(&self) -> Millis {
        self.since
    }

    /// How many of the last checks came to the same result, and whether they passed.
    pub fn run(&self) -> (u32, bool) {
        (self.run, self.run_passed)
    }

    /// When to ask next; `None` while a check is under way.
    pub fn due(&self) -> Option<Millis> {
        self.due
    }

    /// A check has begun; [`Self::settle`] ends it.
    pub fn begin(&mut self) {
        self.due = None;
        self.begun = self.begun.saturating_add(1).min(2);
    }

    /// What the check came to. The new state, where it changed.
    pub fn settle(
        &mut self,
        verdict: CheckVerdict,
        policy: &CheckPolicy,
        (random, jitter): (u64, u64),
        now: Millis,
    ) -> Option<Checked> {
        // After its first check a peer waits for a random part of the interval: those of one reload, which began within
        // a second, are spread over the whole interval from then on.
        let half_ms = policy.interval_ms / 2;
        let interval_ms =
            if self.begun == 1 { half_ms + part_of(policy.interval_ms - half_ms, random) } else { policy.interval_ms };
        self.due = Some(now.plus(interval_ms.saturating_add(part_of(policy.jitter_ms, jitter))));
        let passed = match verdict {
            CheckVerdict::Passed => true,
            CheckVerdict::Failed => false,
            CheckVerdict::NotMade => return None,
        };
        self.run = if self.run_passed == passed { self.run.saturating_add(1) } else { 1 };
        self.run_passed = passed;
        let state = match (self.state, passed) {
            (Checked::Pending, true) => Checked::Healthy,
            (Checked::Pending, false) => Checked::Unhealthy,
            (Checked::Healthy, false) if self.run >= policy.fails => Checked::Unhealthy,
            (Checked::Unhealthy, true) if self.run >= policy.passes => Checked::Healthy,
            _ => return None,
        };
        self.state = state;
        self.since = now;
        Some(state)
    }

    /// Switches to another policy: shortens a wait that is longer than the new policy permits.
    pub fn follow(&mut self, policy: &CheckPolicy, now: Millis) {
        let latest = now.plus(policy.interval_ms.saturating_add(policy.jitter_ms));
        self.due = self.due.map(|due| due.min(latest));
    }
}

/// A random part of `whole`, from 0 to all of it.
fn part_of(whole: u64, random: u64) -> u64 {
    // The upper half of the product: below `whole + 1` for every random number.
    ((u128::from(random) * (u128::from(whole) + 1)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const POLICY: CheckPolicy = CheckPolicy { interval_ms: 5000, jitter_ms: 0, fails: 3, passes: 2 };

    /// Settles checks one after the other; the changes of state with the number of the check.
    fn changes(checkup: &mut Checkup, policy: &CheckPolicy, verdicts: &str) -> Vec<(usize, Checked)> {
        let mut changes = Vec::new();
        for (place, verdict) in verdicts.chars().enumerate() {
            let now = checkup.due().unwrap();
            checkup.begin();
            let verdict = match verdict {
                '+' => CheckVerdict::Passed,
                '-' => CheckVerdict::Failed,
                _ => CheckVerdict::NotMade,
            };
            changes.extend(checkup.settle(verdict, policy, (0, 0), now).map(|state| (place, state)));
        }
        changes
    }

    #[test]
    fn consecutive_fails_remove_and_consecutive_passes_restore() {
        let mut checkup = Checkup::new(Checked::Healthy, &POLICY, 0, Millis(0));
        let found = changes(&mut checkup, &POLICY, "--+---+-++--");
        assert_eq!(found, [(5, Checked::Unhealthy), (9, Checked::Healthy)]);
        assert_eq!(checkup.run(), (2, false));
    }

    #[test]
    fn a_check_that_cannot_be_made_changes_no_state() {
        let mut checkup = Checkup::new(Checked::Healthy, &POLICY, 0, Millis(0));
        assert_eq!(changes(&mut checkup, &POLICY, "-?-??-"), [(5, Checked::Unhealthy)]);
        let mut pending = Checkup::new(Checked::Pending, &POLICY, 0, Millis(0));
        assert_eq!(changes(&mut pending, &POLICY, "??+"), [(2, Checked::Healthy)]);
    }

    #[test]
    fn mandatory_peer_is_checked_at_once_before_serving() {
        let pending = Checkup::new(Checked::Pending, &POLICY, u64::MAX, Millis(7));
        assert_eq!(pending.due(), Some(Millis(7)));
        assert_eq!(changes(&mut pending.clone(), &POLICY, "+"), [(0, Checked::Healthy)]);
        assert_eq!(changes(&mut pending.clone(), &POLICY, "-++"), [(0, Checked::Unhealthy), (2, Checked::Healthy)]);
    }

    #[test]
    fn checks_of_one_moment_are_spread_over_the_interval() {
        let first = |random| Checkup::new(Checked::Healthy, &POLICY, random, Millis(0));
        assert_eq!((first(0).due(), first(u64::MAX).due()), (Some(Millis(0)), Some(Millis(1000))));
        let second = |random| {
            let mut checkup = first(0);
            checkup.begin();
            assert_eq!(checkup.due(), None);
            checkup.settle(CheckVerdict::Passed, &POLICY, (random, 0), Millis(0));
            checkup.due().unwrap().0
        };
        assert_eq!((second(0), second(u64::MAX)), (2500, 5000));
    }

    #[test]
    fn a_shorter_interval_holds_at_once() {
        let mut checkup = Checkup::new(Checked::Healthy, &POLICY, 0, Millis(0));
        changes(&mut checkup, &POLICY, "++");
        let shorter = CheckPolicy { interval_ms: 100, ..POLICY };
        checkup.follow(&shorter, Millis(3000));
        assert_eq!(checkup.due(), Some(Millis(3100)));
        checkup.follow(&POLICY, Millis(3000));
        assert_eq!(checkup.due(), Some(Millis(3100)));
    }

    fn verdict() -> impl Strategy<Value = CheckVerdict> {
        prop_oneof![Just(CheckVerdict::Passed), Just(CheckVerdict::Failed), Just(CheckVerdict::NotMade)]
    }

    proptest! {
        /// Against the definition, looked up in the whole history after each check.
        #[test]
        fn the_state_follows_the_last_results(
            verdicts in prop::collection::vec(verdict(), 0..60),
            fails in 1_u32..5,
            passes in 1_u32..5,
            pending: bool,
        ) {
            let policy = CheckPolicy { fails, passes, ..POLICY };
            let begin = if pending { Checked::Pending } else { Checked::Healthy };
            let mut checkup = Checkup::new(begin, &policy, 0, Millis(0));
            let mut expected = begin;
            let mut history: Vec<bool> = Vec::new();
            for (place, verdict) in verdicts.into_iter().enumerate() {
                let now = Millis(place as u64);
                checkup.begin();
                let said = checkup.settle(verdict, &policy, (place as u64, 0), now);
                history.extend((verdict != CheckVerdict::NotMade).then_some(verdict == CheckVerdict::Passed));
                let ends_with = |passed: bool, count: u32| {
                    history.len() >= count as usize && history.iter().rev().take(count as usize).all(|one| *one == passed)
                };
                let before = expected;
                expected = match expected {
                    Checked::Pending if history.is_empty() => Checked::Pending,
                    Checked::Pending => if ends_with(true, 1) { Checked::Healthy } else { Checked::Unhealthy },
                    Checked::Healthy => if ends_with(false, fails) { Checked::Unhealthy } else { Checked::Healthy },
                    Checked::Unhealthy => if ends_with(true, passes) { Checked::Healthy } else { Checked::Unhealthy },
                };
                prop_assert_eq!(checkup.state(), expected);
                prop_assert_eq!(said, (before != expected).then_some(expected));
                if before != expected {
                    prop_assert_eq!(checkup.since(), now);
                }
            }
        }

        /// For every random number, the next check comes neither earlier nor later than the policy permits.
        #[test]
        fn next_check_falls_within_the_jittered_interval(
            interval_ms in 1_u64..100_000,
            jitter_ms in 0_u64..100_000,
            chances in prop::collection::vec((any::<u64>(), any::<u64>()), 1..10),
        ) {
            let policy = CheckPolicy { interval_ms, jitter_ms, ..POLICY };
            let mut checkup = Checkup::new(Checked::Healthy, &policy, chances[0].0, Millis(0));
            prop_assert!(checkup.due().unwrap().0 <= FIRST_WITHIN_MS.min(interval_ms));
            for (place, chance) in chances.into_iter().enumerate() {
                let now = checkup.due().unwrap();
                checkup.begin();
                prop_assert_eq!(checkup.due(), None);
                checkup.settle(CheckVerdict::Passed, &policy, chance, now);
                let waits = checkup.due().unwrap().since(now);
                let least = if place == 0 { interval_ms / 2 } else { interval_ms };
                prop_assert!((least..=interval_ms + jitter_ms).contains(&waits), "{waits}");
            }
        }
    }
}
