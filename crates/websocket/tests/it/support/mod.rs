//! What the tests of this crate share: events that own their bytes, and a decoder that is fed in pieces.

use websocket::{CloseCode, Decoder, Event, Fault, Kind, Opcode, Sender, encode_frame};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Seen {
    Message(Kind, Vec<u8>),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
    Close(Option<CloseCode>, String),
}

impl From<Event<'_>> for Seen {
    fn from(event: Event<'_>) -> Self {
        match event {
            Event::Message { kind, payload } => Self::Message(kind, payload.to_vec()),
            Event::Ping(payload) => Self::Ping(payload.to_vec()),
            Event::Pong(payload) => Self::Pong(payload.to_vec()),
            Event::Close(code, reason) => Self::Close(code, reason.to_owned()),
        }
    }
}

/// Everything that comes out until the bytes are used up or refused.
pub(crate) fn decode(sender: Sender, max: usize, bytes: &[u8], piece: usize) -> (Vec<Seen>, Option<Fault>) {
    let mut decoder = Decoder::new(sender, max);
    let mut seen = Vec::new();
    for mut piece in bytes.chunks(piece.max(1)) {
        loop {
            match decoder.decode(piece) {
                Err(fault) => return (seen, Some(fault)),
                Ok(decoded) => {
                    piece = &piece[decoded.consumed..];
                    match decoded.event {
                        Some(event) => seen.push(event.into()),
                        None => break,
                    }
                }
            }
        }
        assert!(piece.is_empty(), "without an event everything is taken");
    }
    (seen, None)
}

pub(crate) fn frame(fin: bool, opcode: Opcode, key: Option<[u8; 4]>, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_frame(fin, opcode, key, payload, &mut bytes);
    bytes
}
