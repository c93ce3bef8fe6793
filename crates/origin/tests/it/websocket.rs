//! WebSocket at the origin: the rows of section W of the catalogue that concern an upstream, and the behaviours that loads
//! use.
#![allow(clippy::unwrap_used)] // a failed step of a conversation is its end

use crate::talk::{Client, DEADLINE, End, start, until};
use origin::{CloseReason, Options, Running};
use websocket::{CloseCode, Decoder, Event, Kind, Opcode, Sender, encode_close, encode_frame};

const FIELDS: &str = "Host: o\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\
                      Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n";
const MASK: [u8; 4] = [1, 2, 3, 4];
const MAX: usize = 32 << 20;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Heard {
    Message(Kind, Vec<u8>),
    Ping,
    Pong(Vec<u8>),
    Close(Option<CloseCode>),
}

/// A WebSocket client.
struct Socket {
    client: Client,
    decoder: Decoder,
}

impl Socket {
    fn open(origin: &Running, target: &str) -> Self {
        let mut client = Client::connect(origin);
        client.send(format!("GET {target} HTTP/1.1\r\n{FIELDS}\r\n"));
        let head = client.head();
        assert_eq!((head.status, head.field("Sec-WebSocket-Accept")), (101, Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")));
        Self { client, decoder: Decoder::new(Sender::Server, MAX) }
    }

    fn send(&mut self, fin: bool, opcode: Opcode, payload: &[u8]) {
        self.client.send(frame(fin, opcode, payload));
    }

    fn text(&mut self, text: &str) {
        self.send(true, Opcode::Text, text.as_bytes());
    }

    fn close(&mut self, code: CloseCode) {
        let mut bytes = Vec::new();
        encode_close(code, "", Some(MASK), &mut bytes);
        self.client.send(bytes);
    }

    /// The next frame or the end from the origin.
    fn read(&mut self) -> Heard {
        loop {
            let byte = self.client.bytes(1);
            let decoded = self.decoder.decode(&byte).unwrap();
            return match decoded.event {
                None => continue,
                Some(Event::Message { kind, payload }) => Heard::Message(kind, payload.to_vec()),
                Some(Event::Ping(_)) => Heard::Ping,
                Some(Event::Pong(payload)) => Heard::Pong(payload.to_vec()),
                Some(Event::Close(code, _)) => Heard::Close(code),
            };
        }
    }

    #[track_caller]
    fn expect_text(&mut self, text: &str) {
        assert_eq!(self.read(), Heard::Message(Kind::Text, text.into()));
    }
}

fn frame(fin: bool, opcode: Opcode, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_frame(fin, opcode, Some(MASK), payload, &mut bytes);
    bytes
}

#[test]
fn w1_w10_invalid_handshakes_get_http_responses() {
    let origin = start(Options::default());
    let mut client = Client::connect(&origin);
    client.get("/websocket/echo");
    let (head, body) = client.response();
    assert_eq!((head.status, head.field("Upgrade")), (426, Some("websocket")));
    assert!(String::from_utf8_lossy(&body).contains("Upgrade: websocket"));
    client.send(format!("GET /websocket/echo HTTP/1.1\r\n{}\r\n", FIELDS.replace("13", "8")));
    let (head, _) = client.response();
    assert_eq!((head.status, head.field("Sec-WebSocket-Version")), (426, Some("13")));
    client.send(format!("GET /websocket/echo HTTP/1.1\r\n{}\r\n", FIELDS.replace("dGhl", "")));
    assert_eq!(client.response().0.status, 400);
    client.send(format!("GET /websocket/elsewhere HTTP/1.1\r\n{FIELDS}\r\n"));
    assert_eq!(client.response().0.status, 400);
    // permessage-deflate is refused by omitting it.
    client.send(format!(
        "GET /websocket/echo HTTP/1.1\r\n{FIELDS}Sec-WebSocket-Extensions: permessage-deflate\r\n\
         Sec-WebSocket-Protocol: chat, other\r\n\r\n"
    ));
    let head = client.head();
    assert_eq!((head.status, head.field("Sec-WebSocket-Extensions")), (101, None));
    assert_eq!(head.field("Sec-WebSocket-Protocol"), Some("chat"));
}

#[test]
fn w2_a_frame_sent_together_with_the_upgrade_is_answered() {
    let origin = start(Options::default());
    let mut client = Client::connect(&origin);
    let mut bytes = format!("GET /websocket/echo HTTP/1.1\r\n{FIELDS}\r\n").into_bytes();
    bytes.extend(frame(true, Opcode::Text, b"early"));
    client.send(bytes);
    assert_eq!(client.head().status, 101);
    assert_eq!(client.bytes(7), b"\x81\x05early");
}

#[test]
fn w3_stalled_client_is_not_read() {
    let origin = start(Options::default());
    let mut socket = Socket::open(&origin, "/websocket/echo");
    let payload = vec![7u8; 100_000];
    let bytes = frame(true, Opcode::Binary, &payload);
    // More than the sockets and the origin's limit can hold; the client does not read until the end.
    let count = 200;
    let mut sending = socket.client.talk.socket().try_clone().unwrap();
    let sender = std::thread::spawn(move || {
        (0..count).for_each(|_| std::io::Write::write_all(&mut sending, &bytes).unwrap());
    });
    until("it has stopped reading", || origin.counts().websocket_messages > 10);
    assert!(origin.counts().websocket_messages < count, "20 MB do not fit into two sockets");
    for _ in 0..count {
        let head = socket.client.bytes(10);
        assert_eq!(head[..2], [0x82, 127]);
        assert!(socket.client.bytes(payload.len()) == payload);
    }
    sender.join().unwrap();
}

#[test]
fn w4_w5_missing_close_frames_are_counted() {
    let origin = start(Options::default());
    let mut fin = Socket::open(&origin, "/websocket/echo");
    fin.text("a");
    fin.expect_text("a");
    fin.client.half_close();
    fin.client.expect_end(End::Fin);
    until("FIN", || origin.counts().closed(CloseReason::WebSocketLost) == 1);
    let mut reset = Socket::open(&origin, "/websocket/echo");
    reset.client.talk.reset();
    until("RST", || origin.counts().closed(CloseReason::ClientReset) == 1);
}

#[test]
fn w6_w7_pings_come_and_silence_is_closed() {
    let origin = start(Options::default());
    let mut idle = Socket::open(&origin, "/websocket/echo?idle=60");
    assert_eq!(idle.read(), Heard::Close(Some(CloseCode::GOING_AWAY)));
    idle.close(CloseCode::GOING_AWAY);
    idle.client.expect_end(End::Fin);
    until("counted", || origin.counts().closed(CloseReason::WebSocketIdle) == 1);
    let mut pinged = Socket::open(&origin, "/websocket/echo?ping=20");
    for _ in 0..3 {
        assert_eq!(pinged.read(), Heard::Ping);
        pinged.send(true, Opcode::Pong, b"");
    }
}

#[test]
fn w9_fragments_and_huge_messages_are_echoed() {
    let origin = start(Options::default());
    let mut socket = Socket::open(&origin, "/websocket/echo");
    socket.send(false, Opcode::Text, b"one ");
    socket.send(true, Opcode::Ping, b"alive?");
    socket.send(true, Opcode::Continuation, b"two");
    assert_eq!(socket.read(), Heard::Pong(b"alive?".to_vec()));
    socket.expect_text("one two");
    let huge = vec![b'x'; 3 << 20];
    socket.send(true, Opcode::Binary, &huge);
    assert_eq!(socket.client.bytes(10)[..2], [0x82, 127]);
    assert!(socket.client.bytes(huge.len()) == huge);
    socket.close(CloseCode::NORMAL);
    assert_eq!(socket.read(), Heard::Close(Some(CloseCode::NORMAL)));
    socket.client.expect_end(End::Fin);
    for (bytes, code) in [
        (&b"\x81\x01a"[..], CloseCode::PROTOCOL_ERROR),
        (&frame(true, Opcode::Text, b"\xff"), CloseCode::INVALID_DATA),
        (b"\x82\xff\0\0\0\0\x02\0\0\0\0\0\0\0", CloseCode::TOO_BIG),
    ] {
        let mut socket = Socket::open(&origin, "/websocket/echo");
        socket.client.send(bytes);
        assert_eq!(socket.read(), Heard::Close(Some(code)));
        // The origin discards everything after this, so that an RST does not destroy the close frame.
        socket.client.send(vec![0; 100_000]);
        socket.client.half_close();
        socket.client.expect_end(End::Fin);
    }
    until("counted", || origin.counts().closed(CloseReason::WebSocketFault) == 3);
    assert_eq!(origin.counts().closed(CloseReason::WebSocketEnd), 1);
}

#[test]
fn message_reaches_the_room_in_all_workers() {
    let origin = start(Options { workers: 3, ..Options::default() });
    let mut members: Vec<Socket> = (0..9).map(|_| Socket::open(&origin, "/websocket/room/a")).collect();
    let mut other = Socket::open(&origin, "/websocket/room/b");
    for index in [0, 4, 8] {
        members[index].text(&format!("from {index}"));
        for member in &mut members {
            member.expect_text(&format!("from {index}"));
        }
    }
    drop(members.pop());
    other.text("alone");
    other.expect_text("alone");
    assert_eq!(origin.counts().websocket_deliveries, 28);
}

#[test]
fn a_member_that_does_not_read_costs_a_bounded_queue() {
    let origin = start(Options::default());
    let mut speaker = Socket::open(&origin, "/websocket/room/a");
    let dropping = Socket::open(&origin, "/websocket/room/a?queue=100000");
    let closing = Socket::open(&origin, "/websocket/room/a?queue=100000&overflow=close");
    let payload = vec![b'x'; 50_000];
    let begun = std::time::Instant::now();
    // The sockets of the two take some megabytes, depending on the system.
    while origin.counts().websocket_drops < 3 {
        assert!(begun.elapsed() < DEADLINE, "{:?}", origin.counts());
        speaker.send(true, Opcode::Binary, &payload);
        let head = speaker.client.bytes(4);
        assert_eq!(head[..2], [0x82, 126]);
        assert!(speaker.client.bytes(payload.len()) == payload);
    }
    drop((dropping, closing));
    until("both have ended", || origin.counts().connections_open == 1);
}

#[test]
fn a_close_code_can_be_asked_for() {
    let origin = start(Options::default());
    let mut socket = Socket::open(&origin, "/websocket/echo?close=4001&after=2");
    socket.text("1");
    socket.expect_text("1");
    socket.text("2");
    socket.expect_text("2");
    assert_eq!(socket.read(), Heard::Close(Some(CloseCode(4001))));
    let mut at_once = Socket::open(&origin, "/websocket/echo?close=1013");
    assert_eq!(at_once.read(), Heard::Close(Some(CloseCode::TRY_AGAIN)));
    let mut client = Client::connect(&origin);
    client.send(format!("GET /websocket/echo?close=1005 HTTP/1.1\r\n{FIELDS}\r\n"));
    assert_eq!(client.response().0.status, 400);
}

#[test]
fn slow_reader_reads_slowly_and_a_stuck_one_never() {
    let origin = start(Options::default());
    let mut slow = Socket::open(&origin, "/websocket/echo?read=4&every=5");
    slow.text("piece by piece");
    slow.expect_text("piece by piece");
    let mut never = Socket::open(&origin, "/websocket/echo?read=never");
    never.text("unheard");
    slow.text("heard");
    slow.expect_text("heard");
    assert_eq!(origin.counts().websocket_messages, 2);
}
