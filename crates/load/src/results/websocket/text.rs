//! The report of a load of WebSockets, as text.

use super::WebSocketResults;
use super::page::answer;
use crate::results::units::{bytes, time};
use crate::results::words::{condition, lateness, plan_line, tcp, thresholds, whose};
use crate::websocket::{Ending, Held, WebSocketRecord, WebSocketSummary};
use crate::{Cause, Latencies};
use report::text::grouped;
use std::fmt::Write as _;
use websocket::CloseCode;

/// Rows of the table of times.
const QUANTILES: [(&str, f64); 5] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)];

/// The report, with its final line end.
pub(crate) fn render(results: &WebSocketResults<'_>) -> String {
    let mut text = String::new();
    asked(results, &mut text);
    connections(results, &mut text);
    if let Some(handshakes) = &results.summary.record.tls {
        crate::results::tls::lines(handshakes, results.summary.elapsed, &mut text);
    }
    messages(results, &mut text);
    times(&results.summary.record, results.summary.options.held(), &mut text);
    if let Some(sockets) = results.sockets {
        tcp(sockets, &mut text);
    }
    generator(results, &mut text);
    thresholds(results.health, results.verdicts, &mut text);
    let _ = writeln!(text, "\n{}", answer(results));
    text
}

fn asked(results: &WebSocketResults<'_>, text: &mut String) {
    let summary = results.summary;
    let options = &summary.options;
    let _ = writeln!(text, "target      {} at {}", options.target(), options.places.shown(summary.address));
    let _ = write!(
        text,
        "load        {} connections, opened at {}/s, held for {}",
        grouped(options.connections as u64),
        options.ramp,
        time(options.hold.as_nanos() as f64)
    );
    if let Some(every) = options.heartbeat {
        let _ = write!(text, "; a ping on each every {}", time(every.as_nanos() as f64));
    }
    if let Some(rooms) = options.rooms {
        let _ = write!(text, "; {} rooms", grouped(u64::from(rooms)));
    }
    if options.rate > 0.0 {
        let _ = write!(text, "; {} messages/s of {} bytes", options.rate, options.message_bytes);
    }
    let _ = writeln!(
        text,
        "; {} thread{}{}, {:.2} s{}",
        summary.threads,
        if summary.threads == 1 { "" } else { "s" },
        if summary.processes > 1 { format!(" in {} processes", summary.processes) } else { String::new() },
        summary.elapsed.as_secs_f64(),
        if summary.stopped { ", stopped by hand" } else { "" }
    );
    let _ = writeln!(text, "{}\n", plan_line(&summary.plan));
}

fn connections(results: &WebSocketResults<'_>, text: &mut String) {
    let (summary, record) = (results.summary, &results.summary.record);
    let _ = writeln!(
        text,
        "connections {} begun ({} of them again), {} opened, {} failed; at most {} open",
        grouped(record.begun),
        grouped(record.again),
        grouped(record.established),
        grouped(record.failed()),
        grouped(record.open),
    );
    for cause in Cause::ALL.iter().filter(|cause| record.failed_by(**cause) > 0) {
        let _ = writeln!(text, "failed      {}: {}", grouped(record.failed_by(*cause)), cause.text());
    }
    let what = if summary.options.held() == Held::Events { "the request" } else { "the handshake" };
    for (status, count) in &record.statuses {
        let _ = writeln!(text, "failed      {}: {what} was answered with status {status}", grouped(*count));
    }
    if record.bad_handshakes > 0 {
        let count = grouped(record.bad_handshakes);
        let what = match summary.options.held() {
            Held::Events => "200, but no events (Content-Type is not text/event-stream)",
            _ => "101, but no answer to a WebSocket handshake (Sec-WebSocket-Accept and the like)",
        };
        let _ = writeln!(text, "failed      {count}: {what}");
    }
    for ending in Ending::ALL.iter().filter(|ending| record.ended_by(**ending) > 0) {
        let (count, words) = (grouped(record.ended_by(*ending)), ending.text_of(summary.options.held()));
        let _ = writeln!(text, "ended       {count}: {words}");
    }
    if !record.codes.is_empty() {
        let codes = record.codes.iter().map(|(code, count)| format!("{}: {}", CloseCode(*code), grouped(*count)));
        let _ = writeln!(text, "close codes {}", codes.collect::<Vec<_>>().join(", "));
    }
    if record.stalled > 0 {
        let _ = writeln!(
            text,
            "stalled     {} never read; {} of them were ended by the target, or on the way",
            grouped(record.stalled),
            grouped(record.stalled_ended)
        );
    }
    if let Some(storm) = summary.options.storm {
        let came = if record.unrecovered > 0 {
            "not all were open again at the end".to_owned()
        } else {
            format!("all were open again after {}", time(record.recovered_ns as f64))
        };
        let _ = writeln!(text, "storm       {:.0} % cut at once; {came}", storm.share * 100.0);
    }
    memory(summary, text);
    text.push('\n');
}

/// The memory of the connections.
fn memory(summary: &WebSocketSummary, text: &mut String) {
    let memory = &summary.memory;
    let (before, held, open) =
        (bytes(memory.before_bytes as f64), bytes(memory.held_bytes as f64), grouped(memory.connections));
    let _ = match memory.bytes_per_connection() {
        Some(each) => writeln!(
            text,
            "memory      {each:.0} bytes of user memory per connection: resident {before} before the first, {held} with {open} open"
        ),
        None if memory.connections == 0 => {
            writeln!(
                text,
                "memory      resident {before} before the first connection; not looked at while any was open"
            )
        }
        None => writeln!(
            text,
            "memory      resident {before} before the first connection, {held} with {open} open; too few to divide"
        ),
    };
}

fn messages(results: &WebSocketResults<'_>, text: &mut String) {
    let record = &results.summary.record;
    if results.summary.options.held() == Held::Events {
        events(results, text);
    } else if record.sent + record.unsent + record.delivered + record.foreign > 0 {
        let share = record.lost as f64 / record.expected.max(1) as f64 * 100.0;
        let _ = writeln!(
            text,
            "messages    {} sent, {} not sent (no connection was open); delivered {} of {} expected, {} lost ({share:.3} %)",
            grouped(record.sent),
            grouped(record.unsent),
            grouped(record.delivered),
            grouped(record.expected),
            grouped(record.lost),
        );
        if record.surplus + record.foreign > 0 {
            let _ = writeln!(
                text,
                "            {} too often, {} of others",
                grouped(record.surplus),
                grouped(record.foreign)
            );
        }
    }
    if record.pings + record.pings_received > 0 {
        let _ = writeln!(
            text,
            "heartbeats  {} pings, {} pongs; {} pings of the target answered",
            grouped(record.pings),
            grouped(record.pongs),
            grouped(record.pings_received)
        );
    }
    let seconds = results.summary.elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
    let _ = writeln!(
        text,
        "bytes       received {}/s, sent {}/s\n",
        bytes(record.bytes_received as f64 / seconds),
        bytes(record.bytes_sent as f64 / seconds)
    );
}

/// The lines about events.
fn events(results: &WebSocketResults<'_>, text: &mut String) {
    let record = &results.summary.record;
    let options = results.summary.options.events.clone().unwrap_or_default();
    let rate = record.delivered as f64 / results.summary.elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
    let _ = write!(text, "events      {} received, {rate:.1}/s", grouped(record.delivered));
    if options.in_sequence {
        let (lost, surplus) = (grouped(record.lost), grouped(record.surplus));
        let _ = write!(text, "; {lost} lost by gaps of the ids, {surplus} repeated");
    }
    let _ = writeln!(text, "; {} comments", grouped(record.comments));
    if record.resumed > 0 {
        let _ = writeln!(text, "            {} times opened again after the last id", grouped(record.resumed));
    }
    if record.unstamped > 0 {
        let count = grouped(record.unstamped);
        let _ = writeln!(
            text,
            "            {count} without the time of --event-time, or with one in the future of this clock"
        );
    }
}

/// A column for each kind of time that was measured.
fn times(record: &WebSocketRecord, held: Held, text: &mut String) {
    let is_bare = held == Held::Tcp;
    // Without a handshake of WebSockets or TLS both are the same time.
    let is_plain = is_bare && record.tls.is_none();
    let nothing = Latencies::default();
    let opening = match held {
        Held::WebSocket => "handshake",
        Held::Tcp => "TLS",
        Held::Events => "head",
    };
    let all: [(&str, &Latencies); 5] = [
        ("TCP", &record.connect),
        (opening, if is_plain { &nothing } else { &record.handshake }),
        ("pong", &record.pong),
        (if held == Held::Events { "event" } else { "delivery" }, &record.delivery),
        ("between", &record.between),
    ];
    let columns: Vec<_> = all.into_iter().filter(|(_, latencies)| latencies.count() > 0).collect();
    if columns.is_empty() {
        return;
    }
    let mut row = |name: &str, cell: &dyn Fn(&str, &Latencies) -> String| {
        let _ = write!(text, "{name:<11}");
        for (column, latencies) in &columns {
            let _ = write!(text, " {:>12}", cell(column, latencies));
        }
        text.push('\n');
    };
    row("from due to", &|name, _| name.to_owned());
    for (name, quantile) in QUANTILES {
        row(&format!("  {name}"), &|_, latencies| time(latencies.quantile_ns(quantile) as f64));
    }
    row("  count", &|_, latencies| grouped(latencies.count()));
    text.push('\n');
}

fn generator(results: &WebSocketResults<'_>, text: &mut String) {
    let record = &results.summary.record;
    let _ = writeln!(
        text,
        "generator   late by {}; busiest thread {:.0} %",
        lateness(&record.generator.lag),
        results.health.busy_share * 100.0,
    );
    whose(&record.generator.lag_own, &record.generator.turn, results.health.machine, text);
    condition(results.health, results.verdicts, text);
}
