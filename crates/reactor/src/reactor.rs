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
    /// We have sent FIN, and knew of none from the peer.
    pub(crate) const WE_CLOSED_FIRST: u8 = 1 << 5;
}

/// A registered socket: 12 bytes, since there is one for each, and most are silent. So its parts are packed.
#[derive(Debug, Clone, Copy)]
struct Slot {
    /// From the low end: six bits of flags, two bits of the owner's kind, and the generation.
    packed: u32,
    /// The owner's task or label, the low half first.
    number: [u32; 2],
}

/// Bits of flags in a slot: all that [`flag`] has.
const FLAG_BITS: u32 = 0x3f;
/// Where the kind of the owner is, and how wide.
const KIND_SHIFT: u32 = 6;
const KIND_BITS: u32 = 3 << KIND_SHIFT;
/// Where the generation is. Only events of one call of `epoll_wait` can be stale, so 24 bits are more than enough.
const GENERATION_SHIFT: u32 = 8;

/// The kinds of [`Owner`].
const KIND_FREE: u32 = 0;
const KIND_TASK: u32 = 1 << KIND_SHIFT;
const KIND_PARKED: u32 = 2 << KIND_SHIFT;
const KIND_LABELLED: u32 = 3 << KIND_SHIFT;

impl Slot {
    const NEW: Self = Self { packed: KIND_FREE, number: [0; 2] };

    fn generation(&self) -> u32 {
        self.packed >> GENERATION_SHIFT
    }

    /// Makes events under the present generation stale.
    fn begin_generation(&mut self) {
        self.packed = self.packed.wrapping_add(1 << GENERATION_SHIFT);
    }

    fn flags(&self) -> u8 {
        (self.packed & FLAG_BITS) as u8
    }

    fn add_flags(&mut self, flags: u8) {
        self.packed |= u32::from(flags) & FLAG_BITS;
    }

    fn clear_flags(&mut self, flags: u8) {
        self.packed &= !(u32::from(flags) & FLAG_BITS);
    }

    fn owner(&self) -> Owner {
        let [low, high] = self.number;
        let number = u64::from(high) << 32 | u64::from(low);
        match self.packed & KIND_BITS {
            KIND_TASK => Owner::Task(TaskId::from_number(number)),
            KIND_PARKED => Owner::Parked(None),
            KIND_LABELLED => Owner::Parked(Some(number)),
            _ => Owner::Free,
        }
    }

    fn set_owner(&mut self, owner: Owner) {
        let (kind, number) = match owner {
            Owner::Free => (KIND_FREE, 0),
            Owner::Task(task) => (KIND_TASK, task.number()),
            Owner::Parked(None) => (KIND_PARKED, 0),
            Owner::Parked(Some(label)) => (KIND_LABELLED, label),
        };
        self.packed = self.packed & !KIND_BITS | kind;
        self.number = [number as u32, (number >> 32) as u32];
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
        Self::with_room(0)
    }

    /// The same for this many tasks with two sockets each. Tables that need not grow leave no holes behind in the heap; pages
    /// that are not used take no memory.
    pub fn with_room(tasks: usize) -> io::Result<Rc<Self>> {
        let now_us = monotonic_micros();
        let now = now_us.millis();
        Ok(Rc::new(Self {
            home: Arc::new(Home::new(Poller::new()?)),
            slots: RefCell::new(Slots { slots: Vec::with_capacity(2 * tasks), free: Vec::new() }),
            tasks: RefCell::new(Tasks::with_room(tasks)),
            wheel: RefCell::new(Wheel::new(now.0, tasks)),
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
        self.tasks.borrow_mut().begin_ends();
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

    /// Whether the connection of this task may end now that its peer has left. If not, the task is woken in a later turn:
    /// connections that go on come first.
    pub fn may_end(&self, task: TaskId) -> bool {
        self.tasks.borrow_mut().may_end(task)
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
                slots.slots.push(Slot::NEW);
                (slots.slots.len() - 1) as u32
            });
            let entry = &mut slots.slots[slot as usize];
            entry.clear_flags(u8::MAX);
            entry.add_flags(flags);
            entry.set_owner(Owner::Task(task));
            (slot, entry.generation())
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
            entry.clear_flags(flag::WRITABLE);
            if entry.flags() & flag::OUT_ARMED != 0 {
                return;
            }
            entry.add_flags(flag::OUT_ARMED);
            entry.generation()
        };
        // It fails only for a descriptor that is not registered, which `Stream` rules out, or without memory: then the
        // send timeout ends the wait.
        let _ = self.home.poller.modify(socket, READ_WRITE_INTEREST, &Token::Slot { slot, generation });
    }

    pub(crate) fn flags(&self, slot: u32) -> u8 {
        self.slots.borrow().slots[slot as usize].flags()
    }

    pub(crate) fn add_flags(&self, slot: u32, flags: u8) {
        self.slots.borrow_mut().slots[slot as usize].add_flags(flags);
    }

    pub(crate) fn clear_flags(&self, slot: u32, flags: u8) {
        self.slots.borrow_mut().slots[slot as usize].clear_flags(flags);
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
        if entry.flags() & (flag::READABLE | flag::PEER_CLOSED | flag::FAILED) != 0 {
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
        entry.begin_generation();
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
        let Some(entry) = slots.slots.get_mut(slot as usize).filter(|entry| entry.generation() == generation) else {
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
        entry.add_flags(flags);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_slot_do_not_mix() {
        assert_eq!(size_of::<Slot>(), 12);
        let mut slot = Slot::NEW;
        let task = Owner::Task(TaskId { index: u32::MAX, generation: 0x1234_5678 });
        for owner in [task, Owner::Parked(None), Owner::Parked(Some(u64::MAX - 1)), Owner::Free] {
            slot.set_owner(owner);
            slot.add_flags(u8::MAX);
            slot.begin_generation();
            slot.clear_flags(flag::WRITABLE);
            assert_eq!(slot.owner(), owner);
            let others = flag::READABLE | flag::PEER_CLOSED | flag::FAILED | flag::OUT_ARMED | flag::WE_CLOSED_FIRST;
            assert_eq!(slot.flags(), others);
        }
        assert_eq!(slot.generation(), 4);
        slot.packed |= !((1 << GENERATION_SHIFT) - 1);
        slot.begin_generation();
        assert_eq!((slot.generation(), slot.owner()), (0, Owner::Free), "it begins again and leaves the rest alone");
    }
}
