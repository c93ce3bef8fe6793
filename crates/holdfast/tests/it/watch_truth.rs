//! `holdfast watch` against known facts: connections closed in known orders, and queues filled in known ways, in a
//! network namespace of the test, read like Prometheus. A namespace needs root; without it the test is reported as
//! skipped, and under CI it fails.

use crate::support::observer::Observer;
use crate::support::{holdfast, until};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Command;
use std::time::Duration;
use testkit::with_own_network;

/// Connections closed in each order: 10,000 in total. The close of each side counts.
const CLOSES: u64 = 2000;
/// Least share of right answers, in percent of all closes.
const RIGHT_PERCENT_MIN: u64 = 99;

/// Which side ends a connection, and how.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Order {
    ClientFirst,
    ServerFirst,
    ClientResets,
    ServerResets,
    /// The server closes with unread bytes, so its close is a reset.
    ServerDoesNotRead,
}

impl Order {
    const ALL: [Self; 5] =
        [Self::ClientFirst, Self::ServerFirst, Self::ClientResets, Self::ServerResets, Self::ServerDoesNotRead];
}

fn close(listener: &TcpListener, order: Order) {
    let address = listener.local_addr().expect("bound");
    let mut client = TcpStream::connect(address).expect("it listens");
    let (mut server, _) = listener.accept().expect("connected");
    client.write_all(b"ping").expect("sent");
    server.read_exact(&mut [0; 4]).expect("received");
    server.write_all(b"pong!").expect("sent");
    client.read_exact(&mut [0; 5]).expect("received");
    let (first, mut second) = match order {
        Order::ClientFirst | Order::ClientResets => (client, server),
        Order::ServerFirst | Order::ServerResets | Order::ServerDoesNotRead => (server, client),
    };
    if order == Order::ServerDoesNotRead {
        second.write_all(b"unread").expect("sent");
        assert_eq!(first.peek(&mut [0; 1]).expect("it has come"), 1);
        drop(first);
        assert!(second.read(&mut [0; 1]).is_err());
    } else if matches!(order, Order::ClientResets | Order::ServerResets) {
        // With a linger time of zero, a close is a reset.
        socket2::SockRef::from(&first).set_linger(Some(Duration::ZERO)).expect("set");
        drop(first);
        assert!(second.read(&mut [0; 1]).is_err());
    } else {
        first.shutdown(Shutdown::Write).expect("open");
        assert_eq!(second.read(&mut [0; 1]).expect("the end"), 0);
        drop(second);
        let mut first = first;
        assert_eq!(first.read(&mut [0; 1]).expect("the end"), 0);
    }
}

#[test]
fn knows_which_side_closed_first_except_for_resets() {
    with_own_network(|| {
        let listeners = Order::ALL.map(|order| (order, TcpListener::bind("127.0.0.1:0").expect("bound")));
        let observer = Observer::start(&[]);
        for _ in 0..CLOSES {
            for (order, listener) in &listeners {
                close(listener, *order);
            }
        }
        let port = |order| {
            let (_, listener) = listeners.iter().find(|(listed, _)| *listed == order).expect("listed");
            listener.local_addr().expect("bound").port()
        };
        let count = |metrics: &BTreeMap<String, u64>, order, to: bool, first: &str| {
            let port = port(order);
            let peer = if to {
                format!("direction=\"to\",peer=\"127.0.0.1:{port}\"")
            } else {
                format!("direction=\"from\",peer=\"127.0.0.1\",port=\"{port}\"")
            };
            let series = format!("holdfast_peer_closes_total{{{peer},first=\"{first}\"}}");
            metrics.get(&series).copied().unwrap_or(0)
        };
        let mut metrics = BTreeMap::new();
        let forgotten = "holdfast_peer_closes_total{direction=\"\",peer=\"forgotten\",first=\"unknown\"}";
        let sum = |metrics: &BTreeMap<String, u64>| -> u64 {
            let firsts = |order, to| ["this_side", "peer", "unknown"].map(|first| count(metrics, order, to, first));
            let of_peers = Order::ALL.iter().flat_map(|order| [true, false].map(|to| firsts(*order, to))).flatten();
            of_peers.sum::<u64>() + metrics.get(forgotten).copied().unwrap_or(0)
        };
        until("all closes are accounted for", || {
            metrics = observer.metrics();
            sum(&metrics) == 2 * CLOSES * Order::ALL.len() as u64
        });
        let right = count(&metrics, Order::ClientFirst, true, "this_side")
            + count(&metrics, Order::ClientFirst, false, "peer")
            + count(&metrics, Order::ServerFirst, true, "peer")
            + count(&metrics, Order::ServerFirst, false, "this_side");
        assert!(right * 100 >= RIGHT_PERCENT_MIN * 4 * CLOSES, "{right} of {} are right: {metrics:#?}", 4 * CLOSES);
        // Of a reset connection one side loses its peer's address before it is closed, unless unread bytes caused the
        // reset.
        let resets = 3 * 2 * CLOSES;
        let unknown = count(&metrics, Order::ClientResets, false, "unknown")
            + count(&metrics, Order::ServerResets, true, "unknown")
            + count(&metrics, Order::ServerDoesNotRead, true, "unknown")
            + count(&metrics, Order::ServerDoesNotRead, false, "unknown")
            + metrics[forgotten];
        assert!(unknown * 100 >= RIGHT_PERCENT_MIN * resets, "{unknown} of {resets} are unknown: {metrics:#?}");
        // Nothing was missed, although most connections lived between two readings.
        let value = |series: &str| metrics.get(series).copied().unwrap_or(0);
        assert_eq!(value("holdfast_event_overruns_total"), 0);
        let (opened, seen) =
            (value("holdfast_opens_total{by=\"counters\"}"), value("holdfast_opens_total{by=\"seen\"}"));
        assert!(
            opened >= 2 * CLOSES * Order::ALL.len() as u64 && seen * 100 >= RIGHT_PERCENT_MIN * opened,
            "{seen} of {opened} were seen"
        );
    });
}

/// Local and remote address, Recv-Q and Send-Q of each socket of the port with queued bytes, and of its listener, from
/// ss.
fn queues_by_ss(port: u16) -> BTreeSet<String> {
    let filter = format!("sport = :{port} or dport = :{port}");
    let output = Command::new("ss").args(["-tanH", &filter]).output().expect("iproute2 is installed");
    let text = String::from_utf8_lossy(&output.stdout);
    let mut rows = BTreeSet::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [state, recv, send, local, remote, ..] = words[..] else { panic!("{line}") };
        if state == "LISTEN" {
            rows.insert(format!("{local} {recv} of {send}"));
        } else if (recv, send) != ("0", "0") {
            rows.insert(format!("{local} {remote} {recv} {send}"));
        }
    }
    rows
}

/// The same from `watch --plain`.
fn queues_by_us(port: u16) -> BTreeSet<String> {
    let filter = format!("port = :{port}");
    let output = holdfast().args(["watch", "--plain", "--count", "1", &filter]).output().expect("it starts");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout).replace(',', "");
    let table = |title: &'static str| {
        let rows = text.lines().skip_while(move |line| line.split(':').next() != Some(title)).skip(2);
        rows.take_while(|line| line.starts_with("  ")).map(|line| line.split_ascii_whitespace().collect::<Vec<_>>())
    };
    let listeners = table("listeners").map(|words| format!("{} {} of {}", words[0], words[1], words[2]));
    let piles = table("queues").map(|words| {
        let ends: Vec<&str> = words.iter().copied().filter(|word| word.contains(':')).collect();
        format!("{} {} {}", ends.join(" "), words[0], words[1])
    });
    listeners.chain(piles).collect()
}

#[test]
fn full_queues_have_a_cause_and_match_ss() {
    with_own_network(|| {
        let observer = Observer::start(&[]);
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let address = listener.local_addr().expect("bound");
        let client = TcpStream::connect(address).expect("it listens");
        let (mut server, _) = listener.accept().expect("connected");
        // The client never reads: its queue fills, its window closes, and then the server's queue fills.
        server.set_write_timeout(Some(Duration::from_millis(300))).expect("set");
        while server.write(&[0; 8192]).is_ok_and(|length| length > 0) {}
        let mut waiting = Vec::new();
        for _ in 0..3 {
            waiting.push(TcpStream::connect(address).expect("the accept queue has room"));
        }
        // A connection that no process has accepted has sent data.
        waiting[0].write_all(b"is anybody there?").expect("sent");
        let expected = [
            ("holdfast_queued_sockets{cause=\"not_read\"}".to_owned(), 1),
            ("holdfast_queued_sockets{cause=\"peer_window_zero\"}".to_owned(), 1),
            ("holdfast_queued_sockets{cause=\"accept_queue\"}".to_owned(), 1),
            ("holdfast_queued_bytes{cause=\"accept_queue\"}".to_owned(), 17),
            (format!("holdfast_listener_queue{{address=\"{address}\"}}"), 3),
            (format!("holdfast_listener_backlog{{address=\"{address}\"}}"), 128),
        ];
        let mut metrics = BTreeMap::new();
        until("the queues are seen", || {
            metrics = observer.metrics();
            expected.iter().all(|(series, value)| metrics.get(series) == Some(value))
        });
        assert!(metrics["holdfast_queued_bytes{cause=\"peer_window_zero\"}"] > 65_536, "{metrics:#?}");
        testkit::assert_metrics_are_sound(&observer.page());
        let mut rows = BTreeSet::new();
        until("ss says the same", || {
            rows = queues_by_us(address.port());
            rows == queues_by_ss(address.port())
        });
        assert_eq!(rows.len(), 4, "{rows:#?}");
        drop((client, server, waiting));
    });
}
