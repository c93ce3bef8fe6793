//! The page of a load that runs, for Prometheus. What is on it comes from the protocol's module; what the kernel says of the sockets is
//! the same for all. The format itself is `report::prometheus`.

use super::sockets::account::Look;
use crate::{GeneratorRecord, Latencies, Ticks};
use report::prometheus::{self, Kind};

/// A page in the making.
#[derive(Debug, Default)]
pub(crate) struct Page(prometheus::Page);

impl Page {
    /// The text, with what the last look saw.
    pub(crate) fn finish(mut self, look: Option<&Look>) -> String {
        if let Some(look) = look {
            self.sockets(look);
        }
        self.0.into_text()
    }

    /// A metric of one value.
    pub(crate) fn one(&mut self, name: &str, kind: Kind, help: &str, value: impl std::fmt::Display) {
        self.0.one(&full(name), kind, help, value);
    }

    /// Counts by some label; those that are zero are left out.
    pub(crate) fn by<K: AsRef<str>>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        counts: impl IntoIterator<Item = (K, u64)>,
    ) {
        let present = counts.into_iter().filter(|(_, count)| *count > 0);
        self.0.family(&full(name), Kind::Counter, help).samples(&[], label, present);
    }

    /// Times in seconds, as a summary: the quantiles are those of the last interval, sum and count go on over the run.
    pub(crate) fn times(&mut self, name: &str, help: &str, last: &Latencies, whole: &Latencies) {
        let quantiles = [0.5, 0.9, 0.99, 0.999].map(|q| (q, last.quantile_ns(q) as f64 / 1e9));
        let (count, sum) = (whole.count(), whole.mean_ns() * whole.count() as f64 / 1e9);
        self.0.family(&full(name), Kind::Summary, help).summary(&[], quantiles, sum, count);
    }

    /// The generator's own condition: how late it was and the cause, in the last interval and in the whole.
    pub(crate) fn generator(&mut self, last: &GeneratorRecord, whole: &GeneratorRecord, processors: Ticks) {
        self.times("lag_seconds", "How late the generator itself was.", &last.lag, &whole.lag);
        let help = "The part of that in which it ran, on what was ahead.";
        self.times("lag_own_seconds", help, &last.lag_own, &whole.lag_own);
        if let Some(waited_ns) = whole.spent.waited_ns {
            let help = "Time in which threads of the generator waited for a processor.";
            self.one("waited_seconds_total", Kind::Counter, help, waited_ns as f64 / 1e9);
        }
        if let Some(share) = processors.stolen_share() {
            let help = "Share of the processors' time that the host took away in the last interval.";
            self.one("host_stolen_ratio", Kind::Gauge, help, share);
        }
    }

    fn sockets(&mut self, look: &Look) {
        let states = look.states.present().map(|(state, count)| (state.name(), count));
        let help = "Sockets towards the targets by TCP state.";
        self.0.family(&full("sockets"), Kind::Gauge, help).samples(&[], "state", states);
        let closes = [("target", look.closes.peer), ("load", look.closes.this_side), ("unknown", look.closes.unknown)];
        let help = "Connections by who closed first.";
        self.0.family(&full("closed_first_total"), Kind::Counter, help).samples(&[], "by", closes);
        let help = "Segments sent again towards the targets.";
        self.one("segments_sent_again_total", Kind::Counter, help, look.sent_again);
        self.one("sockets_window_zero", Kind::Gauge, "Sockets whose target does not read.", look.window_zero);
        self.one("sockets_unread", Kind::Gauge, "Sockets with bytes that the load has not read.", look.unread);
    }
}

/// The name of a family, with what all of a load's begin with.
fn full(name: &str) -> String {
    format!("holdfast_load_{name}")
}
