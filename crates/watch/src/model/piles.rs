//! Pile-ups: sockets with bytes in a queue, the largest first, each with a cause from its own `TCP_INFO`. Pure.

use serde::Serialize;
use sockdiag::{Socket, State, Timer};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::SocketAddr;

/// Pile-ups that are kept with their addresses; the sums include all of them.
pub(crate) const PILES_MAX: usize = 256;

/// Why bytes wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Received, but the application does not read it.
    NotRead,
    /// Received by a connection in the accept queue of its listener.
    AcceptQueue,
    /// The peer's window is zero: its application does not read.
    PeerWindowZero,
    /// The peer's window is full: its application, or its buffer, is the limit.
    PeerWindowFull,
    /// Retransmitted without an answer: loss, or a peer that is gone.
    NoAnswer,
    /// The congestion window is full: the path is the limit.
    CongestionWindow,
    /// Sent, and not acknowledged yet.
    InFlight,
    /// May be sent, and will be soon: pacing, small writes, or the moment of the look.
    AboutToBeSent,
    /// Unknown, because only `/proc` was available.
    Unknown,
}

impl Cause {
    /// In the order of the metrics and tables.
    pub const ALL: [Self; 9] = [
        Self::NotRead,
        Self::AcceptQueue,
        Self::PeerWindowZero,
        Self::PeerWindowFull,
        Self::NoAnswer,
        Self::CongestionWindow,
        Self::InFlight,
        Self::AboutToBeSent,
        Self::Unknown,
    ];

    /// The cause in words, for people.
    pub fn words(self) -> &'static str {
        match self {
            Self::NotRead => "application not reading",
            Self::AcceptQueue => "in the accept queue",
            Self::PeerWindowZero => "peer's window zero",
            Self::PeerWindowFull => "peer's window full",
            Self::NoAnswer => "no answer, sent again",
            Self::CongestionWindow => "congestion window full",
            Self::InFlight => "on its way",
            Self::AboutToBeSent => "about to be sent",
            Self::Unknown => "unknown without netlink",
        }
    }

    /// The cause as a metric label.
    pub fn label(self) -> &'static str {
        match self {
            Self::NotRead => "not_read",
            Self::AcceptQueue => "accept_queue",
            Self::PeerWindowZero => "peer_window_zero",
            Self::PeerWindowFull => "peer_window_full",
            Self::NoAnswer => "no_answer",
            Self::CongestionWindow => "congestion_window",
            Self::InFlight => "in_flight",
            Self::AboutToBeSent => "about_to_be_sent",
            Self::Unknown => "unknown",
        }
    }
}

/// One socket with bytes in a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pile {
    /// The local address.
    pub local: SocketAddr,
    /// The remote address.
    pub remote: SocketAddr,
    /// State of the socket.
    pub state: State,
    /// Bytes that the application has not read.
    pub recv: u32,
    /// Bytes that the peer has not acknowledged.
    pub send: u32,
    /// Why they wait.
    pub cause: Cause,
    /// Inode of the socket; 0 without an owner.
    pub inode: u32,
}

/// Pile-ups of one look.
#[derive(Debug, Clone, Default)]
pub(crate) struct Piles {
    /// The largest pile-ups; the smallest of them is on top.
    largest: BinaryHeap<Reverse<(u32, Kept)>>,
    by_cause: [(u64, u64); Cause::ALL.len()],
}

/// Ordered by size only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Kept(Pile);

impl PartialOrd for Kept {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Kept {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.0.local, self.0.remote).cmp(&(other.0.local, other.0.remote))
    }
}

impl Piles {
    pub(crate) fn count(&mut self, socket: &Socket) {
        let Some(pile) = Pile::of(socket) else { return };
        let bytes = pile.recv.max(pile.send);
        if let Some((sockets, sum)) = self.by_cause.get_mut(pile.cause as usize) {
            *sockets += 1;
            *sum += u64::from(bytes);
        }
        if self.largest.len() < PILES_MAX {
            self.largest.push(Reverse((bytes, Kept(pile))));
        } else if self.largest.peek().is_some_and(|Reverse((least, _))| *least < bytes) {
            self.largest.pop();
            self.largest.push(Reverse((bytes, Kept(pile))));
        }
    }

    /// The largest pile-ups, in descending order.
    pub(crate) fn largest(self) -> Vec<Pile> {
        self.largest.into_sorted_vec().into_iter().map(|Reverse((_, Kept(pile)))| pile).collect()
    }

    /// Sockets and bytes by cause.
    pub(crate) fn by_cause(&self) -> impl Iterator<Item = (Cause, u64, u64)> {
        Cause::ALL.into_iter().zip(self.by_cause).map(|(cause, (sockets, bytes))| (cause, sockets, bytes))
    }
}

impl Pile {
    /// `None` if nothing waits. A FIN counts as a byte in either queue (`rcv_nxt` and `write_seq` include it), but is no
    /// data.
    pub fn of(socket: &Socket) -> Option<Self> {
        let peer_closed = matches!(socket.state, State::CloseWait | State::LastAck | State::Closing);
        let we_closed = matches!(socket.state, State::FinWait1 | State::LastAck | State::Closing);
        let recv = socket.recv_queue.saturating_sub(u32::from(peer_closed));
        let send = socket.send_queue.saturating_sub(u32::from(we_closed));
        if matches!(socket.state, State::Listen | State::TimeWait | State::SynSent | State::SynRecv)
            || recv.max(send) == 0
        {
            return None;
        }
        // A socket without an owner is either an orphan, which is past these states, or not accepted yet.
        let is_accepted = socket.inode != 0 || !matches!(socket.state, State::Established | State::CloseWait);
        let cause = match () {
            () if recv < send => cause_of_send_queue(socket, send),
            () if is_accepted => Cause::NotRead,
            () => Cause::AcceptQueue,
        };
        let Socket { local, remote, state, inode, .. } = *socket;
        Some(Self { local, remote, state, recv, send, cause, inode })
    }
}

fn cause_of_send_queue(socket: &Socket, send: u32) -> Cause {
    // A probe timer runs if the window allows nothing to be sent, and nothing in flight would open it.
    let probing = matches!(socket.timer, Timer::Probe(_));
    let Some((tcp, traffic)) = socket.tcp.and_then(|tcp| Some((tcp, tcp.traffic?))) else {
        return if probing { Cause::PeerWindowZero } else { Cause::Unknown };
    };
    if probing || traffic.send_window == 0 {
        return Cause::PeerWindowZero;
    }
    /// `TCP_CA_Loss`: the retransmission timer has fired.
    const LOSS: u8 = 4;
    if socket.retransmits > 0 || tcp.congestion_state == LOSS {
        return Cause::NoAnswer;
    }
    if traffic.not_sent == 0 {
        return Cause::InFlight;
    }
    let in_flight = send.saturating_sub(traffic.not_sent);
    if in_flight.saturating_add(tcp.send_mss) > traffic.send_window {
        return Cause::PeerWindowFull;
    }
    if tcp.unacked >= tcp.congestion_window {
        return Cause::CongestionWindow;
    }
    Cause::AboutToBeSent
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tests::socket;
    use sockdiag::{TcpInfo, Traffic};

    fn queued(state: State, recv: u32, send: u32) -> Socket {
        let mut socket = socket(state, "10.0.0.1:80", "10.0.0.2:40000");
        (socket.recv_queue, socket.send_queue, socket.inode) = (recv, send, 7);
        socket
    }

    fn with_info(unacked: u32, window: u32, not_sent: u32) -> Socket {
        let mut socket = queued(State::Established, 0, 100_000);
        let traffic = Traffic { send_window: window, not_sent, ..Traffic::default() };
        let tcp =
            TcpInfo { unacked, congestion_window: 10, send_mss: 1000, traffic: Some(traffic), ..TcpInfo::default() };
        socket.tcp = Some(tcp);
        socket
    }

    fn cause(socket: &Socket) -> Option<Cause> {
        Pile::of(socket).map(|pile| pile.cause)
    }

    #[test]
    fn each_cause_is_named_by_its_evidence() {
        assert_eq!(cause(&queued(State::Established, 5, 0)), Some(Cause::NotRead));
        assert_eq!(cause(&queued(State::CloseWait, 5, 0)), Some(Cause::NotRead));
        for state in [State::Established, State::CloseWait] {
            assert_eq!(cause(&Socket { inode: 0, ..queued(state, 5, 0) }), Some(Cause::AcceptQueue));
        }
        // An orphan was accepted: its program has closed it.
        assert_eq!(cause(&Socket { inode: 0, ..queued(State::FinWait1, 5, 0) }), Some(Cause::NotRead));
        assert_eq!(cause(&with_info(0, 0, 100_000)), Some(Cause::PeerWindowZero));
        assert_eq!(
            cause(&Socket { timer: Timer::Probe(200), ..with_info(0, 100, 100_000) }),
            Some(Cause::PeerWindowZero)
        );
        assert_eq!(cause(&Socket { retransmits: 3, ..with_info(10, 65_000, 90_000) }), Some(Cause::NoAnswer));
        assert_eq!(cause(&with_info(5, 50_500, 50_000)), Some(Cause::PeerWindowFull));
        assert_eq!(cause(&with_info(10, 200_000, 90_000)), Some(Cause::CongestionWindow));
        assert_eq!(cause(&with_info(9, 200_000, 0)), Some(Cause::InFlight));
        assert_eq!(cause(&with_info(1, 200_000, 99_000)), Some(Cause::AboutToBeSent));
        assert_eq!(cause(&queued(State::Established, 0, 9)), Some(Cause::Unknown));
    }

    #[test]
    fn a_fin_and_an_accept_queue_are_no_bytes() {
        for (state, recv, send) in [
            (State::CloseWait, 1, 0),
            (State::FinWait1, 0, 1),
            (State::LastAck, 1, 1),
            (State::Listen, 9, 511),
            (State::TimeWait, 0, 0),
            (State::SynSent, 0, 1),
        ] {
            assert_eq!(cause(&queued(state, recv, send)), None, "{state}");
        }
    }

    #[test]
    fn the_largest_are_kept_and_all_are_summed() {
        let mut piles = Piles::default();
        for bytes in 1..=1000 {
            piles.count(&queued(State::Established, bytes, 0));
        }
        let (_, sockets, bytes) = piles.by_cause().find(|(cause, ..)| *cause == Cause::NotRead).unwrap();
        assert_eq!((sockets, bytes), (1000, 500_500));
        let largest = piles.largest();
        assert_eq!((largest.len(), largest[0].recv, largest[255].recv), (PILES_MAX, 1000, 745));
    }
}
