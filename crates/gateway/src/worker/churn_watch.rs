//! Watches the upstream pool: the first worker checks once a second what the limits of each group cost, and logs once a
//! minute which are too small. `upstream::churn` decides that.

use crate::base::logs::error::Level;
use crate::registry::process::Registry;
use crate::thread::chores::Chore;
use crate::worker::Worker;
use reactor::Millis;
use rustc_hash::FxHashMap;
use upstream::churn::Minute;
use upstream::shared::{GroupCounts, GroupId};

/// How often the gauges are read. Counters miss nothing in between; a peak of connections shorter than that need not
/// determine the pool's size.
const LOOK_MS: u64 = 1000;
/// Readings between two log lines about the same group.
const LOOKS_PER_REPORT: u32 = 60;

/// A group's counters when the minute began, and the peaks since.
#[derive(Debug)]
struct Seen {
    before: GroupCounts,
    connections_peak: u32,
    idle_peak: u32,
}

/// The readings of one minute.
#[derive(Debug, Default)]
pub(crate) struct ChurnWatch {
    groups: FxHashMap<GroupId, Seen>,
    looks: u32,
}

impl ChurnWatch {
    /// Takes one reading; the last of a minute logs the result.
    fn look(&mut self, registry: &Registry) {
        let pool = &registry.pool;
        let groups = pool.groups();
        for (name, id) in &groups {
            let snapshot = pool.snapshot(*id);
            let Some(seen) = self.groups.get_mut(id) else {
                let (connections_peak, idle_peak) = (snapshot.connections, snapshot.idle);
                self.groups.insert(*id, Seen { before: snapshot.counts, connections_peak, idle_peak });
                continue;
            };
            seen.connections_peak = seen.connections_peak.max(snapshot.connections);
            seen.idle_peak = seen.idle_peak.max(snapshot.idle);
            if self.looks < LOOKS_PER_REPORT {
                continue;
            }
            let Some(limits) = pool.limits(*id) else { continue };
            let minute = Minute {
                limits: &limits,
                workers: pool.workers(),
                before: &seen.before,
                now: &snapshot.counts,
                connections_peak: seen.connections_peak,
                idle_peak: seen.idle_peak,
            };
            for shortage in minute.shortages() {
                registry.error_log.log(Level::Warn, &format!("upstream \"{name}\": {shortage}"));
            }
            *seen = Seen { before: snapshot.counts, connections_peak: 0, idle_peak: 0 };
        }
        self.looks = if self.looks < LOOKS_PER_REPORT { self.looks + 1 } else { 1 };
    }
}

impl Worker {
    /// Starts the readings, if this is the worker that takes them.
    pub(crate) fn begin_watching(&self) {
        if self.thread.index == 0 {
            self.thread.chores.plan(Chore::WatchChurn, Millis(self.thread.reactor.now().0 + LOOK_MS));
        }
    }

    pub(crate) fn watch_churn(&self) {
        self.churn.borrow_mut().look(self.thread.registry);
        self.begin_watching();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::logs::error::ErrorLog;
    use crate::registry::pool::IdleSocket;
    use upstream::WorkerId;
    use upstream::shared::{GroupLimits, Open, PeerAddress, PoolKey};

    #[test]
    fn too_small_pool_is_logged_once_a_minute_with_numbers() {
        let registry = Registry::leak(1, ErrorLog::new(Level::Warn, 0)).unwrap();
        let group = registry.pool.intern_group("backend", &GroupLimits::keepalive(2, false, 1)).unwrap();
        let peer = PeerAddress::Ip(([127, 0, 0, 1], 80).into());
        let key = PoolKey { group, peer, tls: None, source: None, proxy_protocol: false, location: None };
        let key = registry.pool.intern_key(&key).unwrap();
        let mut watch = ChurnWatch::default();
        let mut lines = Vec::new();
        for second in 0..=2 * LOOKS_PER_REPORT {
            // Ten at a time, with room for two.
            let leases: Vec<_> = (0..10)
                .map(|_| match registry.pool.open(WorkerId(0), key) {
                    Open::Connect { permit, .. } => permit.established(IdleSocket::leased(), Millis(0)),
                    Open::Full { limit, .. } => panic!("{limit:?}"),
                })
                .collect();
            watch.look(registry);
            for lease in leases {
                let _ = lease.check_in(Millis(u64::from(second)));
            }
            registry.error_log.flush(|text, _| lines.push((second, String::from_utf8_lossy(text).into_owned())));
        }
        lines.retain(|(_, text)| !text.is_empty());
        assert_eq!(lines.iter().map(|(second, _)| *second).collect::<Vec<_>>(), [60, 120], "{lines:?}");
        assert!(lines[0].1.contains("[warn]") && lines[0].1.contains("upstream \"backend\": "), "{lines:?}");
        assert!(
            lines[0].1.contains("keepalive is 2 per worker") && lines[0].1.contains("\"keepalive 12\""),
            "{lines:?}"
        );
    }
}
