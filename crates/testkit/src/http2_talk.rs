//! A client that speaks HTTP/2 in clear, over the engine's client role. It can also send frames by hand that no engine would
//! send.

use crate::DEADLINE;
use http2::{Config, Connection, ErrorCode, Event, Head, HeadKind, RequestLine, ResetBy, Role, StreamId};
use socket2::SockRef;
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// What was received on a stream.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    /// 0 before there is a final head.
    pub status: u16,
    /// Fields of the final head.
    pub fields: Vec<(String, String)>,
    /// Interim heads, by status.
    pub interims: Vec<(u16, Vec<(String, String)>)>,
    /// The body so far.
    pub body: Vec<u8>,
    /// The fields behind it.
    pub trailers: Vec<(String, String)>,
    /// The server has ended it.
    pub is_whole: bool,
    /// The server has reset it.
    pub reset: Option<ErrorCode>,
}

impl Answer {
    /// The value of a field of the final head.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// A connection of HTTP/2 to the gateway.
#[derive(Debug)]
pub struct Http2Talk {
    socket: TcpStream,
    engine: Connection,
    head: Head,
    out: Vec<u8>,
    begun: Instant,
    answers: BTreeMap<u32, Answer>,
    /// Bodies are not consumed, so that windows close.
    pub holds_windows: bool,
    /// The last GOAWAY: last stream and code.
    pub goaway: Option<(u32, ErrorCode)>,
    /// GOAWAY frames so far.
    pub goaways: u32,
    pongs: u64,
    is_closed: bool,
}

impl Http2Talk {
    /// A connection with the usual settings.
    pub fn connect(to: SocketAddr) -> Self {
        Self::connect_with(to, Config::default())
    }

    /// A connection with settings of the test's own.
    pub fn connect_with(to: SocketAddr, config: Config) -> Self {
        let socket = TcpStream::connect(to).unwrap();
        socket.set_nodelay(true).unwrap();
        let mut out = Vec::new();
        let engine = Connection::new(Role::Client, config, 0, &mut out);
        let mut talk = Self {
            socket,
            engine,
            head: Head::default(),
            out,
            begun: Instant::now(),
            answers: BTreeMap::new(),
            holds_windows: false,
            goaway: None,
            goaways: 0,
            pongs: 0,
            is_closed: false,
        };
        talk.flush();
        talk
    }

    /// Opens a stream. `end`: there is no body.
    pub fn open(&mut self, method: &str, path: &str, fields: &[(&str, &str)], end: bool) -> u32 {
        self.open_for("", method, path, fields, end)
    }

    /// The same by extended CONNECT, for a protocol (RFC 8441), once the gateway has said that it takes that.
    #[track_caller]
    pub fn connect_for(&mut self, protocol: &str, path: &str, fields: &[(&str, &str)]) -> u32 {
        self.until("the setting of extended CONNECT", |talk| talk.engine.peer_settings().extended_connect);
        self.open_for(protocol, "CONNECT", path, fields, false)
    }

    fn open_for(&mut self, protocol: &str, method: &str, path: &str, fields: &[(&str, &str)], end: bool) -> u32 {
        let authority = fields.iter().find(|(name, _)| *name == ":authority").map_or("a.example", |(_, value)| value);
        let line = RequestLine {
            method: method.as_bytes(),
            scheme: b"http",
            authority: authority.as_bytes(),
            path: path.as_bytes(),
            protocol: protocol.as_bytes(),
        };
        let stream = self.engine.open(&line, end, &mut self.out, |out| {
            for (name, value) in fields.iter().filter(|(name, _)| !name.starts_with(':')) {
                out.add(name.as_bytes(), value.as_bytes()).unwrap();
            }
        });
        let stream = stream.unwrap().0;
        self.answers.insert(stream, Answer::default());
        self.flush();
        stream
    }

    /// A request without a body, and its answer.
    #[track_caller]
    pub fn get(&mut self, path: &str) -> Answer {
        let stream = self.open("GET", path, &[], true);
        self.answer(stream)
    }

    /// Sends a part of a body, as windows let it. Where the server has ended the stream meanwhile, the rest is dropped.
    #[track_caller]
    pub fn send(&mut self, stream: u32, mut bytes: &[u8], end: bool) {
        let begun = Instant::now();
        loop {
            let sent = self.engine.send_data(StreamId(stream), bytes, end, &mut self.out, usize::MAX);
            let (Ok(sent), false) = (sent, self.is_closed) else { return };
            bytes = &bytes[sent..];
            self.flush();
            if bytes.is_empty() {
                return;
            }
            assert!(begun.elapsed() < DEADLINE, "stream {stream} has no window for {} bytes", bytes.len());
            self.step();
            let _ = self.engine.next_turn(usize::MAX);
        }
    }

    /// The same as far as windows let it now; how much that was.
    pub fn send_some(&mut self, stream: u32, bytes: &[u8]) -> usize {
        // Its turn, where a window has opened since.
        let _ = self.engine.next_turn(usize::MAX);
        let sent = self.engine.send_data(StreamId(stream), bytes, false, &mut self.out, usize::MAX).unwrap();
        self.flush();
        sent
    }

    /// Ends a request with trailers.
    pub fn send_trailers(&mut self, stream: u32, fields: &[(&str, &str)]) {
        let sent = self.engine.send_trailers(StreamId(stream), &mut self.out, |out| {
            for (name, value) in fields {
                out.add(name.as_bytes(), value.as_bytes()).unwrap();
            }
        });
        sent.unwrap();
        self.flush();
    }

    /// Resets a stream.
    pub fn reset(&mut self, stream: u32) {
        self.engine.reset(StreamId(stream), ErrorCode::CANCEL, &mut self.out);
        self.flush();
    }

    /// Ends the connection with FIN.
    pub fn close(&mut self) {
        let _ = self.socket.shutdown(Shutdown::Write);
    }

    /// Ends the connection with RST.
    pub fn break_off(self) {
        SockRef::from(&self.socket).set_linger(Some(Duration::ZERO)).unwrap();
    }

    /// Lets more of a body come that was held.
    pub fn take_held(&mut self, stream: u32, bytes: usize) {
        self.engine.consume(StreamId(stream), bytes, &mut self.out);
        self.flush();
    }

    /// Sends bytes past the engine.
    pub fn send_raw(&mut self, bytes: &[u8]) {
        let _ = self.socket.write_all(bytes);
    }

    /// What was received on a stream so far.
    pub fn so_far(&self, stream: u32) -> &Answer {
        &self.answers[&stream]
    }

    /// Waits for the end of a stream.
    #[track_caller]
    pub fn answer(&mut self, stream: u32) -> Answer {
        self.until("the end of a stream", |talk| {
            let answer = &talk.answers[&stream];
            answer.is_whole || answer.reset.is_some() || talk.is_closed
        });
        self.answers[&stream].clone()
    }

    /// Waits until the condition holds.
    #[track_caller]
    pub fn until(&mut self, what: &str, is: impl Fn(&Self) -> bool) {
        let begun = Instant::now();
        while !is(self) {
            assert!(begun.elapsed() < DEADLINE, "no {what}: {self:?}");
            assert!(!self.is_closed, "the connection has ended before {what}: {:?} {:?}", self.goaway, self.answers);
            self.step();
        }
    }

    /// Sends a PING and waits for its answer: the gateway has read all that was sent before.
    #[track_caller]
    pub fn ping(&mut self) {
        let answered = self.pongs + 1;
        self.engine.ping([0; 8], &mut self.out);
        self.flush();
        self.until("the answer to a PING", |talk| talk.pongs == answered);
    }

    /// Waits for the end of the connection.
    #[track_caller]
    pub fn end(&mut self) {
        let begun = Instant::now();
        while !self.is_closed {
            assert!(begun.elapsed() < DEADLINE, "the connection does not end: {self:?}");
            self.step();
        }
    }

    /// Whether the connection has ended.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Reads the available bytes, and waits at most some milliseconds for them.
    pub fn step(&mut self) {
        if self.is_closed {
            return;
        }
        self.socket.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
        let mut buffer = vec![0; 64 * 1024];
        match self.socket.read(&mut buffer) {
            Ok(0) => self.is_closed = true,
            Ok(count) => self.take(&buffer[..count]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => self.is_closed = true,
        }
        self.flush();
    }

    fn take(&mut self, mut bytes: &[u8]) {
        let now = self.begun.elapsed().as_millis() as u64;
        loop {
            let event = self.engine.receive(now, &mut bytes, &mut self.head, &mut self.out);
            let Some(event) = event.unwrap_or_else(|closed| panic!("the gateway breaks HTTP/2: {closed}")) else {
                return;
            };
            match event {
                Event::Head { stream, end } => {
                    let fields = fields_of(&self.head);
                    let (status, is_interim) = (self.head.status, self.head.is_interim());
                    let answer = self.answers.entry(stream.0).or_default();
                    if is_interim {
                        answer.interims.push((status, fields));
                    } else {
                        (answer.status, answer.fields, answer.is_whole) = (status, fields, end);
                    }
                }
                Event::Data { stream, bytes, end } => {
                    let answer = self.answers.entry(stream.0).or_default();
                    answer.body.extend_from_slice(bytes);
                    answer.is_whole |= end;
                    if !self.holds_windows {
                        self.engine.consume(stream, bytes.len(), &mut self.out);
                    }
                }
                Event::Trailers { stream } => {
                    debug_assert_eq!(self.head.kind, HeadKind::Trailers);
                    let fields = fields_of(&self.head);
                    let answer = self.answers.entry(stream.0).or_default();
                    (answer.trailers, answer.is_whole) = (fields, true);
                }
                Event::Reset { stream, by } => {
                    let code = match by {
                        ResetBy::Peer(code) => code,
                        ResetBy::Us(reason) => reason.code(),
                    };
                    self.answers.entry(stream.0).or_default().reset = Some(code);
                }
                Event::GoAway { last, code } => {
                    self.goaway = Some((last.0, code));
                    self.goaways += 1;
                }
                Event::Pong(_) => self.pongs += 1,
                Event::SettingsAcked | Event::PeerSettings => {}
            }
        }
    }

    fn flush(&mut self) {
        // A gateway that has closed the connection is noticed by reading.
        let _ = self.socket.write_all(&self.out);
        self.out.clear();
    }
}

fn fields_of(head: &Head) -> Vec<(String, String)> {
    let text = |span: http1::Span| String::from_utf8_lossy(span.of(&head.bytes)).into_owned();
    head.fields.iter().map(|field| (text(field.name), text(field.value))).collect()
}

/// A frame.
pub fn http2_frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// A header block without the tables: each name and value as they are, up to 126 bytes.
pub fn http2_block(fields: &[(&[u8], &[u8])]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            assert!(text.len() < 127, "a longer text needs another length");
            block.push(text.len() as u8);
            block.extend_from_slice(text);
        }
    }
    block
}
