//! `holdfast watch` with states that last only on a lossy network, and with losses: nftables drops packets in a network
//! namespace of the test. `ss` must report the same states. A namespace needs root; without it the test is reported as
//! skipped, and under CI it fails.

use crate::support::observer::Observer;
use crate::support::{holdfast, until};
use socket2::{Domain, SockRef, Socket, Type};
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::time::Duration;
use testkit::with_own_network;

/// Runs nftables' commands in this thread's namespace.
fn nft(commands: &str) {
    let output = Command::new(testkit::peer_program("nft")).arg(commands).output().expect("nft starts");
    assert!(output.status.success(), "{commands}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A chain for rules about incoming packets: the sender still counts a packet dropped there as sent.
fn make_chain() {
    nft("add table inet test; add chain inet test received { type filter hook input priority 0; }");
}

fn pair(listener: &TcpListener) -> (TcpStream, TcpStream) {
    let client = TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
    (client, listener.accept().expect("connected").0)
}

/// Sockets with that port at either end, by state, from ss.
fn by_ss(port: u16) -> BTreeMap<String, u64> {
    let filter = format!("sport = :{port} or dport = :{port}");
    let output = Command::new("ss").args(["-tanH", &filter]).output().expect("iproute2 is installed");
    let mut states = BTreeMap::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let state = match line.split_ascii_whitespace().next().unwrap_or_default() {
            "ESTAB" => "ESTABLISHED",
            "SYN-SENT" => "SYN_SENT",
            "SYN-RECV" => "SYN_RECV",
            "FIN-WAIT-1" => "FIN_WAIT1",
            "FIN-WAIT-2" => "FIN_WAIT2",
            "LAST-ACK" => "LAST_ACK",
            other => other,
        };
        *states.entry(state.to_owned()).or_default() += 1;
    }
    states
}

/// Waits until the observer and ss both report exactly these states for one port.
fn wait_for(observer: &Observer, port: u16, expected: &[(&str, u64)]) {
    let expected: BTreeMap<String, u64> = expected.iter().map(|(state, count)| ((*state).to_owned(), *count)).collect();
    until(&format!("port {port} has {expected:?}"), || {
        let metrics = observer.metrics();
        let ours = |(series, count): (&String, &u64)| {
            let state = series
                .strip_prefix(&format!("holdfast_port_sockets{{port=\"{port}\",state=\""))?
                .strip_suffix("\"}")?;
            (*count > 0).then(|| (state.to_owned(), *count))
        };
        let ours: BTreeMap<String, u64> = metrics.iter().filter_map(ours).collect();
        ours == expected && by_ss(port) == expected
    });
}

/// The observer with a histogram of each port.
fn observer(ports: &[u16]) -> Observer {
    let words: Vec<String> = ports.iter().flat_map(|port| ["--port".to_owned(), port.to_string()]).collect();
    Observer::start(&words)
}

fn listener() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let port = listener.local_addr().expect("bound").port();
    (listener, port)
}

#[test]
fn handshakes_and_closes_that_lost_packets_hold_still_are_seen() {
    with_own_network(|| {
        make_chain();
        let scenes: Vec<(TcpListener, u16)> = (0..3).map(|_| listener()).collect();
        let [(opening, opens), (ending, ends), (crossing, crosses)] = &scenes[..] else { panic!("three listeners") };
        let observer = observer(&[*opens, *ends, *crosses]);

        // The answer to a SYN is lost: SYN_SENT on one side, SYN_RECV on the other.
        nft(&format!("add rule inet test received tcp sport {opens} tcp flags & (syn|ack) == syn|ack drop"));
        let half_open = Socket::new(Domain::IPV4, Type::STREAM, None).expect("made");
        half_open.set_nonblocking(true).expect("set");
        let address: SocketAddr = opening.local_addr().expect("bound");
        assert!(half_open.connect(&address.into()).is_err(), "it cannot be connected yet");
        wait_for(&observer, *opens, &[("LISTEN", 1), ("SYN_SENT", 1), ("SYN_RECV", 1)]);

        // The peer closed first, and our FIN is lost: LAST_ACK here. The peer's FIN was acknowledged.
        let (first, mut server) = pair(ending);
        first.shutdown(Shutdown::Write).expect("open");
        assert_eq!(server.read(&mut [0; 1]).expect("the end"), 0);
        nft(&format!("add rule inet test received tcp sport {ends} tcp flags & fin == fin drop"));
        drop(server);
        wait_for(&observer, *ends, &[("LISTEN", 1), ("LAST_ACK", 1), ("FIN_WAIT2", 1)]);

        // Both close at once. One side's FIN is lost; the other's arrives and does not acknowledge it.
        let (client, server) = pair(crossing);
        nft(&format!("add rule inet test received tcp dport {crosses} drop"));
        client.shutdown(Shutdown::Write).expect("open");
        server.shutdown(Shutdown::Write).expect("open");
        wait_for(&observer, *crosses, &[("LISTEN", 1), ("CLOSING", 1), ("FIN_WAIT1", 1)]);

        // When packets arrive again, a side that closed before it received the other's FIN counts as first. Here both
        // did.
        nft("flush chain inet test received");
        drop((half_open, first, client, server));
        let closes = |series: &str| observer.metrics().get(&format!("holdfast_peer_closes_total{{{series}}}")).copied();
        until("each close is placed", || {
            [
                (ends, "to", "this_side"),
                (ends, "from", "peer"),
                (crosses, "to", "this_side"),
                (crosses, "from", "this_side"),
            ]
            .into_iter()
            .all(|(port, direction, by)| {
                let peer = match direction {
                    "to" => format!("peer=\"127.0.0.1:{port}\""),
                    _ => format!("peer=\"127.0.0.1\",port=\"{port}\""),
                };
                closes(&format!("direction=\"{direction}\",{peer},first=\"{by}\"")) == Some(1)
            })
        });
    });
}

#[test]
fn distinguishes_losses_from_slow_readers_and_shows_their_share() {
    with_own_network(|| {
        make_chain();
        let (listening, port) = listener();
        let observer = observer(&[port]);
        // Nothing from one side arrives: its bytes wait for an acknowledgement that does not come.
        let (mut client, server) = pair(&listening);
        nft(&format!("add rule inet test received tcp dport {port} drop"));
        client.write_all(&[0; 16_000]).expect("it fits the socket's buffer");
        until("the cause is named", || {
            observer.metrics().get("holdfast_queued_sockets{cause=\"no_answer\"}") == Some(&1)
        });
        drop((client, server));
        nft("flush chain inet test received");

        // Three of ten segments are lost during a transfer of megabytes: the printed share of retransmissions is the
        // kernel's.
        let (mut client, mut server) = pair(&listening);
        SockRef::from(&client).set_tcp_nodelay(true).expect("set");
        nft(&format!(
            "add rule inet test received tcp dport {port} tcp flags & (syn|fin) == 0 numgen inc mod 10 < 3 drop"
        ));
        let shares = std::thread::scope(|scope| {
            let watched = scope.spawn(|| plain_shares("0.5", 8));
            let reader = scope.spawn(move || {
                let mut sum = 0;
                while let Ok(length) = server.read(&mut [0; 16_384]) {
                    if length == 0 {
                        break;
                    }
                    sum += length;
                }
                sum
            });
            client.set_write_timeout(Some(Duration::from_secs(1))).expect("set");
            let mut sent = 0;
            while !watched.is_finished() {
                // A write may time out because of losses; the next one continues.
                sent += client.write(&[1; 1000]).unwrap_or(0);
            }
            nft("flush chain inet test received");
            drop(client);
            assert_eq!(reader.join().expect("it reads"), sent, "nothing is lost to the programs");
            watched.join().expect("it watches")
        });
        assert!(shares.iter().any(|percent| (5.0..=60.0).contains(percent)), "{shares:?}");
    });
}

/// The printed percentages of retransmitted segments, from this many readings.
fn plain_shares(interval: &str, count: u32) -> Vec<f64> {
    let mut command = holdfast();
    command.args(["watch", "--plain", "--interval", interval, "--count", &count.to_string()]);
    let output = command.output().expect("it starts");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines = text.lines().filter_map(|line| line.trim().strip_prefix("segments sent again"));
    lines.filter_map(|rest| rest.split_ascii_whitespace().next()?.trim_end_matches('%').parse().ok()).collect()
}
