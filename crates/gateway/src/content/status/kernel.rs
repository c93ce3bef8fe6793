//! Reads from the kernel how full each accept queue is, and how often any has overflowed. Called when a status page is
//! shown, on a thread that may block; never by a worker.

use crate::content::status::snapshot::ListenerStatus;
use reactor::{Listener, PeerAddress};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Counters of the network namespace: one line of names and one of values for each protocol.
const NETSTAT: &str = "/proc/net/netstat";

/// Connections dropped from full accept queues since the network namespace was made, on any listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Overflows {
    /// `ListenOverflows`: the queue was full when the handshake ended.
    pub(crate) overflows: u64,
    /// `ListenDrops`: all dropped connection requests, including overflows.
    pub(crate) drops: u64,
}

/// `None` if the file does not exist, as in some sandboxes.
pub(crate) fn overflows() -> Option<Overflows> {
    parse_netstat(&std::fs::read_to_string(NETSTAT).ok()?)
}

fn parse_netstat(text: &str) -> Option<Overflows> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("TcpExt:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let value = |wanted: &str| {
        let mut pairs = names.split_whitespace().zip(values.split_whitespace());
        pairs.find(|(name, _)| *name == wanted)?.1.parse().ok()
    };
    Some(Overflows { overflows: value("ListenOverflows")?, drops: value("ListenDrops")? })
}

/// One entry per address; several sockets of one address (`reuseport`) are summed.
pub(crate) fn queues(listeners: &[Arc<Listener>]) -> Vec<ListenerStatus> {
    let mut by_address: BTreeMap<String, ListenerStatus> = BTreeMap::new();
    for listener in listeners {
        let Ok(Some(address)) = listener.local_address() else { continue };
        let name = if listener.is_datagrams() { format!("{address} udp") } else { address.to_string() };
        let entry = by_address.entry(name.clone()).or_insert(ListenerStatus { address: name, queue: None });
        if let (PeerAddress::Ip(_), Some(queue)) = (&address, listener.accept_queue()) {
            let sum = entry.queue.get_or_insert_default();
            sum.waiting += u64::from(queue.waiting);
            sum.backlog += u64::from(queue.backlog);
        }
    }
    by_address.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_counters_by_name() {
        let text =
            "TcpExt: SyncookiesSent ListenOverflows ListenDrops TCPOFOQueue\nTcpExt: 1 20 21 4\nIpExt: A\nIpExt: 1\n";
        assert_eq!(parse_netstat(text), Some(Overflows { overflows: 20, drops: 21 }));
        for broken in ["", "TcpExt: ListenOverflows\n", "TcpExt: ListenOverflows ListenDrops\nTcpExt: 1\n"] {
            assert_eq!(parse_netstat(broken), None, "{broken:?}");
        }
    }

    #[test]
    fn this_kernel_has_them() {
        assert!(overflows().is_some());
    }
}
