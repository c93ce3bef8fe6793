//! The rules of leader election by a Lease, as client-go has them. Pure: the time comes in, and only the own clock counts. A
//! lease is over if it did not change for its duration, whatever times are written in it, so clocks that differ do no harm.

use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// How long a lease holds without a change. client-go's number, as the two below.
pub(crate) const LEASE_DURATION: Duration = Duration::from_secs(15);
/// A leader that could not renew its lease for this long stops leading, before another one begins.
const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// The time between two tries.
pub(crate) const RETRY_PERIOD: Duration = Duration::from_secs(2);

/// `spec` of a Lease.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct LeaseSpec {
    pub(crate) holder_identity: Option<String>,
    pub(crate) lease_duration_seconds: Option<u64>,
    pub(crate) acquire_time: Option<String>,
    pub(crate) renew_time: Option<String>,
    pub(crate) lease_transitions: Option<u64>,
}

/// What to do now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// There is no Lease.
    Create(LeaseSpec),
    /// Write this.
    Write(LeaseSpec),
    /// Another one leads.
    Wait,
}

/// The view of one replica.
#[derive(Debug)]
pub(crate) struct Elector {
    identity: String,
    /// The Lease as it was seen last, and when it last changed.
    seen: Option<(LeaseSpec, Instant)>,
    /// When this replica wrote the lease last.
    renewed: Option<Instant>,
}

impl Elector {
    pub(crate) fn new(identity: &str) -> Self {
        Self { identity: identity.to_owned(), seen: None, renewed: None }
    }

    /// Decides after the Lease was read. `time` is the date for people.
    pub(crate) fn step(&mut self, lease: Option<LeaseSpec>, now: Instant, time: &str) -> Step {
        let Some(lease) = lease else {
            self.seen = None;
            return Step::Create(self.record(None, time));
        };
        if self.seen.as_ref().is_none_or(|(seen, _)| *seen != lease) {
            self.seen = Some((lease.clone(), now));
        }
        let holder = lease.holder_identity.as_deref().unwrap_or_default();
        if holder == self.identity || holder.is_empty() {
            return Step::Write(self.record(Some(&lease), time));
        }
        self.renewed = None;
        let holds = lease.lease_duration_seconds.map_or(LEASE_DURATION, Duration::from_secs);
        let changed = self.seen.as_ref().map_or(now, |(_, changed)| *changed);
        if now < changed + holds { Step::Wait } else { Step::Write(self.record(Some(&lease), time)) }
    }

    /// The lease was written by this replica.
    pub(crate) fn wrote(&mut self, lease: LeaseSpec, now: Instant) {
        self.seen = Some((lease, now));
        self.renewed = Some(now);
    }

    /// Whether this replica leads.
    pub(crate) fn leads(&self, now: Instant) -> bool {
        self.renewed.is_some_and(|renewed| now < renewed + RENEW_DEADLINE)
    }

    /// The lease to write at the end, so that another one leads at once.
    pub(crate) fn release(&self, now: Instant, time: &str) -> Option<LeaseSpec> {
        let (lease, _) = self.seen.as_ref().filter(|_| self.leads(now))?;
        let released =
            LeaseSpec { holder_identity: Some(String::new()), lease_duration_seconds: Some(1), ..lease.clone() };
        Some(LeaseSpec { renew_time: Some(time.to_owned()), ..released })
    }

    fn record(&self, before: Option<&LeaseSpec>, time: &str) -> LeaseSpec {
        let is_own = before.is_some_and(|lease| lease.holder_identity.as_deref() == Some(self.identity.as_str()));
        let transitions = before.and_then(|lease| lease.lease_transitions).unwrap_or(0);
        let acquired = before.filter(|_| is_own).and_then(|lease| lease.acquire_time.clone());
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: Some(LEASE_DURATION.as_secs()),
            acquire_time: Some(acquired.unwrap_or_else(|| time.to_owned())),
            renew_time: Some(time.to_owned()),
            lease_transitions: Some(if is_own || before.is_none() {
                transitions
            } else {
                transitions.saturating_add(1)
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(step: &Step) -> Option<&str> {
        match step {
            Step::Create(lease) | Step::Write(lease) => lease.holder_identity.as_deref(),
            Step::Wait => None,
        }
    }

    fn after(seconds: u64, start: Instant) -> Instant {
        start + Duration::from_secs(seconds)
    }

    #[test]
    fn the_first_one_leads_and_the_other_waits() {
        let (mut a, mut b, start) = (Elector::new("a"), Elector::new("b"), Instant::now());
        let Step::Create(lease) = a.step(None, start, "t0") else { panic!("there was none") };
        a.wrote(lease.clone(), start);
        assert!(a.leads(start) && !a.leads(after(10, start)));
        assert_eq!(b.step(Some(lease.clone()), start, "t0"), Step::Wait);
        assert_eq!(b.step(Some(lease), after(14, start), "t14"), Step::Wait);
        assert!(!b.leads(after(14, start)));
    }

    #[test]
    fn stale_lease_is_taken_over_by_the_local_clock() {
        let (mut b, start) = (Elector::new("b"), Instant::now());
        // Its times are those of a clock that is a century ahead.
        let lease = LeaseSpec {
            holder_identity: Some("a".into()),
            lease_duration_seconds: Some(15),
            renew_time: Some("2126".into()),
            lease_transitions: Some(3),
            ..LeaseSpec::default()
        };
        assert_eq!(b.step(Some(lease.clone()), start, "t"), Step::Wait);
        let renewed = LeaseSpec { renew_time: Some("2127".into()), ..lease };
        assert_eq!(b.step(Some(renewed.clone()), after(14, start), "t"), Step::Wait);
        assert_eq!(b.step(Some(renewed.clone()), after(28, start), "t"), Step::Wait, "it was renewed 14 s ago");
        let step = b.step(Some(renewed), after(29, start), "t29");
        assert_eq!(holder(&step), Some("b"));
        let Step::Write(lease) = step else { panic!("{step:?}") };
        assert_eq!((lease.lease_transitions, lease.acquire_time.as_deref()), (Some(4), Some("t29")));
    }

    #[test]
    fn a_leader_that_lost_its_lease_does_not_lead() {
        let (mut a, start) = (Elector::new("a"), Instant::now());
        let Step::Create(lease) = a.step(None, start, "t") else { panic!("there was none") };
        a.wrote(lease.clone(), start);
        let theirs = LeaseSpec { holder_identity: Some("b".into()), ..lease };
        assert_eq!(a.step(Some(theirs), after(1, start), "t"), Step::Wait);
        assert!(!a.leads(after(1, start)) && a.release(after(1, start), "t").is_none());
    }

    #[test]
    fn a_released_lease_is_taken_at_once() {
        let (mut a, mut b, start) = (Elector::new("a"), Elector::new("b"), Instant::now());
        let Step::Create(lease) = a.step(None, start, "t") else { panic!("there was none") };
        a.wrote(lease, start);
        let released = a.release(after(1, start), "t1").expect("it leads");
        assert_eq!(holder(&b.step(Some(released), after(1, start), "t1")), Some("b"));
    }
}
