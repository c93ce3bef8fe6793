//! A location's settings for tunnels.

use crate::plan::logs::ErrorLogId;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

/// The kind of a tunnel, which determines when it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum TunnelKind {
    /// Opened by a 101: each direction ends separately.
    Upgraded,
    /// A session of `stream`. `half_close`: each direction ends separately; otherwise the first end closes both.
    Session { half_close: bool },
}

/// The settings that a tunnel keeps of the exchange that opened it.
#[derive(Debug, Clone)]
pub(crate) struct TunnelPlan {
    /// `proxy_read_timeout` (or `tunnel_timeout`): silence on both sides for this long ends the tunnel.
    pub(crate) idle_max: Duration,
    /// `tunnel_ping`: the silence after which both ends are pinged.
    pub(crate) ping: Option<Duration>,
    /// `proxy_buffer_size`: bytes buffered per direction for a side that does not accept them.
    pub(crate) buffer_bytes: usize,
    pub(crate) kind: TunnelKind,
    /// The location's own error log.
    pub(crate) error_log: Option<ErrorLogId>,
    /// Marks of its route: a later configuration with one of them has the same route.
    pub(crate) marks: Arc<[u64]>,
}

/// How tunnels are drained (`drain_rate`, `drain_timeout`).
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct DrainPlan {
    /// Tunnels per second in the whole process; `None`: none is drained.
    pub(crate) rate: Option<NonZeroU32>,
    /// How long a tunnel may take to end once it is its turn.
    pub(crate) timeout: Duration,
    /// Tunnels are also drained when the process ends.
    pub(crate) at_quit: bool,
}
