//! The bytes and the parsed head of one request, owned and recycled: retries, waits, variables, logs and error pages
//! need them long after the read.

use crate::base::buffer::{RECYCLED_BYTES_MAX, recycle};
use http1::outgoing::OutgoingHead;
use http1::{Limits, Parse, RequestError, RequestHead, Span};

/// Buffers of one exchange. Recycled: between two exchanges they are empty but not freed.
#[derive(Debug, Default)]
pub(crate) struct Request {
    /// The head's bytes, including the empty line.
    pub(crate) bytes: Vec<u8>,
    /// The parsed head; its spans point into `bytes`.
    pub(crate) head: RequestHead,
    /// The head that is sent to the upstream.
    pub(crate) upstream_head: OutgoingHead,
    /// `$uri`, if it differs from the bytes of the target.
    pub(crate) uri: Vec<u8>,
    /// `$args`, after an internal redirect that brought some.
    pub(crate) args: Vec<u8>,
    /// Buffer for the path of a file.
    pub(crate) path: Vec<u8>,
}

impl Request {
    /// Parses the head at the start of `bytes`; if it is complete, keeps a copy.
    pub(crate) fn parse(&mut self, bytes: &[u8], limits: &Limits) -> Result<Parse, RequestError> {
        let parsed = http1::request::parse(bytes, limits, &mut self.head)?;
        if let Parse::Complete { len } = parsed {
            self.bytes.clear();
            self.bytes.extend_from_slice(&bytes[..len]);
        }
        Ok(parsed)
    }

    /// Copies another request's head for a subrequest, which upgrades no protocol and expects no `100 Continue`.
    pub(crate) fn copy_head(&mut self, other: &Self) {
        self.bytes.clone_from(&other.bytes);
        self.head.clone_from(&other.head);
        self.head.expect_continue = false;
        self.head.upgrade = None;
        self.head.connection.upgrade = false;
    }

    /// Keeps a refused head for the logs: the spans found in it point into these bytes. It is as long as was read; the
    /// limits of a head bound that.
    pub(crate) fn keep_refused(&mut self, bytes: &[u8]) {
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
    }

    /// Keeps the beginning of a head that was never completed, with what could be parsed of it.
    pub(crate) fn keep_partial(&mut self, bytes: &[u8], limits: &Limits) {
        // Only the request line is needed: errors in the rest were reported before.
        let _ = http1::request::parse(bytes, limits, &mut self.head);
        let begin = bytes.iter().position(|byte| !b"\r\n".contains(byte)).unwrap_or(bytes.len());
        if self.head.line.is_empty() && !bytes[begin..].contains(&b'\n') {
            // Only a part of the request line has arrived: as in nginx, the logs show it.
            self.head.line = Span::new(begin, bytes.len());
        }
        self.keep_refused(bytes);
    }

    /// Bytes of memory of its buffers.
    pub(crate) fn held_bytes(&self) -> usize {
        let Self { bytes, head, upstream_head, uri, args, path } = self;
        let own = bytes.capacity() + uri.capacity() + args.capacity() + path.capacity();
        own + upstream_head.capacity() + head.fields.capacity() * size_of::<http1::Field>()
    }

    /// Clears it for the next exchange.
    pub(crate) fn clear(&mut self) {
        self.upstream_head.clear(RECYCLED_BYTES_MAX);
        for buffer in [&mut self.bytes, &mut self.uri, &mut self.args, &mut self.path] {
            recycle(buffer);
        }
    }
}
