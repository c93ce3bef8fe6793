//! Watches TLS files for changes, in the process that may read them. Changed certificates replace the old ones; for
//! changed authorities, revocation lists and ticket keys the configuration is bound again. Neither needs a reload.

use super::order::Texts;
use gateway::{FileStamp, Level, ReadFile, Registry};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Time between two checks. A changed file is read when two checks find it the same, so that a certificate whose key is
/// still being written is not read. New certificates are used after at most three periods.
const LOOK_PERIOD: Duration = Duration::from_secs(2);

/// Time between two warnings about a certificate that expires soon.
const WARNING_PERIOD: Duration = Duration::from_hours(24);

/// A file that changed this shortly before it is first seen may have been read before the change: reading a large
/// configuration takes some seconds.
const FRESH_SECONDS: i64 = 60;

/// States of files; `None` for a missing file.
type Stamps = HashMap<PathBuf, Option<FileStamp>>;

/// The TLS files in use, with their states.
#[derive(Debug, Default)]
pub(super) struct CertificateWatch {
    next_look: Option<Instant>,
    next_warning: Option<Instant>,
    /// States at the time the files were read.
    read: Stamps,
    /// States at the last check.
    last: Stamps,
    /// Changed files, and whether two checks found the same state.
    changed: HashMap<PathBuf, bool>,
    /// Changed files with which binding failed. They are tried again with the next change, because another file may
    /// have been the broken one.
    refused: BTreeSet<PathBuf>,
}

/// Files that have changed and must be read again.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Changed {
    /// Certificate and key files: only these pairs are read.
    pub(super) pairs: Vec<PathBuf>,
    /// All other files, such as authorities and revocation lists: the configuration is bound again with them.
    pub(super) others: Vec<PathBuf>,
}

impl CertificateWatch {
    /// Checks the files if the period is over. `others` are the files that the configuration read besides certificates.
    pub(super) fn look(&mut self, now: Instant, registry: &Registry, others: &BTreeSet<PathBuf>) -> Changed {
        if self.next_look.is_some_and(|at| now < at) {
            return Changed::default();
        }
        self.next_look = Some(now + LOOK_PERIOD);
        // Reading the states rotates the ticket secret kept for children, so that it yields no expired key.
        drop(registry.ticket_states());
        let now_s = i64::try_from(reactor::wall_clock().as_secs()).unwrap_or(i64::MAX);
        let pairs = registry.certificate_files();
        let found = stamps(pairs.iter().flatten().chain(others));
        let of_pairs: HashSet<&PathBuf> = pairs.iter().flatten().collect();
        let others: Vec<Vec<PathBuf>> =
            others.iter().filter(|path| !of_pairs.contains(path)).map(|path| vec![path.clone()]).collect();
        self.see(found, now_s);
        let mut changed = Changed { pairs: self.take_settled(&pairs), others: self.take_settled(&others) };
        if !changed.others.is_empty() {
            changed.others.extend(std::mem::take(&mut self.refused));
        }
        changed
    }

    /// Notes files with which binding failed: they are read again together with the next changed ones.
    pub(super) fn refuse(&mut self, files: Vec<PathBuf>) {
        self.refused.extend(files);
    }

    /// Whether to warn now of certificates that expire soon. A start and a reload warn, too.
    pub(super) fn is_warning_due(&mut self, now: Instant) -> bool {
        let due = self.next_warning.is_some_and(|at| now >= at);
        if due || self.next_warning.is_none() {
            self.next_warning = Some(now + WARNING_PERIOD);
        }
        due
    }

    fn see(&mut self, found: Stamps, now_s: i64) {
        // A new file was read by the configuration that names it, unless it has changed since.
        let fresh_since = now_s.saturating_sub(FRESH_SECONDS);
        for (path, stamp) in found.iter().filter(|(path, _)| !self.read.contains_key(*path)).collect::<Vec<_>>() {
            let is_fresh = stamp.as_ref().is_some_and(|stamp| stamp.changed_at.0 >= fresh_since);
            self.read.insert(path.clone(), stamp.clone().filter(|_| !is_fresh));
        }
        self.read.retain(|path, _| found.contains_key(path));
        let changed = found.iter().filter(|(path, stamp)| self.read.get(*path) != Some(stamp));
        self.changed = changed.map(|(path, stamp)| (path.clone(), self.last.get(path) == Some(stamp))).collect();
        self.last = found;
    }

    /// The changed files of groups in which every change has settled. They count as read from now on.
    fn take_settled(&mut self, groups: &[Vec<PathBuf>]) -> Vec<PathBuf> {
        let mut taken = BTreeSet::new();
        for group in groups {
            let changed: Vec<_> = group.iter().filter_map(|path| self.changed.get_key_value(path)).collect();
            if changed.iter().all(|(_, is_settled)| **is_settled) {
                taken.extend(changed.into_iter().map(|(path, _)| path.clone()));
            }
        }
        for path in &taken {
            if let Some(stamp) = self.last.get(path) {
                self.read.insert(path.clone(), stamp.clone());
            }
        }
        taken.into_iter().collect()
    }
}

fn stamps<'a>(files: impl Iterator<Item = &'a PathBuf>) -> Stamps {
    let mut stamps = Stamps::new();
    for path in files {
        if !stamps.contains_key(path) {
            // Follows links: certbot's names are links to the newest version.
            stamps.insert(path.clone(), std::fs::metadata(path).ok().map(FileStamp::from));
        }
    }
    stamps
}

/// Reads the certificates of these files again and logs the result. Returns the files that are valid.
pub(super) fn renew(
    registry: &Registry,
    changed: &[PathBuf],
    read: ReadFile<'_>,
    log: impl Fn(Level, &str),
) -> Vec<PathBuf> {
    let renewal = registry.renew_certificates(changed, read);
    for certificate in &renewal.renewed {
        log(Level::Notice, &format!("the certificate {certificate} has changed, and the new one is used"));
    }
    for trouble in &renewal.broken {
        log(Level::Error, &format!("{trouble}; the certificate that was read before stays in use"));
    }
    renewal.sound_files
}

/// The texts of the configuration, with the current content of the changed files; `None` if nothing is new.
pub(super) fn changed_texts(
    texts: &Texts,
    changed: &[PathBuf],
    loader: &mut dyn conf::Loader,
    log: impl Fn(Level, &str),
) -> Option<Texts> {
    let newer = texts.with_changed(changed, loader)?;
    let names: Vec<String> = changed.iter().map(|path| format!("\"{}\"", path.display())).collect();
    log(Level::Notice, &format!("{} changed: the configuration is bound again", names.join(", ")));
    Some(newer)
}

/// Warns of certificates that expire soon.
pub(super) fn warn(registry: &Registry, log: impl Fn(Level, &str)) {
    let now_s = i64::try_from(reactor::wall_clock().as_secs()).unwrap_or(i64::MAX);
    for warning in registry.ending_certificates(now_s) {
        log(Level::Warn, &warning);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A time long after the changes.
    const LATER: i64 = 1_000;

    fn stamp(bytes: u64) -> FileStamp {
        FileStamp { inode: (1, 2), bytes, changed_at: (3, 4), written_at: (5, 6) }
    }

    /// A certificate, its key, and another certificate with the same key.
    fn groups() -> Vec<Vec<PathBuf>> {
        vec![vec!["/a".into(), "/key".into()], vec!["/b".into(), "/key".into()]]
    }

    fn look(watch: &mut CertificateWatch, bytes: [u64; 3], now_s: i64) -> Vec<PathBuf> {
        let paths = ["/a", "/b", "/key"].map(PathBuf::from);
        watch.see(paths.into_iter().zip(bytes.map(|bytes| Some(stamp(bytes)))).collect(), now_s);
        watch.take_settled(&groups())
    }

    #[test]
    fn rereads_a_file_changed_during_loading() {
        let mut watch = CertificateWatch::default();
        assert!(look(&mut watch, [1; 3], 4).is_empty());
        assert_eq!(look(&mut watch, [1; 3], 6).len(), 3);
        assert!(look(&mut watch, [1; 3], 8).is_empty());
    }

    #[test]
    fn reads_changed_files_alone_and_after_their_last_write() {
        let mut watch = CertificateWatch::default();
        assert!(look(&mut watch, [1; 3], LATER).is_empty() && look(&mut watch, [1; 3], LATER).is_empty());
        // The file is still being written.
        assert!(look(&mut watch, [2, 1, 1], LATER).is_empty() && look(&mut watch, [3, 1, 1], LATER).is_empty());
        assert_eq!(look(&mut watch, [3, 1, 1], LATER), ["/a"].map(PathBuf::from));
        assert!(look(&mut watch, [3, 1, 1], LATER).is_empty());
    }

    #[test]
    fn waits_for_the_other_files_of_a_pair_but_not_for_other_pairs() {
        let mut watch = CertificateWatch::default();
        look(&mut watch, [1; 3], LATER);
        look(&mut watch, [2, 1, 1], LATER);
        assert!(look(&mut watch, [2, 1, 2], LATER).is_empty(), "the key is being written");
        assert_eq!(look(&mut watch, [2, 2, 2], LATER), ["/a", "/key"].map(PathBuf::from));
        assert_eq!(look(&mut watch, [2, 2, 2], LATER), ["/b"].map(PathBuf::from));
    }

    #[test]
    fn warns_once_a_day() {
        let (mut watch, start) = (CertificateWatch::default(), Instant::now());
        assert!(!watch.is_warning_due(start) && !watch.is_warning_due(start + WARNING_PERIOD / 2));
        assert!(watch.is_warning_due(start + WARNING_PERIOD) && !watch.is_warning_due(start + WARNING_PERIOD));
    }
}
