//! Answers gRPC calls ("gRPC over HTTP/2"): every method of every service returns the received messages unchanged.

use super::Multiplex;
use super::outgoing::{Outgoing, Source};
use crate::action::{Call, StreamFault};
use crate::worker::Site;
use http1::encode::encode_number_field;
use http2::StreamId;

/// `grpc-status` if a message is cut off.
const INTERNAL: u32 = 13;
/// The prefix of a message: the compression flag and the length.
const PREFIX_BYTES: usize = 5;
/// A message with `HealthCheckResponse` and the status SERVING, including its prefix.
const SERVING: [u8; 7] = [0, 0, 0, 0, 2, 0x08, 0x01];

/// Whether the bytes are complete messages with their prefixes.
fn are_messages(mut bytes: &[u8]) -> bool {
    while let Some((prefix, rest)) = bytes.split_first_chunk::<PREFIX_BYTES>() {
        let [_, a, b, c, d] = *prefix;
        let Some((_, behind)) = rest.split_at_checked(u32::from_be_bytes([a, b, c, d]) as usize) else { return false };
        bytes = behind;
    }
    bytes.is_empty()
}

impl Multiplex {
    pub(super) fn answer_call(
        &mut self,
        stream: StreamId,
        call: Call,
        received: &[u8],
        site: &Site,
        out: &mut Vec<u8>,
    ) {
        let (status, messages) = match call {
            Call::Status(status) => (status, Vec::new()),
            _ if !are_messages(received) => (INTERNAL, Vec::new()),
            Call::Healthy => (0, SERVING.to_vec()),
            Call::Echo => (0, received.to_vec()),
        };
        // Without a message the status is in the response head.
        let end = messages.is_empty();
        let begun = self.engine.respond(stream, 200, end, out, |fields| {
            for (name, value) in site.page.common.each() {
                let _ = fields.add(name, value);
            }
            let _ = fields.add(b"content-type", b"application/grpc");
            if end {
                let _ = fields.add(b"grpc-status", itoa::Buffer::new().format(status).as_bytes());
            }
        });
        if begun.is_err() || end {
            return;
        }
        let mut trailers = Vec::new();
        encode_number_field(b"grpc-status", u64::from(status), &mut trailers);
        let source = Source::Bytes { bytes: messages, at: 0 };
        self.begin_sending(stream, Outgoing::new(source).ending(trailers, StreamFault::default()), out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_whole_or_not() {
        for (bytes, is_whole) in [
            (&b""[..], true),
            (b"\0\0\0\0\0", true),
            (b"\0\0\0\0\x02ab\0\0\0\0\x01c", true),
            (b"\0\0\0\0\x02a", false),
            (b"\0\0\0\0", false),
            (b"\0\xff\xff\xff\xffa", false),
        ] {
            assert_eq!(are_messages(bytes), is_whole, "{bytes:?}");
        }
        assert!(are_messages(&SERVING));
    }
}
