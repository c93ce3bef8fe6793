//! Certificates whose files change: whoever may read them looks at them from time to time, and new ones take the place of the old
//! without a reload.

use gateway::{Level, ReadFile, Shared};
use std::collections::HashMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Between two looks. Files that change are read when a second look finds them as the first one did, so that a certificate whose key is
/// still being written is not taken: new ones count after at most three periods.
const LOOK_PERIOD: Duration = Duration::from_secs(2);

/// A file that has changed within so many seconds before it is seen for the first time may have been read before it changed: reading a
/// large configuration takes some seconds.
const FRESH_SECONDS: i64 = 60;

/// What tells one state of a file from another.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    changed_at: (i64, i64),
    written_at: (i64, i64),
}

impl From<Metadata> for Stamp {
    fn from(of: Metadata) -> Self {
        Self {
            device: of.dev(),
            inode: of.ino(),
            bytes: of.size(),
            changed_at: (of.ctime(), of.ctime_nsec()),
            written_at: (of.mtime(), of.mtime_nsec()),
        }
    }
}

/// States of files; `None` for one that is not there.
type Stamps = HashMap<PathBuf, Option<Stamp>>;

/// The files of the certificates in use, as they were seen.
#[derive(Debug, Default)]
pub(super) struct CertificateWatch {
    next_look: Option<Instant>,
    /// As they were when they were read.
    read: Stamps,
    /// As the last look found them, if otherwise.
    changing: Option<Stamps>,
}

impl CertificateWatch {
    /// Whether there are files to be read again.
    pub(super) fn is_due(&mut self, now: Instant, shared: &Shared) -> bool {
        if self.next_look.is_some_and(|at| now < at) {
            return false;
        }
        self.next_look = Some(now + LOOK_PERIOD);
        let now_s = i64::try_from(reactor::wall_clock().as_secs()).unwrap_or(i64::MAX);
        self.sees(stamps(shared.certificate_files()), now_s)
    }

    fn sees(&mut self, found: Stamps, now_s: i64) -> bool {
        // A file that a configuration has brought was read by it, unless it has changed since.
        for (path, stamp) in found.iter().filter(|(path, _)| !self.read.contains_key(*path)).collect::<Vec<_>>() {
            let is_fresh =
                stamp.as_ref().is_some_and(|stamp| stamp.changed_at.0 >= now_s.saturating_sub(FRESH_SECONDS));
            self.read.insert(path.clone(), stamp.clone().filter(|_| !is_fresh));
        }
        self.read.retain(|path, _| found.contains_key(path));
        if found == self.read {
            self.read = found;
            self.changing = None;
            return false;
        }
        if self.changing.as_ref() == Some(&found) {
            self.read = found;
            self.changing = None;
            return true;
        }
        self.changing = Some(found);
        false
    }
}

fn stamps(files: Vec<PathBuf>) -> Stamps {
    let stamp = |path: PathBuf| {
        // The name may be a link to the newest version, as certbot has it.
        let stamp = std::fs::metadata(&path).ok().map(Stamp::from);
        (path, stamp)
    };
    files.into_iter().map(stamp).collect()
}

/// Reads the certificates in use again, and says what came of it.
pub(super) fn renew(shared: &Shared, read: ReadFile<'_>, log: impl Fn(Level, &str)) {
    let renewal = shared.renew_certificates(read);
    for certificate in &renewal.renewed {
        log(Level::Notice, &format!("the certificate {certificate} has changed, and the new one is used"));
    }
    for trouble in &renewal.broken {
        log(Level::Error, &format!("{trouble}; the certificate that was read before stays in use"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Long after the files have changed.
    const LATER: i64 = 1_000;

    #[test]
    fn a_file_that_changed_while_the_configuration_was_read_is_read_again() {
        let mut watch = CertificateWatch::default();
        assert!(!watch.sees(of(1), 4));
        assert!(watch.sees(of(1), 6) && !watch.sees(of(1), 8));
    }

    fn of(bytes: u64) -> Stamps {
        let stamp = Stamp { device: 1, inode: 2, bytes, changed_at: (3, 4), written_at: (5, 6) };
        HashMap::from([("/a".into(), Some(stamp)), ("/b".into(), None)])
    }

    #[test]
    fn files_are_read_when_they_have_changed_and_stay_so() {
        let mut watch = CertificateWatch::default();
        assert!(!watch.sees(of(1), LATER) && !watch.sees(of(1), LATER));
        // Still being written.
        assert!(!watch.sees(of(2), LATER) && !watch.sees(of(3), LATER));
        assert!(watch.sees(of(3), LATER));
        assert!(!watch.sees(of(3), LATER));
    }

    #[test]
    fn files_of_a_new_configuration_have_just_been_read() {
        let mut watch = CertificateWatch::default();
        assert!(!watch.sees(Stamps::new(), LATER));
        assert!(!watch.sees(of(1), LATER) && !watch.sees(of(1), LATER));
        assert!(!watch.sees(Stamps::new(), LATER) && watch.read.is_empty());
    }
}
