//! The loop's state: registered sockets, tasks, timers. One per thread, shared by `Rc` within it.

use crate::clock::{monotonic_micros, monotonic_millis};
use crate::parked::{Home, Parked, ParkedId};
use crate::poller::{Poller, READ_INTEREST, READ_WRITE_INTEREST, SourceId, Token};
use crate::stream::Stream;
use crate::task::{TaskId, Tasks};
use crate::timer::Wheel;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use terms::{Micros, Millis};

/// Events taken from the kernel at once: enough to amortise the call, few enough that the first does not wait for long.
const EVENTS_MAX: usize = 512;

/// What a turn of the loop found to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ready {
    /// Something happened on a task's sockets, its deadline came, or it was woken.
    Task(TaskId),
    /// Something happened on a parked socket, so it cannot be used any more. The value is its label
    /// ([`Reactor::label_parked`]).
    Parked(u64),
    /// A listener or a mailbox is readable.
    Source(SourceId),
}

/// What receives the events on a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    Free,
    Task(TaskId),
    /// Without a label until its owner knows under which it is to be reported.
    Parked(Option<u64>),
}

/// Readiness of a registered socket, as far as the kernel has reported it.
pub(crate) mod flag {
    /// A read may return something.
    pub(crate) const READABLE: u8 = 1;
    /// A write has not been refused since.
    pub(crate) const WRITABLE: u8 = 1 << 1;
    /// The peer has sent FIN; data before it may still be unread.
    pub(crate) const PEER_CLOSED: u8 = 1 << 2;
    /// The connection is broken (RST, or both sides closed).
    pub(crate) const FAILED: u8 = 1 << 3;
    /// EPOLLOUT is part of the registration.
    pub(crate) const OUT_ARMED: u8 = 1 << 4;
}

/// A registered socket: 16 bytes, since there is one for each, and most are silent. The owner is in two parts for that.
#[derive(Debug, Clone, Copy)]
struct Slot {
    generation: u32,
    flags: u8,
    kind: OwnerKind,
    /// The owner's task or label.
    number: u64,
}

/// [`Owner`] without its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OwnerKind {
    Free,
    Task,
    Parked,
    Labelled,
}

impl Slot {
    fn owner(&self) -> Owner {
        match self.kind {
            OwnerKind::Free => Owner::Free,
            OwnerKind::Task => Owner::Task(TaskId::from_number(self.number)),
            OwnerKind::Parked => Owner::Parked(None),
            OwnerKind::Labelled => Owner::Parked(Some(self.number)),
        }
    }

    fn set_owner(&mut self, owner: Owner) {
        (self.kind, self.number) = match owner {
            Owner::Free => (OwnerKind::Free, 0),
            Owner::Task(task) => (OwnerKind::Task, task.number()),
            Owner::Parked(None) => (OwnerKind::Parked, 0),
            Owner::Parked(Some(label)) => (OwnerKind::Labelled, label),
        };
    }
}

#[derive(Debug, Default)]
struct Slots {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

/// The event loop of one thread.
#[derive(Debug)]
pub struct Reactor {
    home: Arc<Home>,
    slots: RefCell<Slots>,
    tasks: RefCell<Tasks>,
    wheel: RefCell<Wheel>,
    /// Parked sockets and sources with events, in order of arrival.
    notices: RefCell<VecDeque<Ready>>,
    events: RefCell<Vec<libc::epoll_event>>,
    now: Cell<Millis>,
    now_us: Cell<Micros>,
    turns: Cell<u64>,
}

impl Reactor {
    /// A reactor for the calling thread.
    pub fn new() -> io::Result<Rc<Self>> {
        let now_us = monotonic_micros();
        let now = now_us.millis();
        Ok(Rc::new(Self {
            home: Arc::new(Home::new(Poller::new()?)),
            slots: RefCell::default(),
            tasks: RefCell::default(),
            wheel: RefCell::new(Wheel::new(now.0)),
            notices: RefCell::default(),
            events: RefCell::new(vec![libc::epoll_event { events: 0, u64: 0 }; EVENTS_MAX]),
            now: Cell::new(now),
            now_us: Cell::new(now_us),
            turns: Cell::new(0),
        }))
    }

    /// The time of the latest turn. All work of a turn sees the same instant.
    pub fn now(&self) -> Millis {
        self.now.get()
    }

    /// The same in microseconds, for durations that are measured.
    pub fn now_us(&self) -> Micros {
        self.now_us.get()
    }

    /// How often the loop has turned: work that may be done once per turn compares this.
    pub fn turns(&self) -> u64 {
        self.turns.get()
    }

    /// Waits until something happens, at most for `at_most_ms` (`None`: until a deadline or an event), and collects it.
    pub fn turn(&self, at_most_ms: Option<u64>) -> io::Result<()> {
        self.free_orphans();
        let timeout = self.timeout_ms(at_most_ms);
        let mut events = self.events.borrow_mut();
        let count = match self.home.poller.wait(&mut events, timeout) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            Err(error) => return Err(error),
        };
        self.turns.set(self.turns.get() + 1);
        let now_us = monotonic_micros();
        self.now_us.set(now_us);
        self.now.set(now_us.millis());
        for event in &events[..count] {
            self.collect(event.events as i32, event.u64);
        }
        let mut tasks = self.tasks.borrow_mut();
        self.wheel.borrow_mut().advance(self.now().0, |index| tasks.fire_deadline(index));
        Ok(())
    }

    /// The next thing to do; `None` when the turn has nothing left.
    pub fn next_ready(&self) -> Option<Ready> {
        if let Some(notice) = self.notices.borrow_mut().pop_front() {
            return Some(notice);
        }
        self.tasks.borrow_mut().next_ready().map(Ready::Task)
    }

    /// Tasks that wait in the ready list. A task that yields to others is put at its end.
    pub fn ready_len(&self) -> usize {
        self.tasks.borrow().ready_len()
    }

    /// Makes a task.
    pub fn create_task(&self) -> TaskId {
        self.tasks.borrow_mut().create()
    }

    /// Ends a task; its deadline goes with it, its id means nothing from now on.
    pub fn end_task(&self, task: TaskId) {
        self.wheel.borrow_mut().clear(task.index);
        self.tasks.borrow_mut().end(task);
    }

    /// Whether a task has not ended.
    pub fn is_live(&self, task: TaskId) -> bool {
        self.tasks.borrow().is_live(task)
    }

    /// Puts a task into the ready list, once.
    pub fn wake(&self, task: TaskId) {
        self.tasks.borrow_mut().wake(task);
    }

    /// Sets, moves or clears the deadline of a task.
    pub fn set_deadline(&self, task: TaskId, deadline: Option<Millis>) {
        let mut wheel = self.wheel.borrow_mut();
        match deadline {
            Some(at) => wheel.set(task.index, at.0),
            None => wheel.clear(task.index),
        }
    }

    /// Whether the task's deadline has come since this was last asked.
    pub fn take_deadline_fired(&self, task: TaskId) -> bool {
        self.tasks.borrow_mut().take_deadline_fired(task)
    }

    /// Watches a descriptor that is not a connection, level-triggered: it is reported each turn while it is readable.
    /// With `exclusive`, one of several reactors that watch the same descriptor is woken instead of all of them.
    pub fn watch(&self, descriptor: BorrowedFd<'_>, source: SourceId, exclusive: bool) -> io::Result<()> {
        let events = libc::EPOLLIN | if exclusive { libc::EPOLLEXCLUSIVE } else { 0 };
        self.home.poller.add(descriptor, events, &Token::Source(source))
    }

    /// Stops watching a descriptor.
    pub fn unwatch(&self, descriptor: BorrowedFd<'_>) -> io::Result<()> {
        self.home.poller.remove(descriptor)
    }

    /// Registers a connected socket for a task.
    pub fn register(self: &Rc<Self>, socket: OwnedFd, task: TaskId) -> io::Result<Stream> {
        self.register_with(socket, task, READ_INTEREST, flag::WRITABLE)
    }

    /// Registers a socket with a `connect` under way: it becomes writable when that has succeeded or failed.
    pub(crate) fn register_connecting(self: &Rc<Self>, socket: OwnedFd, task: TaskId) -> io::Result<Stream> {
        self.register_with(socket, task, READ_WRITE_INTEREST, flag::OUT_ARMED)
    }

    fn register_with(self: &Rc<Self>, socket: OwnedFd, task: TaskId, events: i32, flags: u8) -> io::Result<Stream> {
        let (slot, generation) = {
            let slots = &mut *self.slots.borrow_mut();
            let slot = slots.free.pop().unwrap_or_else(|| {
                slots.slots.push(Slot { generation: 0, flags: 0, kind: OwnerKind::Free, number: 0 });
                (slots.slots.len() - 1) as u32
            });
            let entry = &mut slots.slots[slot as usize];
            entry.flags = flags;
            entry.set_owner(Owner::Task(task));
            (slot, entry.generation)
        };
        if let Err(error) = self.home.poller.add(socket.as_fd(), events, &Token::Slot { slot, generation }) {
            self.free_slot(slot);
            return Err(error);
        }
        Ok(Stream::from_parts(socket, slot, Rc::clone(self)))
    }

    /// Adds EPOLLOUT to a socket after a write was refused. Re-arming also reports writability that came meanwhile.
    pub(crate) fn arm_write(&self, slot: u32, socket: BorrowedFd<'_>) {
        let generation = {
            let slots = &mut *self.slots.borrow_mut();
            let entry = &mut slots.slots[slot as usize];
            entry.flags &= !flag::WRITABLE;
            if entry.flags & flag::OUT_ARMED != 0 {
                return;
            }
            entry.flags |= flag::OUT_ARMED;
            entry.generation
        };
        // It fails only for a descriptor that is not registered, which `Stream` rules out, or without memory: then the
        // send timeout ends the wait.
        let _ = self.home.poller.modify(socket, READ_WRITE_INTEREST, &Token::Slot { slot, generation });
    }

    pub(crate) fn flags(&self, slot: u32) -> u8 {
        self.slots.borrow().slots[slot as usize].flags
    }

    pub(crate) fn clear_flags(&self, slot: u32, flags: u8) {
        self.slots.borrow_mut().slots[slot as usize].flags &= !flags;
    }

    pub(crate) fn reattach(&self, slot: u32, task: TaskId) {
        self.slots.borrow_mut().slots[slot as usize].set_owner(Owner::Task(task));
    }

    pub(crate) fn park(&self, slot: u32, socket: OwnedFd) -> Parked {
        self.slots.borrow_mut().slots[slot as usize].set_owner(Owner::Parked(None));
        Parked::new(socket, slot, Arc::clone(&self.home))
    }

    /// Says under which value events on a parked socket are reported. What came since it was parked is reported, too. For
    /// a socket that another thread has taken meanwhile this does nothing of consequence.
    pub fn label_parked(&self, parked: ParkedId, label: u64) {
        let slots = &mut *self.slots.borrow_mut();
        let entry = &mut slots.slots[parked.0 as usize];
        if !matches!(entry.owner(), Owner::Parked(_)) {
            return;
        }
        entry.set_owner(Owner::Parked(Some(label)));
        if entry.flags & (flag::READABLE | flag::PEER_CLOSED | flag::FAILED) != 0 {
            self.notices.borrow_mut().push_back(Ready::Parked(label));
        }
    }

    pub(crate) fn home(&self) -> &Arc<Home> {
        &self.home
    }

    pub(crate) fn free_slot(&self, slot: u32) {
        let slots = &mut *self.slots.borrow_mut();
        let entry = &mut slots.slots[slot as usize];
        entry.set_owner(Owner::Free);
        entry.generation = entry.generation.wrapping_add(1) & 0x7fff_ffff;
        slots.free.push(slot);
    }

    fn free_orphans(&self) {
        for slot in self.home.take_orphans() {
            self.free_slot(slot);
        }
    }

    fn timeout_ms(&self, at_most_ms: Option<u64>) -> i32 {
        if self.tasks.borrow().ready_len() > 0 || !self.notices.borrow().is_empty() {
            return 0;
        }
        let timer = self.wheel.borrow().next_tick().map(|tick| tick.saturating_sub(monotonic_millis().0));
        match (timer, at_most_ms) {
            (None, None) => -1,
            (timer, at_most) => {
                let shorter = timer.unwrap_or(u64::MAX).min(at_most.unwrap_or(u64::MAX));
                i32::try_from(shorter).unwrap_or(i32::MAX)
            }
        }
    }

    fn collect(&self, events: i32, token: u64) {
        let (slot, generation) = match Token::decode(token) {
            Token::Source(source) => return self.notices.borrow_mut().push_back(Ready::Source(source)),
            Token::Slot { slot, generation } => (slot, generation),
        };
        let slots = &mut *self.slots.borrow_mut();
        let Some(entry) = slots.slots.get_mut(slot as usize).filter(|entry| entry.generation == generation) else {
            return;
        };
        let mut flags = 0;
        if events & (libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR) != 0 {
            flags |= flag::READABLE;
        }
        if events & (libc::EPOLLOUT | libc::EPOLLHUP | libc::EPOLLERR) != 0 {
            flags |= flag::WRITABLE;
        }
        if events & (libc::EPOLLRDHUP | libc::EPOLLHUP) != 0 {
            flags |= flag::PEER_CLOSED;
        }
        if events & (libc::EPOLLHUP | libc::EPOLLERR) != 0 {
            flags |= flag::FAILED;
        }
        entry.flags |= flags;
        match entry.owner() {
            // Without a label its owner is about to give it one, and `label_parked` looks at the flags.
            Owner::Free | Owner::Parked(None) => {}
            Owner::Task(task) => self.tasks.borrow_mut().wake(task),
            // A parked socket whose registration has EPOLLOUT still in it may report only that.
            Owner::Parked(_) if flags & flag::READABLE == 0 => {}
            Owner::Parked(Some(label)) => self.notices.borrow_mut().push_back(Ready::Parked(label)),
        }
    }
}
