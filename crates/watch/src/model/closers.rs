//! Decides for each peer who closed first. Pure: it takes destroy events and censuses, and returns counts.
//!
//! The evidence, strongest first:
//! * After the socket died, TIME_WAIT, or FIN_WAIT2 without an owner, is on its tuple: this side closed first.
//! * The socket was last seen in FIN_WAIT or CLOSING: this side closed first. In CLOSE_WAIT or LAST_ACK: the peer.
//! * It died with its FIN acknowledged, and nothing is on its tuple: the peer closed first, and this side after it. If a
//!   new socket is on the tuple, it may have replaced a TIME_WAIT, so the result is unknown.
//! * It died without an acknowledged FIN: a reset, which leaves no trace of the side that began. Unknown.
//!
//! A socket that resets its own connection (`SO_LINGER` 0) forgets its peer before it dies (`tcp_disconnect()`). Such
//! deaths are unknown, in a separate row. A refused attempt to connect dies in the same way, so the number of failed
//! attempts that the kernel counted is subtracted.
//!
//! Without destroy events only the sockets of a look count: TIME_WAIT by its age, CLOSE_WAIT if it is new.

use sockdiag::{Socket, State, Timer};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

/// Most dead sockets that wait for the next look to be classified. At two seconds an interval this is 65,000 closes a
/// second. An entry takes some 100 bytes, so at most 13 MB. Further ones are counted as unplaced.
const PENDING_MAX: usize = 131_072;
/// Most sockets in a closing state that are remembered until the next look: 6.5 MB at 100 bytes each. Further ones are
/// ignored.
const CLOSING_MAX: usize = 65_536;
/// Most peers with their own row; further ones share a row.
const PEERS_MAX: usize = 4096;
/// `TCP_TIMEWAIT_LEN`, which no setting changes.
const TIME_WAIT_MS: u32 = 60_000;

/// Both ends of a connection, local first.
type Ends = (SocketAddr, SocketAddr);

/// The peer of a connection, and which side opened it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Peer {
    /// This side connected to this address and port.
    To(SocketAddr),
    /// The peer connected to this local port.
    From(IpAddr, u16),
    /// All peers beyond `PEERS_MAX`.
    Others,
    /// Connections that this side reset, so that their sockets forgot the peer.
    Forgotten,
}

/// Closes by the side that began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Closes {
    /// Connections that this side closed first.
    pub this_side: u64,
    /// Connections that the other end closed first.
    pub peer: u64,
    /// Connections for which the side is unknown.
    pub unknown: u64,
}

impl Closes {
    /// All closes.
    pub fn sum(self) -> u64 {
        self.this_side + self.peer + self.unknown
    }
}

/// The conclusion for one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    ThisSide,
    Peer,
    Unknown,
}

/// A dead socket that is not classified yet.
#[derive(Debug, Clone, Copy)]
struct Dead {
    fin_acknowledged: bool,
    /// Whether another socket uses its tuple now.
    taken: bool,
}

/// Counts every close.
#[derive(Debug, Default)]
pub struct Closers {
    pending: HashMap<Ends, Dead>,
    /// Sockets in a closing state at the last look, and at this one.
    closing_before: HashMap<Ends, State>,
    closing: HashMap<Ends, State>,
    peers: HashMap<Peer, Closes>,
    total: Closes,
    /// Dead sockets beyond `PENDING_MAX`.
    unplaced: u64,
    /// Deaths without a peer since the last look, and deaths of failed attempts to connect.
    forgotten: u64,
    refused: u64,
}

impl Closers {
    /// Handles the death of a socket other than a listener. `listening` says which local ports have a listener.
    pub fn died(&mut self, socket: &Socket, listening: impl Fn(u16) -> bool) {
        let accepted = listening(socket.local.port());
        if socket.remote.port() == 0 {
            // Without a local port it was never connected.
            self.forgotten += u64::from(socket.local.port() != 0);
            return;
        }
        if !was_established(socket, accepted) {
            self.refused += 1;
            return;
        }
        let ends = (socket.local, socket.remote);
        let dead = Dead { fin_acknowledged: fin_acknowledged(socket, accepted), taken: false };
        if self.pending.len() >= PENDING_MAX && !self.pending.contains_key(&ends) {
            self.unplaced += 1;
            return;
        }
        if self.pending.insert(ends, dead).is_some() {
            // The tuple died twice since the last look, and the first death left no evidence.
            self.settle(ends, Verdict::Unknown, accepted);
        }
    }

    /// Handles a socket of a look. `elapsed_ms` is the time since the last look; it is set only without destroy events,
    /// when the sockets of the look are the only evidence.
    pub fn seen(&mut self, socket: &Socket, elapsed_ms: Option<u32>, listening: impl Fn(u16) -> bool) {
        let ends = (socket.local, socket.remote);
        let accepted = || listening(socket.local.port());
        let is_remnant = socket.state == State::TimeWait || socket.state == State::FinWait2 && socket.inode == 0;
        if is_remnant {
            let is_new = elapsed_ms.is_some_and(|elapsed| is_new_time_wait(socket, elapsed));
            if self.pending.remove(&ends).is_some() || is_new {
                self.settle(ends, Verdict::ThisSide, accepted());
            }
            return;
        }
        if let Some(dead) = self.pending.get_mut(&ends) {
            dead.taken = true;
        }
        if !matches!(
            socket.state,
            State::FinWait1 | State::FinWait2 | State::Closing | State::CloseWait | State::LastAck
        ) {
            return;
        }
        let by_peer = matches!(socket.state, State::CloseWait | State::LastAck);
        if elapsed_ms.is_some_and(|elapsed| elapsed > 0) && by_peer && !self.closing_before.contains_key(&ends) {
            self.settle(ends, Verdict::Peer, accepted());
        }
        if self.closing.len() < CLOSING_MAX {
            self.closing.insert(ends, socket.state);
        }
    }

    /// Ends a look: classifies the pending sockets by the weaker evidence. `attempts_failed` is the kernel's count of
    /// failed attempts to connect since the last look.
    pub fn look_ends(&mut self, attempts_failed: u64, listening: impl Fn(u16) -> bool) {
        let refused_and_forgotten = attempts_failed.saturating_sub(std::mem::take(&mut self.refused));
        let resets = std::mem::take(&mut self.forgotten).saturating_sub(refused_and_forgotten);
        if resets > 0 {
            self.peers.entry(Peer::Forgotten).or_default().unknown += resets;
            self.total.unknown += resets;
        }
        for (ends, dead) in std::mem::take(&mut self.pending) {
            let verdict = match self.closing_before.get(&ends) {
                Some(State::FinWait1 | State::FinWait2 | State::Closing) => Verdict::ThisSide,
                Some(State::CloseWait | State::LastAck) => Verdict::Peer,
                _ if dead.fin_acknowledged && !dead.taken => Verdict::Peer,
                _ => Verdict::Unknown,
            };
            self.settle(ends, verdict, listening(ends.0.port()));
        }
        self.closing_before = std::mem::take(&mut self.closing);
    }

    fn settle(&mut self, (local, remote): Ends, verdict: Verdict, accepted: bool) {
        let peer = if accepted { Peer::From(remote.ip(), local.port()) } else { Peer::To(remote) };
        let full = self.peers.len() >= PEERS_MAX && !self.peers.contains_key(&peer);
        let row = self.peers.entry(if full { Peer::Others } else { peer }).or_default();
        for closes in [row, &mut self.total] {
            match verdict {
                Verdict::ThisSide => closes.this_side += 1,
                Verdict::Peer => closes.peer += 1,
                Verdict::Unknown => closes.unknown += 1,
            }
        }
    }

    /// The sum since the watch began.
    pub fn total(&self) -> Closes {
        self.total
    }

    /// Dead sockets that were too many to be classified.
    pub(crate) fn unplaced(&self) -> u64 {
        self.unplaced
    }

    /// The counts of each peer, those with the most closes first.
    pub(crate) fn rows(&self) -> Vec<(Peer, Closes)> {
        let mut rows: Vec<_> = self.peers.iter().map(|(peer, closes)| (*peer, *closes)).collect();
        rows.sort_by_key(|(peer, closes)| (std::cmp::Reverse(closes.sum()), *peer));
        rows
    }
}

/// Whether the handshake was complete. An accepted socket exists only after that; a connecting socket has its SYN
/// acknowledged.
fn was_established(socket: &Socket, accepted: bool) -> bool {
    let traffic = socket.tcp.and_then(|tcp| tcp.traffic);
    accepted || traffic.is_none_or(|traffic| traffic.bytes_acked > 0)
}

/// `bytes_acked` counts sequence numbers: the data, one for the FIN, and on the connecting side one for the SYN.
fn fin_acknowledged(socket: &Socket, accepted: bool) -> bool {
    let Some(traffic) = socket.tcp.and_then(|tcp| tcp.traffic) else { return false };
    let data = traffic.bytes_sent.saturating_sub(traffic.bytes_retrans);
    traffic.bytes_acked == data + u64::from(!accepted) + 1
}

/// Whether a TIME_WAIT began within this time. FIN_WAIT2 becomes TIME_WAIT when the peer closes, and counts then.
fn is_new_time_wait(socket: &Socket, elapsed_ms: u32) -> bool {
    let Timer::TimeWait(left_ms) = socket.timer else { return false };
    socket.state == State::TimeWait && TIME_WAIT_MS.saturating_sub(left_ms) < elapsed_ms
}

#[cfg(test)]
#[path = "closers_tests.rs"]
mod tests;
