//! The pid file: written when the instance serves, removed when it ends. The process holds a lock on it, which ends
//! with the process. So a running instance is distinguished from another process that now has the same pid.

use crate::report::errno;
use rustix::fs::{FileType, FlockOperation, fcntl_lock};
use rustix::process::{Flock, FlockOffsetType, FlockType, fcntl_getlk};
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Suffix that nginx appends to the name during an upgrade.
const OLD_SUFFIX: &str = ".oldbin";

/// Bytes read of a pid file: a pid has at most seven digits.
const PID_BYTES_MAX: usize = 32;

/// A pid file of this process.
#[derive(Debug)]
pub(super) struct PidFile {
    path: PathBuf,
    /// Holds the lock.
    _file: File,
    /// Whether it has its other name, because the new program uses the configured one.
    aside: bool,
}

/// What a pid file tells about its instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    /// The process that wrote the file is running.
    Runs(u32),
    /// The process that wrote the file has ended; another process may have its number by now.
    Ended(u32),
}

impl PidFile {
    /// Writes the pid file; an error is nginx's message.
    pub(super) fn write(path: &Path) -> Result<Self, String> {
        let failed = |error: io::Error| format!("open() \"{}\" failed {}", path.display(), errno(&error));
        let mut file = open(path).map_err(failed)?;
        file.set_len(0).or_else(ignore_devices(&file)).map_err(failed)?;
        file.write_all(format!("{}\n", std::process::id()).as_bytes()).map_err(failed)?;
        Ok(Self { path: path.to_path_buf(), _file: file, aside: false })
    }

    /// Moves to another path, if a reload names one.
    pub(super) fn move_to(&mut self, path: &Path) -> Result<(), String> {
        if path != self.path && !self.aside {
            // The assignment drops the old file, which removes it.
            *self = Self::write(path)?;
        }
        Ok(())
    }

    /// Renames the file to make room for the pid of the new program.
    pub(super) fn step_aside(&mut self) -> Result<(), String> {
        rename(&self.path, &old_path(&self.path))?;
        self.aside = true;
        Ok(())
    }

    /// The new program is gone: renames the file back.
    pub(super) fn step_back(&mut self) -> Result<(), String> {
        self.aside = false;
        rename(&old_path(&self.path), &self.path)
    }
}

/// Opens and locks the file. A file that another instance has locked stays with that instance, and a new file takes its
/// name.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    let file = options.open(path)?;
    if !is_file(&file) || fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
        return Ok(file);
    }
    // Without permission to replace it, or on a file system without locks, the file has no lock; `-s` reports that
    // later.
    let Ok(()) = std::fs::remove_file(path) else { return Ok(file) };
    let file = options.open(path)?;
    let _ = fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive);
    Ok(file)
}

fn is_file(file: &File) -> bool {
    rustix::fs::fstat(file).is_ok_and(|status| FileType::from_raw_mode(status.st_mode) == FileType::RegularFile)
}

/// `/dev/null` cannot be truncated, and need not be.
fn ignore_devices(file: &File) -> impl FnOnce(io::Error) -> io::Result<()> {
    let is_file = is_file(file);
    move |error| if is_file { Err(error) } else { Ok(()) }
}

/// Reads a pid file; the error is nginx's message.
pub(crate) fn read(path: &Path) -> Result<Written, String> {
    let shown = path.display();
    let failed = |error: io::Error| format!("[error] open() \"{shown}\" failed {}", errno(&error));
    // Every process that can read the file can see the lock.
    let file = File::open(path).map_err(failed)?;
    let text = std::fs::read(path).map_err(failed)?;
    let text = String::from_utf8_lossy(&text[..text.len().min(PID_BYTES_MAX)]).trim_end().to_owned();
    let Some(pid) = parse(&text) else { return Err(format!("[error] invalid PID number \"{text}\" in \"{shown}\"")) };
    let lock = Flock { pid: None, typ: FlockType::ReadLock, start: 0, length: 0, offset_type: FlockOffsetType::Set };
    let holder = fcntl_getlk(&file, &lock).ok().flatten().and_then(|lock| lock.pid);
    let runs = holder.is_some_and(|holder| u32::try_from(holder.as_raw_nonzero().get()) == Ok(pid));
    Ok(if runs { Written::Runs(pid) } else { Written::Ended(pid) })
}

/// Reads the number of a pid file: digits only, and not 0, which means a process group in kill(2).
fn parse(text: &str) -> Option<u32> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|&pid: &u32| digits && pid > 0 && i32::try_from(pid).is_ok())
}

/// Path of a pid file during an upgrade.
pub(super) fn old_path(path: &Path) -> PathBuf {
    let mut path = path.to_path_buf().into_os_string();
    path.push(OLD_SUFFIX);
    path.into()
}

fn rename(from: &Path, to: &Path) -> Result<(), String> {
    std::fs::rename(from, to)
        .map_err(|error| format!("rename() \"{}\" to \"{}\" failed {}", from.display(), to.display(), errno(&error)))
}

impl Drop for PidFile {
    fn drop(&mut self) {
        let path = if self.aside { old_path(&self.path) } else { self.path.clone() };
        // Only if no other instance has written it since.
        let ours = std::fs::read_to_string(&path).is_ok_and(|text| text.trim_end() == std::process::id().to_string());
        if ours {
            let _ = std::fs::remove_file(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pid_is_digits_and_not_zero() {
        assert_eq!(parse("4711"), Some(4711));
        for text in ["", "0", "00", "+5", "-1", "5 ", "0x5", "4294967295", "99999999999"] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn distinguishes_ended_from_running_processes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pid");
        std::fs::write(&path, "4711\n").unwrap();
        assert_eq!(read(&path), Ok(Written::Ended(4711)), "no process has a lock on it");
        std::fs::write(&path, "+5\n").unwrap();
        assert!(read(&path).unwrap_err().starts_with("[error] invalid PID number \"+5\" in "));
    }
}
