//! User files that requests need: each is read once, and again after a change. Reading may wait for a disk, and hashing
//! takes time by design: `phases::basic_auth` calls this on the threads for passwords.

use crate::base::file_stamp::FileStamp;
use lru::LruCache;
use rules::basic_auth::Credentials;
use rules::basic_auth::password::is_password;
use rules::basic_auth::users::Users;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, ErrorKind, Read as _};
use std::num::NonZeroUsize;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Most files kept: with variables in the path, clients choose the files.
const FILES_MAX: NonZeroUsize = NonZeroUsize::new(64).expect("not 0");
/// The largest file: 100,000 users with the longest hashes are 14 MB.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// A file changed less than this long ago may change again without a new stamp, because file systems have coarse
/// clocks.
const SETTLED_AFTER: Duration = Duration::from_secs(1);

/// The result of checking a password.
#[derive(Debug)]
pub(crate) enum PasswordCheck {
    Right,
    Wrong,
    /// The file has no such user.
    Unknown,
    /// The file cannot be opened or read.
    Unreadable(io::Error),
}

/// Invalid lines of a file that was read for this check: how many, and the first one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BadLines {
    pub(crate) count: u64,
    pub(crate) first: Vec<u64>,
}

/// A file that was read.
#[derive(Debug)]
struct ReadUsers {
    stamp: FileStamp,
    users: Users,
}

/// The files that were read.
#[derive(Debug)]
pub(crate) struct UserFiles {
    known: Mutex<LruCache<Box<Path>, Arc<ReadUsers>>>,
    bad_lines: AtomicU64,
}

impl Default for UserFiles {
    fn default() -> Self {
        Self { known: Mutex::new(LruCache::new(FILES_MAX)), bad_lines: AtomicU64::new(0) }
    }
}

impl UserFiles {
    /// Checks a name and a password.
    pub(crate) fn check(&self, path: &[u8], credentials: &Credentials) -> (PasswordCheck, Option<BadLines>) {
        let (file, news) = match self.read(Path::new(OsStr::from_bytes(path))) {
            Ok(found) => found,
            Err(error) => return (PasswordCheck::Unreadable(error), None),
        };
        let check = match file.users.hash_of(credentials.user()) {
            None => PasswordCheck::Unknown,
            Some(hash) if is_password(credentials.password(), hash) => PasswordCheck::Right,
            Some(_) => PasswordCheck::Wrong,
        };
        (check, news)
    }

    /// Number of invalid lines in all files read so far.
    pub(crate) fn bad_lines(&self) -> u64 {
        self.bad_lines.load(Ordering::Relaxed)
    }

    fn kept(&self, path: &Path) -> Option<Arc<ReadUsers>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(path).cloned()
    }

    fn read(&self, path: &Path) -> io::Result<(Arc<ReadUsers>, Option<BadLines>)> {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        let age = metadata.modified().ok().and_then(|at| at.elapsed().ok());
        let stamp = FileStamp::from(metadata);
        if let Some(found) = self.kept(path).filter(|found| found.stamp == stamp) {
            return Ok((found, None));
        }
        let mut text = Vec::new();
        file.take(FILE_BYTES_MAX + 1).read_to_end(&mut text)?;
        if text.len() as u64 > FILE_BYTES_MAX {
            return Err(io::Error::new(ErrorKind::FileTooLarge, "larger than 16 MB"));
        }
        let users = Users::parse(&text);
        let news =
            (users.bad_lines > 0).then(|| BadLines { count: users.bad_lines, first: users.first_bad_lines.clone() });
        let read = Arc::new(ReadUsers { stamp, users });
        self.bad_lines.fetch_add(read.users.bad_lines, Ordering::Relaxed);
        if age.is_none_or(|age| age < SETTLED_AFTER) {
            return Ok((read, news));
        }
        self.known.lock().unwrap_or_else(PoisonError::into_inner).put(path.into(), Arc::clone(&read));
        Ok((read, news))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn check(files: &UserFiles, path: &Path, value: &[u8]) -> (String, Option<BadLines>) {
        let credentials = Credentials::parse(value).expect("credentials");
        let (check, news) = files.check(path.as_os_str().as_bytes(), &credentials);
        (format!("{check:?}"), news)
    }

    /// Writes a file that was last changed a minute ago.
    fn write_old(path: &Path, text: &str) {
        fs::write(path, text).expect("a file");
        let file = File::options().write(true).open(path).expect("the file");
        let written = file.metadata().and_then(|facts| facts.modified()).expect("its time");
        file.set_modified(written - Duration::from_mins(1)).expect("a new time");
    }

    #[test]
    fn only_changed_user_files_are_reread() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("users");
        let files = UserFiles::default();
        // a:b
        const RIGHT: &[u8] = b"Basic YTpi";
        let (missing, _) = check(&files, &path, RIGHT);
        assert!(missing.starts_with("Unreadable"), "{missing}");
        write_old(&path, "garbage\na:{PLAIN}b\n");
        let bad = BadLines { count: 1, first: vec![1] };
        assert_eq!(check(&files, &path, RIGHT), ("Right".to_owned(), Some(bad)));
        assert_eq!(check(&files, &path, RIGHT), ("Right".to_owned(), None), "known already");
        assert_eq!(check(&files, &path, b"Basic YTpj").0, "Wrong");
        assert_eq!(check(&files, &path, b"Basic YzpiOg==").0, "Unknown");
        write_old(&path, "a:{PLAIN}other\n");
        assert_eq!(check(&files, &path, RIGHT).0, "Wrong");
        fs::write(&path, "a:{PLAIN}b\n").expect("a file");
        assert_eq!(check(&files, &path, RIGHT).0, "Right");
        assert_eq!(files.bad_lines(), 1);
    }
}
