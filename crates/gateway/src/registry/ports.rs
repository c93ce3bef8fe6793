//! The process's ledger of local ports: connections report when they get a port and when they end; asked by code that
//! connects and by the status page. Its arithmetic is `upstream::ports`'; here are the lock, the clock and the system's
//! settings.

use reactor::{PeerAddress, Stream, monotonic_millis};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use upstream::Millis;
use upstream::ports::{Ledger, Limits, Pair, PairId, PortEnding, Stand};

/// Where the kernel shows its settings, for both versions of IP.
const SETTINGS: &str = "/proc/sys/net/ipv4";

/// The ledger, shared by all workers. Locked for some arithmetic when a connection is opened or ends, never for one that
/// is reused.
pub(crate) struct Ports(Mutex<Ledger>);

impl Ports {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Ledger::new(read_limits())))
    }

    /// Reads the system's settings again.
    pub(crate) fn refresh(&self) {
        self.ledger().set_limits(read_limits());
    }

    /// The state of all pairs.
    pub(crate) fn stands(&self) -> Vec<Stand> {
        self.ledger().stands(now())
    }

    /// The state of the pair whose ports a connection would have used; without a source the tightest one of the peer.
    pub(crate) fn stand(&self, source: Option<IpAddr>, peer: SocketAddr) -> Option<Stand> {
        match source {
            Some(source) => Some(self.ledger().stand(Pair { source, peer }, now())),
            None => self.ledger().tightest(peer, now()),
        }
    }

    /// The sources of the peer's family, the one with the most free ports towards it first; among equals their order.
    pub(crate) fn by_free_ports(&self, sources: &[IpAddr], peer: SocketAddr) -> Vec<IpAddr> {
        let now = now();
        let mut ledger = self.ledger();
        let fitting = sources.iter().filter(|source| source.is_ipv4() == peer.is_ipv4());
        let mut counted: Vec<(u32, IpAddr)> =
            fitting.map(|&source| (ledger.stand(Pair { source, peer }, now).free, source)).collect();
        counted.sort_by_key(|(free, _)| std::cmp::Reverse(*free));
        counted.into_iter().map(|(_, source)| source).collect()
    }

    /// A connection that has just got its port; `None` for one without (a Unix socket).
    pub(crate) fn opened(&'static self, stream: &Stream, peer: &PeerAddress) -> Option<PortUse> {
        let PeerAddress::Ip(peer) = peer else { return None };
        let local = stream.local_address().ok().flatten()?;
        let account = self.ledger().opened(Pair { source: local.ip(), peer: *peer }, local.port(), now())?;
        Some(PortUse { ports: self, account, port: local.port(), ending: PortEnding::Free })
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection's port, until dropped.
pub(crate) struct PortUse {
    ports: &'static Ports,
    account: PairId,
    port: u16,
    ending: PortEnding,
}

impl PortUse {
    /// Notes, before the socket is closed, whether its port will wait.
    pub(crate) fn note(&mut self, leaves_time_wait: bool) {
        self.ending = if leaves_time_wait { PortEnding::WeClosedFirst } else { PortEnding::Free };
    }
}

impl std::fmt::Debug for PortUse {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "PortUse({})", self.port)
    }
}

impl Drop for PortUse {
    fn drop(&mut self) {
        self.ports.ledger().closed(self.account, self.port, self.ending, now());
    }
}

fn now() -> Millis {
    Millis(monotonic_millis().0)
}

/// What cannot be read (a container may hide it) is taken to be the kernel's default.
fn read_limits() -> Limits {
    let read = |name: &str| std::fs::read_to_string(Path::new(SETTINGS).join(name)).unwrap_or_default();
    Limits::parse(
        &read("ip_local_port_range"),
        &read("ip_local_reserved_ports"),
        &read("tcp_tw_reuse"),
        &read("tcp_tw_reuse_delay"),
        &read("tcp_timestamps"),
    )
}
