//! Files whose path may not lead through symbolic links: each part is opened by itself, below the one before, as nginx does for
//! `disable_symlinks`. A link that is made meanwhile is found, since nothing is looked at before it is opened.

use crate::file::OpenFile;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, fstat, openat, openat2, statat};
use rustix::io::Errno;
use std::ffi::{CStr, OsStr};
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;

/// Symbolic links that are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LinkRule {
    /// None.
    Refused,
    /// Links that have the owner of what they lead to.
    SameOwner,
}

/// Flags of a folder on the way.
const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);
/// Flags of a file for reading: a FIFO does not wait for a writer.
const READING: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// Opens for reading; waits for the disk if it must. The first `trusted` bytes of the path name a folder that may be reached through
/// any links. A link that is refused is `ELOOP` at the end of the path, and `ENOTDIR` or `ELOOP` before it.
pub fn open_guarded(path: &CStr, trusted: usize, rule: LinkRule) -> io::Result<OpenFile> {
    OpenFile::of(File::from(walk(path.to_bytes(), trusted, rule, READING)?))
}

/// The attributes of what a path leads to, by the same rule.
pub fn status_guarded(path: &CStr, trusted: usize, rule: LinkRule) -> io::Result<Metadata> {
    File::from(walk(path.to_bytes(), trusted, rule, OFlags::PATH | OFlags::CLOEXEC)?).metadata()
}

/// Opens for reading if the path has no link at all behind its first `trusted` bytes, and everything is in memory; `None` where
/// [`open_guarded`] must tell.
pub fn open_guarded_cached(path: &CStr, trusted: usize) -> Option<OpenFile> {
    let resolve = ResolveFlags::CACHED | ResolveFlags::NO_SYMLINKS;
    let (folder, rest) = split(path.to_bytes(), trusted);
    let file = if trusted == 0 {
        openat2(CWD, path, READING, Mode::empty(), resolve)
    } else {
        let folder = openat2(CWD, folder, FOLDER, Mode::empty(), ResolveFlags::CACHED).ok()?;
        openat2(folder, relative(rest), READING, Mode::empty(), resolve)
    };
    OpenFile::of_cached(File::from(file.ok()?)).ok()
}

/// The folder that is trusted, and the path below it.
fn split(path: &[u8], trusted: usize) -> (&OsStr, &[u8]) {
    let (folder, rest) = path.split_at(trusted.min(path.len()));
    (OsStr::from_bytes(folder), rest)
}

/// A path below a folder, without the slash that it begins with.
fn relative(rest: &[u8]) -> &OsStr {
    let rest = rest.strip_prefix(b"/").unwrap_or(rest);
    OsStr::from_bytes(if rest.is_empty() { b"." } else { rest })
}

fn walk(path: &[u8], trusted: usize, rule: LinkRule, flags: OFlags) -> io::Result<OwnedFd> {
    let (folder, rest) = split(path, trusted);
    let mut held: Option<OwnedFd> = match (trusted, path.first()) {
        (0, Some(b'/')) => Some(openat(CWD, "/", FOLDER, Mode::empty())?),
        (0, _) => None,
        _ => Some(openat(CWD, folder, FOLDER, Mode::empty())?),
    };
    let mut parts = rest.split(|&byte| byte == b'/').peekable();
    while let Some(part) = parts.next() {
        let at = held.as_ref().map_or(CWD, |held| held.as_fd());
        let is_last = parts.peek().is_none();
        if is_last {
            // A path that ends in a slash means the folder itself.
            return if part.is_empty() {
                Ok(openat(at, ".", flags, Mode::empty())?)
            } else {
                step(at, part, rule, flags)
            };
        }
        if !part.is_empty() {
            held = Some(step(at, part, rule, FOLDER)?);
        }
    }
    Err(Errno::NOENT.into())
}

/// Opens one part of the path below the one before.
fn step(at: BorrowedFd<'_>, part: &[u8], rule: LinkRule, flags: OFlags) -> io::Result<OwnedFd> {
    let part = OsStr::from_bytes(part);
    match rule {
        // With `O_PATH` alone the link itself would be opened.
        LinkRule::Refused if flags.contains(OFlags::PATH) && !flags.contains(OFlags::DIRECTORY) => {
            let file = openat(at, part, flags | OFlags::NOFOLLOW, Mode::empty())?;
            let is_link = rustix::fs::FileType::from_raw_mode(fstat(&file)?.st_mode).is_symlink();
            if is_link { Err(Errno::LOOP.into()) } else { Ok(file) }
        }
        LinkRule::Refused => Ok(openat(at, part, flags | OFlags::NOFOLLOW, Mode::empty())?),
        LinkRule::SameOwner => {
            let file = openat(at, part, flags, Mode::empty())?;
            let link = statat(at, part, AtFlags::SYMLINK_NOFOLLOW)?;
            if fstat(&file)?.st_uid == link.st_uid { Ok(file) } else { Err(Errno::LOOP.into()) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::{FileKind, c_path};
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, symlink};
    use std::path::Path;

    fn open(path: &Path, trusted: usize, rule: LinkRule) -> Result<FileKind, i32> {
        let path = c_path(path.as_os_str().as_bytes().to_vec()).unwrap();
        let opened = open_guarded(&path, trusted, rule);
        let cached = open_guarded_cached(&path, trusted);
        assert!(cached.is_none() || opened.is_ok(), "what is refused is not opened from memory either");
        let status = status_guarded(&path, trusted, rule);
        assert_eq!(opened.is_ok(), status.is_ok());
        opened.map(|file| file.status.kind).map_err(|error| error.raw_os_error().unwrap())
    }

    #[test]
    fn links_are_refused_behind_the_trusted_folder() {
        let folder = std::env::temp_dir().join(format!("holdfast-guarded-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("real/deep")).unwrap();
        fs::write(folder.join("real/deep/file"), b"x").unwrap();
        symlink(folder.join("real"), folder.join("linked")).unwrap();
        symlink("file", folder.join("real/deep/alias")).unwrap();
        let trusted = folder.join("linked").as_os_str().len();
        let refused = LinkRule::Refused;
        assert_eq!(open(&folder.join("real/deep/file"), 0, refused), Ok(FileKind::Regular));
        assert_eq!(open(&folder.join("real//deep/"), 0, refused), Ok(FileKind::Directory));
        assert_eq!(open(&folder.join("real/deep/alias"), 0, refused), Err(libc::ELOOP));
        assert!(matches!(open(&folder.join("linked/deep/file"), 0, refused), Err(libc::ELOOP | libc::ENOTDIR)));
        assert_eq!(open(&folder.join("linked/deep/file"), trusted, refused), Ok(FileKind::Regular));
        assert_eq!(open(&folder.join("linked/deep/alias"), trusted, refused), Err(libc::ELOOP));
        assert_eq!(open(&folder.join("linked/deep/none"), trusted, refused), Err(libc::ENOENT));
        assert_eq!(open(&folder.join("real/deep/file/"), 0, refused), Err(libc::ENOTDIR));
        for path in ["linked/deep/file", "linked/deep/alias"] {
            assert_eq!(open(&folder.join(path), 0, LinkRule::SameOwner), Ok(FileKind::Regular));
        }
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_link_of_another_owner_is_refused() {
        let folder = std::env::temp_dir().join(format!("holdfast-owners-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        if fs::metadata(&folder).unwrap().uid() != 0 {
            println!("skipped: a_link_of_another_owner_is_refused: only root may give a link away");
            return;
        }
        fs::write(folder.join("file"), b"x").unwrap();
        symlink("file", folder.join("link")).unwrap();
        std::os::unix::fs::lchown(folder.join("link"), Some(1), None).unwrap();
        assert_eq!(open(&folder.join("link"), 0, LinkRule::SameOwner), Err(libc::ELOOP));
        assert_eq!(open(&folder.join("file"), 0, LinkRule::SameOwner), Ok(FileKind::Regular));
        fs::remove_dir_all(&folder).unwrap();
    }
}
