//! What a run leaves in files: JSON, a table of intervals, a percentile spectrum, metrics while it runs. A file that cannot be
//! written is said and does not take the summary away.

use super::data::Results;
use super::sockets::account::{Look, Looks};
use super::{page, units};
use crate::report as terminal;
use load::{Cause, Interval, Latencies, Record, Row};
use sockdiag::State;
use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// The spectrum is in milliseconds, as its tools expect.
const NS_PER_MS: f64 = 1e6;

/// Where to.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct Files {
    /// Write all figures as JSON; - is the standard output, in place of the report
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    /// Write a line of figures per interval
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write the latencies as a percentile spectrum, as the tools of `HdrHistogram` read it
    #[arg(long, value_name = "FILE")]
    hgrm: Option<PathBuf>,
    /// Write one self-contained HTML page with charts
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write metrics in Prometheus' text format during the run, for the textfile collector
    #[arg(long, value_name = "FILE")]
    pub(super) prometheus: Option<PathBuf>,
    /// Serve the same at /metrics during the run
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(super) listen: Option<SocketAddr>,
}

impl Files {
    /// Whether the report's place on the standard output is taken.
    pub(super) fn json_on_stdout(&self) -> bool {
        self.json.as_deref() == Some(Path::new("-"))
    }

    /// Whether a form other than JSON is asked for.
    pub(super) fn is_more_than_json(&self) -> bool {
        self.listen.is_some() || [&self.csv, &self.hgrm, &self.html, &self.prometheus].into_iter().any(Option::is_some)
    }

    /// Writes JSON where it is asked for; whether that went well.
    pub(super) fn write_json(&self, text: &str) -> bool {
        let Some(path) = &self.json else { return true };
        if self.json_on_stdout() {
            terminal::print(text.as_bytes());
            return true;
        }
        fs::write(path, text)
            .inspect_err(|error| terminal::say(&format!("holdfast load: {}: {error}", path.display())))
            .is_ok()
    }

    /// Creates the files, so that a wrong path is known before the load and not after it.
    pub(super) fn check(&self) -> Result<(), String> {
        let json = self.json.as_ref().filter(|_| !self.json_on_stdout());
        for path in [json, self.csv.as_ref(), self.hgrm.as_ref(), self.html.as_ref(), self.prometheus.as_ref()]
            .into_iter()
            .flatten()
        {
            let opened = fs::File::options().create(true).append(true).open(path);
            opened.map_err(|error| format!("{}: {error}", path.display()))?;
        }
        Ok(())
    }

    /// Writes the metrics after an interval.
    pub(super) fn during(&self, page: &str) -> Result<(), String> {
        let Some(path) = &self.prometheus else { return Ok(()) };
        // The collector must never read half a file; but a device, a pipe or a link keeps its place.
        let is_file = fs::symlink_metadata(path).is_ok_and(|found| found.is_file());
        let written = if is_file {
            let mut beside = path.clone().into_os_string();
            beside.push(".part");
            fs::write(&beside, page).and_then(|()| fs::rename(&beside, path))
        } else {
            fs::write(path, page)
        };
        written.map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Writes the rest; whether all went well.
    pub(super) fn after(&self, results: &Results<'_>) -> bool {
        let mut ok = true;
        let mut write = |path: &Option<PathBuf>, text: &dyn Fn() -> String| {
            let Some(path) = path else { return };
            if path == Path::new("-") {
                return terminal::print(text().as_bytes());
            }
            if let Err(error) = fs::write(path, text()) {
                terminal::say(&format!("holdfast load: {}: {error}", path.display()));
                ok = false;
            }
        };
        write(&self.json, &|| results.json());
        write(&self.html, &|| report::html::render(&page::document(results)));
        write(&self.csv, &|| csv(results.rows, results.sockets.map(|sockets| &sockets.looks)));
        write(&self.hgrm, &|| results.summary.record.whole().latency.histogram().encode_hgrm(NS_PER_MS));
        ok
    }
}

/// One line per interval: times in seconds, latencies in milliseconds.
fn csv(rows: &[Row], looks: Option<&Looks>) -> String {
    let mut text = "begun_s,length_s,requests,responses,errors,rate,bytes_received,connections_opened,waiting_max,\
                    p50_ms,p90_ms,p99_ms,p999_ms,max_ms,generator_cpu_s"
        .to_owned();
    text.push_str(if looks.is_some() { SOCKET_COLUMNS } else { "\n" });
    for row in rows {
        let ms = |quantile: f64| row.latency.quantile(quantile) as f64 / 1e6;
        let _ = writeln!(
            text,
            "{:.3},{:.3},{},{},{},{:.1},{},{},{},{:.4},{:.4},{:.4},{:.4},{:.4},{:.3}{}",
            row.begun.as_secs_f64(),
            row.length.as_secs_f64(),
            row.begun_requests,
            row.responses,
            row.errors,
            row.rate(),
            row.bytes_received,
            row.opened,
            row.waiting_max,
            ms(0.5),
            ms(0.9),
            ms(0.99),
            ms(0.999),
            ms(1.0),
            row.cpu_ns as f64 / 1e9,
            looks.map_or_else(String::new, |looks| socket_cells(looks.at(row.begun + row.length))),
        );
    }
    text
}

/// What `socket_cells` writes: the last look in the interval. Closes and segments are counted from the start of the run.
const SOCKET_COLUMNS: &str = ",syn_sent,established,fin_wait,close_wait,last_ack,closing,time_wait,closed_first_by_target,\
                              closed_first_by_load,segments_sent_again,window_zero,unread\n";

fn socket_cells(look: Option<&Look>) -> String {
    // Before the first look nothing is known.
    let Some(look) = look else { return ",".repeat(SOCKET_COLUMNS.matches(',').count()) };
    let of = |state| look.states.of(state);
    let cells = [
        of(State::SynSent),
        of(State::Established),
        of(State::FinWait1) + of(State::FinWait2),
        of(State::CloseWait),
        of(State::LastAck),
        of(State::Closing),
        of(State::TimeWait),
        look.closes.peer,
        look.closes.this_side,
        look.sent_again,
        look.window_zero,
        look.unread,
    ];
    cells.iter().fold(String::new(), |text, cell| text + "," + &cell.to_string())
}

/// Prometheus' text format, version 0.0.4: counters over the run so far, latencies of the last interval.
pub(super) fn metrics(interval: &Interval, whole: &Record, look: Option<&Look>) -> String {
    let (now, all) = (interval.record.whole(), whole.whole());
    let mut text = String::new();
    let mut metric = |name: &str, kind: &str, help: &str, samples: &[(String, f64)]| {
        let _ = writeln!(text, "# HELP holdfast_load_{name} {help}\n# TYPE holdfast_load_{name} {kind}");
        for (labels, value) in samples {
            let _ = writeln!(text, "holdfast_load_{name}{labels} {value}");
        }
    };
    let one = |value: u64| vec![(String::new(), value as f64)];
    metric("requests_total", "counter", "Requests begun.", &one(all.begun));
    let statuses = all.statuses.iter().map(|(status, count)| (format!("{{status=\"{status}\"}}"), *count as f64));
    metric("responses_total", "counter", "Complete responses.", &statuses.collect::<Vec<_>>());
    let failures = Cause::ALL.iter().filter(|cause| all.failed_by(**cause) > 0);
    let failures = failures.map(|cause| (format!("{{cause=\"{}\"}}", cause.key()), all.failed_by(*cause) as f64));
    metric("failures_total", "counter", "Requests without a complete response.", &failures.collect::<Vec<_>>());
    metric("received_bytes_total", "counter", "Bytes received.", &one(all.bytes_received));
    metric("sent_bytes_total", "counter", "Bytes sent.", &one(all.bytes_sent));
    metric("connections_opened_total", "counter", "Connections opened.", &one(whole.opened));
    let quantiles = |latencies: &Latencies| -> Vec<(String, f64)> {
        let points = [0.5, 0.9, 0.99, 0.999];
        points.map(|q| (format!("{{quantile=\"{q}\"}}"), latencies.quantile_ns(q) as f64 / 1e9)).to_vec()
    };
    metric("latency_seconds", "gauge", "Latencies of the last interval.", &quantiles(&now.latency));
    metric(
        "lag_seconds",
        "gauge",
        "How late the generator was in the last interval.",
        &quantiles(&interval.record.lag),
    );
    let Some(look) = look else { return text };
    let states = look.states.present().map(|(state, count)| (format!("{{state=\"{state}\"}}"), count as f64));
    metric("sockets", "gauge", "Sockets towards the targets by TCP state.", &states.collect::<Vec<_>>());
    let closes = [("target", look.closes.peer), ("load", look.closes.this_side), ("unknown", look.closes.unknown)];
    let closes = closes.map(|(side, count)| (format!("{{by=\"{side}\"}}"), count as f64));
    metric("closed_first_total", "counter", "Connections by who closed first.", &closes);
    metric("segments_sent_again_total", "counter", "Segments sent again towards the targets.", &one(look.sent_again));
    metric("sockets_window_zero", "gauge", "Sockets whose target does not read.", &one(look.window_zero));
    metric("sockets_unread", "gauge", "Sockets with bytes that the load has not read.", &one(look.unread));
    text
}

/// What stands in a progress line.
pub(super) fn progress(interval: &Interval) -> String {
    let length_s = interval.length.as_secs_f64().max(f64::MIN_POSITIVE);
    let whole = interval.record.whole();
    let mut line = format!(
        "{:>7.1} s  {:>9} responses/s  p50 {:>8}  p99 {:>8}  max {:>8}  errors {}",
        interval.begun.as_secs_f64() + length_s,
        units::grouped((whole.responses as f64 / length_s) as u64),
        units::time(whole.latency.quantile_ns(0.5) as f64),
        units::time(whole.latency.quantile_ns(0.99) as f64),
        units::time(whole.latency.max_ns() as f64),
        whole.errors(),
    );
    if interval.record.waiting_max > 0 {
        let _ = write!(line, "  in line {}", interval.record.waiting_max);
    }
    line
}
