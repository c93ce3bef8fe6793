//! One end of a TCP connection that a test controls: it sends bytes, expects bytes, and ends the connection the way the test
//! wants. Clients and the connections of a [`crate::Peer`] use the same type.

use crate::message::{Framing, Message, Request, Response, parse_fields};
use crate::secured::Secured;
use crate::{DEADLINE, Signal};
use socket2::{Domain, SockRef, Socket, Type};
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tls::{ClientSide, Session, TlsError};

/// A blocked read looks this often whether the test is over.
const SLICE: Duration = Duration::from_millis(50);
/// A receiver that has taken nothing for this long counts as not reading, so that a test of back-pressure can end. It is far
/// longer than a busy machine lets a gateway wait between two reads; otherwise buffers with room would count as full.
const STUCK: Duration = Duration::from_millis(1500);

/// Between two requests a connection is idle for as long as the test is busy elsewhere, which takes a busy machine more than one
/// step's time. Longer than any test.
const IDLE_MAX: Duration = Duration::from_mins(10);

/// How a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The other side sent FIN after all of its bytes.
    Fin,
    /// RST: the connection broke.
    Reset,
}

/// What a wait brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Came {
    /// At least a byte.
    Bytes(Vec<u8>),
    /// The connection has ended.
    End,
    /// Neither, as long as the wait was.
    Nothing,
}

/// All bytes received on one connection, and the messages that were parsed from them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Record {
    pub(crate) bytes: Arc<Mutex<Vec<u8>>>,
    pub(crate) requests: Arc<Mutex<Vec<(usize, Request)>>>,
    /// The test is over: no thread listens any more.
    pub(crate) over: Arc<AtomicBool>,
}

/// One end of a connection.
#[derive(Debug)]
pub struct Talk {
    /// `None` once it was closed from here.
    stream: Option<TcpStream>,
    /// Received and not yet asked for.
    pending: Vec<u8>,
    ended: Option<End>,
    serial: usize,
    record: Record,
    secured: Option<Box<Secured>>,
}

impl Talk {
    /// Connects to an address, and shakes hands with the server of this name there.
    pub fn connect_secure(to: SocketAddr, side: &ClientSide, name: &str) -> Result<Self, TlsError> {
        let stream = TcpStream::connect_timeout(&to, DEADLINE).unwrap();
        let mut talk = Self::new(stream, 0, Record::default());
        talk.secure(Session::client(side, name).unwrap())?;
        Ok(talk)
    }

    /// A conversation that the other side has ended before the first word.
    pub(crate) fn refused() -> Self {
        Self {
            stream: None,
            pending: Vec::new(),
            ended: Some(End::Fin),
            serial: 0,
            record: Record::default(),
            secured: None,
        }
    }

    /// Shakes hands on this connection. What comes is understood under TLS from then on.
    pub fn secure(&mut self, session: Session) -> Result<(), TlsError> {
        let mut secured = Box::new(Secured::new(session));
        let received = std::mem::take(&mut self.pending);
        let mut plain = Vec::new();
        secured.shake_hands(self.socket(), received, &mut plain)?;
        self.pending = plain;
        self.secured = Some(secured);
        Ok(())
    }

    /// What TLS knows of this connection; a test that asks speaks TLS.
    pub fn session(&self) -> &Session {
        self.secured.as_ref().expect("the conversation is in clear").session()
    }

    /// Connects to an address.
    pub fn connect(to: SocketAddr) -> Self {
        Self::of(TcpStream::connect_timeout(&to, DEADLINE).unwrap())
    }

    /// A connection that was opened elsewhere.
    pub fn of(stream: TcpStream) -> Self {
        Self::new(stream, 0, Record::default())
    }

    /// Connects from an address of the loopback network.
    pub fn connect_from(from: Ipv4Addr, to: SocketAddr) -> Self {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from((from, 0)).into()).unwrap();
        socket.connect_timeout(&to.into(), DEADLINE).unwrap();
        Self::of(socket.into())
    }

    pub(crate) fn new(stream: TcpStream, serial: usize, record: Record) -> Self {
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(SLICE)).unwrap();
        stream.set_write_timeout(Some(DEADLINE)).unwrap();
        Self { stream: Some(stream), pending: Vec::new(), ended: None, serial, record, secured: None }
    }

    /// The number of this connection among those that a peer accepted, from 0.
    pub fn serial(&self) -> usize {
        self.serial
    }

    /// How many requests were read whole on this connection.
    pub fn requests_here(&self) -> usize {
        let requests = self.record.requests.lock().unwrap_or_else(PoisonError::into_inner);
        requests.iter().filter(|(serial, _)| *serial == self.serial).count()
    }

    /// The address of this end.
    pub fn address(&self) -> SocketAddr {
        self.socket().local_addr().unwrap()
    }

    /// The kernel's receive buffer, in bytes, made small or large. Only what comes later is bounded by it.
    pub fn receive_buffer(&self, bytes: usize) {
        SockRef::from(self.socket()).set_recv_buffer_size(bytes).unwrap();
    }

    /// The socket of this end, for what has to be sent while something else is awaited.
    pub fn socket(&self) -> &TcpStream {
        self.stream.as_ref().expect("the conversation was ended from here already")
    }

    /// Sends bytes. A broken connection is not an error here; the test sees it in what it receives.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let sealed = self.secured.as_mut().map(|secured| secured.seal(bytes.as_ref()));
        let _ = self.socket().write_all(sealed.as_deref().unwrap_or(bytes.as_ref()));
    }

    /// Sends a GET without a body, with further field lines, each with its line end.
    pub fn send_get(&mut self, target: &str, fields: &str) {
        self.send_ask_of("a", target, fields);
    }

    /// The same for a host.
    pub fn send_ask_of(&mut self, host: &str, target: &str, fields: &str) {
        self.send(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n"));
    }

    /// The same, and its response.
    #[track_caller]
    pub fn ask_of(&mut self, host: &str, target: &str, fields: &str) -> Response {
        self.send_ask_of(host, target, fields);
        self.response()
    }

    /// The same, and its response.
    #[track_caller]
    pub fn get(&mut self, target: &str, fields: &str) -> Response {
        self.send_get(target, fields);
        self.response()
    }

    /// Sends bytes, each in a segment of its own.
    pub fn send_bytewise(&mut self, bytes: impl AsRef<[u8]>) {
        for byte in bytes.as_ref() {
            self.send([*byte]);
        }
    }

    /// Sends bytes in the given pieces.
    pub fn send_pieces<'a>(&mut self, pieces: impl IntoIterator<Item = &'a [u8]>) {
        for piece in pieces {
            self.send(piece);
        }
    }

    /// Sends up to `most` bytes to a peer that may not read. Returns the number that went into the kernel until nothing went for
    /// a while.
    pub fn flood(&mut self, most: usize) -> usize {
        let (taken, ended) = self.pour(most, STUCK);
        assert_eq!(ended, None, "the connection broke after {taken} bytes");
        taken
    }

    /// Sends up to `most` bytes to a peer that ends the connection before that. Returns the number that went into the kernel.
    #[track_caller]
    pub fn flood_until_the_end(&mut self, most: usize) -> usize {
        let (taken, ended) = self.pour(most, DEADLINE);
        assert!(ended.is_some(), "{taken} bytes were taken, and the connection goes on");
        taken
    }

    /// Sends up to `most` bytes, until nothing has gone for this long or the connection has ended.
    fn pour(&mut self, most: usize, patience: Duration) -> (usize, Option<io::ErrorKind>) {
        if self.secured.is_some() {
            return self.pour_records(most, patience);
        }
        let socket = self.socket();
        socket.set_write_timeout(Some(patience)).unwrap();
        let chunk = [b'x'; 16 * 1024];
        let mut taken = 0;
        while taken < most {
            let rest = chunk.len().min(most - taken);
            match { socket }.write(&chunk[..rest]) {
                Ok(count) => taken += count,
                Err(error) if is_timeout(&error) => break,
                Err(error) => return (taken, Some(error.kind())),
            }
        }
        socket.set_write_timeout(Some(DEADLINE)).unwrap();
        (taken, None)
    }

    /// The same under TLS. A record of which a part went is counted: the next words bring the rest.
    fn pour_records(&mut self, most: usize, patience: Duration) -> (usize, Option<io::ErrorKind>) {
        let chunk = [b'x'; 16 * 1024];
        let (mut taken, mut ended) = (0, None);
        self.socket().set_write_timeout(Some(patience)).unwrap();
        while taken < most && ended.is_none() {
            let count = chunk.len().min(most - taken);
            let (Some(secured), Some(mut socket)) = (&mut self.secured, self.stream.as_ref()) else { break };
            let sealed = secured.seal(&chunk[..count]);
            taken += count;
            let mut sent = 0;
            while sent < sealed.len() {
                match socket.write(&sealed[sent..]) {
                    Ok(count) => sent += count,
                    Err(error) if is_timeout(&error) => break,
                    Err(error) => {
                        ended = Some(error.kind());
                        break;
                    }
                }
            }
            if sent < sealed.len() {
                secured.keep(&sealed[sent..]);
                break;
            }
        }
        self.socket().set_write_timeout(Some(DEADLINE)).unwrap();
        (taken, ended)
    }

    /// Sends FIN and goes on listening.
    pub fn half_close(&mut self) {
        self.send_close_notify();
        let _ = self.socket().shutdown(Shutdown::Write);
    }

    /// Sends `close_notify` without a FIN and goes on listening: under TLS 1.3 it ends this direction only.
    pub fn end_session(&mut self) {
        self.send_close_notify();
    }

    /// Ends the connection with RST.
    pub fn reset(&mut self) {
        if let Some(stream) = self.stream.take() {
            SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
        }
    }

    /// Ends the connection with FIN.
    pub fn close(&mut self) {
        self.send_close_notify();
        self.stream = None;
    }

    /// Under TLS `close_notify` comes before the FIN.
    fn send_close_notify(&mut self) {
        if let (Some(secured), Some(mut stream)) = (&mut self.secured, self.stream.as_ref()) {
            let _ = stream.write_all(&secured.close());
        }
    }

    /// Waits for a signal before the script goes on.
    #[track_caller]
    pub fn wait(&self, signal: &Signal) {
        signal.wait();
    }

    /// Receives once; `false`: nothing more comes.
    #[track_caller]
    fn receive(&mut self) -> bool {
        self.receive_within(DEADLINE)
    }

    #[track_caller]
    fn receive_within(&mut self, at_most: Duration) -> bool {
        let begun = Instant::now();
        while self.ended.is_none() {
            match self.receive_once() {
                Ok(true) => return true,
                Ok(false) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_timeout(&error) => {
                    if self.record.over.load(Ordering::Acquire) {
                        self.ended = Some(End::Fin);
                    }
                    assert!(
                        begun.elapsed() < at_most,
                        "nothing came in {at_most:?}; before that: {}",
                        self.pending.escape_ascii()
                    );
                }
                Err(_) => self.ended = Some(End::Reset),
            }
        }
        false
    }

    /// One read; `false`: it brought no data, or the connection has ended.
    fn receive_once(&mut self) -> io::Result<bool> {
        let mut buffer = [0; 16 * 1024];
        let count = { self.socket() }.read(&mut buffer)?;
        if count == 0 {
            self.ended = Some(self.secured.as_ref().map_or(End::Fin, |secured| secured.end()));
            return Ok(false);
        }
        let mut plain = Vec::new();
        let bytes = match &mut self.secured {
            None => buffer.get(..count).unwrap_or_default(),
            Some(secured) => {
                if !secured.open(buffer.get_mut(..count).unwrap_or_default(), &mut plain) {
                    self.ended = Some(End::Reset);
                }
                plain.as_slice()
            }
        };
        self.pending.extend_from_slice(bytes);
        self.record.bytes.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(!bytes.is_empty())
    }

    /// What has come, at least a byte; `None` at the end.
    #[track_caller]
    pub fn whatever_came(&mut self) -> Option<Vec<u8>> {
        if self.pending.is_empty() && !self.receive() {
            return None;
        }
        Some(std::mem::take(&mut self.pending))
    }

    /// What comes within this time, or has come: for a client that observes silence and ends alike.
    pub fn came_within(&mut self, patience: Duration) -> Came {
        if !self.receives_records_within(patience) {
            return Came::Nothing;
        }
        if self.pending.is_empty() { Came::End } else { Came::Bytes(std::mem::take(&mut self.pending)) }
    }

    /// Neither reads nor sends until the test is over.
    #[track_caller]
    pub fn sits_still(&self) {
        let begun = Instant::now();
        while !self.record.over.load(Ordering::Acquire) {
            assert!(begun.elapsed() < IDLE_MAX, "the test has not ended in {IDLE_MAX:?}");
            std::thread::park_timeout(SLICE);
        }
    }

    /// Exactly this many bytes.
    #[track_caller]
    pub fn read(&mut self, count: usize) -> Vec<u8> {
        while self.pending.len() < count {
            let more = self.receive();
            let got = self.pending.len();
            assert!(more, "{:?} after {got} of {count} bytes: {}", self.ended, self.pending.escape_ascii());
        }
        self.pending.drain(..count).collect()
    }

    /// Everything up to and including these bytes; `None` when the connection ends before the first byte.
    #[track_caller]
    fn read_until(&mut self, needle: &[u8]) -> Option<Vec<u8>> {
        loop {
            if let Some(at) = self.pending.windows(needle.len()).position(|window| window == needle) {
                return Some(self.pending.drain(..at + needle.len()).collect());
            }
            if !self.receive() {
                let rest = &self.pending;
                assert!(rest.is_empty(), "{:?} in the middle of: {}", self.ended, rest.escape_ascii());
                return None;
            }
        }
    }

    /// Expects these bytes and no others.
    #[track_caller]
    pub fn expect(&mut self, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        let read = self.read(bytes.len());
        assert_eq!(read.escape_ascii().to_string(), bytes.escape_ascii().to_string());
    }

    /// The head of the next request or response; `None` if the other side ends the connection first.
    #[track_caller]
    pub fn head(&mut self) -> Option<Message> {
        self.read_until(b"\r\n\r\n").map(|head| Message::of_head(&head))
    }

    /// The next request with its body; `None` if the other side ends the connection before the request is complete.
    pub fn request(&mut self) -> Option<Request> {
        while !self.pending.windows(4).any(|window| window == b"\r\n\r\n") {
            let at_most = if self.pending.is_empty() { IDLE_MAX } else { DEADLINE };
            if !self.receive_within(at_most) {
                return None;
            }
        }
        let mut request = self.head()?;
        if let Err(end) = self.body(request.request_framing(), &mut request) {
            assert_ne!(end, None, "a request has no body that ends with the connection");
            return None;
        }
        self.record.requests.lock().unwrap_or_else(PoisonError::into_inner).push((self.serial, request.clone()));
        Some(request)
    }

    /// The next response, interim ones included, with its whole body.
    #[track_caller]
    pub fn response(&mut self) -> Response {
        match self.response_or_end(false) {
            Ok(response) => response,
            Err(cut) => panic!("{:?} in the middle of the body: {:?}", cut.1, cut.0),
        }
    }

    /// The response to a HEAD request.
    #[track_caller]
    pub fn response_to_head(&mut self) -> Response {
        match self.response_or_end(true) {
            Ok(response) => response,
            Err(cut) => panic!("{:?} in the middle of the body: {:?}", cut.1, cut.0),
        }
    }

    /// A response that is visibly cut: the part that was received, and how the connection ended.
    #[track_caller]
    pub fn cut_response(&mut self) -> (Response, End) {
        match self.response_or_end(false) {
            Ok(response) => panic!("the client must take this for a whole response: {response:?}"),
            Err(cut) => *cut,
        }
    }

    /// The rest of a response; its head was already read.
    #[track_caller]
    pub fn response_behind(&mut self, mut head: Message) -> Response {
        match self.body(head.response_framing(false), &mut head) {
            Ok(()) => head,
            Err(end) => panic!("{end:?} in the middle of the body: {head:?}"),
        }
    }

    #[track_caller]
    fn response_or_end(&mut self, to_head: bool) -> Result<Response, Box<(Response, End)>> {
        let Some(mut response) = self.head() else { panic!("{:?} instead of a response", self.ended) };
        match self.body(response.response_framing(to_head), &mut response) {
            Ok(()) => Ok(response),
            // A body that ends with the connection is whole if that ended with FIN.
            Err(None) => match self.ended {
                Some(End::Fin) => Ok(response),
                _ => Err(Box::new((response, End::Reset))),
            },
            Err(Some(end)) => Err(Box::new((response, end))),
        }
    }

    /// Reads a body; `Err(None)`: it went on to the end of the connection, as it should.
    fn body(&mut self, framing: Framing, message: &mut Message) -> Result<(), Option<End>> {
        match framing {
            Framing::Length(length) => self.counted(length, &mut message.body),
            Framing::Chunked => loop {
                let size = self.line()?;
                let size = usize::from_str_radix(size.trim(), 16).expect("a chunk size");
                if size == 0 {
                    message.trailers = self.trailers()?;
                    return Ok(());
                }
                self.counted(size, &mut message.body)?;
                assert_eq!(self.line()?, "", "a chunk ends with CRLF");
            },
            Framing::UntilEnd => {
                while self.receive() {}
                message.body.append(&mut self.pending);
                Err(None)
            }
        }
    }

    fn counted(&mut self, count: usize, into: &mut Vec<u8>) -> Result<(), Option<End>> {
        while self.pending.len() < count {
            if !self.receive() {
                into.append(&mut self.pending);
                return Err(self.ended);
            }
        }
        into.extend(self.pending.drain(..count));
        Ok(())
    }

    fn line(&mut self) -> Result<String, Option<End>> {
        loop {
            if let Some(at) = self.pending.windows(2).position(|window| window == b"\r\n") {
                let line: Vec<u8> = self.pending.drain(..at + 2).collect();
                return Ok(String::from_utf8_lossy(&line[..at]).into_owned());
            }
            if !self.receive() {
                return Err(self.ended);
            }
        }
    }

    fn trailers(&mut self) -> Result<Vec<(String, String)>, Option<End>> {
        let mut lines = String::new();
        loop {
            let line = self.line()?;
            if line.is_empty() {
                return Ok(parse_fields(&lines));
            }
            lines += &line;
            lines += "\r\n";
        }
    }

    /// Expects the connection to end without any further bytes.
    #[track_caller]
    pub fn end(&mut self) -> End {
        let (rest, end) = self.rest();
        assert!(rest.is_empty(), "more came before the end: {}", rest.escape_ascii());
        end
    }

    /// Everything until the connection ends, and how it ended.
    #[track_caller]
    pub fn rest(&mut self) -> (Vec<u8>, End) {
        while self.receive() {}
        (std::mem::take(&mut self.pending), self.ended.expect("receiving ended"))
    }

    /// Whether the other side has sent something, or ended, within a time.
    pub fn receives_within(&mut self, at_most: Duration) -> bool {
        if !self.pending.is_empty() || self.ended.is_some() {
            return true;
        }
        if self.secured.is_some() {
            return self.receives_records_within(at_most);
        }
        let socket = self.socket();
        socket.set_read_timeout(Some(at_most)).unwrap();
        let heard = socket.peek(&mut [0]);
        socket.set_read_timeout(Some(SLICE)).unwrap();
        !heard.is_err_and(|error| is_timeout(&error))
    }

    /// Records of TLS's own are not data.
    fn receives_records_within(&mut self, at_most: Duration) -> bool {
        let begun = Instant::now();
        while self.ended.is_none() && self.pending.is_empty() {
            let Some(left) = at_most.checked_sub(begun.elapsed()).filter(|left| !left.is_zero()) else { return false };
            self.socket().set_read_timeout(Some(left)).unwrap();
            let outcome = self.receive_once();
            self.socket().set_read_timeout(Some(SLICE)).unwrap();
            if outcome.is_err_and(|error| !is_timeout(&error)) {
                self.ended = Some(End::Reset);
            }
        }
        true
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}
