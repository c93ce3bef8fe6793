//! Destinations: how many local ports the connections to one address and port use, and when no port will be left. Pure.
//!
//! `connect()` chooses a port for each combination of local address, remote address and remote port. So the ports run out
//! per destination, not for the whole machine.

use sockdiag::{Settings, Socket, State, Timer};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

/// Most combinations with their own entry. Further ones are counted but not shown, so that a scan of the network costs
/// nothing.
const DESTINATIONS_MAX: usize = 4096;

/// The addresses for which `connect()` chooses a port.
type Pair = (IpAddr, SocketAddr);

/// Sockets towards one destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Held {
    used: u32,
    time_wait: u32,
    connecting: u32,
    unanswered: u32,
    retransmitting: u32,
}

/// The counts of one look.
#[derive(Debug, Default)]
pub struct Destinations {
    held: HashMap<Pair, Held>,
    unshown: u64,
}

/// One destination.
#[derive(Debug, Clone, PartialEq)]
pub struct Destination {
    /// The address that connections come from.
    pub local: IpAddr,
    /// Where they go.
    pub remote: SocketAddr,
    /// Ports in use, without those in TIME_WAIT.
    pub used: u32,
    /// Ports in TIME_WAIT.
    pub time_wait: u32,
    /// Sockets in SYN_SENT, which are among those in use.
    pub connecting: u32,
    /// Those of them that have sent their SYN again, since nothing answers.
    pub unanswered: u32,
    /// Connections in other states that wait for the acknowledgement of bytes that they have sent again.
    pub retransmitting: u32,
    /// Ports that `connect()` can still choose; ports in TIME_WAIT are included if `tcp_tw_reuse` allows them.
    pub free: Option<u32>,
    /// Whether `tcp_tw_reuse` allows ports in TIME_WAIT again after a second, for this destination.
    pub reuses: bool,
    /// Growth of the ports in use, per second.
    pub growth_per_s: f64,
    /// Seconds until no port is left at this growth.
    pub exhausted_in_s: Option<f64>,
}

/// Growth below this is noise: a port in two seconds.
const GROWTH_PER_S_MIN: f64 = 0.5;

impl Destinations {
    /// Counts a socket if `connect()` chose its local port. `listening` says whether a port has a listener; sockets on
    /// such a port were accepted.
    pub fn count(&mut self, socket: &Socket, settings: &Settings, listening: impl Fn(u16) -> bool) {
        let port = socket.local.port();
        // If the range is unknown, every port without a listener counts as chosen by `connect()`.
        let is_chosen = settings.port_range.is_none() || settings.is_ephemeral(port);
        if matches!(socket.state, State::Listen | State::Close) || !is_chosen || listening(port) {
            return;
        }
        let pair = (socket.local.ip(), socket.remote);
        if self.held.len() >= DESTINATIONS_MAX && !self.held.contains_key(&pair) {
            self.unshown += 1;
            return;
        }
        let held = self.held.entry(pair).or_default();
        if socket.state == State::TimeWait {
            held.time_wait += 1;
            return;
        }
        held.used += 1;
        let is_repeated = socket.retransmits > 0 && matches!(socket.timer, Timer::Retransmit(_));
        if socket.state == State::SynSent {
            held.connecting += 1;
            held.unanswered += u32::from(is_repeated);
        } else {
            held.retransmitting += u32::from(is_repeated);
        }
    }

    /// Sockets towards destinations beyond `DESTINATIONS_MAX`.
    pub fn unshown(&self) -> u64 {
        self.unshown
    }

    /// The destinations, those that use the most ports first; `before` is the look `elapsed_s` seconds earlier.
    pub fn finish(&self, settings: &Settings, before: Option<(&Self, f64)>) -> Vec<Destination> {
        let usable = settings.ports_usable();
        let row = |((local, remote), held): (&Pair, &Held)| {
            let reuses = match settings.tw_reuse {
                Some(1) => true,
                Some(2) => local.is_loopback() && remote.ip().is_loopback(),
                _ => false,
            };
            let occupied = |held: &Held| if reuses { held.used } else { held.used + held.time_wait };
            let growth_per_s = before.map_or(0.0, |(before, elapsed_s)| {
                let then = before.held.get(&(*local, *remote)).map_or(0, occupied);
                (f64::from(occupied(held)) - f64::from(then)) / elapsed_s.max(0.001)
            });
            let free = usable.map(|usable| usable.saturating_sub(occupied(held)));
            let exhausted_in_s =
                free.filter(|_| growth_per_s >= GROWTH_PER_S_MIN).map(|free| f64::from(free) / growth_per_s);
            let (local, remote) = (*local, *remote);
            let Held { used, time_wait, connecting, unanswered, retransmitting } = *held;
            Destination {
                local,
                remote,
                used,
                time_wait,
                connecting,
                unanswered,
                retransmitting,
                free,
                reuses,
                growth_per_s,
                exhausted_in_s,
            }
        };
        let mut rows: Vec<Destination> = self.held.iter().map(row).collect();
        rows.sort_by_key(|row| (std::cmp::Reverse(row.used + row.time_wait), row.remote, row.local));
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tests::socket;

    fn settings(tw_reuse: u8) -> Settings {
        Settings {
            port_range: Some(40_000..=40_999),
            reserved_ports: vec![40_500..=40_599],
            tw_reuse: Some(tw_reuse),
            ..Settings::default()
        }
    }

    fn counted(used: u16, waiting: u16, remote: &str, settings: &Settings) -> Destinations {
        let mut destinations = Destinations::default();
        let ip = if remote.starts_with("127") { "127.0.0.1" } else { "10.0.0.1" };
        for port in 0..used + waiting {
            let state = if port < used { State::Established } else { State::TimeWait };
            destinations.count(&socket(state, &format!("{ip}:{}", 40_000 + port), remote), settings, |_| false);
        }
        // One was accepted here, and the operator chose the port of the other: neither took a port of the range.
        destinations
            .count(&socket(State::Established, "10.0.0.1:40001", "10.0.0.9:5"), settings, |port| port == 40_001);
        destinations.count(&socket(State::Established, "10.0.0.1:80", "10.0.0.9:5"), settings, |_| false);
        destinations
    }

    #[test]
    fn ports_are_counted_per_pair_and_the_end_is_foreseen() {
        let settings = settings(2);
        let before = counted(10, 90, "10.0.0.2:10000", &settings);
        let now = counted(10, 290, "10.0.0.2:10000", &settings);
        let rows = now.finish(&settings, Some((&before, 2.0)));
        let [row] = rows.as_slice() else { panic!("{rows:?}") };
        assert_eq!((row.used, row.time_wait, row.free, row.reuses), (10, 290, Some(600), false));
        assert_eq!((row.growth_per_s, row.exhausted_in_s), (100.0, Some(6.0)));
        assert_eq!(now.finish(&settings, None)[0].exhausted_in_s, None);
        assert_eq!(now.finish(&settings, Some((&now, 2.0)))[0].exhausted_in_s, None);
    }

    #[test]
    fn ports_for_tw_reuse_count_as_free() {
        for (tw_reuse, remote, reuses) in
            [(1, "10.0.0.2:1", true), (2, "127.0.0.2:1", true), (2, "10.0.0.2:1", false), (0, "127.0.0.2:1", false)]
        {
            let settings = settings(tw_reuse);
            let rows = counted(100, 200, remote, &settings).finish(&settings, None);
            assert_eq!(
                (rows[0].reuses, rows[0].free),
                (reuses, Some(if reuses { 800 } else { 600 })),
                "{tw_reuse} {remote}"
            );
        }
    }

    #[test]
    fn without_a_known_range_free_ports_are_unknown() {
        let settings = Settings::default();
        let rows = counted(3, 4, "10.0.0.2:10000", &settings).finish(&settings, None);
        let row = rows.iter().find(|row| row.remote.port() == 10_000).unwrap();
        assert_eq!((row.used, row.time_wait, row.free, row.exhausted_in_s), (3, 4, None, None));
    }

    #[test]
    fn a_scan_of_the_network_does_not_fill_the_memory() {
        let settings = settings(0);
        let mut destinations = Destinations::default();
        for host in 0..5000_u32 {
            let remote = format!("10.{}.{}.1:80", host >> 8, host & 255);
            destinations.count(&socket(State::SynSent, "10.0.0.1:40000", &remote), &settings, |_| false);
        }
        assert_eq!((destinations.finish(&settings, None).len(), destinations.unshown()), (4096, 904));
    }
}
