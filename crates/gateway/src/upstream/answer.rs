//! The head of an upstream's response as a typed value, the same for all protocols, and the trailers of its body.

use crate::base::buffer::recycle;
use crate::base::logs::error::errno;
use http1::encode::{encode_field, encode_head_end, encode_status_line};
use http1::{FieldId, ResponseHead, Trailers, Version};
use std::borrow::Cow;
use std::io;
use transport::tls_error;

/// The response head of an upstream. Separate from the request, because it is needed much more briefly: most exchanges
/// settle in the turn in which it arrives, so they reuse the same few, warm buffers of their worker.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    /// The text that the head points into; before the head is complete, the bytes received so far.
    pub(crate) bytes: Vec<u8>,
    /// The head; its spans point into `bytes`.
    pub(crate) head: ResponseHead,
    /// Its trailers, once its body has ended.
    pub(crate) trailers: Trailers,
}

impl Answer {
    /// Keeps the bytes of a head, or of its part that has come.
    pub(crate) fn keep(&mut self, bytes: &[u8]) {
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
    }

    /// Forgets the head: it was an interim response, or the attempt failed.
    pub(crate) fn forget(&mut self) {
        self.bytes.clear();
        self.trailers.clear();
    }

    /// Value of the first field with this id.
    pub(crate) fn value(&self, id: FieldId) -> Option<&[u8]> {
        self.head.value(id, &self.bytes)
    }

    /// The head in the format of the cache's files, which is HTTP/1.1's (ADR 90): as it came, if it came so.
    pub(crate) fn stored(&self) -> Cow<'_, [u8]> {
        if !self.head.line.is_empty() {
            return Cow::Borrowed(&self.bytes);
        }
        let mut stored = Vec::with_capacity(self.bytes.len());
        let reason = Some(self.head.reason.of(&self.bytes)).filter(|reason| !reason.is_empty());
        encode_status_line(Version::Http11, self.head.status, reason, &mut stored);
        for field in &self.head.fields {
            encode_field(field.name.of(&self.bytes), field.value.of(&self.bytes), &mut stored);
        }
        encode_head_end(&mut stored);
        Cow::Owned(stored)
    }

    /// Bytes of memory of its buffers.
    pub(crate) fn held_bytes(&self) -> usize {
        let fields = self.head.fields.capacity() * size_of::<http1::Field>();
        self.bytes.capacity() + self.trailers.held_bytes() + fields
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

#[cfg(test)]
mod tests {
    use super::*;
    use http1::{Limits, RequestKind};

    const HEAD: &[u8] = b"HTTP/1.1 404 Not here\r\nETag:  x\r\nX-A: 1\r\n\r\n";

    fn parsed(head: &[u8]) -> Answer {
        let mut answer = Answer::default();
        answer.keep(head);
        let limits = Limits::response(4096);
        http1::response::parse(head, &limits, RequestKind::Other, &mut answer.head).expect("a head");
        answer
    }

    #[test]
    fn a_head_of_http_1_is_stored_as_it_came() {
        let answer = parsed(HEAD);
        assert_eq!(&*answer.stored(), HEAD);
        assert_eq!(answer.value(FieldId::ETag), Some(&b"x"[..]));
    }

    #[test]
    fn a_head_of_another_protocol_is_stored_in_the_same_format() {
        let mut answer = parsed(HEAD);
        answer.head.line = http1::Span::default();
        assert_eq!(&*answer.stored(), b"HTTP/1.1 404 Not here\r\nETag: x\r\nX-A: 1\r\n\r\n");
        answer.head.reason = http1::Span::default();
        assert!(answer.stored().starts_with(b"HTTP/1.1 404 Not Found\r\n"));
    }

    #[test]
    fn a_forgotten_head_leaves_nothing() {
        let mut answer = parsed(HEAD);
        answer.trailers.push(FieldId::Other, b"x", b"1");
        answer.forget();
        assert!(answer.bytes.is_empty() && answer.trailers.is_empty());
    }
}
