//! The body of a request without its framing: how far it was read, and its result.

use crate::downstream::h1::body::Chunks;
use http1::{BodyFraming, ChunkError, Trailers};
use std::io;

/// The position in a request's body.
#[derive(Debug)]
pub(crate) struct RequestBody {
    state: BodyState,
    framing: BodyFraming,
    /// Bytes of body received so far, without framing.
    pub(crate) received: u64,
    /// Bytes of chunk lines and trailers besides.
    pub(crate) framing_bytes: u64,
    /// Its trailers, once it is complete.
    pub(crate) trailers: Trailers,
}

#[derive(Debug)]
enum BodyState {
    Done,
    Length(u64),
    Chunked(Box<Chunks>),
    /// The stream's end marks the body's end.
    Stream,
}

/// The result of a read of the body.
#[derive(Debug)]
pub(crate) enum BodyRead {
    /// Some data; the closure has seen it.
    Data,
    /// Nothing has arrived.
    NotReady,
    /// The body is complete.
    Done,
}

/// Why the body cannot be read to its end.
#[derive(Debug)]
pub(crate) enum BodyError {
    /// The client closed in the middle of it.
    Closed,
    /// The connection broke.
    Broken(io::Error),
    /// Its chunked coding is invalid.
    Malformed(ChunkError),
}

impl RequestBody {
    pub(crate) fn new(framing: BodyFraming) -> Self {
        let state = match framing {
            BodyFraming::None | BodyFraming::Length(0) => BodyState::Done,
            BodyFraming::Length(length) => BodyState::Length(length),
            BodyFraming::Chunked => BodyState::Chunked(Box::default()),
        };
        Self { state, framing, received: 0, framing_bytes: 0, trailers: Trailers::default() }
    }

    /// The same for a stream, which has no framing of its own.
    pub(crate) fn of_stream(framing: BodyFraming) -> Self {
        let body = Self::new(framing);
        if body.is_done() { body } else { Self { state: BodyState::Stream, ..body } }
    }

    /// Takes bytes of a stream.
    pub(super) fn take_of_stream(&mut self, bytes: &[u8], sink: &mut impl FnMut(&[u8])) {
        self.received += bytes.len() as u64;
        if !bytes.is_empty() {
            sink(bytes);
        }
    }

    /// Ends the body of a stream, with these trailers.
    pub(super) fn end_stream(&mut self, trailers: Trailers) {
        self.trailers = trailers;
        self.state = BodyState::Done;
    }

    /// A body of this length that was already read; `None`: there is none.
    pub(crate) fn received(length: Option<u64>) -> Self {
        let framing = length.map_or(BodyFraming::None, BodyFraming::Length);
        let received = length.unwrap_or_default();
        Self { state: BodyState::Done, framing, received, framing_bytes: 0, trailers: Trailers::default() }
    }

    /// The framing of the request's body; none if the request was refused.
    pub(crate) fn framing(&self) -> BodyFraming {
        self.framing
    }

    /// The most bytes that the next read needs to ask for.
    pub(super) fn asks_for(&self, max: usize) -> usize {
        match &self.state {
            BodyState::Length(left) => max.min(usize::try_from(*left).unwrap_or(usize::MAX)),
            BodyState::Chunked(_) | BodyState::Stream | BodyState::Done => max,
        }
    }

    /// The result of a read after its bytes were taken.
    pub(super) fn progress(&self) -> BodyRead {
        if self.is_done() { BodyRead::Done } else { BodyRead::Data }
    }

    /// Whether the rest is known to be at least this many bytes.
    pub(crate) fn is_longer_than(&self, bytes: u64) -> bool {
        matches!(self.state, BodyState::Length(left) if left >= bytes)
    }

    /// Whether it came in chunks, and all of them have been read.
    pub(crate) fn is_whole_from_chunks(&self) -> bool {
        self.framing == BodyFraming::Chunked && self.is_done()
    }

    pub(crate) fn is_done(&self) -> bool {
        matches!(self.state, BodyState::Done)
    }

    /// Takes the part of `bytes` that belongs to the body, and returns its length.
    pub(super) fn take(&mut self, bytes: &[u8], sink: &mut impl FnMut(&[u8])) -> Result<usize, BodyError> {
        match &mut self.state {
            BodyState::Done | BodyState::Stream => Ok(0),
            BodyState::Length(left) => {
                let used = bytes.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= used as u64;
                self.received += used as u64;
                if *left == 0 {
                    self.state = BodyState::Done;
                }
                sink(&bytes[..used]);
                Ok(used)
            }
            BodyState::Chunked(chunks) => {
                let mut used = 0;
                while used < bytes.len() {
                    let piece = chunks.next_piece(&bytes[used..]).map_err(BodyError::Malformed)?;
                    self.received += piece.data.len() as u64;
                    if !piece.data.is_empty() {
                        sink(piece.data);
                    }
                    used += piece.used;
                    self.framing_bytes += (piece.used - piece.data.len()) as u64;
                    if let Some(trailers) = piece.end {
                        self.trailers = trailers;
                        self.state = BodyState::Done;
                        break;
                    }
                }
                Ok(used)
            }
        }
    }
}
