//! Closes in every order, as the kernel would report them.

use super::*;
use crate::model::tests::socket;
use sockdiag::{TcpInfo, Traffic};

const SERVER: &str = "10.0.0.1:80";
const CLIENT: &str = "10.0.0.2:40000";

/// An accepted socket that died: `acked` sequence numbers of `sent` bytes.
fn dead(local: &str, remote: &str, sent: u64, acked: u64) -> Socket {
    let traffic = Traffic { bytes_sent: sent, bytes_acked: acked, ..Traffic::default() };
    let tcp = TcpInfo { traffic: Some(traffic), ..TcpInfo::default() };
    Socket { tcp: Some(tcp), ..socket(State::Close, local, remote) }
}

fn listens(port: u16) -> bool {
    port == 80
}

struct Observed(Closers);

impl Observed {
    fn new() -> Self {
        Self(Closers::default())
    }

    fn died(&mut self, socket: &Socket) {
        self.0.died(socket, listens);
    }

    /// One look at these sockets.
    fn look(&mut self, sockets: &[Socket]) -> (u64, u64, u64) {
        for socket in sockets {
            self.0.seen(socket, None, listens);
        }
        self.0.look_ends(0, listens);
        let Closes { this_side, peer, unknown } = self.0.total();
        (this_side, peer, unknown)
    }
}

#[test]
fn time_wait_on_the_tuple_means_this_side_closed() {
    let mut observed = Observed::new();
    observed.died(&dead(SERVER, CLIENT, 10, 11));
    assert_eq!(observed.look(&[socket(State::TimeWait, SERVER, CLIENT)]), (1, 0, 0));
    // It lasts a minute, and was one close.
    assert_eq!(observed.look(&[socket(State::TimeWait, SERVER, CLIENT)]), (1, 0, 0));
    assert_eq!(
        observed.0.rows(),
        [(Peer::From("10.0.0.2".parse().unwrap(), 80), Closes { this_side: 1, peer: 0, unknown: 0 })]
    );
}

#[test]
fn acknowledged_fin_without_time_wait_means_the_peer_closed() {
    let mut observed = Observed::new();
    observed.died(&dead(SERVER, CLIENT, 10, 11));
    assert_eq!(observed.look(&[]), (0, 1, 0));
    // The connecting side has its SYN acknowledged, too.
    observed.died(&dead(CLIENT, SERVER, 10, 12));
    assert_eq!(observed.look(&[]), (0, 2, 0));
    assert_eq!(observed.0.rows().len(), 2);
    // Retransmitted data is acknowledged once.
    let mut again = dead(SERVER, CLIENT, 30, 11);
    again.tcp = again
        .tcp
        .map(|tcp| TcpInfo { traffic: tcp.traffic.map(|traffic| Traffic { bytes_retrans: 20, ..traffic }), ..tcp });
    observed.died(&again);
    assert_eq!(observed.look(&[]), (0, 3, 0));
}

#[test]
fn a_reset_is_unknown_unless_the_closing_was_seen_before() {
    let mut observed = Observed::new();
    observed.died(&dead(SERVER, CLIENT, 10, 10));
    observed.died(&dead(CLIENT, SERVER, 10, 11));
    assert_eq!(observed.look(&[]), (0, 0, 2));

    let lingering = Socket { inode: 7, ..socket(State::CloseWait, SERVER, CLIENT) };
    observed.look(&[lingering]);
    observed.died(&dead(SERVER, CLIENT, 10, 10));
    assert_eq!(observed.look(&[]), (0, 1, 2));
    let half_closed = Socket { inode: 7, ..socket(State::FinWait2, SERVER, CLIENT) };
    observed.look(&[half_closed]);
    observed.died(&dead(SERVER, CLIENT, 10, 11));
    assert_eq!(observed.look(&[]), (1, 1, 2));
}

#[test]
fn reused_tuple_proves_nothing() {
    let mut observed = Observed::new();
    observed.died(&dead(SERVER, CLIENT, 10, 11));
    let successor = Socket { inode: 9, ..socket(State::Established, SERVER, CLIENT) };
    assert_eq!(observed.look(&[successor]), (0, 0, 1));
    observed.died(&dead(SERVER, CLIENT, 10, 11));
    observed.died(&dead(SERVER, CLIENT, 10, 11));
    assert_eq!(observed.look(&[socket(State::TimeWait, SERVER, CLIENT)]), (1, 0, 2));
}

#[test]
fn failed_connects_are_not_counted_as_closed() {
    let mut observed = Observed::new();
    observed.died(&dead("10.0.0.1:40001", "10.0.0.3:81", 0, 0)); // refused
    observed.died(&socket(State::Close, "0.0.0.0:0", "0.0.0.0:0")); // neither bound nor connected
    assert_eq!(observed.look(&[]), (0, 0, 0));
}

#[test]
fn socket_without_peer_was_reset_locally_unless_refused() {
    let mut closers = Closers::default();
    for _ in 0..5 {
        closers.died(&socket(State::Close, "10.0.0.1:40001", "0.0.0.0:0"), listens);
    }
    closers.died(&dead("10.0.0.1:40001", "10.0.0.3:81", 0, 0), listens);
    // One of three failed attempts kept its peer.
    closers.look_ends(3, listens);
    assert_eq!(closers.rows(), [(Peer::Forgotten, Closes { unknown: 3, ..Closes::default() })]);
    assert_eq!(closers.total().unknown, 3);
}

#[test]
fn counts_new_sockets_without_events() {
    let mut closers = Closers::default();
    let aged = |left_ms| Socket { timer: Timer::TimeWait(left_ms), ..socket(State::TimeWait, SERVER, CLIENT) };
    let lingering = socket(State::CloseWait, SERVER, "10.0.0.3:40000");
    for socket in [aged(59_000), aged(57_000), lingering] {
        closers.seen(&socket, Some(2000), listens);
    }
    closers.look_ends(0, listens);
    closers.seen(&lingering, Some(2000), listens);
    closers.look_ends(0, listens);
    assert_eq!(closers.total(), Closes { this_side: 1, peer: 1, unknown: 0 });
}

#[test]
fn many_peers_share_a_row_and_nothing_is_lost() {
    let mut observed = Observed::new();
    for port in 1..=5000_u16 {
        observed.died(&dead("10.0.0.1:40000", &format!("10.0.0.2:{port}"), 0, 2));
    }
    assert_eq!(observed.look(&[]).1, 5000);
    assert_eq!(observed.0.rows().len(), PEERS_MAX + 1);
}
