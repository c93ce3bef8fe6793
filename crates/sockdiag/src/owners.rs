//! Which process holds which socket: the inodes of sockets under `/proc/PID/fd`. What other users' processes hold is told to
//! root alone.
//!
//! This is where ss spends its time, so it is done in bulk: no path is built but the descriptor's number, no name is
//! allocated, and nothing is asked twice. Since Linux 6.2 the size of the folder is the number of its descriptors; then
//! numbers are tried from 0 until as many were found, which spares listing the folder, where the kernel looks up each
//! descriptor for the first of two times.

use rustix::fs::{CWD, Mode, OFlags, RawDir, fstat, openat, readlinkat_raw};
use rustix::io::Errno;
use std::collections::HashMap;
use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};

/// A process that holds a socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// Its id, as this process sees it.
    pub pid: u32,
    /// Its name (`comm`), at most 15 bytes.
    pub name: String,
}

/// Who holds what. Where several processes hold a socket, as a listener and the workers that inherited it, the one with the
/// lowest id is named.
#[derive(Debug, Clone, Default)]
pub struct Owners {
    /// Inode and place in `processes`, by inode.
    held: Vec<(u32, u32)>,
    processes: Vec<Owner>,
    refused: u32,
}

/// A listing of a folder is read in pieces of this size.
const LISTING_BYTES: usize = 64 * 1024;

/// `socket:[4294967295]` has 19 bytes; what is longer is no socket.
const LINK_BYTES: usize = 64;

/// Numbers without a descriptor that are tried in a row before the folder is listed after all: a process may hold few
/// descriptors with high numbers.
const GAP_MAX: u32 = 1024;

impl Owners {
    /// Looks into every process.
    pub fn scan() -> std::io::Result<Self> {
        let mut owners = Self::default();
        let mut pids: Vec<u32> = fs::read_dir("/proc")?
            .flatten()
            .filter_map(|entry| entry.file_name().to_str().and_then(|name| name.parse().ok()))
            .collect();
        pids.sort_unstable();
        for pid in pids {
            owners.scan_process(pid);
        }
        // Stable, so that the lowest process id stays first.
        owners.held.sort_by_key(|(inode, _)| *inode);
        owners.held.dedup_by_key(|(inode, _)| *inode);
        Ok(owners)
    }

    /// The holder of a socket with this inode.
    pub fn of(&self, inode: u32) -> Option<&Owner> {
        if inode == 0 {
            return None;
        }
        let at = self.held.binary_search_by_key(&inode, |(inode, _)| *inode).ok()?;
        let (_, process) = self.held.get(at)?;
        self.processes.get(*process as usize)
    }

    /// Sockets that are held by somebody.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether no socket is held by anybody that may be looked into.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Processes that may not be looked into.
    pub fn refused(&self) -> u32 {
        self.refused
    }

    /// Sockets by process id.
    pub fn by_process(&self) -> HashMap<u32, u64> {
        let mut counts = HashMap::new();
        for (_, process) in &self.held {
            if let Some(owner) = self.processes.get(*process as usize) {
                *counts.entry(owner.pid).or_default() += 1;
            }
        }
        counts
    }

    /// A process that has gone meanwhile holds nothing; one that may not be looked into is counted.
    fn scan_process(&mut self, pid: u32) {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = match openat(CWD, format!("/proc/{pid}/fd"), flags, Mode::empty()) {
            Ok(folder) => folder,
            Err(Errno::ACCESS | Errno::PERM) => {
                self.refused += 1;
                return;
            }
            Err(_) => return,
        };
        let process = self.processes.len() as u32;
        let before = self.held.len();
        let descriptors = fstat(&folder).map_or(0, |status| status.st_size);
        // Before Linux 6.2 the size is 0, as it is for a process without descriptors.
        if descriptors <= 0 || !self.try_numbers(&folder, process, descriptors as u64) {
            self.held.truncate(before);
            self.list(&folder, process);
        }
        if self.held.len() > before {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            self.processes.push(Owner { pid, name: name.trim_end().to_owned() });
        }
    }

    /// Tries numbers until so many descriptors were found; whether that succeeded.
    fn try_numbers(&mut self, folder: &OwnedFd, process: u32, descriptors: u64) -> bool {
        let (mut found, mut gap) = (0, 0);
        let mut number: u32 = 0;
        while found < descriptors {
            match read_socket_link(folder, number) {
                Ok(inode) => {
                    (found, gap) = (found + 1, 0);
                    self.held.extend(inode.map(|inode| (inode, process)));
                }
                Err(Errno::NOENT) if gap < GAP_MAX => gap += 1,
                Err(_) => return false,
            }
            number += 1;
        }
        true
    }

    fn list(&mut self, folder: &OwnedFd, process: u32) {
        let mut buffer = vec![MaybeUninit::uninit(); LISTING_BYTES];
        let mut entries = RawDir::new(folder.as_fd(), &mut buffer);
        while let Some(Ok(entry)) = entries.next() {
            let number = entry.file_name().to_str().ok().and_then(|name| name.parse().ok());
            let inode = number.and_then(|number| read_socket_link(folder, number).ok()).flatten();
            self.held.extend(inode.map(|inode| (inode, process)));
        }
    }
}

/// The inode of descriptor `number`, if it is a socket.
fn read_socket_link(folder: &OwnedFd, number: u32) -> Result<Option<u32>, Errno> {
    let mut digits = [0; 11];
    let mut target = [MaybeUninit::uninit(); LINK_BYTES];
    let (link, _) = readlinkat_raw(folder, encode_number(number, &mut digits), &mut target)?;
    Ok(parse_link(link))
}

/// The number as a C string, in the buffer's end.
fn encode_number(mut number: u32, buffer: &mut [u8; 11]) -> &std::ffi::CStr {
    let mut at = buffer.len() - 1;
    loop {
        at -= 1;
        // Ten digits and the terminating zero fit any `u32`.
        buffer[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    std::ffi::CStr::from_bytes_with_nul(&buffer[at..]).expect("digits and one zero at the end")
}

/// `socket:[12345]`.
fn parse_link(link: &[u8]) -> Option<u32> {
    let digits = link.strip_prefix(b"socket:[")?.strip_suffix(b"]")?;
    digits.iter().try_fold(0_u32, |value, digit| {
        let digit = digit.checked_sub(b'0').filter(|digit| *digit < 10)?;
        value.checked_mul(10)?.checked_add(u32::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::os::fd::AsRawFd as _;

    #[test]
    fn numbers_and_links_are_read_and_written() {
        let mut buffer = [0; 11];
        assert_eq!(encode_number(0, &mut buffer), c"0");
        let mut buffer = [0; 11];
        assert_eq!(encode_number(u32::MAX, &mut buffer), c"4294967295");
        assert_eq!(parse_link(b"socket:[77]"), Some(77));
        assert_eq!(
            (parse_link(b"pipe:[77]"), parse_link(b"socket:[4294967296]"), parse_link(b"socket:[x]")),
            (None, None, None)
        );
    }

    #[test]
    fn our_own_socket_is_found_by_number_and_by_listing() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let link = fs::read_link(format!("/proc/self/fd/{}", listener.as_raw_fd())).unwrap();
        let inode = parse_link(link.to_str().unwrap().as_bytes()).unwrap();
        let owners = Owners::scan().unwrap();
        let owner = owners.of(inode).expect("this process holds it");
        assert_eq!(owner.pid, std::process::id());
        assert!(!owner.name.is_empty() && owners.by_process()[&owner.pid] >= 1);
        assert_eq!(owners.of(0), None);

        let folder = openat(CWD, "/proc/self/fd", OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap();
        let mut listed = Owners::default();
        listed.list(&folder, 0);
        assert!(listed.held.contains(&(inode, 0)));
    }
}
