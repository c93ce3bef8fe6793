//! The head of an upstream's response, with its bytes.

use crate::base::buffer::recycle;
use crate::base::logs::error::errno;
use http1::ResponseHead;
use std::io;
use transport::tls_error;

/// The response head of an upstream. Separate from the request, because it is needed much more briefly: most exchanges
/// settle in the turn in which it arrives, so they reuse the same few, warm buffers of their worker.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    /// The head's bytes, including the empty line; before it is complete, the bytes so far.
    pub(crate) bytes: Vec<u8>,
    /// The parsed head; its spans point into `bytes`.
    pub(crate) head: ResponseHead,
    /// The lines of its trailers, once its body has ended.
    pub(crate) trailers: Vec<u8>,
}

impl Answer {
    /// Bytes of memory of its buffers.
    pub(crate) fn held_bytes(&self) -> usize {
        self.bytes.capacity() + self.trailers.capacity() + self.head.fields.capacity() * size_of::<http1::Field>()
    }

    /// Clears it for the next exchange.
    pub(crate) fn clear(&mut self) {
        recycle(&mut self.bytes);
        self.trailers.clear();
    }
}

/// nginx's message for a failed read from the upstream.
pub(crate) fn read_failure(error: &io::Error) -> String {
    tls_error(error).map_or_else(|| format!("recv() failed ({})", errno(error)), tls::TlsError::phrase)
}
