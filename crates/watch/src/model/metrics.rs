//! A look as Prometheus metrics; `report::prometheus` has the format. They complement `node_exporter`, which has the
//! counters of /proc: these metrics need a look at every socket. Every set of labels is bounded. Pure.

use super::closers::{Closes, Peer};
use super::destinations::Destination;
use super::listeners::Listener;
use super::picture::Picture;
use super::tally::StateCounts;
use report::prometheus::{Kind, Page};
use sockdiag::State;
use std::net::SocketAddr;

/// Most time series with an address in their labels, per metric: the fullest listeners, the destinations that use the most
/// ports, the peers with the most closes. The sums include all others.
const LABELLED_MAX: usize = 32;

/// The page.
pub(crate) fn encode(picture: &Picture) -> String {
    let mut page = Page::default();
    states(&mut page, picture);
    listeners(&mut page, picture);
    destinations(&mut page, picture);
    queues(&mut page, picture);
    closes(&mut page, picture);
    missed(&mut page, picture);
    page.one("holdfast_look_seconds", Kind::Gauge, "What the last look took.", picture.took_ms / 1e3);
    page.into_text()
}

fn states(page: &mut Page, picture: &Picture) {
    let of = |histogram: StateCounts| State::ALL.map(|state| (state.name(), histogram.of(state)));
    page.family("holdfast_sockets", Kind::Gauge, "TCP sockets by state.").samples(&[], "state", of(picture.tally.all));
    let help = "TCP sockets with a chosen port at either end, by state.";
    let mut family = page.family("holdfast_port_sockets", Kind::Gauge, help);
    for (port, histogram) in &picture.tally.ports {
        family.samples(&[("port", &port.to_string())], "state", of(*histogram));
    }
}

fn listeners(page: &mut Page, picture: &Picture) {
    // Listeners with SO_REUSEPORT share an address, in any position of the list, but series must have distinct labels.
    let mut named: Vec<SocketAddr> = Vec::new();
    for listener in &picture.listeners {
        if named.len() < LABELLED_MAX && !named.contains(&listener.address) {
            named.push(listener.address);
        }
    }
    type Value = fn(&Listener) -> Option<u32>;
    let metrics: [(&str, Kind, &str, Value); 3] = [
        ("queue", Kind::Gauge, "Connections that wait for accept().", |listener| Some(listener.queue)),
        ("backlog", Kind::Gauge, "Accept queue that the kernel granted.", |listener| listener.granted),
        ("drops_total", Kind::Counter, "SYNs and connections that a listener dropped.", |listener| listener.drops),
    ];
    for (name, kind, help, value) in metrics {
        let name = format!("holdfast_listener_{name}");
        let mut family = page.family(&name, kind, help);
        for address in &named {
            let same = picture.listeners.iter().filter(|listener| listener.address == *address);
            let known: Vec<u64> = same.filter_map(value).map(u64::from).collect();
            // An unknown value of /proc is not zero.
            if !known.is_empty() {
                family.sample(&[("address", &address.to_string())], known.iter().sum::<u64>());
            }
        }
    }
}

fn destinations(page: &mut Page, picture: &Picture) {
    let ends = |destination: &Destination| (destination.local.to_string(), destination.remote.to_string());
    let shown = || picture.destinations.iter().take(LABELLED_MAX);
    let help = "Local ports towards a destination: used, time_wait, free.";
    let mut family = page.family("holdfast_destination_ports", Kind::Gauge, help);
    for destination in shown() {
        let (local, remote) = ends(destination);
        let ports =
            [("used", Some(destination.used)), ("time_wait", Some(destination.time_wait)), ("free", destination.free)];
        let known = ports.into_iter().filter_map(|(kind, ports)| Some((kind, ports?)));
        family.samples(&[("local", &local), ("remote", &remote)], "kind", known);
    }
    drop(family);
    let help = "Until no port is left, at the present pace.";
    let mut family = page.family("holdfast_destination_exhausted_seconds", Kind::Gauge, help);
    for destination in shown() {
        if let Some(seconds) = destination.exhausted_in_s {
            let (local, remote) = ends(destination);
            family.sample(&[("local", &local), ("remote", &remote)], seconds);
        }
    }
}

fn queues(page: &mut Page, picture: &Picture) {
    let sockets = picture.causes.iter().map(|(cause, sockets, _)| (cause.label(), sockets));
    let help = "Sockets with bytes in a queue, by cause.";
    page.family("holdfast_queued_sockets", Kind::Gauge, help).samples(&[], "cause", sockets);
    let bytes = picture.causes.iter().map(|(cause, _, bytes)| (cause.label(), bytes));
    let help = "Bytes in their longer queues, by cause.";
    page.family("holdfast_queued_bytes", Kind::Gauge, help).samples(&[], "cause", bytes);
}

fn closes(page: &mut Page, picture: &Picture) {
    let each = |closes: Closes| [("this_side", closes.this_side), ("peer", closes.peer), ("unknown", closes.unknown)];
    let help = "Connections closed, by who closed first.";
    page.family("holdfast_closes_total", Kind::Counter, help).samples(&[], "first", each(picture.closes));
    let help = "The same for the peers with the most closes.";
    let mut family = page.family("holdfast_peer_closes_total", Kind::Counter, help);
    for (peer, closes) in picture.closers.iter().take(LABELLED_MAX) {
        let (direction, name, port) = match peer {
            Peer::To(address) => ("to", address.to_string(), None),
            Peer::From(address, port) => ("from", address.to_string(), Some(port.to_string())),
            Peer::Others => ("", "others".to_owned(), None),
            Peer::Forgotten => ("", "forgotten".to_owned(), None),
        };
        let mut labels = vec![("direction", direction), ("peer", &name)];
        labels.extend(port.as_deref().map(|port| ("port", port)));
        family.samples(&labels, "first", each(*closes));
    }
}

fn missed(page: &mut Page, picture: &Picture) {
    let Some((_, sum)) = &picture.missed else { return };
    for (name, what, counted, seen) in [
        ("holdfast_opens_total", "opened", sum.opened, sum.opens_seen + sum.opens_seen_dying),
        ("holdfast_ends_total", "ended", sum.closed, sum.closes_seen),
    ] {
        let help = format!("Connections {what}, by the kernel's counters and as seen.");
        page.family(name, Kind::Counter, &help).samples(&[], "by", [("counters", counted), ("seen", seen)]);
    }
    let help = "Connections that a look missed and those beside it saw.";
    page.one("holdfast_passed_over_total", Kind::Counter, help, sum.passed_over);
    let help = "Times that the kernel's queue of events was full.";
    page.one("holdfast_event_overruns_total", Kind::Counter, help, sum.overruns);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tables::tests::picture;

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
            "holdfast_opens_total{by=\"seen\"} 399",
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
    fn listeners_that_share_an_address_are_one_series() {
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
    fn keeps_the_series_of_a_metric_together() {
        let page = encode(&picture());
        let mut metric = "";
        for line in page.lines() {
            match line.strip_prefix("# TYPE ").and_then(|rest| rest.split(' ').next()) {
                Some(name) => metric = name,
                None if line.starts_with('#') => {}
                None => assert!(line.starts_with(metric), "{line} is under {metric}"),
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
