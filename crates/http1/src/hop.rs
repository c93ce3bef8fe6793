//! Tables of fields that are not forwarded. Pure: the configuration decides what the gateway sends instead (its own
//! Host, Connection, X-Forwarded-For). The parsers set [`crate::Field::hop`] from it, [`crate::chunked`] filters
//! trailers by it.

use crate::field::FieldId;

/// Whether the field concerns one connection only and is never forwarded (RFC 9110 §7.6.1).
///
/// HTTP2-Settings goes with `Upgrade: h2c`, which we never forward (RFC 9113 §3.1). The exchange re-creates Connection
/// and Upgrade for an upgrade that the configuration asks for, and Transfer-Encoding for a body that it sends chunked.
#[inline]
pub fn is_hop_by_hop(id: FieldId) -> bool {
    matches!(
        id,
        FieldId::Connection
            | FieldId::KeepAlive
            | FieldId::ProxyConnection
            | FieldId::Te
            | FieldId::TransferEncoding
            | FieldId::Upgrade
            | FieldId::Http2Settings
    )
}

/// Whether `Connection` may *not* remove this field: without it the next hop would frame or route the message
/// differently.
pub fn is_kept_although_named(id: FieldId) -> bool {
    matches!(id, FieldId::Host | FieldId::ContentLength)
}

/// Whether a trailer field of this name is dropped: framing, routing, credentials, request modifiers and everything
/// else that a recipient may have acted on already (RFC 9110 §6.5.1).
pub fn is_forbidden_in_trailers(id: FieldId) -> bool {
    !matches!(
        id,
        FieldId::Other
            | FieldId::ETag
            | FieldId::Link
            | FieldId::Server
            | FieldId::XRequestId
            | FieldId::LastModified
            | FieldId::XPoweredBy
            | FieldId::GrpcStatus
            | FieldId::GrpcMessage
    )
}
