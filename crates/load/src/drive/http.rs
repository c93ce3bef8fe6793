//! Drives a load over HTTP: its start, and what is shown while it runs.

use super::live::{Cell, GeneratorFigures, Picture};
use super::metrics::Page;
use super::protocol::Load;
use crate::results::units::time;
use crate::run::PreparedLoad;
use crate::{Cause, HttpLoad, HttpRecord, Interval, Limits, Options, Pace, Row, Schedule, StartError, Tally};
use report::prometheus::Kind;
use report::text::grouped;
use std::fmt::Write as _;
use std::time::Duration;

impl Load for Options {
    type Kind = HttpLoad;
    type Row = Row;

    const FIRST: &'static str = "request";

    fn interval(&self) -> Duration {
        self.interval
    }

    fn connections(&self) -> u64 {
        self.sockets() as u64
    }

    fn head(&self) -> String {
        let pace = if self.pace.is_open() { "open loop" } else { "closed loop" };
        if let Some(scenario) = &self.scenario {
            let (name, users) = (&scenario.name, grouped(self.connections as u64));
            return format!("scenario {name}, {} steps  {pace}, {users} users", self.targets.len());
        }
        let target =
            self.targets.first().map_or_else(String::new, |target| format!("{} {}", target.method, target.url));
        let more = match self.targets.len() {
            0 | 1 => String::new(),
            targets => format!(" and {} more", targets - 1),
        };
        let connections = grouped(self.connections as u64);
        if self.is_http2() {
            return format!(
                "{target}{more}  {pace}, {connections} connections, HTTP/2, {} streams on each",
                self.streams
            );
        }
        format!("{target}{more}  {pace}, {connections} connections")
    }

    fn prepare(self, limits: &Limits) -> Result<PreparedLoad<HttpLoad>, StartError> {
        crate::prepare_within(self, limits)
    }

    fn add(whole: &mut HttpRecord, interval: &Interval) {
        whole.add(&interval.record);
    }

    fn established(record: &HttpRecord) -> u64 {
        record.established
    }

    fn progress(interval: &Interval) -> String {
        let length_s = interval.seconds();
        let whole = interval.record.together();
        let mut line = format!(
            "{:>7.1} s  {:>9} responses/s  p50 {:>8}  p99 {:>8}  max {:>8}  errors {}",
            interval.begun.as_secs_f64() + length_s,
            grouped((whole.responses as f64 / length_s) as u64),
            time(whole.latency.quantile_ns(0.5) as f64),
            time(whole.latency.quantile_ns(0.99) as f64),
            time(whole.latency.max_ns() as f64),
            whole.errors(),
        );
        if interval.record.waiting_max > 0 {
            let _ = write!(line, "  in line {}", interval.record.waiting_max);
        }
        line
    }

    fn metrics(interval: &Interval, whole: &HttpRecord, page: &mut Page) {
        let (now, all) = (interval.record.together(), whole.together());
        page.one("requests_total", Kind::Counter, "Requests begun.", all.begun);
        let statuses = all.statuses.iter().map(|(status, count)| (status.to_string(), *count));
        page.by("responses_total", "Complete responses.", "status", statuses);
        let failures = Cause::ALL.iter().map(|cause| (cause.key(), all.failed_by(*cause)));
        page.by("failures_total", "Requests without a complete response.", "cause", failures);
        page.one("received_bytes_total", Kind::Counter, "Bytes received.", all.bytes_received);
        page.one("sent_bytes_total", Kind::Counter, "Bytes sent.", all.bytes_sent);
        page.one("connections_opened_total", Kind::Counter, "Connections opened.", whole.opened);
        page.times("latency_seconds", "Latencies; quantiles of the last interval.", &now.latency, &all.latency);
    }

    fn picture(&self, interval: &Interval, whole: &HttpRecord, threads: usize) -> Picture {
        let (now, all) = (interval.record.together(), whole.together());
        let (seconds, elapsed) = (interval.seconds(), interval.ended());
        let rate = |count: u64| (count as f64 / seconds) as u64;
        let mean = (all.responses as f64 / elapsed.as_secs_f64().max(f64::MIN_POSITIVE)) as u64;
        let mut cells = vec![
            Cell::heading(""),
            Cell::of("responses/s", rate(now.responses), grouped(rate(now.responses)), grouped(mean)),
            Cell::of("errors/s", rate(now.errors()), grouped(rate(now.errors())), grouped(all.errors())),
        ];
        let waiting = interval.record.waiting_max;
        if waiting > 0 {
            cells.push(Cell::still("in line", grouped(waiting)));
        }
        cells.push(Cell::heading("latency"));
        cells.extend(super::live::quantiles(&now.latency, &all.latency));
        Picture {
            progress: progress(self, elapsed, all.begun),
            cells,
            failures: failures(&all),
            generator: GeneratorFigures::new(interval, whole, threads),
        }
    }
}

/// The progress of the run in words.
fn progress(options: &Options, elapsed: Duration, begun: u64) -> String {
    let duration = match &options.pace {
        Pace::Closed { .. } => options.duration,
        // An open loop with a number of requests has no planned end.
        Pace::Open { .. } if options.requests.is_some() => None,
        Pace::Open { stages, .. } => Some(Schedule::new(stages.clone()).duration()),
    };
    let of_time = duration.map(|duration| format!(" of {:.1} s", duration.as_secs_f64()));
    // With a scenario that is a number of iterations.
    let of_requests =
        options.requests.filter(|_| options.scenario.is_none()).map(|requests| format!(" of {}", grouped(requests)));
    format!(
        "{:.1} s{}, {}{} requests",
        elapsed.as_secs_f64(),
        of_time.unwrap_or_default(),
        grouped(begun),
        of_requests.unwrap_or_default()
    )
}

/// All failures by cause.
fn failures(whole: &Tally) -> Vec<(u64, &'static str)> {
    Cause::ALL.iter().map(|cause| (whole.failed_by(*cause), cause.text())).collect()
}
