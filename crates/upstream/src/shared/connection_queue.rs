//! A line of requests, first come, first served: a slab with a linked list, behind its owner's lock. Each group has one
//! for requests that found every permitted connection in use; `seek` has those of requests that open a connection. The
//! pool decides who is served, and when; a waiter that leaves returns its grant.

use super::Pool;
use super::admission::PEER_SEARCH_MAX;
use super::group::{PeerSlot, release};
use super::lease::{Checkout, Connecting, Source};
use super::shard::Parked;
use crate::WorkerId;
use crate::sync::{Ordering, lock};

const NONE: u32 = u32::MAX;

/// The grant for a waiter.
pub(crate) enum Granted<C> {
    Connection(Parked<C>, Source),
    Slot,
}

enum State<C> {
    Free,
    Waiting,
    Granted(Granted<C>),
}

/// A waiting request, and what it wants.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request {
    pub(crate) worker: WorkerId,
    pub(crate) key: super::KeyId,
    pub(crate) peer: u16,
    /// The token that the driver uses to wake the waiter.
    pub(crate) token: u64,
}

struct Place<C> {
    state: State<C>,
    request: Request,
    newer: u32,
    /// Towards the front; also links free places.
    older: u32,
}

pub(crate) struct Line<C> {
    places: Vec<Place<C>>,
    free: u32,
    front: u32,
    back: u32,
}

impl<C> Line<C> {
    pub(crate) fn new() -> Self {
        Self { places: Vec::new(), free: NONE, front: NONE, back: NONE }
    }

    pub(crate) fn front(&self) -> u32 {
        self.front
    }

    /// Whether no request waits. Grants may still have to be collected.
    pub(crate) fn is_empty(&self) -> bool {
        self.front == NONE
    }

    /// The place and token of the first request that wants this key. Requests with the same key number but another
    /// generation want a retired key, and leave soon.
    pub(crate) fn first_of(&self, key: super::KeyId) -> Option<(u32, u64)> {
        let mut at = self.front;
        for _ in 0..PEER_SEARCH_MAX {
            let (request, behind) = self.request(at)?;
            if request.key == key {
                return Some((at, request.token));
            }
            at = behind;
        }
        None
    }

    /// The request at a place of the queue, and the place after it.
    pub(crate) fn request(&self, at: u32) -> Option<(Request, u32)> {
        let place = self.places.get(at as usize)?;
        Some((place.request, place.newer))
    }

    pub(crate) fn enqueue(&mut self, request: Request) -> u32 {
        let place = Place { state: State::Waiting, request, newer: NONE, older: self.back };
        let at = if let Some(vacant) = self.places.get_mut(self.free as usize) {
            let at = self.free;
            self.free = vacant.older;
            *vacant = place;
            at
        } else {
            self.places.push(place);
            (self.places.len() - 1) as u32
        };
        match self.places.get_mut(self.back as usize) {
            Some(ahead) => ahead.newer = at,
            None => self.front = at,
        }
        self.back = at;
        at
    }

    /// Takes the request at `at` out of the queue and stores the grant for its waiter.
    pub(crate) fn grant(&mut self, at: u32, granted: Granted<C>) {
        self.unlink(at);
        if let Some(place) = self.places.get_mut(at as usize) {
            place.state = State::Granted(granted);
        }
    }

    /// Takes the grant, if there is one; the place is then free.
    pub(crate) fn collect(&mut self, at: u32) -> Option<Granted<C>> {
        let place = self.places.get_mut(at as usize)?;
        match std::mem::replace(&mut place.state, State::Free) {
            State::Granted(granted) => {
                self.vacate(at);
                Some(granted)
            }
            other => {
                place.state = other;
                None
            }
        }
    }

    /// Leaves the queue. `Err` has the earlier grant.
    pub(crate) fn leave(&mut self, at: u32) -> Result<(), Granted<C>> {
        if let Some(granted) = self.collect(at) {
            return Err(granted);
        }
        self.unlink(at);
        self.vacate(at);
        Ok(())
    }

    fn vacate(&mut self, at: u32) {
        if let Some(place) = self.places.get_mut(at as usize) {
            place.state = State::Free;
            place.older = self.free;
            self.free = at;
        }
    }

    fn unlink(&mut self, at: u32) {
        let Some(place) = self.places.get(at as usize) else { return };
        let (newer, older) = (place.newer, place.older);
        match self.places.get_mut(newer as usize) {
            Some(behind) => behind.older = older,
            None => self.back = older,
        }
        match self.places.get_mut(older as usize) {
            Some(ahead) => ahead.newer = newer,
            None => self.front = newer,
        }
    }
}

/// Keeps a peer's number from being reused.
pub(crate) struct Pinned<'p>(&'p PeerSlot);

impl<'p> Pinned<'p> {
    pub(crate) fn new(peer: &'p PeerSlot) -> Self {
        peer.waiters.fetch_add(1, Ordering::AcqRel);
        Self(peer)
    }
}

impl Drop for Pinned<'_> {
    fn drop(&mut self) {
        release(&self.0.waiters);
    }
}

/// A place in the waiting line. Poll it when the driver was told to wake its token; drop it at the deadline, or when
/// the client leaves: a grant made in between goes to the next waiter.
#[must_use = "dropping a waiter leaves the line"]
pub struct Waiter<'p, C: Send> {
    pool: &'p Pool<C>,
    at: u32,
    group: u16,
    peer: u16,
    worker: WorkerId,
    key: super::KeyId,
    collected: bool,
    /// The grant is counted at this peer; dropped after everything else.
    _pinned: Pinned<'p>,
}

/// A collected grant.
#[must_use]
pub enum Grant<'p, C: Send> {
    /// An idle connection.
    Reuse(Checkout<'p, C>),
    /// The right to open a connection.
    Connect(Connecting<'p, C>),
}

impl<'p, C: Send> Waiter<'p, C> {
    pub(crate) fn new(pool: &'p Pool<C>, at: u32, group: u16, request: Request, pinned: Pinned<'p>) -> Self {
        let Request { worker, key, peer, .. } = request;
        Self { pool, at, group, peer, worker, key, collected: false, _pinned: pinned }
    }

    /// The grant; `None` while still waiting (and after it was collected).
    pub fn poll(&mut self) -> Option<Grant<'p, C>> {
        if self.collected {
            return None;
        }
        let granted = lock(&self.pool.groups.slot(u32::from(self.group))?.line).collect(self.at)?;
        self.collected = true;
        Some(self.grant(granted))
    }

    fn grant(&self, granted: Granted<C>) -> Grant<'p, C> {
        match granted {
            Granted::Slot => Grant::Connect(Connecting::new(self.pool, self.worker, self.key, self.group, self.peer)),
            Granted::Connection(parked, source) => {
                Grant::Reuse(Checkout::of(self.pool, self.worker, self.key, parked, source))
            }
        }
    }
}

impl<C: Send> Drop for Waiter<'_, C> {
    fn drop(&mut self) {
        if self.collected {
            return;
        }
        let Some(group) = self.pool.groups.slot(u32::from(self.group)) else { return };
        let left = lock(&group.line).leave(self.at);
        match left {
            Ok(()) => {
                group.waiting.fetch_sub(1, Ordering::AcqRel);
            }
            // Granted between the deadline and now: the next waiter may have it.
            Err(Granted::Slot) => drop(Connecting::new(self.pool, self.worker, self.key, self.group, self.peer)),
            Err(Granted::Connection(parked, source)) => {
                self.pool.give_back(self.worker, self.key, parked, source);
            }
        }
    }
}
