//! A request being sent to the upstream.

use crate::base::buffer::Spill;
use crate::base::read_size::ReadSize;
use crate::connector::h2::stream::LeasedStream;
use crate::upstream::outgoing_body::{BodyCoding, OutgoingBody};
use crate::upstream::side::{PeerLink, UpstreamSide};
use cgi::fastcgi::{LAST_RECORD, RECORD_BYTES_MAX, StdinRecord};
use http1::Trailers;
use http1::chunked::{CHUNK_END, ChunkHeader, LAST_CHUNK};
use http1::outgoing::OutgoingHead;
use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileExt as _;
use transport::Transport;

/// Bytes of a body file that one turn sends: a millisecond at 10 Gbit/s.
const FILE_TURN_BYTES: usize = 1 << 20;

/// Bytes of a body file that are read before they are framed: one frame of the usual size.
const FILE_PIECE_BYTES: usize = 16 * 1024;

/// What to send, without the body.
pub(crate) struct OutgoingRequest<'a> {
    pub(crate) head: &'a OutgoingHead,
    pub(crate) coding: BodyCoding,
    /// `http` or `https`.
    pub(crate) scheme: &'static [u8],
    /// The trailers of a complete body; only a stream sends them.
    pub(crate) trailers: &'a Trailers,
}

/// Progress of a request on a stream.
#[derive(Debug, Clone, Copy, Default)]
struct Framed {
    /// Bytes of frames sent.
    sent: u64,
    /// Bytes of the body that wait.
    waiting: usize,
}

/// A request being sent to the upstream.
pub(crate) struct Sending {
    pub(crate) spill: Spill,
    /// How much of a streamed body is read from the client at once.
    pub(crate) size: ReadSize,
    /// Bytes that were written or wait in the spill, without those of the body's file.
    given: u64,
    coding: BodyCoding,
    /// The same for a stream.
    framed: Framed,
    /// The trailers for a stream.
    trailers: Trailers,
    /// Position in the body's file.
    offset: u64,
    /// Where the current record of the file ends.
    record_end: u64,
    /// The socket or the spill has everything.
    pub(crate) complete: bool,
    /// A write failed: only reading can tell more.
    broken: bool,
    /// Errno of the failed write: the kernel reports why a connection ended once, to the first call that asks.
    pub(crate) error: Option<i32>,
}

impl Sending {
    /// Sends the head, and the body as far as it has come. If progress was noted on the connection, the last byte is
    /// sent separately, so that it can be proved later that the request did not arrive.
    pub(crate) fn begin(up: &UpstreamSide, request: &OutgoingRequest<'_>, body: &OutgoingBody) -> Self {
        let mut sending = Self {
            spill: Spill::default(),
            size: ReadSize::default(),
            given: 0,
            coding: request.coding,
            offset: 0,
            record_end: 0,
            framed: Framed::default(),
            trailers: Trailers::default(),
            complete: !body.is_streamed() && body.file().is_none(),
            broken: false,
            error: None,
        };
        match up.link() {
            PeerLink::Connection(up) => {
                let (head, proves) = (request.head.as_bytes(), up.acked_before().is_some());
                sending.begin_connection(up.stream(), head, body, proves);
            }
            PeerLink::Stream(stream) => sending.begin_stream(stream, request, body),
            #[cfg(test)]
            PeerLink::Script(_) => {}
        }
        sending
    }

    fn begin_connection(&mut self, stream: &Transport, head: &[u8], body: &OutgoingBody, proves: bool) {
        match body.bytes() {
            // The received part of a body with unknown length is its first chunk.
            bytes if self.coding == BodyCoding::Chunks && !bytes.is_empty() => {
                let size = ChunkHeader::new(bytes.len() as u64);
                self.write(stream, &[head, size.as_bytes(), bytes, CHUNK_END]);
            }
            bytes if self.coding == BodyCoding::Records => self.begin_records(stream, head, bytes),
            bytes if proves => {
                let written = send_in_two(&mut self.spill, stream, head, bytes);
                self.given(written, &[head, bytes]);
            }
            bytes => self.write(stream, &[head, bytes]),
        }
    }

    fn begin_stream(&mut self, stream: &LeasedStream, request: &OutgoingRequest<'_>, body: &OutgoingBody) {
        let has_body = !self.complete || !body.bytes().is_empty();
        self.trailers = request.trailers.clone();
        let opened = stream.open(request.head, request.scheme, !has_body);
        self.note(opened);
        if has_body && !self.broken && !body.bytes().is_empty() {
            self.send_piece(stream, body.bytes());
        }
        self.look_at(stream);
    }

    /// Sends a part of the body over a stream, and its end if it is complete.
    fn send_piece(&mut self, stream: &LeasedStream, piece: &[u8]) {
        let is_last = self.complete && self.trailers.is_empty();
        let mut sent = if piece.is_empty() && !is_last { Ok(()) } else { stream.send(piece, is_last) };
        if self.complete && !is_last {
            sent = sent.and_then(|()| stream.end_with_trailers(&self.trailers));
        }
        self.note(sent);
    }

    /// Notes the progress of a stream.
    fn look_at(&mut self, stream: &LeasedStream) {
        let waiting = stream.waiting_bytes();
        self.framed = Framed { sent: stream.bytes_sent(), waiting: *waiting.as_ref().unwrap_or(&0) };
        self.note(waiting);
    }

    /// Sends waiting bytes. `true`: more of the body may be given.
    pub(crate) fn flush(&mut self, up: &UpstreamSide) -> bool {
        if self.broken {
            return false;
        }
        match up.link() {
            PeerLink::Connection(up) => {
                let flushed = self.spill.flush(up.stream());
                self.note(flushed);
            }
            PeerLink::Stream(stream) => self.look_at(stream),
            #[cfg(test)]
            PeerLink::Script(_) => {}
        }
        !self.broken && !self.complete && self.waiting_bytes() == 0
    }

    /// Sends the head, and the body so far, in records.
    fn begin_records(&mut self, stream: &Transport, head: &[u8], body: &[u8]) {
        let last = if self.complete { LAST_RECORD } else { b"" };
        let mut pieces = body.chunks(RECORD_BYTES_MAX);
        match pieces.next() {
            None => return self.write(stream, &[head, last]),
            Some(first) => {
                let record = StdinRecord::new(first.len());
                let end = if body.len() == first.len() { last } else { b"" };
                self.write(stream, &[head, record.header(), first, record.padding(), end]);
            }
        }
        for piece in pieces {
            self.give_to(stream, piece);
        }
        if body.len() > RECORD_BYTES_MAX && !last.is_empty() && !self.broken {
            self.write(stream, &[last]);
        }
    }

    /// Sends the next part of a streamed body.
    pub(crate) fn give(&mut self, up: &UpstreamSide, data: &[u8]) {
        if self.broken {
            return;
        }
        match up.link() {
            PeerLink::Connection(up) => self.give_to(up.stream(), data),
            PeerLink::Stream(stream) => {
                self.note(stream.send(data, false));
                self.look_at(stream);
            }
            #[cfg(test)]
            PeerLink::Script(_) => {}
        }
    }

    fn give_to(&mut self, stream: &Transport, data: &[u8]) {
        if self.broken {
            return;
        }
        match self.coding {
            BodyCoding::Plain | BodyCoding::Frames => self.write(stream, &[data]),
            BodyCoding::Chunks => {
                let size = ChunkHeader::new(data.len() as u64);
                self.write(stream, &[size.as_bytes(), data, CHUNK_END]);
            }
            BodyCoding::Records => {
                for piece in data.chunks(RECORD_BYTES_MAX) {
                    let record = StdinRecord::new(piece.len());
                    self.write(stream, &[record.header(), piece, record.padding()]);
                }
            }
        }
    }

    /// Ends a streamed body, with these trailers, which only HTTP/2 sends.
    pub(crate) fn end(&mut self, up: &UpstreamSide, trailers: &Trailers) {
        self.complete = true;
        if self.broken {
            return;
        }
        match (up.link(), self.coding) {
            (PeerLink::Connection(_), BodyCoding::Plain | BodyCoding::Frames) => {}
            (PeerLink::Connection(up), BodyCoding::Chunks) => self.write(up.stream(), &[LAST_CHUNK]),
            (PeerLink::Connection(up), BodyCoding::Records) => self.write(up.stream(), &[LAST_RECORD]),
            (PeerLink::Stream(stream), _) => {
                self.trailers = trailers.clone();
                self.send_piece(stream, b"");
                self.look_at(stream);
            }
            #[cfg(test)]
            (PeerLink::Script(_), _) => {}
        }
    }

    /// Sends as much of a body file as the socket accepts. After one turn's share the caller waits for room; if there
    /// is room already, the wait lets other tasks run.
    pub(crate) fn give_file(&mut self, up: &UpstreamSide, file: &File, length: u64) {
        match up.link() {
            PeerLink::Connection(up) => self.give_file_to(up.stream(), file, length),
            PeerLink::Stream(stream) => self.give_file_in_frames(stream, file, length),
            #[cfg(test)]
            PeerLink::Script(_) => {}
        }
    }

    /// Reads the file on this thread, as over TLS: this process has just written it, so it is in memory.
    fn give_file_in_frames(&mut self, stream: &LeasedStream, file: &File, length: u64) {
        let mut piece = [0; FILE_PIECE_BYTES];
        for _ in 0..FILE_TURN_BYTES / FILE_PIECE_BYTES {
            let most = usize::try_from(length - self.offset).unwrap_or(usize::MAX).min(piece.len());
            match file.read_at(&mut piece[..most], self.offset) {
                Ok(0) if most > 0 => self.broken = true,
                Ok(count) => {
                    self.offset += count as u64;
                    self.complete = self.offset == length;
                    self.send_piece(stream, &piece[..count]);
                }
                Err(error) => self.note::<()>(Err(error)),
            }
            self.look_at(stream);
            if self.broken || self.complete || self.framed.waiting > 0 {
                return;
            }
        }
    }

    fn give_file_to(&mut self, stream: &Transport, file: &File, length: u64) {
        if self.coding == BodyCoding::Records && self.offset == self.record_end && self.offset < length {
            let content = usize::try_from(length - self.offset).unwrap_or(usize::MAX).min(RECORD_BYTES_MAX);
            self.record_end += content as u64;
            self.write(stream, &[StdinRecord::new(content).header()]);
            if self.broken || !self.spill.is_empty() {
                return;
            }
        }
        let end = if self.coding == BodyCoding::Records { self.record_end } else { length };
        let left = usize::try_from(end - self.offset).unwrap_or(usize::MAX);
        let mut offset = self.offset as i64;
        match stream.write_file(file.as_fd(), &mut offset, left.min(FILE_TURN_BYTES)) {
            Ok(0) if left == 0 => {}
            // Only this process writes to the file, so it ends at its length.
            Ok(0) if stream.is_writable() => self.broken = true,
            Ok(sent) => self.offset += sent as u64,
            Err(error) => self.note::<()>(Err(error)),
        }
        self.complete = self.offset == length;
        if self.coding == BodyCoding::Records && self.complete && !self.broken {
            // Only the last record of a file needs padding.
            let padding = StdinRecord::new((length % RECORD_BYTES_MAX as u64) as usize).padding();
            self.write(stream, &[padding, LAST_RECORD]);
        }
    }

    /// Bytes that wait for the socket; none after a write has failed.
    pub(crate) fn unsent_bytes(&self) -> usize {
        if self.broken { 0 } else { self.waiting_bytes() }
    }

    pub(crate) fn waiting_bytes(&self) -> usize {
        self.spill.len() + self.framed.waiting
    }

    /// Whether nothing more is to be sent.
    pub(crate) fn is_over(&self) -> bool {
        self.broken || (self.complete && self.waiting_bytes() == 0)
    }

    /// Whether the whole request was given to the socket.
    pub(crate) fn is_delivered(&self) -> bool {
        self.complete && self.waiting_bytes() == 0 && !self.broken
    }

    fn write(&mut self, stream: &Transport, parts: &[&[u8]]) {
        let written = self.spill.write(stream, parts);
        self.given(written, parts);
    }

    /// Records the result of a write into the spill.
    fn given(&mut self, written: io::Result<usize>, parts: &[&[u8]]) {
        if written.is_ok() {
            self.given += parts.iter().map(|part| part.len() as u64).sum::<u64>();
        }
        self.note(written);
    }

    /// Bytes that the socket has accepted.
    pub(crate) fn sent_bytes(&self) -> u64 {
        match self.coding {
            BodyCoding::Frames => self.framed.sent,
            _ => (self.given + self.offset).saturating_sub(self.spill.len() as u64),
        }
    }

    fn note<T>(&mut self, outcome: io::Result<T>) {
        if let Err(error) = outcome {
            self.broken = true;
            self.error = self.error.or(error.raw_os_error());
        }
    }
}

/// Writes a request so that its last byte is a segment of its own. The acknowledgement of a single small segment may be
/// delayed by 40 ms or more, time enough to execute the request and reset the connection unseen. After the second
/// segment, Linux sends the acknowledgement before the reading call returns, and other systems send it when the segment
/// arrives.
pub(crate) fn send_in_two(spill: &mut Spill, stream: &Transport, head: &[u8], body: &[u8]) -> io::Result<usize> {
    let (first, last) = match body.split_last_chunk::<1>() {
        Some((rest, last)) => ([head, rest], last),
        None => match head.split_last_chunk::<1>() {
            Some((rest, last)) => ([rest, &[]], last),
            None => return Ok(0),
        },
    };
    let sent = spill.write(stream, &first)?;
    Ok(sent + spill.write(stream, &[last])?)
}
