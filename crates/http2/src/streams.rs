//! The streams of a connection: their storage, what is remembered of ended ones, and the order in which waiting ones
//! get their turn to send (RFC 9218). The connection owns it.

use crate::priority::{Priority, URGENCIES};
use slab::Slab;

/// No stream.
const NIL: u32 = u32::MAX;

/// No Content-Length.
pub(crate) const UNKNOWN_LENGTH: u64 = u64::MAX;

/// The state of one direction of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// The head has not come.
    Head,
    /// The body or trailers follow.
    Body,
    /// The direction has ended.
    Ended,
}

/// What a stream with something to send waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// It has nothing to send.
    No,
    /// For its turn.
    Turn,
    /// For its own window.
    Window,
}

/// One stream.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) id: u32,
    /// Bytes that we may send; below 0 if the peer has lowered its setting.
    pub(crate) send_window: i32,
    /// Bytes that the peer may send.
    pub(crate) receive_window: i32,
    /// The size that the window is refilled to.
    pub(crate) window_target: u32,
    /// Bytes that have arrived and were not consumed by the caller.
    pub(crate) unconsumed: u32,
    /// Consumed bytes that were not reported to the peer yet.
    pub(crate) credit: u32,
    /// Bytes of the body still to come, or [`UNKNOWN_LENGTH`].
    pub(crate) body_left: u64,
    /// The caller's token.
    pub(crate) token: u32,
    previous: u32,
    next: u32,
    pub(crate) sends: Phase,
    pub(crate) receives: Phase,
    pub(crate) priority: Priority,
    pub(crate) waiting: Waiting,
    /// The request is HEAD: the response's Content-Length announces no body.
    pub(crate) no_body: bool,
    /// What still comes is dropped.
    pub(crate) discards: bool,
}

impl Stream {
    pub(crate) fn new(id: u32, send_window: u32, receive_window: u32) -> Self {
        Self {
            id,
            send_window: send_window as i32,
            receive_window: receive_window as i32,
            window_target: receive_window,
            unconsumed: 0,
            credit: 0,
            body_left: UNKNOWN_LENGTH,
            token: 0,
            previous: NIL,
            next: NIL,
            sends: Phase::Head,
            receives: Phase::Head,
            priority: Priority::default(),
            waiting: Waiting::No,
            no_body: false,
            discards: false,
        }
    }
}

/// How a stream ended, for frames that arrive after its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Over {
    /// The peer ended or reset it: a later frame is a fault.
    ByPeer,
    /// We reset it: frames may have been in flight.
    ByUs,
}

/// Ended streams that are remembered.
const REMEMBERED: usize = 16;

/// Streams for which an idle connection keeps room: most clients have few at once.
const IDLE_ROOM: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Queue {
    first: u32,
    last: u32,
}

/// All streams of a connection.
#[derive(Debug)]
pub(crate) struct Streams {
    slab: Slab<Stream>,
    /// Number and index, in ascending order of numbers: a client opens streams in that order.
    order: Vec<(u32, u32)>,
    /// Streams that wait for their turn, by urgency.
    queues: [Queue; URGENCIES],
    /// The latest ended streams; the lowest bit (which every number of a client has set) is cleared if the peer ended
    /// it.
    over: [u32; REMEMBERED],
    over_at: u8,
}

impl Default for Streams {
    fn default() -> Self {
        Self {
            slab: Slab::new(),
            order: Vec::new(),
            queues: [Queue { first: NIL, last: NIL }; URGENCIES],
            over: [NIL; REMEMBERED],
            over_at: 0,
        }
    }
}

impl Streams {
    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    pub(crate) fn find(&self, id: u32) -> Option<u32> {
        let at = self.order.binary_search_by_key(&id, |entry| entry.0).ok()?;
        Some(self.order[at].1)
    }

    pub(crate) fn get(&mut self, id: u32) -> Option<&mut Stream> {
        let key = self.find(id)?;
        self.slab.get_mut(key as usize)
    }

    pub(crate) fn look(&self, id: u32) -> Option<&Stream> {
        self.slab.get(self.find(id)? as usize)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Stream> {
        self.slab.iter_mut().map(|(_, stream)| stream)
    }

    /// Numbers of all streams, ascending.
    pub(crate) fn ids(&self) -> impl Iterator<Item = u32> {
        self.order.iter().map(|entry| entry.0)
    }

    pub(crate) fn last_id(&self) -> Option<u32> {
        self.order.last().map(|entry| entry.0)
    }

    /// Adds a stream with a number above all others.
    pub(crate) fn insert(&mut self, stream: Stream) {
        debug_assert!(self.last_id().is_none_or(|last| last < stream.id), "streams are opened in ascending order");
        let id = stream.id;
        let key = self.slab.insert(stream) as u32;
        self.order.push((id, key));
    }

    pub(crate) fn remove(&mut self, id: u32, over: Over) -> Option<Stream> {
        let at = self.order.binary_search_by_key(&id, |entry| entry.0).ok()?;
        let key = self.order[at].1;
        self.leave_queue(key);
        self.order.remove(at);
        let stream = self.slab.try_remove(key as usize)?;
        self.remember(id, over);
        Some(stream)
    }

    /// Remembers how a stream ended.
    pub(crate) fn remember(&mut self, id: u32, over: Over) {
        self.over[usize::from(self.over_at)] = if over == Over::ByPeer { id & !1 } else { id };
        self.over_at = (self.over_at + 1) % REMEMBERED as u8;
    }

    /// How a stream ended; `None` if that was too long ago, or it was never opened.
    pub(crate) fn over(&self, id: u32) -> Option<Over> {
        let known = self.over.iter().find(|&&over| over | 1 == id)?;
        Some(if known & 1 == 0 { Over::ByPeer } else { Over::ByUs })
    }

    /// Notes that the peer knows a stream to be over: it has also reset it.
    pub(crate) fn set_over_by_peer(&mut self, id: u32) {
        if let Some(known) = self.over.iter_mut().find(|over| **over == id) {
            *known &= !1;
        }
    }

    /// Queues a stream after the others of its urgency, or before them.
    pub(crate) fn queue(&mut self, id: u32, is_first: bool) {
        let Some(key) = self.find(id) else { return };
        self.leave_queue(key);
        let stream = &mut self.slab[key as usize];
        stream.waiting = Waiting::Turn;
        let queue = &mut self.queues[usize::from(stream.priority.urgency) % URGENCIES];
        let neighbour = if is_first { queue.first } else { queue.last };
        if is_first {
            (stream.previous, stream.next) = (NIL, neighbour);
            queue.first = key;
        } else {
            (stream.previous, stream.next) = (neighbour, NIL);
            queue.last = key;
        }
        if neighbour == NIL {
            (queue.first, queue.last) = (key, key);
        } else if is_first {
            self.slab[neighbour as usize].previous = key;
        } else {
            self.slab[neighbour as usize].next = key;
        }
    }

    /// Notes that a stream waits for its own window, or for nothing.
    pub(crate) fn set_waiting(&mut self, id: u32, waiting: Waiting) {
        debug_assert!(waiting != Waiting::Turn, "`queue` does that");
        if let Some(key) = self.find(id) {
            self.leave_queue(key);
            self.slab[key as usize].waiting = waiting;
        }
    }

    fn leave_queue(&mut self, key: u32) {
        let Some(stream) = self.slab.get_mut(key as usize).filter(|stream| stream.waiting == Waiting::Turn) else {
            return;
        };
        stream.waiting = Waiting::No;
        let (previous, next, urgency) =
            (stream.previous, stream.next, usize::from(stream.priority.urgency) % URGENCIES);
        (stream.previous, stream.next) = (NIL, NIL);
        match self.slab.get_mut(previous as usize) {
            Some(previous) => previous.next = next,
            None => self.queues[urgency].first = next,
        }
        match self.slab.get_mut(next as usize) {
            Some(next) => next.previous = previous,
            None => self.queues[urgency].last = previous,
        }
    }

    /// The stream whose turn it is.
    pub(crate) fn first_waiting(&self) -> Option<u32> {
        let key = self.queues.iter().map(|queue| queue.first).find(|&first| first != NIL)?;
        self.slab.get(key as usize).map(|stream| stream.id)
    }

    /// Whether a stream of this urgency, or a more urgent one, waits for its turn.
    pub(crate) fn has_waiting(&self, urgency: u8) -> bool {
        self.queues.iter().take(usize::from(urgency) + 1).any(|queue| queue.first != NIL)
    }

    pub(crate) fn set_priority(&mut self, id: u32, priority: Priority) {
        let Some(key) = self.find(id) else { return };
        let was_queued = self.slab[key as usize].waiting == Waiting::Turn;
        self.leave_queue(key);
        self.slab[key as usize].priority = priority;
        if was_queued {
            self.queue(id, false);
        }
    }

    /// Frees room that is not needed.
    pub(crate) fn trim(&mut self) {
        if self.order.is_empty() && self.slab.capacity() > IDLE_ROOM {
            (self.slab, self.order) = (Slab::new(), Vec::new());
        }
    }

    /// Bytes of memory behind it.
    pub(crate) fn held_bytes(&self) -> usize {
        // A slab's entry has an additional word for the list of free entries.
        self.slab.capacity() * (size_of::<Stream>() + size_of::<usize>())
            + self.order.capacity() * size_of::<(u32, u32)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn streams(ids: &[u32]) -> Streams {
        let mut streams = Streams::default();
        for &id in ids {
            streams.insert(Stream::new(id, 10, 10));
        }
        streams
    }

    #[test]
    fn a_stream_is_small() {
        assert!(size_of::<Stream>() <= 64, "{} bytes", size_of::<Stream>());
    }

    #[test]
    fn more_urgent_streams_go_first_and_others_in_their_order() {
        let mut streams = streams(&[1, 3, 5, 7]);
        streams.set_priority(5, Priority { urgency: 0, incremental: false });
        for id in [1, 3, 5] {
            streams.queue(id, false);
        }
        streams.queue(7, true);
        assert!(streams.has_waiting(0));
        let mut turns = Vec::new();
        while let Some(id) = streams.first_waiting() {
            streams.set_waiting(id, Waiting::No);
            turns.push(id);
        }
        assert_eq!(turns, [5, 7, 1, 3]);
    }

    #[test]
    fn removing_a_stream_takes_it_out_of_its_queue() {
        let mut streams = streams(&[1, 3, 5]);
        for id in [1, 3, 5] {
            streams.queue(id, false);
        }
        streams.remove(3, Over::ByUs);
        streams.set_priority(1, Priority { urgency: 7, incremental: false });
        assert_eq!(streams.first_waiting(), Some(5));
        streams.remove(5, Over::ByPeer);
        assert_eq!(streams.first_waiting(), Some(1));
        streams.remove(1, Over::ByPeer);
        assert_eq!(streams.first_waiting(), None);
        assert_eq!(streams.len(), 0);
    }

    #[test]
    fn the_latest_streams_are_remembered() {
        let mut streams = Streams::default();
        for id in (1..100).step_by(2) {
            streams.insert(Stream::new(id, 10, 10));
            streams.remove(id, if id % 4 == 1 { Over::ByPeer } else { Over::ByUs });
        }
        assert_eq!(streams.over(97), Some(Over::ByPeer));
        assert_eq!(streams.over(99), Some(Over::ByUs));
        streams.set_over_by_peer(99);
        assert_eq!(streams.over(99), Some(Over::ByPeer));
        assert_eq!(streams.over(1), None);
        assert_eq!(streams.over(101), None);
        let mut first = Streams::default();
        first.remember(1, Over::ByPeer);
        assert_eq!((first.over(1), first.over(3)), (Some(Over::ByPeer), None));
    }
}
