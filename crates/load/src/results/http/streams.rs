//! The report on HTTP/2 streams: lines of text, data, and a section of the page.

use crate::results::units::time;
use crate::streams::{StreamsRecord, grpc_status_name};
use crate::{Options, Summary};
use report::text::grouped;
use report::{Figure, Section, Severity, Table, Unit};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Stream figures as data.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct StreamFigures {
    /// Streams requested per connection.
    pub(crate) asked: usize,
    /// Streams opened, over all connections.
    pub(crate) opened: u64,
    /// Most streams at one time on one connection.
    pub(crate) most: u64,
    /// The lowest limit of concurrent streams that a target set; `None` without a limit.
    pub(crate) allowed: Option<u32>,
    /// Whether `allowed` was below `asked`.
    pub(crate) bound_by_target: bool,
    /// Seconds in which a body was ready and a window of the target was closed, summed over all connections.
    pub(crate) window_limited_s: f64,
    /// GOAWAY frames from the target, by code.
    pub(crate) goaways: BTreeMap<String, u64>,
    /// Streams that the target reset, by code.
    pub(crate) resets: BTreeMap<String, u64>,
    /// Requests that the target had not processed when it sent GOAWAY or refused them.
    pub(crate) unprocessed: u64,
    /// gRPC calls by `grpc-status`; empty without `--grpc`.
    pub(crate) grpc_statuses: BTreeMap<u32, u64>,
    /// The first HTTP/2 protocol error of a connection.
    pub(crate) failure: Option<String>,
}

impl StreamFigures {
    pub(crate) fn new(record: &StreamsRecord, options: &Options) -> Self {
        Self {
            asked: options.streams,
            opened: record.opened,
            most: record.most,
            allowed: record.allowed,
            bound_by_target: record.is_bound(options.streams),
            window_limited_s: record.window_limited_ns as f64 / 1e9,
            goaways: record.goaways.clone(),
            resets: record.resets.clone(),
            unprocessed: record.unprocessed,
            grpc_statuses: record.grpc.clone(),
            failure: record.failure.clone(),
        }
    }
}

/// Codes or statuses with their counts.
fn listed<'a>(counts: impl Iterator<Item = (String, &'a u64)>) -> String {
    counts.map(|(name, count)| format!("{name}: {}", grouped(*count))).collect::<Vec<_>>().join(", ")
}

fn statuses(record: &StreamsRecord) -> String {
    listed(record.grpc.iter().map(|(status, count)| {
        let name = grpc_status_name(*status).map_or_else(String::new, |name| format!(" {name}"));
        (format!("{status}{name}"), count)
    }))
}

/// The target's limit compared with the requested streams.
fn allowance(record: &StreamsRecord, options: &Options) -> String {
    match record.allowed {
        None => "the target sets no limit".to_owned(),
        Some(allowed) if record.is_bound(options.streams) => {
            format!("the target allows {allowed} at once, not the {} asked for", options.streams)
        }
        Some(allowed) => format!("the target allows {allowed} at once"),
    }
}

/// Share of the connections' time in which a body waited for a window.
fn window_share(record: &StreamsRecord, summary: &Summary) -> f64 {
    let all_ns = summary.elapsed.as_nanos() as f64 * summary.options.connections as f64;
    record.window_limited_ns as f64 / all_ns.max(1.0)
}

/// Adds the lines of the text report.
pub(crate) fn lines(record: &StreamsRecord, summary: &Summary, text: &mut String) {
    let _ = writeln!(
        text,
        "streams     {} opened, at most {} at one time on a connection; {}",
        grouped(record.opened),
        grouped(record.most),
        allowance(record, &summary.options),
    );
    if record.window_limited_ns > 0 {
        let _ = writeln!(
            text,
            "            window-limited {}: bodies were ready and a window of the target was closed, {:.2} % of the connections' time",
            time(record.window_limited_ns as f64),
            window_share(record, summary) * 100.0,
        );
    }
    let named = |counts: &BTreeMap<String, u64>| listed(counts.iter().map(|(name, count)| (name.clone(), count)));
    if !record.goaways.is_empty() {
        let again = if record.unprocessed > 0 {
            format!("; {} requests had not been looked at", grouped(record.unprocessed))
        } else {
            String::new()
        };
        let _ = writeln!(text, "            GOAWAY by the target: {}{again}", named(&record.goaways));
    }
    if !record.resets.is_empty() {
        let _ = writeln!(text, "            RST_STREAM by the target: {}", named(&record.resets));
    }
    if !record.grpc.is_empty() {
        let _ = writeln!(text, "grpc-status {}", statuses(record));
    }
    if let Some(failure) = &record.failure {
        let _ = writeln!(text, "            one connection or stream that broke the rules: {failure}");
    }
}

/// The section of the page.
pub(crate) fn section(record: &StreamsRecord, summary: &Summary) -> Section {
    let count = |value: u64| Figure::exact(value as f64, Unit::of("")).into();
    let mut table = Table::new("Streams", &["what", "how many"])
        .row(vec!["opened".into(), count(record.opened)])
        .row(vec!["at one time on a connection, at most".into(), count(record.most)]);
    if let Some(allowed) = record.allowed {
        table = table.row(vec!["allowed by the target".into(), count(u64::from(allowed))]);
    }
    let share = Figure::exact(window_share(record, summary) * 100.0, Unit::Percent);
    table = table.row(vec!["window-limited, of the connections' time".into(), share.into()]);
    for (code, how_many) in &record.goaways {
        table = table.row(vec![format!("GOAWAY {code}").into(), count(*how_many)]);
    }
    for (code, how_many) in &record.resets {
        table = table.row(vec![format!("RST_STREAM {code}").into(), count(*how_many)]);
    }
    for (status, how_many) in &record.grpc {
        let name = grpc_status_name(*status).unwrap_or("unknown");
        table = table.row(vec![format!("grpc-status {status} {name}").into(), count(*how_many)]);
    }
    let mut section = Section::new("HTTP/2").table(table);
    if record.is_bound(summary.options.streams) {
        section = section.note(Severity::Note, format!("{}.", allowance(record, &summary.options)));
    }
    match &record.failure {
        Some(failure) => section.note(Severity::Error, format!("One that broke the rules: {failure}")),
        None => section,
    }
}
