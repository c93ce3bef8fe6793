//! The client's side: the request, and the check of its answer, every field as RFC 6455 §4.1 says.

use super::{Key, VERSION, elements, single, values};
use http1::encode::{encode_field, encode_head_end, encode_request_line};
use http1::{FieldId, ResponseHead, ResponseKind, Span, Version};
use thiserror::Error;

/// Why an answer opens no WebSocket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
pub enum ResponseFault {
    /// Another status than 101, with the status.
    #[error("answered with status {0} instead of 101")]
    Status(u16),
    /// Upgrade is missing, or names something else.
    #[error("101 without `Upgrade: websocket`")]
    Upgrade,
    /// Connection is missing, or has no `upgrade`.
    #[error("101 without `Connection: upgrade`")]
    Connection,
    /// Sec-WebSocket-Accept is missing, doubled, or not that of the key: the server does not speak WebSocket.
    #[error("Sec-WebSocket-Accept is missing or not the answer to our key")]
    Accept,
    /// An extension that was not asked for.
    #[error("the server uses an extension that was not offered")]
    Extension,
    /// A subprotocol that was not asked for, or several.
    #[error("the server chose a subprotocol that was not offered")]
    Protocol,
}

/// An open WebSocket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accepted {
    /// The subprotocol that the server chose.
    pub protocol: Option<Span>,
}

/// Writes a request. `lines` are further field lines, each with its line end (Origin, Cookie, Sec-WebSocket-Protocol …).
pub fn encode_request(target: &[u8], authority: &[u8], key: &Key, lines: &[u8], out: &mut Vec<u8>) {
    encode_request_line(b"GET", target, Version::Http11, out);
    encode_field(b"Host", authority, out);
    encode_field(b"Upgrade", b"websocket", out);
    encode_field(b"Connection", b"Upgrade", out);
    encode_field(b"Sec-WebSocket-Key", key.as_bytes(), out);
    encode_field(b"Sec-WebSocket-Version", VERSION, out);
    out.extend_from_slice(lines);
    encode_head_end(out);
}

/// Checks the final head that answered a request with this key, in which these subprotocols were offered. `bytes` are those of
/// the head.
pub fn check_response(
    head: &ResponseHead,
    bytes: &[u8],
    key: &Key,
    offered: &[&[u8]],
) -> Result<Accepted, ResponseFault> {
    if head.kind != ResponseKind::SwitchingProtocols {
        return Err(ResponseFault::Status(head.status));
    }
    let upgrade = single(&head.fields, FieldId::Upgrade, bytes).map_err(|_| ResponseFault::Upgrade)?;
    if !upgrade.is_some_and(|value| value.eq_ignore_ascii_case(b"websocket")) {
        return Err(ResponseFault::Upgrade);
    }
    if !head.connection.upgrade {
        return Err(ResponseFault::Connection);
    }
    let accept = single(&head.fields, FieldId::SecWebSocketAccept, bytes).map_err(|_| ResponseFault::Accept)?;
    if accept != Some(key.accept().as_slice()) {
        return Err(ResponseFault::Accept);
    }
    if values(&head.fields, FieldId::SecWebSocketExtensions, bytes).flat_map(elements).next().is_some() {
        return Err(ResponseFault::Extension);
    }
    let chosen = single(&head.fields, FieldId::SecWebSocketProtocol, bytes).map_err(|_| ResponseFault::Protocol)?;
    if chosen.is_some_and(|chosen| !offered.contains(&chosen)) {
        return Err(ResponseFault::Protocol);
    }
    Ok(Accepted { protocol: head.find(FieldId::SecWebSocketProtocol).map(|field| field.value) })
}
