//! The other processes of the installation (`worker_groups`), from the view of one: it publishes how many connections it has,
//! leaves new ones to a process with clearly fewer, and takes in those that others leave to it.
//!
//! A connection travels as a packet with its descriptor and the name of its listener: numbers of listeners differ between
//! processes. A packet without a descriptor asks to accept what waits.

use super::commons::CLOSED;
use super::figures::FiguresFile;
use crate::report::errno;
use gateway::{Level, ListenerId, Neighbours, OtherFigures, Registry, Totals};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use reactor::{Accepted, Listener, SharedCounters};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How old a count may be that no new connection has refreshed: the end of connections shows after this time.
const PUBLISH_PERIOD_MS: u16 = 50;
/// A process that has published nothing for this long is stopped, or busy beyond measure: nothing is left to it.
const SILENT_MS: i32 = 1000;
/// A process without a free descriptor gets nothing for this long, as it accepts nothing itself.
const FULL_MS: u64 = 500;
/// A connection of a listener that this process does not have yet waits for the reload that brings it. Processes apply a
/// configuration within milliseconds of each other.
const UNKNOWN_PATIENCE: Duration = Duration::from_secs(2);
/// How long a process that finishes still takes connections in: another one may have left them before it knew.
const LAST_TAKE_IN: Duration = Duration::from_millis(100);
/// How long a new process waits until the others know where it publishes its figures. They are told before it starts, so it waits
/// only for one that is stopped or very busy; the metrics of that one lack the newcomer until it is told.
const KNOWN_PATIENCE: Duration = Duration::from_secs(3);
/// Time between two looks.
const KNOWN_LOOK: Duration = Duration::from_millis(1);
/// Most connections that wait so.
const UNKNOWN_MAX: usize = 256;
/// Longest name of a listener: a Unix socket has at most 107 bytes.
const NAME_BYTES_MAX: usize = 256;

/// The numbers of listeners by their names, as of the last configuration.
pub(super) type ListenerNames = Arc<Mutex<Vec<(String, ListenerId)>>>;

/// What a process gets of the commons.
pub(super) struct Belongings {
    pub(super) counts: SharedCounters,
    /// Where connections are left to each process, this one included.
    pub(super) landings: Vec<OwnedFd>,
    /// Where this process publishes its figures.
    pub(super) figures: FiguresFile,
    /// Where this process leaves connections to each.
    pub(super) others: Vec<OwnedFd>,
}

/// What the processes have published.
#[derive(Debug, Default)]
pub(super) struct Published {
    /// Each process that lives.
    pub(super) living: Vec<FiguresFile>,
    /// All that have ended, together.
    pub(super) ended: Option<FiguresFile>,
    /// The number of this set of files.
    pub(super) round: u64,
}

impl Published {
    /// Waits until the others have this set as well: a page of one that does not count this process would show less than a page
    /// of this one before, and a counter that falls is read as a restart. Not longer than the others may take.
    pub(super) fn wait_until_known(&self) {
        let deadline = Instant::now() + KNOWN_PATIENCE;
        while self.living.iter().any(|file| file.known() < self.round) && Instant::now() < deadline {
            std::thread::park_timeout(KNOWN_LOOK);
        }
    }
}

/// The others.
struct Siblings {
    published: RwLock<Published>,
    own_status: Mutex<FiguresFile>,
    own_totals: Mutex<FiguresFile>,
    index: usize,
    counts: SharedCounters,
    others: Vec<OwnedFd>,
    /// Until when this process has no descriptor, in milliseconds of the monotonic clock.
    full_until: AtomicU64,
    /// This process finishes.
    closed: AtomicBool,
}

/// The thread that takes connections in.
pub(super) struct Landing {
    siblings: Arc<Siblings>,
    thread: JoinHandle<()>,
}

struct Handle(Arc<Siblings>);

impl Neighbours for Handle {
    fn compare(&self, own: usize) -> Option<(usize, usize)> {
        self.0.publish(own);
        let others = (0..self.0.others.len()).filter(|other| *other != self.0.index && self.0.is_open(*other));
        let count = |other: usize| Some((other, self.0.counts.get(other)?.load(Ordering::Relaxed)));
        // It may have closed meanwhile.
        let open = others.filter_map(count).filter(|(_, count)| *count != CLOSED);
        open.min_by_key(|(_, count)| *count).map(|(other, count)| (other, count as usize))
    }

    fn leave_to(&self, other: usize, accepted: Accepted, listener: &Listener) -> Result<(), Accepted> {
        let Ok(Some(address)) = listener.local_address() else { return Err(accepted) };
        match self.0.send(other, address.to_string().as_bytes(), &[accepted.socket.as_fd()]) {
            Ok(()) => {
                // Counted here, so that the next connection sees it before the other process has woken up.
                let more = |count: u32| Some(count.saturating_add(1)).filter(|_| count != CLOSED);
                if let Some(count) = self.0.counts.get(other) {
                    let _ = count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
                }
                Ok(())
            }
            // Its queue is full, or too many descriptors are in flight.
            Err(_) => Err(accepted),
        }
    }

    fn publish(&self, figures: &[u8]) {
        // Without memory for them, the figures before stay.
        let _ = self.0.own_status.lock().unwrap_or_else(PoisonError::into_inner).write_status(figures);
    }

    fn publish_totals(&self, totals: &Totals) {
        let _ = self.0.own_totals.lock().unwrap_or_else(PoisonError::into_inner).write_totals(totals);
    }

    fn figures(&self) -> OtherFigures {
        let published = self.0.published.read().unwrap_or_else(PoisonError::into_inner);
        OtherFigures {
            living: published.living.iter().filter_map(FiguresFile::status).collect(),
            ended: published.ended.as_ref().and_then(FiguresFile::status),
        }
    }

    fn totals(&self) -> Vec<Totals> {
        let published = self.0.published.read().unwrap_or_else(PoisonError::into_inner);
        published.living.iter().chain(&published.ended).filter_map(FiguresFile::totals).collect()
    }

    fn request_accepts(&self) -> bool {
        self.0.set_full();
        let mut helped = false;
        for other in (0..self.0.others.len()).filter(|other| *other != self.0.index) {
            if self.0.is_open(other) {
                helped = true;
                // A process with a full queue is busy with connections that it was left.
                let _ = self.0.send(other, b"", &[]);
            }
        }
        helped
    }
}

impl Siblings {
    /// No descriptor is left: nothing is left to this process for a while.
    fn set_full(&self) {
        self.full_until.store(reactor::monotonic_millis().0 + FULL_MS, Ordering::SeqCst);
        self.publish(0);
    }

    /// Whether connections may be left to a process: it serves, has descriptors, and is not stopped.
    fn is_open(&self, index: usize) -> bool {
        let read = |at: usize| self.counts.get(at).map(|word| word.load(Ordering::Relaxed));
        let (Some(count), Some(at)) = (read(index), read(self.others.len() + index)) else { return false };
        // It may have published since this process has read the clock.
        count != CLOSED && moment().wrapping_sub(at).cast_signed() < SILENT_MS
    }

    fn publish(&self, own: usize) {
        let Some(count) = self.counts.get(self.index) else { return };
        let own = u32::try_from(own).unwrap_or(CLOSED - 1).min(CLOSED - 1);
        if let Some(at) = self.counts.get(self.others.len() + self.index) {
            at.store(moment(), Ordering::Relaxed);
        }
        let is_closed = || {
            let full = reactor::monotonic_millis().0 < self.full_until.load(Ordering::SeqCst);
            full || self.closed.load(Ordering::SeqCst)
        };
        count.store(if is_closed() { CLOSED } else { own }, Ordering::SeqCst);
        // Another thread may have closed it, and published that, since this one has looked: that must stay.
        if is_closed() {
            count.store(CLOSED, Ordering::SeqCst);
        }
    }

    fn send(&self, other: usize, name: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let to = self.others.get(other).ok_or(io::ErrorKind::NotFound)?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // A packet without bytes would look like the end.
        let parts = [IoSlice::new(b"c"), IoSlice::new(name)];
        Ok(sendmsg(to, &parts, &mut control, SendFlags::NOSIGNAL | SendFlags::DONTWAIT).map(drop)?)
    }
}

impl Landing {
    /// Begins to leave connections to the others, and to take in theirs.
    pub(super) fn start(
        registry: &'static Registry,
        index: u16,
        belongings: Belongings,
        names: ListenerNames,
    ) -> io::Result<Self> {
        let Belongings { counts, landings, others, figures } = belongings;
        let own_totals = Mutex::new(figures.share()?);
        let siblings = Arc::new(Siblings {
            published: RwLock::default(),
            own_status: Mutex::new(figures),
            own_totals,
            index: index.into(),
            counts,
            others,
            full_until: AtomicU64::new(0),
            closed: AtomicBool::new(false),
        });
        registry.set_neighbours(Box::new(Handle(Arc::clone(&siblings))));
        let own = Arc::clone(&siblings);
        let mut taker = Taker { registry, siblings, landings, names, unknown: Vec::new() };
        let thread = std::thread::Builder::new().name("siblings".to_owned()).spawn(move || taker.run())?;
        Ok(Self { siblings: own, thread })
    }

    /// The files of the other processes, and of those that have ended.
    pub(super) fn set_published(&self, published: Published) {
        let round = published.round;
        *self.siblings.published.write().unwrap_or_else(PoisonError::into_inner) = published;
        // Without memory for it, a new process waits in vain, and not for long.
        let _ = self.siblings.own_status.lock().unwrap_or_else(PoisonError::into_inner).set_known(round);
    }

    /// This process finishes: the others leave nothing more to it.
    pub(super) fn close(&self) {
        if !self.siblings.closed.swap(true, Ordering::SeqCst) {
            self.siblings.publish(0);
        }
    }

    /// The process ends.
    pub(super) fn end(self) {
        self.close();
        let _ = self.thread.join();
    }
}

/// Milliseconds of the monotonic clock, which all processes of a machine share; they wrap around.
fn moment() -> u32 {
    reactor::monotonic_millis().0 as u32
}

/// Takes connections in.
struct Taker {
    registry: &'static Registry,
    siblings: Arc<Siblings>,
    landings: Vec<OwnedFd>,
    names: ListenerNames,
    /// Connections of listeners that this process does not have yet.
    unknown: Vec<(Instant, String, OwnedFd)>,
}

impl Taker {
    fn run(&mut self) {
        self.siblings.publish(self.registry.open_connections());
        let mut left = None;
        while left.is_none_or(|since: Instant| since.elapsed() < LAST_TAKE_IN) {
            if left.is_none() && self.siblings.closed.load(Ordering::Relaxed) {
                left = Some(Instant::now());
            }
            if self.is_readable(self.siblings.index, PUBLISH_PERIOD_MS) {
                self.take_all(self.siblings.index);
            }
            for other in 0..self.landings.len() {
                if left.is_none() && !self.siblings.is_open(other) && self.is_readable(other, 0) {
                    self.take_all(other);
                }
            }
            self.place_unknown();
            self.siblings.publish(self.registry.open_connections());
        }
    }

    /// Waits until something was left to a process.
    fn is_readable(&self, index: usize, milliseconds: u16) -> bool {
        let Some(landing) = self.landings.get(index) else { return false };
        poll(&mut [PollFd::new(landing.as_fd(), PollFlags::POLLIN)], PollTimeout::from(milliseconds)) == Ok(1)
    }

    /// Takes in what was left to a process: this one, or one that cannot take it.
    fn take_all(&mut self, index: usize) {
        loop {
            let Some(landing) = self.landings.get(index) else { return };
            // Without a free descriptor, the kernel would close the connection that it hands over.
            if rustix::io::fcntl_dupfd_cloexec(landing, 0).is_err() {
                // Another process takes them in.
                return self.siblings.set_full();
            }
            match receive(landing) {
                Ok((name, Some(socket))) => self.take_in(Instant::now(), name, socket),
                Ok((_, None)) => self.registry.accept_now(),
                Err(_) => return,
            }
        }
    }

    fn take_in(&mut self, since: Instant, name: String, socket: OwnedFd) {
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let known = names.iter().find(|(known, _)| *known == name).map(|(_, id)| *id);
        drop(names);
        let Some(id) = known else {
            if since.elapsed() < UNKNOWN_PATIENCE && self.unknown.len() < UNKNOWN_MAX {
                return self.unknown.push((since, name, socket));
            }
            let message = format!("a connection that another process accepted is closed: no listener {name} here");
            return self.registry.error_log().log(Level::Warn, &message);
        };
        match Accepted::of_other_process(socket) {
            // If all workers have ended, so has the process.
            Ok(accepted) => drop(self.registry.take_in(accepted, id)),
            Err(error) => {
                let message = format!("getpeername() failed {}: the client has left", errno(&error));
                self.registry.error_log().log(Level::Info, &message);
            }
        }
    }

    fn place_unknown(&mut self) {
        for (since, name, socket) in std::mem::take(&mut self.unknown) {
            self.take_in(since, name, socket);
        }
    }
}

/// The next packet: the name of a listener, and a connection.
fn receive(landing: &OwnedFd) -> Result<(String, Option<OwnedFd>), Errno> {
    let mut bytes = [0; NAME_BYTES_MAX];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let received = recvmsg(landing, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags)?;
    let sockets = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(sockets) => Some(sockets),
        _ => None,
    });
    let socket = sockets.flatten().next();
    let name = bytes.get(1..received.bytes).unwrap_or_default();
    Ok((String::from_utf8_lossy(name).into_owned(), socket))
}
