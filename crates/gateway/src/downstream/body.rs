//! The body of a request as the client sends it: from the connection's pending bytes and its socket, without its framing.

use crate::downstream::connection::Connection;
use http1::chunked::Decoder;
use http1::{BodyFraming, ChunkError};
use reactor::Read;
use std::io;

/// Where in its body a request is.
#[derive(Debug)]
pub(crate) struct RequestBody {
    state: State,
    framing: BodyFraming,
    /// Bytes of body received so far, without framing.
    pub(crate) received: u64,
    /// Bytes of chunk lines and trailers besides.
    pub(crate) framing_bytes: u64,
    /// The decoded trailer lines of a chunked body, once it is complete.
    pub(crate) trailers: Vec<u8>,
}

#[derive(Debug)]
enum State {
    Done,
    Length(u64),
    Chunked(Box<Decoder>),
}

/// What a read of the body gave.
#[derive(Debug)]
pub(crate) enum BodyRead {
    /// Some of it; the closure has seen the bytes.
    Data,
    /// Nothing at the moment.
    NotReady,
    /// It is complete.
    Done,
}

/// Why the body cannot be read to its end.
#[derive(Debug)]
pub(crate) enum BodyError {
    /// The client closed in the middle of it.
    Closed,
    /// The connection broke.
    Broken(io::Error),
    /// Its chunked coding is wrong.
    Malformed(ChunkError),
}

impl RequestBody {
    pub(crate) fn new(framing: BodyFraming) -> Self {
        let state = match framing {
            BodyFraming::None | BodyFraming::Length(0) => State::Done,
            BodyFraming::Length(length) => State::Length(length),
            BodyFraming::Chunked => State::Chunked(Box::default()),
        };
        Self { state, framing, received: 0, framing_bytes: 0, trailers: Vec::new() }
    }

    /// How the request frames it; none where the request was refused.
    pub(crate) fn framing(&self) -> BodyFraming {
        self.framing
    }

    /// Whether what is left is known to be this many bytes or more.
    pub(crate) fn is_longer_than(&self, bytes: u64) -> bool {
        matches!(self.state, State::Length(left) if left >= bytes)
    }

    /// Whether it came in chunks, all of which have been read.
    pub(crate) fn is_whole_from_chunks(&self) -> bool {
        self.framing == BodyFraming::Chunked && self.is_done()
    }

    pub(crate) fn is_done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    /// Reads once, at most `max` bytes, and gives the body's bytes among them to the closure, in pieces.
    pub(crate) fn read(
        &mut self,
        connection: &mut Connection,
        max: usize,
        mut sink: impl FnMut(&[u8]),
    ) -> Result<BodyRead, BodyError> {
        if self.is_done() {
            return Ok(BodyRead::Done);
        }
        if !connection.pending.is_empty() {
            let pending = std::mem::take(&mut connection.pending);
            let used = self.take(&pending[..pending.len().min(max)], &mut sink)?;
            connection.pending = pending;
            connection.consume_pending(used);
            return Ok(if self.is_done() { BodyRead::Done } else { BodyRead::Data });
        }
        let asked = match &self.state {
            State::Length(left) => max.min(usize::try_from(*left).unwrap_or(usize::MAX)),
            State::Chunked(_) | State::Done => max,
        };
        let Connection { stream, pending, .. } = connection;
        let read = stream.read_with(asked, |bytes| {
            let used = self.take(bytes, &mut sink)?;
            // What follows a chunked body is the next request.
            pending.extend_from_slice(&bytes[used..]);
            Ok(())
        });
        match read {
            Ok(Read::Data(taken)) => {
                taken?;
                Ok(if self.is_done() { BodyRead::Done } else { BodyRead::Data })
            }
            Ok(Read::NotReady) => Ok(BodyRead::NotReady),
            Ok(Read::Closed) => Err(BodyError::Closed),
            Err(error) => Err(BodyError::Broken(error)),
        }
    }

    /// Takes the part of `bytes` that belongs to the body and returns how many those are.
    fn take(&mut self, bytes: &[u8], sink: &mut impl FnMut(&[u8])) -> Result<usize, BodyError> {
        match &mut self.state {
            State::Done => Ok(0),
            State::Length(left) => {
                let used = bytes.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= used as u64;
                self.received += used as u64;
                if *left == 0 {
                    self.state = State::Done;
                }
                sink(&bytes[..used]);
                Ok(used)
            }
            State::Chunked(decoder) => {
                let mut used = 0;
                while used < bytes.len() {
                    let decoded = decoder.decode(&bytes[used..]).map_err(BodyError::Malformed)?;
                    let data = &bytes[used..][decoded.data];
                    self.received += data.len() as u64;
                    if !data.is_empty() {
                        sink(data);
                    }
                    used += decoded.consumed;
                    self.framing_bytes += (decoded.consumed - data.len()) as u64;
                    if decoded.done {
                        self.trailers = decoder.trailer_lines().to_vec();
                        self.state = State::Done;
                        break;
                    }
                }
                Ok(used)
            }
        }
    }
}
