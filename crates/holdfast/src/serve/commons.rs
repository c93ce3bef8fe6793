//! What the processes of one installation share (`worker_groups`), from the master's view: the zones of limits, the news of caches, the count of
//! connections of each, and for each a pair of sockets over which the others leave connections to it. The master keeps both ends of each pair, so that
//! connections on their way survive the process that they go to. All processes have all ends, and take in what waits for a process
//! that cannot.

use super::figures::FiguresFile;
use super::order::Order;
use gateway::ZoneSpec;
use reactor::SharedCounters;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::sync::atomic::Ordering;

/// In the place of a count: no process serves there, or it has no descriptor left. Nothing is left to it.
pub(super) const CLOSED: u32 = u32::MAX;

/// Words of shared memory for this number of processes: the counts, and then when each process has published its count.
pub(super) fn words(of: usize) -> usize {
    2 * of
}

/// The shared things of a number of processes.
#[derive(Debug)]
pub(super) struct Commons {
    counts: SharedCounters,
    /// For each process the end that it reads, and the end that the others write.
    landings: Vec<(OwnedFd, OwnedFd)>,
    /// The zones of limits and the caches, by what they are.
    zones: RefCell<BTreeMap<ZoneSpec, Rc<SharedCounters>>>,
}

impl Commons {
    /// For this number of processes; one process needs none.
    pub(super) fn new(of: u16) -> io::Result<Option<Self>> {
        if of < 2 {
            return Ok(None);
        }
        let counts = SharedCounters::new(words(of.into()))?;
        counts.all().iter().take(of.into()).for_each(|count| count.store(CLOSED, Ordering::Relaxed));
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let pair = |_| socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
        let landings = (0..of).map(pair).collect::<Result<_, _>>()?;
        Ok(Some(Self { counts, landings, zones: RefCell::default() }))
    }

    /// Nothing is left to a process that has died.
    pub(super) fn close(&self, index: usize) {
        if let Some(count) = self.counts.get(index) {
            count.store(CLOSED, Ordering::Relaxed);
        }
        let (index, of) = (u16::try_from(index).unwrap_or(u16::MAX), self.of());
        for (zone, words) in self.zones.borrow().iter() {
            zone.clear(words, index, of);
        }
    }

    fn of(&self) -> u16 {
        u16::try_from(self.landings.len()).unwrap_or(u16::MAX)
    }

    /// The memory of the zones of a configuration; makes what does not exist yet.
    pub(super) fn zones(&self, wanted: &[ZoneSpec]) -> io::Result<Vec<(ZoneSpec, Rc<SharedCounters>)>> {
        let mut zones = self.zones.borrow_mut();
        let mut found = Vec::new();
        for zone in wanted {
            let words = match zones.get(zone) {
                Some(known) => Rc::clone(known),
                None => Rc::new(zone.allocate(self.of())?),
            };
            zones.insert(zone.clone(), Rc::clone(&words));
            found.push((zone.clone(), words));
        }
        Ok(found)
    }

    /// Forgets the zones that the configuration does not have any more.
    pub(super) fn keep_zones(&self, wanted: &[ZoneSpec]) {
        self.zones.borrow_mut().retain(|zone, _| wanted.contains(zone));
    }

    /// Adds what a process needs to its first order.
    pub(super) fn add<'c>(
        &'c self,
        figures: &'c FiguresFile,
        order: &mut Order,
        descriptors: &mut Vec<BorrowedFd<'c>>,
    ) {
        order.commons = self.landings.len();
        descriptors.push(self.counts.descriptor());
        descriptors.push(figures.file().as_fd());
        descriptors.extend(self.landings.iter().map(|(own, _)| own.as_fd()));
        descriptors.extend(self.landings.iter().map(|(_, others)| others.as_fd()));
    }
}
