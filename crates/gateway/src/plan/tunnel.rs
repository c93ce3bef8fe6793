//! What a location says about tunnels.

use crate::plan::logs::ErrorLogId;
use std::time::Duration;

/// What a tunnel is for, which says when it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TunnelKind {
    /// It began with a 101: each direction ends on its own.
    Upgraded,
    /// A session of `stream`. `half_close`: each direction ends on its own; otherwise the first end is the end of both.
    Session { half_close: bool },
}

/// What a tunnel keeps of the exchange that opened it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TunnelPlan {
    /// `proxy_read_timeout` (or `tunnel_timeout`): silence on both sides for this long ends the tunnel.
    pub(crate) idle_max: Duration,
    /// `tunnel_ping`: after so long a silence both ends are pinged.
    pub(crate) ping: Option<Duration>,
    /// `proxy_buffer_size`: bytes held for a side that does not take them, per direction.
    pub(crate) buffer_bytes: usize,
    pub(crate) kind: TunnelKind,
    /// The location's own error log.
    pub(crate) error_log: Option<ErrorLogId>,
}
