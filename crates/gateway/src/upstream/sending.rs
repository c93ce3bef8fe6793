//! A request on its way to the upstream.

use crate::base::buffer::Spill;
use crate::upstream::outgoing_body::OutgoingBody;
use http1::chunked::{CHUNK_END, ChunkHeader, LAST_CHUNK};
use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use transport::Transport;

/// Bytes of a body in a file that one turn sends: a millisecond at 10 Gbit/s.
const FILE_TURN_BYTES: usize = 1 << 20;

/// A request on its way to the upstream.
pub(crate) struct Sending {
    pub(crate) spill: Spill,
    /// Bytes that were written, or wait in the spill; those of the body's file are not among them.
    given: u64,
    /// How far the body's file has been sent.
    offset: u64,
    /// Everything has been given to the socket or the spill.
    pub(crate) complete: bool,
    /// A write failed: only reading can tell more.
    broken: bool,
    /// Errno of that: the kernel tells the reason of a connection's end once, to whoever asks first.
    pub(crate) error: Option<i32>,
}

impl Sending {
    /// Sends the head, and the body as far as it is there. `proves`: its last byte goes apart, so that it can be proved later
    /// that the request did not arrive.
    pub(crate) fn begin(stream: &Transport, head: &[u8], body: &OutgoingBody, proves: bool) -> Self {
        let complete = !body.is_streamed() && body.file().is_none();
        let mut sending = Self { spill: Spill::default(), given: 0, offset: 0, complete, broken: false, error: None };
        match body.bytes() {
            // What was read of a body whose end is not known yet is its first chunk.
            bytes if body.is_chunked() && !bytes.is_empty() => {
                let size = ChunkHeader::new(bytes.len() as u64);
                sending.write(stream, &[head, size.as_bytes(), bytes, CHUNK_END]);
            }
            bytes if proves => {
                let written = send_in_two(&mut sending.spill, stream, head, bytes);
                sending.given(written, &[head, bytes]);
            }
            bytes => sending.write(stream, &[head, bytes]),
        }
        sending
    }

    /// Goes on with what waits. `true`: more of the body may be given.
    pub(crate) fn flush(&mut self, stream: &Transport) -> bool {
        if self.broken {
            return false;
        }
        let flushed = self.spill.flush(stream);
        self.note(flushed);
        !self.broken && !self.complete && self.spill.is_empty()
    }

    /// Gives the next part of a body that is streamed.
    pub(crate) fn give(&mut self, stream: &Transport, data: &[u8], chunked: bool) {
        if self.broken {
            return;
        }
        let size = ChunkHeader::new(data.len() as u64);
        let framed = [size.as_bytes(), data, CHUNK_END];
        self.write(stream, if chunked { &framed[..] } else { &framed[1..2] });
    }

    /// The streamed body has come to its end.
    pub(crate) fn end(&mut self, stream: &Transport, chunked: bool) {
        self.complete = true;
        if chunked && !self.broken {
            self.write(stream, &[LAST_CHUNK]);
        }
    }

    /// Sends what the socket takes of a body that is in a file. After a turn's share the caller waits for room, and what is
    /// there already lets the others go first.
    pub(crate) fn give_file(&mut self, stream: &Transport, file: &File, length: u64) {
        let left = usize::try_from(length - self.offset).unwrap_or(usize::MAX);
        let mut offset = self.offset as i64;
        match stream.write_file(file.as_fd(), &mut offset, left.min(FILE_TURN_BYTES)) {
            // Nobody but us writes to it, so it ends where its length says.
            Ok(0) if stream.is_writable() => self.broken = true,
            Ok(sent) => self.offset += sent as u64,
            Err(error) => self.note::<()>(Err(error)),
        }
        self.complete = self.offset == length;
    }

    /// Bytes that wait for the socket, as far as anybody waits for them still.
    pub(crate) fn unsent_bytes(&self) -> usize {
        if self.broken { 0 } else { self.spill.len() }
    }

    /// Nothing more is to be sent.
    pub(crate) fn is_over(&self) -> bool {
        self.broken || (self.complete && self.spill.is_empty())
    }

    /// The whole request was given to the socket.
    pub(crate) fn is_delivered(&self) -> bool {
        self.complete && self.spill.is_empty() && !self.broken
    }

    fn write(&mut self, stream: &Transport, parts: &[&[u8]]) {
        let written = self.spill.write(stream, parts);
        self.given(written, parts);
    }

    /// Notes what became of a write into the spill.
    fn given(&mut self, written: io::Result<usize>, parts: &[&[u8]]) {
        if written.is_ok() {
            self.given += parts.iter().map(|part| part.len() as u64).sum::<u64>();
        }
        self.note(written);
    }

    /// Bytes that the socket has taken.
    pub(crate) fn sent_bytes(&self) -> u64 {
        (self.given + self.offset).saturating_sub(self.spill.len() as u64)
    }

    fn note<T>(&mut self, outcome: io::Result<T>) {
        if let Err(error) = outcome {
            self.broken = true;
            self.error = self.error.or(error.raw_os_error());
        }
    }
}

/// Writes a request so that its last byte is a segment of its own. One small segment may stay unacknowledged for 40 ms and
/// more, time enough to execute the request and reset the connection unseen; behind the second one Linux sends the
/// acknowledgement before the reading call returns, and other systems when it arrives.
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
