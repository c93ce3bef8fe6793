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
        let is_first = self.next_look.is_none();
        self.next_look = Some(now + LOOK_PERIOD);
        self.sees(stamps(shared.certificate_files()), is_first)
    }

    fn sees(&mut self, found: Stamps, is_first: bool) -> bool {
        // A file that another configuration has brought was read by it just now.
        let is_new = |path: &PathBuf| !self.read.contains_key(path);
        let brought: Stamps =
            found.iter().filter(|(path, _)| is_new(path)).map(|(p, s)| (p.clone(), s.clone())).collect();
        self.read.extend(brought);
        self.read.retain(|path, _| found.contains_key(path));
        if is_first || found == self.read {
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

    fn of(bytes: u64) -> Stamps {
        let stamp = Stamp { device: 1, inode: 2, bytes, changed_at: (3, 4), written_at: (5, 6) };
        HashMap::from([("/a".into(), Some(stamp)), ("/b".into(), None)])
    }

    #[test]
    fn files_are_read_when_they_have_changed_and_stay_so() {
        let mut watch = CertificateWatch::default();
        assert!(!watch.sees(of(1), true) && !watch.sees(of(1), false));
        // Still being written.
        assert!(!watch.sees(of(2), false) && !watch.sees(of(3), false));
        assert!(watch.sees(of(3), false));
        assert!(!watch.sees(of(3), false));
    }

    #[test]
    fn files_of_a_new_configuration_have_just_been_read() {
        let mut watch = CertificateWatch::default();
        assert!(!watch.sees(Stamps::new(), true));
        assert!(!watch.sees(of(1), false) && !watch.sees(of(1), false));
        assert!(!watch.sees(Stamps::new(), false) && watch.read.is_empty());
    }
}
