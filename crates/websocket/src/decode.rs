//! Decodes bytes, in pieces of any size, to messages and control frames. It keeps only the received part of an incomplete one,
//! so an idle connection costs the struct. The caller sends the answers (pong, close).

use crate::close::CloseCode;
use crate::error::Fault;
use crate::frame::{CONTROL_PAYLOAD_BYTES_MAX, FrameHead, HEAD_BYTES_MAX, Opcode};
use crate::mask::mask;
use crate::utf8::Utf8;
use std::ops::Range;

/// Reserved at once for a message: what a head promises is not yet there, and a peer that only promises must cost little.
const RESERVE_BYTES_MAX: u64 = 64 * 1024;

/// Which side sent the frames: a client's must be masked, a server's must not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sender {
    /// A client.
    Client,
    /// A server.
    Server,
}

/// What a message consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// UTF-8, which was checked.
    Text,
    /// Anything.
    Binary,
}

impl Kind {
    /// The opcode of its first frame.
    pub fn opcode(self) -> Opcode {
        match self {
            Self::Text => Opcode::Text,
            Self::Binary => Opcode::Binary,
        }
    }
}

/// Something complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// A message, put together from its frames.
    Message {
        /// What it consists of.
        kind: Kind,
        /// All of it, without mask.
        payload: &'a [u8],
    },
    /// To be answered with a pong that has the same payload.
    Ping(&'a [u8]),
    /// An answer, or a sign of life.
    Pong(&'a [u8]),
    /// The last thing that the peer says. Without a code, `None`.
    Close(Option<CloseCode>, &'a str),
}

/// The result of decoding some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decoded<'a> {
    /// This many were taken; without an event all of them.
    pub consumed: usize,
    /// What is complete; what follows behind `consumed` is for the next call.
    pub event: Option<Event<'a>>,
}

/// The frame with the payload that is being read.
#[derive(Debug, Clone, Copy)]
struct Frame {
    opcode: Opcode,
    fin: bool,
    mask: Option<[u8; 4]>,
    taken: u64,
    left: u64,
}

/// Where the payload of something complete is.
#[derive(Debug)]
enum Payload {
    /// In the bytes that were given.
    Given(Range<usize>),
    /// In the decoder.
    Kept,
}

/// What is complete: a control frame, or a message by the opcode of its first frame.
#[derive(Debug)]
struct Complete {
    opcode: Opcode,
    payload: Payload,
}

/// One direction of one connection.
#[derive(Debug)]
pub struct Decoder {
    sender: Sender,
    message_bytes_max: usize,
    /// The beginning of a head, in pieces.
    head: [u8; HEAD_BYTES_MAX],
    head_len: u8,
    /// A close frame came, or a fault: nothing more is looked at.
    ended: bool,
    /// What is in `kept`, or `control`, was handed out, and is to be let go.
    handed_out: Option<Opcode>,
    utf8: Utf8,
    frame: Option<Frame>,
    /// Text or binary, of the message that has begun.
    message: Option<Opcode>,
    /// The received part of a message.
    kept: Vec<u8>,
    /// The received part of a control frame.
    control: Vec<u8>,
}

impl Decoder {
    /// For what this side sends. A message of more than `message_bytes_max` bytes is [`Fault::TooBig`].
    pub fn new(sender: Sender, message_bytes_max: usize) -> Self {
        Self {
            sender,
            message_bytes_max,
            head: [0; HEAD_BYTES_MAX],
            head_len: 0,
            ended: false,
            handed_out: None,
            utf8: Utf8::default(),
            frame: None,
            message: None,
            kept: Vec::new(),
            control: Vec::new(),
        }
    }

    /// Takes bytes up to the next complete message or control frame, or all of them. Call it until there is no event: then
    /// the memory of what was handed out is free again as well. After a fault, or a close frame, everything is swallowed
    /// without an event.
    pub fn decode<'a>(&'a mut self, bytes: &'a [u8]) -> Result<Decoded<'a>, Fault> {
        match self.handed_out.take() {
            Some(opcode) if opcode.is_control() => self.control = Vec::new(),
            Some(_) => self.kept = Vec::new(),
            None => {}
        }
        if self.ended {
            return Ok(Decoded { consumed: bytes.len(), event: None });
        }
        let (consumed, complete) = self.advance(bytes).inspect_err(|_| self.ended = true)?;
        let Some(Complete { opcode, payload }) = complete else { return Ok(Decoded { consumed, event: None }) };
        self.ended = opcode == Opcode::Close;
        let payload = match payload {
            Payload::Given(range) => bytes.get(range).unwrap_or_default(),
            Payload::Kept => {
                self.handed_out = Some(opcode);
                if opcode.is_control() { &self.control } else { &self.kept }
            }
        };
        let event = match opcode {
            Opcode::Ping => Event::Ping(payload),
            Opcode::Pong => Event::Pong(payload),
            Opcode::Close => {
                let (code, reason) = parse_close(payload)?;
                Event::Close(code, reason)
            }
            Opcode::Text => Event::Message { kind: Kind::Text, payload },
            Opcode::Binary | Opcode::Continuation => Event::Message { kind: Kind::Binary, payload },
        };
        Ok(Decoded { consumed, event: Some(event) })
    }

    /// Whether the peer stopped inside of a message or frame.
    pub fn is_inside(&self) -> bool {
        self.head_len > 0 || self.frame.is_some() || self.message.is_some()
    }

    fn advance(&mut self, bytes: &[u8]) -> Result<(usize, Option<Complete>), Fault> {
        let mut at = 0;
        loop {
            if self.frame.is_none() {
                let rest = bytes.get(at..).unwrap_or_default();
                let Some((head, used)) = self.take_head(rest)? else { return Ok((bytes.len(), None)) };
                at += used;
                self.begin_frame(&head)?;
            }
            let rest = bytes.get(at..).unwrap_or_default();
            if let Some((opcode, len)) = self.take_whole(rest)? {
                return Ok((at + len, Some(Complete { opcode, payload: Payload::Given(at..at + len) })));
            }
            at += self.take_part(rest)?;
            let Some(frame) = self.frame.filter(|frame| frame.left == 0) else { return Ok((at, None)) };
            self.frame = None;
            if let Some(opcode) = self.end_frame(frame)? {
                return Ok((at, Some(Complete { opcode, payload: Payload::Kept })));
            }
        }
    }

    /// A head, and how many of these bytes belong to it.
    fn take_head(&mut self, bytes: &[u8]) -> Result<Option<(FrameHead, usize)>, Fault> {
        let before = usize::from(self.head_len);
        if before == 0
            && let Some(found) = FrameHead::parse(bytes)?
        {
            return Ok(Some(found));
        }
        let room = self.head.get_mut(before..).unwrap_or_default();
        let mut copied = 0;
        for (place, byte) in room.iter_mut().zip(bytes) {
            *place = *byte;
            copied += 1;
        }
        let head = FrameHead::parse(self.head.get(..before + copied).unwrap_or_default())?;
        // A head that is not complete is shorter than the longest one, so all bytes were copied.
        self.head_len = if head.is_some() { 0 } else { (before + copied) as u8 };
        Ok(head.map(|(head, len)| (head, len - before)))
    }

    fn begin_frame(&mut self, head: &FrameHead) -> Result<(), Fault> {
        match self.sender {
            Sender::Client if head.mask.is_none() => return Err(Fault::Unmasked),
            Sender::Server if head.mask.is_some() => return Err(Fault::Masked),
            _ => {}
        }
        match (head.opcode, self.message) {
            (Opcode::Continuation, None) => return Err(Fault::UnexpectedContinuation),
            (Opcode::Text | Opcode::Binary, Some(_)) => return Err(Fault::ExpectedContinuation),
            (Opcode::Text | Opcode::Binary, None) => {
                self.message = Some(head.opcode);
                self.utf8 = Utf8::default();
            }
            _ => {}
        }
        if !head.opcode.is_control() {
            let room = self.message_bytes_max.saturating_sub(self.kept.len());
            if head.payload_bytes > room as u64 {
                return Err(Fault::TooBig);
            }
        }
        let FrameHead { fin, opcode, mask, payload_bytes } = *head;
        self.frame = Some(Frame { opcode, fin, mask, taken: 0, left: payload_bytes });
        Ok(())
    }

    /// A frame that is complete in itself, without mask, and all there: it need not be copied.
    fn take_whole(&mut self, bytes: &[u8]) -> Result<Option<(Opcode, usize)>, Fault> {
        let Some(frame) = self.frame else { return Ok(None) };
        let len = usize::try_from(frame.left).unwrap_or(usize::MAX);
        let is_whole = frame.fin && frame.mask.is_none() && frame.taken == 0 && frame.opcode != Opcode::Continuation;
        let Some(payload) = bytes.get(..len).filter(|_| is_whole) else { return Ok(None) };
        if frame.opcode == Opcode::Text && std::str::from_utf8(payload).is_err() {
            return Err(Fault::InvalidUtf8);
        }
        self.frame = None;
        if !frame.opcode.is_control() {
            self.message = None;
        }
        Ok(Some((frame.opcode, len)))
    }

    /// Keeps the received part of the frame's payload; returns how many bytes that were.
    fn take_part(&mut self, bytes: &[u8]) -> Result<usize, Fault> {
        let Some(frame) = &mut self.frame else { return Ok(0) };
        let len = usize::try_from(frame.left).unwrap_or(usize::MAX).min(bytes.len());
        let part = bytes.get(..len).unwrap_or_default();
        let into = if frame.opcode.is_control() { &mut self.control } else { &mut self.kept };
        let start = into.len();
        if frame.taken == 0 && into.is_empty() {
            into.reserve_exact(frame.left.min(RESERVE_BYTES_MAX) as usize);
        }
        into.extend_from_slice(part);
        let part = into.get_mut(start..).unwrap_or_default();
        if let Some(key) = frame.mask {
            mask(part, key, (frame.taken % 4) as usize);
        }
        frame.taken += len as u64;
        frame.left -= len as u64;
        let is_text = !frame.opcode.is_control() && self.message == Some(Opcode::Text);
        if is_text && !self.utf8.take(part) {
            return Err(Fault::InvalidUtf8);
        }
        Ok(len)
    }

    /// The frame's payload is all there; what is complete with it.
    fn end_frame(&mut self, frame: Frame) -> Result<Option<Opcode>, Fault> {
        if frame.opcode.is_control() {
            debug_assert!(self.control.len() <= CONTROL_PAYLOAD_BYTES_MAX, "a head said so");
            return Ok(Some(frame.opcode));
        }
        if !frame.fin {
            return Ok(None);
        }
        let opcode = self.message.take();
        if opcode == Some(Opcode::Text) && !self.utf8.is_complete() {
            return Err(Fault::InvalidUtf8);
        }
        Ok(opcode)
    }
}

/// The payload of a close frame (RFC 6455 §5.5.1).
fn parse_close(payload: &[u8]) -> Result<(Option<CloseCode>, &str), Fault> {
    if payload.is_empty() {
        return Ok((None, ""));
    }
    let (code, reason) = payload.split_first_chunk::<2>().ok_or(Fault::HalfCloseCode)?;
    let code = CloseCode(u16::from_be_bytes(*code));
    if !code.is_sendable() {
        return Err(Fault::InvalidCloseCode(code.0));
    }
    let reason = std::str::from_utf8(reason).map_err(|_| Fault::InvalidCloseReason)?;
    Ok((Some(code), reason))
}
