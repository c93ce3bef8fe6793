//! One TCP socket as the kernel describes it, and the words for its states. Types only; `netlink` and `proc_net` fill them.

use std::fmt;
use std::net::SocketAddr;

/// TCP states by the kernel's numbers (`include/net/tcp_states.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum State {
    /// Open at both ends, as far as this end knows.
    Established = 1,
    /// `connect()` waits for an answer.
    SynSent = 2,
    /// A SYN was answered; the third segment has not come.
    SynRecv = 3,
    /// This side closed first; its FIN is not acknowledged.
    FinWait1 = 4,
    /// This side closed first; its FIN is acknowledged, the peer's has not come.
    FinWait2 = 5,
    /// This side closed first, and both are done; the kernel keeps the tuple for 60 s.
    TimeWait = 6,
    /// Closed, or never connected.
    Close = 7,
    /// The peer closed first; the application has not closed yet.
    CloseWait = 8,
    /// The peer closed first; this side's FIN is not acknowledged.
    LastAck = 9,
    /// A listener.
    Listen = 10,
    /// Both closed at the same time.
    Closing = 11,
}

impl State {
    /// All, by number.
    pub const ALL: [Self; 11] = [
        Self::Established,
        Self::SynSent,
        Self::SynRecv,
        Self::FinWait1,
        Self::FinWait2,
        Self::TimeWait,
        Self::Close,
        Self::CloseWait,
        Self::LastAck,
        Self::Listen,
        Self::Closing,
    ];

    /// From the kernel's number. `NEW_SYN_RECV` (12) is what the kernel calls a half-open connection inside.
    pub fn from_number(number: u8) -> Option<Self> {
        if number == 12 {
            return Some(Self::SynRecv);
        }
        Self::ALL.get(usize::from(number).checked_sub(1)?).copied()
    }

    /// The state's place in [`State::ALL`].
    pub fn index(self) -> usize {
        self as usize - 1
    }

    /// As netstat writes it: `TIME_WAIT`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Established => "ESTABLISHED",
            Self::SynSent => "SYN_SENT",
            Self::SynRecv => "SYN_RECV",
            Self::FinWait1 => "FIN_WAIT1",
            Self::FinWait2 => "FIN_WAIT2",
            Self::TimeWait => "TIME_WAIT",
            Self::Close => "CLOSE",
            Self::CloseWait => "CLOSE_WAIT",
            Self::LastAck => "LAST_ACK",
            Self::Listen => "LISTEN",
            Self::Closing => "CLOSING",
        }
    }

    /// From netstat's name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A set of states, as the kernel's bit mask: bit *n* for state number *n*.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateSet(u32);

impl StateSet {
    /// Every state.
    pub const ALL: Self = Self(0xffe);
    /// No state.
    pub const NONE: Self = Self(0);

    /// These states.
    pub fn of(states: &[State]) -> Self {
        states.iter().fold(Self::NONE, |set, state| set.with(*state))
    }

    /// This set and one more.
    #[must_use]
    pub fn with(self, state: State) -> Self {
        Self(self.0 | 1 << state as u32)
    }

    /// Whether the set has it.
    pub fn contains(self, state: State) -> bool {
        self.0 & 1 << state as u32 != 0
    }

    /// What either set has.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// What this set has and the other has not.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// What both sets have.
    #[must_use]
    pub fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The mask of `inet_diag_req_v2.idiag_states`.
    pub(crate) fn bits(self) -> u32 {
        self.0
    }
}

/// One socket.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Socket {
    /// Its state.
    pub state: State,
    /// Whether it is an `AF_INET6` socket. An IPv4 peer of such a socket is shown as IPv4 all the same.
    pub v6_socket: bool,
    /// Where it is bound.
    pub local: SocketAddr,
    /// The remote address; port 0 without a peer.
    pub remote: SocketAddr,
    /// Index of the interface it is bound to; 0 for none.
    pub interface: u32,
    /// The kernel's number for this socket, never used again; 0 where unknown.
    pub cookie: u64,
    /// What it waits for by time.
    pub timer: Timer,
    /// Retransmissions without an answer so far.
    pub retransmits: u8,
    /// Bytes that the application has not read. For a listener: connections waiting for `accept()`.
    pub recv_queue: u32,
    /// Bytes that the peer has not acknowledged. For a listener: the backlog that the kernel granted.
    pub send_queue: u32,
    /// The owner's user id; 0 for TIME_WAIT, which has no owner.
    pub uid: u32,
    /// The inode of the descriptor; 0 where no process has one, as in TIME_WAIT or before `accept()`.
    pub inode: u32,
    /// Inode of its control group's directory (version 2), where the kernel tells.
    pub cgroup: Option<u64>,
    /// Kernel memory, if it was asked for.
    pub memory: Option<Memory>,
    /// The `TCP_INFO`, if it was asked for and the state has one.
    pub tcp: Option<TcpInfo>,
}

impl Socket {
    /// An established connection between two addresses of which nothing else is known: the rest is for the caller to fill.
    pub fn between(local: SocketAddr, remote: SocketAddr) -> Self {
        Self {
            state: State::Established,
            v6_socket: local.is_ipv6(),
            local,
            remote,
            interface: 0,
            cookie: 0,
            timer: Timer::Off,
            retransmits: 0,
            recv_queue: 0,
            send_queue: 0,
            uid: 0,
            inode: 0,
            cgroup: None,
            memory: None,
            tcp: None,
        }
    }
}

/// `idiag_timer` and `idiag_expires`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timer {
    /// None runs.
    Off,
    /// Retransmission, in milliseconds from now.
    Retransmit(u32),
    /// `so_keepalive` or FIN_WAIT2, in milliseconds from now.
    Keepalive(u32),
    /// The end of TIME_WAIT, in milliseconds from now.
    TimeWait(u32),
    /// A zero-window probe, in milliseconds from now: the peer's window is closed.
    Probe(u32),
}

impl Timer {
    pub(crate) fn from_wire(kind: u8, expires_ms: u32) -> Self {
        match kind {
            1 => Self::Retransmit(expires_ms),
            2 => Self::Keepalive(expires_ms),
            3 => Self::TimeWait(expires_ms),
            4 => Self::Probe(expires_ms),
            _ => Self::Off,
        }
    }
}

/// `INET_DIAG_SKMEMINFO` (`enum sk_meminfo` in `include/uapi/linux/sock_diag.h`), in bytes but for the drops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Allocated for what was received.
    pub recv_allocated: u32,
    /// The receive buffer's limit.
    pub recv_limit: u32,
    /// Allocated for what was given to the network layer.
    pub send_allocated: u32,
    /// The send buffer's limit.
    pub send_limit: u32,
    /// Charged beforehand.
    pub forward: u32,
    /// Queued for sending.
    pub send_queued: u32,
    /// Options.
    pub options: u32,
    /// Segments waiting in the backlog of a locked socket.
    pub backlog: u32,
    /// Segments dropped.
    pub drops: u32,
}

/// The part of `struct tcp_info` that every kernel since 2.6 has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TcpInfo {
    /// Congestion state: 0 open, 1 disorder, 2 CWR, 3 recovery, 4 loss.
    pub congestion_state: u8,
    /// Zero-window or keepalive probes without an answer.
    pub probes: u8,
    /// Doublings of the timer.
    pub backoff: u8,
    /// Retransmission timeout in microseconds.
    pub rto_us: u32,
    /// Largest segment sent, in bytes.
    pub send_mss: u32,
    /// Segments in flight. For a listener: the accept queue.
    pub unacked: u32,
    /// Segments lost.
    pub lost: u32,
    /// Segments being sent again.
    pub retrans: u32,
    /// Smoothed round-trip time in microseconds.
    pub rtt_us: u32,
    /// Congestion window in segments.
    pub congestion_window: u32,
    /// Since data was last sent, in milliseconds.
    pub last_data_sent_ms: u32,
    /// Since data was last received, in milliseconds.
    pub last_data_received_ms: u32,
    /// Segments sent again since the connection began.
    pub retrans_total: u32,
    /// What later kernels tell.
    pub traffic: Option<Traffic>,
}

/// The part of `struct tcp_info` that came until Linux 5.4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    /// Sequence numbers acknowledged by the peer: its data bytes, and one each for an acknowledged SYN (of the side that
    /// opened) and FIN.
    pub bytes_acked: u64,
    /// Sequence numbers received in order: data bytes, and one for the peer's FIN.
    pub bytes_received: u64,
    /// Segments sent.
    pub segments_out: u32,
    /// Segments received.
    pub segments_in: u32,
    /// Bytes in the send queue that were not sent yet.
    pub not_sent: u32,
    /// Segments with data received.
    pub data_segments_in: u32,
    /// Segments with data sent.
    pub data_segments_out: u32,
    /// Time with something to send, in microseconds.
    pub busy_us: u64,
    /// Of that: limited by the peer's window.
    pub window_limited_us: u64,
    /// Of that: limited by the send buffer.
    pub buffer_limited_us: u64,
    /// Data bytes sent, those sent again included.
    pub bytes_sent: u64,
    /// Data bytes sent again.
    pub bytes_retrans: u64,
    /// The peer's window in bytes.
    pub send_window: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_have_the_kernel_s_numbers_and_netstat_s_names() {
        for state in State::ALL {
            assert_eq!(State::from_number(state as u8), Some(state));
            assert_eq!(State::from_name(state.name()), Some(state));
            assert_eq!(State::ALL.get(state.index()), Some(&state));
            assert!(StateSet::ALL.contains(state));
        }
        assert_eq!(State::from_number(12), Some(State::SynRecv));
        assert_eq!((State::from_number(0), State::from_number(13)), (None, None));
        assert_eq!(StateSet::of(&[State::Established, State::Listen]).bits(), 1 << 1 | 1 << 10);
    }
}
