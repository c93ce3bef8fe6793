//! The opening handshake (RFC 6455 §4): the request of a client and the check of its answer in `client`, the check of a request
//! and its answer in `server`. Heads are parsed by `http1`.

mod client;
mod server;

pub use client::{Accepted, ResponseFault, check_response, encode_request};
pub use server::{Asked, RequestFault, check_request, encode_response_fields, protocols};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http1::{Field, FieldId};
use sha1::{Digest as _, Sha1};

/// The version of the protocol that RFC 6455 describes.
pub const VERSION: &[u8] = b"13";
/// What is hashed behind the key, to show that the server speaks WebSocket and did not just repeat something.
const ACCEPT_SUFFIX: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// Random bytes of a key.
const NONCE_BYTES: usize = 16;
/// The same in base64.
const KEY_BYTES: usize = 24;
/// A SHA-1 in base64.
const ACCEPT_BYTES: usize = 28;

/// A client's `Sec-WebSocket-Key`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key([u8; KEY_BYTES]);

impl Key {
    /// From 16 random bytes, new ones for each connection.
    pub fn new(nonce: [u8; NONCE_BYTES]) -> Self {
        let mut key = [0; KEY_BYTES];
        let written = STANDARD.encode_slice(nonce, &mut key);
        debug_assert_eq!(written, Ok(KEY_BYTES), "16 bytes are 24 in base64");
        Self(key)
    }

    /// A key that was received; `None` if it does not mean 16 bytes.
    pub fn parse(value: &[u8]) -> Option<Self> {
        let key: [u8; KEY_BYTES] = value.try_into().ok()?;
        let mut nonce = [0; NONCE_BYTES + 2];
        let len = STANDARD.decode_slice(key, &mut nonce).ok()?;
        (len == NONCE_BYTES).then_some(Self(key))
    }

    /// As it is in the field.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The `Sec-WebSocket-Accept` that answers it.
    pub fn accept(&self) -> [u8; ACCEPT_BYTES] {
        let digest = Sha1::new().chain_update(self.0).chain_update(ACCEPT_SUFFIX).finalize();
        let mut accept = [0; ACCEPT_BYTES];
        let written = STANDARD.encode_slice(digest, &mut accept);
        debug_assert_eq!(written, Ok(ACCEPT_BYTES), "20 bytes are 28 in base64");
        accept
    }
}

/// The elements of a comma-separated value, without the empty ones.
fn elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).filter(|element| !element.is_empty())
}

/// The values of all fields with this id.
fn values<'a>(fields: &'a [Field], id: FieldId, head: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    fields.iter().filter(move |field| field.id == id).map(|field| field.value.of(head))
}

/// The value of a field that may come once.
fn single<'a>(fields: &'a [Field], id: FieldId, head: &'a [u8]) -> Result<Option<&'a [u8]>, Repeated> {
    let mut values = values(fields, id, head);
    let first = values.next();
    if values.next().is_some() { Err(Repeated) } else { Ok(first) }
}

/// A field that may come once came again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Repeated;
