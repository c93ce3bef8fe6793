//! What is ordered next. Pure: the time and chance come in.

use super::budget::Budget;
use crate::dates;
use ingress::objects::core::Secret;
use ingress::{CertificateWish, Finding, Level, Name};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Most orders at once. An order takes some seconds, or some minutes where an authority hangs.
const AT_ONCE_MAX: usize = 4;
/// After something was found out about a Secret, the watch has this long to bring it here. It takes some milliseconds.
const REST: Duration = Duration::from_secs(5);
/// The pause after the API server could not be asked.
const LATER: Duration = Duration::from_secs(30);
/// Most failures that a new leader learns of. With [`REASON_CHARS_MAX`] they fit into a Secret, which has at most 1 MB.
const RECALLED_MAX: usize = 1000;
/// Longest reason of a failure: an authority can write any text.
const REASON_CHARS_MAX: usize = 300;
/// Hosts that a message names.
const HOSTS_SHOWN_MAX: usize = 5;

/// What is known about the Secret of a wish.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Known {
    /// There is none.
    Missing,
    /// It is not ours.
    Foreign,
    /// It is ours.
    Ours(Validity),
}

/// The certificate of a Secret of ours.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Validity {
    pub(super) start: SystemTime,
    pub(super) end: SystemTime,
    /// It is for all hosts of the wish, and of the authority that is configured.
    pub(super) suffices: bool,
    /// Spreads renewals: from 0 to 1, and the same for all who look at this certificate.
    pub(super) chance: f64,
}

impl Known {
    /// When to order; `None`: never.
    pub(super) fn due(&self) -> Option<SystemTime> {
        match self {
            Self::Foreign => None,
            Self::Ours(found) if found.suffices => Some(tls::renew_at(found.start, found.end, found.chance)),
            Self::Missing | Self::Ours(_) => Some(UNIX_EPOCH),
        }
    }

    fn life(&self) -> Option<Duration> {
        let Self::Ours(found) = self else { return None };
        found.end.duration_since(found.start).ok()
    }
}

/// A failed order, as a new leader learns of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Failed {
    hosts: Vec<String>,
    failures: u32,
    /// Seconds since 1970.
    retry_at: u64,
    reason: String,
}

/// What a leader leaves to the next one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Memory {
    budget: Budget,
    failed: BTreeMap<String, Failed>,
}

/// An order to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Job {
    pub(super) secret: Name,
    pub(super) hosts: Vec<String>,
}

/// How a job ended.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Outcome {
    /// The Secret has this new certificate.
    Issued(Validity),
    /// There was nothing to order: the Secret is there already.
    Present(Known),
    /// The API server could not be asked before the order.
    Postponed,
    /// The order failed.
    Failed { reason: String, patience: Duration },
}

/// What was told last about a wish.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Told {
    Issued(String),
    Failed(String),
}

struct Entry {
    wish: CertificateWish,
    /// The version of the Secret that `known` is about.
    version: Option<String>,
    known: Known,
    failures: u32,
    reason: String,
    retry_at: SystemTime,
    is_running: bool,
    told: Option<Told>,
}

impl Entry {
    fn new(wish: CertificateWish) -> Self {
        Self {
            wish,
            version: None,
            known: Known::Missing,
            failures: 0,
            reason: String::new(),
            retry_at: UNIX_EPOCH,
            is_running: false,
            told: None,
        }
    }

    fn due(&self) -> Option<SystemTime> {
        (!self.is_running).then(|| self.known.due())?.map(|due| due.max(self.retry_at))
    }

    fn shown(&self) -> String {
        let mut hosts: Vec<&str> = self.wish.hosts.iter().take(HOSTS_SHOWN_MAX).map(String::as_str).collect();
        if self.wish.hosts.len() > HOSTS_SHOWN_MAX {
            hosts.push("…");
        }
        hosts.join(", ")
    }
}

/// The wishes, and what became of them.
#[derive(Default)]
pub(super) struct Book {
    entries: BTreeMap<Name, Entry>,
    budget: Budget,
    recalled: BTreeMap<String, Failed>,
}

impl Book {
    /// Goes on where another leader ended.
    pub(super) fn recall(memory: Memory) -> Self {
        Self { entries: BTreeMap::new(), budget: memory.budget, recalled: memory.failed }
    }

    /// What the next leader has to know.
    pub(super) fn memory(&self) -> Memory {
        let failed = self.entries.values().filter(|entry| entry.failures > 0).take(RECALLED_MAX);
        let failed = failed.map(|entry| {
            let hosts = entry.wish.hosts.iter().cloned().collect();
            let (failures, reason) = (entry.failures, entry.reason.clone());
            let retry_at = seconds(entry.retry_at);
            (entry.wish.secret.to_string(), Failed { hosts, failures, retry_at, reason })
        });
        Memory { budget: self.budget.clone(), failed: failed.collect() }
    }

    /// Takes the present wishes, and the Secrets as they are. `judge` reads a Secret.
    pub(super) fn sync(
        &mut self,
        wishes: &[CertificateWish],
        find: impl Fn(&Name) -> Option<Arc<Secret>>,
        judge: impl Fn(&Secret, &CertificateWish) -> Known,
    ) {
        let mut before = std::mem::take(&mut self.entries);
        for wish in wishes {
            let mut entry = before.remove(&wish.secret).unwrap_or_else(|| self.begin(wish));
            if entry.wish.hosts != wish.hosts {
                // The new hosts may be right where the old ones were wrong. The budget bounds who changes them again and again.
                (entry.version, entry.failures, entry.retry_at, entry.told) = (None, 0, UNIX_EPOCH, None);
            }
            entry.wish.clone_from(wish);
            match find(&wish.secret) {
                Some(secret) if entry.version.as_ref() == Some(&secret.metadata.resource_version) => {}
                Some(secret) => {
                    entry.known = judge(&secret, wish);
                    entry.version = Some(secret.metadata.resource_version.clone());
                }
                None => (entry.known, entry.version) = (Known::Missing, None),
            }
            self.entries.insert(wish.secret.clone(), entry);
        }
        self.recalled.clear();
    }

    /// An entry for a new wish: perhaps another leader has tried it.
    fn begin(&self, wish: &CertificateWish) -> Entry {
        let mut entry = Entry::new(wish.clone());
        let failed = self.recalled.get(&wish.secret.to_string());
        if let Some(failed) = failed.filter(|failed| failed.hosts.iter().eq(&wish.hosts)) {
            entry.failures = failed.failures;
            entry.retry_at = UNIX_EPOCH + Duration::from_secs(failed.retry_at);
            entry.told = Some(Told::Failed(failure_text(&entry, &failed.reason)));
            entry.reason.clone_from(&failed.reason);
        }
        entry
    }

    /// The next job, if one may begin now. One namespace has one at a time, and the namespace that has ordered least comes first.
    pub(super) fn next(&mut self, now: SystemTime) -> Option<Job> {
        let running: Vec<&str> =
            self.entries.iter().filter(|(_, entry)| entry.is_running).map(|(name, _)| &*name.namespace).collect();
        if running.len() >= AT_ONCE_MAX {
            return None;
        }
        let at = seconds(now);
        let due = self.entries.iter().filter_map(|(name, entry)| Some((name, entry.due()?)));
        let due = due.filter(|(name, due)| {
            *due <= now && !running.contains(&&*name.namespace) && self.budget.has(&name.namespace, at)
        });
        let first = due.min_by(|(one, one_due), (two, two_due)| {
            let rest = |name: &Name| self.budget.rest(&name.namespace, at);
            rest(two).total_cmp(&rest(one)).then(one_due.cmp(two_due)).then(one.cmp(two))
        });
        let secret = first.map(|(name, _)| name.clone())?;
        self.budget.spend(&secret.namespace, at);
        let entry = self.entries.get_mut(&secret)?;
        entry.is_running = true;
        let hosts = entry.wish.hosts.iter().cloned().collect();
        Some(Job { secret, hosts })
    }

    /// When to look again, if nothing happens before.
    pub(super) fn look_at(&self, now: SystemTime) -> SystemTime {
        let due = self.entries.values().filter_map(Entry::due);
        // What is due already waits for others, or for the budget.
        due.map(|due| if due > now { due } else { now + REST }).min().unwrap_or(now + LATER).min(now + LATER)
    }

    /// A job ended. `chance` is a random number. Returns a line for the log: whether it is trouble, and the text.
    pub(super) fn finish(
        &mut self,
        secret: &Name,
        outcome: Outcome,
        now: SystemTime,
        chance: u64,
    ) -> Option<(bool, String)> {
        let at = seconds(now);
        if matches!(outcome, Outcome::Present(_) | Outcome::Postponed) {
            self.budget.give_back(&secret.namespace, at);
        }
        // Perhaps nothing asks for it any more.
        let entry = self.entries.get_mut(secret)?;
        entry.is_running = false;
        match outcome {
            Outcome::Issued(found) => {
                (entry.known, entry.failures, entry.retry_at) = (Known::Ours(found), 0, now + REST);
                let renewed = entry.known.due().filter(|due| *due > now);
                let Some(renewed) = renewed else {
                    let reason = format!("the new certificate ends at {}: check the clocks", dates::of(found.end));
                    return Some((true, entry.fail(&reason, Duration::ZERO, now, chance)));
                };
                let text = format!(
                    "the Secret \"{}\" has a certificate for {} until {}; it is renewed after {}",
                    secret.name,
                    entry.shown(),
                    dates::of(found.end),
                    dates::of(renewed)
                );
                entry.told = Some(Told::Issued(text.clone()));
                Some((false, text))
            }
            Outcome::Present(known) => {
                (entry.known, entry.retry_at) = (known, now + REST);
                None
            }
            Outcome::Postponed => {
                entry.retry_at = now + LATER;
                None
            }
            Outcome::Failed { reason, patience } => Some((true, entry.fail(&reason, patience, now, chance))),
        }
    }

    /// What is to be told about the Ingresses now.
    pub(super) fn findings(&self) -> Vec<Finding> {
        let mut found = Vec::new();
        for entry in self.entries.values() {
            let told = match (&entry.known, &entry.told) {
                (Known::Foreign, _) => {
                    let message = format!(
                        "no certificate is ordered: the Secret \"{}\" was not made by this controller, and is left as it is",
                        entry.wish.secret.name
                    );
                    (Level::Warning, "CertificateNotOurs", message)
                }
                (_, Some(Told::Failed(text))) => (Level::Warning, "CertificateFailed", text.clone()),
                (_, Some(Told::Issued(text))) => (Level::Note, "CertificateIssued", text.clone()),
                (_, None) => continue,
            };
            let (level, reason, message) = told;
            let of = |object: &ingress::ObjectName| Finding {
                object: object.clone(),
                level,
                reason,
                message: message.clone(),
            };
            found.extend(entry.wish.objects.iter().map(of));
        }
        found
    }
}

impl Entry {
    /// Counts a failure; returns what is told.
    fn fail(&mut self, reason: &str, patience: Duration, now: SystemTime, chance: u64) -> String {
        self.failures = self.failures.saturating_add(1);
        self.retry_at = now + tls::retry_pause(self.failures, self.known.life(), patience, chance);
        self.reason = reason.chars().filter(|letter| !letter.is_control()).take(REASON_CHARS_MAX).collect();
        let text = failure_text(self, &self.reason);
        self.told = Some(Told::Failed(text.clone()));
        text
    }
}

fn failure_text(entry: &Entry, reason: &str) -> String {
    let again = dates::of(entry.retry_at);
    format!(
        "no new certificate for the Secret \"{}\" ({}): {reason}; next attempt after {again}",
        entry.wish.secret.name,
        entry.shown()
    )
}

/// Seconds since 1970.
pub(super) fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests;
