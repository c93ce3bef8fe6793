//! Holdfast's own report: the load, the responses, the latencies in each sense, the failures with their causes, and whether
//! the generator distorted the run.

use crate::results::http::HttpResults;
use crate::results::http::page::answer;
use crate::results::units::{bytes, time};
use crate::results::words::{agents, condition, lateness, plan_line, tcp, thresholds, whose};
use crate::{Cause, Latencies, Pace, Spacing, Tally};
use report::text::grouped;
use std::fmt::Write as _;

/// Quantiles shown.
const QUANTILES: [(&str, f64); 7] =
    [("p50", 0.5), ("p75", 0.75), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999), ("max", 1.0)];

pub(crate) fn render(results: &HttpResults<'_>) -> String {
    let whole = results.summary.record.whole();
    let mut text = String::new();
    asked(results, &mut text);
    came(results, &whole, &mut text);
    if whole.latency.count() > 0 {
        latencies(results, &whole, &mut text);
    }
    failures(&whole, &mut text);
    if results.summary.options.scenario.is_some() {
        crate::results::http::scenario::lines(results.summary, &mut text);
    } else if results.summary.record.targets.len() > 1 {
        targets(results, &mut text);
    }
    if let Some(sockets) = results.sockets {
        tcp(sockets, &mut text);
    }
    agents(&results.summary.agents, &mut text);
    generator(results, &mut text);
    thresholds(results.health, results.verdicts, &mut text);
    let _ = writeln!(text, "\n{}", answer(results));
    text
}

/// Stages in the line of the load.
const STAGES_SHOWN: usize = 8;

fn asked(results: &HttpResults<'_>, text: &mut String) {
    let options = &results.summary.options;
    if let Some(scenario) = &options.scenario {
        let _ = writeln!(text, "scenario    {}", scenario.name);
    }
    let lead = |index: usize| if index == 0 { "target" } else { "" };
    for (index, (target, address)) in options.targets.iter().zip(&results.summary.addresses).enumerate().take(10) {
        let address = options.places.shown(*address);
        let _ = writeln!(text, "{:<11} {} {} ({address})", lead(index), target.method, target.url);
    }
    let pace = match &options.pace {
        Pace::Closed { think } if think.1.is_zero() && options.ramp.is_empty() => "closed loop".to_owned(),
        Pace::Closed { think } if think.1.is_zero() => format!("closed loop in {} stages", options.ramp.len()),
        Pace::Closed { think } => format!("closed loop, thinking {:?} to {:?}", think.0, think.1),
        Pace::Open { stages, spacing } => {
            let random = if *spacing == Spacing::Poisson { ", at random" } else { "" };
            let word = if options.scenario.is_some() { format!(" iterations{random}") } else { random.to_owned() };
            let rates: Vec<String> = stages
                .iter()
                .map(|stage| match stage.from {
                    from if (from - stage.to).abs() < f64::EPSILON => format!("{from}/s"),
                    from => format!("{from} to {}/s", stage.to),
                })
                .collect();
            match rates.len() {
                0..=STAGES_SHOWN => format!("open loop, {}{word}", rates.join(", then ")),
                stages => {
                    let most = stages_max(&options.pace);
                    format!("open loop, {} stages, at most {most:.1}/s{word}", grouped(stages as u64))
                }
            }
        }
    };
    let kept = match (options.keepalive, options.is_tcp()) {
        (true, _) => "kept",
        (false, false) => "one per request",
        (false, true) => "one per message",
    };
    let depth = match (options.is_http2(), options.pipeline) {
        (true, _) => format!(", {} over HTTP/2", many(options.streams, "stream on each", "streams on each")),
        (false, 1) => String::new(),
        (false, depth) => format!(", {depth} in flight on each"),
    };
    let _ = writeln!(
        text,
        "load        {pace}; {} {} ({kept}{depth}), {} thread{}{}, {:.2} s{}{}",
        grouped(options.connections as u64),
        if options.scenario.is_some() { "users, connections" } else { "connections" },
        results.summary.threads,
        if results.summary.threads == 1 { "" } else { "s" },
        if !results.summary.agents.is_empty() {
            format!(" on {} agents", results.summary.agents.len())
        } else if results.summary.processes > 1 {
            format!(" in {} processes", results.summary.processes)
        } else {
            String::new()
        },
        results.summary.elapsed.as_secs_f64(),
        if results.summary.stopped { ", stopped by hand" } else { "" },
        if options.warm_up.is_zero() { String::new() } else { format!(", after {:?} of warm-up", options.warm_up) },
    );
    let _ = writeln!(text, "{}\n", plan_line(&results.summary.plan));
}

fn stages_max(pace: &Pace) -> f64 {
    match pace {
        Pace::Open { stages, .. } => crate::Schedule::new(stages.clone()).rate_max(),
        Pace::Closed { .. } => 0.0,
    }
}

fn many(count: usize, one: &str, several: &str) -> String {
    format!("{} {}", grouped(count as u64), if count == 1 { one } else { several })
}

fn came(results: &HttpResults<'_>, whole: &Tally, text: &mut String) {
    let summary = results.summary;
    let record = &summary.record;
    let seconds = summary.elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
    let (sent, came) = summary.options.nouns();
    let _ = writeln!(
        text,
        "{sent:<11} {} begun, {} {}, {} failed{}",
        grouped(whole.begun),
        grouped(whole.responses),
        if summary.options.is_tcp() { "complete" } else { "answered" },
        grouped(whole.failed()),
        if record.cut_off > 0 { format!(", {} cut off", grouped(record.cut_off)) } else { String::new() },
    );
    let _ = writeln!(
        text,
        "rate        {:.1} {came}/s; received {}/s, sent {}/s",
        summary.rate(),
        bytes(whole.bytes_received as f64 / seconds),
        bytes(whole.bytes_sent as f64 / seconds)
    );
    let mut statuses = whole.statuses.clone();
    statuses.sort_unstable();
    let statuses: Vec<String> =
        statuses.iter().map(|(status, count)| format!("{status}: {}", grouped(*count))).collect();
    if !statuses.is_empty() {
        let _ = writeln!(text, "status      {}", statuses.join(", "));
    }
    let reused = whole.reused as f64 / (whole.responses.max(1)) as f64 * 100.0;
    let _ = writeln!(
        text,
        "connections {} opened, {} established (p50 {}, p99 {}); {reused:.2} % of the {came} on reused ones; \
         closed first by the target {}, by the load {}",
        grouped(record.opened),
        grouped(record.established),
        time(record.connect.quantile_ns(0.5) as f64),
        time(record.connect.quantile_ns(0.99) as f64),
        grouped(record.closed_by_target),
        grouped(record.closed_by_load),
    );
    if let Some(handshakes) = &record.tls {
        crate::results::tls::lines(handshakes, summary.elapsed, text);
    }
    if let Some(streams) = &record.streams {
        crate::results::http::streams::lines(streams, summary, text);
    }
    if record.waiting_max > 0 {
        let what = if summary.options.is_http2() { "stream" } else { "connection" };
        let _ = writeln!(
            text,
            "in line     at most {} {sent} waited for a free {what} in one thread",
            grouped(record.waiting_max)
        );
    }
    text.push('\n');
}

fn latencies(results: &HttpResults<'_>, whole: &Tally, text: &mut String) {
    let summary = results.summary;
    let corrected = summary.corrected();
    let (first, second, note): (&Latencies, &Latencies, String) = if summary.options.pace.is_open() {
        let note = "from due: from the moment it was due. from sent: from the moment it was written; what a\n\
                    closed loop would show.";
        (&whole.latency, &summary.record.service, note.to_owned())
    } else {
        let interval = time(summary.loop_interval_ns() as f64);
        let note = format!(
            "raw: from sending. corrected: as if each connection had gone on sending every {interval} (its mean) while it\n\
             waited. Only --rate measures that."
        );
        (&whole.latency, &corrected, note)
    };
    let heads = if summary.options.pace.is_open() { ["from due", "from sent"] } else { ["raw", "corrected"] };
    let _ = writeln!(text, "latency     {:>12} {:>12}", heads[0], heads[1]);
    let mut row = |name: &str, of: &dyn Fn(&Latencies) -> f64| {
        let _ = writeln!(text, "  {name:<9} {:>12} {:>12}", time(of(first)), time(of(second)));
    };
    row("mean", &Latencies::mean_ns);
    for (name, quantile) in QUANTILES {
        row(name, &|latencies| latencies.quantile_ns(quantile) as f64);
    }
    let _ = writeln!(text, "  {:<9} {:>12} {:>12}", "count", grouped(first.count()), grouped(second.count()));
    for line in note.lines() {
        let _ = writeln!(text, "  {line}");
    }
    text.push('\n');
}

fn failures(whole: &Tally, text: &mut String) {
    for cause in Cause::ALL.iter().filter(|cause| whole.failed_by(**cause) > 0) {
        let _ = writeln!(text, "failed      {}: {}", grouped(whole.failed_by(*cause)), cause.text());
    }
    if whole.failed() > 0 {
        text.push('\n');
    }
}

/// Rows in the table of targets.
const TARGETS_SHOWN: usize = 50;

fn targets(results: &HttpResults<'_>, text: &mut String) {
    let summary = results.summary;
    let _ = writeln!(
        text,
        "{:>12} {:>8} {:>10} {:>10} {:>10}  target",
        summary.options.nouns().1,
        "errors",
        "p50",
        "p99",
        "max"
    );
    for (target, tally) in summary.options.targets.iter().zip(&summary.record.targets).take(TARGETS_SHOWN) {
        let _ = writeln!(
            text,
            "{:>12} {:>8} {:>10} {:>10} {:>10}  {} {}",
            grouped(tally.responses),
            grouped(tally.errors()),
            time(tally.latency.quantile_ns(0.5) as f64),
            time(tally.latency.quantile_ns(0.99) as f64),
            time(tally.latency.max_ns() as f64),
            target.method,
            target.url,
        );
    }
    text.push('\n');
}

fn generator(results: &HttpResults<'_>, text: &mut String) {
    let (summary, health) = (results.summary, results.health);
    let record = &summary.record;
    let cpu_us = record.generator.spent.cpu_ns as f64 / 1e3 / (record.whole().responses.max(1)) as f64;
    let each = if summary.options.is_tcp() { "message" } else { "response" };
    let _ = writeln!(
        text,
        "generator   late by {}; {cpu_us:.2} us CPU per {each}; busiest thread {:.0} %",
        lateness(&record.generator.lag),
        health.busy_share * 100.0,
    );
    whose(&record.generator.lag_own, &record.generator.turn, health.machine, text);
    condition(health, results.verdicts, text);
}
