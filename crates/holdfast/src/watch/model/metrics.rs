//! A look as Prometheus metrics (text format 0.0.4). They complement `node_exporter`, which has the counters of /proc: what is
//! here needs every socket looked at. Every set of labels is bounded. Pure.

use super::closers::Peer;
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
        self.metric("holdfast_listener_queue", "gauge", "Connections that wait for accept().");
        self.metric("holdfast_listener_backlog", "gauge", "Accept queue that the kernel granted.");
        self.metric("holdfast_listener_drops_total", "counter", "SYNs and connections that a listener dropped.");
        // Listeners with SO_REUSEPORT share an address, and series must differ.
        let mut named: Vec<_> = picture.listeners.iter().map(|listener| listener.address).collect();
        named.dedup();
        named.truncate(LABELLED_MAX);
        for address in named {
            let labels = format!("address=\"{address}\"");
            let same = || picture.listeners.iter().filter(|listener| listener.address == address);
            let sum = |of: fn(&super::listeners::Listener) -> Option<u32>| same().filter_map(of).map(f64::from).sum();
            self.value("holdfast_listener_queue", &labels, sum(|listener| Some(listener.queue)));
            self.value("holdfast_listener_backlog", &labels, sum(|listener| listener.granted));
            self.value("holdfast_listener_drops_total", &labels, sum(|listener| listener.drops));
        }
    }

    fn destinations(&mut self, picture: &Picture) {
        self.metric("holdfast_destination_ports", "gauge", "Local ports towards a destination: used, time_wait, free.");
        self.metric("holdfast_destination_exhausted_seconds", "gauge", "Until no port is left, at the present pace.");
        for destination in picture.destinations.iter().take(LABELLED_MAX) {
            let labels = format!("local=\"{}\",remote=\"{}\"", destination.local, destination.remote);
            for (kind, ports) in [
                ("used", Some(destination.used)),
                ("time_wait", Some(destination.time_wait)),
                ("free", destination.free),
            ] {
                if let Some(ports) = ports {
                    self.value("holdfast_destination_ports", &format!("{labels},kind=\"{kind}\""), f64::from(ports));
                }
            }
            if let Some(seconds) = destination.exhausted_in_s {
                self.value("holdfast_destination_exhausted_seconds", &labels, seconds);
            }
        }
    }

    fn queues(&mut self, picture: &Picture) {
        self.metric("holdfast_queued_sockets", "gauge", "Sockets with bytes in a queue, by cause.");
        self.metric("holdfast_queued_bytes", "gauge", "Bytes in their longer queues, by cause.");
        for (cause, sockets, bytes) in &picture.causes {
            let labels = format!("cause=\"{}\"", cause.label());
            self.value("holdfast_queued_sockets", &labels, *sockets as f64);
            self.value("holdfast_queued_bytes", &labels, *bytes as f64);
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
        self.metric("holdfast_opens_total", "counter", "Connections opened, by the kernel's counters and as seen.");
        self.metric("holdfast_ends_total", "counter", "Connections ended, by the kernel's counters and as seen.");
        for (by, opens, ends) in
            [("counters", sum.opened, sum.closed), ("seen", sum.opens_seen + sum.opens_seen_dying, sum.closes_seen)]
        {
            self.value("holdfast_opens_total", &format!("by=\"{by}\""), opens as f64);
            self.value("holdfast_ends_total", &format!("by=\"{by}\""), ends as f64);
        }
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
    }

    #[test]
    fn series_with_addresses_are_bounded() {
        let mut many = picture();
        let row = many.destinations[0].clone();
        many.destinations = (1..=1000_u16)
            .map(|port| super::super::destinations::Destination { remote: ([10, 0, 0, 2], port).into(), ..row.clone() })
            .collect();
        let page = encode(&many);
        let free = page.lines().filter(|line| line.contains("kind=\"free\"")).count();
        assert_eq!(free, LABELLED_MAX);
    }
}
