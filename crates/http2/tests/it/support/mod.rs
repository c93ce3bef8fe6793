//! Frames by hand, and events that outlive the bytes they came in.

#![expect(dead_code, unreachable_pub, reason = "each test file uses a part of it")]

pub mod server;

use http2::hpack::{Encoder, Indexing};
use http2::{Closed, Config, Connection, Event, Head, Reason, ResetBy, Role, StreamId};

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const PRIORITY: u8 = 2;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PUSH_PROMISE: u8 = 5;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;
pub const PRIORITY_UPDATE: u8 = 16;

pub const END_STREAM: u8 = 1;
pub const ACK: u8 = 1;
pub const END_HEADERS: u8 = 4;
pub const PADDED: u8 = 8;
pub const WITH_PRIORITY: u8 = 0x20;

pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The bytes of a frame.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = u32::try_from(payload.len()).expect("a short payload").to_be_bytes();
    [&len[1..], &[kind, flags], &stream.to_be_bytes()[..], payload].concat()
}

/// Settings as a frame.
pub fn settings(pairs: &[(u16, u32)]) -> Vec<u8> {
    let pair = |&(id, value): &(u16, u32)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat();
    frame(SETTINGS, 0, 0, &pairs.iter().flat_map(pair).collect::<Vec<u8>>())
}

pub fn window_update(stream: u32, increment: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &increment.to_be_bytes())
}

pub fn reset(stream: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &8u32.to_be_bytes())
}

/// A header block without the dynamic table.
pub fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let (mut encoder, mut out) = (Encoder::new(4096), Vec::new());
    encoder.begin(&mut out);
    for (name, value) in fields {
        encoder.field(name.as_bytes(), value.as_bytes(), Indexing::Without, &mut out);
    }
    out
}

pub const GET: [(&str, &str); 4] = [(":method", "GET"), (":scheme", "https"), (":authority", "a.test"), (":path", "/")];
pub const POST: [(&str, &str); 4] =
    [(":method", "POST"), (":scheme", "https"), (":authority", "a.test"), (":path", "/")];

pub fn headers(stream: u32, flags: u8, fields: &[(&str, &str)]) -> Vec<u8> {
    frame(HEADERS, flags | END_HEADERS, stream, &block(fields))
}

/// A whole request without a body.
pub fn get(stream: u32) -> Vec<u8> {
    headers(stream, END_STREAM, &GET)
}

/// The beginning of a request with a body.
pub fn post(stream: u32) -> Vec<u8> {
    headers(stream, 0, &POST)
}

/// An event without its borrow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    Head { stream: u32, end: bool, text: String },
    Data { stream: u32, bytes: Vec<u8>, end: bool },
    Trailers { stream: u32, text: String },
    Reset { stream: u32, by: ResetBy },
    GoAway { last: u32, code: u32 },
    SettingsAcked,
    PeerSettings,
    Pong([u8; 8]),
}

impl Seen {
    pub fn of(event: Event<'_>, head: &Head) -> Self {
        match event {
            Event::Head { stream, end } => Self::Head { stream: stream.0, end, text: text(head) },
            Event::Data { stream, bytes, end } => Self::Data { stream: stream.0, bytes: bytes.to_vec(), end },
            Event::Trailers { stream } => Self::Trailers { stream: stream.0, text: text(head) },
            Event::Reset { stream, by } => Self::Reset { stream: stream.0, by },
            Event::GoAway { last, code } => Self::GoAway { last: last.0, code: code.0 },
            Event::SettingsAcked => Self::SettingsAcked,
            Event::PeerSettings => Self::PeerSettings,
            Event::Pong(payload) => Self::Pong(payload),
        }
    }
}

/// A head as one line: what it asks or answers, and its fields.
pub fn text(head: &Head) -> String {
    let of = |span: http1::Span| String::from_utf8_lossy(span.of(&head.bytes)).into_owned();
    let mut text = match head.kind {
        http2::HeadKind::Request => format!("{} {} {}", of(head.method), of(head.scheme), of(head.path)),
        http2::HeadKind::Response => head.status.to_string(),
        http2::HeadKind::Trailers => "trailers".to_owned(),
    };
    for field in &head.fields {
        text.extend([" | ", &of(field.name), ": ", &of(field.value)]);
    }
    text
}

/// One side, fed with bytes by hand.
pub struct Side {
    pub engine: Connection,
    pub head: Head,
    pub out: Vec<u8>,
    pub now_ms: u64,
}

impl Side {
    pub fn new(role: Role, config: Config) -> Self {
        let mut out = Vec::new();
        let engine = Connection::new(role, config, 0, &mut out);
        Self { engine, head: Head::default(), out, now_ms: 0 }
    }

    /// A server to which a client has said hello; what it answered is forgotten.
    pub fn server() -> Self {
        let mut side = Self::new(Role::Server, Config::default());
        side.greet();
        side
    }

    /// The client's side of a greeting.
    pub fn greet(&mut self) {
        let hello = [PREFACE, &settings(&[]), &frame(SETTINGS, ACK, 0, &[])].concat();
        assert_eq!(self.feed(&hello).expect("a greeting"), [Seen::PeerSettings, Seen::SettingsAcked]);
        self.out.clear();
    }

    /// A client to which a server has said hello.
    pub fn client() -> Self {
        let mut side = Self::new(Role::Client, Config::default());
        let hello = [settings(&[]), frame(SETTINGS, ACK, 0, &[])].concat();
        assert_eq!(side.feed(&hello).expect("a greeting"), [Seen::PeerSettings, Seen::SettingsAcked]);
        side.out.clear();
        side
    }

    pub fn feed(&mut self, bytes: &[u8]) -> Result<Vec<Seen>, Closed> {
        let mut seen = Vec::new();
        self.feed_into(bytes, &mut seen).map(|()| seen)
    }

    pub fn feed_into(&mut self, mut bytes: &[u8], seen: &mut Vec<Seen>) -> Result<(), Closed> {
        while let Some(event) = self.engine.receive(self.now_ms, &mut bytes, &mut self.head, &mut self.out)? {
            seen.push(Seen::of(event, &self.head));
        }
        assert!(bytes.is_empty(), "everything is read");
        Ok(())
    }

    /// Feeds bytes that end the connection, and returns why.
    pub fn fails(&mut self, bytes: &[u8]) -> Reason {
        let closed = self.feed(bytes).expect_err("the connection ends");
        let goaway = frames(&self.out).pop().expect("a GOAWAY");
        assert_eq!(goaway.kind, GOAWAY);
        assert_eq!(goaway.payload[4..8], closed.0.code().0.to_be_bytes());
        assert!(self.engine.is_finished());
        assert_eq!(self.feed(b"anything"), Ok(Vec::new()), "nothing is read any more");
        closed.0
    }

    /// Feeds bytes that reset one stream, and returns why.
    pub fn resets(&mut self, bytes: &[u8]) -> (u32, Reason) {
        let seen = self.feed(bytes).expect("the connection goes on");
        let Some(Seen::Reset { stream, by: ResetBy::Us(reason) }) = seen.last() else { panic!("{seen:?}") };
        let sent = frames(&self.out).pop().expect("a RST_STREAM");
        assert_eq!((sent.kind, sent.stream), (RST_STREAM, *stream));
        assert_eq!(sent.payload, reason.code().0.to_be_bytes());
        assert!(!self.engine.is_open(StreamId(*stream)));
        (*stream, *reason)
    }

    /// The frames that were sent since the last call.
    pub fn sent(&mut self) -> Vec<Frame> {
        frames(&std::mem::take(&mut self.out))
    }
}

/// A frame that was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

/// Takes whole frames apart.
pub fn frames(mut bytes: &[u8]) -> Vec<Frame> {
    bytes = bytes.strip_prefix(PREFACE).unwrap_or(bytes);
    let mut frames = Vec::new();
    while !bytes.is_empty() {
        let len = u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]) as usize;
        let stream = u32::from_be_bytes([bytes[5], bytes[6], bytes[7], bytes[8]]);
        frames.push(Frame { kind: bytes[3], flags: bytes[4], stream, payload: bytes[9..9 + len].to_vec() });
        bytes = &bytes[9 + len..];
    }
    frames
}
