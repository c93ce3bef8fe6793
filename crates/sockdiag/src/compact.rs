//! A socket in as few bytes as its identity and queues need, for callers that keep all of them.

use crate::{Socket, State};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// 56 bytes of a [`Socket`]: its addresses, its state and its queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compact {
    /// The kernel's number for this socket.
    pub cookie: u64,
    local: [u8; 16],
    remote: [u8; 16],
    local_port: u16,
    remote_port: u16,
    /// As in [`Socket`].
    pub inode: u32,
    /// As in [`Socket`], but at most 16 MiB: what is piled up beyond that is piled up.
    queues: [u8; 6],
    state: State,
}

const QUEUE_MAX: u32 = 0x00ff_ffff;

impl Compact {
    /// Keeps what fits.
    pub fn of(socket: &Socket) -> Self {
        let [_, r2, r1, r0] = socket.recv_queue.min(QUEUE_MAX).to_be_bytes();
        let [_, s2, s1, s0] = socket.send_queue.min(QUEUE_MAX).to_be_bytes();
        Self {
            cookie: socket.cookie,
            local: octets(socket.local),
            remote: octets(socket.remote),
            local_port: socket.local.port(),
            remote_port: socket.remote.port(),
            inode: socket.inode,
            queues: [r2, r1, r0, s2, s1, s0],
            state: socket.state,
        }
    }

    /// Where it is bound.
    pub fn local(&self) -> SocketAddr {
        SocketAddr::new(address(self.local), self.local_port)
    }

    /// The remote address.
    pub fn remote(&self) -> SocketAddr {
        SocketAddr::new(address(self.remote), self.remote_port)
    }

    /// Its state.
    pub fn state(&self) -> State {
        self.state
    }

    /// Receive and send queue, at most 16 MiB each.
    pub fn queues(&self) -> (u32, u32) {
        let [r2, r1, r0, s2, s1, s0] = self.queues;
        (u32::from_be_bytes([0, r2, r1, r0]), u32::from_be_bytes([0, s2, s1, s0]))
    }
}

fn octets(address: SocketAddr) -> [u8; 16] {
    match address.ip() {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

fn address(octets: [u8; 16]) -> IpAddr {
    IpAddr::V6(Ipv6Addr::from(octets)).to_canonical()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Timer;

    #[test]
    fn a_million_sockets_fit_in_64_mb() {
        assert_eq!(size_of::<Compact>(), 56);
        let socket = Socket {
            state: State::CloseWait,
            v6_socket: true,
            local: "10.0.0.1:80".parse().unwrap(),
            remote: "[2001:db8::1]:4711".parse().unwrap(),
            interface: 0,
            cookie: 77,
            timer: Timer::Off,
            retransmits: 0,
            recv_queue: 70_000,
            send_queue: u32::MAX,
            uid: 0,
            inode: 9,
            cgroup: None,
            memory: None,
            tcp: None,
        };
        let compact = Compact::of(&socket);
        assert_eq!((compact.local(), compact.remote()), (socket.local, socket.remote));
        assert_eq!((compact.state(), compact.inode, compact.cookie), (State::CloseWait, 9, 77));
        assert_eq!(compact.queues(), (70_000, QUEUE_MAX));
    }
}
