//! Which process holds which socket: the inodes of sockets under `/proc/PID/fd`. Only root can see the sockets of other users' processes.
//!
//! This is where ss spends its time. A descriptor of `/proc` costs some 2 µs, nearly all of it in the kernel's lookup of a path.
//! So where there are many, the kernel is asked by [`iterator`], at some 0.1 µs each, if it has that and lets us. Otherwise no path
//! is built but the descriptor's number, no name is allocated, and nothing is asked twice. Since Linux 6.2 the size of the folder
//! is the number of its descriptors; then numbers are tried from 0 until as many were found, and only what lies behind is listed,
//! since for a list the kernel looks up each descriptor a first time. As a rule nothing lies behind. But a process that opens and
//! closes meanwhile fills numbers ahead of us, which count as others would, and without the list those others would be lost. Asking for
//! the status behind a number (statx) instead of the link was tried and costs the same within a tenth: what takes the time is the lookup of the number.

mod btf;
mod iterator;

use rustix::fs::{CWD, Mode, OFlags, RawDir, SeekFrom, fstat, openat, readlinkat_raw, seek, stat};
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

/// The process that holds each socket. If several processes hold a socket, such as a listener and the workers that inherited it, the one
/// with the lowest id is named.
#[derive(Debug, Clone, Default)]
pub struct Owners {
    /// Inode and place in `processes`, by inode.
    held: Vec<(u32, u32)>,
    /// By id.
    processes: Vec<Owner>,
    index: Index,
    refused: u32,
    /// Further descriptors were not read.
    is_cut: bool,
}

/// Where in a sorted table the inodes of each equal part of their range begin. Inodes are handed out one after the other, so the
/// parts are of one size, and a search ends within the same few bytes of memory where it began.
#[derive(Debug, Clone, Default)]
struct Index {
    least: u32,
    /// A part's number is what is left of the distance from the least, shifted by this many bits.
    shift: u32,
    /// One more than there are parts.
    begins: Vec<u32>,
}

/// From this many descriptors on the kernel is asked by a program of ours: to read its types and to have it checked takes some 5 ms
/// the first time, as much as some thousands of descriptors in `/proc`.
const DESCRIPTORS_MANY: u64 = 10_000;

/// Four million sockets with their holders, 32 MB, are what a table has at most; holders of further ones are not known.
const HELD_MAX: usize = 1 << 22;

/// Entries for each part of an [`Index`]: one line of the processor's cache.
const PART_ENTRIES: usize = 8;

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
        let entries = fs::read_dir("/proc")?.flatten();
        Ok(Self::of_processes(entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())))
    }

    /// Looks into these processes alone.
    pub fn of_processes(pids: impl IntoIterator<Item = u32>) -> Self {
        let mut pids: Vec<u32> = pids.into_iter().collect();
        pids.sort_unstable();
        let many = pids.iter().map(|pid| descriptors(*pid)).sum::<u64>() >= DESCRIPTORS_MANY;
        let walked = if many { iterator::sockets() } else { None };
        walked.map_or_else(|| Self::by_paths(&pids), |sockets| Self::by_kernel(&pids, sockets))
    }

    fn by_paths(pids: &[u32]) -> Self {
        let mut owners = Self::default();
        let mut listing = vec![MaybeUninit::uninit(); LISTING_BYTES];
        for pid in pids {
            owners.scan_process(*pid, &mut listing);
        }
        owners.sealed()
    }

    /// From inodes and process ids, of which those that were not asked for are left out.
    fn by_kernel(pids: &[u32], mut sockets: Vec<(u32, u32)>) -> Self {
        let mut owners = Self::default();
        // They come process by process, so that the search is for a new one seldom.
        let mut last = (0, None);
        sockets.retain_mut(|(_, holder)| {
            if last.0 != *holder {
                let asked = pids.binary_search(holder).is_ok();
                last = (*holder, asked.then(|| owners.place_of(*holder)));
            }
            *holder = last.1.unwrap_or_default();
            last.1.is_some()
        });
        owners.held = sockets;
        // Threads of one process may come apart, and processes in another order than by id.
        let mut order: Vec<u32> = (0..owners.processes.len() as u32).collect();
        order.sort_unstable_by_key(|place| owners.processes.get(*place as usize).map(|owner| owner.pid));
        let mut places = vec![0; order.len()];
        for (new, old) in order.iter().enumerate() {
            if let Some(place) = places.get_mut(*old as usize) {
                *place = new as u32;
            }
        }
        for (_, place) in &mut owners.held {
            *place = places.get(*place as usize).copied().unwrap_or_default();
        }
        owners.processes.sort_unstable_by_key(|owner| owner.pid);
        owners.sealed()
    }

    /// The process's place in the table, new or not.
    fn place_of(&mut self, pid: u32) -> u32 {
        let known = self.processes.iter().position(|owner| owner.pid == pid);
        known.unwrap_or_else(|| {
            self.processes.push(Owner { pid, name: name_of(pid) });
            self.processes.len() - 1
        }) as u32
    }

    /// Nothing will be added any more.
    fn sealed(mut self) -> Self {
        // By inode, and within one by process id, of which the lowest stays. In place: a table of a million needs no other.
        self.held.sort_unstable();
        self.held.dedup_by_key(|(inode, _)| *inode);
        self.index = Index::over(&self.held);
        self
    }

    /// The holder of a socket with this inode.
    pub fn of(&self, inode: u32) -> Option<&Owner> {
        if inode == 0 {
            return None;
        }
        let part = self.held.get(self.index.part_of(inode)?)?;
        let at = part.binary_search_by_key(&inode, |(inode, _)| *inode).ok()?;
        let (_, process) = part.get(at)?;
        self.processes.get(*process as usize)
    }

    /// Sockets that a process holds.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether no process that may be inspected holds a socket.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Whether more sockets are held than a table has room for, so that the holders of some are not known.
    pub fn is_cut(&self) -> bool {
        self.is_cut
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
    fn scan_process(&mut self, pid: u32, listing: &mut [MaybeUninit<u8>]) {
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
        // Before Linux 6.2 the size is 0, as it is for a process without descriptors.
        let descriptors = fstat(&folder).map_or(0, |status| u64::try_from(status.st_size).unwrap_or(0));
        // Its user may open the folder; what is in there takes all rights that the process has, too.
        if let Err(Errno::ACCESS | Errno::PERM) = self.scan_folder(&folder, process, descriptors, listing) {
            self.refused += 1;
        }
        if self.held.len() > before {
            self.processes.push(Owner { pid, name: name_of(pid) });
        }
    }

    /// By number as long as descriptors are missing from those that there were at the beginning, and the others by listing.
    fn scan_folder(
        &mut self,
        folder: &OwnedFd,
        process: u32,
        descriptors: u64,
        listing: &mut [MaybeUninit<u8>],
    ) -> Result<(), Errno> {
        let untried = self.try_numbers(folder, process, descriptors)?;
        // Behind `.` and `..`, descriptor n is at n + 2 (`proc_readfd_common()` in `fs/proc/fd.c`).
        seek(folder, SeekFrom::Start(u64::from(untried) + 2))?;
        self.list(folder, process, listing)
    }

    /// Tries numbers until this many descriptors were found, or none for long; the first number that was not tried.
    fn try_numbers(&mut self, folder: &OwnedFd, process: u32, descriptors: u64) -> Result<u32, Errno> {
        let (mut found, mut gap) = (0, 0);
        let mut number: u32 = 0;
        while found < descriptors && gap < GAP_MAX {
            match read_socket_link(folder, number) {
                Ok(inode) => {
                    (found, gap) = (found + 1, 0);
                    self.hold(inode, process);
                }
                Err(Errno::NOENT) => gap += 1,
                Err(error) => return Err(error),
            }
            number += 1;
        }
        Ok(number)
    }

    /// A descriptor that is closed meanwhile is none; another error ends it.
    fn list(&mut self, folder: &OwnedFd, process: u32, listing: &mut [MaybeUninit<u8>]) -> Result<(), Errno> {
        let mut entries = RawDir::new(folder.as_fd(), listing);
        while let Some(entry) = entries.next() {
            let Some(number) = entry?.file_name().to_str().ok().and_then(|name| name.parse().ok()) else { continue };
            match read_socket_link(folder, number) {
                Ok(inode) => self.hold(inode, process),
                Err(Errno::NOENT) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn hold(&mut self, inode: Option<u32>, process: u32) {
        let Some(inode) = inode else { return };
        if self.held.len() < HELD_MAX {
            self.held.push((inode, process));
        } else {
            self.is_cut = true;
        }
    }
}

impl Index {
    fn over(held: &[(u32, u32)]) -> Self {
        let (Some((least, _)), Some((most, _))) = (held.first(), held.last()) else { return Self::default() };
        let (range, parts) = (u64::from(most - least), held.len().div_ceil(PART_ENTRIES) as u64);
        let mut shift = 0;
        while range >> shift >= parts {
            shift += 1;
        }
        let mut begins = Vec::with_capacity((range >> shift) as usize + 2);
        for (at, (inode, _)) in held.iter().enumerate() {
            let part = u64::from(inode - least) >> shift;
            while begins.len() as u64 <= part {
                begins.push(at as u32);
            }
        }
        begins.push(held.len() as u32);
        Self { least: *least, shift, begins }
    }

    /// Index of the inode in the table, if it has one.
    fn part_of(&self, inode: u32) -> Option<std::ops::Range<usize>> {
        let part = (u64::from(inode.checked_sub(self.least)?) >> self.shift) as usize;
        Some(*self.begins.get(part)? as usize..*self.begins.get(part + 1)? as usize)
    }
}

/// How many descriptors a process has; 0 before Linux 6.2, and where it is gone.
fn descriptors(pid: u32) -> u64 {
    stat(format!("/proc/{pid}/fd")).map_or(0, |status| u64::try_from(status.st_size).unwrap_or(0))
}

fn name_of(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim_end().to_owned()
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
    use proptest::prelude::*;
    use std::net::TcpListener;

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
        let inode = inode_of(&listener);
        let owners = Owners::scan().unwrap();
        let owner = owners.of(inode).expect("this process holds it");
        assert_eq!(owner.pid, std::process::id());
        assert!(!owner.name.is_empty() && owners.by_process()[&owner.pid] >= 1);
        assert_eq!(owners.of(0), None);
        assert_eq!(Owners::of_processes([u32::MAX]).len(), 0, "no such process");

        let folder = openat(CWD, "/proc/self/fd", OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap();
        let mut listed = Owners::default();
        listed.list(&folder, 0, &mut [MaybeUninit::uninit(); 4096]).unwrap();
        assert!(listed.held.contains(&(inode, 0)));
    }

    /// What a process opens and closes while it is looked into is counted in place of what it holds all the time.
    #[test]
    fn finds_descriptors_behind_new_ones() {
        let listeners: Vec<_> = (0..40).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let folder = openat(CWD, "/proc/self/fd", OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap();
        // As if there had been so few descriptors at first: all others came since, or lie behind those that did.
        for descriptors in [0, 1, 2, 10, 30, 10_000] {
            let mut owners = Owners::default();
            owners.scan_folder(&folder, 0, descriptors, &mut [MaybeUninit::uninit(); 4096]).unwrap();
            for listener in &listeners {
                let inode = inode_of(listener);
                let times = owners.held.iter().filter(|(held, _)| *held == inode).count();
                assert_eq!(times, 1, "of {descriptors} at first");
            }
        }
    }

    fn inode_of(socket: &impl std::os::fd::AsRawFd) -> u32 {
        let link = fs::read_link(format!("/proc/self/fd/{}", socket.as_raw_fd())).unwrap();
        parse_link(link.to_str().unwrap().as_bytes()).unwrap()
    }

    #[test]
    fn the_kernel_s_own_walk_finds_the_same_sockets() {
        let listeners: Vec<_> = (0..100).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let Some(sockets) = iterator::sockets() else {
            assert!(!rustix::process::geteuid().is_root() || fs::exists(iterator::TYPES).is_ok_and(|there| !there));
            use std::io::Write as _;
            let line =
                "SKIPPED the_kernel_s_own_walk_finds_the_same_sockets (sockdiag): it needs root and a kernel's types";
            let _ = writeln!(std::io::stderr(), "{line}");
            return;
        };
        let us = std::process::id();
        let walked = Owners::by_kernel(&[1, us], sockets);
        let read = Owners::by_paths(&[us]);
        for listener in &listeners {
            let inode = inode_of(listener);
            assert_eq!(walked.of(inode).map(|owner| owner.pid), Some(us));
            assert_eq!(walked.of(inode), read.of(inode));
        }
        assert!(walked.by_process().keys().all(|pid| [1, us].contains(pid)));
    }

    #[test]
    fn names_the_lowest_of_several_holders_and_only_wanted_sockets() {
        let us = std::process::id();
        let sockets = vec![(70, us + 1), (71, us + 1), (70, us), (72, us + 2), (70, us + 1)];
        let owners = Owners::by_kernel(&[us, us + 1], sockets);
        let pid = |inode| owners.of(inode).map(|owner| owner.pid);
        assert_eq!([pid(69), pid(70), pid(71), pid(72), pid(73)], [None, Some(us), Some(us + 1), None, None]);
        assert_eq!(owners.len(), 2);
    }

    proptest! {
        #[test]
        fn every_inode_of_a_table_is_found_and_no_other(mut inodes in prop::collection::vec(1_u32.., 0..300), near in 1..500_u32) {
            // As they are handed out, and anywhere.
            inodes.extend(near..near + 100);
            let held = inodes.iter().map(|inode| (*inode, 0)).collect();
            let processes = vec![Owner { pid: 1, name: "init".to_owned() }];
            let owners = Owners { held, processes, ..Owners::default() }.sealed();
            for inode in &inodes {
                prop_assert!(owners.of(*inode).is_some());
                for other in [inode.wrapping_sub(1), inode.wrapping_add(1)] {
                    prop_assert_eq!(owners.of(other).is_some(), inodes.contains(&other));
                }
            }
            prop_assert!(owners.index.begins.len() <= owners.held.len() / PART_ENTRIES + 3);
        }
    }
}
