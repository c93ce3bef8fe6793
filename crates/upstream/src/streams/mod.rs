//! Leases of streams on connections that several requests share (HTTP/2 towards upstreams): which connection of a peer
//! has room, when another one is opened, which requests wait, and the effect of GOAWAY. One book for each worker: such
//! connections are not given to other workers. It opens and closes nothing itself: it returns [`Action`]s.
//!
//! A request uses the fullest connection with room, so that the others become idle and end. Another one is opened if
//! none has room and those being opened will not have enough, up to [`Limits::connections_max`]; beyond that, requests
//! wait in line, first come, first served.
//!
//! Connections and streams are counted separately ([`Counts`]).

#[cfg(test)]
mod tests;

use crate::Millis;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::hash::Hash;

/// The configured limits for connections to one peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most connections of this worker, including those being opened.
    pub connections_max: u32,
    /// Most concurrent streams on one connection, if its peer allows as many. Before its settings are known, a connection
    /// carries one request, which need not wait; it is expected to take this many once they are (RFC 9113 section 6.5.2
    /// recommends at least 100).
    pub streams_max: u32,
    /// Most requests that may wait; 0: none.
    pub line_max: u32,
    /// Requests on one connection before it is retired (`keepalive_requests`).
    pub requests_max: u32,
    /// Milliseconds after which a connection takes no further requests (`keepalive_time`).
    pub age_ms_max: u64,
    /// Milliseconds without a stream after which a connection is closed (`keepalive_timeout`).
    pub idle_ms_max: u64,
    /// Most connections without a stream that are kept (`keepalive`).
    pub idle_max: u32,
}

impl Limits {
    /// Requests that a new connection is assumed to carry, at least 1.
    fn each(&self) -> u32 {
        self.streams_max.min(self.requests_max).max(1)
    }
}

/// A connection of the book. Numbers are never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(u64);

impl ConnectionId {
    /// For a connection that is in no book.
    pub const NONE: Self = Self(u64::MAX);
}

/// The facts about a connection that was open before the book knew it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Earlier {
    /// Requests that it has carried.
    pub requests: u32,
    /// When it was opened.
    pub opened: Millis,
    /// Streams that its peer allows; `None` before its settings are known.
    pub allowed: Option<u32>,
}

/// The right to one stream on a connection. Return it with [`StreamBook::release`] however the stream ended.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a lease must be released"]
pub struct StreamLease {
    connection: ConnectionId,
    /// Requests before this one on the connection: 0 for its first.
    earlier: u32,
}

impl StreamLease {
    /// Its connection.
    pub fn connection(&self) -> ConnectionId {
        self.connection
    }

    /// Whether its connection has carried a request before.
    pub fn is_reused(&self) -> bool {
        self.earlier > 0
    }
}

/// The result for a request.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a lease in it must be released"]
pub enum Grant {
    /// A stream.
    Lease(StreamLease),
    /// It waits in line; an [`Action`] will serve it. If a connection must be opened for it, an action says so.
    Waits,
    /// The line is full.
    LineFull,
}

/// Why a connection must be closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Retired {
    /// The peer sent GOAWAY, and its last stream has ended.
    GoneAway,
    /// Idle for too long.
    IdleLimit,
    /// Too many idle connections.
    IdleFull,
    /// It has carried the maximum number of requests.
    RequestLimit,
    /// Too old.
    AgeLimit,
}

/// What the owner must do.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub enum Action<K, W> {
    /// Open a connection to this peer; then call [`StreamBook::opened`] or [`StreamBook::open_failed`].
    Open(K, ConnectionId),
    /// The waiting request has a stream.
    Serve(W, StreamLease),
    /// The waiting request gets none: no connection could be opened.
    Fail(W),
    /// Send GOAWAY on this connection, and close it. The book has removed it.
    Close(ConnectionId, Retired),
}

/// Counts for one peer, or for all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Open connections, including those that are leaving.
    pub connections: u32,
    /// Of these, those without a stream.
    pub idle: u32,
    /// Of these, those that accept no further requests.
    pub leaving: u32,
    /// Connections being opened.
    pub opening: u32,
    /// Streams.
    pub streams: u32,
    /// Requests in line.
    pub waiting: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Opening,
    Open,
    /// It accepts no further requests, for this reason.
    Leaving(Retired),
}

#[derive(Debug)]
struct Shared<K> {
    peer: K,
    state: State,
    streams: u32,
    /// Streams that the peer allows; `None` before its settings are known.
    allowed: Option<u32>,
    requests: u32,
    opened: Millis,
    idle_since: Millis,
}

impl<K> Shared<K> {
    /// Most streams at present. More than one before the settings are known could be too many: some servers take that
    /// for an error, and the requests would be lost.
    fn room(&self, limits: &Limits) -> u32 {
        self.allowed.unwrap_or(1).min(limits.streams_max)
    }

    /// Waiting requests that it is expected to take once more is known of it.
    fn expected(&self, limits: &Limits) -> u32 {
        match self.state {
            State::Opening => limits.each(),
            State::Open if self.allowed.is_none() => limits.each().saturating_sub(self.streams),
            State::Open | State::Leaving(_) => 0,
        }
    }
}

#[derive(Debug)]
struct Peer<W> {
    /// In the order in which they were opened.
    connections: Vec<ConnectionId>,
    line: VecDeque<W>,
}

impl<W> Default for Peer<W> {
    fn default() -> Self {
        Self { connections: Vec::new(), line: VecDeque::new() }
    }
}

/// The shared connections of one worker. `K` identifies a peer with everything that its connections may not be shared
/// across (address, TLS, source); `W` is a waiting request.
#[derive(Debug)]
pub struct StreamBook<K, W> {
    peers: FxHashMap<K, Peer<W>>,
    connections: FxHashMap<ConnectionId, Shared<K>>,
    next: u64,
}

impl<K, W> Default for StreamBook<K, W> {
    fn default() -> Self {
        Self { peers: FxHashMap::default(), connections: FxHashMap::default(), next: 0 }
    }
}

impl<K: Copy + Eq + Hash, W: PartialEq> StreamBook<K, W> {
    /// Asks for a stream. Requests that already wait come first.
    pub fn lease(
        &mut self,
        peer: K,
        waiter: W,
        now: Millis,
        limits: &Limits,
        actions: &mut Vec<Action<K, W>>,
    ) -> Grant {
        if self.peers.get(&peer).is_none_or(|known| known.line.is_empty())
            && let Some(lease) = self.take_stream(peer, now, limits)
        {
            return Grant::Lease(lease);
        }
        let known = self.peers.entry(peer).or_default();
        // A request that only waits for its own connection does not count for the line.
        let may_open = (known.connections.len() as u32) < limits.connections_max;
        if known.line.len() as u32 >= limits.line_max && !may_open {
            return Grant::LineFull;
        }
        known.line.push_back(waiter);
        self.open_for_line(peer, now, limits, actions);
        Grant::Waits
    }

    /// Removes a waiting request: its client left, or it timed out.
    pub fn cancel(&mut self, peer: K, waiter: &W) -> bool {
        let Some(known) = self.peers.get_mut(&peer) else { return false };
        let before = known.line.len();
        known.line.retain(|other| other != waiter);
        let is_known = known.line.len() < before;
        self.forget_if_empty(peer);
        is_known
    }

    /// Reports an open connection. The peer's limit is not known yet: call [`Self::settings`] when it is. If no request
    /// waits any more, the connection is idle.
    pub fn opened(&mut self, id: ConnectionId, now: Millis, limits: &Limits, actions: &mut Vec<Action<K, W>>) {
        self.opened_before(id, Earlier { requests: 0, opened: now, allowed: None }, now, limits, actions);
    }

    /// The same for a connection that was already open: idle in the pool.
    pub fn opened_before(
        &mut self,
        id: ConnectionId,
        earlier: Earlier,
        now: Millis,
        limits: &Limits,
        actions: &mut Vec<Action<K, W>>,
    ) {
        let Some(shared) = self.connections.get_mut(&id) else { return };
        (shared.state, shared.opened, shared.idle_since) = (State::Open, earlier.opened, now);
        (shared.requests, shared.allowed) = (earlier.requests, earlier.allowed);
        let peer = shared.peer;
        self.serve_line(peer, now, limits, actions);
        self.trim_idle(peer, limits, actions);
    }

    /// Reports that a connection could not be opened. Requests that no other expected connection can serve fail with it:
    /// the next attempt would give the same result, and the retry policy decides about them.
    pub fn open_failed(&mut self, id: ConnectionId, limits: &Limits, actions: &mut Vec<Action<K, W>>) {
        let Some(shared) = self.forget(id) else { return };
        let peer = shared.peer;
        let carried = usize::try_from(self.expected(peer, limits)).unwrap_or(usize::MAX);
        if let Some(known) = self.peers.get_mut(&peer) {
            let failed = known.line.split_off(carried.min(known.line.len()));
            actions.extend(failed.into_iter().map(Action::Fail));
        }
        self.forget_if_empty(peer);
    }

    /// Applies the peer's settings: the number of concurrent streams. Existing streams beyond it stay.
    pub fn settings(
        &mut self,
        id: ConnectionId,
        allowed: u32,
        now: Millis,
        limits: &Limits,
        actions: &mut Vec<Action<K, W>>,
    ) {
        let Some(shared) = self.connections.get_mut(&id) else { return };
        shared.allowed = Some(allowed);
        let peer = shared.peer;
        self.serve_line(peer, now, limits, actions);
        self.open_for_line(peer, now, limits, actions);
    }

    /// Reports a GOAWAY of the peer: the connection accepts no further requests. Streams that the peer has not
    /// processed end by themselves, with [`crate::retry::Failure::GoneAway`], and are released like all others.
    pub fn go_away(&mut self, id: ConnectionId, now: Millis, limits: &Limits, actions: &mut Vec<Action<K, W>>) {
        self.leave(id, Retired::GoneAway, now, limits, actions);
    }

    /// Reports that a connection is lost, with its streams. Their leases are released as usual, without effect.
    pub fn closed(&mut self, id: ConnectionId, now: Millis, limits: &Limits, actions: &mut Vec<Action<K, W>>) {
        let Some(shared) = self.forget(id) else { return };
        self.open_for_line(shared.peer, now, limits, actions);
        self.forget_if_empty(shared.peer);
    }

    /// Returns the lease of a stream that has ended.
    #[allow(clippy::needless_pass_by_value, reason = "a lease is released once")]
    pub fn release(&mut self, lease: StreamLease, now: Millis, limits: &Limits, actions: &mut Vec<Action<K, W>>) {
        let id = lease.connection;
        let Some(shared) = self.connections.get_mut(&id) else { return };
        shared.streams = shared.streams.saturating_sub(1);
        let peer = shared.peer;
        if shared.streams == 0 {
            shared.idle_since = now;
            if let State::Leaving(reason) = shared.state {
                self.forget(id);
                actions.push(Action::Close(id, reason));
                self.open_for_line(peer, now, limits, actions);
                self.forget_if_empty(peer);
                return;
            }
        }
        self.serve_line(peer, now, limits, actions);
        self.trim_idle(peer, limits, actions);
    }

    /// Closes connections that have been idle for too long, and retires old ones. Returns when to call again at the
    /// latest.
    pub fn tick(&mut self, now: Millis, limits: &Limits, actions: &mut Vec<Action<K, W>>) -> Option<Millis> {
        let mut next: Option<Millis> = None;
        let mut due = Vec::new();
        for (id, shared) in &self.connections {
            if shared.state != State::Open {
                continue;
            }
            let mut ends = vec![(Millis(shared.opened.0.saturating_add(limits.age_ms_max)), Retired::AgeLimit)];
            if shared.streams == 0 {
                ends.push((Millis(shared.idle_since.0.saturating_add(limits.idle_ms_max)), Retired::IdleLimit));
            }
            match ends.iter().find(|(end, _)| *end <= now) {
                Some((_, reason)) => due.push((*id, *reason)),
                None => next = ends.into_iter().map(|(end, _)| end).chain(next).min(),
            }
        }
        due.sort_unstable_by_key(|(id, _)| *id);
        for (id, reason) in due {
            self.leave(id, reason, now, limits, actions);
        }
        next
    }

    /// The requests in line for a peer, the first one first.
    pub fn waiting(&self, peer: K) -> impl Iterator<Item = &W> {
        self.peers.get(&peer).into_iter().flat_map(|known| &known.line)
    }

    /// Counts for one peer.
    pub fn counts(&self, peer: K) -> Counts {
        let mut counts = Counts::default();
        let Some(known) = self.peers.get(&peer) else { return counts };
        counts.waiting = known.line.len() as u32;
        for shared in known.connections.iter().filter_map(|id| self.connections.get(id)) {
            if shared.state == State::Opening {
                counts.opening += 1;
                continue;
            }
            counts.connections += 1;
            counts.streams += shared.streams;
            counts.idle += u32::from(shared.streams == 0);
            counts.leaving += u32::from(shared.state != State::Open);
        }
        counts
    }

    /// Counts for all peers.
    pub fn sums(&self) -> Counts {
        let mut sums = Counts::default();
        for peer in self.peers.keys() {
            let counts = self.counts(*peer);
            sums.connections += counts.connections;
            sums.idle += counts.idle;
            sums.leaving += counts.leaving;
            sums.opening += counts.opening;
            sums.streams += counts.streams;
            sums.waiting += counts.waiting;
        }
        sums
    }

    /// A stream on the fullest connection with room; the oldest of equal ones.
    fn take_stream(&mut self, peer: K, now: Millis, limits: &Limits) -> Option<StreamLease> {
        let known = self.peers.get(&peer)?;
        let has_room = |id: &&ConnectionId| {
            self.connections.get(id).is_some_and(|shared| {
                shared.state == State::Open
                    && shared.streams < shared.room(limits)
                    && now.0.saturating_sub(shared.opened.0) < limits.age_ms_max
            })
        };
        let streams = |id: &&ConnectionId| self.connections.get(id).map_or(0, |shared| shared.streams);
        // `max_by_key` returns the last of equal ones.
        let id = *known.connections.iter().rev().filter(has_room).max_by_key(streams)?;
        let shared = self.connections.get_mut(&id)?;
        let earlier = shared.requests;
        shared.streams += 1;
        shared.requests = shared.requests.saturating_add(1);
        if shared.requests >= limits.requests_max {
            shared.state = State::Leaving(Retired::RequestLimit);
        }
        Some(StreamLease { connection: id, earlier })
    }

    fn serve_line(&mut self, peer: K, now: Millis, limits: &Limits, actions: &mut Vec<Action<K, W>>) {
        while self.peers.get(&peer).is_some_and(|known| !known.line.is_empty()) {
            let Some(lease) = self.take_stream(peer, now, limits) else { break };
            if let Some(waiter) = self.peers.get_mut(&peer).and_then(|known| known.line.pop_front()) {
                actions.push(Action::Serve(waiter, lease));
            }
        }
        self.open_for_line(peer, now, limits, actions);
    }

    /// Waiting requests that connections will take of which more is not known yet.
    fn expected(&self, peer: K, limits: &Limits) -> u64 {
        let Some(known) = self.peers.get(&peer) else { return 0 };
        let shared = known.connections.iter().filter_map(|id| self.connections.get(id));
        shared.map(|shared| u64::from(shared.expected(limits))).sum()
    }

    /// Opens as many connections as the line needs, beyond those already being opened and those whose settings are waited
    /// for.
    fn open_for_line(&mut self, peer: K, now: Millis, limits: &Limits, actions: &mut Vec<Action<K, W>>) {
        let expected = self.expected(peer, limits);
        let Some(known) = self.peers.get_mut(&peer) else { return };
        let each = u64::from(limits.each());
        let mut missing = (known.line.len() as u64).saturating_sub(expected);
        while missing > 0 && (known.connections.len() as u32) < limits.connections_max {
            let id = ConnectionId(self.next);
            self.next += 1;
            known.connections.push(id);
            let shared = Shared {
                peer,
                state: State::Opening,
                streams: 0,
                allowed: None,
                requests: 0,
                opened: now,
                idle_since: now,
            };
            self.connections.insert(id, shared);
            actions.push(Action::Open(peer, id));
            missing = missing.saturating_sub(each);
        }
    }

    /// Stops giving requests to an open connection: it is closed now, or when its last stream has ended.
    fn leave(
        &mut self,
        id: ConnectionId,
        reason: Retired,
        now: Millis,
        limits: &Limits,
        actions: &mut Vec<Action<K, W>>,
    ) {
        let Some(shared) = self.connections.get_mut(&id) else { return };
        let peer = shared.peer;
        if shared.streams > 0 {
            shared.state = State::Leaving(reason);
        } else {
            self.forget(id);
            actions.push(Action::Close(id, reason));
        }
        self.open_for_line(peer, now, limits, actions);
        self.forget_if_empty(peer);
    }

    /// Closes idle connections beyond the limit, the longest idle one first.
    fn trim_idle(&mut self, peer: K, limits: &Limits, actions: &mut Vec<Action<K, W>>) {
        let Some(known) = self.peers.get(&peer) else { return };
        let is_idle = |id: &&ConnectionId| {
            self.connections.get(id).is_some_and(|shared| shared.state == State::Open && shared.streams == 0)
        };
        let idle: Vec<ConnectionId> = known.connections.iter().filter(is_idle).copied().collect();
        if idle.len() as u32 <= limits.idle_max {
            return;
        }
        let since = |id: &ConnectionId| self.connections.get(id).map(|shared| shared.idle_since);
        if let Some(oldest) = idle.into_iter().min_by_key(since) {
            self.forget(oldest);
            actions.push(Action::Close(oldest, Retired::IdleFull));
            self.forget_if_empty(peer);
        }
    }

    fn forget(&mut self, id: ConnectionId) -> Option<Shared<K>> {
        let shared = self.connections.remove(&id)?;
        if let Some(known) = self.peers.get_mut(&shared.peer) {
            known.connections.retain(|other| *other != id);
        }
        Some(shared)
    }

    /// Removes a peer without connections and requests, so that it takes no memory.
    fn forget_if_empty(&mut self, peer: K) {
        if self.peers.get(&peer).is_some_and(|known| known.connections.is_empty() && known.line.is_empty()) {
            self.peers.remove(&peer);
        }
    }
}
