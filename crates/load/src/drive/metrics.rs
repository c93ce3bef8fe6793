//! The Prometheus page of a running load. The protocol's module writes its metrics; the metrics of the generator and of the
//! sockets are the same for all loads. `report::prometheus` has the format.

use super::sockets::account::Look;
use crate::{GeneratorRecord, Latencies, Ticks};
use report::metrics::Metric;
use report::prometheus::{self, Kind, Number};

/// A page in the making.
#[derive(Debug)]
pub(crate) struct Page(prometheus::Page);

impl Page {
    /// A page of text, which may collect its metrics as values for servers.
    pub(crate) fn new(is_collecting: bool) -> Self {
        Self(if is_collecting { prometheus::Page::collecting() } else { prometheus::Page::default() })
    }

    /// The finished text and the collected metrics, with the figures of the last look at the sockets.
    pub(crate) fn finish(mut self, look: Option<&Look>) -> (String, Vec<Metric>) {
        if let Some(look) = look {
            self.sockets(look);
        }
        let metrics = self.0.take_metrics();
        (self.0.into_text(), metrics)
    }

    /// A metric with one value.
    pub(crate) fn one(&mut self, name: &str, kind: Kind, help: &str, value: impl Number) {
        self.0.one(&full(name), kind, help, value);
    }

    /// Counts by a label; zero counts are left out.
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

    /// Times in seconds, as a summary: the quantiles are of the last interval; sum and count are of the whole run.
    pub(crate) fn times(&mut self, name: &str, help: &str, last: &Latencies, whole: &Latencies) {
        let quantiles = [0.5, 0.9, 0.99, 0.999].map(|q| (q, last.quantile_ns(q) as f64 / 1e9));
        let (count, sum) = (whole.count(), whole.mean_ns() * whole.count() as f64 / 1e9);
        self.0.family(&full(name), Kind::Summary, help).summary(&[], quantiles, sum, count);
    }

    /// The generator's own condition: its lag and the cause, for the last interval and for the whole run.
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

/// The full name of a metric family, with the prefix of all load metrics.
fn full(name: &str) -> String {
    format!("holdfast_load_{name}")
}
