//! Frames (RFC 9113 §4 and §6): their header and encoding. The connection interprets them.

use crate::code::ErrorCode;

/// Bytes of a frame's header.
pub(crate) const HEADER_BYTES: usize = 9;

/// The first bytes that a client sends.
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Types of frames.
pub(crate) mod kind {
    pub(crate) const DATA: u8 = 0;
    pub(crate) const HEADERS: u8 = 1;
    pub(crate) const PRIORITY: u8 = 2;
    pub(crate) const RST_STREAM: u8 = 3;
    pub(crate) const SETTINGS: u8 = 4;
    pub(crate) const PUSH_PROMISE: u8 = 5;
    pub(crate) const PING: u8 = 6;
    pub(crate) const GOAWAY: u8 = 7;
    pub(crate) const WINDOW_UPDATE: u8 = 8;
    pub(crate) const CONTINUATION: u8 = 9;
    /// RFC 9218 §7.1.
    pub(crate) const PRIORITY_UPDATE: u8 = 16;
}

/// Flags of frames.
pub(crate) mod flag {
    /// Of SETTINGS and PING.
    pub(crate) const ACK: u8 = 0x1;
    /// Of DATA and HEADERS.
    pub(crate) const END_STREAM: u8 = 0x1;
    /// Of HEADERS and CONTINUATION.
    pub(crate) const END_HEADERS: u8 = 0x4;
    /// Of DATA and HEADERS.
    pub(crate) const PADDED: u8 = 0x8;
    /// Of HEADERS: five bytes of priority come first.
    pub(crate) const PRIORITY: u8 = 0x20;
}

/// A frame's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Header {
    /// Bytes of the payload.
    pub(crate) len: u32,
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    /// Without the reserved bit.
    pub(crate) stream: u32,
}

impl Header {
    pub(crate) fn parse(bytes: &[u8; HEADER_BYTES]) -> Self {
        let &[len0, len1, len2, kind, flags, id0, id1, id2, id3] = bytes;
        Self {
            len: u32::from_be_bytes([0, len0, len1, len2]),
            kind,
            flags,
            stream: u32::from_be_bytes([id0 & 0x7F, id1, id2, id3]),
        }
    }

    pub(crate) fn encode(self) -> [u8; HEADER_BYTES] {
        let [_, len0, len1, len2] = self.len.to_be_bytes();
        let [id0, id1, id2, id3] = self.stream.to_be_bytes();
        [len0, len1, len2, self.kind, self.flags, id0, id1, id2, id3]
    }

    pub(crate) fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// The 31-bit number at `at` in `payload`.
pub(crate) fn number_31(payload: &[u8], at: usize) -> u32 {
    number_32(payload, at) & 0x7FFF_FFFF
}

/// The number at `at` in `payload`; 0 if the payload is too short, which callers exclude by checking the length.
pub(crate) fn number_32(payload: &[u8], at: usize) -> u32 {
    payload.get(at..).and_then(|rest| rest.first_chunk::<4>()).map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

/// Appends a frame.
pub(crate) fn encode(kind: u8, flags: u8, stream: u32, payload: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&Header { len: payload.len() as u32, kind, flags, stream }.encode());
    out.extend_from_slice(payload);
}

pub(crate) fn encode_reset(stream: u32, code: ErrorCode, out: &mut Vec<u8>) {
    encode(kind::RST_STREAM, 0, stream, &code.0.to_be_bytes(), out);
}

pub(crate) fn encode_window_update(stream: u32, increment: u32, out: &mut Vec<u8>) {
    encode(kind::WINDOW_UPDATE, 0, stream, &increment.to_be_bytes(), out);
}

pub(crate) fn encode_ping(flags: u8, payload: [u8; 8], out: &mut Vec<u8>) {
    encode(kind::PING, flags, 0, &payload, out);
}

pub(crate) fn encode_goaway(last: u32, code: ErrorCode, out: &mut Vec<u8>) {
    let payload = u64::from(last) << 32 | u64::from(code.0);
    encode(kind::GOAWAY, 0, 0, &payload.to_be_bytes(), out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn headers_read_as_they_were_written(len in 0u32..1 << 24, kind: u8, flags: u8, stream in 0u32..1 << 31) {
            let header = Header { len, kind, flags, stream };
            prop_assert_eq!(Header::parse(&header.encode()), header);
        }
    }

    #[test]
    fn the_reserved_bit_is_ignored() {
        let header = Header::parse(&[0, 0, 8, 6, 1, 0x80, 0, 0, 3]);
        assert_eq!(header, Header { len: 8, kind: kind::PING, flags: flag::ACK, stream: 3 });
        assert_eq!(number_31(&[0xFF, 0xFF, 0xFF, 0xFF], 0), 0x7FFF_FFFF);
    }
}
