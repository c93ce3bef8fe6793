//! One status of several processes (`worker_groups`): counters and gauges are summed by their names. What the kernel says of
//! shared sockets, and the configuration, are those of the process that is asked. Of processes that have ended the counters stay.

use crate::content::status::snapshot::caches::CacheZoneStatus;
use crate::content::status::snapshot::checks::{CheckStatus, STATES};
use crate::content::status::snapshot::room::{MemoryStatus, PortsStatus};
use crate::content::status::snapshot::{
    Connections, DurationHistogram, GroupStatus, Http2Status, LocationStatus, PRESSURES, PeerStatus, Snapshot,
};
use crate::registry::generation::Generation;
use crate::registry::process::Registry;
use report::prometheus::NativeHistogram;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Error lines that are shown: as many as one process keeps.
const ERRORS_MAX: usize = 100;
/// Locations of processes that have ended: a configuration has fewer, and many reloads may rename them.
const ENDED_LOCATIONS_MAX: usize = 4096;

/// A snapshot as it is sent to another process. Its JSON leaves the native histograms out, so they are beside it, in the order
/// of [`Snapshot::histograms`].
#[derive(Deserialize)]
struct Figures {
    snapshot: Snapshot,
    natives: Vec<NativeHistogram>,
}

/// The same, to be sent.
#[derive(Serialize)]
struct FiguresRef<'a> {
    snapshot: &'a Snapshot,
    natives: &'a [NativeHistogram],
}

fn encode(snapshot: &mut Snapshot) -> Vec<u8> {
    let natives: Vec<NativeHistogram> = snapshot.histograms().map(|histogram| histogram.native.clone()).collect();
    // A snapshot is strings and numbers: serialising it cannot fail.
    serde_json::to_vec(&FiguresRef { snapshot, natives: &natives }).unwrap_or_default()
}

fn decode(bytes: &[u8]) -> Option<Snapshot> {
    let Figures { mut snapshot, natives } = serde_json::from_slice(bytes).ok()?;
    snapshot.histograms().zip(natives).for_each(|(histogram, native)| histogram.native = native);
    Some(snapshot)
}

/// Publishes the figures of this process for the others.
pub fn publish_figures(registry: &Registry, generation: &Generation) {
    Snapshot::take_and_publish(registry, generation);
}

/// Adds the last figures of a process that has ended to those of the processes that ended before. `None`: they are not
/// understood.
pub fn figures_of_ended(before: Option<&[u8]>, last: &[u8]) -> Option<Vec<u8>> {
    let mut last = decode(last)?;
    last.keep_counters();
    let Some(mut all) = before.and_then(decode) else { return Some(encode(&mut last)) };
    all.add_counters(&last);
    for group in last.groups {
        match all.groups.iter_mut().find(|known| known.name == group.name) {
            Some(known) => known.add(&group, true),
            None => all.groups.push(group),
        }
    }
    all.locations.truncate(ENDED_LOCATIONS_MAX);
    Some(encode(&mut all))
}

impl Snapshot {
    fn histograms(&mut self) -> impl Iterator<Item = &mut DurationHistogram> {
        let of_peers = self.groups.iter_mut().flat_map(|group| &mut group.peers);
        let of_peers = of_peers.flat_map(|peer| [&mut peer.connect_time, &mut peer.response_time]);
        self.locations.iter_mut().map(|location| &mut location.duration).chain(of_peers)
    }

    /// Collects everything of this process, and publishes it for the others.
    pub(crate) fn take_and_publish(registry: &Registry, generation: &Generation) -> Self {
        registry.publish_figures(|| Self::take(registry, generation), encode)
    }

    /// Adds the other processes, and those that have ended.
    pub(crate) fn add_others(&mut self, registry: &Registry) {
        let Some(others) = registry.figures_of_others() else { return };
        for other in others.living.iter().filter_map(|bytes| decode(bytes)) {
            self.add_living(&other);
        }
        if let Some(ended) = others.ended.as_deref().and_then(decode) {
            self.add_counters(&ended);
            for group in &mut self.groups {
                if let Some(ended) = ended.groups.iter().find(|ended| ended.name == group.name) {
                    group.add(ended, false);
                }
            }
        }
    }

    fn add_living(&mut self, other: &Self) {
        self.add_counters(other);
        self.uptime_s = self.uptime_s.max(other.uptime_s);
        self.started_at_s = self.started_at_s.min(other.started_at_s);
        for listener in &other.listeners {
            // The sockets are the same ones, except those of datagrams, which one process has.
            if self.listeners.iter().all(|known| known.address != listener.address) {
                self.listeners.push(listener.clone());
            }
        }
        for group in &mut self.groups {
            if let Some(other) = other.groups.iter().find(|other| other.name == group.name) {
                group.add(other, true);
            }
        }
        self.ports.add(&other.ports);
        self.errors.extend(other.errors.iter().cloned());
        self.errors.sort_by_key(|error| Reverse(error.number));
        self.errors.truncate(ERRORS_MAX);
    }

    /// Adds the numbers of the whole process; those of groups are added elsewhere.
    fn add_counters(&mut self, other: &Self) {
        self.processes += other.processes;
        self.workers += other.workers;
        self.connections.add(&other.connections);
        self.requests.total += other.requests.total;
        self.requests.under_way += other.requests.under_way;
        self.requests.panics += other.requests.panics;
        self.requests.user_file_bad_lines += other.requests.user_file_bad_lines;
        add(&mut self.requests.jwt_refused, &other.requests.jwt_refused);
        self.requests.jwt_keys_failed += other.requests.jwt_keys_failed;
        add(&mut self.requests.responses, &other.requests.responses);
        self.http2.add(&other.http2);
        self.http2_upstreams.add(&other.http2_upstreams);
        add(&mut self.tls.handshakes, &other.tls.handshakes);
        add(&mut self.tls.handshakes_failed, &other.tls.handshakes_failed);
        add(&mut self.tls.upstream_handshakes_failed, &other.tls.upstream_handshakes_failed);
        add(&mut self.spans, &other.spans);
        add(&mut self.log_lines_dropped, &other.log_lines_dropped);
        self.memory.add(&other.memory);
        self.overload.accepts_failed += other.overload.accepts_failed;
        self.overload.connections_refused += other.overload.connections_refused;
        self.overload.accept_queue_full += other.overload.accept_queue_full;
        for location in &other.locations {
            let same =
                |known: &&mut LocationStatus| known.server == location.server && known.location == location.location;
            match self.locations.iter_mut().find(same) {
                Some(known) => {
                    add(&mut known.responses, &location.responses);
                    known.duration.add(&location.duration);
                }
                None => self.locations.push(location.clone()),
            }
        }
        for resolver in &other.resolvers {
            if let Some(known) = self.resolvers.iter_mut().find(|known| known.zone == resolver.zone) {
                add(&mut known.lookups, &resolver.lookups);
            }
        }
        for cache in &other.caches {
            if let Some(known) = self.caches.iter_mut().find(|known| known.name == cache.name) {
                known.add(cache);
            }
        }
    }

    /// Removes what only a process that lives has.
    fn keep_counters(&mut self) {
        (self.processes, self.workers) = (0, 0);
        let now = &mut self.connections;
        let gauges = [&mut now.active, &mut now.reading, &mut now.writing, &mut now.waiting];
        gauges.into_iter().chain([&mut now.tunnels, &mut now.draining]).for_each(|gauge| *gauge = 0);
        self.requests.under_way = 0;
        for http2 in [&mut self.http2, &mut self.http2_upstreams] {
            (http2.connections, http2.streams) = (0, 0);
        }
        self.tls.certificates.clear();
        self.listeners.clear();
        self.errors.clear();
        self.configuration.changes.clear();
        self.memory.keep_counters();
        self.ports = PortsStatus { pairs_total: 0, free_least: None, pairs: Vec::new() };
        for group in &mut self.groups {
            (group.idle, group.leased, group.connecting, group.waiting) = (0, 0, 0, 0);
            for peer in &mut group.peers {
                (peer.idle, peer.leased, peer.connecting) = (0, 0, 0);
                if let Some(check) = &mut peer.check {
                    check.state = Cow::Borrowed(STATES[0]);
                    (check.changed_at_s, check.in_a_row, check.last) = (0, 0, None);
                }
            }
        }
        for cache in &mut self.caches {
            (cache.keys, cache.keys_limit, cache.bytes, cache.foreign_files) = (0, 0, 0, 0);
        }
    }
}

/// Sums by label.
fn add<K: Ord + Clone>(sums: &mut BTreeMap<K, u64>, more: &BTreeMap<K, u64>) {
    for (label, value) in more {
        *sums.entry(label.clone()).or_default() += value;
    }
}

impl Connections {
    fn add(&mut self, other: &Self) {
        self.accepted += other.accepted;
        self.handled += other.handled;
        // A connection may be accepted by one process and handled by another one.
        self.dropped = self.accepted.saturating_sub(self.handled);
        self.active += other.active;
        self.reading += other.reading;
        self.writing += other.writing;
        self.waiting += other.waiting;
        self.tunnels += other.tunnels;
        self.draining += other.draining;
        add(&mut self.drained, &other.drained);
        add(&mut self.closed, &other.closed);
        add(&mut self.datagrams_dropped, &other.datagrams_dropped);
    }
}

impl Http2Status {
    fn add(&mut self, other: &Self) {
        self.connections += other.connections;
        self.streams += other.streams;
        add(&mut self.connection_faults, &other.connection_faults);
        add(&mut self.stream_faults, &other.stream_faults);
    }
}

impl MemoryStatus {
    fn add(&mut self, other: &Self) {
        self.budget_bytes = match (self.budget_bytes, other.budget_bytes) {
            (Some(one), Some(other)) => Some(one + other),
            (one, other) => one.or(other),
        };
        self.held_bytes += other.held_bytes;
        add(&mut self.held_by, &other.held_by);
        self.claimed_bytes += other.claimed_bytes;
        self.claimed_peak_bytes += other.claimed_peak_bytes;
        let rank = |label: &str| PRESSURES.iter().position(|known| *known == label);
        if rank(&other.pressure) > rank(&self.pressure) {
            self.pressure.clone_from(&other.pressure);
        }
        add(&mut self.shed, &other.shed);
    }

    fn keep_counters(&mut self) {
        self.budget_bytes = None;
        (self.held_bytes, self.claimed_bytes, self.claimed_peak_bytes) = (0, 0, 0);
        self.held_by.values_mut().for_each(|bytes| *bytes = 0);
        self.pressure = Cow::Borrowed(PRESSURES[0]);
    }
}

impl PortsStatus {
    /// Each process knows only the ports that it uses itself, so what another one uses is not free either.
    fn add(&mut self, other: &Self) {
        for pair in &other.pairs {
            let same = |known: &&mut super::room::PairStatus| known.source == pair.source && known.peer == pair.peer;
            match self.pairs.iter_mut().find(same) {
                Some(known) => {
                    known.used += pair.used;
                    known.time_wait += pair.time_wait;
                    known.reusable += pair.reusable;
                    known.free = known.free.saturating_sub(pair.ports.saturating_sub(pair.free));
                    known.opened_per_second += pair.opened_per_second;
                    let earliest = |one: f64, other: f64| one.min(other);
                    known.exhausted_in_s = match (known.exhausted_in_s, pair.exhausted_in_s) {
                        (Some(one), Some(other)) => Some(earliest(one, other)),
                        (one, other) => one.or(other),
                    };
                }
                None => self.pairs.push(pair.clone()),
            }
        }
        self.pairs_total = self.pairs_total.max(other.pairs_total).max(self.pairs.len() as u64);
        let least = self.pairs.iter().map(|pair| pair.free).chain(self.free_least).chain(other.free_least).min();
        self.free_least = least;
    }
}

impl GroupStatus {
    /// `new_peers`: peers that this process does not know are added.
    fn add(&mut self, other: &Self, new_peers: bool) {
        self.idle += other.idle;
        self.leased += other.leased;
        self.connecting += other.connecting;
        self.waiting += other.waiting;
        self.opened += other.opened;
        self.reused += other.reused;
        self.stolen += other.stolen;
        self.handed_over += other.handed_over;
        self.no_live_peer += other.no_live_peer;
        add(&mut self.discarded, &other.discarded);
        add(&mut self.retries, &other.retries);
        for peer in &other.peers {
            match self.peers.iter_mut().find(|known| known.address == peer.address) {
                Some(known) => known.add(peer),
                None if new_peers => self.peers.push(peer.clone()),
                None => {}
            }
        }
    }
}

impl PeerStatus {
    /// The sum over peers, without their health; `None` without peers.
    pub(crate) fn sum_of(peers: &[Self], name: &str) -> Option<Self> {
        let (first, others) = peers.split_first()?;
        let mut sum = Self { address: name.to_owned(), ..first.clone() };
        for peer in others {
            sum.add(peer);
        }
        sum.check = None;
        Some(sum)
    }

    fn add(&mut self, other: &Self) {
        self.idle += other.idle;
        self.leased += other.leased;
        self.connecting += other.connecting;
        self.attempts += other.attempts;
        self.failed += other.failed;
        self.opened += other.opened;
        self.reused += other.reused;
        add(&mut self.responses, &other.responses);
        self.connect_time.add(&other.connect_time);
        self.response_time.add(&other.response_time);
        match (&mut self.check, &other.check) {
            (Some(known), Some(check)) => known.add(check),
            (known @ None, Some(check)) => *known = Some(check.clone()),
            (_, None) => {}
        }
    }
}

impl CheckStatus {
    /// Each process makes its own checks. The worst state counts, with what the process of that state has seen.
    fn add(&mut self, other: &Self) {
        let rank = |label: &str| STATES.iter().position(|known| *known == label);
        if rank(&other.state) > rank(&self.state) {
            self.state.clone_from(&other.state);
            (self.changed_at_s, self.in_a_row) = (other.changed_at_s, other.in_a_row);
            self.last.clone_from(&other.last);
        }
        self.passed += other.passed;
        self.failed += other.failed;
        add(&mut self.results, &other.results);
    }
}

impl CacheZoneStatus {
    /// The files are the same ones: each process counts all that it knows of.
    fn add(&mut self, other: &Self) {
        self.keys = self.keys.max(other.keys);
        self.keys_limit = self.keys_limit.max(other.keys_limit);
        self.bytes = self.bytes.max(other.bytes);
        self.write_failures += other.write_failures;
        self.bad_files += other.bad_files;
        self.foreign_files = self.foreign_files.max(other.foreign_files);
        add(&mut self.requests, &other.requests);
    }
}

impl DurationHistogram {
    fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.sum_ms += other.sum_ms;
        for (bucket, more) in self.buckets.iter_mut().zip(&other.buckets) {
            bucket.count += more.count;
        }
        self.native.zero_count += other.native.zero_count;
        let mut buckets: BTreeMap<i32, u64> = self.native.buckets.iter().copied().collect();
        add(&mut buckets, &other.native.buckets.iter().copied().collect());
        self.native.buckets = buckets.into_iter().collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::status::snapshot::Labelled;

    fn histogram(counts: [u64; 2], native: &[(i32, u64)]) -> DurationHistogram {
        let bucket = |count| crate::content::status::snapshot::Bucket { at_most_ms: None, count };
        let native = NativeHistogram { buckets: native.to_vec(), ..NativeHistogram::default() };
        DurationHistogram { count: counts[1], sum_ms: 1.5, buckets: counts.map(bucket).into(), native }
    }

    #[test]
    fn histograms_are_summed_bucket_by_bucket() {
        let mut sum = histogram([1, 3], &[(-4, 1), (2, 2)]);
        sum.add(&histogram([2, 2], &[(-7, 5), (2, 1)]));
        assert_eq!((sum.count, sum.sum_ms), (5, 3.0));
        assert_eq!(sum.buckets.iter().map(|bucket| bucket.count).collect::<Vec<_>>(), [3, 5]);
        assert_eq!(sum.native.buckets, [(-7, 5), (-4, 1), (2, 3)]);
    }

    #[test]
    fn sums_have_the_labels_of_both() {
        let of = |values: &[(&'static str, u64)]| -> Labelled {
            crate::content::status::snapshot::labelled(values.iter().copied())
        };
        let mut sums = of(&[("a", 1), ("b", 2)]);
        add(&mut sums, &of(&[("b", 3), ("c", 4)]));
        assert_eq!(sums, of(&[("a", 1), ("b", 5), ("c", 4)]));
    }
}
