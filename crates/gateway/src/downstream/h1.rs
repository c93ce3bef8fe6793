//! The client's side of one exchange: what is still to be read of the request's body, how the response is framed, and the
//! bytes that the client's socket has not taken yet. Written so that the exchange does not see which protocol it is.

use crate::base::buffer::Spill;
use crate::downstream::connection::Connection;
use crate::downstream::ending::Ending;
use crate::downstream::h1_head::{ClientWords, encode_lines};
use crate::downstream::reply_head::{Entry, Fields, HeadView};
use http1::chunked::{CHUNK_END, ChunkHeader, LAST_CHUNK, encode_last_chunk};
use http1::{Method, Version};
use reactor::OpenFile;
use std::io;

/// How the end of a response body is marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// There is no body (HEAD, 1xx, 204, 304, `Content-Length: 0`).
    Empty,
    /// By Content-Length: this many bytes are still to come.
    Length(u64),
    /// In chunks.
    Chunked,
    /// By the end of the connection.
    UntilClose,
}

/// The client's side of an exchange.
#[derive(Debug)]
pub(crate) struct Downstream {
    pub(super) connection: Box<Connection>,
    pub(crate) method: Method,
    pub(crate) version: Version,
    /// Whether the connection goes on after this exchange, as far as is known.
    pub(crate) ending: Ending,
    /// Whether a final response head has been given to the socket (or its spill).
    pub(crate) head_begun: bool,
    pub(crate) framing: Framing,
    /// Bytes given to the socket: `$bytes_sent`.
    pub(crate) bytes_sent: u64,
    /// Bytes of the body that were given to the socket or wait for it.
    body_bytes: u64,
    /// Where the final head ends among the bytes for the socket.
    head_ends_at: u64,
    spill: Spill,
    /// The body ends in trailers, which are known when it has ended.
    with_trailers: bool,
    /// Its last byte was given to the socket; the trailers were not.
    body_ended: bool,
    /// Bytes go to the socket by [`Self::flush`] only.
    held_back: bool,
    /// What the location says of HTTP/1's own fields.
    pub(crate) words: ClientWords,
    /// The head and the trailers as they were sent, where somebody asks for them.
    sent: Option<Box<Sent>>,
}

/// What was sent besides the body.
#[derive(Debug, Default)]
struct Sent {
    head: Fields,
    trailers: Fields,
}

impl Downstream {
    /// `keeps_sent`: head and trailers are kept for variables.
    pub(crate) fn new(
        connection: Box<Connection>,
        method: Method,
        version: Version,
        keepalive: bool,
        keeps_sent: bool,
    ) -> Self {
        Self {
            connection,
            method,
            version,
            ending: Ending::new(keepalive),
            head_begun: false,
            framing: Framing::Empty,
            bytes_sent: 0,
            body_bytes: 0,
            head_ends_at: 0,
            spill: Spill::default(),
            with_trailers: false,
            body_ended: false,
            held_back: false,
            words: ClientWords::default(),
            sent: keeps_sent.then(Box::default),
        }
    }

    /// Sends a final head and the beginning of the body; `last`: that is all of it.
    pub(crate) fn send_head(&mut self, view: HeadView<'_>, body: &[u8], last: bool) -> io::Result<()> {
        let wire = self.begin_head(view);
        let sent = self.send_framed(&wire, body, last);
        view.head.put_wire(wire);
        sent
    }

    /// Sends an interim (1xx) head.
    pub(crate) fn send_interim(&mut self, view: HeadView<'_>) -> io::Result<()> {
        let mut wire = view.head.take_wire();
        self.terms().encode(view, &mut wire);
        let sent = self.write(&[&wire]);
        view.head.put_wire(wire);
        sent
    }

    /// Sends a part of the body; `last`: nothing follows.
    pub(crate) fn send_body(&mut self, body: &[u8], last: bool) -> io::Result<()> {
        self.send_framed(&[], body, last)
    }

    /// Sends a final head whose body follows by [`Self::send_file`].
    pub(crate) fn send_head_of_file(&mut self, view: HeadView<'_>) -> io::Result<()> {
        let wire = self.begin_head(view);
        let sent = if self.held_back {
            self.write(&[&wire])
        } else {
            self.spill.write_more(&self.connection.stream, &wire).map(|sent| self.bytes_sent += sent as u64)
        };
        view.head.put_wire(wire);
        sent
    }

    /// Sends a part of the body from a file by `sendfile(2)`, and moves the offset on. 0: the socket takes none, or the
    /// file has ended. Nothing may wait for the socket.
    pub(crate) fn send_file(&mut self, file: &OpenFile, offset: &mut u64, count: usize) -> io::Result<usize> {
        let Framing::Length(left) = self.framing else { return Ok(0) };
        let count = count.min(usize::try_from(left).unwrap_or(usize::MAX));
        let mut position = i64::try_from(*offset).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        let sent = self.connection.stream.write_file(file.descriptor(), &mut position, count)?;
        *offset += sent as u64;
        self.framing = Framing::Length(left - sent as u64);
        self.bytes_sent += sent as u64;
        self.body_bytes += sent as u64;
        Ok(sent)
    }

    /// Encodes a final head, which is sent next.
    fn begin_head(&mut self, view: HeadView<'_>) -> Vec<u8> {
        self.head_begun = true;
        self.framing = self.framing_of(view.head);
        self.with_trailers = view.head.has_trailers;
        let mut wire = view.head.take_wire();
        self.terms().encode(view, &mut wire);
        self.head_ends_at = self.bytes_sent + (self.spill.len() + wire.len()) as u64;
        self.keep_head(view);
        wire
    }

    fn send_framed(&mut self, head: &[u8], body: &[u8], last: bool) -> io::Result<()> {
        match self.framing {
            Framing::Empty => self.write(&[head]),
            Framing::Length(left) => {
                // The upstream's own length bounds what is relayed, so nothing is ever cut here; the clamp keeps a
                // mistake of ours from breaking the client's framing.
                let body = &body[..body.len().min(usize::try_from(left).unwrap_or(usize::MAX))];
                self.framing = Framing::Length(left - body.len() as u64);
                self.body_bytes += body.len() as u64;
                if head.is_empty() { self.write(&[body]) } else { self.write(&[head, body]) }
            }
            Framing::UntilClose => {
                self.body_bytes += body.len() as u64;
                if head.is_empty() { self.write(&[body]) } else { self.write(&[head, body]) }
            }
            Framing::Chunked => {
                self.body_ended |= last;
                let last = last && !self.with_trailers;
                let last_chunk: &[u8] = if last { LAST_CHUNK } else { b"" };
                if last {
                    self.framing = Framing::Length(0);
                }
                // As in nginx the framing counts: everything behind the head is body here.
                self.body_bytes += last_chunk.len() as u64;
                if body.is_empty() {
                    return self.write(&[head, last_chunk]);
                }
                let size = ChunkHeader::new(body.len() as u64);
                self.body_bytes += (size.as_bytes().len() + body.len() + CHUNK_END.len()) as u64;
                self.write(&[head, size.as_bytes(), body, CHUNK_END, last_chunk])
            }
        }
    }

    /// Keeps a copy of the head, with what HTTP/1 says itself as it is now.
    fn keep_head(&mut self, HeadView { head, answer }: HeadView<'_>) {
        let Some(mut sent) = self.sent.take() else { return };
        sent.head.clear();
        for entry in &head.fields.entries {
            match entry {
                Entry::Mark(mark) => self.say(*mark, head, |id, value| sent.head.push(id, value)),
                entry => {
                    if let Some((name, value)) = head.fields.parts(entry, answer) {
                        sent.head.push_named(name, value);
                    }
                }
            }
        }
        self.sent = Some(sent);
    }

    /// The fields of the head that was sent, where somebody asks for them.
    pub(crate) fn sent_head(&self) -> Option<&Fields> {
        self.sent.as_ref().map(|sent| &sent.head)
    }

    /// The trailers that were sent, where somebody asks for them.
    pub(crate) fn sent_trailers(&self) -> Option<&Fields> {
        self.sent.as_ref().map(|sent| &sent.trailers)
    }

    /// Whether only trailers are missing.
    pub(crate) fn awaits_trailers(&self) -> bool {
        self.with_trailers && self.body_ended && self.framing == Framing::Chunked
    }

    /// Sends the end of a body, with its trailers.
    pub(crate) fn end_with_trailers(&mut self, trailers: &Fields) -> io::Result<()> {
        self.framing = Framing::Length(0);
        let mut lines = Vec::new();
        encode_lines(trailers, b"", &mut lines, |_, _| {});
        let mut end = Vec::with_capacity(lines.len() + b"0\r\n\r\n".len());
        encode_last_chunk(&lines, &mut end);
        if let Some(sent) = &mut self.sent {
            for (name, value) in trailers.iter(b"") {
                sent.trailers.push_named(name, value);
            }
        }
        self.body_bytes += end.len() as u64;
        self.write(&[&end])
    }

    fn write(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        if self.held_back {
            self.spill.hold(parts);
            return Ok(());
        }
        self.bytes_sent += self.spill.write(&self.connection.stream, parts)? as u64;
        Ok(())
    }

    /// From now on nothing goes to the socket but by [`Self::flush`].
    pub(crate) fn hold_back(&mut self) {
        self.held_back = true;
    }

    /// Goes on with what the socket did not take, so many bytes at most; `true` when nothing waits any more.
    pub(crate) fn flush(&mut self, most: usize) -> io::Result<bool> {
        if !self.spill.is_empty() {
            self.bytes_sent += self.spill.flush_most(&self.connection.stream, most)? as u64;
        }
        Ok(self.spill.is_empty())
    }

    /// Bytes that wait for room in the socket.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.spill.len()
    }

    /// Bytes of memory held for the client.
    pub(crate) fn held_bytes(&self) -> usize {
        self.spill.held_bytes() + self.connection.pending.capacity() + self.connection.stream.held_bytes()
    }

    /// The connection, and what its socket has not taken.
    pub(crate) fn into_parts(self) -> (Box<Connection>, Spill) {
        (self.connection, self.spill)
    }

    /// `$body_bytes_sent`: what the socket has taken of the body. Of one that is cut off in chunks, that includes their
    /// framing, as in nginx.
    pub(crate) fn body_bytes_sent(&self) -> u64 {
        if self.spill.is_empty() {
            return self.body_bytes;
        }
        self.body_bytes.min(self.bytes_sent.saturating_sub(self.head_ends_at))
    }

    /// Whether the response was framed to its end: nothing of the body is missing.
    pub(crate) fn is_complete(&self) -> bool {
        matches!(self.framing, Framing::Empty | Framing::Length(0) | Framing::UntilClose) || self.awaits_trailers()
    }
}
