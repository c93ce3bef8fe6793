//! An upstream that speaks HTTP/2 in clear, over the engine's server role. Its script chooses the answers and may send frames by hand.

use crate::{DEADLINE, Talk};
use http2::{Config, Connection, ErrorCode, Event, Head, ResetBy, Role, StreamId};
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read as _};
use std::time::{Duration, Instant};

/// The header of a PING that is no answer.
const PING_HEADER: [u8; 9] = [0, 0, 8, 6, 0, 0, 0, 0, 0];

/// A SETTINGS frame that acknowledges.
const SETTINGS_ACK: [u8; 9] = [0, 0, 0, 4, 1, 0, 0, 0, 0];

/// What was received of a request.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    /// `:method`
    pub method: String,
    /// `:scheme`
    pub scheme: String,
    /// `:authority`
    pub authority: String,
    /// `:path`
    pub path: String,
    /// The other fields.
    pub fields: Vec<(String, String)>,
    /// The body so far.
    pub body: Vec<u8>,
    /// The fields behind it.
    pub trailers: Vec<(String, String)>,
    /// The client has ended it.
    pub is_whole: bool,
    /// The client has reset it.
    pub reset: Option<ErrorCode>,
}

impl Asked {
    /// The value of a field.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// A connection of HTTP/2 that the gateway has opened.
#[derive(Debug)]
pub struct Http2Service {
    talk: Talk,
    engine: Connection,
    head: Head,
    out: Vec<u8>,
    begun: Instant,
    asked: BTreeMap<u32, Asked>,
    /// The last stream that [`Self::request`] gave.
    given: u32,
    /// Bodies are not consumed, so that windows close.
    pub holds_windows: bool,
    /// The gateway has sent GOAWAY.
    pub goaway: Option<ErrorCode>,
    /// PINGs of the gateway so far.
    pub pings: u32,
    /// Its answers to PINGs.
    pub pongs: u32,
    is_acked: bool,
    /// An acknowledgement of settings is not for the engine.
    awaits_ack: bool,
    is_closed: bool,
}

impl Http2Service {
    /// With the usual settings.
    pub fn new(talk: Talk) -> Self {
        Self::with(talk, Config::default())
    }

    /// With settings of the test's own.
    pub fn with(talk: Talk, config: Config) -> Self {
        talk.socket().set_nodelay(true).unwrap();
        let mut out = Vec::new();
        let engine = Connection::new(Role::Server, config, 0, &mut out);
        let mut service = Self {
            talk,
            engine,
            head: Head::default(),
            out,
            begun: Instant::now(),
            asked: BTreeMap::new(),
            given: 0,
            holds_windows: false,
            goaway: None,
            pings: 0,
            pongs: 0,
            is_acked: false,
            awaits_ack: false,
            is_closed: false,
        };
        service.flush();
        service
    }

    /// Which connection of its peer it is.
    pub fn serial(&self) -> usize {
        self.talk.serial()
    }

    /// Waits for the head of the next request. `None`: the connection has ended.
    pub fn request(&mut self) -> Option<u32> {
        let begun = Instant::now();
        loop {
            if let Some((&stream, _)) = self.asked.range(self.given + 1..).next() {
                self.given = stream;
                return Some(stream);
            }
            if self.is_closed || begun.elapsed() > DEADLINE {
                return None;
            }
            self.step();
        }
    }

    /// A request with a head that was already received.
    pub fn next_request(&mut self) -> Option<u32> {
        let (&stream, _) = self.asked.range(self.given + 1..).next()?;
        self.given = stream;
        Some(stream)
    }

    /// The same with its whole body.
    #[track_caller]
    pub fn whole_request(&mut self) -> Option<(u32, Asked)> {
        let stream = self.request()?;
        self.until("the end of a request", |service| {
            let asked = &service.asked[&stream];
            asked.is_whole || asked.reset.is_some() || service.is_closed
        });
        Some((stream, self.asked[&stream].clone()))
    }

    /// What was received of a request so far.
    pub fn so_far(&self, stream: u32) -> &Asked {
        &self.asked[&stream]
    }

    /// Sends a head.
    pub fn respond(&mut self, stream: u32, status: u16, fields: &[(&str, &str)], end: bool) {
        let _ = self.engine.respond(StreamId(stream), status, end, &mut self.out, |out| {
            for (name, value) in fields {
                out.add(name.as_bytes(), value.as_bytes()).unwrap();
            }
        });
        self.flush();
    }

    /// Sends a head and a body.
    pub fn answer(&mut self, stream: u32, body: &str) {
        self.respond(stream, 200, &[("content-length", &body.len().to_string())], body.is_empty());
        if !body.is_empty() {
            self.send(stream, body.as_bytes(), true);
        }
    }

    /// Sends a part of a body, as windows allow. If the stream ends, the rest is dropped.
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
        let _ = self.engine.next_turn(usize::MAX);
        let sent = self.engine.send_data(StreamId(stream), bytes, false, &mut self.out, usize::MAX).unwrap_or(0);
        self.flush();
        sent
    }

    /// Ends a response with trailers.
    pub fn send_trailers(&mut self, stream: u32, fields: &[(&str, &str)]) {
        let _ = self.engine.send_trailers(StreamId(stream), &mut self.out, |out| {
            for (name, value) in fields {
                out.add(name.as_bytes(), value.as_bytes()).unwrap();
            }
        });
        self.flush();
    }

    /// Resets a stream.
    pub fn reset(&mut self, stream: u32, code: ErrorCode) {
        self.engine.reset(StreamId(stream), code, &mut self.out);
        self.flush();
    }

    /// Sends GOAWAY with this stream as the last one that was processed.
    pub fn go_away(&mut self, last: u32, code: ErrorCode) {
        let mut payload = last.to_be_bytes().to_vec();
        payload.extend(code.0.to_be_bytes());
        self.send_raw(&crate::http2_frame(7, 0, 0, &payload));
    }

    /// Makes the window of a stream larger.
    pub fn grow_window(&mut self, stream: u32, bytes: u32) {
        self.engine.grow_window(StreamId(stream), bytes, &mut self.out);
        self.flush();
    }

    /// Changes a setting in the middle of a connection, of which the engine does not know. The acknowledgement is waited for.
    #[track_caller]
    pub fn change_setting(&mut self, id: u16, value: u32) {
        let mut payload = id.to_be_bytes().to_vec();
        payload.extend(value.to_be_bytes());
        self.until("the acknowledgement of the first settings", |service| service.is_acked);
        self.send_raw(&crate::http2_frame(4, 0, 0, &payload));
        self.awaits_ack = true;
        self.until("the acknowledgement of a setting", |service| !service.awaits_ack);
    }

    /// Lets more of a body come that was held.
    pub fn take_held(&mut self, stream: u32, bytes: usize) {
        self.engine.consume(StreamId(stream), bytes, &mut self.out);
        self.flush();
    }

    /// Sends bytes past the engine.
    pub fn send_raw(&mut self, bytes: &[u8]) {
        self.talk.send(bytes);
    }

    /// Ends the connection with a FIN.
    pub fn close(mut self) {
        self.talk.close();
    }

    /// Ends the connection with a RST.
    pub fn abort(mut self) {
        self.talk.reset();
    }

    /// Waits until the condition holds.
    #[track_caller]
    pub fn until(&mut self, what: &str, is: impl Fn(&Self) -> bool) {
        let begun = Instant::now();
        while !is(self) {
            assert!(begun.elapsed() < DEADLINE, "no {what}: {self:?}");
            assert!(!self.is_closed, "the connection has ended before {what}: {:?}", self.asked);
            self.step();
        }
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

    /// Whether the gateway has ended the connection.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Takes in what comes and answers nothing, until the gateway ends the connection.
    pub fn until_gone(&mut self) {
        let begun = Instant::now();
        let mut socket = self.talk.socket();
        socket.set_read_timeout(Some(DEADLINE)).unwrap();
        let mut buffer = vec![0; 4096];
        while begun.elapsed() < DEADLINE && !matches!(socket.read(&mut buffer), Ok(0) | Err(_)) {}
    }

    /// Reads the available bytes, and waits at most some milliseconds for them.
    pub fn step(&mut self) {
        if self.is_closed {
            return;
        }
        let mut socket = self.talk.socket();
        socket.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
        let mut buffer = vec![0; 64 * 1024];
        match socket.read(&mut buffer) {
            Ok(0) => self.is_closed = true,
            Ok(count) => self.take(&buffer[..count]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => self.is_closed = true,
        }
        self.flush();
    }

    fn take(&mut self, received: &[u8]) {
        let without_ack;
        let mut bytes = received;
        if self.awaits_ack
            && let Some(at) = bytes.windows(9).position(|header| header == SETTINGS_ACK)
        {
            self.awaits_ack = false;
            without_ack = [&bytes[..at], &bytes[at + 9..]].concat();
            bytes = &without_ack;
        }
        // The engine answers them itself.
        self.pings += bytes.windows(9).filter(|header| header[..] == PING_HEADER).count() as u32;
        let now = self.begun.elapsed().as_millis() as u64;
        loop {
            let event = self.engine.receive(now, &mut bytes, &mut self.head, &mut self.out);
            let Some(event) = event.unwrap_or_else(|closed| panic!("the gateway breaks HTTP/2: {closed}")) else {
                return;
            };
            match event {
                Event::Head { stream, end } => {
                    let asked = Asked { is_whole: end, ..asked_of(&self.head) };
                    self.asked.insert(stream.0, asked);
                }
                Event::Data { stream, bytes, end } => {
                    let asked = self.asked.entry(stream.0).or_default();
                    asked.body.extend_from_slice(bytes);
                    asked.is_whole |= end;
                    if !self.holds_windows {
                        self.engine.consume(stream, bytes.len(), &mut self.out);
                    }
                }
                Event::Trailers { stream } => {
                    let trailers = asked_of(&self.head).fields;
                    let asked = self.asked.entry(stream.0).or_default();
                    (asked.trailers, asked.is_whole) = (trailers, true);
                }
                Event::Reset { stream, by } => {
                    let code = match by {
                        ResetBy::Peer(code) => code,
                        ResetBy::Us(reason) => panic!("the gateway breaks HTTP/2 on stream {stream}: {reason}"),
                    };
                    self.asked.entry(stream.0).or_default().reset = Some(code);
                }
                Event::GoAway { code, .. } => self.goaway = Some(code),
                Event::Pong(_) => self.pongs += 1,
                Event::SettingsAcked => self.is_acked = true,
                Event::PeerSettings => {}
            }
        }
    }

    fn flush(&mut self) {
        self.talk.send(&self.out);
        self.out.clear();
    }
}

fn asked_of(head: &Head) -> Asked {
    let text = |span: http1::Span| String::from_utf8_lossy(span.of(&head.bytes)).into_owned();
    let fields = head.fields.iter().map(|field| (text(field.name), text(field.value)));
    Asked {
        method: text(head.method),
        scheme: text(head.scheme),
        authority: head.authority.map(text).unwrap_or_default(),
        path: text(head.path),
        // The engine makes a Host field of `:authority`.
        fields: fields.filter(|(name, _)| name != "host").collect(),
        ..Asked::default()
    }
}
