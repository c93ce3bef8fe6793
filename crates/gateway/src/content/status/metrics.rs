//! Renders the snapshot as Prometheus metrics, and holds the one list of metric families; `report::prometheus` has the
//! format. Labels have bounded sets of values: enums for states, reasons and classes, otherwise names from the
//! configuration.

pub(crate) mod caches;
pub(crate) mod checks;
pub(crate) mod peers;
pub(crate) mod room;

use crate::content::status::snapshot::{
    DurationHistogram, GroupStatus, Labelled, LocationStatus, PeerStatus, Snapshot,
};
use report::prometheus::{self, Format, Kind, Labels, Number, Page};

/// A family of metrics.
pub(crate) struct Family {
    name: &'static str,
    kind: Kind,
    /// Names of its labels, separated by spaces; without the `le` of histograms.
    labels: &'static str,
    help: &'static str,
    /// Writes its samples.
    write: fn(&mut Samples<'_>, &Snapshot),
}

/// Writes the samples of one family.
struct Samples<'a> {
    family: prometheus::Family<'a>,
    /// The label names that every sample must have.
    labels: &'static str,
    /// The sums over the peers of each group, instead of its peers; empty if there are few.
    sums: &'a [Option<PeerStatus>],
}

impl Samples<'_> {
    fn put(&mut self, labels: &Labels<'_>, value: impl Number) {
        self.check(labels, None);
        self.family.sample(labels, value);
    }

    fn plain(&mut self, value: u64) {
        self.put(&[], value);
    }

    fn each(&mut self, fixed: &Labels<'_>, label: &str, values: &Labelled) {
        self.check(fixed, Some(label));
        self.family.samples(fixed, label, values);
    }

    fn states(&mut self, fixed: &Labels<'_>, states: &[(&str, u64)]) {
        self.check(fixed, Some("state"));
        self.family.samples(fixed, "state", states.iter().copied());
    }

    fn groups(&mut self, snapshot: &Snapshot, value: impl Fn(&GroupStatus) -> u64) {
        for group in &snapshot.groups {
            self.put(&[("group", &group.name)], value(group));
        }
    }

    fn locations(&mut self, snapshot: &Snapshot, write: impl Fn(&mut Self, &Labels<'_>, &LocationStatus)) {
        for location in &snapshot.locations {
            write(self, &[("server", &location.server), ("location", &location.location)], location);
        }
    }

    fn histogram(&mut self, labels: &Labels<'_>, values: &DurationHistogram) {
        self.check(labels, None);
        let buckets = values.buckets.iter().map(|bucket| (bucket.at_most_ms.map(seconds), bucket.count));
        self.family.histogram(labels, buckets, (seconds(values.sum_ms), values.count), Some(&values.native));
    }

    fn check(&self, labels: &Labels<'_>, last: Option<&str>) {
        let names = labels.iter().map(|(name, _)| *name).chain(last);
        debug_assert!(names.eq(self.labels.split_whitespace()), "{} has other labels than it says", self.family.name());
    }
}

fn seconds(milliseconds: f64) -> f64 {
    milliseconds / 1000.0
}

/// Every family, in the order of the page.
fn families() -> impl Iterator<Item = &'static Family> {
    [FAMILIES, peers::FAMILIES, checks::FAMILIES, room::FAMILIES, caches::FAMILIES].into_iter().flatten()
}

/// Connections, requests, groups.
const FAMILIES: &[Family] = &[
    Family {
        name: "holdfast_build_info",
        kind: Kind::Gauge,
        labels: "version nginx_version",
        help: "Always 1; the labels say which Holdfast this is and which nginx's dialect it speaks.",
        write: |out, all| out.put(&[("version", &*all.version), ("nginx_version", &*all.nginx_version)], 1_u64),
    },
    Family {
        name: "holdfast_start_time_seconds",
        kind: Kind::Gauge,
        labels: "",
        help: "Unix time at which this process began to work.",
        write: |out, all| out.plain(all.started_at_s),
    },
    Family {
        name: "holdfast_generation",
        kind: Kind::Gauge,
        labels: "",
        help: "Generation of the active configuration, from 1.",
        write: |out, all| out.plain(all.generation),
    },
    Family {
        name: "holdfast_processes",
        kind: Kind::Gauge,
        labels: "",
        help: "Processes that serve (worker_groups), and those that finish.",
        write: |out, all| out.plain(all.processes as u64),
    },
    Family {
        name: "holdfast_workers",
        kind: Kind::Gauge,
        labels: "",
        help: "Worker threads.",
        write: |out, all| out.plain(all.workers as u64),
    },
    Family {
        name: "holdfast_connections_accepted_total",
        kind: Kind::Counter,
        labels: "",
        help: "Client connections accepted.",
        write: |out, all| out.plain(all.connections.accepted),
    },
    Family {
        name: "holdfast_connections_handled_total",
        kind: Kind::Counter,
        labels: "",
        help: "Client connections that were served.",
        write: |out, all| out.plain(all.connections.handled),
    },
    Family {
        name: "holdfast_connections_dropped_total",
        kind: Kind::Counter,
        labels: "",
        help: "Client connections that were accepted and turned away: no connection was free for them.",
        write: |out, all| out.plain(all.connections.dropped),
    },
    Family {
        name: "holdfast_connections",
        kind: Kind::Gauge,
        labels: "state",
        help: "Open client connections; reading: part of a head has come, writing: an exchange or a tunnel, waiting: idle.",
        write: |out, all| {
            let now = &all.connections;
            out.states(&[], &[("reading", now.reading), ("writing", now.writing), ("waiting", now.waiting)]);
        },
    },
    Family {
        name: "holdfast_tunnels",
        kind: Kind::Gauge,
        labels: "",
        help: "Open tunnels; they are among the connections in the state writing.",
        write: |out, all| out.plain(all.connections.tunnels),
    },
    Family {
        name: "holdfast_tunnels_draining",
        kind: Kind::Gauge,
        labels: "",
        help: "Tunnels that wait to be drained, or are being drained.",
        write: |out, all| out.plain(all.connections.draining),
    },
    Family {
        name: "holdfast_tunnels_drained_total",
        kind: Kind::Counter,
        labels: "reason",
        help: "Tunnels drained, by why.",
        write: |out, all| out.each(&[], "reason", &all.connections.drained),
    },
    Family {
        name: "holdfast_connections_closed_total",
        kind: Kind::Counter,
        labels: "reason",
        help: "Client connections closed, by why.",
        write: |out, all| out.each(&[], "reason", &all.connections.closed),
    },
    Family {
        name: "holdfast_datagrams_dropped_total",
        kind: Kind::Counter,
        labels: "reason",
        help: "Datagrams of stream that were not passed on, by why.",
        write: |out, all| out.each(&[], "reason", &all.connections.datagrams_dropped),
    },
    Family {
        name: "holdfast_http2_connections",
        kind: Kind::Gauge,
        labels: "",
        help: "Client connections that speak HTTP/2.",
        write: |out, all| out.plain(all.http2.connections),
    },
    Family {
        name: "holdfast_http2_streams",
        kind: Kind::Gauge,
        labels: "",
        help: "Streams of HTTP/2 with a request under way.",
        write: |out, all| out.plain(all.http2.streams),
    },
    Family {
        name: "holdfast_http2_connection_faults_total",
        kind: Kind::Counter,
        labels: "reason",
        help: "Connections of HTTP/2 that a fault or a limit of the client has ended, by why.",
        write: |out, all| out.each(&[], "reason", &all.http2.connection_faults),
    },
    Family {
        name: "holdfast_http2_stream_faults_total",
        kind: Kind::Counter,
        labels: "reason",
        help: "Streams of HTTP/2 that a fault of the client has ended, by why.",
        write: |out, all| out.each(&[], "reason", &all.http2.stream_faults),
    },
    Family {
        name: "holdfast_upstream_http2_connections",
        kind: Kind::Gauge,
        labels: "",
        help: "Connections of HTTP/2 to upstreams with a request on them.",
        write: |out, all| out.plain(all.http2_upstreams.connections),
    },
    Family {
        name: "holdfast_upstream_http2_streams",
        kind: Kind::Gauge,
        labels: "",
        help: "Streams of HTTP/2 to upstreams.",
        write: |out, all| out.plain(all.http2_upstreams.streams),
    },
    Family {
        name: "holdfast_upstream_http2_connection_faults_total",
        kind: Kind::Counter,
        labels: "reason",
        help: "Connections of HTTP/2 that a fault of the upstream has ended, by why.",
        write: |out, all| out.each(&[], "reason", &all.http2_upstreams.connection_faults),
    },
    Family {
        name: "holdfast_upstream_http2_stream_faults_total",
        kind: Kind::Counter,
        labels: "reason",
        help: "Streams of HTTP/2 that a fault of the upstream has ended, by why.",
        write: |out, all| out.each(&[], "reason", &all.http2_upstreams.stream_faults),
    },
    Family {
        name: "holdfast_tls_handshakes_total",
        kind: Kind::Counter,
        labels: "kind",
        help: "Handshakes with clients that were completed: full ones, and those that resumed a session.",
        write: |out, all| out.each(&[], "kind", &all.tls.handshakes),
    },
    Family {
        name: "holdfast_tls_handshakes_failed_total",
        kind: Kind::Counter,
        labels: "reason",
        help: "Handshakes with clients that failed, by why.",
        write: |out, all| out.each(&[], "reason", &all.tls.handshakes_failed),
    },
    Family {
        name: "holdfast_upstream_tls_handshakes_failed_total",
        kind: Kind::Counter,
        labels: "reason",
        help: "Handshakes with upstreams that failed, by why.",
        write: |out, all| out.each(&[], "reason", &all.tls.upstream_handshakes_failed),
    },
    Family {
        name: "holdfast_tls_certificate_not_after_seconds",
        kind: Kind::Gauge,
        labels: "source subject",
        help: "Unix time at which a certificate that clients are shown ends.",
        write: |out, all| {
            for certificate in &all.tls.certificates {
                let labels = [("source", certificate.source.as_str()), ("subject", certificate.subject.as_str())];
                out.put(&labels, u64::try_from(certificate.not_after_s).unwrap_or_default());
            }
        },
    },
    Family {
        name: "holdfast_requests_total",
        kind: Kind::Counter,
        labels: "",
        help: "Requests begun.",
        write: |out, all| out.plain(all.requests.total),
    },
    Family {
        name: "holdfast_requests_under_way",
        kind: Kind::Gauge,
        labels: "",
        help: "Exchanges that have begun and not ended.",
        write: |out, all| out.plain(all.requests.under_way),
    },
    Family {
        name: "holdfast_responses_total",
        kind: Kind::Counter,
        labels: "class",
        help: "Responses by class of their status.",
        write: |out, all| out.each(&[], "class", &all.requests.responses),
    },
    Family {
        name: "holdfast_location_responses_total",
        kind: Kind::Counter,
        labels: "server location class",
        help: "Responses by the location that answered, and by class of their status; those of tunnels among them.",
        write: |out, all| {
            out.locations(all, |out, labels, location| out.each(labels, "class", &location.responses));
        },
    },
    Family {
        name: "holdfast_location_duration_seconds",
        kind: Kind::Histogram,
        labels: "server location",
        help: "From the beginning of a request to the last byte of its response; without tunnels.",
        write: |out, all| {
            out.locations(all, |out, labels, location| out.histogram(labels, &location.duration));
        },
    },
    Family {
        name: "holdfast_panics_total",
        kind: Kind::Counter,
        labels: "",
        help: "Panics that ended a connection: bugs of Holdfast.",
        write: |out, all| out.plain(all.requests.panics),
    },
    Family {
        name: "holdfast_otel_spans_total",
        kind: Kind::Counter,
        labels: "result",
        help: "Finished spans: exported, dropped because too many waited, failed because the collector was not reached or refused them.",
        write: |out, all| out.each(&[], "result", &all.spans),
    },
    Family {
        name: "holdfast_user_file_bad_lines_total",
        kind: Kind::Counter,
        labels: "",
        help: "Lines of auth_basic_user_file that are neither a user nor a comment, counted whenever a file is read.",
        write: |out, all| out.plain(all.requests.user_file_bad_lines),
    },
    Family {
        name: "holdfast_jwt_refused_total",
        kind: Kind::Counter,
        labels: "reason",
        help: "Requests that auth_jwt refused: no token, a wrong or expired one, or a value of auth_jwt_require.",
        write: |out, all| out.each(&[], "reason", &all.requests.jwt_refused),
    },
    Family {
        name: "holdfast_jwt_keys_failed_total",
        kind: Kind::Counter,
        labels: "",
        help: "Key sets of auth_jwt_key_file and auth_jwt_key_request that could not be read or used.",
        write: |out, all| out.plain(all.requests.jwt_keys_failed),
    },
    Family {
        name: "holdfast_listener_queue_connections",
        kind: Kind::Gauge,
        labels: "listener",
        help: "Connections that wait in the kernel to be accepted.",
        write: |out, all| {
            for listener in &all.listeners {
                let Some(queue) = &listener.queue else { continue };
                out.put(&[("listener", &listener.address)], queue.waiting);
            }
        },
    },
    Family {
        name: "holdfast_listener_backlog_connections",
        kind: Kind::Gauge,
        labels: "listener",
        help: "How many connections the kernel lets wait there: what it granted, not what was asked for.",
        write: |out, all| {
            for listener in &all.listeners {
                let Some(queue) = &listener.queue else { continue };
                out.put(&[("listener", &listener.address)], queue.backlog);
            }
        },
    },
    Family {
        name: "holdfast_listen_overflows_total",
        kind: Kind::Counter,
        labels: "",
        help: "Accept queues found full (ListenOverflows), of all listeners in the network namespace.",
        write: |out, all| all.listen_overflows.into_iter().for_each(|value| out.plain(value)),
    },
    Family {
        name: "holdfast_listen_drops_total",
        kind: Kind::Counter,
        labels: "",
        help: "Connection requests dropped (ListenDrops), of all listeners in the network namespace.",
        write: |out, all| all.listen_drops.into_iter().for_each(|value| out.plain(value)),
    },
    Family {
        name: "holdfast_log_lines_dropped_total",
        kind: Kind::Counter,
        labels: "log",
        help: "Log lines not written, since their file did not take them fast enough.",
        write: |out, all| {
            for (log, lines) in &all.log_lines_dropped {
                out.put(&[("log", log)], lines);
            }
        },
    },
    Family {
        name: "holdfast_upstream_connections",
        kind: Kind::Gauge,
        labels: "group state",
        help: "Upstream connections; leased: with an exchange or a tunnel.",
        write: |out, all| {
            for group in &all.groups {
                let states = [("connecting", group.connecting), ("idle", group.idle), ("leased", group.leased)];
                out.states(&[("group", &group.name)], &states);
            }
        },
    },
    Family {
        name: "holdfast_upstream_waiting_requests",
        kind: Kind::Gauge,
        labels: "group",
        help: "Requests that wait for a connection (max_connections), for a stream of one (HTTP/2), or for a peer (queue).",
        write: |out, all| out.groups(all, |group| group.waiting),
    },
    Family {
        name: "holdfast_upstream_opened_total",
        kind: Kind::Counter,
        labels: "group",
        help: "Upstream connections established.",
        write: |out, all| out.groups(all, |group| group.opened),
    },
    Family {
        name: "holdfast_upstream_reused_total",
        kind: Kind::Counter,
        labels: "group",
        help: "Exchanges begun on a pooled connection.",
        write: |out, all| out.groups(all, |group| group.reused),
    },
    Family {
        name: "holdfast_upstream_stolen_total",
        kind: Kind::Counter,
        labels: "group",
        help: "Those of the reused connections that another worker had pooled.",
        write: |out, all| out.groups(all, |group| group.stolen),
    },
    Family {
        name: "holdfast_upstream_handed_over_total",
        kind: Kind::Counter,
        labels: "group",
        help: "Those of the reused connections that went straight to a waiting request.",
        write: |out, all| out.groups(all, |group| group.handed_over),
    },
    Family {
        name: "holdfast_upstream_discarded_total",
        kind: Kind::Counter,
        labels: "group reason",
        help: "Upstream connections thrown away, by why.",
        write: |out, all| {
            for group in &all.groups {
                out.each(&[("group", &group.name)], "reason", &group.discarded);
            }
        },
    },
    Family {
        name: "holdfast_upstream_retries_total",
        kind: Kind::Counter,
        labels: "group reason",
        help: "Further attempts after one that failed, by why they were allowed.",
        write: |out, all| {
            for group in &all.groups {
                out.each(&[("group", &group.name)], "reason", &group.retries);
            }
        },
    },
    Family {
        name: "holdfast_upstream_no_live_peer_total",
        kind: Kind::Counter,
        labels: "group",
        help: "Requests for which no peer could be chosen.",
        write: |out, all| out.groups(all, |group| group.no_live_peer),
    },
    Family {
        name: "holdfast_resolver_lookups_total",
        kind: Kind::Counter,
        labels: "zone result",
        help: "Lookups of names that ended, under each status_zone of a resolver.",
        write: |out, all| {
            for resolver in &all.resolvers {
                out.each(&[("zone", &resolver.zone)], "result", &resolver.lookups);
            }
        },
    },
];

/// Renders all families.
pub(crate) fn render(snapshot: &Snapshot, format: Format) -> Vec<u8> {
    let mut page = Page::new(format);
    let sums = peers::sums_of_many(snapshot, peers::PEERS_MAX);
    for family in families() {
        let out = page.family(family.name, family.kind, family.help);
        (family.write)(&mut Samples { family: out, labels: family.labels, sums: &sums }, snapshot);
    }
    page.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The guide's page, with its list of families.
    const GUIDE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/status-page.md");

    #[test]
    fn the_guide_lists_every_family_and_no_other() {
        let rows = families().map(|family| {
            let labels: Vec<String> = family.labels.split_whitespace().map(|label| format!("`{label}`")).collect();
            format!("| `{}` | {} | {} | {} |\n", family.name, family.kind.word(), labels.join(" "), family.help)
        });
        let rows: String = rows.collect();
        let guide = std::fs::read_to_string(GUIDE).unwrap();
        assert!(guide.contains(&rows), "the list in docs/guide/status-page.md should be:\n{rows}");
        let listed = guide.lines().filter(|line| line.starts_with("| `holdfast_")).count();
        assert_eq!(listed, families().count());
    }

    #[test]
    fn names_follow_the_conventions() {
        for family in families() {
            assert_eq!(family.name.ends_with("_total"), family.kind == Kind::Counter, "{}", family.name);
            assert!(family.help.ends_with('.') && !family.help.contains('\n'), "{}", family.name);
        }
    }
}
