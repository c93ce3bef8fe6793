//! Watches accept queues for overflow: the kernel drops connections silently, and clients see timeouts. Reads the
//! kernel's counters from time to time, counts drops, and warns. Called by the engine's control loop. It reads `/proc`,
//! because the network namespace's counters are nowhere else.

use gateway::{AcceptDrops, Level, Registry};
use reactor::{AcceptQueue, Listener, PeerAddress};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time between two readings: a burst that overflows a queue ends sooner, but the counters keep it.
const LOOK_PERIOD: Duration = Duration::from_secs(1);
/// Time between two warnings about the same queues.
const WARN_PERIOD: Duration = Duration::from_mins(1);

/// The counters of the network namespace.
const NETSTAT: &str = "/proc/net/netstat";
const SOMAXCONN: &str = "/proc/sys/net/core/somaxconn";

/// One listening socket, and the number of drops at the last reading.
struct Watched {
    address: PeerAddress,
    listener: Arc<Listener>,
    dropped: u32,
}

/// `TcpExt` of the network namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct TcpExt {
    listen_overflows: u64,
    listen_drops: u64,
}

/// The watch.
pub(super) struct QueueWatch {
    watched: Vec<Watched>,
    tcp_ext: TcpExt,
    looked: Instant,
    warned: Option<Instant>,
    /// Drops that are counted and not yet reported, with the last queue concerned.
    untold: AcceptDrops,
    worst: Option<(PeerAddress, AcceptQueue)>,
}

impl QueueWatch {
    /// Starts to watch. Earlier drops are not reported.
    pub(super) fn new(listeners: impl Iterator<Item = (PeerAddress, Arc<Listener>)>) -> Self {
        let mut watch = Self {
            watched: Vec::new(),
            tcp_ext: read_tcp_ext(),
            looked: Instant::now(),
            warned: None,
            untold: AcceptDrops::default(),
            worst: None,
        };
        watch.watch(listeners);
        watch
    }

    /// Replaces the listeners to watch.
    pub(super) fn watch(&mut self, listeners: impl Iterator<Item = (PeerAddress, Arc<Listener>)>) {
        let mut old = std::mem::take(&mut self.watched);
        self.watched = listeners
            .map(|(address, listener)| {
                // A reload passes the same sockets as new descriptors, those of one address in the same order. Like the
                // workers, we keep the first descriptors.
                if let Some(at) = old.iter().position(|old| old.address == address) {
                    return old.remove(at);
                }
                let dropped = listener.accept_queue().map_or(0, |queue| queue.dropped);
                Watched { address, listener, dropped }
            })
            .collect();
    }

    /// If the period is over: counts the drops since the last reading, and warns.
    pub(super) fn look(&mut self, registry: &'static Registry) {
        let now = Instant::now();
        if now.duration_since(self.looked) < LOOK_PERIOD {
            return;
        }
        self.looked = now;
        let drops = self.count();
        if drops != AcceptDrops::default() {
            registry.count_accept_drops(drops);
        }
        self.untold.queue_full += drops.queue_full;
        self.untold.listen_overflows += drops.listen_overflows;
        self.untold.listen_drops += drops.listen_drops;
        // Drops of another program's listener in the same namespace are counted without a warning.
        let due = self.warned.is_none_or(|warned| now.duration_since(warned) >= WARN_PERIOD);
        if self.untold.queue_full > 0
            && due
            && let Some((address, queue)) = self.worst.take()
        {
            self.warned = Some(now);
            registry.error_log().log(Level::Warn, &warning(&std::mem::take(&mut self.untold), &address, queue));
        }
    }

    fn count(&mut self) -> AcceptDrops {
        let mut drops = AcceptDrops::default();
        let mut most = 0;
        for one in &mut self.watched {
            let Some(queue) = one.listener.accept_queue() else { continue };
            let new = queue.dropped.wrapping_sub(std::mem::replace(&mut one.dropped, queue.dropped));
            drops.queue_full += u64::from(new);
            if new > most {
                most = new;
                self.worst = Some((one.address.clone(), queue));
            }
        }
        let before = std::mem::replace(&mut self.tcp_ext, read_tcp_ext());
        drops.listen_overflows = self.tcp_ext.listen_overflows.saturating_sub(before.listen_overflows);
        drops.listen_drops = self.tcp_ext.listen_drops.saturating_sub(before.listen_drops);
        drops.queue_full = of_full_queues(drops.queue_full, drops.listen_overflows);
        drops
    }
}

/// How many drops of our sockets a full queue can explain. A listener counts drops for any reason (no memory, no route
/// back, a filter). A full queue also counts in `ListenOverflows`, which was read later and so includes all of these
/// drops.
fn of_full_queues(dropped: u64, listen_overflows: u64) -> u64 {
    dropped.min(listen_overflows)
}

fn warning(drops: &AcceptDrops, address: &PeerAddress, queue: AcceptQueue) -> String {
    let AcceptDrops { queue_full, listen_overflows, listen_drops } = drops;
    let somaxconn = std::fs::read_to_string(SOMAXCONN).unwrap_or_default();
    let AcceptQueue { waiting, backlog, .. } = queue;
    format!(
        "{queue_full} connections were dropped because an accept queue was full, most of them at {address}: its listen \
         backlog is {backlog} and {waiting} wait now; raise `listen … backlog=` and, where that is the bound, \
         net.core.somaxconn ({}); TcpExt of this network namespace meanwhile: ListenOverflows +{listen_overflows}, \
         ListenDrops +{listen_drops}",
        somaxconn.trim_end()
    )
}

fn read_tcp_ext() -> TcpExt {
    std::fs::read_to_string(NETSTAT).map(|text| parse_tcp_ext(&text)).unwrap_or_default()
}

/// A line of names and below it a line of values, both beginning with `TcpExt:`.
fn parse_tcp_ext(text: &str) -> TcpExt {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("TcpExt: "));
    let (Some(names), Some(values)) = (lines.next(), lines.next()) else { return TcpExt::default() };
    let value = |wanted: &str| {
        let mut pairs = names.split_ascii_whitespace().zip(values.split_ascii_whitespace());
        pairs.find(|(name, _)| *name == wanted).and_then(|(_, value)| value.parse().ok()).unwrap_or(0)
    };
    TcpExt { listen_overflows: value("ListenOverflows"), listen_drops: value("ListenDrops") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counters_are_found_by_name() {
        let text = "TcpExt: SyncookiesSent ListenOverflows ListenDrops TW\nTcpExt: 7 12 34 5\nIpExt: A\nIpExt: 1\n";
        assert_eq!(parse_tcp_ext(text), TcpExt { listen_overflows: 12, listen_drops: 34 });
        assert_eq!(parse_tcp_ext("IpExt: A\nIpExt: 1\n"), TcpExt::default());
    }

    #[test]
    fn drops_for_other_reasons_are_no_full_queue() {
        assert_eq!(of_full_queues(5, 0), 0);
        assert_eq!(of_full_queues(5, 3), 3);
        assert_eq!(of_full_queues(5, 9), 5, "somebody else's queue overflows as well");
    }

    #[test]
    fn a_warning_names_the_socket_and_both_limits() {
        let queue = AcceptQueue { waiting: 2, backlog: 511, dropped: 9 };
        let drops = AcceptDrops { queue_full: 3, listen_overflows: 4, listen_drops: 5 };
        let text = warning(&drops, &PeerAddress::Ip(([127, 0, 0, 1], 80).into()), queue);
        for part in ["3 connections", "127.0.0.1:80", "backlog is 511", "net.core.somaxconn (", "ListenOverflows +4"] {
            assert!(text.contains(part), "{text}");
        }
    }
}
