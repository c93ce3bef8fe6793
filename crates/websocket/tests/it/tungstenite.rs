//! Another opinion: the same bytes to `tungstenite` and to us, in both roles, frames and handshakes. The few differences are
//! ours by intent and are here by name.
#![allow(clippy::unwrap_used)] // a failed step of a conversation is its end

use crate::support::{Seen, decode, frame};
use http1::{Limits, Parse, RequestHead, RequestKind, ResponseHead};
use proptest::prelude::*;
use std::io::{Cursor, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;
use tungstenite::protocol::{Role, WebSocketConfig};
use tungstenite::{Message, WebSocket};
use websocket::handshake::{self, Key};
use websocket::{CloseCode, Fault, Kind, Opcode, Sender, encode_close};

const MAX: usize = 1 << 20;

/// Bytes to read; what is written goes nowhere.
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

fn config() -> WebSocketConfig {
    WebSocketConfig::default().max_message_size(Some(MAX)).max_frame_size(Some(MAX))
}

/// What tungstenite makes of them, up to the close frame; and whether it refused something.
fn theirs(sender: Sender, bytes: &[u8]) -> (Vec<Seen>, bool) {
    let role = if sender == Sender::Client { Role::Server } else { Role::Client };
    let mut socket = WebSocket::from_raw_socket(Given(Cursor::new(bytes.to_vec())), role, Some(config()));
    let mut seen = Vec::new();
    loop {
        match socket.read() {
            Ok(Message::Text(text)) => seen.push(Seen::Message(Kind::Text, text.as_bytes().to_vec())),
            Ok(Message::Binary(bytes)) => seen.push(Seen::Message(Kind::Binary, bytes.to_vec())),
            Ok(Message::Ping(bytes)) => seen.push(Seen::Ping(bytes.to_vec())),
            Ok(Message::Pong(bytes)) => seen.push(Seen::Pong(bytes.to_vec())),
            Ok(Message::Close(close)) => {
                let code = close.as_ref().map(|close| CloseCode(close.code.into()));
                seen.push(Seen::Close(code, close.map_or_else(String::new, |close| close.reason.to_string())));
                return (seen, false);
            }
            Ok(Message::Frame(_)) => unreachable!("reading gives messages"),
            // The end of the bytes.
            Err(tungstenite::Error::Protocol(tungstenite::error::ProtocolError::ResetWithoutClosingHandshake)) => {
                return (seen, false);
            }
            Err(_) => return (seen, true),
        }
    }
}

/// The same from both; or ours is the stricter one, for a reason that is listed.
fn compare(sender: Sender, bytes: &[u8]) -> Result<(), TestCaseError> {
    let (ours, fault) = decode(sender, MAX, bytes, usize::MAX);
    let (mut theirs, refused) = theirs(sender, bytes);
    match fault {
        Some(_) if theirs == ours => {}
        // They look at a text when it is complete, so that control frames inside of it come first; and they do not mind a
        // length in a long form.
        Some(Fault::InvalidUtf8 | Fault::LengthNotMinimal) => prop_assert_eq!(&ours[..], &theirs[..ours.len()]),
        // They answer such a code with 1002, as we do, and hand that out.
        Some(Fault::InvalidCloseCode(_)) => {
            theirs.pop();
            prop_assert_eq!(ours, theirs);
        }
        Some(fault) => return Err(TestCaseError::fail(format!("{fault}: {ours:?} {theirs:?}"))),
        None => {
            prop_assert!(!refused, "they refuse {bytes:x?}, we had {ours:?}");
            prop_assert_eq!(ours, theirs);
        }
    }
    Ok(())
}

/// Frames that are mostly in order, so that more than the first head is looked at.
fn frames(sender: Sender) -> impl Strategy<Value = Vec<u8>> {
    let payload = prop_oneof![prop::collection::vec(any::<u8>(), 0..140), "\\PC{0,20}".prop_map(String::into_bytes)];
    let opcode = prop_oneof![8 => 0u8..3, 2 => 8u8..11, 1 => 0u8..16];
    let one = (prop::bool::weighted(0.7), opcode, payload, prop::bool::weighted(0.03), any::<[u8; 4]>());
    let one = one.prop_map(move |(fin, opcode, payload, unusual, key)| {
        let masked = (sender == Sender::Client) != unusual;
        let mut bytes = frame(true, Opcode::Binary, masked.then_some(key), &payload);
        bytes[0] = opcode | if fin { 0x80 } else { 0 } | if unusual { 0x10 } else { 0 };
        bytes
    });
    prop::collection::vec(one, 0..6).prop_map(|frames| frames.concat())
}

proptest! {
    #[test]
    fn a_clients_frames_mean_the_same(bytes in frames(Sender::Client)) {
        compare(Sender::Client, &bytes)?;
    }

    #[test]
    fn a_servers_frames_mean_the_same(bytes in frames(Sender::Server)) {
        compare(Sender::Server, &bytes)?;
    }

    #[test]
    fn any_bytes_mean_the_same(bytes: Vec<u8>, client: bool) {
        compare(if client { Sender::Client } else { Sender::Server }, &bytes)?;
    }

    #[test]
    fn every_close_code_means_the_same(code: u16, reason in "\\PC{0,20}") {
        let payload = [&code.to_be_bytes(), reason.as_bytes()].concat();
        let bytes = frame(true, Opcode::Close, None, &payload);
        let (ours, fault) = decode(Sender::Server, MAX, &bytes, usize::MAX);
        let (theirs, _) = theirs(Sender::Server, &bytes);
        match fault {
            // 1014 (bad gateway) came into IANA's registry later.
            None if code == 1014 => {}
            None => prop_assert_eq!(ours, theirs),
            Some(_) => prop_assert_eq!(theirs, vec![Seen::Close(Some(CloseCode(1002)), "Protocol violation".to_owned())]),
        }
    }
}

fn read_head(stream: &mut TcpStream) -> Vec<u8> {
    let mut head = Vec::new();
    let mut byte = [0; 1];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    head
}

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    for stream in [&client, &server] {
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    }
    (client, server)
}

/// Reads until as many events have come.
fn read_events(stream: &mut TcpStream, sender: Sender, count: usize) -> Vec<Seen> {
    let (mut bytes, mut more) = (Vec::new(), [0; 4096]);
    loop {
        let (seen, fault) = decode(sender, MAX, &bytes, usize::MAX);
        assert_eq!(fault, None);
        if seen.len() >= count {
            return seen;
        }
        let count = stream.read(&mut more).unwrap();
        assert!(count > 0, "the end after {seen:?}");
        bytes.extend_from_slice(&more[..count]);
    }
}

#[test]
fn our_client_talks_to_their_server() {
    let (mut client, server) = pair();
    let echo = std::thread::spawn(move || {
        let mut socket = tungstenite::accept(server).unwrap();
        let message = socket.read().unwrap();
        socket.send(message).unwrap();
        while socket.read().is_ok() {}
    });
    let key = Key::new(*b"sixteen bytes ok");
    let mut request = Vec::new();
    handshake::encode_request(b"/chat", b"127.0.0.1", &key, b"", &mut request);
    client.write_all(&request).unwrap();
    let bytes = read_head(&mut client);
    let mut head = ResponseHead::default();
    let parsed = http1::response::parse(&bytes, &Limits::response(4096), RequestKind::Other, &mut head).unwrap();
    assert_eq!(parsed, Parse::Complete { len: bytes.len() });
    assert_eq!(handshake::check_response(&head, &bytes, &key, &[]).unwrap().protocol, None);
    client.write_all(&frame(true, Opcode::Text, Some([1, 2, 3, 4]), "grüß".as_bytes())).unwrap();
    assert_eq!(read_events(&mut client, Sender::Server, 1), [Seen::Message(Kind::Text, "grüß".into())]);
    let mut close = Vec::new();
    encode_close(CloseCode::NORMAL, "", Some([9, 9, 9, 9]), &mut close);
    client.write_all(&close).unwrap();
    assert_eq!(read_events(&mut client, Sender::Server, 1), [Seen::Close(Some(CloseCode::NORMAL), String::new())]);
    echo.join().unwrap();
}

#[test]
fn their_client_talks_to_our_server() {
    let (client, mut server) = pair();
    let their = std::thread::spawn(move || {
        let (mut socket, _) = tungstenite::client("ws://127.0.0.1/chat", client).unwrap();
        socket.send(Message::binary(vec![7; 70_000])).unwrap();
        let answer = socket.read().unwrap();
        socket.close(None).unwrap();
        while socket.read().is_ok() {}
        answer
    });
    let bytes = read_head(&mut server);
    let mut head = RequestHead::default();
    http1::request::parse(&bytes, &Limits::default(), &mut head).unwrap();
    let asked = handshake::check_request(&head, &bytes).unwrap();
    let mut answer = b"HTTP/1.1 101 Switching Protocols\r\n".to_vec();
    handshake::encode_response_fields(&asked.key, None, &mut answer);
    answer.extend_from_slice(b"\r\n");
    server.write_all(&answer).unwrap();
    assert_eq!(read_events(&mut server, Sender::Client, 1), [Seen::Message(Kind::Binary, vec![7; 70_000])]);
    server.write_all(&frame(true, Opcode::Text, None, b"thanks")).unwrap();
    assert_eq!(read_events(&mut server, Sender::Client, 1), [Seen::Close(None, String::new())]);
    server.write_all(&frame(true, Opcode::Close, None, b"")).unwrap();
    drop(server);
    assert_eq!(their.join().unwrap(), Message::text("thanks"));
}
