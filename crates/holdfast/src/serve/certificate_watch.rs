//! Files of TLS that change: the process that may read them looks at them from time to time. New certificates take the place of the old
//! ones; for authorities, revocation lists and keys of tickets the configuration is bound again. Neither needs a reload.

use super::order::Texts;
use gateway::{FileStamp, Level, ReadFile, Registry};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Between two looks. Files that change are read when a second look finds them as the first one did, so that a certificate whose key is
/// still being written is not taken: new ones count after at most three periods.
const LOOK_PERIOD: Duration = Duration::from_secs(2);

/// Between two warnings about a certificate that ends.
const WARNING_PERIOD: Duration = Duration::from_hours(24);

/// A file that changed this short a time before it is first seen may have been read before it changed: reading a large configuration
/// takes some seconds.
const FRESH_SECONDS: i64 = 60;

/// States of files; `None` for one that is not there.
type Stamps = HashMap<PathBuf, Option<FileStamp>>;

/// The files of TLS in use, as they were seen.
#[derive(Debug, Default)]
pub(super) struct CertificateWatch {
    next_look: Option<Instant>,
    next_warning: Option<Instant>,
    /// As they were when they were read.
    read: Stamps,
    /// As the last look found them.
    last: Stamps,
    /// Those that have changed, with whether two looks have found the same.
    changed: HashMap<PathBuf, bool>,
    /// Changed files with which the configuration could not be bound: another one of them may have been the broken one.
    refused: BTreeSet<PathBuf>,
}

/// Files that have changed and are to be read again.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Changed {
    /// Of certificates: these pairs alone are read.
    pub(super) pairs: Vec<PathBuf>,
    /// Of all else, such as authorities and revocation lists: the configuration is bound again with them.
    pub(super) others: Vec<PathBuf>,
}

impl CertificateWatch {
    /// Looks at the files, unless it did so a moment ago. `others` are those that a configuration has read beside certificates.
    pub(super) fn look(&mut self, now: Instant, shared: &Registry, others: &BTreeSet<PathBuf>) -> Changed {
        if self.next_look.is_some_and(|at| now < at) {
            return Changed::default();
        }
        self.next_look = Some(now + LOOK_PERIOD);
        // A secret that is kept for children goes on with the time, so that it gives no key that is gone.
        drop(shared.ticket_states());
        let now_s = i64::try_from(reactor::wall_clock().as_secs()).unwrap_or(i64::MAX);
        let pairs = shared.certificate_files();
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

    /// The configuration cannot be bound with these: they are read again with the next ones that change.
    pub(super) fn refuse(&mut self, files: Vec<PathBuf>) {
        self.refused.extend(files);
    }

    /// Whether the time has come to warn of certificates that end. A start and a reload warn, too.
    pub(super) fn is_warning_due(&mut self, now: Instant) -> bool {
        let due = self.next_warning.is_some_and(|at| now >= at);
        if due || self.next_warning.is_none() {
            self.next_warning = Some(now + WARNING_PERIOD);
        }
        due
    }

    fn see(&mut self, found: Stamps, now_s: i64) {
        // A file that a configuration has brought was read by it, unless it has changed since.
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

    /// The changed files of those groups in which nothing is being written. From now on they count as read.
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
            // The name may be a link to the newest version, as certbot has it.
            stamps.insert(path.clone(), std::fs::metadata(path).ok().map(FileStamp::from));
        }
    }
    stamps
}

/// Reads the certificates again that have one of these files, and logs the result. Gives the files that are sound.
pub(super) fn renew(
    shared: &Registry,
    changed: &[PathBuf],
    read: ReadFile<'_>,
    log: impl Fn(Level, &str),
) -> Vec<PathBuf> {
    let renewal = shared.renew_certificates(changed, read);
    for certificate in &renewal.renewed {
        log(Level::Notice, &format!("the certificate {certificate} has changed, and the new one is used"));
    }
    for trouble in &renewal.broken {
        log(Level::Error, &format!("{trouble}; the certificate that was read before stays in use"));
    }
    renewal.sound_files
}

/// The configuration that holds with files beside certificates in their present state: what it is to be read from, if that is new.
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

/// Warns of certificates that end soon.
pub(super) fn warn(shared: &Registry, log: impl Fn(Level, &str)) {
    let now_s = i64::try_from(reactor::wall_clock().as_secs()).unwrap_or(i64::MAX);
    for warning in shared.ending_certificates(now_s) {
        log(Level::Warn, &warning);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Long after the files have changed.
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
    fn reads_a_file_again_that_changed_while_the_configuration_was_read() {
        let mut watch = CertificateWatch::default();
        assert!(look(&mut watch, [1; 3], 4).is_empty());
        assert_eq!(look(&mut watch, [1; 3], 6).len(), 3);
        assert!(look(&mut watch, [1; 3], 8).is_empty());
    }

    #[test]
    fn reads_changed_files_alone_and_after_their_last_write() {
        let mut watch = CertificateWatch::default();
        assert!(look(&mut watch, [1; 3], LATER).is_empty() && look(&mut watch, [1; 3], LATER).is_empty());
        // It is still being written.
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
