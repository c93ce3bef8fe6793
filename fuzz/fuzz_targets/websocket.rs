//! WebSocket frames: no panic, the same events in any pieces, and the same result as `tungstenite`, except where ours is
//! stricter on purpose. The first byte chooses which side sent the frames and the length of the pieces.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::io::{Cursor, Read, Write};
use tungstenite::error::ProtocolError;
use tungstenite::protocol::{Role, WebSocketConfig};
use tungstenite::{Message, WebSocket};
use websocket::{CloseCode, Decoder, Event, Fault, Kind, Sender};

/// Longest message, small enough that the bound is met.
const MAX: usize = 512;

#[derive(Debug, PartialEq)]
enum Seen {
    Message(Kind, Vec<u8>),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
    Close(Option<CloseCode>, String),
}

fn ours(sender: Sender, bytes: &[u8], piece: usize) -> (Vec<Seen>, Option<Fault>) {
    let mut decoder = Decoder::new(sender, MAX);
    let mut seen = Vec::new();
    for mut piece in bytes.chunks(piece) {
        loop {
            let decoded = match decoder.decode(piece) {
                Ok(decoded) => decoded,
                Err(fault) => return (seen, Some(fault)),
            };
            piece = &piece[decoded.consumed..];
            seen.push(match decoded.event {
                Some(Event::Message { kind, payload }) => Seen::Message(kind, payload.to_vec()),
                Some(Event::Ping(payload)) => Seen::Ping(payload.to_vec()),
                Some(Event::Pong(payload)) => Seen::Pong(payload.to_vec()),
                Some(Event::Close(code, reason)) => Seen::Close(code, reason.to_owned()),
                None => break,
            });
        }
        assert!(piece.is_empty());
    }
    (seen, None)
}

struct Given(Cursor<Vec<u8>>);

impl Read for Given {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        self.0.read(into)
    }
}

impl Write for Given {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn theirs(sender: Sender, bytes: &[u8]) -> (Vec<Seen>, bool) {
    let role = if sender == Sender::Client { Role::Server } else { Role::Client };
    let config =
        WebSocketConfig::default().max_message_size(Some(MAX)).max_frame_size(Some(MAX)).read_buffer_size(1024);
    let mut socket = WebSocket::from_raw_socket(Given(Cursor::new(bytes.to_vec())), role, Some(config));
    let mut seen = Vec::new();
    loop {
        seen.push(match socket.read() {
            Ok(Message::Text(text)) => Seen::Message(Kind::Text, text.as_bytes().to_vec()),
            Ok(Message::Binary(bytes)) => Seen::Message(Kind::Binary, bytes.to_vec()),
            Ok(Message::Ping(bytes)) => Seen::Ping(bytes.to_vec()),
            Ok(Message::Pong(bytes)) => Seen::Pong(bytes.to_vec()),
            Ok(Message::Close(close)) => {
                let code = close.as_ref().map(|close| CloseCode(close.code.into()));
                seen.push(Seen::Close(code, close.map_or_else(String::new, |close| close.reason.to_string())));
                return (seen, false);
            }
            Err(tungstenite::Error::Protocol(ProtocolError::ResetWithoutClosingHandshake)) => return (seen, false),
            Ok(Message::Frame(_)) | Err(_) => return (seen, true),
        });
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((&choice, bytes)) = input.split_first() else { return };
    let sender = if choice & 1 == 0 { Sender::Server } else { Sender::Client };
    let (ours, fault) = {
        let whole = ours(sender, bytes, usize::MAX);
        assert_eq!(whole, self::ours(sender, bytes, usize::from(choice >> 1).max(1)));
        whole
    };
    let (theirs, refused) = theirs(sender, bytes);
    match fault {
        // Registered later than their list was made.
        None if matches!(ours.last(), Some(Seen::Close(Some(CloseCode(1014)), _))) => {}
        None => assert!(!refused && ours == theirs, "{ours:?} {theirs:?} {refused}"),
        // `tungstenite` checks a text when it is complete, and accepts a length in a long form, even that of a control frame.
        Some(Fault::InvalidUtf8 | Fault::LengthNotMinimal | Fault::LongControl) => {
            assert_eq!(ours[..], theirs[..ours.len()])
        }
        // They hand out the 1002 with which they answer; not where the reason is no text either.
        Some(Fault::InvalidCloseCode(_)) => {
            assert!(theirs.len() <= ours.len() + 1, "{ours:?} {theirs:?}");
            assert_eq!(ours[..], theirs[..ours.len()]);
        }
        // An invalid reason under an invalid code: either is enough.
        Some(_) => assert_eq!(ours, theirs),
    }
});
