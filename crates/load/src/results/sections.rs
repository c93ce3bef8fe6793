//! Sections that the page of every load has: sockets, thresholds, the generator's own condition.

use crate::drive::sockets::Sockets;
use crate::drive::sockets::account::Look;
use crate::results::words::outcome;
use crate::{GeneratorRecord, Health, Latencies, Verdict};
use report::{Axis, Chart, Figure, Kind, Section, Series, Severity, Table, Unit};

/// Points of the spectrum for each halving of the distance to 100 %.
pub(crate) const TICKS_PER_HALF: u32 = 5;

/// The sockets towards the targets: states over time, who closed first, and sockets whose data is stuck.
pub(crate) fn tcp(sockets: &Sockets) -> Section {
    let looks = &sockets.looks;
    let kept = looks.kept();
    let basis = format!("n = {} looks, {}", kept.len(), sockets.source);
    // The chart's title names the unit, because a unit at each axis mark would not fit on a phone.
    let axes = |what: &str| (Axis::new("time", Unit::of("s")), Axis::new(what, Unit::of("")));
    let line = |name: &str, value: &dyn Fn(&Look) -> u64| {
        Series::new(name, kept.iter().map(|look| (look.at.as_secs_f64(), value(look) as f64)))
    };
    let (x, y) = axes("sockets");
    let mut states = Chart::new("Sockets by state", Kind::Stacked, x, y, basis.clone());
    for (state, _) in looks.most().present() {
        states = states.series(line(state.name(), &|look| look.states.of(state)));
    }
    let (x, y) = axes("sockets");
    let stuck = Chart::new("Sockets that do not move", Kind::Lines, x, y, basis.clone())
        .series(line("the target's window is zero", &|look| look.window_zero))
        .series(line("sends again without an answer", &|look| look.no_answer))
        .series(line("not read by the load", &|look| look.unread));
    let (x, y) = axes("segments");
    let again = Chart::new("Segments sent again since the start", Kind::Lines, x, y, basis)
        .series(line("all sockets", &|look| look.sent_again));
    let mut section = Section::new("TCP").chart(states);
    if let Some(after) = looks.after() {
        let count = |value: u64| Figure::exact(value as f64, Unit::of("connections")).into();
        let table = Table::new("Who closed first", &["side", "connections"])
            .row(vec!["the target".into(), count(after.closes.peer)])
            .row(vec!["the load".into(), count(after.closes.this_side)])
            .row(vec!["unknown: a reset leaves no trace of who began".into(), count(after.closes.unknown)]);
        section = section.table(table);
    }
    section = section.chart(stuck).chart(again);
    sockets.notes.iter().fold(section, |section, text| section.note(Severity::Note, text.clone()))
}

/// The thresholds, worded as in the text report.
pub(crate) fn thresholds(health: &Health, verdicts: &[Verdict]) -> Section {
    verdicts.iter().fold(Section::new("Thresholds"), |section, verdict| {
        let why = verdict.undecided.as_ref().map_or_else(String::new, |why| format!("; {why}"));
        section.verdict(report::Verdict {
            claim: verdict.expected.clone(),
            outcome: outcome(health, verdict),
            reason: format!("measured {}{why}", verdict.measured),
            brief: format!("measured {}", verdict.measured),
            evidence: Vec::new(),
        })
    })
}

/// The generator's lag, its cause, and what it means for the run. If the lag matters or the run is void, the section is
/// open.
pub(crate) fn generator(record: &GeneratorRecord, health: &Health, verdicts: &[Verdict]) -> Section {
    let figure = |latencies: &Latencies, quantile: f64| {
        Figure::from_events(latencies.quantile_ns(quantile) as f64, latencies.count(), Unit::Nanoseconds).into()
    };
    let mut table = Table::new("How late it was itself", &["quantile", "lag", "by its own work"]);
    for (name, quantile) in [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)] {
        table = table.row(vec![name.into(), figure(&record.lag, quantile), figure(&record.lag_own, quantile)]);
    }
    let busy = Figure::exact(health.busy_share * 100.0, Unit::Percent);
    let busy =
        Table::new("Its threads", &["what", "share"]).row(vec!["busiest thread, of its time".into(), busy.into()]);
    let mut section = Section::new("The generator").table(table).table(busy);
    let machine = health.machine.to_string();
    if !machine.is_empty() {
        section = section.note(Severity::Note, format!("The machine: {machine}"));
    }
    if let (Some(late), Some(meaning)) = (&health.late, health.of_lateness(verdicts)) {
        section = section.note(Severity::Warning, format!("Late: {late}")).note(Severity::Note, meaning);
    }
    let section =
        health.void.iter().fold(section, |section, text| section.note(Severity::Error, format!("Void: {text}")));
    let section = health.notes.iter().fold(section, |section, text| section.note(Severity::Note, text.clone()));
    let is_sound = health.void.is_empty() && health.late.is_none();
    if is_sound { section.folded() } else { section }
}
