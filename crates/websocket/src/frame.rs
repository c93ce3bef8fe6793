//! Single frames: heads from bytes and to bytes, whole frames to bytes (RFC 6455 §5.2). What frames may follow each other is
//! `decode`'s.

use crate::close::{CLOSE_REASON_BYTES_MAX, CloseCode};
use crate::error::Fault;
use crate::mask::mask;

/// Longest head: two bytes, a length of eight, a mask of four.
pub const HEAD_BYTES_MAX: usize = 14;
/// Longest payload of a control frame, as the RFC has it.
pub const CONTROL_PAYLOAD_BYTES_MAX: usize = 125;

/// In place of a length: the next two bytes are it.
const LENGTH_OF_2: u8 = 0x7e;
/// In place of a length: the next eight bytes are it.
const LENGTH_OF_8: u8 = 0x7f;

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Opcode {
    /// More of the message that has begun.
    Continuation = 0,
    /// A text message, or its beginning.
    Text = 1,
    /// A binary message, or its beginning.
    Binary = 2,
    /// The end.
    Close = 8,
    /// A question whether the peer lives.
    Ping = 9,
    /// The answer to a ping, or a sign of life without one.
    Pong = 10,
}

impl Opcode {
    /// From the low half of a frame's first byte.
    pub fn parse(number: u8) -> Result<Self, Fault> {
        Ok(match number {
            0 => Self::Continuation,
            1 => Self::Text,
            2 => Self::Binary,
            8 => Self::Close,
            9 => Self::Ping,
            10 => Self::Pong,
            other => return Err(Fault::UnknownOpcode(other)),
        })
    }

    /// Close, ping or pong.
    pub fn is_control(self) -> bool {
        self as u8 >= 8
    }
}

/// The head of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHead {
    /// The message ends with this frame.
    pub fin: bool,
    /// What it is.
    pub opcode: Opcode,
    /// The mask of its payload.
    pub mask: Option<[u8; 4]>,
    /// Bytes of payload.
    pub payload_bytes: u64,
}

impl FrameHead {
    /// Reads a head from the start of `bytes`, and says how long it is; `None` if it is not complete. What can be refused by
    /// the bytes that are there is refused.
    pub fn parse(bytes: &[u8]) -> Result<Option<(Self, usize)>, Fault> {
        let Some(&first) = bytes.first() else { return Ok(None) };
        if first & 0x70 != 0 {
            return Err(Fault::ReservedBits);
        }
        let (fin, opcode) = (first & 0x80 != 0, Opcode::parse(first & 0x0f)?);
        if opcode.is_control() && !fin {
            return Err(Fault::FragmentedControl);
        }
        let Some(&second) = bytes.get(1) else { return Ok(None) };
        let short = second & 0x7f;
        if opcode.is_control() && usize::from(short) > CONTROL_PAYLOAD_BYTES_MAX {
            return Err(Fault::LongControl);
        }
        let (payload_bytes, at) = match short {
            LENGTH_OF_2 => match bytes.get(2..).and_then(|rest| rest.first_chunk::<2>()) {
                Some(length) => (u64::from(u16::from_be_bytes(*length)), 4),
                None => return Ok(None),
            },
            LENGTH_OF_8 => match bytes.get(2..).and_then(|rest| rest.first_chunk::<8>()) {
                Some(length) => (u64::from_be_bytes(*length), 10),
                None => return Ok(None),
            },
            short => (u64::from(short), 2),
        };
        let least = match short {
            LENGTH_OF_2 => u64::from(LENGTH_OF_2),
            LENGTH_OF_8 => 1 << 16,
            _ => 0,
        };
        if payload_bytes < least {
            return Err(Fault::LengthNotMinimal);
        }
        if payload_bytes >> 63 != 0 {
            return Err(Fault::LengthTooLarge);
        }
        let head = Self { fin, opcode, mask: None, payload_bytes };
        if second & 0x80 == 0 {
            return Ok(Some((head, at)));
        }
        let key = bytes.get(at..).and_then(|rest| rest.first_chunk::<4>());
        Ok(key.map(|key| (Self { mask: Some(*key), ..head }, at + key.len())))
    }
}

/// Writes a head.
pub fn encode_frame_head(head: &FrameHead, out: &mut Vec<u8>) {
    let FrameHead { fin, opcode, mask, payload_bytes } = *head;
    out.push(opcode as u8 | if fin { 0x80 } else { 0 });
    let masked = if mask.is_some() { 0x80 } else { 0 };
    match payload_bytes {
        0..126 => out.push(masked | payload_bytes as u8),
        126..0x1_0000 => {
            out.push(masked | LENGTH_OF_2);
            out.extend_from_slice(&(payload_bytes as u16).to_be_bytes());
        }
        _ => {
            out.push(masked | LENGTH_OF_8);
            out.extend_from_slice(&payload_bytes.to_be_bytes());
        }
    }
    out.extend(mask.into_iter().flatten());
}

/// Writes a frame. A client gives a mask from a strong random source (RFC 6455 §10.3), a server none. The payload of a control
/// frame has at most [`CONTROL_PAYLOAD_BYTES_MAX`] bytes; what is beyond is cut off.
pub fn encode_frame(fin: bool, opcode: Opcode, key: Option<[u8; 4]>, payload: &[u8], out: &mut Vec<u8>) {
    let len = if opcode.is_control() { payload.len().min(CONTROL_PAYLOAD_BYTES_MAX) } else { payload.len() };
    let payload = payload.get(..len).unwrap_or_default();
    encode_frame_head(&FrameHead { fin, opcode, mask: key, payload_bytes: len as u64 }, out);
    let start = out.len();
    out.extend_from_slice(payload);
    if let Some(key) = key {
        mask(out.get_mut(start..).unwrap_or_default(), key, 0);
    }
}

/// Writes a close frame. A code that may not be sent is left out, and the reason with it; a reason that is too long is cut.
pub fn encode_close(code: CloseCode, reason: &str, key: Option<[u8; 4]>, out: &mut Vec<u8>) {
    let mut payload = Vec::new();
    if code.is_sendable() {
        payload.extend_from_slice(&code.0.to_be_bytes());
        let len = reason.floor_char_boundary(CLOSE_REASON_BYTES_MAX);
        payload.extend_from_slice(reason.get(..len).unwrap_or_default().as_bytes());
    }
    encode_frame(true, Opcode::Close, key, &payload, out);
}
