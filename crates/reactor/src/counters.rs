//! Counters that several processes of one program share, as its threads would: each part of a load run reads the others'
//! progress while it runs. They carry no messages, and no process can wait on them.

use crate::sys::{SharedWords, memory_file};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU32;

/// A list of counters in memory that this process shares with those that have opened it.
#[derive(Debug)]
pub struct SharedCounters {
    words: SharedWords,
    file: OwnedFd,
}

impl SharedCounters {
    /// This many counters, all zero.
    ///
    /// Errors: `InvalidInput` for none; those of the system when there is no memory or no descriptor.
    pub fn new(count: usize) -> io::Result<Self> {
        let bytes = count.checked_mul(size_of::<AtomicU32>()).ok_or(io::ErrorKind::InvalidInput)?;
        let file = memory_file(bytes)?;
        Ok(Self { words: SharedWords::map(file.as_fd(), count)?, file })
    }

    /// Those of another process by the path that its [`Self::path`] says; the other one must still have them.
    ///
    /// Errors: `InvalidInput` where there is something else, or less than this many.
    pub fn open(path: &Path, count: usize) -> io::Result<Self> {
        let file = OwnedFd::from(File::options().read(true).write(true).open(path)?);
        Ok(Self { words: SharedWords::map(file.as_fd(), count)?, file })
    }

    /// Those of another process that has passed their descriptor.
    ///
    /// Errors: `InvalidInput` where there is something else, or less than this many.
    pub fn from_descriptor(file: OwnedFd, count: usize) -> io::Result<Self> {
        Ok(Self { words: SharedWords::map(file.as_fd(), count)?, file })
    }

    /// What another process needs for [`Self::from_descriptor`].
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Where other processes of the same user find them.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd()))
    }

    /// All of them.
    pub fn all(&self) -> &[AtomicU32] {
        self.words.as_slice()
    }

    /// One of them.
    pub fn get(&self, index: usize) -> Option<&AtomicU32> {
        self.all().get(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::sync::atomic::Ordering;

    #[test]
    fn a_count_is_visible_to_the_other_process() {
        let ours = SharedCounters::new(1_500).unwrap();
        let theirs = SharedCounters::open(&ours.path(), 1_500).unwrap();
        assert!(ours.all().iter().all(|counter| counter.load(Ordering::Relaxed) == 0));
        ours.get(1_499).unwrap().fetch_add(7, Ordering::Relaxed);
        theirs.get(1_499).unwrap().fetch_add(1, Ordering::Relaxed);
        assert_eq!(ours.get(1_499).unwrap().load(Ordering::Relaxed), 8);
        let passed = SharedCounters::from_descriptor(ours.descriptor().try_clone_to_owned().unwrap(), 1_500).unwrap();
        assert_eq!(passed.get(1_499).unwrap().load(Ordering::Relaxed), 8);
        assert!(ours.get(1_500).is_none());
        // Another process sees the same bytes under the same path.
        let read = Command::new("od").args(["-An", "-tu4", "-j5996", "-N4"]).arg(ours.path()).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&read.stdout).trim(), "8", "{read:?}");
    }

    #[test]
    fn refuses_wrong_and_short_lists() {
        let kind = |result: io::Result<SharedCounters>| result.unwrap_err().kind();
        let ours = SharedCounters::new(10).unwrap();
        assert_eq!(kind(SharedCounters::open(&ours.path(), 2_000)), io::ErrorKind::InvalidInput);
        assert_eq!(kind(SharedCounters::new(0)), io::ErrorKind::InvalidInput);
        assert!(SharedCounters::open(Path::new("/dev/zero"), 1).is_err());
        assert_eq!(kind(SharedCounters::open(Path::new("/nowhere"), 1)), io::ErrorKind::NotFound);
    }
}
