//! Reads a request's body from the connection: its pending bytes first, then its socket. The chunked coding of a body.

use crate::downstream::body::{BodyError, BodyRead, RequestBody};
use crate::downstream::h1::connection::Connection;
use http1::chunked::Decoder;
use http1::{ChunkError, Trailers};
use reactor::Read;

/// A body in chunks.
#[derive(Debug, Default)]
pub(in crate::downstream) struct Chunks(Decoder);

/// A piece of it.
pub(in crate::downstream) struct ChunkPiece<'a> {
    pub(in crate::downstream) data: &'a [u8],
    /// Bytes of it, with the coding.
    pub(in crate::downstream) used: usize,
    /// The body ends here: its trailers.
    pub(in crate::downstream) end: Option<Trailers>,
}

impl Chunks {
    /// The first piece of these bytes.
    pub(in crate::downstream) fn next_piece<'a>(&mut self, bytes: &'a [u8]) -> Result<ChunkPiece<'a>, ChunkError> {
        let decoded = self.0.decode(bytes)?;
        let end = decoded.done.then(|| self.0.take_trailers());
        Ok(ChunkPiece { data: &bytes[decoded.data], used: decoded.consumed, end })
    }
}

impl Connection {
    /// Reads once, at most `max` bytes, and passes the body's bytes among them to the closure, in pieces.
    pub(in crate::downstream) fn read_body(
        &mut self,
        body: &mut RequestBody,
        max: usize,
        mut sink: impl FnMut(&[u8]),
    ) -> Result<BodyRead, BodyError> {
        if body.is_done() {
            return Ok(BodyRead::Done);
        }
        if !self.pending.is_empty() {
            let pending = std::mem::take(&mut self.pending);
            let used = body.take(&pending[..pending.len().min(max)], &mut sink)?;
            self.pending = pending;
            self.consume_pending(used);
            return Ok(body.progress());
        }
        let Self { stream, pending, .. } = self;
        let read = stream.read_with(body.asks_for(max), |bytes| {
            let used = body.take(bytes, &mut sink)?;
            // The bytes after a chunked body are the next request.
            pending.extend_from_slice(&bytes[used..]);
            Ok(())
        });
        match read {
            Ok(Read::Data(taken)) => taken.map(|()| body.progress()),
            Ok(Read::NotReady) => Ok(BodyRead::NotReady),
            Ok(Read::Closed) => Err(BodyError::Closed),
            Err(error) => Err(BodyError::Broken(error)),
        }
    }
}
