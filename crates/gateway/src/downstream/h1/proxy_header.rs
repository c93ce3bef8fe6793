//! The header of the PROXY protocol before a connection's first request. The connection reads it, `proxyproto` parses
//! it, and the worker decides about a connection without one.

use crate::downstream::h1::connection::Connection;
use proxyproto::{HEADER_BYTES_MAX, HeaderError, Parse};
use reactor::{Millis, Read};

/// Bytes read at once: what follows the header stays with the connection until its head is complete.
const READ_BYTES: usize = HEADER_BYTES_MAX;

/// The result of reading the header.
#[derive(Debug)]
pub(crate) enum HeaderRead {
    /// The header is complete; what followed is pending.
    Complete,
    /// More bytes are needed.
    Waiting,
    /// The client closed before the header.
    ClosedBefore,
    /// The client closed in the middle of the header.
    ClosedInside,
    /// The bytes are no valid header; they stay pending.
    Refused(HeaderError),
    /// The connection broke.
    Failed,
}

impl Connection {
    /// Reads what has arrived of the header.
    pub(crate) fn read_proxy_header(&mut self, now: Millis) -> HeaderRead {
        loop {
            let Self { stream, pending, .. } = self;
            match stream.read_with(READ_BYTES, |bytes| pending.extend_from_slice(bytes)) {
                Ok(Read::Data(())) => {}
                Ok(Read::NotReady) => return HeaderRead::Waiting,
                Ok(Read::Closed) if self.pending.is_empty() => return HeaderRead::ClosedBefore,
                Ok(Read::Closed) => return HeaderRead::ClosedInside,
                Err(_) => return HeaderRead::Failed,
            }
            match proxyproto::parse(&self.pending) {
                Ok(Parse::Partial) => {}
                Ok(Parse::Complete { len, header }) => {
                    self.consume_pending(len);
                    self.client.proxy_header = Some(Box::new(header));
                    self.since = now;
                    return HeaderRead::Complete;
                }
                Err(error) => return HeaderRead::Refused(error),
            }
        }
    }
}
