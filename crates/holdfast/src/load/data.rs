//! The results of a run as data: what `--json` writes and `compare` reads. Latencies are nanoseconds; histograms are complete,
//! as pairs of value and count, so that files can be merged and compared without loss.

use super::files::Reports;
use super::sockets::Sockets;
use super::sockets::account::Look;
use super::{http, page};
use load::{Cause, Health, Latencies, Need, Pace, Row, Sparse, Summary, Verdict};
use report::Document;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use watch::model::tally::Histogram;

/// Everything that is known after a run.
#[derive(Debug)]
pub(crate) struct Results<'a> {
    pub(super) summary: &'a Summary,
    pub(super) health: &'a Health,
    pub(super) verdicts: &'a [Verdict],
    pub(super) rows: &'a [Row],
    /// What the kernel said of the sockets; none if it was not asked.
    pub(super) sockets: Option<&'a Sockets>,
}

/// Version of the form; a reader refuses others.
pub(super) const FORMAT: u32 = 1;

/// A file of results.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct File {
    pub(super) format: u32,
    pub(super) holdfast: String,
    /// `open` or `closed`.
    pub(super) r#loop: String,
    pub(super) connections: usize,
    pub(super) threads: usize,
    #[serde(default = "one")]
    pub(super) processes: usize,
    /// The limit that would bind first, as it was known before the start.
    #[serde(default)]
    pub(super) first_limit: Option<Limit>,
    pub(super) elapsed_s: f64,
    pub(super) stopped: bool,
    pub(super) requests: u64,
    pub(super) responses: u64,
    pub(super) errors: u64,
    pub(super) failed: u64,
    pub(super) reused: u64,
    pub(super) rate: f64,
    pub(super) bytes_received: u64,
    pub(super) bytes_sent: u64,
    pub(super) connections_opened: u64,
    pub(super) connections_established: u64,
    pub(super) closed_by_target: u64,
    pub(super) closed_by_load: u64,
    pub(super) cut_off: u64,
    pub(super) waiting_max: u64,
    pub(super) generator_cpu_s: f64,
    pub(super) generator_busy_share: f64,
    /// Share of the time that the thread which waited most waited for a processor; none where the kernel does not tell.
    #[serde(default)]
    pub(super) generator_waited_share: Option<f64>,
    /// Share of the processors' time that the host took away.
    #[serde(default)]
    pub(super) host_stolen_share: Option<f64>,
    pub(super) statuses: BTreeMap<u16, u64>,
    pub(super) failures: BTreeMap<String, u64>,
    /// Open loop: from the intended time. Closed loop: raw.
    pub(super) latency: Latency,
    /// Closed loop only: corrected for what was not sent meanwhile.
    pub(super) latency_corrected: Option<Latency>,
    /// Open loop only: from sending.
    pub(super) service: Option<Latency>,
    pub(super) connect: Latency,
    pub(super) lag: Latency,
    /// The part of the lag in which the generator itself ran.
    #[serde(default)]
    pub(super) lag_own: Option<Latency>,
    /// How long the turns of its loops took.
    #[serde(default)]
    pub(super) turn: Option<Latency>,
    pub(super) targets: Vec<TargetFigures>,
    pub(super) intervals: Vec<IntervalFigures>,
    /// What the kernel said of the sockets towards the targets.
    #[serde(default)]
    pub(super) sockets: Option<SocketFigures>,
    pub(super) void: Vec<String>,
    pub(super) notes: Vec<String>,
    pub(super) verdicts: Vec<VerdictFigures>,
}

/// Files that were written before there could be several.
fn one() -> usize {
    1
}

/// A limit of the system beside what the load needs of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Limit {
    pub(super) what: String,
    pub(super) needed: u64,
    pub(super) available: u64,
}

impl From<&Need> for Limit {
    fn from(need: &Need) -> Self {
        Self { what: need.what.to_owned(), needed: need.needed, available: need.available }
    }
}

/// A distribution of latencies, in nanoseconds.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Latency {
    pub(super) count: u64,
    pub(super) min_ns: u64,
    pub(super) mean_ns: f64,
    pub(super) deviation_ns: f64,
    pub(super) max_ns: u64,
    pub(super) quantiles_ns: BTreeMap<String, u64>,
    pub(super) histogram: Sparse,
}

/// One URL.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct TargetFigures {
    pub(super) method: String,
    pub(super) url: String,
    pub(super) address: String,
    pub(super) weight: u32,
    pub(super) requests: u64,
    pub(super) responses: u64,
    pub(super) errors: u64,
    pub(super) statuses: BTreeMap<u16, u64>,
    pub(super) latency: Latency,
}

/// One row over time.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct IntervalFigures {
    pub(super) begun_s: f64,
    pub(super) length_s: f64,
    pub(super) requests: u64,
    pub(super) responses: u64,
    pub(super) errors: u64,
    pub(super) opened: u64,
    pub(super) latency: Sparse,
}

/// Sockets towards the targets, as the kernel told of them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct SocketFigures {
    /// How the kernel was asked.
    pub(super) source: String,
    /// Looks while the load went on.
    pub(super) looks: u64,
    /// Most processor time that a look took.
    pub(super) look_s_max: f64,
    /// Of each state the most at one time.
    pub(super) most: BTreeMap<String, u64>,
    /// When all was over.
    pub(super) end: Option<LookFigures>,
    /// Most at one time whose target did not read, and with bytes that the load had not read.
    pub(super) window_zero_most: u64,
    pub(super) unread_most: u64,
    pub(super) over_time: Vec<LookFigures>,
    pub(super) notes: Vec<String>,
}

/// One look. Closes and segments are counted from the start of the run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct LookFigures {
    pub(super) at_s: f64,
    pub(super) states: BTreeMap<String, u64>,
    pub(super) window_zero: u64,
    pub(super) unread: u64,
    pub(super) no_answer: u64,
    pub(super) sent_again: u64,
    pub(super) closed_first_by_target: u64,
    pub(super) closed_first_by_load: u64,
    pub(super) closed_first_by_unknown: u64,
}

impl From<&Look> for LookFigures {
    fn from(look: &Look) -> Self {
        Self {
            at_s: look.at.as_secs_f64(),
            states: by_state(&look.states),
            window_zero: look.window_zero,
            unread: look.unread,
            no_answer: look.no_answer,
            sent_again: look.sent_again,
            closed_first_by_target: look.closes.peer,
            closed_first_by_load: look.closes.this_side,
            closed_first_by_unknown: look.closes.unknown,
        }
    }
}

impl From<&Sockets> for SocketFigures {
    fn from(sockets: &Sockets) -> Self {
        let looks = &sockets.looks;
        let (window_zero_most, unread_most) = looks.most_stuck();
        Self {
            source: sockets.source.clone(),
            looks: looks.count(),
            look_s_max: sockets.took_max.as_secs_f64(),
            most: by_state(looks.most()),
            end: looks.after().map(LookFigures::from),
            window_zero_most,
            unread_most,
            over_time: looks.kept().iter().map(LookFigures::from).collect(),
            notes: sockets.notes.clone(),
        }
    }
}

fn by_state(states: &Histogram) -> BTreeMap<String, u64> {
    states.present().map(|(state, count)| (state.name().to_owned(), count)).collect()
}

/// One threshold.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct VerdictFigures {
    pub(super) expected: String,
    pub(super) measured: String,
    pub(super) met: bool,
}

/// Quantiles that are written out.
pub(super) const QUANTILES: [(&str, f64); 8] = [
    ("p50", 0.5),
    ("p60", 0.6),
    ("p75", 0.75),
    ("p90", 0.9),
    ("p95", 0.95),
    ("p99", 0.99),
    ("p99.9", 0.999),
    ("p99.99", 0.9999),
];

impl From<&Latencies> for Latency {
    fn from(latencies: &Latencies) -> Self {
        let quantiles = QUANTILES.map(|(name, quantile)| (name.to_owned(), latencies.quantile_ns(quantile)));
        Self {
            count: latencies.count(),
            min_ns: latencies.min_ns(),
            mean_ns: latencies.mean_ns(),
            deviation_ns: latencies.deviation_ns(),
            max_ns: latencies.max_ns(),
            quantiles_ns: quantiles.into_iter().collect(),
            histogram: Sparse::from(latencies),
        }
    }
}

impl Reports for Results<'_> {
    fn json(&self) -> String {
        let mut text =
            serde_json::to_string(&self.file()).expect("maps with text keys, numbers and strings are always JSON");
        text.push('\n');
        text
    }

    fn csv(&self) -> String {
        http::csv(self.rows, self.sockets.map(|sockets| &sockets.looks))
    }

    fn page(&self) -> Document {
        page::document(self)
    }

    fn spectrum(&self) -> Latencies {
        self.summary.record.whole().latency
    }
}

impl Results<'_> {
    fn file(&self) -> File {
        let summary = self.summary;
        let (record, whole) = (&summary.record, summary.record.whole());
        let open = matches!(summary.options.pace, Pace::Open { .. });
        let failures = Cause::ALL.iter().filter(|cause| whole.failed_by(**cause) > 0);
        File {
            format: FORMAT,
            holdfast: env!("CARGO_PKG_VERSION").to_owned(),
            r#loop: if open { "open" } else { "closed" }.to_owned(),
            connections: summary.options.connections,
            threads: summary.threads,
            processes: summary.processes,
            first_limit: summary.plan.scarcest().map(Limit::from),
            elapsed_s: summary.elapsed.as_secs_f64(),
            stopped: summary.stopped,
            requests: whole.begun,
            responses: whole.responses,
            errors: whole.errors(),
            failed: whole.failed(),
            reused: whole.reused,
            rate: summary.rate(),
            bytes_received: whole.bytes_received,
            bytes_sent: whole.bytes_sent,
            connections_opened: record.opened,
            connections_established: record.established,
            closed_by_target: record.closed_by_target,
            closed_by_load: record.closed_by_load,
            cut_off: record.cut_off,
            waiting_max: record.waiting_max,
            generator_cpu_s: record.spent.cpu_ns as f64 / 1e9,
            generator_busy_share: self.health.busy_share,
            generator_waited_share: self.health.machine.waited_share,
            host_stolen_share: self.health.machine.stolen_share,
            statuses: whole.statuses.iter().copied().collect(),
            failures: failures.map(|cause| (cause.key().to_owned(), whole.failed_by(*cause))).collect(),
            latency: Latency::from(&whole.latency),
            latency_corrected: (!open).then(|| Latency::from(&summary.corrected())),
            service: open.then(|| Latency::from(&record.service)),
            connect: Latency::from(&record.connect),
            lag: Latency::from(&record.lag),
            lag_own: Some(Latency::from(&record.lag_own)),
            turn: Some(Latency::from(&record.turn)),
            targets: self.targets(),
            intervals: self.rows.iter().map(interval).collect(),
            sockets: self.sockets.map(SocketFigures::from),
            void: self.health.void.clone(),
            notes: self.health.notes.clone(),
            verdicts: self.verdicts.iter().map(verdict).collect(),
        }
    }

    fn targets(&self) -> Vec<TargetFigures> {
        let summary = self.summary;
        let tallies = summary.options.targets.iter().zip(&summary.addresses).zip(&summary.record.targets);
        let figures = tallies.map(|((target, address), tally)| TargetFigures {
            method: target.method.clone(),
            url: target.url.to_string(),
            address: address.to_string(),
            weight: target.weight,
            requests: tally.begun,
            responses: tally.responses,
            errors: tally.errors(),
            statuses: tally.statuses.iter().copied().collect(),
            latency: Latency::from(&tally.latency),
        });
        figures.collect()
    }
}

fn interval(row: &Row) -> IntervalFigures {
    IntervalFigures {
        begun_s: row.begun.as_secs_f64(),
        length_s: row.length.as_secs_f64(),
        requests: row.begun_requests,
        responses: row.responses,
        errors: row.errors,
        opened: row.opened,
        latency: row.latency.clone(),
    }
}

fn verdict(verdict: &Verdict) -> VerdictFigures {
    VerdictFigures { expected: verdict.expected.clone(), measured: verdict.measured.clone(), met: verdict.met }
}
