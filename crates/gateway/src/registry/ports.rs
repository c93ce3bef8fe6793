//! The process's ledger of local ports: connections report when they get a port and when they end; connecting code and
//! the status page query it. `upstream::ports` has the arithmetic; here are the lock, the clock and the system's
//! settings.

use reactor::{PeerAddress, Stream, monotonic_millis};
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use upstream::Millis;
use upstream::ports::{Ledger, Limits, Pair, PairId, PairUsage, PortEnding};

/// Directory of the kernel's settings, for both versions of IP.
const SETTINGS: &str = "/proc/sys/net/ipv4";

/// The ledger, shared by all workers. Locked briefly when a connection is opened or ends, never for a reused one.
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
    pub(crate) fn usages(&self) -> Vec<PairUsage> {
        self.ledger().usages(now())
    }

    /// The state of the pair whose ports a connection would have used; without a source, the peer's pair with the
    /// fewest free ports.
    pub(crate) fn usage_of(&self, source: Option<IpAddr>, peer: SocketAddr) -> Option<PairUsage> {
        match source {
            Some(source) => Some(self.ledger().usage(Pair { source, peer }, now())),
            None => self.ledger().tightest(peer, now()),
        }
    }

    /// The sources of the peer's family, sorted by free ports towards it, the most first; equal ones keep their order.
    pub(crate) fn by_free_ports(&self, sources: &[IpAddr], peer: SocketAddr) -> Vec<IpAddr> {
        let now = now();
        let mut ledger = self.ledger();
        let fitting = sources.iter().filter(|source| source.is_ipv4() == peer.is_ipv4());
        let mut counted: Vec<(u32, IpAddr)> =
            fitting.map(|&source| (ledger.usage(Pair { source, peer }, now).free, source)).collect();
        counted.sort_by_key(|(free, _)| std::cmp::Reverse(*free));
        counted.into_iter().map(|(_, source)| source).collect()
    }

    /// Records a connection that has just got its port; `None` for a connection without one (a Unix socket).
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

/// A connection's port, until this is dropped.
pub(crate) struct PortUse {
    ports: &'static Ports,
    account: PairId,
    port: u16,
    ending: PortEnding,
}

impl PortUse {
    /// Notes, before the socket is closed, whether its port will stay in TIME_WAIT.
    pub(crate) fn note(&mut self, leaves_time_wait: bool) {
        self.ending = if leaves_time_wait { PortEnding::WeClosedFirst } else { PortEnding::Free };
    }
}

/// An open connection's port for an owner that need not refer to the ledger, of which there may be a million.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PortNumber {
    account: PairId,
    port: NonZeroU16,
}

impl PortUse {
    /// Leaves the connection in the ledger; its owner calls [`Ports::resume`] before it ends.
    pub(crate) fn into_number(self) -> Option<PortNumber> {
        let number = PortNumber { account: self.account, port: NonZeroU16::new(self.port)? };
        std::mem::forget(self);
        Some(number)
    }
}

impl Ports {
    /// The inverse of [`PortUse::into_number`].
    pub(crate) fn resume(&'static self, number: PortNumber) -> PortUse {
        PortUse { ports: self, account: number.account, port: number.port.get(), ending: PortEnding::Free }
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

/// A setting that cannot be read (a container may hide it) is assumed to be the kernel's default.
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
