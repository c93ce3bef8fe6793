//! Makes the directories for temporary files and for the state of ACME issuers, while this process still has the
//! rights, and gives them to the user of the workers. A worker cannot make one below a directory of root, and would
//! answer each large request with 500.

use crate::process::Owner;
use crate::report::errno;
use crate::verdict::Prepared;
use rustix::fs::{Access, AtFlags, FileType, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Permissions that an owner needs to make files.
const OWNER_MODE: u32 = 0o700;
/// The sticky bit: every user may make files there, and only a file's owner may remove it, as in /tmp.
const STICKY: u32 = 0o1000;
/// Permission of group or others to pass through a directory. An ACL that lets another user pass sets the group's bit,
/// too.
const OTHERS_PASS: u32 = 0o011;

/// Makes the directories of a configuration; an error is nginx's message. Called by a start, a reload and `-t`.
pub(crate) fn make_directories(prepared: &Prepared) -> Result<(), String> {
    let owner = prepared.process.as_ref().and_then(|process| process.child.owner.as_ref());
    let prefix = &prepared.loaded.prefix;
    for directory in prepared.plan.iter().flat_map(|plan| &plan.temp_directories) {
        if directory.parent() == Some(prefix) {
            // As with the logs, we may create the prefix. If this fails, the next call gives the reason.
            let _ = std::fs::create_dir_all(prefix);
        }
        make(directory, owner, TEMPORARY)?;
    }
    for directory in prepared.plan.iter().flat_map(|plan| &plan.state_directories) {
        make(directory, owner, STATE)?;
        close_to_others(directory)?;
    }
    Ok(())
}

/// The purpose of a directory, for messages.
const TEMPORARY: &str = "temporary files";
const STATE: &str = "the state of an ACME issuer";

/// Removes all permissions of others, because private keys are kept there.
fn close_to_others(path: &Path) -> Result<(), String> {
    let failed = |call: &str, error: Errno| format!("{call} \"{}\" failed {}", path.display(), errno(&error.into()));
    let directory = open(path)?;
    let status = rustix::fs::fstat(&directory).map_err(|error| failed("fstat()", error))?;
    if status.st_mode & STICKY != 0 {
        return Err(format!(
            "\"{}\" cannot be used for {STATE}: others may write there; name another one",
            path.display()
        ));
    }
    if status.st_mode & 0o777 != OWNER_MODE {
        let mode = Mode::from_raw_mode(OWNER_MODE);
        rustix::fs::fchmod(&directory, mode).map_err(|error| failed("chmod()", error))?;
    }
    Ok(())
}

/// Makes one directory without its parents, and gives it to its owner.
fn make(path: &Path, owner: Option<&Owner>, purpose: &str) -> Result<(), String> {
    let failed = |call: &str, error: Errno| format!("{call} \"{}\" failed {}", path.display(), errno(&error.into()));
    match rustix::fs::mkdir(path, Mode::from_raw_mode(OWNER_MODE)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(failed("mkdir()", error)),
    }
    let directory = open(path)?;
    let Some(owner) = owner else {
        let rights = Access::WRITE_OK | Access::EXEC_OK;
        return rustix::fs::accessat(&directory, c".", rights, AtFlags::EACCESS)
            .map_err(|error| failed("access()", error));
    };
    if let Some(closed) = closed_ancestor(path, owner) {
        return Err(format!(
            "\"{}\" cannot be used for {purpose}: user \"{}\" may not pass through \"{}\"",
            path.display(),
            owner.name.to_string_lossy(),
            closed.display()
        ));
    }
    let status = rustix::fs::fstat(&directory).map_err(|error| failed("fstat()", error))?;
    let mut mode = status.st_mode;
    if mode & STICKY != 0 {
        return Ok(());
    }
    if status.st_uid != owner.user.as_raw() {
        let user = Uid::from_raw(owner.user.as_raw());
        rustix::fs::fchown(&directory, Some(user), None::<Gid>).map_err(|error| failed("chown()", error))?;
        // Permissions that its former owner gave to others are dropped.
        mode = OWNER_MODE;
    }
    if mode & OWNER_MODE != OWNER_MODE || mode != status.st_mode {
        let mode = Mode::from_raw_mode((mode | OWNER_MODE) & 0o7777);
        rustix::fs::fchmod(&directory, mode).map_err(|error| failed("chmod()", error))?;
    }
    Ok(())
}

/// Opens a directory, so that the checks and the changes are on the same file. It follows a link only if root made it:
/// the maker of any other link could make us change the owner of a directory of their choice.
fn open(path: &Path) -> Result<OwnedFd, String> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = match rustix::fs::open(path, flags | OFlags::NOFOLLOW, Mode::empty()) {
        Err(Errno::LOOP | Errno::NOTDIR) if is_link_of_root(path) => rustix::fs::open(path, flags, Mode::empty()),
        opened => opened,
    };
    opened.map_err(|error| format!("open() \"{}\" failed {}", path.display(), errno(&error.into())))
}

fn is_link_of_root(path: &Path) -> bool {
    rustix::fs::statat(rustix::fs::CWD, path, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|status| FileType::from_raw_mode(status.st_mode) == FileType::Symlink && status.st_uid == 0)
}

/// The topmost directory above a path that keeps the user out. A directory that an ACL or a group might open counts as
/// open.
fn closed_ancestor<'a>(path: &'a Path, owner: &Owner) -> Option<&'a Path> {
    if owner.user.is_root() {
        return None;
    }
    let above = path.ancestors().skip(1).filter(|above| above.as_os_str() != OsStr::new(""));
    let closed = |above: &&Path| {
        std::fs::metadata(above).is_ok_and(|data| data.uid() != owner.user.as_raw() && data.mode() & OTHERS_PASS == 0)
    };
    above.filter(closed).last()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::unistd::{Gid, Uid, geteuid};
    use std::os::unix::fs::PermissionsExt as _;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).expect("made").mode() & 0o7777
    }

    #[test]
    fn makes_one_level_for_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("body");
        make(&path, None, TEMPORARY).unwrap();
        assert_eq!(mode(&path), 0o700);
        make(&path, None, TEMPORARY).unwrap();
        let deep = make(&folder.path().join("no/such"), None, TEMPORARY).unwrap_err();
        assert!(deep.starts_with("mkdir() \"") && deep.ends_with("failed (2: No such file or directory)"), "{deep}");
        std::fs::write(folder.path().join("file"), "").unwrap();
        let file = make(&folder.path().join("file"), None, TEMPORARY).unwrap_err();
        assert!(file.ends_with("failed (20: Not a directory)"), "{file}");
    }

    #[test]
    fn gives_a_directory_to_its_owner_and_leaves_shared_ones() {
        if !geteuid().is_root() {
            return testkit::skip("only root gives directories away");
        }
        let owner = Owner { name: c"someone".into(), user: Uid::from_raw(4711), group: Gid::from_raw(4711) };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("body");
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
        let closed = make(&path, Some(&owner), TEMPORARY).unwrap_err();
        assert!(closed.contains("user \"someone\" may not pass through"), "{closed}");
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o500)).unwrap();
        make(&path, Some(&owner), TEMPORARY).unwrap();
        assert_eq!((std::fs::metadata(&path).unwrap().uid(), mode(&path)), (4711, 0o700));
        let shared = folder.path().join("shared");
        std::fs::create_dir(&shared).unwrap();
        std::fs::set_permissions(&shared, std::fs::Permissions::from_mode(0o1777)).unwrap();
        make(&shared, Some(&owner), TEMPORARY).unwrap();
        assert_eq!((std::fs::metadata(&shared).unwrap().uid(), mode(&shared)), (0, 0o1777));
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        make(&link, Some(&owner), TEMPORARY).unwrap();
        std::os::unix::fs::lchown(&link, Some(4711), None).unwrap();
        assert!(make(&link, Some(&owner), TEMPORARY).is_err(), "a link of another user");
    }
}
