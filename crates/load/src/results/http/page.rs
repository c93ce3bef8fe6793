//! The run as a `report::Document`, which `--html` writes: charts of latency and rate over time, the percentile
//! spectrum, failures by cause, and the generator's own condition.

use super::HttpResults;
use crate::results::figures::QUANTILES;
use crate::results::sections::{TICKS_PER_HALF, generator, tcp, thresholds};
use crate::results::units::time;
use crate::results::words::verdict;
use crate::{Cause, Latencies, Row};
use report::text::grouped;
use report::{Axis, Card, Chart, Document, Figure, Kind, Section, Series, Table, Unit};

/// The document of a run.
pub(crate) fn document(results: &HttpResults<'_>) -> Document {
    let summary = results.summary;
    let made_by = concat!("holdfast load ", env!("CARGO_PKG_VERSION"));
    let target = summary.options.targets.first().map_or_else(String::new, |target| target.url.to_string());
    let pace = if summary.options.pace.is_open() { "open loop" } else { "closed loop" };
    let connections = match summary.options.streams {
        1 => summary.options.connections.to_string(),
        streams => format!("{} of {streams} streams each", summary.options.connections),
    };
    let subject = summary.options.scenario.as_ref().map_or(target, |scenario| format!("scenario {}", scenario.name));
    let slots = if summary.options.scenario.is_some() { "users" } else { "connections" };
    let mut document = Document::new(&format!("Load of {subject}"), made_by)
        .fact("load", pace)
        .fact("protocol", summary.options.version.name())
        .fact(slots, connections)
        .fact("threads", summary.threads.to_string())
        .fact("duration", format!("{:.2} s", summary.elapsed.as_secs_f64()))
        .answer(answer(results));
    document.cards = cards(results);
    if !results.verdicts.is_empty() {
        document = document.section(thresholds(results.health, results.verdicts));
    }
    document = document.section(over_time(results.rows)).section(result(results));
    if let Some(scenario) = super::scenario::section(summary) {
        document = document.section(scenario);
    }
    if let Some(handshakes) = &summary.record.tls {
        document = document.section(crate::results::tls::section(handshakes, summary.elapsed));
    }
    if let Some(streams) = &summary.record.streams {
        document = document.section(super::streams::section(streams, summary));
    }
    if let Some(sockets) = results.sockets {
        document = document.section(tcp(sockets).folded());
    }
    document.section(generator(&summary.record.generator, results.health, results.verdicts))
}

/// The run in one sentence: its length and rate, its failures, and whether it met its thresholds.
pub(crate) fn answer(results: &HttpResults<'_>) -> String {
    let summary = results.summary;
    let whole = summary.record.whole();
    if whole.responses == 0 {
        return if summary.options.is_tcp() { "No message was complete." } else { "No request was answered." }
            .to_owned();
    }
    let p99 = time(whole.latency.quantile_ns(0.99) as f64);
    let failed = match whole.failed() {
        0 => "none failed".to_owned(),
        failed => format!("{} of {} failed", grouped(failed), grouped(whole.begun)),
    };
    let rate =
        if summary.rate() < 10.0 { format!("{:.1}", summary.rate()) } else { grouped(summary.rate().round() as u64) };
    let what = if summary.options.tls.handshakes_only { "handshakes" } else { summary.options.nouns().1 };
    format!("p99 {p99} at {rate} {what}/s, {failed}; {}", verdict(results.health, results.verdicts))
}

fn cards(results: &HttpResults<'_>) -> Vec<Card> {
    let whole = results.summary.record.whole();
    let rows = results.rows;
    let latency = |quantile: f64| {
        Figure::from_events(whole.latency.quantile_ns(quantile) as f64, whole.latency.count(), Unit::Nanoseconds)
    };
    let trend = |quantile: f64| rows.iter().map(move |row| row.latency.quantile(quantile) as f64);
    let from = if results.summary.options.pace.is_open() { "from due" } else { "from sending" };
    let share = |part: u64, of: u64| format!("{:.2} % of all", part as f64 / of.max(1) as f64 * 100.0);
    let exact = |value: u64| Figure::exact(value as f64, Unit::of(""));
    vec![
        Card::new(
            if results.summary.options.is_tcp() { "messages/s" } else { "responses/s" },
            Figure::from_events(results.summary.rate(), whole.responses, Unit::of("")),
            "mean of the run",
        )
        .trend(rows.iter().map(Row::rate)),
        Card::new("p50", latency(0.5), from).trend(trend(0.5)),
        Card::new("p99", latency(0.99), from).trend(trend(0.99)),
        Card::new("slowest", latency(1.0), from).trend(trend(1.0)),
        Card::new("failed", exact(whole.failed()), share(whole.failed(), whole.ended()))
            .trend(rows.iter().map(|row| row.errors as f64)),
        Card::new("on reused connections", exact(whole.reused), share(whole.reused, whole.responses)),
    ]
}

fn result(results: &HttpResults<'_>) -> Section {
    let summary = results.summary;
    let whole = summary.record.whole();
    let count = |value: u64, unit: &str| Figure::exact(value as f64, Unit::of(unit));
    let (sent, came) = summary.options.nouns();
    let (title, rate) = if summary.options.is_tcp() { ("Messages", "messages/s") } else { ("Requests", "responses/s") };
    let complete = if summary.options.is_tcp() { "complete" } else { "answered" };
    let counts = Table::new(title, &["what", "how many"])
        .row(vec!["begun".into(), count(whole.begun, sent).into()])
        .row(vec![complete.into(), count(whole.responses, came).into()])
        .row(vec!["failed".into(), count(whole.failed(), sent).into()])
        .row(vec!["rate".into(), Figure::from_events(summary.rate(), whole.responses, Unit::of(rate)).into()]);
    let open = summary.options.pace.is_open();
    let corrected = summary.corrected();
    let (second, names) =
        if open { (&summary.record.service, ["from due", "from sent"]) } else { (&corrected, ["raw", "corrected"]) };
    let mut section = Section::new("Result").table(counts).table(quantiles(&whole.latency, second, names));
    let n = format!("n = {} latencies", whole.latency.count());
    let spectrum = |latencies: &Latencies| latencies.histogram().spectrum(TICKS_PER_HALF);
    let (share, latency) = (Axis::new("share", Unit::Ratio), Axis::new("latency", Unit::Nanoseconds));
    section = section.chart(
        Chart::new("Percentile spectrum", Kind::Spectrum, share, latency, n)
            .series(Series::spectrum(names[0], &spectrum(&whole.latency)))
            .series(Series::spectrum(names[1], &spectrum(second))),
    );
    let failed: Vec<(&str, f64)> = Cause::ALL
        .iter()
        .filter(|cause| whole.failed_by(**cause) > 0)
        .map(|cause| (cause.key(), whole.failed_by(*cause) as f64))
        .collect();
    if !failed.is_empty() {
        let axis = Axis::new(sent, Unit::of(""));
        section =
            section.chart(Chart::bars("Failures by cause", axis, format!("n = {} failures", whole.failed()), &failed));
    }
    section
}

fn quantiles(first: &Latencies, second: &Latencies, names: [&str; 2]) -> Table {
    let mut table = Table::new("Latency", &["quantile", names[0], names[1]]);
    for (name, quantile) in QUANTILES {
        let of = |latencies: &Latencies| {
            Figure::from_events(latencies.quantile_ns(quantile) as f64, latencies.count(), Unit::Nanoseconds)
        };
        table = table.row(vec![name.into(), of(first).into(), of(second).into()]);
    }
    table
}

fn over_time(rows: &[Row]) -> Section {
    let time = || Axis::new("time", Unit::of("s"));
    let basis = format!("n = {} intervals", rows.len());
    let line = |name: &str, value: &dyn Fn(&Row) -> f64| {
        Series::new(name, rows.iter().map(|row| (row.begun.as_secs_f64(), value(row))))
    };
    let latency = Chart::new("Latency", Kind::Lines, time(), Axis::new("latency", Unit::Nanoseconds), basis.clone())
        .series(line("p50", &|row| row.latency.quantile(0.5) as f64))
        .series(line("p99", &|row| row.latency.quantile(0.99) as f64))
        .series(line("max", &|row| row.latency.quantile(1.0) as f64));
    let rate = Chart::new("Rate", Kind::Lines, time(), Axis::new("rate", Unit::of("1/s")), basis)
        .series(line("responses", &Row::rate));
    let mut section = Section::new("Over time").chart(latency).chart(rate);
    let per_second = |row: &Row, count: u64| count as f64 / row.length.as_secs_f64().max(f64::MIN_POSITIVE);
    let basis = format!("n = {} intervals", rows.len());
    let mut errors = Chart::new("Errors", Kind::Lines, time(), Axis::new("rate", Unit::of("1/s")), basis)
        .series(line("failures and statuses from 400", &|row| per_second(row, row.errors)));
    for cause in Cause::ALL.iter().filter(|cause| rows.iter().any(|row| row.failed_by(**cause) > 0)) {
        errors = errors.series(line(cause.key(), &|row| per_second(row, row.failed_by(*cause))));
    }
    if rows.iter().any(|row| row.errors > 0) {
        section = section.chart(errors);
    }
    section
}
