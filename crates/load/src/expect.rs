//! The figures of an HTTP run that a threshold can use, such as `p99<50ms` or `errors<0.1%`. `threshold` parses and judges.
//! Pure.

use crate::cause::Cause;
use crate::health::{Health, Late};
use crate::summary::Summary;
use crate::tally::Tally;
use crate::threshold::{
    Bound, Compared, Counting, LoadFigure, Measured, Point, Threshold, millis, parse_point, per_second,
};

/// The grammar, for help texts.
pub const EXPECTATIONS: &str = "\
p50 p99 p99.9 … min mean max    latency, as in p99<50ms (us, ms, s, m)
service_p99 … lag_p99 …         from sending; how late the generator itself was
own_lag_p99 …                   of that, what its own work was the cause of, and not this machine
connect_p99 …                   opening a connection
rate responses                  rate>1000 per second; a number
errors failed reused            errors<0.1% or errors<10: failures and statuses from 400; failures; kept connections
2xx 3xx 4xx 5xx 200 404 …       responses by status, as a number or a share
refused silent keepalive_race … failures by cause, as a number or a share
checks                          failed checks of a scenario, as a number or a share
STEP:p99 STEP:errors …          the figures of a step of a scenario, as in login:p99<200ms";

/// A threshold on a run over HTTP.
///
/// ```
/// use load::Expectation;
///
/// assert!("p99<50ms".parse::<Expectation>().is_ok());
/// let unmeant = "p99<50".parse::<Expectation>().unwrap_err();
/// assert_eq!(unmeant.to_string(), "`50` is no bound for `p99`: a time with its unit: us, ms, s or m");
/// ```
pub type Expectation = Threshold<HttpFigure>;

/// The figure that is compared.
#[derive(Debug, Clone, PartialEq)]
pub enum HttpFigure {
    Latency(Times, Point),
    Rate,
    Count(Counted),
    /// A figure of one step of a scenario.
    OfStep(String, Box<HttpFigure>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Times {
    Latency,
    Service,
    Lag,
    OwnLag,
    Connect,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    Responses,
    Errors,
    Failed,
    Reused,
    Statuses(u16, u16),
    Cause(Cause),
    /// Failed checks.
    Checks,
}

impl LoadFigure for HttpFigure {
    type Summary = Summary;
}

impl Compared for HttpFigure {
    const CAUSED_BY_LATENESS: &'static str = "the generator was late, and that may have caused these failures";

    fn parse(name: &str) -> Option<Self> {
        parse_figure(name)
    }

    fn bound(&self) -> Bound {
        match self {
            Self::Latency(..) => Bound::Time,
            Self::Rate => Bound::Rate,
            Self::Count(_) => Bound::Count,
            Self::OfStep(_, figure) => figure.bound(),
        }
    }

    fn measure(&self, in_words: &Counting<'_>, summary: &Summary, health: &Health) -> Measured {
        let record = &summary.record;
        let whole = record.whole();
        let late = health.late.is_some();
        // A run without any finished request has no figures.
        let known = |value: f64| (whole.ended() > 0).then_some(value);
        match self {
            Self::Rate => {
                let rate = summary.rate();
                // Without the lag, the run would have been shorter by at most the largest lag.
                let lag_s = record.generator.lag.max_ns() as f64 / 1e9;
                let shorter_s = (summary.elapsed.as_secs_f64() - lag_s).max(f64::MIN_POSITIVE);
                let other = late.then(|| whole.responses as f64 / shorter_s);
                Measured { value: known(rate), words: per_second(rate), other }
            }
            Self::Latency(series, point) => {
                let (latencies, has_lag) = match series {
                    Times::Service if summary.options.pace.is_open() => (&record.service, false),
                    // In a closed loop both are the same.
                    Times::Latency | Times::Service => (&whole.latency, true),
                    Times::Lag => (&record.generator.lag, false),
                    Times::OwnLag => (&record.generator.lag_own, false),
                    Times::Connect => (&record.connect, false),
                };
                let ns = point.of(latencies);
                let without = Late { lag: &record.generator.lag, service: Some(&record.service) };
                let other = (late && has_lag).then(|| without.least_ns(latencies, *point));
                Measured { value: known(ns), words: millis(ns), other }
            }
            Self::Count(counted) => {
                let (count, of) = counted.of(&whole);
                let caused = if late { counted.caused_by_lateness(&whole) } else { 0 };
                let other = (caused > 0).then(|| in_words(count.saturating_sub(caused), of).0);
                let (value, words) = in_words(count, of);
                Measured { value: known(value), words, other }
            }
            Self::OfStep(step, figure) => figure.measure_step(step, in_words, summary, late),
        }
    }

    fn limited_by_generator(&self, summary: &Summary, health: &Health) -> Option<String> {
        let is_limited = match self {
            Self::OfStep(_, figure) => return figure.limited_by_generator(summary, health),
            Self::Latency(Times::Lag | Times::OwnLag, _) | Self::Count(_) => false,
            Self::Latency(..) | Self::Rate => true,
        };
        let is_saturated = health.saturated && !summary.options.pace.is_open();
        (is_limited && is_saturated).then(|| {
            let busy = health.busy_share * 100.0;
            format!("the generator's busiest thread ran {busy:.0} % of the time, so the limit may be its own")
        })
    }
}

impl Threshold<HttpFigure> {
    /// The step of a scenario that the threshold names.
    pub fn step(&self) -> Option<&str> {
        match self.figure() {
            HttpFigure::OfStep(step, _) => Some(step),
            _ => None,
        }
    }
}

impl HttpFigure {
    /// The figure of a step. A late generator delays every step alike, so the lag of all requests bounds its part.
    fn measure_step(&self, step: &str, in_words: &Counting<'_>, summary: &Summary, late: bool) -> Measured {
        let place = summary.options.scenario.as_ref().and_then(|scenario| scenario.step(step));
        let tally = place.and_then(|place| summary.record.targets.get(place)).filter(|tally| tally.ended() > 0);
        let nothing = || Measured { value: None, words: "the step was not done".to_owned(), other: None };
        let Some(tally) = tally else { return nothing() };
        match self {
            Self::Latency(_, point) => {
                let ns = point.of(&tally.latency);
                let without = Late { lag: &summary.record.generator.lag, service: None };
                let other = late.then(|| without.least_ns(&tally.latency, *point));
                Measured { value: Some(ns), words: millis(ns), other }
            }
            Self::Rate => {
                let rate = tally.responses as f64 / summary.elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
                Measured { value: Some(rate), words: per_second(rate), other: None }
            }
            Self::Count(counted) => {
                let (count, of) = counted.of(tally);
                let caused = if late { counted.caused_by_lateness(tally) } else { 0 };
                let other = (caused > 0).then(|| in_words(count.saturating_sub(caused), of).0);
                let (value, words) = in_words(count, of);
                Measured { value: Some(value), words, other }
            }
            Self::OfStep(..) => nothing(),
        }
    }
}

impl Counted {
    /// The count, and the total it is a part of.
    fn of(self, whole: &Tally) -> (u64, u64) {
        match self {
            Self::Responses => (whole.responses, whole.begun),
            Self::Errors => (whole.errors(), whole.ended()),
            Self::Failed => (whole.failed(), whole.ended()),
            Self::Reused => (whole.reused, whole.responses),
            Self::Statuses(from, to) => (whole.with_status(from..=to), whole.responses),
            Self::Cause(cause) => (whole.failed_by(cause), whole.ended()),
            Self::Checks => whole.checks_failed(),
        }
    }

    /// The part of the count that a generator that was not scheduled can cause: its own timeouts and those of the target
    /// expire meanwhile.
    fn caused_by_lateness(self, whole: &Tally) -> u64 {
        let by_lateness = |cause: &&Cause| match self {
            Self::Errors | Self::Failed => cause.may_come_of_lateness(),
            Self::Cause(counted) => counted == **cause && cause.may_come_of_lateness(),
            Self::Responses | Self::Reused | Self::Statuses(..) | Self::Checks => false,
        };
        Cause::ALL.iter().filter(by_lateness).map(|cause| whole.failed_by(*cause)).sum()
    }
}

fn parse_figure(name: &str) -> Option<HttpFigure> {
    if let Some((step, name)) = name.rsplit_once(':') {
        let figure = parse_figure(name.trim())?;
        let is_of_steps =
            matches!(figure, HttpFigure::Latency(Times::Latency, _) | HttpFigure::Rate | HttpFigure::Count(_));
        return is_of_steps.then(|| HttpFigure::OfStep(step.trim().to_owned(), Box::new(figure)));
    }
    let counted = match name {
        "rate" => return Some(HttpFigure::Rate),
        "responses" => Some(Counted::Responses),
        "errors" => Some(Counted::Errors),
        "failed" => Some(Counted::Failed),
        "reused" => Some(Counted::Reused),
        "checks" => Some(Counted::Checks),
        _ => parse_statuses(name).or_else(|| {
            let cause = Cause::ALL.iter().find(|cause| cause.key() == name)?;
            Some(Counted::Cause(*cause))
        }),
    };
    if let Some(counted) = counted {
        return Some(HttpFigure::Count(counted));
    }
    let prefixes =
        [("service_", Times::Service), ("own_lag_", Times::OwnLag), ("lag_", Times::Lag), ("connect_", Times::Connect)];
    let found = prefixes.iter().find_map(|(prefix, series)| Some((*series, name.strip_prefix(prefix)?)));
    let (series, point) = found.unwrap_or((Times::Latency, name));
    Some(HttpFigure::Latency(series, parse_point(point)?))
}

/// `404` or `5xx`.
fn parse_statuses(name: &str) -> Option<Counted> {
    if name.len() != 3 {
        return None;
    }
    if let Some(class) = name.strip_suffix("xx") {
        let class: u16 = class.parse().ok().filter(|class| (1..=9).contains(class))?;
        return Some(Counted::Statuses(class * 100, class * 100 + 99));
    }
    let status = name.parse().ok().filter(|status| (100..=999).contains(status))?;
    Some(Counted::Statuses(status, status))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HttpRecord, Options, Target};
    use std::time::Duration;

    /// 1000 responses within 1 to 1000 ms in 10 s, 900 of them on reused connections and 5 with status 503; and 10 timeouts
    /// of 2 s.
    fn summary() -> Summary {
        let mut record = HttpRecord::new(1);
        let tally = &mut record.targets[0];
        tally.begun = 1010;
        for ms in 1..=1000u64 {
            tally.response(if ms % 200 == 0 { 503 } else { 200 }, 1, ms * 1_000_000);
        }
        tally.reused = 900;
        (0..10).for_each(|_| tally.failure(Cause::Silent, 2_000_000_000));
        let options = Options::new(Target::new("http://127.0.0.1/".parse().unwrap()));
        let elapsed = Duration::from_secs(10);
        Summary { record, elapsed, ..Summary::of_nothing(options) }
    }

    fn met(text: &str) -> bool {
        text.parse::<Expectation>().unwrap().judge(&summary(), &summary().health()).met
    }

    #[test]
    fn bounds_are_compared() {
        for text in [
            "p50<510ms",
            "p50>=0.49s",
            "p99.9>1999ms",
            "max>=2s",
            "rate=100",
            "rate>99/s",
            "errors<2%",
            "errors=15",
            "failed<=10",
            "reused>=90%",
            "5xx<1%",
            "503=5",
            "404=0",
            "silent>0",
            "refused=0",
            "lag_p99<1ms",
            "own_lag_p99.9<=100us",
        ] {
            assert!(
                met(text),
                "{text}: {:?}",
                text.parse::<Expectation>().unwrap().judge(&summary(), &summary().health())
            );
        }
        for text in
            ["p50<490ms", "max<2s", "rate>100", "errors<1%", "reused>99%", "5xx=0", "silent<1", "service_p50<1us"]
        {
            assert!(!met(text), "{text}");
        }
    }

    #[test]
    fn verdict_quotes_the_measured_value() {
        let verdict = "errors<1%".parse::<Expectation>().unwrap().judge(&summary(), &summary().health());
        assert_eq!((verdict.measured.as_str(), verdict.met), ("15 of 1010 (1.485 %)", false));
    }

    #[test]
    fn of_nothing_nothing_is_met() {
        let none = Summary { record: HttpRecord::new(1), ..summary() };
        assert!(!"errors<1%".parse::<Expectation>().unwrap().judge(&none, &none.health()).met);
    }

    #[test]
    fn mistakes_are_named() {
        let error = |text: &str| text.parse::<Expectation>().unwrap_err().to_string();
        assert_eq!(error("p99"), "`p99` has none of < <= > >= =");
        assert!(error("p999<1ms").starts_with("`p999` is no figure"));
        assert_eq!(error("p99<50"), "`50` is no bound for `p99`: a time with its unit: us, ms, s or m");
        assert!(error("errors<x%").contains("a share such as"));
        assert!(error("rate>fast").contains("requests per second"));
    }
}
