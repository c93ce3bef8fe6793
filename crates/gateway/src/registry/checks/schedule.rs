//! The schedule of checks: the peers that the present configuration checks, when each is due, and the results. Like its
//! health, a peer is identified by its group's name, its address and its ordinal among equals, so a reload or a changed
//! name does not affect peers that stay. A peer that is no longer checked counts as healthy.

use crate::base::logs::error::{ErrorLog, Level};
use crate::registry::Notify;
use crate::registry::checks::{CheckPlan, CheckResult, Finding};
use crate::registry::names::moving::MovingGroup;
use reactor::PeerAddress;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use upstream::Millis;
use upstream::balance::{Checked, PeerHealth};
use upstream::check::{CheckVerdict, Checkup};

/// Most concurrent checks. Each has a socket, and at worst 256 KB of a body: 32 MB. A hanging peer occupies a place for
/// its `timeout`; with more than this many of them, other peers are checked later than their `interval`.
const UNDER_WAY_MAX: usize = 128;

/// A peer to check.
#[derive(Clone)]
pub(crate) struct CheckedPeer {
    pub(crate) address: PeerAddress,
    pub(crate) health: Arc<PeerHealth>,
}

/// The source of a group's peers.
pub(crate) enum CheckedPeers {
    Fixed(Vec<CheckedPeer>),
    Moving(Arc<MovingGroup>),
}

/// A group that is checked.
pub(crate) struct GroupChecks {
    pub(crate) plan: Arc<CheckPlan>,
    pub(crate) peers: CheckedPeers,
}

/// A check to make; its result must be reported.
#[derive(Debug, Clone)]
pub struct Probe {
    /// The request.
    pub plan: Arc<CheckPlan>,
    /// The peer's address.
    pub address: PeerAddress,
    serial: u64,
}

/// Work for the control plane.
#[derive(Debug, Default)]
pub struct CheckDue {
    /// Checks to make now.
    pub probes: Vec<Probe>,
    /// When to call again at the latest, in milliseconds of the process's clock.
    pub next_ms: Option<u64>,
}

/// The state of a checked peer.
#[derive(Debug, Clone)]
pub(crate) struct PeerChecks {
    pub(crate) group: Box<str>,
    pub(crate) address: PeerAddress,
    /// Its ordinal among the peers of the group with the same address.
    pub(crate) ordinal: u32,
    pub(crate) state: Checked,
    pub(crate) since: Millis,
    /// Number of equal results in a row, and whether they passed.
    pub(crate) run: (u32, bool),
    /// In the order of [`Finding::ALL`].
    pub(crate) counts: [u64; Finding::ALL.len()],
    /// The last result, and its time.
    pub(crate) last: Option<(CheckResult, Millis)>,
}

struct ScheduledCheck {
    plan: Arc<CheckPlan>,
    peer: CheckedPeer,
    checkup: Checkup,
    counts: [u64; Finding::ALL.len()],
    last: Option<(CheckResult, Millis)>,
}

type Identity = (Box<str>, PeerAddress, u32);

#[derive(Default)]
struct Schedule {
    /// Number of the generation that has these groups.
    generation: u64,
    groups: Arc<[GroupChecks]>,
    serials: FxHashMap<Identity, u64>,
    entries: FxHashMap<u64, ScheduledCheck>,
    /// Peers without a check in progress, by the time at which they are due.
    by_time: BTreeSet<(Millis, u64)>,
    under_way: usize,
    serial: u64,
}

/// All active checks of the process.
#[derive(Default)]
pub struct Checks {
    schedule: Mutex<Schedule>,
    control: OnceLock<Notify>,
    /// The schedule's peers are out of date.
    is_changed: AtomicBool,
}

impl GroupChecks {
    fn peers(&self) -> Vec<CheckedPeer> {
        match &self.peers {
            CheckedPeers::Fixed(peers) => peers.clone(),
            CheckedPeers::Moving(moving) => moving.checked_peers(),
        }
    }
}

impl Checks {
    fn lock(&self) -> MutexGuard<'_, Schedule> {
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers the control plane: `notify` is called, from any thread, when [`Self::due`] has something new. Only the
    /// first call counts.
    pub fn attach(&self, notify: impl Fn() + Send + Sync + 'static) {
        let _ = self.control.set(Box::new(notify));
    }

    /// Sets the groups to check. Each worker calls it when it switches to a generation; an older generation than the
    /// schedule's is ignored.
    pub(crate) fn apply(&self, generation: u64, groups: &Arc<[GroupChecks]>) {
        let mut schedule = self.lock();
        if generation <= schedule.generation {
            return;
        }
        schedule.generation = generation;
        if groups.is_empty() && schedule.groups.is_empty() {
            return;
        }
        schedule.groups = Arc::clone(groups);
        drop(schedule);
        self.changed();
    }

    /// Reports that a name has other addresses. Takes no lock, so that the holder of one may call it.
    pub(crate) fn changed(&self) {
        self.is_changed.store(true, Ordering::Release);
        if let Some(notify) = self.control.get() {
            notify();
        }
    }

    /// The checks to make now, within the limit of concurrent checks.
    pub fn due(&self, now_ms: u64, random: impl FnMut() -> u64) -> CheckDue {
        let now = Millis(now_ms);
        if self.is_changed.swap(false, Ordering::AcqRel) {
            // Without the lock: a group with names has its own lock.
            let groups = Arc::clone(&self.lock().groups);
            let present: Vec<_> = groups.iter().map(|group| (Arc::clone(&group.plan), group.peers())).collect();
            self.lock().take_over(present, random, now);
        }
        let mut due = CheckDue::default();
        let schedule = &mut *self.lock();
        while schedule.under_way < UNDER_WAY_MAX
            && let Some(&(at, serial)) = schedule.by_time.first()
        {
            if at > now {
                due.next_ms = Some(at.0);
                break;
            }
            schedule.by_time.pop_first();
            let Some(entry) = schedule.entries.get_mut(&serial) else { continue };
            entry.checkup.begin();
            schedule.under_way += 1;
            due.probes.push(Probe { plan: Arc::clone(&entry.plan), address: entry.asked_at(), serial });
        }
        due
    }

    /// Reports the result of a check; `chance` spreads the next one. Changes are logged.
    pub fn settle(&self, probe: &Probe, result: CheckResult, chance: (u64, u64), log: &ErrorLog, now_ms: u64) {
        self.end(probe, |entry| {
            if let Some((level, line)) = entry.settle(result, chance, Millis(now_ms)) {
                // Logged under the lock: a thread that sees the new state finds the line.
                log.log(level, &line);
            }
        });
    }

    /// Reports that a check was not completed: nothing is learned, and the next one follows at its time.
    pub fn give_up(&self, probe: &Probe, chance: (u64, u64), now_ms: u64) {
        self.end(probe, |entry| {
            entry.checkup.settle(CheckVerdict::NotMade, &entry.plan.policy, chance, Millis(now_ms));
        });
    }

    fn end(&self, probe: &Probe, settle: impl FnOnce(&mut ScheduledCheck)) {
        let schedule = &mut *self.lock();
        schedule.under_way = schedule.under_way.saturating_sub(1);
        // A peer that has left meanwhile does not count any more.
        if let Some(entry) = schedule.entries.get_mut(&probe.serial) {
            settle(entry);
            schedule.by_time.extend(entry.checkup.due().map(|at| (at, probe.serial)));
        }
        if let Some(notify) = self.control.get() {
            notify();
        }
    }

    /// The state of all checked peers.
    pub(crate) fn peers_checks(&self) -> Vec<PeerChecks> {
        let schedule = self.lock();
        let peer = |entry: &ScheduledCheck| PeerChecks {
            group: entry.plan.group.clone(),
            address: entry.peer.address.clone(),
            ordinal: entry.peer.health.ordinal(),
            state: entry.checkup.state(),
            since: entry.checkup.since(),
            run: entry.checkup.run(),
            counts: entry.counts,
            last: entry.last.clone(),
        };
        schedule.entries.values().map(peer).collect()
    }
}

impl Schedule {
    /// Replaces the entries by the present peers.
    fn take_over(
        &mut self,
        present: Vec<(Arc<CheckPlan>, Vec<CheckedPeer>)>,
        mut random: impl FnMut() -> u64,
        now: Millis,
    ) {
        let mut seen = FxHashSet::default();
        for (plan, peers) in present {
            for peer in peers {
                let identity = (plan.group.clone(), peer.address.clone(), peer.health.ordinal());
                let known = self.serials.get(&identity).copied();
                let known = known.and_then(|serial| Some((serial, self.entries.get_mut(&serial)?)));
                let serial = match known {
                    // The same peer with the same history.
                    Some((serial, entry)) if Arc::ptr_eq(&entry.peer.health, &peer.health) => {
                        let before = entry.checkup.due();
                        entry.plan = Arc::clone(&plan);
                        entry.checkup.follow(&plan.policy, now);
                        if let (Some(before), Some(due)) = (before, entry.checkup.due()) {
                            self.by_time.remove(&(before, serial));
                            self.by_time.insert((due, serial));
                        }
                        serial
                    }
                    _ => self.enter(identity, &plan, peer, random(), now),
                };
                seen.insert(serial);
            }
        }
        self.serials.retain(|_, serial| seen.contains(serial));
        let gone = self.entries.extract_if(|serial, _| !seen.contains(serial));
        for (serial, entry) in gone {
            if let Some(due) = entry.checkup.due() {
                self.by_time.remove(&(due, serial));
            }
            // It is no longer checked, so no check could mark it as healthy again.
            if entry.peer.health.checked() != Checked::Healthy {
                entry.peer.health.set_checked(Checked::Healthy, now);
            }
        }
    }

    fn enter(&mut self, identity: Identity, plan: &Arc<CheckPlan>, peer: CheckedPeer, random: u64, now: Millis) -> u64 {
        self.serial += 1;
        let checkup = Checkup::new(peer.health.checked(), &plan.policy, random, now);
        self.by_time.extend(checkup.due().map(|due| (due, self.serial)));
        let entry = ScheduledCheck { plan: Arc::clone(plan), peer, checkup, counts: Default::default(), last: None };
        self.entries.insert(self.serial, entry);
        self.serials.insert(identity, self.serial);
        self.serial
    }
}

impl ScheduledCheck {
    fn asked_at(&self) -> PeerAddress {
        match (&self.peer.address, self.plan.port) {
            (PeerAddress::Ip(address), Some(port)) => PeerAddress::Ip(SocketAddr::new(address.ip(), port)),
            // A Unix socket has no port.
            (address, _) => address.clone(),
        }
    }

    /// Records a result; returns the line for the error log if the state has changed.
    fn settle(&mut self, result: CheckResult, chance: (u64, u64), now: Millis) -> Option<(Level, String)> {
        if let Some(count) = self.counts.get_mut(result.finding as usize) {
            *count += 1;
        }
        let (before, since) = (self.checkup.state(), self.checkup.since());
        let found = self.checkup.settle(result.finding.verdict(), &self.plan.policy, chance, now);
        if let Some(found) = found {
            self.peer.health.set_checked(found, now);
        }
        let line = self.line(&result, before, since, found, now);
        self.last = Some((result, now));
        line
    }

    fn line(
        &self,
        result: &CheckResult,
        before: Checked,
        since: Millis,
        found: Option<Checked>,
        now: Millis,
    ) -> Option<(Level, String)> {
        let whom = format!("health check of peer {} in upstream \"{}\"", self.peer.address, self.plan.group);
        let (count, _) = self.checkup.run();
        let CheckResult { finding, phase, detail } = result;
        match found {
            Some(Checked::Unhealthy) => {
                let line =
                    format!("peer is unhealthy while {phase}, {whom}: {detail}; failed checks in a row: {count}");
                Some((Level::Warn, line))
            }
            Some(_) => {
                let was = if before == Checked::Pending { "was not known" } else { "was unhealthy" };
                let waited = now.since(since) as f64 / 1000.0;
                Some((
                    Level::Notice,
                    format!("peer is healthy, {whom}: passed checks in a row: {count}; {was} for {waited} s"),
                ))
            }
            // Logged once, until a check can be made again.
            None if *finding == Finding::NotMade
                && self.last.as_ref().is_none_or(|(last, _)| last.finding != Finding::NotMade) =>
            {
                Some((Level::Crit, format!("cannot check while {phase}, {whom}: {detail}")))
            }
            None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use conf::model::{CheckKind, HealthCheck};
    use conf::source::{FileId, Span};
    use std::time::Duration;

    fn plan(fails: u32) -> Arc<CheckPlan> {
        let written = HealthCheck {
            interval: Duration::from_secs(5),
            jitter: Duration::ZERO,
            fails,
            passes: 1,
            timeout: Duration::from_secs(1),
            port: None,
            mandatory: false,
            kind: CheckKind::Tcp,
            span: Span { file: FileId(0), start: 0, end: 0 },
        };
        Arc::new(CheckPlan::new("app", &written))
    }

    fn peer(last: u16) -> CheckedPeer {
        let address = PeerAddress::Ip(SocketAddr::from(([192, 0, 2, 1], last)));
        CheckedPeer { address, health: Arc::default() }
    }

    /// A schedule in which a generation has these peers.
    fn apply(checks: &Checks, generation: u64, plan: &Arc<CheckPlan>, peers: &[CheckedPeer]) {
        let peers = CheckedPeers::Fixed(peers.to_vec());
        checks.apply(generation, &[GroupChecks { plan: Arc::clone(plan), peers }].into());
    }

    fn log() -> ErrorLog {
        ErrorLog::new(Level::Debug, 0)
    }

    fn lines(log: &ErrorLog) -> String {
        let mut text = String::new();
        log.flush(|lines, _| text = String::from_utf8_lossy(lines).into_owned());
        text
    }

    fn result(finding: Finding) -> CheckResult {
        CheckResult::new(finding, "connecting to upstream", "x")
    }

    #[test]
    fn limits_the_checks_under_way() {
        let checks = Checks::default();
        let peers: Vec<CheckedPeer> = (0..200).map(peer).collect();
        apply(&checks, 1, &plan(1), &peers);
        let first = checks.due(10_000, || 0);
        assert_eq!((first.probes.len(), first.next_ms), (UNDER_WAY_MAX, None));
        assert!(checks.due(10_000, || 0).probes.is_empty());
        for probe in first.probes.iter().take(10) {
            checks.settle(probe, result(Finding::Passed), (0, 0), &log(), 10_000);
        }
        assert_eq!(checks.due(10_000, || 0).probes.len(), 10);
    }

    #[test]
    fn equal_peers_are_checked_once_and_judged_apart() {
        let (checks, log) = (Checks::default(), log());
        let registry = upstream::balance::HealthRegistry::default();
        let address = peer(1).address;
        let equal = |ordinal| CheckedPeer {
            address: address.clone(),
            health: registry.health("app", &address, ordinal, Checked::Healthy),
        };
        let peers = [equal(0), equal(1)];
        apply(&checks, 1, &plan(1), &peers);
        let probes = checks.due(10_000, || 0).probes;
        assert_eq!(probes.len(), 2);
        checks.settle(&probes[1], result(Finding::Connect), (0, 0), &log, 10_000);
        let ill = |peer: &CheckedPeer| peer.health.checked() == Checked::Unhealthy;
        assert_eq!(peers.iter().filter(|peer| ill(peer)).count(), 1);
        let mut ordinals: Vec<u32> = checks.peers_checks().iter().map(|peer| peer.ordinal).collect();
        ordinals.sort_unstable();
        assert_eq!(ordinals, [0, 1]);
    }

    #[test]
    fn reload_keeps_check_history_and_clears_removed_peers() {
        let (checks, log) = (Checks::default(), log());
        let (stays, goes) = (peer(1), peer(2));
        apply(&checks, 1, &plan(1), &[stays.clone(), goes.clone()]);
        for probe in checks.due(0, || 0).probes {
            checks.settle(&probe, result(Finding::Connect), (0, 0), &log, 0);
        }
        assert_eq!((stays.health.checked(), goes.health.checked()), (Checked::Unhealthy, Checked::Unhealthy));
        let asked = checks.due(10_000, || 0).probes;
        assert_eq!(asked.len(), 2);

        apply(&checks, 2, &plan(3), std::slice::from_ref(&stays));
        // A worker reports an older generation late.
        apply(&checks, 1, &plan(1), &[]);
        checks.due(10_000, || 0);
        assert_eq!((stays.health.checked(), goes.health.checked()), (Checked::Unhealthy, Checked::Healthy));
        for probe in &asked {
            checks.settle(probe, result(Finding::Connect), (0, 0), &log, 10_000);
        }
        assert_eq!(goes.health.checked(), Checked::Healthy, "it is not checked any more");
        let peers_checks = checks.peers_checks();
        assert_eq!(peers_checks.len(), 1);
        assert_eq!((peers_checks[0].run, peers_checks[0].counts[Finding::Connect as usize]), ((2, false), 2));
        assert_eq!(lines(&log).matches("peer is unhealthy").count(), 2);
    }

    #[test]
    fn impossible_check_is_reported_once_without_blame() {
        let (checks, log) = (Checks::default(), log());
        let one = peer(1);
        apply(&checks, 1, &plan(1), std::slice::from_ref(&one));
        let mut now_ms = 0;
        for finding in [Finding::NotMade, Finding::NotMade, Finding::Passed, Finding::NotMade] {
            let due = checks.due(now_ms, || 0);
            let [probe] = due.probes.as_slice() else { panic!("{due:?}") };
            checks.settle(probe, result(finding), (0, 0), &log, now_ms);
            now_ms += 5000;
        }
        let [probe] = checks.due(now_ms, || 0).probes.try_into().unwrap();
        checks.give_up(&probe, (0, 0), now_ms);
        assert_eq!(one.health.checked(), Checked::Healthy);
        assert_eq!(lines(&log).matches("cannot check while connecting to upstream").count(), 2, "{}", lines(&log));
        assert_eq!(checks.due(now_ms + 5000, || 0).probes.len(), 1, "it is asked again");
    }
}
