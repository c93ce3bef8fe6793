//! Drives the gateway's book of checks: makes each check when it is due, within its time limit, and settles it.

use crate::bell::ringer;
use crate::probe;
use gateway::Registry;
use gateway::checks::Probe;
use reactor::monotonic_millis;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// How long to wait for the bell if no check is scheduled.
const LONG: Duration = Duration::from_hours(1);

/// Connects to the registry. The bell signals that the checks have changed.
pub(crate) fn attach(registry: &'static Registry) -> Arc<Notify> {
    let bell = Arc::new(Notify::new());
    registry.checks().attach(ringer(&bell));
    bell
}

/// Runs as long as the control plane.
pub(crate) async fn run(registry: &'static Registry, bell: Arc<Notify>) {
    loop {
        let now_ms = monotonic_millis().0;
        let due = registry.checks().due(now_ms, || fastrand::u64(..));
        for probe in due.probes {
            tokio::spawn(Check { registry, probe: Some(probe) }.run());
        }
        let pause = due.next_ms.map_or(LONG, |at_ms| Duration::from_millis(at_ms.saturating_sub(now_ms)));
        tokio::select! {
            () = bell.notified() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// A check in progress. Dropping it settles it in the book; otherwise the peer would never be checked again.
struct Check {
    registry: &'static Registry,
    /// `None` once it is settled.
    probe: Option<Probe>,
}

impl Check {
    async fn run(mut self) {
        let Some(probe) = &self.probe else { return };
        let result = probe::ask(probe).await;
        if let Some(probe) = self.probe.take() {
            let checks = self.registry.checks();
            checks.settle(&probe, result, chance(), self.registry.error_log(), monotonic_millis().0);
        }
    }
}

impl Drop for Check {
    fn drop(&mut self) {
        if let Some(probe) = self.probe.take() {
            self.registry.checks().give_up(&probe, chance(), monotonic_millis().0);
        }
    }
}

/// Two random numbers.
fn chance() -> (u64, u64) {
    (fastrand::u64(..), fastrand::u64(..))
}
