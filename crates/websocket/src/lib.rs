//! WebSocket (RFC 6455) for both roles: frames, masks, close codes, UTF-8, the handshake. Pure: bytes and random values come in
//! as arguments, events and bytes come out; there is no socket, clock, thread or random source here. The built-in origin and
//! the load generator call it. To the gateway a WebSocket is a tunnel, of which it knows no more than where frames end.
//!
//! What RFC 6455 forbids is refused, with the close code that says why ([`Fault::close_code`]). Extensions are not spoken:
//! an offer of `permessage-deflate` is answered without it, as RFC 6455 §9.1 provides, and a server that insists is refused.
//!
//! ```
//! use websocket::{Decoder, Event, Kind, Opcode, Sender, encode_frame};
//!
//! let mut bytes = Vec::new();
//! encode_frame(true, Opcode::Text, None, b"hello", &mut bytes);
//! let mut decoder = Decoder::new(Sender::Server, 1 << 20);
//! let decoded = decoder.decode(&bytes)?;
//! assert_eq!(decoded.event, Some(Event::Message { kind: Kind::Text, payload: b"hello" }));
//! assert_eq!(decoded.consumed, bytes.len());
//! # Ok::<(), websocket::Fault>(())
//! ```

mod boundary;
mod close;
mod decode;
mod error;
mod frame;
pub mod handshake;
mod mask;
mod utf8;

pub use boundary::Boundary;
pub use close::{CLOSE_REASON_BYTES_MAX, CloseCode};
pub use decode::{Decoded, Decoder, Event, Kind, Sender};
pub use error::Fault;
pub use frame::{
    CONTROL_PAYLOAD_BYTES_MAX, FrameHead, HEAD_BYTES_MAX, Opcode, encode_close, encode_frame, encode_frame_head,
};
pub use mask::mask;
pub use utf8::Utf8;
