//! The sockets of a running server, summed for the rules: queues of its listeners, ports in use towards each
//! destination, sockets that only the peer has closed, unread bytes. It keeps only sums, so that a million sockets cost
//! little. Counting is pure; [`look`] reads the kernel.

mod look;

pub use look::look;

use sockdiag::{Settings, Socket, State};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};

/// Most destinations listed besides those in the configuration. A server with more is a forward proxy, for which these
/// are representative. Sockets towards further ones are only counted.
const DESTINATIONS_MAX: usize = 4096;
/// Most listeners listed; further ones are only counted.
const LISTENERS_MAX: usize = 1024;

/// The result of one reading.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Live {
    /// The source of the data, and the processes.
    pub source: String,
    /// The server's listeners.
    pub listeners: Vec<Listener>,
    /// The destinations of its connections, those with the most used ports first.
    pub destinations: Vec<Destination>,
    /// Number of ports that `connect()` chooses from.
    pub ports: Option<u64>,
    /// Its processes, with used and allowed descriptors.
    pub processes: Vec<Process>,
    /// Its sockets in each state. TIME_WAIT is counted for the whole namespace, because no process holds those sockets.
    pub states: BTreeMap<State, u64>,
    /// Sockets with bytes that the server has not read.
    pub unread: Pile,
    /// Sockets with bytes that the peer has not acknowledged.
    pub unsent: Pile,
    /// Number of sockets of further listeners and destinations, which are not listed.
    pub unshown: u64,
    /// Connections that its namespace dropped because of full accept queues, since the namespace exists.
    pub listen_overflows: Option<u64>,
    /// Connections that got no TIME_WAIT because all buckets were used, since the namespace exists.
    pub time_wait_overflows: Option<u64>,
}

/// A listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listener {
    /// Its address.
    pub address: SocketAddr,
    /// Connections waiting for `accept()`.
    pub queue: u64,
    /// The backlog that the kernel granted; a queue of n holds n + 1.
    pub granted: Option<u64>,
    /// Connections dropped since it was opened.
    pub drops: u64,
}

/// Local address, remote address and port. `connect()` chooses a port for this combination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Destination {
    /// The local address.
    pub local: IpAddr,
    /// The remote address and port.
    pub remote: SocketAddr,
    /// Open connections.
    pub established: u64,
    /// Closed by this side first.
    pub time_wait: u64,
    /// Closed by the peer, and not by this side.
    pub close_wait: u64,
    /// Waiting for the answer to `connect()`.
    pub connecting: u64,
    /// In any other state.
    pub others: u64,
}

impl Destination {
    /// Ports that are not available for this destination.
    pub fn used(&self) -> u64 {
        self.established + self.time_wait + self.close_wait + self.connecting + self.others
    }

    /// The sentence for the evidence.
    pub fn sentence(&self) -> String {
        format!(
            "sockets now, {} -> {}: {} ESTABLISHED, {} TIME_WAIT, {} CLOSE_WAIT, {} connecting",
            self.local, self.remote, self.established, self.time_wait, self.close_wait, self.connecting
        )
    }
}

/// A process of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// Descriptors in use.
    pub used: u64,
    /// Its soft limit.
    pub limit: Option<u64>,
    /// Its hard limit, up to which it may raise the soft one itself.
    pub hard_limit: Option<u64>,
}

/// Sockets with bytes in a queue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pile {
    /// Number of sockets with more than a page in the queue.
    pub sockets: u64,
    /// Bytes in the queues of these.
    pub bytes: u64,
    /// The fullest one: local and remote address, and its bytes.
    pub worst: Option<(SocketAddr, SocketAddr, u64)>,
}

impl Pile {
    /// Every busy connection has less than a page for a moment.
    const BYTES_MIN: u64 = 4096;

    fn count(&mut self, socket: &Socket, bytes: u64) {
        if bytes <= Self::BYTES_MIN {
            return;
        }
        self.sockets += 1;
        self.bytes += bytes;
        if self.worst.is_none_or(|(_, _, most)| bytes > most) {
            self.worst = Some((socket.local, socket.remote, bytes));
        }
    }
}

impl Live {
    /// The sum of the destinations at that address, if any; the local address is that of the busiest.
    pub fn towards(&self, peer: SocketAddr) -> Option<Destination> {
        let mut all = self.destinations.iter().filter(|destination| destination.remote == peer);
        let first = *all.next()?;
        Some(all.fold(first, |sum, next| Destination {
            established: sum.established + next.established,
            time_wait: sum.time_wait + next.time_wait,
            close_wait: sum.close_wait + next.close_wait,
            connecting: sum.connecting + next.connecting,
            others: sum.others + next.others,
            ..sum
        }))
    }

    /// Number of its sockets in that state.
    pub fn in_state(&self, state: State) -> u64 {
        self.states.get(&state).copied().unwrap_or(0)
    }

    /// The listener at the address, or the one on all addresses of the port.
    pub fn listener(&self, port: u16, address: Option<IpAddr>) -> Option<&Listener> {
        self.listeners.iter().find(|listener| {
            let here = listener.address;
            here.port() == port && (address.is_none() || address == Some(here.ip()) || here.ip().is_unspecified())
        })
    }
}

/// Counts sockets one by one.
#[derive(Debug)]
struct Tally<'a> {
    live: Live,
    destinations: HashMap<(IpAddr, SocketAddr), Destination>,
    /// TIME_WAIT sockets towards other addresses. A destination is the server's if the server holds another socket
    /// towards it. They are kept separate, so that those of other programs never take the place of the server's; also
    /// at most [`DESTINATIONS_MAX`].
    strays: HashMap<(IpAddr, SocketAddr), u64>,
    look: Look<'a>,
}

/// Settings known before the sockets are read.
#[derive(Debug, Clone, Copy)]
struct Look<'a> {
    settings: &'a Settings,
    /// Listening ports: connections there were accepted, even if the port is in the range.
    listening: &'a HashSet<u16>,
    /// Addresses in the configuration. TIME_WAIT towards them counts even if no socket is open towards them now.
    peers: &'a [SocketAddr],
    /// Whether the sockets come from `/proc`, which does not have the granted backlogs.
    from_proc: bool,
}

impl<'a> Tally<'a> {
    fn new(look: Look<'a>) -> Self {
        Self { live: Live::default(), destinations: HashMap::new(), strays: HashMap::new(), look }
    }

    /// `is_ours`: whether a process of the server holds it.
    fn count(&mut self, socket: &Socket, is_ours: bool) {
        let waits = socket.state == State::TimeWait;
        if !is_ours && !waits {
            return;
        }
        *self.live.states.entry(socket.state).or_default() += 1;
        if socket.state == State::Listen {
            if self.live.listeners.len() >= LISTENERS_MAX {
                self.live.unshown += 1;
                return;
            }
            self.live.listeners.push(Listener {
                address: socket.local,
                queue: u64::from(socket.recv_queue),
                granted: (!self.look.from_proc).then(|| u64::from(socket.send_queue)),
                drops: socket.memory.map_or(0, |memory| u64::from(memory.drops)),
            });
            return;
        }
        if is_ours {
            self.live.unread.count(socket, u64::from(socket.recv_queue));
            self.live.unsent.count(socket, u64::from(socket.send_queue));
        }
        let port = socket.local.port();
        let settings = self.look.settings;
        // If the range is unknown, every port without a listener counts as chosen by `connect()`.
        let is_chosen = settings.port_range.is_none() || settings.is_ephemeral(port);
        if socket.remote.port() == 0 || !is_chosen || self.look.listening.contains(&port) {
            return;
        }
        let key = (socket.local.ip(), socket.remote);
        let is_named = self.look.peers.contains(&socket.remote);
        if !is_ours && !is_named {
            if self.strays.len() < DESTINATIONS_MAX || self.strays.contains_key(&key) {
                *self.strays.entry(key).or_default() += 1;
            }
            return;
        }
        if !is_named && self.destinations.len() >= DESTINATIONS_MAX && !self.destinations.contains_key(&key) {
            self.live.unshown += 1;
            return;
        }
        let nothing = || Destination {
            local: key.0,
            remote: key.1,
            established: 0,
            time_wait: 0,
            close_wait: 0,
            connecting: 0,
            others: 0,
        };
        let destination = self.destinations.entry(key).or_insert_with(nothing);
        *match socket.state {
            State::Established => &mut destination.established,
            State::TimeWait => &mut destination.time_wait,
            State::CloseWait => &mut destination.close_wait,
            State::SynSent => &mut destination.connecting,
            _ => &mut destination.others,
        } += 1;
    }

    fn finish(self) -> Live {
        let Self { mut live, mut destinations, strays, look } = self;
        for (key, destination) in &mut destinations {
            destination.time_wait += strays.get(key).copied().unwrap_or(0);
        }
        live.destinations = destinations.into_values().collect();
        live.destinations
            .sort_by_key(|destination| (std::cmp::Reverse(destination.used()), destination.remote, destination.local));
        live.listeners.sort_by_key(|listener| listener.address);
        live.listeners.dedup_by_key(|listener| listener.address);
        live.ports = look.settings.ports_usable().map(u64::from);
        live
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sockdiag::Timer;

    fn socket(state: State, local: &str, remote: &str, recv_queue: u32) -> Socket {
        let mut socket = Socket::between(local.parse().expect("an address"), remote.parse().expect("an address"));
        socket.state = state;
        socket.recv_queue = recv_queue;
        assert_eq!(socket.timer, Timer::Off);
        socket
    }

    #[test]
    fn sockets_are_summed_by_their_role() {
        let settings = Settings { port_range: Some(40_000..=40_999), ..Settings::default() };
        let listening = HashSet::from([8080]);
        let look = Look { settings: &settings, listening: &listening, peers: &[], from_proc: false };
        let mut tally = Tally::new(look);
        let peer = "10.0.0.9:3000";
        tally.count(&socket(State::Established, "10.0.0.1:40001", peer, 9000), true);
        tally.count(&socket(State::CloseWait, "10.0.0.1:40002", peer, 0), true);
        tally.count(&socket(State::TimeWait, "10.0.0.1:40003", peer, 0), false);
        tally.count(&socket(State::Established, "10.0.0.1:40004", peer, 0), false);
        tally.count(&socket(State::Established, "10.0.0.1:8080", "10.0.0.2:5", 0), true);
        tally.count(&socket(State::TimeWait, "10.0.0.1:40005", "10.0.0.7:1", 0), false);
        tally.count(&socket(State::Listen, "0.0.0.0:8080", "0.0.0.0:0", 3), true);
        let live = tally.finish();
        let seen = live.towards(peer.parse().expect("an address")).expect("seen");
        assert_eq!((seen.established, seen.close_wait, seen.time_wait, seen.used()), (1, 1, 1, 3));
        assert_eq!(live.destinations.len(), 1, "no process here holds a connection to the other");
        assert_eq!((live.unread.sockets, live.unread.bytes), (1, 9000));
        assert_eq!(live.listener(8080, None).map(|listener| listener.queue), Some(3));
        assert_eq!((live.ports, live.in_state(State::TimeWait), live.unshown), (Some(1000), 2, 0));
    }

    #[test]
    fn counts_configured_peers_beside_many_destinations() {
        let settings = Settings { port_range: Some(40_000..=40_999), ..Settings::default() };
        let (listening, peer) = (HashSet::new(), "10.255.0.1:3000");
        let peers = [peer.parse().expect("an address")];
        let mut tally = Tally::new(Look { settings: &settings, listening: &listening, peers: &peers, from_proc: true });
        // A scan from this host that has left only TIME_WAIT, and a server that connects to many hosts.
        for host in 0..5000_u32 {
            let remote = format!("10.{}.{}.1:80", host >> 8, host & 255);
            tally.count(&socket(State::TimeWait, "10.0.0.1:40000", &remote, 0), false);
        }
        tally.count(&socket(State::TimeWait, "10.0.0.1:40001", peer, 0), false);
        tally.count(&socket(State::Established, "10.0.0.1:40001", "10.254.0.1:80", 0), true);
        for port in 1..=LISTENERS_MAX + 3 {
            tally.count(&socket(State::Listen, &format!("0.0.0.0:{port}"), "0.0.0.0:0", 0), true);
        }
        let live = tally.finish();
        assert_eq!(live.towards(peers[0]).map(|seen| seen.time_wait), Some(1));
        let towards = |address: &str| live.towards(address.parse().expect("an address"));
        assert!(towards("10.254.0.1:80").is_some(), "what others have left takes no place of what is held");
        assert_eq!((live.destinations.len(), live.unshown), (2, 3), "three listeners");
        assert_eq!(live.listeners.first().map(|listener| listener.granted), Some(None), "/proc does not tell");
    }
}
