//! The results of a run as data: `--json` writes them and `compare` reads them. Latencies are in nanoseconds. Histograms
//! are complete, as pairs of value and count, so files can be merged and compared without loss.

use super::HttpResults;
use super::scenario::ScenarioFigures;
use super::streams::StreamFigures;
use crate::remote::AgentFigures;
use crate::results::figures::{FORMAT, Latency, Limit, SocketFigures};
use crate::results::tls::HandshakeFigures;
use crate::{Cause, Pace, Row, Sparse, Verdict};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A file of results.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct HttpResultsFile {
    pub(crate) format: u32,
    pub(crate) holdfast: String,
    /// `open` or `closed`.
    pub(crate) r#loop: String,
    /// The protocol: `HTTP/1.0`, `HTTP/1.1`, `HTTP/2` or `TCP`.
    #[serde(default = "http11")]
    pub(crate) version: String,
    pub(crate) connections: usize,
    /// Streams on each connection; 1 over HTTP/1.
    #[serde(default = "one")]
    pub(crate) streams: usize,
    pub(crate) threads: usize,
    #[serde(default = "one")]
    pub(crate) processes: usize,
    /// The limit that the load would reach first, as computed before the start.
    #[serde(default)]
    pub(crate) first_limit: Option<Limit>,
    pub(crate) elapsed_s: f64,
    /// Time before it that no figure contains.
    #[serde(default)]
    pub(crate) warm_up_s: f64,
    pub(crate) stopped: bool,
    pub(crate) requests: u64,
    pub(crate) responses: u64,
    pub(crate) errors: u64,
    pub(crate) failed: u64,
    pub(crate) reused: u64,
    pub(crate) rate: f64,
    pub(crate) bytes_received: u64,
    pub(crate) bytes_sent: u64,
    pub(crate) connections_opened: u64,
    pub(crate) connections_established: u64,
    pub(crate) closed_by_target: u64,
    pub(crate) closed_by_load: u64,
    pub(crate) cut_off: u64,
    pub(crate) waiting_max: u64,
    pub(crate) generator_cpu_s: f64,
    pub(crate) generator_busy_share: f64,
    /// Share of the time that the thread that waited most waited for a processor; `None` if the kernel does not report it.
    #[serde(default)]
    pub(crate) generator_waited_share: Option<f64>,
    /// Share of the processors' time that the host took away.
    #[serde(default)]
    pub(crate) host_stolen_share: Option<f64>,
    pub(crate) statuses: BTreeMap<u16, u64>,
    pub(crate) failures: BTreeMap<String, u64>,
    /// Open loop: from the time a request was due. Closed loop: uncorrected.
    pub(crate) latency: Latency,
    /// Closed loop only: corrected for requests that were not sent while a connection waited.
    pub(crate) latency_corrected: Option<Latency>,
    /// Open loop only: from sending the request.
    pub(crate) service: Option<Latency>,
    pub(crate) connect: Latency,
    pub(crate) lag: Latency,
    /// The part of the lag in which the generator itself ran.
    #[serde(default)]
    pub(crate) lag_own: Option<Latency>,
    /// Duration of each turn of the workers' loops.
    #[serde(default)]
    pub(crate) turn: Option<Latency>,
    pub(crate) targets: Vec<TargetFigures>,
    pub(crate) intervals: Vec<IntervalFigures>,
    /// The kernel's figures for the sockets towards the targets.
    #[serde(default)]
    pub(crate) sockets: Option<SocketFigures>,
    /// TLS handshakes; `None` without TLS.
    #[serde(default)]
    pub(crate) tls: Option<HandshakeFigures>,
    /// HTTP/2 streams; `None` without HTTP/2.
    #[serde(default)]
    pub(crate) http2: Option<StreamFigures>,
    /// Iterations, steps and checks of a scenario; `None` without one.
    #[serde(default)]
    pub(crate) scenario: Option<ScenarioFigures>,
    /// The agents of a farm; empty without one.
    #[serde(default)]
    pub(crate) agents: Vec<AgentFigures>,
    /// Why the run, or one of its thresholds, counts for nothing.
    pub(crate) void: Vec<String>,
    /// The generator's lag, if it is not negligible beside the latencies.
    #[serde(default)]
    pub(crate) late: Option<String>,
    pub(crate) notes: Vec<String>,
    pub(crate) verdicts: Vec<Verdict>,
}

/// The default for files from before there could be several.
fn one() -> usize {
    1
}

fn http11() -> String {
    "HTTP/1.1".to_owned()
}

/// One URL.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct TargetFigures {
    pub(crate) method: String,
    pub(crate) url: String,
    pub(crate) address: String,
    pub(crate) weight: u32,
    pub(crate) requests: u64,
    pub(crate) responses: u64,
    pub(crate) errors: u64,
    pub(crate) statuses: BTreeMap<u16, u64>,
    pub(crate) latency: Latency,
}

/// One row over time.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct IntervalFigures {
    pub(crate) begun_s: f64,
    pub(crate) length_s: f64,
    pub(crate) requests: u64,
    pub(crate) responses: u64,
    pub(crate) errors: u64,
    pub(crate) opened: u64,
    pub(crate) latency: Sparse,
}

impl HttpResults<'_> {
    pub(super) fn file(&self) -> HttpResultsFile {
        let summary = self.summary;
        let (record, whole) = (&summary.record, summary.record.whole());
        let open = matches!(summary.options.pace, Pace::Open { .. });
        let failures = Cause::ALL.iter().filter(|cause| whole.failed_by(**cause) > 0);
        HttpResultsFile {
            format: FORMAT,
            holdfast: env!("CARGO_PKG_VERSION").to_owned(),
            r#loop: if open { "open" } else { "closed" }.to_owned(),
            version: summary.options.version.name().to_owned(),
            connections: summary.options.connections,
            streams: summary.options.streams,
            threads: summary.threads,
            processes: summary.processes,
            first_limit: summary.plan.scarcest().map(Limit::from),
            elapsed_s: summary.elapsed.as_secs_f64(),
            warm_up_s: summary.options.warm_up.as_secs_f64(),
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
            generator_cpu_s: record.generator.spent.cpu_ns as f64 / 1e9,
            generator_busy_share: self.health.busy_share,
            generator_waited_share: self.health.machine.waited_share,
            host_stolen_share: self.health.machine.stolen_share,
            statuses: whole.statuses.iter().copied().collect(),
            failures: failures.map(|cause| (cause.key().to_owned(), whole.failed_by(*cause))).collect(),
            latency: Latency::from(&whole.latency),
            latency_corrected: (!open).then(|| Latency::from(&summary.corrected())),
            service: open.then(|| Latency::from(&record.service)),
            connect: Latency::from(&record.connect),
            lag: Latency::from(&record.generator.lag),
            lag_own: Some(Latency::from(&record.generator.lag_own)),
            turn: Some(Latency::from(&record.generator.turn)),
            targets: self.targets(),
            intervals: self.rows.iter().map(interval).collect(),
            sockets: self.sockets.map(SocketFigures::from),
            tls: record.tls.as_ref().map(|tls| HandshakeFigures::new(tls, summary.elapsed)),
            http2: record.streams.as_ref().map(|streams| StreamFigures::new(streams, &summary.options)),
            scenario: ScenarioFigures::new(summary),
            agents: summary.agents.clone(),
            void: self.health.void_with(self.verdicts),
            late: self.health.late.clone(),
            notes: self.health.notes.clone(),
            verdicts: self.verdicts.to_vec(),
        }
    }

    fn targets(&self) -> Vec<TargetFigures> {
        let summary = self.summary;
        let tallies = summary.options.targets.iter().zip(&summary.addresses).zip(&summary.record.targets);
        let figures = tallies.map(|((target, address), tally)| TargetFigures {
            method: target.method.clone(),
            url: target.url.to_string(),
            address: summary.options.places.shown(*address),
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
