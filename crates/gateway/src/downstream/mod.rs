//! The client's side of an exchange: its connection, its request, and the outgoing response. The exchange sees neither
//! the protocol nor whether a client or another exchange made the request.

pub(crate) mod body;
pub(crate) mod client;
pub(crate) mod ending;
pub(crate) mod h1;
pub(crate) mod h2;
pub(crate) mod handshake;
pub(crate) mod internal;
pub(crate) mod reply_head;
pub(crate) mod request;

use crate::base::buffer::{Flushed, Spill};
use crate::downstream::body::{BodyError, BodyRead, RequestBody};
use crate::downstream::ending::Ending;
use crate::downstream::h1::H1;
use crate::downstream::h1::connection::Connection;
use crate::downstream::h1::head::Agreed;
use crate::downstream::h2::H2;
use crate::downstream::internal::Internal;
use crate::downstream::reply_head::{Fields, HeadEntry, HeadView, Mark, ReplyHead};
use http1::{BodyFraming, FieldId, Method, Version};
use reactor::{Interest, OpenFile, TaskId};
use std::io;
use transport::Transport;

/// The client's side of an exchange.
#[derive(Debug)]
pub(crate) struct Downstream {
    side: Side,
    pub(crate) method: Method,
    pub(crate) version: Version,
    /// Whether the connection continues after this exchange, as far as is known.
    pub(crate) ending: Ending,
    /// A final response head was sent, or waits for the socket.
    pub(crate) head_begun: bool,
    /// The head and the trailers as they were sent, if variables use them.
    sent: Option<Box<SentFields>>,
}

/// The location's settings for the fields that a client's protocol adds itself: HTTP/1 reads them.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ClientWords {
    /// `chunked_transfer_encoding`
    pub(crate) chunks: bool,
    /// Seconds for the Keep-Alive field.
    pub(crate) keepalive_seconds: Option<u64>,
}

/// The source of the request and the target of the response.
#[derive(Debug)]
enum Side {
    H1(H1),
    H2(Box<H2>),
    Internal(Box<Internal>),
}

/// The head and the trailers that were sent.
#[derive(Debug, Default)]
struct SentFields {
    head: Fields,
    trailers: Fields,
}

/// The origin of an exchange's request.
#[derive(Debug)]
pub(crate) enum Asker {
    Client(Box<Connection>),
    /// A client, on one of the streams of its connection.
    Stream(Box<H2>),
    Exchange(Box<Internal>),
}

impl Asker {
    /// The task of the exchange.
    pub(crate) fn task(&self) -> TaskId {
        match self {
            Self::Client(connection) => connection.task,
            Self::Stream(stream) => stream.task(),
            Self::Exchange(internal) => internal.task(),
        }
    }

    /// Counts one more request of the client's connection; a session counts the requests of its streams itself.
    pub(crate) fn count_request(&mut self) {
        if let Self::Client(connection) = self {
            connection.client.requests = connection.client.requests.saturating_add(1);
        }
    }

    /// The body of a request with this framing, before any of it is read.
    pub(crate) fn request_body(&self, framing: BodyFraming) -> RequestBody {
        match self {
            // The end of a stream is the end of its body.
            Self::Stream(_) => RequestBody::of_stream(framing),
            Self::Client(_) | Self::Exchange(_) => RequestBody::new(framing),
        }
    }
}

/// What remains of the client's side after an exchange.
pub(crate) enum Left {
    /// The connection, and the bytes that its socket has not accepted.
    Connection(Box<Connection>, Spill),
    Stream(Box<H2>),
    Internal(Box<Internal>),
}

impl Downstream {
    /// `keeps_sent`: keep head and trailers for variables.
    pub(crate) fn new(asker: Asker, method: Method, version: Version, keepalive: bool, keeps_sent: bool) -> Self {
        let side = match asker {
            Asker::Client(connection) => Side::H1(H1::new(connection)),
            Asker::Stream(stream) => Side::H2(stream),
            Asker::Exchange(internal) => Side::Internal(internal),
        };
        let sent = keeps_sent.then(Box::default);
        Self { side, method, version, ending: Ending::new(keepalive), head_begun: false, sent }
    }

    /// Sends a final head and the beginning of the body; `last`: the body is complete.
    pub(crate) fn send_head(&mut self, view: HeadView<'_>, body: &[u8], last: bool) -> io::Result<()> {
        self.begin_head(view);
        let (agreed, takes_body) = (self.agreed(), self.takes_body());
        match &mut self.side {
            Side::H1(h1) => h1.send_head(agreed, view, body, last),
            Side::H2(stream) => stream.send_head(takes_body, view, body, last),
            Side::Internal(internal) => {
                internal.take_head(view);
                internal.take_body(body, last)
            }
        }
    }

    /// Sends the head that starts a tunnel: 101, or 200 on a stream.
    pub(crate) fn send_tunnel_head(&mut self, view: HeadView<'_>) -> io::Result<()> {
        if !self.wants_tunnel() {
            return self.send_head(view, b"", true);
        }
        self.begin_head(view);
        match &mut self.side {
            Side::H2(stream) => stream.send_tunnel_head(view),
            Side::H1(_) | Side::Internal(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Whether the client wants a tunnel on its stream (RFC 8441): it understands no success as anything else.
    pub(crate) fn wants_tunnel(&self) -> bool {
        matches!(&self.side, Side::H2(stream) if stream.wants_tunnel())
    }

    /// Sends an interim (1xx) head.
    pub(crate) fn send_interim(&mut self, view: HeadView<'_>) -> io::Result<()> {
        let agreed = self.agreed();
        match &mut self.side {
            Side::H1(h1) => h1.send_interim(agreed, view),
            Side::H2(stream) => stream.send_interim(view),
            Side::Internal(_) => Ok(()),
        }
    }

    /// Sends a part of the body; `last`: nothing follows.
    pub(crate) fn send_body(&mut self, body: &[u8], last: bool) -> io::Result<()> {
        match &mut self.side {
            Side::H1(h1) => h1.send_body(body, last),
            Side::H2(stream) => stream.send_body(body, last),
            Side::Internal(internal) => internal.take_body(body, last),
        }
    }

    /// Whether a body from a file can go to the client without being read.
    pub(crate) fn sends_files(&self) -> bool {
        matches!(self.side, Side::H1(_))
    }

    /// Sends a final head and the beginning of its body; [`Self::send_file`] sends the rest.
    pub(crate) fn send_head_of_file(&mut self, view: HeadView<'_>, begun: &[u8]) -> io::Result<()> {
        self.begin_head(view);
        let (agreed, takes_body) = (self.agreed(), self.takes_body());
        match &mut self.side {
            Side::H1(h1) => h1.send_head_of_file(agreed, view, begun),
            Side::H2(stream) => stream.send_head(takes_body, view, begun, false),
            Side::Internal(internal) => {
                internal.take_head(view);
                internal.take_body(begun, false)
            }
        }
    }

    /// Sends a part of the body from a file by `sendfile(2)`, and advances the offset. 0: the socket accepts none, or
    /// the file has ended. No bytes may wait for the socket.
    pub(crate) fn send_file(&mut self, file: &OpenFile, offset: &mut u64, count: usize) -> io::Result<usize> {
        match &mut self.side {
            Side::H1(h1) => h1.send_file(file, offset, count),
            Side::H2(_) | Side::Internal(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    fn begin_head(&mut self, view: HeadView<'_>) {
        self.head_begun = true;
        self.keep_head(view);
    }

    /// Keeps a copy of the head, with the fields that the protocol adds now.
    fn keep_head(&mut self, HeadView { head, answer }: HeadView<'_>) {
        let Some(mut sent) = self.sent.take() else { return };
        sent.head.clear();
        for entry in &head.fields.entries {
            match entry {
                HeadEntry::Mark(mark) => self.fields_at(*mark, head, |id, value| sent.head.push(id, value)),
                entry => {
                    if let Some((name, value)) = head.fields.parts(entry, answer) {
                        sent.head.push_named(name, value);
                    }
                }
            }
        }
        self.sent = Some(sent);
    }

    /// The fields of the head that was sent, if variables use them.
    pub(crate) fn sent_head(&self) -> Option<&Fields> {
        self.sent.as_ref().map(|sent| &sent.head)
    }

    /// The trailers that were sent, if variables use them.
    pub(crate) fn sent_trailers(&self) -> Option<&Fields> {
        self.sent.as_ref().map(|sent| &sent.trailers)
    }

    /// Whether only trailers are missing.
    pub(crate) fn awaits_trailers(&self) -> bool {
        match &self.side {
            Side::H1(h1) => h1.awaits_trailers(),
            Side::H2(stream) => stream.awaits_trailers(),
            Side::Internal(_) => false,
        }
    }

    /// Sends the end of a body, with its trailers.
    pub(crate) fn end_with_trailers(&mut self, trailers: &Fields) -> io::Result<()> {
        if let Some(sent) = &mut self.sent {
            for (name, value) in trailers.iter(b"") {
                sent.trailers.push_named(name, value);
            }
        }
        match &mut self.side {
            Side::H1(h1) => h1.end_with_trailers(trailers),
            Side::H2(stream) => stream.end_with_trailers(trailers),
            Side::Internal(_) => Ok(()),
        }
    }

    /// From now on only [`Self::flush`] writes to the socket.
    pub(crate) fn hold_back(&mut self) {
        match &mut self.side {
            Side::H1(h1) => h1.hold_back(),
            Side::H2(stream) => stream.hold_back(),
            Side::Internal(_) => {}
        }
    }

    /// Sends at most `most` of the waiting bytes.
    pub(crate) fn flush(&mut self, most: usize) -> io::Result<Flushed> {
        match &mut self.side {
            Side::H1(h1) => h1.flush(most),
            Side::H2(stream) => stream.flush(most),
            Side::Internal(internal) => internal.is_taken().map(Flushed::all_if),
        }
    }

    /// Bytes that wait for room in the socket.
    pub(crate) fn waiting_bytes(&self) -> usize {
        match &self.side {
            Side::H1(h1) => h1.waiting_bytes(),
            Side::H2(stream) => stream.waiting_bytes(),
            Side::Internal(internal) => internal.waiting_bytes(),
        }
    }

    /// Bytes of memory held for the client.
    pub(crate) fn held_bytes(&self) -> usize {
        match &self.side {
            Side::H1(h1) => h1.held_bytes(),
            Side::H2(stream) => stream.held_bytes(),
            Side::Internal(internal) => internal.waiting_bytes(),
        }
    }

    /// `$bytes_sent`: bytes that the socket has accepted.
    pub(crate) fn bytes_sent(&self) -> u64 {
        match &self.side {
            Side::H1(h1) => h1.bytes_sent,
            Side::H2(stream) => stream.bytes_sent(),
            Side::Internal(internal) => internal.body_bytes(),
        }
    }

    /// `$body_bytes_sent`. Over HTTP/1 these are all bytes that the socket has accepted except the final head, as in nginx:
    /// the framing of chunks and interim responses are among them.
    pub(crate) fn body_bytes_sent(&self) -> u64 {
        match &self.side {
            Side::H1(h1) => h1.body_bytes_sent(),
            Side::H2(stream) => stream.body_bytes_sent(),
            Side::Internal(internal) => internal.body_bytes(),
        }
    }

    /// Whether the response's body was sent completely.
    pub(crate) fn is_complete(&self) -> bool {
        match &self.side {
            Side::H1(h1) => h1.is_complete(),
            Side::H2(stream) => stream.is_complete(),
            Side::Internal(internal) => internal.is_complete(),
        }
    }

    /// Whether the end of the connection marks the end of the body.
    pub(crate) fn is_until_close(&self) -> bool {
        matches!(&self.side, Side::H1(h1) if h1.is_until_close())
    }

    /// Whether the response may have a body: not for HEAD.
    pub(crate) fn takes_body(&self) -> bool {
        self.method != Method::Head
    }

    /// Whether a response with this head has a body.
    pub(crate) fn sends_body(&self, head: &ReplyHead) -> bool {
        match &self.side {
            Side::H1(h1) => h1.terms(self.agreed()).sends_body(head),
            Side::H2(_) | Side::Internal(_) => self.takes_body() && head.has_body,
        }
    }

    /// Whether this head states the length of its body.
    pub(crate) fn states_length(&self, head: &ReplyHead) -> bool {
        match &self.side {
            Side::H1(h1) => h1.terms(self.agreed()).states_length(head),
            Side::H2(_) => self.takes_body() && head.has_body && head.length.is_some(),
            Side::Internal(_) => head.stated_length().is_some(),
        }
    }

    /// Whether the end of the connection would mark the end of this head's body.
    pub(crate) fn ends_by_close(&self, head: &ReplyHead) -> bool {
        matches!(&self.side, Side::H1(h1) if h1.terms(self.agreed()).ends_by_close(head))
    }

    /// Whether trailers can follow a body.
    pub(crate) fn takes_trailers(&self) -> bool {
        match &self.side {
            Side::H1(h1) => h1.terms(self.agreed()).takes_chunks(),
            Side::H2(_) => true,
            Side::Internal(_) => false,
        }
    }

    /// Calls `say` with the name and the value of each field that the protocol adds at this mark of a head.
    pub(crate) fn fields_at(&self, mark: Mark, head: &ReplyHead, say: impl FnMut(FieldId, &[u8])) {
        match &self.side {
            Side::H1(h1) => h1.terms(self.agreed()).fields_at(mark, head, say),
            Side::H2(_) => H2::fields_at(mark, head, say),
            Side::Internal(internal) => internal.fields_at(mark, head, say),
        }
    }

    /// Sets the location's values for HTTP/1's own fields, and the longest body frame in HTTP/2.
    pub(crate) fn set_words(&mut self, words: ClientWords, chunk_bytes: u32) {
        match &mut self.side {
            Side::H1(h1) => h1.set_words(words),
            Side::H2(stream) => stream.set_chunk_bytes(chunk_bytes),
            Side::Internal(_) => {}
        }
    }

    /// What the request and the rest of the exchange have decided about the response by now.
    fn agreed(&self) -> Agreed {
        Agreed { asked_for_head: self.method == Method::Head, version: self.version, keepalive: self.ending.keeps() }
    }

    /// Reads the request's body once, at most `max` bytes, and passes its bytes to the closure, in pieces.
    pub(crate) fn read_body(
        &mut self,
        body: &mut RequestBody,
        max: usize,
        sink: impl FnMut(&[u8]),
    ) -> Result<BodyRead, BodyError> {
        match &mut self.side {
            Side::H1(h1) => h1.connection.read_body(body, max, sink),
            Side::H2(stream) => stream.read_body(body, max, sink),
            // The starting exchange has read the body of a subrequest.
            Side::Internal(_) => Ok(BodyRead::Done),
        }
    }

    /// The task to wake for events of the client's socket.
    pub(crate) fn task(&self) -> TaskId {
        match &self.side {
            Side::H1(h1) => h1.connection.task,
            Side::H2(stream) => stream.task(),
            Side::Internal(internal) => internal.task(),
        }
    }

    /// The client's connection, for a wait. The connection wakes the tasks of its streams.
    pub(crate) fn transport(&self) -> Option<&Transport> {
        match &self.side {
            Side::H1(h1) => Some(&h1.connection.stream),
            Side::H2(_) | Side::Internal(_) => None,
        }
    }

    /// Whether the awaited state of the client is reached, if its connection wakes the task.
    pub(crate) fn is_ready(&self, interest: Interest) -> bool {
        match &self.side {
            Side::H2(stream) => {
                (interest.includes(Interest::READ) && stream.is_readable())
                    || (interest.includes(Interest::WRITE) && stream.waiting_bytes() == 0)
            }
            Side::H1(_) | Side::Internal(_) => false,
        }
    }

    /// Whether the request's body is read to its end to keep the connection.
    pub(crate) fn drains_body(&self) -> bool {
        matches!(self.side, Side::H1(_))
    }

    /// Bytes of the request's head as the client sent it. `text_bytes`: its size as text.
    pub(crate) fn head_bytes(&self, text_bytes: usize) -> u64 {
        self.stream().map_or(text_bytes as u64, H2::head_bytes)
    }

    /// The HTTP/2 stream, if this is one.
    pub(crate) fn stream(&self) -> Option<&H2> {
        match &self.side {
            Side::H2(stream) => Some(stream),
            Side::H1(_) | Side::Internal(_) => None,
        }
    }

    /// The client or the starting exchange has no use for a response any more, and no socket reports that.
    pub(crate) fn is_abandoned(&self) -> bool {
        match &self.side {
            Side::H1(_) => false,
            Side::H2(stream) => stream.is_gone(),
            Side::Internal(internal) => internal.is_abandoned(),
        }
    }

    /// The subrequest, if another exchange started this one.
    pub(crate) fn internal(&self) -> Option<&Internal> {
        match &self.side {
            Side::Internal(internal) if !internal.is_supposed => Some(internal),
            Side::H1(_) | Side::H2(_) | Side::Internal(_) => None,
        }
    }

    /// The same, mutable.
    pub(crate) fn internal_mut(&mut self) -> Option<&mut Internal> {
        match &mut self.side {
            Side::Internal(internal) => Some(internal),
            Side::H1(_) | Side::H2(_) => None,
        }
    }

    /// Whether the client accepts bytes, as far as is known.
    pub(crate) fn is_writable(&self) -> bool {
        match &self.side {
            Side::H1(h1) => h1.connection.stream.is_writable(),
            Side::H2(stream) => stream.waiting_bytes() == 0,
            Side::Internal(internal) => internal.waiting_bytes() == 0,
        }
    }

    pub(crate) fn is_failed(&self) -> bool {
        match &self.side {
            Side::H1(h1) => h1.connection.stream.is_failed(),
            Side::H2(stream) => stream.is_gone(),
            Side::Internal(internal) => internal.is_abandoned(),
        }
    }

    /// What remains of the client's side.
    pub(crate) fn into_left(self) -> Left {
        match self.side {
            Side::H1(h1) => {
                let (connection, unsent) = h1.into_parts();
                Left::Connection(connection, unsent)
            }
            Side::H2(stream) => Left::Stream(stream),
            Side::Internal(internal) => Left::Internal(internal),
        }
    }
}
