//! The report on TLS handshakes: lines of text, data, and a section of the page.

use super::figures::{Latency, QUANTILES};
use super::units::time;
use crate::Latencies;
use crate::tls::Handshakes;
use report::text::grouped;
use report::{Figure, Section, Severity, Table, Unit};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

/// Handshake figures as data.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct HandshakeFigures {
    /// Full handshakes, with a key exchange and a certificate.
    pub(crate) full: u64,
    /// Handshakes that resumed a session.
    pub(crate) resumed: u64,
    /// Both kinds per second.
    pub(crate) rate: f64,
    /// Number of handshakes by protocol and cipher.
    pub(crate) agreed: BTreeMap<String, u64>,
    /// Idle connections that the target closed without `close_notify`.
    pub(crate) closed_without_notify: u64,
    /// The first error of a failed handshake.
    pub(crate) failure: Option<String>,
    /// From established TCP to the end of the handshake.
    pub(crate) time_full: Latency,
    pub(crate) time_resumed: Latency,
}

impl HandshakeFigures {
    pub(crate) fn new(handshakes: &Handshakes, elapsed: Duration) -> Self {
        Self {
            full: handshakes.full.count(),
            resumed: handshakes.resumed.count(),
            rate: rate(handshakes, elapsed),
            agreed: handshakes.agreed.clone(),
            closed_without_notify: handshakes.truncated,
            failure: handshakes.failure.clone(),
            time_full: Latency::from(&handshakes.full),
            time_resumed: Latency::from(&handshakes.resumed),
        }
    }
}

fn rate(handshakes: &Handshakes, elapsed: Duration) -> f64 {
    handshakes.count() as f64 / elapsed.as_secs_f64().max(f64::MIN_POSITIVE)
}

/// Adds the lines of the text report.
pub(crate) fn lines(handshakes: &Handshakes, elapsed: Duration, text: &mut String) {
    let Handshakes { full, resumed, agreed, truncated, failure } = handshakes;
    let times = |latencies: &Latencies| {
        if latencies.count() == 0 {
            return String::new();
        }
        let of = |quantile| time(latencies.quantile_ns(quantile) as f64);
        format!(" (p50 {}, p99 {})", of(0.5), of(0.99))
    };
    let _ = writeln!(
        text,
        "handshakes  {} full{}, {} resumed{}; {:.1}/s",
        grouped(full.count()),
        times(full),
        grouped(resumed.count()),
        times(resumed),
        rate(handshakes, elapsed),
    );
    if !agreed.is_empty() {
        let agreed: Vec<String> = agreed.iter().map(|(name, count)| format!("{name}: {}", grouped(*count))).collect();
        let _ = writeln!(text, "            {}", agreed.join(", "));
    }
    if *truncated > 0 {
        let _ = writeln!(
            text,
            "            {} connections closed by the target without close_notify between two responses",
            grouped(*truncated)
        );
    }
    if let Some(failure) = failure {
        let _ = writeln!(text, "            one that failed: {failure}");
    }
}

/// The section of the page.
pub(crate) fn section(handshakes: &Handshakes, elapsed: Duration) -> Section {
    let count = |value: u64| Figure::exact(value as f64, Unit::of("handshakes")).into();
    let mut counts = Table::new("Handshakes", &["what", "how many"])
        .row(vec!["full".into(), count(handshakes.full.count())])
        .row(vec!["resumed".into(), count(handshakes.resumed.count())]);
    let per_second = Figure::from_events(rate(handshakes, elapsed), handshakes.count(), Unit::of("handshakes/s"));
    counts = counts.row(vec!["rate".into(), per_second.into()]);
    for (agreed, how_many) in &handshakes.agreed {
        counts = counts.row(vec![agreed.clone().into(), count(*how_many)]);
    }
    let mut times = Table::new("Time of a handshake", &["quantile", "full", "resumed"]);
    for (name, quantile) in QUANTILES {
        let of = |latencies: &Latencies| {
            Figure::from_events(latencies.quantile_ns(quantile) as f64, latencies.count(), Unit::Nanoseconds).into()
        };
        times = times.row(vec![name.into(), of(&handshakes.full), of(&handshakes.resumed)]);
    }
    let mut section = Section::new("TLS").table(counts).table(times);
    if handshakes.truncated > 0 {
        let text = format!("{} connections were closed by the target without close_notify", handshakes.truncated);
        section = section.note(Severity::Note, text);
    }
    match &handshakes.failure {
        Some(failure) => section.note(Severity::Error, format!("One that failed: {failure}")),
        None => section,
    }
}
