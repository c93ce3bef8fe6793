//! A load of WebSockets as a `report::Document`, which `--html` writes: connections, times and messages over time, the
//! spectra of all times, failures, endings of open connections, TCP states, and the generator's own condition.

use super::WebSocketResults;
use crate::results::figures::QUANTILES;
use crate::results::sections::{TICKS_PER_HALF, generator, tcp, thresholds};
use crate::results::units::time;
use crate::results::words::verdict;
use crate::websocket::{Ending, Held, WebSocketRow};
use crate::{Cause, Latencies, Sparse};
use report::text::grouped;
use report::{Axis, Card, Chart, Document, Figure, Kind, Section, Series, Table, Unit};

/// The document of a run.
pub(crate) fn document(results: &WebSocketResults<'_>) -> Document {
    let summary = results.summary;
    let made_by = concat!("holdfast load ", env!("CARGO_PKG_VERSION"));
    let mut document = Document::new(&format!("Load of {}", summary.options.target()), made_by)
        .fact("connections", summary.options.connections.to_string())
        .fact("opened at", format!("{}/s", summary.options.ramp))
        .fact("held for", format!("{:.2} s", summary.options.hold.as_secs_f64()))
        .fact("threads", summary.threads.to_string())
        .fact("processes", summary.processes.to_string())
        .fact("duration", format!("{:.2} s", summary.elapsed.as_secs_f64()))
        .answer(answer(results));
    document.cards = cards(results);
    if !results.verdicts.is_empty() {
        document = document.section(thresholds(results.health, results.verdicts));
    }
    document = document.section(over_time(results)).section(connections(results)).section(times(results));
    if let Some(handshakes) = &summary.record.tls {
        document = document.section(crate::results::tls::section(handshakes, summary.elapsed));
    }
    if let Some(sockets) = results.sockets {
        document = document.section(tcp(sockets).folded());
    }
    document.section(generator(&summary.record.generator, results.health, results.verdicts))
}

/// The most important figures: what is open, the times that are measured, and losses.
fn cards(results: &WebSocketResults<'_>) -> Vec<Card> {
    let (record, rows) = (&results.summary.record, results.rows);
    let exact = |value: u64| Figure::exact(value as f64, Unit::of(""));
    let of = |whole: u64, what: &str| format!("of {} {what}", grouped(whole));
    let mut cards = vec![
        Card::new("open at most", exact(record.open), of(results.summary.options.connections as u64, "connections"))
            .trend(rows.iter().map(|row| row.open as f64)),
    ];
    let (opening, delivery) = names(results.summary.options.held());
    let mut time = |name: &str, times: &Latencies, row: fn(&WebSocketRow) -> &Sparse| {
        if times.count() > 0 {
            let figure = Figure::from_events(times.quantile_ns(0.99) as f64, times.count(), Unit::Nanoseconds);
            let trend = rows.iter().map(move |one| row(one).quantile(0.99) as f64);
            cards.push(
                Card::new(&format!("{name}, p99"), figure, format!("n = {}", grouped(times.count()))).trend(trend),
            );
        }
    };
    time(opening, &record.handshake, |row| &row.handshake);
    time("pong", &record.pong, |row| &row.pong);
    time(delivery, &record.delivery, |row| &row.delivery);
    time("between events", &record.between, |row| &row.between);
    cards.push(
        Card::new("lost", exact(record.losses()), of(record.established, "opened"))
            .trend(rows.iter().map(|row| row.losses as f64)),
    );
    if record.expected > 0 {
        cards.push(Card::new("not delivered", exact(record.lost), of(record.expected, "expected")));
    }
    cards
}

/// What the opening of a connection and a delivery are called.
fn names(held: Held) -> (&'static str, &'static str) {
    match held {
        Held::WebSocket => ("handshake", "delivery"),
        Held::Tcp => ("connection", "delivery"),
        Held::Events => ("response head", "event"),
    }
}

/// The run in one sentence.
pub(crate) fn answer(results: &WebSocketResults<'_>) -> String {
    let record = &results.summary.record;
    let losses = match record.losses() {
        0 => "none lost".to_owned(),
        losses => format!("{} lost", grouped(losses)),
    };
    let is_of_events = results.summary.options.held() == Held::Events;
    let delivered = if is_of_events && record.delivery.count() == 0 {
        format!(
            ", {} events, p99 between them {}",
            grouped(record.delivered),
            time(record.between.quantile_ns(0.99) as f64)
        )
    } else if is_of_events {
        format!(
            ", {} events, their age p99 {}",
            grouped(record.delivered),
            time(record.delivery.quantile_ns(0.99) as f64)
        )
    } else if record.delivered == 0 {
        String::new()
    } else {
        format!(", deliveries p99 {}", time(record.delivery.quantile_ns(0.99) as f64))
    };
    let (established, begun) = (grouped(record.established), grouped(record.begun));
    let noun = results.summary.options.noun();
    format!(
        "{established} of {begun} {noun} opened, {losses}{delivered}; {}",
        verdict(results.health, results.verdicts)
    )
}

fn connections(results: &WebSocketResults<'_>) -> Section {
    let record = &results.summary.record;
    let count =
        |what: &str, value: u64, unit: &str| vec![what.into(), Figure::exact(value as f64, Unit::of(unit)).into()];
    let mut table = Table::new("Connections", &["what", "how many"])
        .row(count("begun", record.begun, "connections"))
        .row(count("established", record.established, "connections"))
        .row(count("failed", record.failed(), "connections"))
        .row(count("open, at most", record.open, "connections"))
        .row(count("lost while open", record.losses(), "connections"));
    if results.summary.options.held() == Held::Events {
        table = table
            .row(count("events", record.delivered, "events"))
            .row(count("lost, by gaps of the ids", record.lost, "events"))
            .row(count("repeated", record.surplus, "events"))
            .row(count("opened again after the last id", record.resumed, "connections"));
    } else if record.sent + record.delivered > 0 {
        table = table
            .row(count("messages sent", record.sent, "messages"))
            .row(count("delivered", record.delivered, "messages"))
            .row(count("expected", record.expected, "messages"))
            .row(count("lost", record.lost, "messages"));
    }
    if let Some(bytes) = results.summary.memory.bytes_per_connection() {
        let connections = results.summary.memory.connections;
        let each = Figure::from_events(bytes, connections, Unit::of("bytes"));
        table = table.row(vec!["user memory of each".into(), each.into()]);
    }
    let mut section = Section::new("Result").table(table);
    let failures = Cause::ALL.iter().map(|cause| (cause.key().to_owned(), record.failed_by(*cause)));
    let statuses = record.statuses.iter().map(|(status, count)| (format!("status {status}"), *count));
    let failures = failures.chain(statuses).chain([("bad handshake".to_owned(), record.bad_handshakes)]);
    section = bars(section, "Why connections were not opened", "failures", failures);
    let endings = Ending::ALL.iter().map(|ending| (ending.key().to_owned(), record.ended_by(*ending)));
    bars(section, "How open ones ended", "connections", endings)
}

/// Adds a bar chart of the counts that are not zero, if there are any.
fn bars(section: Section, title: &str, unit: &str, counts: impl Iterator<Item = (String, u64)>) -> Section {
    let counts: Vec<(String, u64)> = counts.filter(|(_, count)| *count > 0).collect();
    if counts.is_empty() {
        return section;
    }
    let sum: u64 = counts.iter().map(|(_, count)| count).sum();
    let bars: Vec<(&str, f64)> = counts.iter().map(|(name, count)| (name.as_str(), *count as f64)).collect();
    section.chart(Chart::bars(title, Axis::new(unit, Unit::of("")), format!("n = {sum} {unit}"), &bars))
}

/// All measured times side by side.
fn times(results: &WebSocketResults<'_>) -> Section {
    let record = &results.summary.record;
    let (opening, delivery) = names(results.summary.options.held());
    let all = [
        (opening, &record.handshake),
        ("pong", &record.pong),
        (delivery, &record.delivery),
        ("between events", &record.between),
    ];
    let measured: Vec<(&str, &Latencies)> = all.into_iter().filter(|(_, times)| times.count() > 0).collect();
    let section = Section::new("Times");
    if measured.is_empty() {
        return section;
    }
    let heads: Vec<&str> = ["from due to"].into_iter().chain(measured.iter().map(|(name, _)| *name)).collect();
    let mut table = Table::new("From when it was due", &heads);
    for (name, quantile) in QUANTILES {
        let cells = measured.iter().map(|(_, times)| {
            Figure::from_events(times.quantile_ns(quantile) as f64, times.count(), Unit::Nanoseconds).into()
        });
        table = table.row([name.into()].into_iter().chain(cells).collect());
    }
    let counts: Vec<String> = measured.iter().map(|(name, times)| format!("{name} {}", times.count())).collect();
    let (share, time) = (Axis::new("share", Unit::Ratio), Axis::new("from due", Unit::Nanoseconds));
    let spectrum = Chart::new("Percentile spectrum", Kind::Spectrum, share, time, format!("n = {}", counts.join(", ")));
    let spectrum = measured.iter().fold(spectrum, |chart, (name, times)| {
        chart.series(Series::spectrum(name, &times.histogram().spectrum(TICKS_PER_HALF)))
    });
    section.table(table).chart(spectrum)
}

fn over_time(results: &WebSocketResults<'_>) -> Section {
    let rows = results.rows;
    let record = &results.summary.record;
    let chart = |title: &str, what: &str, unit: Unit| {
        let basis = format!("n = {} intervals", rows.len());
        Chart::new(title, Kind::Lines, Axis::new("time", Unit::of("s")), Axis::new(what, unit), basis)
    };
    let line = |name: &str, value: &dyn Fn(&WebSocketRow) -> f64| {
        Series::new(name, rows.iter().map(|row| (row.begun.as_secs_f64(), value(row))))
    };
    let open = chart("Open connections", "connections", Unit::of("")).series(line("open", &|row| row.open as f64));
    let rates = chart("Connections that come and go", "rate", Unit::of("1/s"))
        .series(line("established", &|row| row.per_second(row.established)))
        .series(line("failed", &|row| row.per_second(row.failed)))
        .series(line("lost", &|row| row.per_second(row.losses)));
    let (opening, delivery) = names(results.summary.options.held());
    let mut latency = chart("Times over time", "p99 from due", Unit::Nanoseconds)
        .series(line(opening, &|row| row.handshake.quantile(0.99) as f64));
    if record.pong.count() > 0 {
        latency = latency.series(line("pong", &|row| row.pong.quantile(0.99) as f64));
    }
    if record.between.count() > 0 {
        latency = latency.series(line("between events", &|row| row.between.quantile(0.99) as f64));
    }
    if record.delivery.count() > 0 {
        latency = latency.series(line(delivery, &|row| row.delivery.quantile(0.99) as f64));
    }
    let section = Section::new("Over time").chart(open).chart(rates).chart(latency);
    if record.sent + record.delivered == 0 {
        return section;
    }
    if results.summary.options.held() == Held::Events {
        let events = chart("Events", "rate", Unit::of("1/s"));
        return section.chart(events.series(line("events", &|row| row.per_second(row.delivered))));
    }
    let messages = chart("Messages", "rate", Unit::of("1/s"))
        .series(line("sent", &|row| row.per_second(row.sent)))
        .series(line("delivered", &|row| row.per_second(row.delivered)));
    section.chart(messages)
}
