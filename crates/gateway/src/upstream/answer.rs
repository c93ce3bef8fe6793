//! The head of an upstream's response, with its bytes.

use crate::base::buffer::recycle;
use crate::base::logs::error::errno;
use http1::ResponseHead;
use std::io;
use transport::tls_error;

/// The response head of an upstream. Apart from the request, because it is there much more briefly: most exchanges settle in
/// the turn in which it comes, and take the same few, warm ones from their worker then.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    /// The head's bytes, the empty line included; before it is complete, as much as there is.
    pub(crate) bytes: Vec<u8>,
    /// What they mean; its spans point into `bytes`.
    pub(crate) head: ResponseHead,
    /// The lines of its trailers, once its body has ended.
    pub(crate) trailers: Vec<u8>,
}

impl Answer {
    /// Bytes of memory behind its buffers.
    pub(crate) fn held_bytes(&self) -> usize {
        self.bytes.capacity() + self.trailers.capacity() + self.head.fields.capacity() * size_of::<http1::Field>()
    }

    /// Makes it ready for the next exchange.
    pub(crate) fn clear(&mut self) {
        recycle(&mut self.bytes);
        self.trailers.clear();
    }
}

/// nginx's words for a read of the upstream that failed.
pub(crate) fn read_failure(error: &io::Error) -> String {
    tls_error(error).map_or_else(|| format!("recv() failed ({})", errno(error)), tls::TlsError::phrase)
}
