//! A location's settings for the client's side.

use crate::base::body_file::BodyFiles;
use conf::value::words::KeepaliveDisable;
use std::sync::Arc;
use std::time::Duration;

/// A location's settings for the client's side.
#[derive(Debug, Clone)]
pub(crate) struct ClientPlan {
    pub(crate) keepalive_timeout: Duration,
    /// The value of `Keep-Alive: timeout=`, in seconds.
    pub(crate) keepalive_header: Option<u64>,
    /// How long an idle connection is kept at least during a graceful shutdown.
    pub(crate) keepalive_min: Duration,
    pub(crate) keepalive_disable: KeepaliveDisable,
    pub(crate) keepalive_requests: u32,
    pub(crate) keepalive_time: Duration,
    /// Bytes; 0 for no limit.
    pub(crate) body_size_max: u64,
    pub(crate) body_buffer_bytes: usize,
    /// Files for bodies that do not fit the buffer.
    pub(crate) body_files: Arc<BodyFiles>,
    pub(crate) body_timeout: Duration,
    /// `client_half_close`: a FIN does not mean that the client has left.
    pub(crate) half_close: bool,
    pub(crate) send_timeout: Duration,
    pub(crate) lingering_time: Duration,
    pub(crate) lingering_timeout: Duration,
    pub(crate) chunked_transfer_encoding: bool,
    /// `http2_chunk_size`
    pub(crate) http2_chunk_bytes: u32,
    /// `tcp_nodelay`
    pub(crate) nodelay: bool,
    /// `reset_timedout_connection`
    pub(crate) reset_timed_out: bool,
}
