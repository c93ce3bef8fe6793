//! Decides when a certificate is renewed: after two thirds of its lifetime, or at the authority's time (RFC 9773). Time
//! and chance are arguments.

use gateway::acme::BoundOrder;
use instant_acme::{Error, RenewalInfo};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Shortest period for renewal information, even if the authority suggests less. It may have to revoke within a day.
const ASK_PERIOD_MIN: Duration = Duration::from_mins(1);
const ASK_PERIOD_MAX: Duration = Duration::from_hours(24);
/// The period if the authority suggests none, or cannot be reached.
const ASK_PERIOD: Duration = Duration::from_hours(6);

/// Shortest time between two certificates, even if the authority wants the first renewed at once.
const WINDOW_PAUSE: Duration = Duration::from_hours(1);

/// The validity period of a certificate.
pub(crate) fn validity(order: &BoundOrder) -> Option<(SystemTime, SystemTime)> {
    let facts = order.certificate.current()?.facts()?;
    Some((at(facts.not_before), at(facts.not_after)))
}

fn at(unix_s: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(u64::try_from(unix_s).unwrap_or(0))
}

/// When to order: now, if there is no certificate. `chance` is from 0 to 1.
pub(crate) fn due(order: &BoundOrder, chance: f64) -> SystemTime {
    validity(order).map_or(UNIX_EPOCH, |(start, end)| tls::renew_at(start, end, chance))
}

/// When to order if the authority suggests `asked` and two thirds of the lifetime are over at `usual`. Never after the
/// end. An authority with windows in the past must not cause one order after the other, so there is a minimum time
/// after `issued_at`.
pub(crate) fn moderate(asked: SystemTime, usual: SystemTime, issued_at: SystemTime, end: SystemTime) -> SystemTime {
    if asked < usual { asked.max(usual.min(issued_at + WINDOW_PAUSE)) } else { asked.min(end) }
}

/// A date in the format of the logs.
pub(crate) fn date(time: SystemTime) -> String {
    httpdate::fmt_http_date(time)
}

/// The authority's renewal information.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    /// When to ask next.
    ask_at: SystemTime,
    /// The last answer.
    span: Option<(SystemTime, SystemTime)>,
}

impl Default for Window {
    fn default() -> Self {
        Self { ask_at: UNIX_EPOCH, span: None }
    }
}

impl Window {
    pub(crate) fn is_due(&self) -> bool {
        self.ask_at <= SystemTime::now()
    }

    pub(crate) fn next(&self) -> SystemTime {
        self.ask_at
    }

    /// Whether the authority has renewal information at all.
    pub(crate) fn is_known(&self) -> bool {
        self.span.is_some()
    }

    /// The authority could not be reached.
    pub(crate) fn put_off(&mut self) {
        self.ask_at = SystemTime::now() + ASK_PERIOD;
    }

    /// Takes an answer; returns the time of renewal if it is new.
    pub(crate) fn take(&mut self, answer: Result<(RenewalInfo, Duration), Error>, chance: f64) -> Option<SystemTime> {
        self.put_off();
        let (info, again) = answer.ok()?;
        self.ask_at = SystemTime::now() + again.clamp(ASK_PERIOD_MIN, ASK_PERIOD_MAX);
        let span = (SystemTime::from(info.suggested_window.start), SystemTime::from(info.suggested_window.end));
        if self.span.replace(span) == Some(span) {
            return None;
        }
        let width = span.1.duration_since(span.0).unwrap_or_default();
        Some(span.0 + width.mul_f64(chance))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_authority_is_followed_within_bounds() {
        let at = |hours: u64| UNIX_EPOCH + Duration::from_hours(hours);
        assert_eq!(moderate(at(0), at(60), UNIX_EPOCH, at(90)), at(1), "not at once after the last one");
        assert_eq!(moderate(at(40), at(60), UNIX_EPOCH, at(90)), at(40));
        assert_eq!(moderate(at(70), at(60), UNIX_EPOCH, at(90)), at(70));
        assert_eq!(moderate(at(95), at(60), UNIX_EPOCH, at(90)), at(90), "not after its end");
    }
}
