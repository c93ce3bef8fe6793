//! The charts: sockets by TCP state over time, throughput and percentiles over the rounds, CPU by arm, memory over time. A
//! page stays small for every run: a chart over time shows one typical round of each arm, and a series has a limited number
//! of points.

use super::arms::{Arm, Arms};
use super::ceiling::total;
use super::tables::probed_port;
use crate::{Sample, figure};
use report::{Axis, Chart, Kind, Section, Series, Unit};

/// Most points of a series in the report: more are indistinguishable, and each adds to the page. The record has all of
/// them.
const POINTS_MAX: usize = 300;
/// Most lines of a chart: as many as colour and dash can distinguish.
const LINES_MAX: usize = 8;

/// All charts; figures without measurements have none.
pub(super) fn sections(arms: &Arms<'_>) -> Vec<Section> {
    let sections = [over_rounds(arms), cpu(arms), states(arms), memory(arms)];
    sections.into_iter().filter(|section| !section.blocks.is_empty()).collect()
}

fn over_rounds(arms: &Arms<'_>) -> Section {
    let mut section = Section::new("Over the rounds");
    let titles = [
        ("Throughput in each round", "requests_per_second", "requests/s"),
        ("Median latency in each round", "latency_ms.p50", "p50"),
        ("99th percentile in each round", "latency_ms.p99", "p99"),
    ];
    for (title, of, name) in titles.into_iter().filter(|(_, of, _)| arms.has(of)) {
        let (unit, factor) = figure::unit(of);
        for arms in arms.as_slice().chunks(LINES_MAX) {
            let axes = (Axis::new("round", Unit::of("")), axis(name, unit.clone()));
            let mut chart = Chart::new(title, Kind::Lines, axes.0, axes.1, "one point per sample that counts");
            for arm in arms {
                let points = arm.samples.iter().filter_map(|sample| {
                    Some((f64::from(sample.round) + 1.0, sample.figures.get(of).copied()? * factor))
                });
                chart = chart.series(Series::new(arm.name, points));
            }
            section = section.chart(chart);
        }
    }
    section
}

fn cpu(arms: &Arms<'_>) -> Section {
    let mut section = Section::new("CPU per request");
    for process in arms.processes() {
        let of = format!("cpu_us_per_request.{process}");
        let (unit, factor) = figure::unit(&of);
        let bars: Vec<(&str, f64)> =
            arms.iter().filter_map(|arm| Some((arm.name, arm.median(&of)? * factor))).collect();
        if !bars.is_empty() {
            let title = format!("CPU per request of {process}");
            section =
                section.chart(Chart::bars(&title, axis("CPU per request", unit), "medians over the rounds", &bars));
        }
    }
    section
}

/// A chart of the states for each arm, at the first probed port, or else on the host with the most sockets. Also a chart of
/// all sockets at each probed port, with one line per arm.
fn states(arms: &Arms<'_>) -> Section {
    let mut section = Section::new("Sockets over time");
    let probes: Vec<&str> = arms.record.experiment.probes.iter().filter_map(probed_port).collect();
    for probe in &probes {
        for arms in arms.as_slice().chunks(LINES_MAX) {
            let title = format!("All sockets of probe {probe}");
            let mut chart = Chart::new(&title, Kind::Lines, time(), sockets_axis(), "a typical round of each arm");
            for (arm, sample) in typical(arms) {
                let points = thinned(&total(sample, probe));
                if !points.is_empty() {
                    chart = chart.series(Series::new(arm.name, in_nanoseconds(&points)));
                }
            }
            if !chart.series.is_empty() {
                section = section.chart(chart);
            }
        }
    }
    for (arm, sample) in typical(arms.as_slice()) {
        let place = probes.first().copied().or_else(|| busiest_host(sample, arms));
        let Some(place) = place else { continue };
        let prefix = format!("sockets.{place}.");
        let title = format!("{}: sockets by TCP state, {place}", arm.name);
        let mut chart = Chart::new(&title, Kind::Stacked, time(), sockets_axis(), round_of(sample, arm));
        for (name, series) in &sample.series {
            let Some(state) = name.strip_prefix(&prefix) else { continue };
            if series.iter().any(|(_, value)| *value > 0.0) {
                chart = chart.series(Series::new(state, in_nanoseconds(&thinned(series))));
            }
        }
        if !chart.series.is_empty() {
            section = section.chart(chart);
        }
    }
    section
}

/// The host with the most sockets at one time in a sample.
fn busiest_host<'a>(sample: &Sample, arms: &Arms<'a>) -> Option<&'a str> {
    let most = |host: &str| total(sample, host).iter().map(|(_, value)| *value).fold(0.0, f64::max);
    let hosts = arms.record.experiment.hosts.keys().map(String::as_str);
    let hosts = hosts.chain(arms.record.experiment.hosts.is_empty().then_some("here"));
    hosts.max_by(|a, b| most(a).total_cmp(&most(b)))
}

/// A chart for each process with memory figures, with a line for each arm.
fn memory(arms: &Arms<'_>) -> Section {
    let mut section = Section::new("Memory and CPU over time");
    for (prefix, what) in [("rss_mb", "Resident memory"), ("cores", "Cores used")] {
        for process in arms.processes() {
            let name = format!("{prefix}.{process}");
            for arms in arms.as_slice().chunks(LINES_MAX) {
                let y = axis(what, figure::unit(&name).0);
                let title = format!("{what}: {process}");
                let mut chart = Chart::new(&title, Kind::Lines, time(), y, "a typical round of each arm");
                for (arm, sample) in typical(arms) {
                    if let Some(series) = sample.series.get(&name).filter(|series| !series.is_empty()) {
                        chart = chart.series(Series::new(arm.name, in_nanoseconds(&thinned(series))));
                    }
                }
                if !chart.series.is_empty() {
                    section = section.chart(chart);
                }
            }
        }
    }
    section
}

fn typical<'s, 'a>(arms: &'s [Arm<'a>]) -> impl Iterator<Item = (&'s Arm<'a>, &'a Sample)> {
    arms.iter().filter_map(|arm| Some((arm, arm.typical()?)))
}

fn round_of(sample: &Sample, arm: &Arm<'_>) -> String {
    format!("round {}, that of the median throughput of {}", sample.round + 1, arm.samples.len())
}

/// A unit that is a word goes into the title once, because the axis has no room for it on a phone.
fn axis(title: &str, unit: Unit) -> Axis {
    match unit {
        Unit::Of(name) if name.is_empty() || name == title => Axis::new(title, Unit::of("")),
        Unit::Of(name) => Axis::new(&format!("{title}, {name}"), Unit::of("")),
        unit => Axis::new(title, unit),
    }
}

fn time() -> Axis {
    Axis::new("time since the load began", Unit::Nanoseconds)
}

fn sockets_axis() -> Axis {
    Axis::new("sockets", Unit::of(""))
}

fn in_nanoseconds(points: &[(f64, f64)]) -> impl Iterator<Item = (f64, f64)> {
    points.iter().map(|(seconds, value)| (seconds * 1e9, *value))
}

/// Reduces the number of points: each group becomes its last time with its largest value, so that short peaks stay visible.
/// All series of a sample are grouped alike, so that they can be stacked.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let stride = points.len().div_ceil(POINTS_MAX).max(1);
    let stretches = points.chunks(stride).filter_map(|stretch| {
        let most = stretch.iter().map(|(_, value)| *value).fold(f64::NEG_INFINITY, f64::max);
        stretch.last().map(|(at, _)| (*at, most))
    });
    stretches.collect()
}
