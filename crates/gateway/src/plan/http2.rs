//! HTTP/2 of a server.

/// HTTP/2 of a server. That of the one that a handshake names, or of the default server of the address, holds for a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Http2Plan {
    /// `http2`
    pub(crate) enabled: bool,
    /// Streams at once.
    pub(crate) streams_max: u32,
    /// `http2_body_preread_size`: bytes of a body before its exchange reads it.
    pub(crate) preread_bytes: u32,
}
