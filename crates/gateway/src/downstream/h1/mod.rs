//! HTTP/1 towards the client: the framing of a response, and the bytes that the client's socket has not accepted yet.

pub(crate) mod body;
pub(crate) mod connection;
pub(crate) mod head;
pub(crate) mod linger;
pub(crate) mod proxy_header;

use crate::base::buffer::{Flushed, Spill};
use crate::downstream::ClientWords;
use crate::downstream::h1::connection::Connection;
use crate::downstream::h1::head::{Agreed, Terms, encode_lines};
use crate::downstream::reply_head::{Fields, HeadView};
use http1::chunked::{CHUNK_END, ChunkHeader, LAST_CHUNK, encode_last_chunk};
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

/// A client that speaks HTTP/1, for one exchange.
#[derive(Debug)]
pub(crate) struct H1 {
    pub(super) connection: Box<Connection>,
    framing: Framing,
    /// Bytes accepted by the socket: `$bytes_sent`.
    pub(super) bytes_sent: u64,
    /// Bytes of the final head.
    head_bytes: u64,
    spill: Spill,
    /// Trailers follow the body; they are known when it has ended.
    with_trailers: bool,
    /// The body's last byte was sent; the trailers were not.
    body_ended: bool,
    /// Only [`Self::flush`] writes to the socket.
    held_back: bool,
    /// The location's settings for HTTP/1's own fields.
    words: ClientWords,
}

impl H1 {
    pub(crate) fn new(connection: Box<Connection>) -> Self {
        Self {
            connection,
            framing: Framing::Empty,
            bytes_sent: 0,
            head_bytes: 0,
            spill: Spill::default(),
            with_trailers: false,
            body_ended: false,
            held_back: false,
            words: ClientWords::default(),
        }
    }

    pub(super) fn set_words(&mut self, words: ClientWords) {
        self.words = words;
    }

    /// What the fields of HTTP/1 depend on now.
    pub(super) fn terms(&self, agreed: Agreed) -> Terms {
        Terms::new(agreed, self.words)
    }

    pub(super) fn send_head(&mut self, agreed: Agreed, view: HeadView<'_>, body: &[u8], last: bool) -> io::Result<()> {
        let wire = self.begin_head(agreed, view);
        let sent = self.send_framed(&wire, body, last);
        view.head.put_wire(wire);
        sent
    }

    pub(super) fn send_interim(&mut self, agreed: Agreed, view: HeadView<'_>) -> io::Result<()> {
        let mut wire = view.head.take_wire();
        self.terms(agreed).encode(view, &mut wire);
        let sent = self.write(&[&wire]);
        view.head.put_wire(wire);
        sent
    }

    pub(super) fn send_body(&mut self, body: &[u8], last: bool) -> io::Result<()> {
        self.send_framed(&[], body, last)
    }

    pub(super) fn send_head_of_file(&mut self, agreed: Agreed, view: HeadView<'_>, begun: &[u8]) -> io::Result<()> {
        let wire = self.begin_head(agreed, view);
        let begun = match &mut self.framing {
            Framing::Length(left) => {
                let begun = &begun[..begun.len().min(usize::try_from(*left).unwrap_or(usize::MAX))];
                *left -= begun.len() as u64;
                begun
            }
            _ => b"",
        };
        let sent = if self.held_back {
            self.write(&[&wire, begun])
        } else {
            self.spill.write_more(&self.connection.stream, [&wire, begun]).map(|sent| self.bytes_sent += sent as u64)
        };
        view.head.put_wire(wire);
        sent
    }

    pub(super) fn send_file(&mut self, file: &OpenFile, offset: &mut u64, count: usize) -> io::Result<usize> {
        let Framing::Length(left) = self.framing else { return Ok(0) };
        let count = count.min(usize::try_from(left).unwrap_or(usize::MAX));
        let mut position = i64::try_from(*offset).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        let sent = self.connection.stream.write_file(file.descriptor(), &mut position, count)?;
        *offset += sent as u64;
        self.framing = Framing::Length(left - sent as u64);
        self.bytes_sent += sent as u64;
        Ok(sent)
    }

    /// Encodes the final head, which the caller sends next.
    fn begin_head(&mut self, agreed: Agreed, view: HeadView<'_>) -> Vec<u8> {
        let terms = self.terms(agreed);
        self.framing = terms.framing(view.head);
        self.with_trailers = view.head.has_trailers;
        let mut wire = view.head.take_wire();
        terms.encode(view, &mut wire);
        self.head_bytes = wire.len() as u64;
        wire
    }

    fn send_framed(&mut self, head: &[u8], body: &[u8], last: bool) -> io::Result<()> {
        match self.framing {
            Framing::Empty => self.write(&[head]),
            Framing::Length(left) => {
                // The relayed body is bounded by the upstream's own length, so nothing is ever cut here; the clamp
                // keeps a bug of ours from breaking the client's framing.
                let body = &body[..body.len().min(usize::try_from(left).unwrap_or(usize::MAX))];
                self.framing = Framing::Length(left - body.len() as u64);
                if head.is_empty() { self.write(&[body]) } else { self.write(&[head, body]) }
            }
            Framing::UntilClose => {
                if head.is_empty() {
                    self.write(&[body])
                } else {
                    self.write(&[head, body])
                }
            }
            Framing::Chunked => {
                self.body_ended |= last;
                let last = last && !self.with_trailers;
                let last_chunk: &[u8] = if last { LAST_CHUNK } else { b"" };
                if last {
                    self.framing = Framing::Length(0);
                }
                if body.is_empty() {
                    return self.write(&[head, last_chunk]);
                }
                let size = ChunkHeader::new(body.len() as u64);
                self.write(&[head, size.as_bytes(), body, CHUNK_END, last_chunk])
            }
        }
    }

    pub(super) fn awaits_trailers(&self) -> bool {
        self.with_trailers && self.body_ended && self.framing == Framing::Chunked
    }

    pub(super) fn end_with_trailers(&mut self, trailers: &Fields) -> io::Result<()> {
        self.framing = Framing::Length(0);
        let mut lines = Vec::new();
        encode_lines(trailers, b"", &mut lines, |_, _| {});
        let mut end = Vec::with_capacity(lines.len() + b"0\r\n\r\n".len());
        encode_last_chunk(&lines, &mut end);
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

    pub(super) fn hold_back(&mut self) {
        self.held_back = true;
    }

    pub(super) fn flush(&mut self, most: usize) -> io::Result<Flushed> {
        if !self.spill.is_empty() {
            self.bytes_sent += self.spill.flush_most(&self.connection.stream, most)? as u64;
        }
        Ok(Flushed::all_if(self.spill.is_empty()))
    }

    pub(super) fn waiting_bytes(&self) -> usize {
        self.spill.len()
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.spill.held_bytes() + self.connection.pending.capacity() + self.connection.stream.held_bytes()
    }

    /// The connection, and the bytes that its socket has not accepted.
    pub(super) fn into_parts(self) -> (Box<Connection>, Spill) {
        (self.connection, self.spill)
    }

    pub(super) fn body_bytes_sent(&self) -> u64 {
        self.bytes_sent.saturating_sub(self.head_bytes)
    }

    pub(super) fn is_complete(&self) -> bool {
        matches!(self.framing, Framing::Empty | Framing::Length(0) | Framing::UntilClose) || self.awaits_trailers()
    }

    pub(super) fn is_until_close(&self) -> bool {
        self.framing == Framing::UntilClose
    }
}
