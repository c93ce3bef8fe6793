//! All numbers of a status page at one moment, as plain data: the renderings share it, and the JSON is this data.
//! Gauges are read one after the other, so under load they need not add up.

pub(crate) mod caches;
pub(crate) mod checks;
pub(crate) mod merge;
pub(crate) mod room;

use caches::CacheZoneStatus;
use checks::CheckStatus;

use crate::NGINX_VERSION;
use crate::base::cells::{CLASSES, PeerSums, RETRY_REASONS};
use crate::base::close::{CloseReason, DRAINED};
use crate::base::counters::{Counters, DatagramLoss, FaultCounts, HANDSHAKE_FAILURES, JwtRefusal};
use crate::base::durations::{self, BOUNDS_US, Durations};
use crate::content::status::kernel;
use crate::registry::certificates::CertificateInUse;
use crate::registry::checks::schedule::PeerChecks;
use crate::registry::generation::Generation;
use crate::registry::meter::MeterReading;
use crate::registry::names::NameFailure;
use crate::registry::process::Registry;
use crate::registry::recent_errors::RecentError;
use crate::registry::spans::SpanCounts;
use crate::registry::status_list::{ListedGroup, RouteName};

use crate::base::route_cells::RouteSums;
use crate::content::status::snapshot::room::{MemoryStatus, OverloadStatus, PortsStatus};
use http2::Reason;
use report::prometheus::NativeHistogram;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use upstream::shared::PeerSnapshot;
use upstream::{DiscardReason, Millis};

/// Counters by label; every label is present, also with 0, so that a rate can be computed from the first event on.
pub(crate) type Labelled = BTreeMap<Label, u64>;

/// A label that the program knows; one that another process has sent is owned.
pub(crate) type Label = Cow<'static, str>;

pub(crate) fn labelled(values: impl IntoIterator<Item = (&'static str, u64)>) -> Labelled {
    values.into_iter().map(|(label, value)| (Cow::Borrowed(label), value)).collect()
}

/// Labels of what is shed when memory is short.
pub(crate) const PRESSURES: [&str; 4] = crate::base::memory::Pressure::LABELS;

/// The gateway at one moment.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Snapshot {
    pub(crate) version: Label,
    pub(crate) nginx_version: Label,
    /// Unix time.
    pub(crate) started_at_s: u64,
    pub(crate) uptime_s: u64,
    /// Number of loaded configurations.
    pub(crate) generation: u64,
    pub(crate) configuration: ConfigurationStatus,
    pub(crate) recent: RecentStatus,
    /// Processes of this installation: those that serve, and those that finish.
    pub(crate) processes: usize,
    pub(crate) workers: usize,
    pub(crate) connections: Connections,
    pub(crate) requests: Requests,
    pub(crate) http2: Http2Status,
    pub(crate) http2_upstreams: Http2Status,
    pub(crate) tls: TlsStatus,
    pub(crate) listeners: Vec<ListenerStatus>,
    /// Of the network namespace; absent if the kernel does not provide it.
    pub(crate) listen_overflows: Option<u64>,
    pub(crate) listen_drops: Option<u64>,
    /// Finished spans, by what became of them.
    pub(crate) spans: Labelled,
    /// Lines that were not written, by log.
    pub(crate) log_lines_dropped: BTreeMap<String, u64>,
    pub(crate) memory: MemoryStatus,
    pub(crate) overload: OverloadStatus,
    /// The last lines of the error logs, from `warn` on, the newest first.
    pub(crate) errors: Vec<RecentError>,
    /// The locations that have answered a request.
    pub(crate) locations: Vec<LocationStatus>,
    pub(crate) groups: Vec<GroupStatus>,
    pub(crate) ports: PortsStatus,
    pub(crate) resolvers: Vec<ResolverStatus>,
    pub(crate) caches: Vec<CacheZoneStatus>,
}

/// The configuration in force.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ConfigurationStatus {
    /// Unix time.
    pub(crate) loaded_at_s: u64,
    /// What has changed since the one before, a line for each.
    pub(crate) changes: Vec<String>,
}

/// What was counted since the status before this one, or since the start.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct RecentStatus {
    pub(crate) seconds: f64,
    pub(crate) requests: u64,
    pub(crate) responses: u64,
    pub(crate) server_errors: u64,
    /// Upper bounds of the buckets that contain the percentiles; absent without responses, and above the last bound.
    pub(crate) p50_at_most_ms: Option<f64>,
    pub(crate) p99_at_most_ms: Option<f64>,
}

impl RecentStatus {
    pub(crate) fn requests_per_second(&self) -> f64 {
        if self.seconds > 0.0 { self.requests as f64 / self.seconds } else { 0.0 }
    }
}

/// Client connections.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Connections {
    pub(crate) accepted: u64,
    pub(crate) handled: u64,
    pub(crate) dropped: u64,
    pub(crate) active: u64,
    pub(crate) reading: u64,
    pub(crate) writing: u64,
    pub(crate) waiting: u64,
    pub(crate) tunnels: u64,
    /// Tunnels that wait to be drained, or are being drained.
    pub(crate) draining: u64,
    /// Tunnels drained since the start, by reason.
    pub(crate) drained: Labelled,
    pub(crate) closed: Labelled,
    /// Datagrams of `stream` dropped, by why.
    pub(crate) datagrams_dropped: Labelled,
}

/// Requests.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Requests {
    pub(crate) total: u64,
    pub(crate) under_way: u64,
    pub(crate) panics: u64,
    /// Lines of `auth_basic_user_file` that are not valid users.
    pub(crate) user_file_bad_lines: u64,
    /// Requests that `auth_jwt` refused, by reason.
    pub(crate) jwt_refused: Labelled,
    /// Keys of `auth_jwt` that could not be used.
    pub(crate) jwt_keys_failed: u64,
    pub(crate) responses: Labelled,
}

/// HTTP/2 with clients, or with upstreams.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Http2Status {
    pub(crate) connections: u64,
    /// Streams with a request under way.
    pub(crate) streams: u64,
    /// Faults that ended connections, by reason.
    pub(crate) connection_faults: Labelled,
    /// Faults that ended streams, by reason.
    pub(crate) stream_faults: Labelled,
}

/// TLS.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct TlsStatus {
    /// Completed handshakes, by whether a session was resumed.
    pub(crate) handshakes: Labelled,
    /// Failed handshakes, by reason.
    pub(crate) handshakes_failed: Labelled,
    /// Failed handshakes with upstreams, by reason.
    pub(crate) upstream_handshakes_failed: Labelled,
    pub(crate) certificates: Vec<CertificateStatus>,
}

/// A certificate shown to clients.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct CertificateStatus {
    pub(crate) source: String,
    pub(crate) subject: String,
    /// Unix time at which it expires.
    pub(crate) not_after_s: i64,
}

/// A listening address.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ListenerStatus {
    pub(crate) address: String,
    /// Absent for a Unix socket.
    pub(crate) queue: Option<QueueStatus>,
}

/// An accept queue, in connections.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct QueueStatus {
    pub(crate) waiting: u64,
    pub(crate) backlog: u64,
}

/// A `status_zone` of resolvers.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ResolverStatus {
    pub(crate) zone: String,
    /// Lookups, by result.
    pub(crate) lookups: Labelled,
}

/// A location with its server.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct LocationStatus {
    /// The first name of the server; `_` without one.
    pub(crate) server: String,
    /// As it was written; `-` for requests that no location matched.
    pub(crate) location: String,
    pub(crate) responses: Labelled,
    /// From the beginning of a request to the last byte of its response; without tunnels.
    pub(crate) duration: DurationHistogram,
}

/// An upstream group.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct GroupStatus {
    pub(crate) name: String,
    pub(crate) idle: u64,
    /// Connections on a lease, or in use as one side of a tunnel.
    pub(crate) leased: u64,
    pub(crate) connecting: u64,
    /// Requests in line, for a peer or for a connection.
    pub(crate) waiting: u64,
    pub(crate) opened: u64,
    pub(crate) reused: u64,
    pub(crate) stolen: u64,
    pub(crate) handed_over: u64,
    pub(crate) no_live_peer: u64,
    pub(crate) discarded: Labelled,
    pub(crate) retries: Labelled,
    pub(crate) peers: Vec<PeerStatus>,
}

/// A peer of a group.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct PeerStatus {
    /// With `#2` and so on appended if the group has the address more than once.
    pub(crate) address: String,
    pub(crate) idle: u64,
    pub(crate) leased: u64,
    pub(crate) connecting: u64,
    pub(crate) attempts: u64,
    pub(crate) failed: u64,
    pub(crate) opened: u64,
    pub(crate) reused: u64,
    pub(crate) responses: Labelled,
    /// Absent if the peer is not checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) check: Option<CheckStatus>,
    pub(crate) connect_time: DurationHistogram,
    pub(crate) response_time: DurationHistogram,
}

/// Durations, in buckets.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct DurationHistogram {
    pub(crate) count: u64,
    pub(crate) sum_ms: f64,
    pub(crate) buckets: Vec<Bucket>,
    #[serde(skip)]
    pub(crate) native: NativeHistogram,
}

/// Number of observations up to a bound; cumulative, as in Prometheus.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Bucket {
    /// Absent: no upper bound.
    pub(crate) at_most_ms: Option<f64>,
    pub(crate) count: u64,
}

impl Snapshot {
    /// Everything, of all processes. It may block: on the shards' locks, and on files of the kernel.
    pub(crate) fn of_all(registry: &Registry, generation: &Generation) -> Self {
        let mut all = Self::take_and_publish(registry, generation);
        all.add_others(registry);
        all.recent = recent(registry, &all.requests, &all.locations);
        all
    }

    /// Collects everything of this process, without what was counted since the status before.
    fn take(registry: &Registry, generation: &Generation) -> Self {
        let now_s = reactor::wall_clock().as_secs();
        let overflows = kernel::overflows();
        let checked = checks::by_peer(&registry.checks);
        let groups: Vec<GroupStatus> = registry
            .status
            .listed_groups()
            .iter()
            .map(|group| group_status(registry, group, |peer| check_status(&checked, group, peer, now_s)))
            .collect();
        let peers: BTreeSet<&str> =
            groups.iter().flat_map(|group| &group.peers).map(|peer| peer.address.as_str()).collect();
        let ports = room::ports(registry, &peers);
        Self {
            version: env!("CARGO_PKG_VERSION").into(),
            nginx_version: NGINX_VERSION.into(),
            started_at_s: registry.started_at_s,
            uptime_s: now_s.saturating_sub(registry.started_at_s),
            generation: generation.number,
            configuration: ConfigurationStatus {
                loaded_at_s: generation.loaded_at_s,
                changes: generation.changes.clone(),
            },
            recent: RecentStatus::default(),
            processes: 1,
            workers: registry.workers(),
            connections: connections(registry),
            requests: requests(registry),
            http2: http2(registry),
            http2_upstreams: http2_upstreams(registry),
            tls: tls(registry),
            listeners: kernel::queues(&registry.status.listed_listeners()),
            listen_overflows: overflows.map(|found| found.overflows),
            listen_drops: overflows.map(|found| found.drops),
            spans: spans(registry),
            log_lines_dropped: log_lines_dropped(registry, generation),
            memory: room::memory(registry),
            overload: room::overload(registry),
            errors: registry.recent_errors.list(),
            locations: locations(registry.status.listed_routes()),
            groups,
            ports,
            resolvers: resolvers(registry),
            caches: caches::caches(generation),
        }
    }
}

fn sum(registry: &Registry, counter: impl Fn(&Counters) -> &AtomicU64) -> u64 {
    registry.workers.iter().map(|link| counter(&link.counters).load(Ordering::Relaxed)).sum()
}

fn connections(registry: &Registry) -> Connections {
    let totals = registry.totals();
    let losses = DatagramLoss::LABELS.iter().enumerate();
    let closed = CloseReason::ALL.map(|reason| (reason.label(), sum(registry, |of| &of.closed[reason])));
    let place = |reason: CloseReason| DRAINED.iter().position(|one| *one == reason).unwrap_or_default();
    let drained = DRAINED.map(|reason| (reason.label(), sum(registry, |of| &of.drained[place(reason)])));
    Connections {
        accepted: totals.accepted,
        handled: totals.handled,
        dropped: totals.accepted.saturating_sub(totals.handled),
        active: totals.active,
        reading: totals.reading,
        writing: totals.writing,
        waiting: totals.waiting,
        tunnels: sum(registry, |of| &of.tunnels),
        draining: sum(registry, |of| &of.draining),
        drained: labelled(drained),
        closed: labelled(closed),
        datagrams_dropped: labelled(losses.map(|(at, label)| (*label, sum(registry, |of| &of.datagrams_lost[at])))),
    }
}

fn requests(registry: &Registry) -> Requests {
    let classes = CLASSES.iter().enumerate();
    let refusals = JwtRefusal::LABELS.iter().enumerate();
    Requests {
        total: sum(registry, |of| &of.requests),
        under_way: sum(registry, |of| &of.exchanges),
        panics: sum(registry, |of| &of.bugs),
        user_file_bad_lines: registry.user_files.bad_lines(),
        jwt_refused: labelled(refusals.map(|(at, label)| (*label, sum(registry, |of| &of.jwt_refused[at])))),
        jwt_keys_failed: sum(registry, |of| &of.jwt_keys_failed),
        responses: labelled(classes.map(|(place, class)| (*class, sum(registry, |of| &of.responses[place])))),
    }
}

fn recent(registry: &Registry, requests: &Requests, locations: &[LocationStatus]) -> RecentStatus {
    let mut durations = Durations::default();
    for location in locations {
        let counts = location.duration.buckets.iter().map(|bucket| bucket.count);
        durations.add_cumulative(counts, (location.duration.sum_ms * 1000.0) as u64);
    }
    let now = MeterReading {
        at: reactor::monotonic_millis(),
        requests: requests.total,
        responses: requests.responses.values().sum(),
        server_errors: requests.responses.get("5xx").copied().unwrap_or_default(),
        durations,
    };
    let (counted, interval_ms) = registry.meter.since_last(now);
    let bound = |percent| counted.durations.quantile_us(percent).map(|microseconds| microseconds as f64 / 1000.0);
    RecentStatus {
        seconds: interval_ms as f64 / 1000.0,
        requests: counted.requests,
        responses: counted.responses,
        server_errors: counted.server_errors,
        p50_at_most_ms: bound(50),
        p99_at_most_ms: bound(99),
    }
}

fn locations(routes: Vec<(RouteName, RouteSums)>) -> Vec<LocationStatus> {
    let status = |((server, location), sums): (RouteName, RouteSums)| LocationStatus {
        server: String::from(server),
        location: String::from(location),
        responses: labelled(CLASSES.into_iter().zip(sums.responses)),
        duration: histogram(&sums.duration),
    };
    routes.into_iter().map(status).collect()
}

fn http2(registry: &Registry) -> Http2Status {
    Http2Status {
        connections: sum(registry, |of| &of.http2_connections),
        streams: sum(registry, |of| &of.streams),
        connection_faults: http2_faults(registry, |of| &of.http2_faults),
        stream_faults: http2_faults(registry, |of| &of.http2_stream_faults),
    }
}

fn http2_upstreams(registry: &Registry) -> Http2Status {
    Http2Status {
        connections: sum(registry, |of| &of.upstream_http2_connections),
        streams: sum(registry, |of| &of.upstream_streams),
        connection_faults: http2_faults(registry, |of| &of.upstream_http2_faults),
        stream_faults: http2_faults(registry, |of| &of.upstream_http2_stream_faults),
    }
}

fn http2_faults(registry: &Registry, of: fn(&Counters) -> &FaultCounts) -> Labelled {
    let names = Reason::NAMES.iter().enumerate();
    labelled(names.map(|(place, why)| (*why, sum(registry, |counters| &of(counters).all()[place]))))
}

fn tls(registry: &Registry) -> TlsStatus {
    let kinds = ["full", "resumed"].into_iter().enumerate();
    let failures = |of: fn(&Counters) -> &[AtomicU64]| {
        let failures = HANDSHAKE_FAILURES.into_iter().enumerate();
        labelled(failures.map(|(place, why)| (why, sum(registry, |counters| &of(counters)[place]))))
    };
    let certificates = registry.certificates_in_use().into_iter();
    TlsStatus {
        handshakes: labelled(kinds.map(|(place, kind)| (kind, sum(registry, |of| &of.handshakes[place])))),
        handshakes_failed: failures(|of| &of.handshakes_failed),
        upstream_handshakes_failed: failures(|of| &of.upstream_handshakes_failed),
        certificates: certificates
            .map(|CertificateInUse { source, subject, not_after }| CertificateStatus {
                source,
                subject,
                not_after_s: not_after,
            })
            .collect(),
    }
}

fn spans(registry: &Registry) -> Labelled {
    let SpanCounts { exported, dropped, failed } = registry.spans.counts();
    labelled([("exported", exported), ("dropped", dropped), ("failed", failed)])
}

fn log_lines_dropped(registry: &Registry, generation: &Generation) -> BTreeMap<String, u64> {
    let own = generation.error_logs.iter().map(|log| log.dropped_total()).sum::<u64>();
    let errors = registry.error_log.dropped_total() + own;
    let mut dropped = BTreeMap::from([("error_log".to_owned(), errors)]);
    for sink in &generation.sinks {
        *dropped.entry(sink.place().to_string()).or_default() += sink.dropped_total();
    }
    dropped
}

fn resolvers(registry: &Registry) -> Vec<ResolverStatus> {
    let zones = registry.names.zones().into_iter().map(|(zone, counts)| {
        let failed = NameFailure::ALL.into_iter().map(NameFailure::label).zip(counts.failed);
        ResolverStatus { zone: zone.into(), lookups: labelled(failed.chain([("noerror", counts.found)])) }
    });
    zones.collect()
}

fn check_status(
    checked: &FxHashMap<(String, String), PeerChecks>,
    group: &ListedGroup,
    peer: &str,
    now_s: u64,
) -> Option<CheckStatus> {
    let checks = checked.get(&(group.name.to_string(), peer.to_owned()))?;
    Some(CheckStatus::new(checks, Millis(reactor::monotonic_millis().0), now_s))
}

fn group_status(registry: &Registry, group: &ListedGroup, check: impl Fn(&str) -> Option<CheckStatus>) -> GroupStatus {
    let pooled = registry.pool.snapshot(group.id);
    let sums = group.cells.sums();
    let discarded = DiscardReason::ALL.map(|reason| (reason.label(), pooled.counts.discarded[reason.index()]));
    GroupStatus {
        name: group.name.to_string(),
        idle: pooled.idle.into(),
        leased: pooled.leased().into(),
        connecting: pooled.connecting.into(),
        waiting: group.waiting(&pooled),
        opened: pooled.counts.opened,
        reused: pooled.counts.reused,
        stolen: pooled.counts.stolen,
        handed_over: pooled.counts.handed_over,
        no_live_peer: sums.no_live_peer,
        discarded: labelled(discarded),
        retries: labelled(RETRY_REASONS.into_iter().zip(sums.retries)),
        peers: group
            .peers
            .iter()
            .map(|peer| {
                let none = PeerSnapshot { idle: 0, connections: 0, connecting: 0 };
                let pooled = peer.id.map_or(none, |id| registry.pool.peer_snapshot(id));
                peer_status(&peer.label, pooled, &peer.cells.sums(), check(&peer.label))
            })
            .collect(),
    }
}

fn peer_status(name: &str, pooled: PeerSnapshot, sums: &PeerSums, check: Option<CheckStatus>) -> PeerStatus {
    PeerStatus {
        address: name.to_owned(),
        idle: pooled.idle.into(),
        leased: pooled.leased().into(),
        connecting: pooled.connecting.into(),
        attempts: sums.attempts,
        failed: sums.failed,
        opened: sums.opened,
        reused: sums.reused,
        responses: labelled(CLASSES.into_iter().zip(sums.responses)),
        check,
        connect_time: histogram(&sums.connect),
        response_time: histogram(&sums.response),
    }
}

fn histogram(sums: &Durations) -> DurationHistogram {
    let mut count = 0;
    let bounds = BOUNDS_US.into_iter().map(|bound| Some(bound as f64 / 1000.0)).chain([None]);
    let buckets = bounds.zip(sums.buckets).map(|(at_most_ms, here)| {
        count += here;
        Bucket { at_most_ms, count }
    });
    DurationHistogram {
        buckets: buckets.collect(),
        count: sums.count(),
        sum_ms: sums.sum_us as f64 / 1000.0,
        native: NativeHistogram {
            schema: durations::SCHEMA,
            zero_threshold: durations::zero_threshold(),
            zero_count: sums.zero_count(),
            buckets: sums.native_buckets().collect(),
        },
    }
}
