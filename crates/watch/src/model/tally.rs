//! Sockets by TCP state, for all sockets and for chosen ports: the histogram that the founding reports made with
//! netstat and awk.

use sockdiag::{Socket, State};

/// Most ports in one log: each costs a line per state and sample.
pub(crate) const PORTS_MAX: usize = 64;

/// Counts by state, in the order of [`State::ALL`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StateCounts([u64; State::ALL.len()]);

impl StateCounts {
    /// Adds sockets in a state.
    pub fn add(&mut self, state: State, sockets: u64) {
        if let Some(count) = self.0.get_mut(state.index()) {
            *count += sockets;
        }
    }

    /// Number of sockets in a state.
    pub fn of(&self, state: State) -> u64 {
        self.0.get(state.index()).copied().unwrap_or(0)
    }

    /// Number of connections, without listeners.
    pub(crate) fn connections(&self) -> u64 {
        self.0.iter().sum::<u64>() - self.of(State::Listen)
    }

    /// The states that occur, in the kernel's order.
    pub fn present(&self) -> impl Iterator<Item = (State, u64)> {
        State::ALL.into_iter().zip(self.0).filter(|(_, count)| *count > 0)
    }
}

/// One look at all sockets.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Tally {
    pub(crate) all: StateCounts,
    /// Sockets with this port at either end.
    pub(crate) ports: Vec<(u16, StateCounts)>,
}

impl Tally {
    pub(crate) fn of_ports(ports: &[u16]) -> Self {
        let ports = ports.iter().take(PORTS_MAX).map(|port| (*port, StateCounts::default())).collect();
        Self { all: StateCounts::default(), ports }
    }

    pub(crate) fn count(&mut self, socket: &Socket) {
        self.all.add(socket.state, 1);
        for (port, histogram) in &mut self.ports {
            if socket.local.port() == *port || socket.remote.port() == *port {
                histogram.add(socket.state, 1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tests::socket;

    #[test]
    fn sockets_are_counted_by_state_and_port() {
        let mut tally = Tally::of_ports(&[80, 10_000]);
        for socket in [
            socket(State::Listen, "0.0.0.0:80", "0.0.0.0:0"),
            socket(State::Established, "10.0.0.1:80", "10.0.0.9:40000"),
            socket(State::TimeWait, "10.0.0.1:40001", "10.0.0.2:10000"),
            socket(State::TimeWait, "10.0.0.1:40002", "10.0.0.2:10000"),
            socket(State::TimeWait, "10.0.0.1:8080", "10.0.0.2:50000"),
        ] {
            tally.count(&socket);
        }
        assert_eq!(
            tally.all.present().collect::<Vec<_>>(),
            [(State::Established, 1), (State::TimeWait, 3), (State::Listen, 1)]
        );
        assert_eq!(tally.all.connections(), 4);
        let of = |port| tally.ports.iter().find(|(listed, _)| *listed == port).unwrap().1;
        assert_eq!((of(80).connections(), of(80).of(State::Listen)), (1, 1));
        assert_eq!(of(10_000).of(State::TimeWait), 2);
    }
}
