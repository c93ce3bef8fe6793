//! Findings become Events: one for each new finding, one series for a finding that comes back, and a limit for each object.
//! Pure: the time comes in.

use ingress::{Finding, Level, ObjectName};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

/// Events of one object before the limit; then one each [`REFILL`]. client-go's numbers.
const BURST: f64 = 25.0;
const REFILL: Duration = Duration::from_mins(5);
/// A finding that comes back within this time is one more of its series, not another Event.
const SERIES: Duration = Duration::from_mins(6);
/// Most series that are remembered, about 1 MB. Beyond it, the oldest are forgotten.
const SERIES_MAX: usize = 4096;

/// What to do about a finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Emit {
    /// Write a new Event, with this name.
    New(Finding),
    /// The Event of this name has happened so often.
    Again { event: String, object: ObjectName, count: u32 },
}

struct Series {
    event: Option<String>,
    count: u32,
    last: Instant,
}

/// Tokens of one object.
struct Bucket {
    tokens: f64,
    filled: Instant,
}

/// Remembers which Events were written.
#[derive(Default)]
pub(crate) struct EventBook {
    /// The findings of the last generation: they are not new.
    present: BTreeSet<Finding>,
    series: BTreeMap<Finding, Series>,
    buckets: HashMap<ObjectName, Bucket>,
}

impl EventBook {
    /// The Events for the findings of a generation.
    pub(crate) fn sort(&mut self, findings: &[Finding], now: Instant) -> Vec<Emit> {
        let all: BTreeSet<Finding> = findings.iter().cloned().collect();
        let new: Vec<Finding> = all.difference(&self.present).cloned().collect();
        self.present = all;
        let mut emitted = Vec::new();
        for finding in new {
            if !self.take_token(&finding.object, now) {
                continue;
            }
            match self.series.get_mut(&finding).filter(|series| now < series.last + SERIES) {
                Some(Series { event: Some(event), count, last }) => {
                    (*count, *last) = (count.saturating_add(1), now);
                    emitted.push(Emit::Again { event: event.clone(), object: finding.object.clone(), count: *count });
                }
                _ => emitted.push(Emit::New(finding)),
            }
        }
        emitted
    }

    /// An Event was written.
    pub(crate) fn wrote(&mut self, finding: &Finding, event: String, now: Instant) {
        if self.series.len() >= SERIES_MAX {
            self.series.retain(|_, series| now < series.last + SERIES);
            if self.series.len() >= SERIES_MAX {
                self.series.clear();
            }
        }
        self.series.insert(finding.clone(), Series { event: Some(event), count: 1, last: now });
    }

    /// An Event could not be written: the finding is new once more.
    pub(crate) fn forget(&mut self, finding: &Finding) {
        self.present.remove(finding);
    }

    fn take_token(&mut self, object: &ObjectName, now: Instant) -> bool {
        if self.buckets.len() >= SERIES_MAX {
            self.buckets.retain(|_, bucket| bucket.at(now) < BURST);
            if self.buckets.len() >= SERIES_MAX {
                return false;
            }
        }
        let bucket = self.buckets.entry(object.clone()).or_insert(Bucket { tokens: BURST, filled: now });
        bucket.tokens = bucket.at(now);
        bucket.filled = now;
        let has_one = bucket.tokens >= 1.0;
        bucket.tokens -= if has_one { 1.0 } else { 0.0 };
        has_one
    }
}

impl Bucket {
    fn at(&self, now: Instant) -> f64 {
        let refilled = now.saturating_duration_since(self.filled).as_secs_f64() / REFILL.as_secs_f64();
        (self.tokens + refilled).min(BURST)
    }
}

/// The type of an Event.
pub(crate) fn event_type(level: Level) -> &'static str {
    if level == Level::Note { "Normal" } else { "Warning" }
}

/// What was done when an Event happened.
pub(crate) fn event_action(reason: &str) -> &'static str {
    if reason.starts_with("Certificate") { "OrderCertificate" } else { "Translate" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ingress::{Kind, Name};

    fn finding(message: &str) -> Finding {
        let object = ObjectName { kind: Kind::Ingress, name: Name::new("shop", "front") };
        Finding { object, level: Level::Refused, reason: "Invalid", message: message.to_owned() }
    }

    #[test]
    fn lasting_finding_is_reported_once() {
        let (mut book, now) = (EventBook::default(), Instant::now());
        assert_eq!(book.sort(&[finding("a")], now), [Emit::New(finding("a"))]);
        assert!(book.sort(&[finding("a")], now).is_empty());
        assert_eq!(book.sort(&[finding("a"), finding("b")], now), [Emit::New(finding("b"))]);
    }

    #[test]
    fn a_finding_that_comes_back_is_a_series() {
        let (mut book, start) = (EventBook::default(), Instant::now());
        book.sort(&[finding("a")], start);
        book.wrote(&finding("a"), "front.1".into(), start);
        book.sort(&[], start);
        let again = book.sort(&[finding("a")], start + Duration::from_secs(5));
        assert_eq!(again, [Emit::Again { event: "front.1".into(), object: finding("a").object, count: 2 }]);
        book.sort(&[], start);
        assert_eq!(book.sort(&[finding("a")], start + SERIES + REFILL), [Emit::New(finding("a"))]);
    }

    #[test]
    fn an_object_that_changes_all_the_time_has_few_events() {
        let (mut book, start) = (EventBook::default(), Instant::now());
        let emitted: usize = (0..100).map(|number| book.sort(&[finding(&number.to_string())], start).len()).sum();
        assert_eq!(emitted, 25);
        assert_eq!(book.sort(&[finding("later")], start + REFILL).len(), 1);
    }
}
