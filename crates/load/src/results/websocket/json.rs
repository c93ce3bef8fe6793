//! The results of a load of WebSockets as data, which `--json` writes. Times are in nanoseconds, histograms
//! complete.

use super::WebSocketResults;
use crate::results::figures::{FORMAT, Latency, Limit, SocketFigures};
use crate::results::tls::HandshakeFigures;
use crate::websocket::{Ending, Held, Memory, WebSocketRecord, WebSocketRow};
use crate::{Cause, Sparse, Verdict};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Distinguishes this format from that of an HTTP load.
pub(crate) const PROTOCOL: &str = "websocket";
/// The same for TCP connections that are held open.
pub(crate) const PROTOCOL_TCP: &str = "tcp";
/// The same for server-sent events.
pub(crate) const PROTOCOL_EVENTS: &str = "events";

#[derive(Debug, Serialize)]
struct WebSocketResultsFile<'a> {
    format: u32,
    holdfast: &'a str,
    /// [`PROTOCOL`], [`PROTOCOL_TCP`] or [`PROTOCOL_EVENTS`].
    protocol: &'a str,
    target: String,
    address: String,
    connections: usize,
    threads: usize,
    processes: usize,
    /// The limit that the load would reach first, as computed before the start.
    first_limit: Option<Limit>,
    elapsed_s: f64,
    stopped: bool,
    begun: u64,
    begun_again: u64,
    established: u64,
    failed: u64,
    failures: BTreeMap<&'a str, u64>,
    statuses: &'a BTreeMap<u16, u64>,
    bad_handshakes: u64,
    open_max: u64,
    endings: BTreeMap<&'a str, u64>,
    losses: u64,
    close_codes: &'a BTreeMap<u16, u64>,
    stalled: u64,
    stalled_ended: u64,
    /// `null` without a storm, or if the connections did not recover.
    recovered_s: Option<f64>,
    pings: u64,
    pongs: u64,
    pings_received: u64,
    sent: u64,
    unsent: u64,
    delivered: u64,
    expected: u64,
    lost: u64,
    surplus: u64,
    foreign: u64,
    #[serde(flatten)]
    events: EventFigures,
    bytes_received: u64,
    bytes_sent: u64,
    memory: MemoryFigures,
    tls: Option<HandshakeFigures>,
    connect: Latency,
    handshake: Latency,
    pong: Latency,
    delivery: Latency,
    lag: Latency,
    /// The part of the lag in which the generator itself ran.
    lag_own: Latency,
    /// Duration of each turn of the workers' loops.
    turn: Latency,
    intervals: Vec<WebSocketIntervalFigures>,
    /// The kernel's figures for the sockets towards the target.
    sockets: Option<SocketFigures>,
    generator_cpu_s: f64,
    generator_busy_share: f64,
    generator_waited_share: Option<f64>,
    host_stolen_share: Option<f64>,
    void: Vec<String>,
    late: Option<&'a str>,
    notes: &'a [String],
    verdicts: &'a [Verdict],
}

/// What only events have; `delivered` is their number.
#[derive(Debug, Serialize)]
struct EventFigures {
    /// Requests with `Last-Event-ID`.
    resumed: u64,
    comments: u64,
    /// Events without a usable time.
    unstamped: u64,
    /// Between two events of a connection.
    between: Latency,
}

impl From<&WebSocketRecord> for EventFigures {
    fn from(record: &WebSocketRecord) -> Self {
        Self {
            resumed: record.resumed,
            comments: record.comments,
            unstamped: record.unstamped,
            between: Latency::from(&record.between),
        }
    }
}

/// One row over time.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct WebSocketIntervalFigures {
    pub(crate) begun_s: f64,
    pub(crate) length_s: f64,
    /// Open connections at the end of the row.
    pub(crate) open: u64,
    pub(crate) begun: u64,
    pub(crate) established: u64,
    pub(crate) failed: u64,
    pub(crate) losses: u64,
    pub(crate) sent: u64,
    pub(crate) delivered: u64,
    pub(crate) lost: u64,
    pub(crate) handshake: Sparse,
    pub(crate) pong: Sparse,
    pub(crate) delivery: Sparse,
}

impl From<&WebSocketRow> for WebSocketIntervalFigures {
    fn from(row: &WebSocketRow) -> Self {
        Self {
            begun_s: row.begun.as_secs_f64(),
            length_s: row.length.as_secs_f64(),
            open: row.open,
            begun: row.begun_connections,
            established: row.established,
            failed: row.failed,
            losses: row.losses,
            sent: row.sent,
            delivered: row.delivered,
            lost: row.lost,
            handshake: row.handshake.clone(),
            pong: row.pong.clone(),
            delivery: row.delivery.clone(),
        }
    }
}

/// The part of a file that `load compare` reads.
#[derive(Debug, Deserialize)]
pub(crate) struct KeptWebSocketResults {
    pub(crate) connections: usize,
    pub(crate) elapsed_s: f64,
    pub(crate) begun: u64,
    pub(crate) established: u64,
    pub(crate) failed: u64,
    pub(crate) losses: u64,
    pub(crate) void: Vec<String>,
    #[serde(default)]
    pub(crate) late: Option<String>,
    pub(crate) intervals: Vec<WebSocketIntervalFigures>,
}

#[derive(Debug, Serialize)]
struct MemoryFigures {
    before_bytes: u64,
    held_bytes: u64,
    connections: u64,
    bytes_per_connection: Option<f64>,
}

impl From<&Memory> for MemoryFigures {
    fn from(memory: &Memory) -> Self {
        Self {
            before_bytes: memory.before_bytes,
            held_bytes: memory.held_bytes,
            connections: memory.connections,
            bytes_per_connection: memory.bytes_per_connection(),
        }
    }
}

fn protocol(held: Held) -> &'static str {
    match held {
        Held::WebSocket => PROTOCOL,
        Held::Tcp => PROTOCOL_TCP,
        Held::Events => PROTOCOL_EVENTS,
    }
}

/// The file, with a final line end.
pub(crate) fn json(results: &WebSocketResults<'_>) -> String {
    let summary = results.summary;
    let record = &summary.record;
    let failures = Cause::ALL.iter().map(|cause| (cause.key(), record.failed_by(*cause)));
    let endings = Ending::ALL.iter().map(|ending| (ending.key(), record.ended_by(*ending)));
    let is_recovered = summary.options.storm.is_some() && record.unrecovered == 0;
    let file = WebSocketResultsFile {
        format: FORMAT,
        holdfast: env!("CARGO_PKG_VERSION"),
        protocol: protocol(summary.options.held()),
        target: summary.options.target(),
        address: summary.options.places.shown(summary.address),
        connections: summary.options.connections,
        threads: summary.threads,
        processes: summary.processes,
        first_limit: summary.plan.scarcest().map(Limit::from),
        elapsed_s: summary.elapsed.as_secs_f64(),
        stopped: summary.stopped,
        begun: record.begun,
        begun_again: record.again,
        established: record.established,
        failed: record.failed(),
        failures: failures.filter(|(_, count)| *count > 0).collect(),
        statuses: &record.statuses,
        bad_handshakes: record.bad_handshakes,
        open_max: record.open,
        endings: endings.filter(|(_, count)| *count > 0).collect(),
        losses: record.losses(),
        close_codes: &record.codes,
        stalled: record.stalled,
        stalled_ended: record.stalled_ended,
        recovered_s: is_recovered.then_some(record.recovered_ns as f64 / 1e9),
        pings: record.pings,
        pongs: record.pongs,
        pings_received: record.pings_received,
        sent: record.sent,
        unsent: record.unsent,
        delivered: record.delivered,
        expected: record.expected,
        lost: record.lost,
        surplus: record.surplus,
        foreign: record.foreign,
        events: EventFigures::from(record),
        bytes_received: record.bytes_received,
        bytes_sent: record.bytes_sent,
        memory: MemoryFigures::from(&summary.memory),
        tls: record.tls.as_ref().map(|tls| HandshakeFigures::new(tls, summary.elapsed)),
        connect: Latency::from(&record.connect),
        handshake: Latency::from(&record.handshake),
        pong: Latency::from(&record.pong),
        delivery: Latency::from(&record.delivery),
        lag: Latency::from(&record.generator.lag),
        lag_own: Latency::from(&record.generator.lag_own),
        turn: Latency::from(&record.generator.turn),
        intervals: results.rows.iter().map(WebSocketIntervalFigures::from).collect(),
        sockets: results.sockets.map(SocketFigures::from),
        generator_cpu_s: record.generator.spent.cpu_ns as f64 / 1e9,
        generator_busy_share: results.health.busy_share,
        generator_waited_share: results.health.machine.waited_share,
        host_stolen_share: results.health.machine.stolen_share,
        void: results.health.void_with(results.verdicts),
        late: results.health.late.as_deref(),
        notes: &results.health.notes,
        verdicts: results.verdicts,
    };
    let mut text = serde_json::to_string(&file).expect("maps with text keys, numbers and strings are always JSON");
    text.push('\n');
    text
}
