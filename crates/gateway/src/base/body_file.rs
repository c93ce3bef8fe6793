//! Request bodies that do not fit their buffer, in temporary files. The functions here block: they run on the offload
//! pool. A file is unlinked as soon as it is open, so that a crash leaves nothing behind. With `client_body_in_file_only` it has
//! a name, because an upstream is told about it.

use reactor::Offload;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Names tried before giving up: files with the same numbers may be left from another process.
const NAMES_MAX: u32 = 100;
/// Only this user may read request bodies.
const MODE: u32 = 0o600;
/// The same for the directories below `client_body_temp_path`.
const DIRECTORY_MODE: u32 = 0o700;

/// `client_body_temp_path` and `client_body_in_file_only`.
#[derive(Debug)]
pub(crate) struct BodyFiles {
    pub(crate) directory: PathBuf,
    /// Digits of each level of directories; 0 for none.
    pub(crate) levels: [u8; 3],
    pub(crate) names: FileNames,
}

/// `client_body_in_file_only`: with a name, every body goes into a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileNames {
    /// `off`
    Removed,
    /// `clean`: until the end of the request. Another process of the user can open it by this name alone: the kernel
    /// forbids `/proc/PID/fd` of a process that gave up the rights of root.
    UntilEnd,
    /// `on`
    Kept,
}

/// The name of a file, which is removed when this is dropped.
pub(crate) struct RemovedName {
    path: PathBuf,
    offload: Offload,
}

impl RemovedName {
    pub(crate) fn new(path: PathBuf, offload: Offload) -> Self {
        Self { path, offload }
    }
}

impl Drop for RemovedName {
    fn drop(&mut self) {
        let path = self.path.clone();
        let remove = move || std::fs::remove_file(path);
        if self.offload.submit(remove, || ()).is_err() {
            // The pool has no room. A body must not stay, so this thread waits for the disk.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Number of the next file of this process.
static NEXT: AtomicU64 = AtomicU64::new(1);

impl BodyFiles {
    /// Creates a file and its directories. The path is that of its name, which may be removed already.
    pub(crate) fn create(&self) -> io::Result<(File, PathBuf)> {
        for _ in 0..NAMES_MAX {
            let path = self.path(NEXT.fetch_add(1, Ordering::Relaxed));
            let opened = match open_new(&path) {
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    let directory = path.parent().unwrap_or(&self.directory);
                    DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(directory)?;
                    open_new(&path)
                }
                opened => opened,
            };
            match opened {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Ok(file) => {
                    if self.names == FileNames::Removed {
                        std::fs::remove_file(&path)?;
                    }
                    return Ok((file, path));
                }
                Err(error) => return Err(error),
            }
        }
        Err(ErrorKind::AlreadyExists.into())
    }

    /// As nginx names them: ten digits, and the directories after the last of them.
    fn path(&self, number: u64) -> PathBuf {
        let name = format!("{number:010}");
        let mut path = self.directory.clone();
        let mut end = name.len();
        for level in self.levels.map(usize::from).into_iter().filter(|&level| level > 0) {
            path.push(&name[end - level..end]);
            end -= level;
        }
        path.push(name);
        path
    }
}

fn open_new(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).mode(MODE).open(path)
}

/// Writes all of a piece.
pub(crate) fn write_piece(file: &File, piece: &[u8], offset: u64) -> io::Result<()> {
    file.write_all_at(piece, offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_levels_are_the_last_digits() {
        let files = BodyFiles { directory: "/t".into(), levels: [1, 2, 0], names: FileNames::Removed };
        assert_eq!(files.path(123_456), Path::new("/t/6/45/0000123456"));
        let flat = BodyFiles { levels: [0; 3], ..files };
        assert_eq!(flat.path(12_345_678_901), Path::new("/t/12345678901"));
    }

    #[test]
    fn temporary_file_has_no_name_until_kept() {
        let directory = tempfile::tempdir().unwrap();
        let mut files =
            BodyFiles { directory: directory.path().join("new"), levels: [1, 0, 0], names: FileNames::Removed };
        let names = |files: &BodyFiles| {
            let levels = std::fs::read_dir(&files.directory).unwrap();
            levels.map(|level| std::fs::read_dir(level.unwrap().path()).unwrap().count()).sum::<usize>()
        };
        let (file, _) = files.create().unwrap();
        write_piece(&file, b"bc", 1).unwrap();
        assert_eq!(reactor::read_at(&file, 0, 10).unwrap(), b"\0bc");
        assert_eq!(names(&files), 0);
        files.names = FileNames::Kept;
        files.create().unwrap();
        assert_eq!(names(&files), 1);
    }
}
