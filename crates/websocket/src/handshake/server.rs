//! The server's side: the check of a request, every field as RFC 6455 §4.2.1 says, and what its answer needs.

use super::{Key, VERSION, elements, single, values};
use http1::encode::encode_field;
use http1::{BodyFraming, FieldId, Method, RequestHead, Version};
use thiserror::Error;

/// Why a request opens no WebSocket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
pub enum RequestFault {
    /// Another method.
    #[error("a WebSocket is opened with GET")]
    Method,
    /// HTTP/1.0.
    #[error("a WebSocket is opened with HTTP/1.1")]
    Version,
    /// No upgrade to `websocket`, in due form.
    #[error("send `Connection: upgrade` and `Upgrade: websocket`")]
    Upgrade,
    /// A body: the parser would read it as frames.
    #[error("the request that opens a WebSocket has no body")]
    Body,
    /// The key is missing, doubled, or no 16 bytes in base64.
    #[error("Sec-WebSocket-Key is missing, doubled, or no 16 bytes in base64")]
    Key,
    /// Another version of the protocol, or none.
    #[error("only version 13 is spoken: Sec-WebSocket-Version is missing, doubled or another one")]
    ProtocolVersion,
}

impl RequestFault {
    /// The status that answers it.
    pub fn status(self) -> u16 {
        match self {
            Self::Method => 405,
            Self::Version | Self::Body | Self::Key => 400,
            Self::Upgrade | Self::ProtocolVersion => 426,
        }
    }

    /// Writes the fields that its answer needs beside the usual ones.
    pub fn encode_fields(self, out: &mut Vec<u8>) {
        match self {
            Self::Method => encode_field(b"Allow", b"GET", out),
            Self::Upgrade => encode_field(b"Upgrade", b"websocket", out),
            Self::ProtocolVersion => {
                encode_field(b"Upgrade", b"websocket", out);
                encode_field(b"Sec-WebSocket-Version", VERSION, out);
            }
            Self::Version | Self::Body | Self::Key => {}
        }
    }
}

/// A request that opens a WebSocket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// Its key.
    pub key: Key,
    /// It offers extensions. None is spoken, so the answer does not name any.
    pub offers_extensions: bool,
}

/// Checks a request. `bytes` are those of the head.
pub fn check_request(head: &RequestHead, bytes: &[u8]) -> Result<Asked, RequestFault> {
    let names_websocket = |value: &[u8]| elements(value).any(|name| name.eq_ignore_ascii_case(b"websocket"));
    if head.method != Method::Get {
        return Err(RequestFault::Method);
    }
    if head.version != Version::Http11 {
        return Err(RequestFault::Version);
    }
    if head.upgrade.is_none() || !values(&head.fields, FieldId::Upgrade, bytes).any(names_websocket) {
        return Err(RequestFault::Upgrade);
    }
    if !matches!(head.framing, BodyFraming::None | BodyFraming::Length(0)) {
        return Err(RequestFault::Body);
    }
    let version = single(&head.fields, FieldId::SecWebSocketVersion, bytes);
    if version != Ok(Some(VERSION)) {
        return Err(RequestFault::ProtocolVersion);
    }
    let key = single(&head.fields, FieldId::SecWebSocketKey, bytes).ok().flatten().and_then(Key::parse);
    let offers_extensions =
        values(&head.fields, FieldId::SecWebSocketExtensions, bytes).flat_map(elements).next().is_some();
    Ok(Asked { key: key.ok_or(RequestFault::Key)?, offers_extensions })
}

/// The subprotocols that a request offers, in the client's order of preference.
pub fn protocols<'a>(head: &'a RequestHead, bytes: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    values(&head.fields, FieldId::SecWebSocketProtocol, bytes).flat_map(elements)
}

/// Writes the fields of the 101 that answers a request: Upgrade, Connection, Sec-WebSocket-Accept, and the subprotocol that was
/// chosen among those offered.
pub fn encode_response_fields(key: &Key, protocol: Option<&[u8]>, out: &mut Vec<u8>) {
    encode_field(b"Upgrade", b"websocket", out);
    encode_field(b"Connection", b"upgrade", out);
    encode_field(b"Sec-WebSocket-Accept", &key.accept(), out);
    if let Some(protocol) = protocol {
        encode_field(b"Sec-WebSocket-Protocol", protocol, out);
    }
}
