//! The header that a proxy sends ahead of a connection to name the client: the PROXY protocol, versions 1 and 2, with its
//! TLVs (HAProxy's `proxy-protocol.txt`). Pure: bytes come in, their meaning goes out; there is no socket and no clock. It
//! knows no HTTP, so that `stream {}` can use it. The gateway calls it where `listen` has `proxy_protocol`.
//!
//! Work and memory are bounded by [`HEADER_BYTES_MAX`]; a header may come in any pieces.

mod encode;
mod tlv;
mod v1;
mod v2;

pub use encode::{encode_v1, encode_v2, encode_v2_datagrams};
pub use tlv::{TlvName, write_tlv};

use std::net::SocketAddr;

/// A header is no longer than nginx takes. Version 1 ends at 107 bytes; version 2 could say 65,551, which only TLVs fill.
pub const HEADER_BYTES_MAX: usize = 4096;

/// How every header of version 1 begins.
const SIGNATURE_V1: &[u8] = b"PROXY ";
/// How every header of version 2 begins.
const SIGNATURE_V2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// What a header says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Header {
    /// The addresses of the client's connection; `None` if the proxy does not name them, or connects for itself.
    pub addresses: Option<Addresses>,
    /// The TLVs as they came; [`write_tlv`] reads them.
    pub tlvs: Box<[u8]>,
}

/// The two ends of the connection to the proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addresses {
    /// The client.
    pub source: SocketAddr,
    /// What it connected to.
    pub destination: SocketAddr,
}

/// The result of looking for a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parse {
    /// More bytes are needed.
    Partial,
    /// It is these first bytes long; what follows belongs to the protocol behind it.
    Complete {
        /// Bytes.
        len: usize,
        /// What it says.
        header: Header,
    },
}

/// Why bytes are no header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// They begin like neither version.
    #[error("no PROXY protocol header")]
    NotAHeader,
    /// A line of version 1 that is not as it should be.
    #[error("broken header")]
    BrokenLine,
    /// A line of version 1 without an end, or a header that is longer than the limit.
    #[error("header is too large")]
    TooLong,
    /// Another version than 2 behind the signature of version 2.
    #[error("unknown PROXY protocol version: {0}")]
    UnknownVersion(u8),
    /// Neither PROXY nor LOCAL.
    #[error("unknown PROXY protocol command: {0}")]
    UnknownCommand(u8),
    /// Shorter than the addresses of its family.
    #[error("header is too short for its addresses")]
    TooShort,
}

/// Looks for a header at the beginning of the bytes received on a connection.
pub fn parse(bytes: &[u8]) -> Result<Parse, HeaderError> {
    match bytes.first() {
        None => Ok(Parse::Partial),
        Some(b'P') => v1::parse(bytes),
        Some(_) => v2::parse(bytes),
    }
}

/// Whether bytes begin with a signature, as far as they go.
fn begins_with(bytes: &[u8], signature: &[u8]) -> bool {
    bytes.iter().zip(signature).all(|(one, other)| one == other)
}

#[cfg(test)]
mod tests;
