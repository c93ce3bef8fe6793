//! Regular files on a thread that must not block. A file is opened and read at once if the kernel has everything in
//! memory. Otherwise nothing is done, and the caller hands the work to [`crate::Offload`], whose threads use the blocking
//! half. The gateway's static files and request-body files use it.

use crate::scratch::with_scratch;
use crate::sys;
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};

/// What a path leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// A socket, a FIFO, a device.
    Other,
}

/// What is known of an open file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileStatus {
    /// What it is.
    pub kind: FileKind,
    /// Bytes.
    pub size: u64,
    /// Time of the last change, in seconds since the Unix epoch.
    pub modified: i64,
}

/// A file open for reading.
#[derive(Debug)]
pub struct OpenFile {
    file: File,
    /// As it was when the file was opened.
    pub status: FileStatus,
    /// When anything of it changed last, as it was then: seconds and nanoseconds.
    changed: (i64, u32),
}

/// Opens for reading; waits for the disk if it must. A FIFO does not make it wait for a writer.
pub fn open_file(path: &CStr) -> io::Result<OpenFile> {
    use std::os::unix::ffi::OsStrExt as _;
    let path = std::ffi::OsStr::from_bytes(path.to_bytes());
    OpenFile::of(OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?)
}

/// Opens for reading if every part of the path and the file's attributes are in memory (`openat2` with `RESOLVE_CACHED`);
/// `Ok(None)` where that would have to wait, or the kernel cannot tell. Errors are the file system's verdict.
pub fn open_file_cached(path: &CStr) -> io::Result<Option<OpenFile>> {
    let descriptor = match sys::open_cached(path) {
        Ok(descriptor) => descriptor,
        // Not cached; or a kernel older than 5.12, or a sandbox that forbids the call: these are no verdict on the path.
        Err(error)
            if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::ENOSYS | libc::EINVAL | libc::EPERM)) =>
        {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    OpenFile::of_cached(File::from(descriptor)).map(Some)
}

fn kind_of(mode: u32) -> FileKind {
    match mode & libc::S_IFMT {
        libc::S_IFREG => FileKind::Regular,
        libc::S_IFDIR => FileKind::Directory,
        _ => FileKind::Other,
    }
}

impl OpenFile {
    /// A file that is open already, with its attributes of this moment; waits for the disk if it must.
    pub fn of(file: File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        let status = FileStatus { kind: kind_of(metadata.mode()), size: metadata.len(), modified: metadata.mtime() };
        let changed = (metadata.ctime(), metadata.ctime_nsec() as u32);
        Ok(Self { file, status, changed })
    }

    /// The same, with what the kernel knows of it without asking a server.
    pub(crate) fn of_cached(file: File) -> io::Result<Self> {
        let status = sys::status_cached(file.as_fd())?;
        let changed = (status.stx_ctime.tv_sec, status.stx_ctime.tv_nsec);
        let kind = kind_of(u32::from(status.stx_mode));
        let status = FileStatus { kind, size: status.stx_size, modified: status.stx_mtime.tv_sec };
        Ok(Self { file, status, changed })
    }

    /// Whether nothing of the file has changed since it was opened: it has its name, its content and its attributes. One
    /// system call.
    pub fn is_unchanged(&self) -> bool {
        sys::status_cached(self.file.as_fd()).is_ok_and(|now| {
            let changed = (now.stx_ctime.tv_sec, now.stx_ctime.tv_nsec);
            now.stx_nlink > 0 && now.stx_size == self.status.size && changed == self.changed
        })
    }

    /// Reads up to `max` bytes from `offset` into the thread's scratch buffer and shows them to the closure: none at the
    /// end of the file. `Ok(None)` where the data is not in memory, or the file system cannot tell.
    pub fn read_cached_with<R>(&self, offset: u64, max: usize, look: impl FnOnce(&[u8]) -> R) -> io::Result<Option<R>> {
        read_cached_with(&self.file, offset, max, look)
    }

    /// Reads up to `max` bytes from `offset`; waits for the disk if it must.
    pub fn read_at(&self, offset: u64, max: usize) -> io::Result<Vec<u8>> {
        read_at(&self.file, offset, max)
    }

    /// For [`crate::Stream::write_file`].
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// As [`OpenFile::read_cached_with`], for any file.
pub fn read_cached_with<R>(
    file: &File,
    offset: u64,
    max: usize,
    look: impl FnOnce(&[u8]) -> R,
) -> io::Result<Option<R>> {
    let offset = i64::try_from(offset).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    with_scratch(|scratch| {
        let max = max.clamp(1, scratch.len());
        match sys::read_cached(file.as_fd(), &mut scratch[..max], offset) {
            Ok(count) => Ok(Some(look(&scratch[..count]))),
            Err(error)
                if matches!(
                    error.raw_os_error(),
                    Some(libc::EAGAIN | libc::EOPNOTSUPP | libc::ENOSYS | libc::EINTR)
                ) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    })
}

/// As [`OpenFile::read_at`], for any file.
pub fn read_at(file: &File, offset: u64, max: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; max];
    let mut filled = 0;
    while filled < max {
        match file.read_at(&mut bytes[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

/// Reads from `offset` into a buffer; 0 at the end of the file. It waits for a disk, as `sendfile(2)` does.
pub fn read_into(file: BorrowedFd<'_>, offset: i64, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match sys::read_at(file, buffer, offset) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}

/// Whether a path has too many symbolic links in it, for which the standard library has no stable word.
pub fn is_link_loop(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ELOOP)
}

/// Reserves room on the disk for the first bytes of a file, which keeps its length. A file system that cannot reserve finds out
/// later that it is full: that is no error.
pub fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    match rustix::fs::fallocate(file, rustix::fs::FallocateFlags::KEEP_SIZE, 0, bytes) {
        Err(error @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG | Errno::IO)) => Err(error.into()),
        _ => Ok(()),
    }
}

/// Bytes that are free on the file system of a path, for users other than root.
pub fn free_bytes(path: &std::path::Path) -> io::Result<u64> {
    use std::os::unix::ffi::OsStrExt as _;
    let path = c_path(path.as_os_str().as_bytes().to_vec()).ok_or(io::ErrorKind::InvalidInput)?;
    sys::free_bytes(&path)
}

/// A path for the kernel; `None` if there is a NUL in it.
pub fn c_path(path: Vec<u8>) -> Option<CString> {
    CString::new(path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> CString {
        c_path(text.into()).unwrap()
    }

    #[test]
    fn reserves_room_without_changing_the_length() {
        let path = std::env::temp_dir().join(format!("holdfast-reserved-{}", std::process::id()));
        let file = File::create(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        reserve(&file, 100_000).unwrap();
        let status = file.metadata().unwrap();
        assert_eq!(status.len(), 0);
        assert!(status.blocks() * 512 >= 100_000, "{} blocks", status.blocks());
        assert!(reserve(&file, 1 << 60).is_err());
    }

    #[test]
    fn both_ways_of_opening_agree() {
        let manifest = path(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
        let waited = open_file(&manifest).unwrap();
        assert_eq!(waited.status.kind, FileKind::Regular);
        // Whether the kernel can do it depends on where the tests run; what it says must be the same.
        if let Some(cached) = open_file_cached(&manifest).unwrap() {
            assert_eq!(cached.status, waited.status);
        }
        let bytes = waited.read_at(0, 1 << 20).unwrap();
        assert_eq!(bytes.len() as u64, waited.status.size);
        assert!(bytes.starts_with(b"[package]"));
        if let Some(same) = waited.read_cached_with(1, 7, |read| read == &bytes[1..8]).unwrap() {
            assert!(same);
        }
        assert_eq!(waited.read_at(waited.status.size, 10).unwrap(), b"");
    }

    #[test]
    fn a_file_that_is_changed_replaced_or_removed_is_noticed() {
        let folder = std::env::temp_dir().join(format!("holdfast-changed-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (one, two) = (folder.join("one"), folder.join("two"));
        let changes: [&dyn Fn(); 4] = [
            &|| std::fs::write(&one, "second").unwrap(),
            &|| drop(File::options().append(true).open(&one).unwrap().set_len(1)),
            &|| std::fs::write(&two, "first").and_then(|()| std::fs::rename(&two, &one)).unwrap(),
            &|| std::fs::remove_file(&one).unwrap(),
        ];
        for (number, change) in changes.iter().enumerate() {
            std::fs::write(&one, "first").unwrap();
            let file = open_file(&path(one.to_str().unwrap())).unwrap();
            assert!(file.is_unchanged());
            // The clock of file systems ticks every few milliseconds.
            let now = || {
                std::fs::write(&two, "").unwrap();
                std::fs::metadata(&two).unwrap().ctime_nsec()
            };
            let before = now();
            while now() == before {}
            change();
            assert!(!file.is_unchanged(), "change {number}");
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_directory_and_a_missing_file() {
        let directory = open_file(&path(env!("CARGO_MANIFEST_DIR"))).unwrap();
        assert_eq!(directory.status.kind, FileKind::Directory);
        let missing = path(concat!(env!("CARGO_MANIFEST_DIR"), "/none"));
        assert_eq!(open_file(&missing).unwrap_err().kind(), io::ErrorKind::NotFound);
        // A name that was never looked up may not be cached as missing: either answer is right, a file is not.
        assert!(!matches!(open_file_cached(&missing), Ok(Some(_))));
        assert!(c_path(b"/a\0b".to_vec()).is_none());
    }
}
