//! The files of a cache on disk. All of this runs on the offload pool. A file is written under a temporary name beside
//! its own and renamed when it is complete, so a reader in this or another process finds either all of it or nothing.

use crate::registry::cache::CacheZone;
use crate::registry::process::Registry;
use cache::Key;
use reactor::{Offload, OpenFile, reserve};
use std::ffi::OsString;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Permissions of files and directories: the worker's user only.
const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;

/// Room that a response reserves on the disk before its body has come. A head that states a huge length must not make the cache
/// remove everything else for a body that may never come.
const RESERVED_BYTES_MAX: u64 = 1 << 30;

/// A file that is being written. Dropping it removes the file, unless it was finished.
pub(crate) struct StoreFile {
    file: File,
    temporary: PathBuf,
    offload: Offload,
    is_finished: bool,
}

impl Drop for StoreFile {
    fn drop(&mut self) {
        if !self.is_finished {
            let path = std::mem::take(&mut self.temporary);
            // If the pool has no room, the file stays; the directory walk removes it.
            let _ = self.offload.submit(move || std::fs::remove_file(path), || ());
        }
    }
}

impl StoreFile {
    /// Writes a part of the body.
    pub(crate) fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    /// The same file for requests that read it while it is written.
    fn reader(&self) -> io::Result<OpenFile> {
        OpenFile::of(self.file.try_clone()?)
    }

    /// Writes the beginning, and renames the file to its name.
    pub(crate) fn finish(mut self, beginning: &[u8], path: &Path) -> io::Result<()> {
        self.file.write_all_at(beginning, 0)?;
        std::fs::rename(&self.temporary, path)?;
        self.is_finished = true;
        Ok(())
    }
}

fn path(bytes: Vec<u8>) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes))
}

impl CacheZone {
    /// Creates a temporary file for a key.
    fn create(&self, registry: &'static Registry, key: Key) -> io::Result<StoreFile> {
        let mut name = self.path_of(key);
        let serial = self.serial.fetch_add(1, Ordering::Relaxed);
        name.extend_from_slice(format!(".{}.{serial:010}", std::process::id()).as_bytes());
        let temporary = path(name);
        let open = || OpenOptions::new().read(true).write(true).create_new(true).mode(FILE_MODE).open(&temporary);
        let file = match open() {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let directory = temporary.parent().unwrap_or(self.directory());
                DirBuilder::new().mode(DIRECTORY_MODE).recursive(true).create(directory)?;
                open()
            }
            opened => opened,
        }?;
        Ok(StoreFile { file, temporary, offload: registry.offload.clone(), is_finished: false })
    }

    /// Opens the temporary file of a key, unless it is open.
    pub(crate) fn open_store(
        &self,
        registry: &'static Registry,
        key: Key,
        file: Option<StoreFile>,
    ) -> io::Result<StoreFile> {
        file.map_or_else(|| self.create(registry, key), Ok)
    }

    /// Opens the temporary file of a key with room for this many bytes, and a second descriptor for readers.
    pub(crate) fn open_shared(
        &self,
        registry: &'static Registry,
        key: Key,
        bytes: u64,
    ) -> io::Result<(StoreFile, OpenFile)> {
        let file = self.create(registry, key)?;
        reserve(&file.file, bytes.min(RESERVED_BYTES_MAX))?;
        let reader = file.reader()?;
        Ok((file, reader))
    }

    /// Renames a complete file to its name.
    pub(crate) fn finish(&self, file: StoreFile, key: Key, beginning: &[u8]) -> io::Result<()> {
        file.finish(beginning, &path(self.path_of(key)))
    }

    /// Rewrites the beginning of a file with other times. A concurrent reader sees a wrong checksum at worst, and asks
    /// the upstream. A file that does not begin with `before` is another response by now, and stays unchanged.
    pub(crate) fn update(&self, key: Key, before: &[u8], after: &[u8]) -> io::Result<()> {
        let file = OpenOptions::new().read(true).write(true).open(path(self.path_of(key)))?;
        let mut found = vec![0; before.len()];
        file.read_exact_at(&mut found, 0)?;
        if found == before && before.len() == after.len() { file.write_all_at(after, 0) } else { Ok(()) }
    }

    /// Removes the files of these keys; returns how many there were.
    pub(crate) fn remove_now(&self, keys: &[Key]) -> usize {
        keys.iter().filter(|key| std::fs::remove_file(path(self.path_of(**key))).is_ok()).count()
    }

    /// The same, later on a thread of the pool.
    pub(crate) fn remove_files(self: &Arc<Self>, registry: &'static Registry, keys: Vec<Key>) {
        let zone = Arc::clone(self);
        // If the pool has no room, the files stay; the directory walk finds them.
        let _ = registry.offload.submit(move || zone.remove_now(&keys), || ());
    }
}
