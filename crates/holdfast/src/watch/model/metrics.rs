//! A look as Prometheus metrics (text format 0.0.4). They complement `node_exporter`, which has the counters of /proc: what is
//! here needs every socket looked at. Every set of labels is bounded, and the series of a metric stand together, as the format wants. Pure.

use super::closers::Peer;
use super::destinations::Destination;
use super::listeners::Listener;
use super::picture::Picture;
use sockdiag::State;
use std::fmt::Write as _;

/// Time series with an address in their labels, per metric: the listeners in the greatest need, the destinations that use the
/// most ports, the peers with the most closes. What is beyond is in the sums.
const LABELLED_MAX: usize = 32;

/// The page.
pub(crate) fn encode(picture: &Picture) -> String {
    let mut page = Page(String::new());
    page.states(picture);
    page.listeners(picture);
    page.destinations(picture);
    page.queues(picture);
    page.closes(picture);
    page.missed(picture);
    page.metric("holdfast_look_seconds", "gauge", "What the last look took.");
    page.value("holdfast_look_seconds", "", picture.took_ms / 1e3);
    page.0
}

struct Page(String);

impl Page {
    fn metric(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// `labels` without braces; addresses and names of states need no escaping.
    fn value(&mut self, name: &str, labels: &str, value: f64) {
        let _ = if labels.is_empty() {
            writeln!(self.0, "{name} {value}")
        } else {
            writeln!(self.0, "{name}{{{labels}}} {value}")
        };
    }

    fn states(&mut self, picture: &Picture) {
        self.metric("holdfast_sockets", "gauge", "TCP sockets by state.");
        for state in State::ALL {
            self.value("holdfast_sockets", &format!("state=\"{state}\""), picture.tally.all.of(state) as f64);
        }
        self.metric("holdfast_port_sockets", "gauge", "TCP sockets with a chosen port at either end, by state.");
        for (port, histogram) in &picture.tally.ports {
            for state in State::ALL {
                let labels = format!("port=\"{port}\",state=\"{state}\"");
                self.value("holdfast_port_sockets", &labels, histogram.of(state) as f64);
            }
        }
    }

    fn listeners(&mut self, picture: &Picture) {
        // Listeners with SO_REUSEPORT share an address, wherever their need puts them, and series must differ.
        let mut named = Vec::new();
        for listener in &picture.listeners {
            if named.len() < LABELLED_MAX && !named.contains(&listener.address) {
                named.push(listener.address);
            }
        }
        type Value = fn(&Listener) -> Option<u32>;
        let metrics: [(&str, &str, &str, Value); 3] = [
            ("queue", "gauge", "Connections that wait for accept().", |listener| Some(listener.queue)),
            ("backlog", "gauge", "Accept queue that the kernel granted.", |listener| listener.granted),
            ("drops_total", "counter", "SYNs and connections that a listener dropped.", |listener| listener.drops),
        ];
        for (name, kind, help, value) in metrics {
            let name = format!("holdfast_listener_{name}");
            self.metric(&name, kind, help);
            for address in &named {
                let same = picture.listeners.iter().filter(|listener| listener.address == *address);
                let known: Vec<f64> = same.filter_map(value).map(f64::from).collect();
                // What /proc does not tell is no zero.
                if !known.is_empty() {
                    self.value(&name, &format!("address=\"{address}\""), known.iter().sum());
                }
            }
        }
    }

    fn destinations(&mut self, picture: &Picture) {
        self.metric("holdfast_destination_ports", "gauge", "Local ports towards a destination: used, time_wait, free.");
        let labels =
            |destination: &Destination| format!("local=\"{}\",remote=\"{}\"", destination.local, destination.remote);
        let shown = || picture.destinations.iter().take(LABELLED_MAX);
        for destination in shown() {
            for (kind, ports) in [
                ("used", Some(destination.used)),
                ("time_wait", Some(destination.time_wait)),
                ("free", destination.free),
            ] {
                if let Some(ports) = ports {
                    let labels = format!("{},kind=\"{kind}\"", labels(destination));
                    self.value("holdfast_destination_ports", &labels, f64::from(ports));
                }
            }
        }
        self.metric("holdfast_destination_exhausted_seconds", "gauge", "Until no port is left, at the present pace.");
        for destination in shown() {
            if let Some(seconds) = destination.exhausted_in_s {
                self.value("holdfast_destination_exhausted_seconds", &labels(destination), seconds);
            }
        }
    }

    fn queues(&mut self, picture: &Picture) {
        self.metric("holdfast_queued_sockets", "gauge", "Sockets with bytes in a queue, by cause.");
        for (cause, sockets, _) in &picture.causes {
            self.value("holdfast_queued_sockets", &format!("cause=\"{}\"", cause.label()), *sockets as f64);
        }
        self.metric("holdfast_queued_bytes", "gauge", "Bytes in their longer queues, by cause.");
        for (cause, _, bytes) in &picture.causes {
            self.value("holdfast_queued_bytes", &format!("cause=\"{}\"", cause.label()), *bytes as f64);
        }
    }

    fn closes(&mut self, picture: &Picture) {
        self.metric("holdfast_closes_total", "counter", "Connections closed, by who closed first.");
        let each = |closes: super::closers::Closes| {
            [("this_side", closes.this_side), ("peer", closes.peer), ("unknown", closes.unknown)]
        };
        for (first, count) in each(picture.closes) {
            self.value("holdfast_closes_total", &format!("first=\"{first}\""), count as f64);
        }
        self.metric("holdfast_peer_closes_total", "counter", "The same for the peers with the most closes.");
        for (peer, closes) in picture.closers.iter().take(LABELLED_MAX) {
            let peer = match peer {
                Peer::To(address) => format!("direction=\"to\",peer=\"{address}\""),
                Peer::From(address, port) => format!("direction=\"from\",peer=\"{address}\",port=\"{port}\""),
                Peer::Others => "direction=\"\",peer=\"others\"".to_owned(),
                Peer::Forgotten => "direction=\"\",peer=\"forgotten\"".to_owned(),
            };
            for (first, count) in each(*closes) {
                self.value("holdfast_peer_closes_total", &format!("{peer},first=\"{first}\""), count as f64);
            }
        }
    }

    fn missed(&mut self, picture: &Picture) {
        let Some((_, sum)) = &picture.missed else { return };
        for (name, what, counted, seen) in [
            ("holdfast_opens_total", "opened", sum.opened, sum.opens_seen + sum.opens_seen_dying),
            ("holdfast_ends_total", "ended", sum.closed, sum.closes_seen),
        ] {
            self.metric(name, "counter", &format!("Connections {what}, by the kernel's counters and as seen."));
            self.value(name, "by=\"counters\"", counted as f64);
            self.value(name, "by=\"seen\"", seen as f64);
        }
        self.metric("holdfast_passed_over_total", "counter", "Connections that a look missed and those beside it saw.");
        self.value("holdfast_passed_over_total", "", sum.passed_over as f64);
        self.metric("holdfast_event_overruns_total", "counter", "Times that the kernel's queue of events was full.");
        self.value("holdfast_event_overruns_total", "", sum.overruns as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::model::tables::tests::picture;

    #[test]
    fn a_look_is_a_page_of_series_that_differ() {
        let page = encode(&picture());
        for expected in [
            "# TYPE holdfast_sockets gauge",
            "holdfast_sockets{state=\"TIME_WAIT\"} 120",
            "holdfast_port_sockets{port=\"10000\",state=\"TIME_WAIT\"} 120",
            "holdfast_listener_queue{address=\"0.0.0.0:80\"} 129",
            "holdfast_destination_ports{local=\"10.0.0.1\",remote=\"10.0.0.2:10000\",kind=\"free\"} 1222",
            "holdfast_destination_exhausted_seconds{local=\"10.0.0.1\",remote=\"10.0.0.2:10000\"} 20",
            "holdfast_closes_total{first=\"this_side\"} 990",
            "holdfast_opens_total{by=\"seen\"} 99",
            "holdfast_look_seconds 0.0015",
        ] {
            assert!(page.lines().any(|line| line == expected), "{expected} is not in\n{page}");
        }
        let mut series: Vec<&str> = page
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| line.rsplit_once(' '))
            .map(|(s, _)| s)
            .collect();
        let count = series.len();
        series.sort_unstable();
        series.dedup();
        assert_eq!(series.len(), count, "{page}");
        testkit::assert_metrics_are_sound(&page);
    }

    #[test]
    fn listeners_that_share_an_address_are_one_series_whatever_stands_between_them() {
        let mut shared = picture();
        let row = shared.listeners[0].clone();
        let at = |port: u16, queue| {
            let mut listener = row.clone();
            (listener.address, listener.queue) = (([0, 0, 0, 0], port).into(), queue);
            listener
        };
        shared.listeners = vec![at(80, 9), at(81, 5), at(80, 1)];
        let page = encode(&shared);
        let queues: Vec<&str> = page.lines().filter(|line| line.starts_with("holdfast_listener_queue{")).collect();
        assert_eq!(
            queues,
            ["holdfast_listener_queue{address=\"0.0.0.0:80\"} 10", "holdfast_listener_queue{address=\"0.0.0.0:81\"} 5"]
        );
    }

    #[test]
    fn the_series_of_a_metric_stand_together() {
        let page = encode(&picture());
        let mut metric = "";
        for line in page.lines() {
            match line.strip_prefix("# TYPE ").and_then(|rest| rest.split(' ').next()) {
                Some(name) => metric = name,
                None if line.starts_with('#') => {}
                None => assert!(line.starts_with(metric), "{line} stands under {metric}"),
            }
        }
    }

    #[test]
    fn series_with_addresses_are_bounded() {
        let mut many = picture();
        let row = many.destinations[0].clone();
        many.destinations =
            (1..=1000_u16).map(|port| Destination { remote: ([10, 0, 0, 2], port).into(), ..row.clone() }).collect();
        let page = encode(&many);
        let free = page.lines().filter(|line| line.contains("kind=\"free\"")).count();
        assert_eq!(free, LABELLED_MAX);
    }
}
