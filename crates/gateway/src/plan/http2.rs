//! HTTP/2 of a server.

/// HTTP/2 of a server. A connection has the settings of the server that its handshake names, or of the address's
/// default server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Http2Plan {
    /// `http2`
    pub(crate) enabled: bool,
    /// Most concurrent streams.
    pub(crate) streams_max: u32,
    /// `http2_body_preread_size`: bytes of a body accepted before its exchange reads it.
    pub(crate) preread_bytes: u32,
}
