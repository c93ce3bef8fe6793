//! A response that is saved as a plain file (`proxy_store`). The functions that touch the disk block: they run on the
//! offload pool. The file is written under a temporary name in its own directory and renamed when it is complete: a
//! reader finds either all of it or the earlier file.

use reactor::Offload;
use std::fs::{DirBuilder, File, FileTimes, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

/// Until the file is complete, only its owner may read it.
const MODE: u32 = 0o600;
/// Names tried before giving up: files with the same numbers may be left from another process.
const NAMES_MAX: u32 = 100;

/// Number of the next file of this process.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// The name, permissions and time of a file that is saved.
#[derive(Debug, Clone)]
pub(crate) struct SavedName {
    pub(crate) path: PathBuf,
    /// Permission bits of the file; users with read permission may also enter directories.
    pub(crate) mode: u32,
    /// In seconds since the epoch.
    pub(crate) modified_s: Option<u64>,
}

/// A file that is being written. Dropping it removes the file, unless it was finished.
pub(crate) struct SavedFile {
    file: File,
    temporary: PathBuf,
    offload: Offload,
    is_finished: bool,
}

impl Drop for SavedFile {
    fn drop(&mut self) {
        if !self.is_finished {
            let path = std::mem::take(&mut self.temporary);
            // If the pool has no room, the file stays. It has a name of ours and no reader.
            let _ = self.offload.submit(move || std::fs::remove_file(path), || ());
        }
    }
}

impl SavedFile {
    /// Creates the temporary file and the directories that are missing.
    pub(crate) fn create(name: &SavedName, offload: Offload) -> io::Result<Self> {
        let directory = name.path.parent().ok_or(ErrorKind::IsADirectory)?;
        for _ in 0..NAMES_MAX {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let temporary = directory.join(format!(".holdfast-{}-{number:010}", std::process::id()));
            let opened = match open_new(&temporary) {
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    create_directories(directory, directory_mode(name.mode))?;
                    open_new(&temporary)
                }
                opened => opened,
            };
            match opened {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Ok(file) => return Ok(Self { file, temporary, offload, is_finished: false }),
                Err(error) => return Err(error),
            }
        }
        Err(ErrorKind::AlreadyExists.into())
    }

    /// Writes a part of the body.
    pub(crate) fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    /// Gives the complete file its permissions, time and name.
    pub(crate) fn finish(mut self, name: &SavedName) -> io::Result<()> {
        self.file.set_permissions(Permissions::from_mode(name.mode))?;
        let modified = name.modified_s.and_then(|seconds| UNIX_EPOCH.checked_add(Duration::from_secs(seconds)));
        if let Some(modified) = modified {
            self.file.set_times(FileTimes::new().set_modified(modified))?;
        }
        std::fs::rename(&self.temporary, &name.path)?;
        self.is_finished = true;
        Ok(())
    }
}

fn open_new(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(MODE).open(path)
}

/// Creates missing directories with these permissions under any umask. nginx as a daemon has an umask of 0.
fn create_directories(directory: &Path, mode: u32) -> io::Result<()> {
    let missing: Vec<_> = directory.ancestors().take_while(|path| !path.exists()).collect();
    for path in missing.into_iter().rev() {
        match DirBuilder::new().mode(mode).create(path) {
            // Another request has created it.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            created => created.and_then(|()| std::fs::set_permissions(path, Permissions::from_mode(mode)))?,
        }
    }
    Ok(())
}

/// As in nginx: who may read a file may enter its directory.
fn directory_mode(mode: u32) -> u32 {
    mode | (mode & 0o444) >> 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_have_their_permissions_under_any_umask() {
        let root = tempfile::tempdir().unwrap();
        let below = root.path().join("a/b");
        create_directories(&below, 0o777).unwrap();
        create_directories(&below, 0o700).unwrap();
        for path in [root.path().join("a"), below] {
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o7777, 0o777, "{}", path.display());
        }
    }

    #[test]
    fn readers_of_a_file_may_enter_its_directory() {
        assert_eq!(directory_mode(0o600), 0o700);
        assert_eq!(directory_mode(0o664), 0o775);
        assert_eq!(directory_mode(0o606), 0o707);
    }
}
