//! The client's side of one exchange: what is still to be read of the request's body, how the response is framed, and the
//! bytes that the client's socket has not taken yet. Written so that the exchange does not see which protocol it is.

use crate::base::buffer::Spill;
use crate::downstream::connection::Connection;
use crate::filter::compress::Gzip;
use http1::chunked::{CHUNK_END, ChunkHeader, LAST_CHUNK};
use http1::{Method, Version};
use reactor::{OpenFile, Reactor};
use rules::pace::Pace;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;
use std::{fmt, io};

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
    pub(crate) connection: Box<Connection>,
    pub(crate) method: Method,
    pub(crate) version: Version,
    /// Whether the connection goes on after this exchange, as far as is known.
    pub(crate) keepalive: bool,
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
    pub(crate) with_trailers: bool,
    /// Its last byte was given to the socket; the trailers were not.
    body_ended: bool,
    /// What of the body is sent; `None` for all of it.
    portion: Option<Box<BodyPortion>>,
    /// `gzip`
    gzip: Option<Box<Gzip>>,
    /// `limit_rate`
    pace: Option<Box<ClientPace>>,
    /// The head and the trailers as they were sent, where somebody asks for them.
    sent: Option<Box<Sent>>,
}

/// How fast the response goes, and whose clock says so.
struct ClientPace {
    pace: Pace,
    reactor: Rc<Reactor>,
}

impl fmt::Debug for ClientPace {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.pace.fmt(out)
    }
}

/// The part of a body that is sent: as many bytes are dropped before it, and all behind it.
#[derive(Debug)]
struct BodyPortion {
    skipped: u64,
    left: u64,
}

impl BodyPortion {
    /// What of the next bytes belongs to it.
    fn cut<'a>(&mut self, body: &'a [u8]) -> &'a [u8] {
        let count = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX).min(body.len());
        let (_, behind) = body.split_at(count(self.skipped));
        self.skipped -= (body.len() - behind.len()) as u64;
        let part = &behind[..count(self.left).min(behind.len())];
        self.left -= part.len() as u64;
        part
    }
}

/// What was sent besides the body.
#[derive(Debug, Default)]
struct Sent {
    head: Vec<u8>,
    trailers: Vec<u8>,
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
            keepalive,
            head_begun: false,
            framing: Framing::Empty,
            bytes_sent: 0,
            body_bytes: 0,
            head_ends_at: 0,
            spill: Spill::default(),
            with_trailers: false,
            body_ended: false,
            portion: None,
            gzip: None,
            pace: None,
            sent: keeps_sent.then(Box::default),
        }
    }

    /// Sends a final head and the beginning of the body; `last`: that is all of it.
    pub(crate) fn send_head(&mut self, head: &[u8], framing: Framing, body: &[u8], last: bool) -> io::Result<()> {
        self.head_begun = true;
        self.framing = framing;
        self.keep_head(head);
        self.send_framed(head, body, last)
    }

    /// Sends an interim (1xx) head.
    pub(crate) fn send_interim(&mut self, head: &[u8]) -> io::Result<()> {
        self.write(&[head])
    }

    /// Sends a part of the body; `last`: nothing follows.
    pub(crate) fn send_body(&mut self, body: &[u8], last: bool) -> io::Result<()> {
        self.send_framed(&[], body, last)
    }

    /// Sends a final head whose body, of this many bytes, follows by [`Self::send_file`].
    pub(crate) fn send_head_of_file(&mut self, head: &[u8], length: u64) -> io::Result<()> {
        self.head_begun = true;
        self.framing = Framing::Length(length);
        self.keep_head(head);
        if self.pace.is_some() {
            return self.write(&[head]);
        }
        self.bytes_sent += self.spill.write_more(&self.connection.stream, head)? as u64;
        Ok(())
    }

    /// Sends a part of the body from a file by `sendfile(2)`, and moves the offset on. 0: the socket takes none, or the
    /// file has ended.
    pub(crate) fn send_file(&mut self, file: &OpenFile, offset: &mut u64, count: usize) -> io::Result<usize> {
        let Framing::Length(left) = self.framing else { return Ok(0) };
        if !self.flush()? {
            return Ok(0);
        }
        let count = count.min(usize::try_from(left).unwrap_or(usize::MAX));
        let Some(room) = self.room() else { return Ok(0) };
        let count = count.min(room);
        let before = self.bytes_sent;
        let mut position = i64::try_from(*offset).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        let sent = self.connection.stream.write_file(file.descriptor(), &mut position, count)?;
        *offset += sent as u64;
        self.framing = Framing::Length(left - sent as u64);
        self.bytes_sent += sent as u64;
        self.body_bytes += sent as u64;
        self.note_pace(before);
        Ok(sent)
    }

    /// Sends only these bytes of the body that follows.
    pub(crate) fn send_only(&mut self, range: &Range<u64>) {
        self.portion = Some(Box::new(BodyPortion { skipped: range.start, left: range.end - range.start }));
    }

    fn send_framed(&mut self, head: &[u8], body: &[u8], last: bool) -> io::Result<()> {
        let body = match &mut self.portion {
            None => body,
            Some(portion) => match portion.cut(body) {
                [] if head.is_empty() && !last => return Ok(()),
                part => part,
            },
        };
        let Some(gzip) = &mut self.gzip else { return self.send_plain(head, body, last) };
        let packed = gzip.compress(body, last)?;
        let sent =
            if head.is_empty() && packed.is_empty() && !last { Ok(()) } else { self.send_plain(head, &packed, last) };
        if let Some(gzip) = &mut self.gzip {
            gzip.give_back(packed);
        }
        sent
    }

    /// The body breaks off here: what the compressor still holds of it is sent, and no end.
    pub(crate) fn break_off(&mut self) -> io::Result<()> {
        let Some(gzip) = self.gzip.as_mut().filter(|gzip| gzip.bytes_in > 0) else { return Ok(()) };
        let packed = gzip.break_off()?;
        if packed.is_empty() { Ok(()) } else { self.send_plain(&[], &packed, false) }
    }

    /// Compresses the body that follows, or leaves it as it is.
    pub(crate) fn set_gzip(&mut self, gzip: Option<Gzip>) {
        self.gzip = gzip.map(Box::new);
    }

    /// Whether the body is compressed.
    pub(crate) fn is_compressed(&self) -> bool {
        self.gzip.is_some()
    }

    /// `$gzip_ratio`
    pub(crate) fn gzip_ratio(&self) -> Option<String> {
        self.gzip.as_ref().and_then(|gzip| rules::gzip::ratio(gzip.bytes_in, gzip.bytes_out))
    }

    fn send_plain(&mut self, head: &[u8], body: &[u8], last: bool) -> io::Result<()> {
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

    /// Notes the final head, which is sent next.
    fn keep_head(&mut self, head: &[u8]) {
        self.head_ends_at = self.bytes_sent + (self.spill.len() + head.len()) as u64;
        if let Some(sent) = &mut self.sent {
            sent.head.clear();
            sent.head.extend_from_slice(head);
        }
    }

    /// The head that was sent; empty where nobody asks for it.
    pub(crate) fn sent_head(&self) -> &[u8] {
        self.sent.as_ref().map_or(&[], |sent| &sent.head)
    }

    /// The trailers that were sent; empty where nobody asks for them.
    pub(crate) fn sent_trailers(&self) -> &[u8] {
        self.sent.as_ref().map_or(&[], |sent| &sent.trailers)
    }

    /// Whether only trailers are missing.
    pub(crate) fn awaits_trailers(&self) -> bool {
        self.with_trailers && self.body_ended && self.framing == Framing::Chunked
    }

    /// Sends the end of a body, with trailer lines.
    pub(crate) fn end_with_trailers(&mut self, lines: &[u8]) -> io::Result<()> {
        self.framing = Framing::Length(0);
        if let Some(sent) = &mut self.sent {
            sent.trailers.extend_from_slice(lines);
        }
        let parts: [&[u8]; 3] = [b"0\r\n", lines, b"\r\n"];
        self.body_bytes += parts.iter().map(|part| part.len() as u64).sum::<u64>();
        self.write(&parts)
    }

    fn write(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        if self.pace.is_some() {
            self.spill.hold(parts);
            return self.flush().map(drop);
        }
        self.bytes_sent += self.spill.write(&self.connection.stream, parts)? as u64;
        Ok(())
    }

    /// Goes on with what the socket did not take; `true` when nothing waits any more.
    pub(crate) fn flush(&mut self) -> io::Result<bool> {
        if self.spill.is_empty() {
            return Ok(true);
        }
        let Some(room) = self.room() else { return Ok(false) };
        let before = self.bytes_sent;
        self.bytes_sent += self.spill.flush_most(&self.connection.stream, room)? as u64;
        self.note_pace(before);
        Ok(self.spill.is_empty())
    }

    /// From now on the response goes at this pace.
    pub(crate) fn set_pace(&mut self, pace: Pace, reactor: &Rc<Reactor>) {
        self.pace = Some(Box::new(ClientPace { pace, reactor: Rc::clone(reactor) }));
    }

    /// Whether it goes at a pace.
    pub(crate) fn is_paced(&self) -> bool {
        self.pace.is_some()
    }

    /// For how long the pace lets nothing go; `None`: something may go now.
    pub(crate) fn pause(&self) -> Option<Duration> {
        let ClientPace { pace, reactor } = self.pace.as_deref()?;
        pace.room(self.bytes_sent, reactor.now().0).err().map(Duration::from_millis)
    }

    /// Bytes that the pace lets go now.
    fn room(&self) -> Option<usize> {
        let Some(ClientPace { pace, reactor }) = self.pace.as_deref() else { return Some(usize::MAX) };
        let room = pace.room(self.bytes_sent, reactor.now().0).ok()?;
        Some(usize::try_from(room).unwrap_or(usize::MAX))
    }

    fn note_pace(&mut self, before: u64) {
        if let Some(ClientPace { pace, reactor }) = self.pace.as_deref_mut() {
            pace.note(before, self.bytes_sent, reactor.now().0);
        }
    }

    /// Bytes that wait for room in the socket.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.spill.len()
    }

    /// Bytes of memory held for the client.
    pub(crate) fn held_bytes(&self) -> usize {
        let gzip = self.gzip.as_ref().map_or(0, |gzip| gzip.held_bytes());
        self.spill.held_bytes() + self.connection.pending.capacity() + gzip
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
