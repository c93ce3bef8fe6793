//! Prometheus' text format, version 0.0.4: the page of a load that runs. What is on it comes from the protocol's module; what the kernel
//! says of the sockets is the same for all.

use super::sockets::account::Look;
use load::{Latencies, Spent, Ticks};
use std::fmt::Write as _;

/// A page in the making.
#[derive(Debug, Default)]
pub(super) struct Page(String);

impl Page {
    /// The text, with what the last look saw.
    pub(super) fn finish(mut self, look: Option<&Look>) -> String {
        if let Some(look) = look {
            self.sockets(look);
        }
        self.0
    }

    /// A metric with its samples: labels as they are written, and values.
    pub(super) fn samples(
        &mut self,
        name: &str,
        kind: &str,
        help: &str,
        samples: impl IntoIterator<Item = (String, f64)>,
    ) {
        let text = &mut self.0;
        let _ = writeln!(text, "# HELP holdfast_load_{name} {help}\n# TYPE holdfast_load_{name} {kind}");
        for (labels, value) in samples {
            let _ = writeln!(text, "holdfast_load_{name}{labels} {value}");
        }
    }

    /// A metric of one value.
    pub(super) fn one(&mut self, name: &str, kind: &str, help: &str, value: u64) {
        self.samples(name, kind, help, [(String::new(), value as f64)]);
    }

    /// Counts by some label; those that are zero are left out.
    pub(super) fn by<K: AsRef<str>>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        counts: impl IntoIterator<Item = (K, u64)>,
    ) {
        let present = counts.into_iter().filter(|(_, count)| *count > 0);
        let samples = present.map(|(key, count)| (format!("{{{label}=\"{}\"}}", key.as_ref()), count as f64));
        self.samples(name, "counter", help, samples.collect::<Vec<_>>());
    }

    /// Times in seconds, as a summary: the quantiles are those of the last interval, sum and count go on over the run.
    pub(super) fn times(&mut self, name: &str, help: &str, last: &Latencies, whole: &Latencies) {
        let sample = |q: f64| (format!("{{quantile=\"{q}\"}}"), last.quantile_ns(q) as f64 / 1e9);
        self.samples(name, "summary", help, [0.5, 0.9, 0.99, 0.999].map(sample));
        let (count, sum) = (whole.count(), whole.mean_ns() * whole.count() as f64 / 1e9);
        let _ = writeln!(self.0, "holdfast_load_{name}_sum {sum}\nholdfast_load_{name}_count {count}");
    }

    /// The generator's own condition: how late it was and by whose doing, in the last interval and in the whole.
    pub(super) fn generator(&mut self, lag: [&Latencies; 2], own: [&Latencies; 2], spent: Spent, processors: Ticks) {
        self.times("lag_seconds", "How late the generator itself was.", lag[0], lag[1]);
        self.times("lag_own_seconds", "The part of that in which it ran, on what was ahead.", own[0], own[1]);
        if let Some(waited_ns) = spent.waited_ns {
            let help = "Time in which threads of the generator waited for a processor.";
            self.samples("waited_seconds_total", "counter", help, [(String::new(), waited_ns as f64 / 1e9)]);
        }
        if let Some(share) = processors.stolen_share() {
            let help = "Share of the processors' time that the host took away in the last interval.";
            self.samples("host_stolen_ratio", "gauge", help, [(String::new(), share)]);
        }
    }

    fn sockets(&mut self, look: &Look) {
        let states = look.states.present().map(|(state, count)| (format!("{{state=\"{state}\"}}"), count as f64));
        self.samples("sockets", "gauge", "Sockets towards the targets by TCP state.", states.collect::<Vec<_>>());
        let closes = [("target", look.closes.peer), ("load", look.closes.this_side), ("unknown", look.closes.unknown)];
        let closes = closes.map(|(side, count)| (format!("{{by=\"{side}\"}}"), count as f64));
        self.samples("closed_first_total", "counter", "Connections by who closed first.", closes);
        self.one("segments_sent_again_total", "counter", "Segments sent again towards the targets.", look.sent_again);
        self.one("sockets_window_zero", "gauge", "Sockets whose target does not read.", look.window_zero);
        self.one("sockets_unread", "gauge", "Sockets with bytes that the load has not read.", look.unread);
    }
}
