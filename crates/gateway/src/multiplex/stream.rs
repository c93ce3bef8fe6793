//! The connection's state of a stream while an exchange works on it.

use crate::multiplex::failure::StreamFailure;
use crate::multiplex::head::ReceivedHead;
use http1::Trailers;
use http2::StreamId;
use reactor::TaskId;

/// Longest body frame if the location sets no other: nginx's `http2_chunk_size`.
const CHUNK_BYTES_DEFAULT: usize = 8 * 1024;

/// How far the end of the outgoing body has come.
#[derive(Debug)]
pub(crate) enum StreamEnding {
    /// More of the body may come.
    Open,
    /// The end follows the waiting bytes.
    Body,
    /// The same, with these trailers.
    Trailers(Trailers),
    /// The end was framed.
    Sent,
}

/// A stream.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) id: StreamId,
    /// The task of its exchange.
    pub(crate) task: TaskId,
    /// Heads of an upstream's response that its exchange has not read: interim ones, and the final one, which precedes the
    /// body.
    heads: Vec<ReceivedHead>,
    /// Unread bytes of the incoming body: no more than the stream's window.
    pub(crate) received: Vec<u8>,
    /// The peer has sent everything.
    pub(crate) is_received: bool,
    pub(crate) trailers: Trailers,
    /// Bytes of the outgoing body; the first `framed` of them are framed already.
    unsent: Vec<u8>,
    framed: usize,
    /// Number of waiting bytes that may be framed.
    pub(crate) released: usize,
    /// Bytes are framed only when they are released.
    pub(crate) is_held_back: bool,
    pub(crate) end: StreamEnding,
    pub(crate) chunk_bytes: usize,
    /// The peer accepts nothing any more.
    pub(crate) is_gone: bool,
    /// Why an upstream ended it.
    pub(crate) failure: Option<StreamFailure>,
    /// `$bytes_sent`: bytes of all frames.
    pub(crate) bytes_sent: u64,
    /// `$body_bytes_sent`: payload of DATA frames.
    pub(crate) body_bytes_sent: u64,
}

impl Stream {
    pub(crate) fn new(id: StreamId, task: TaskId, is_received: bool) -> Self {
        Self {
            id,
            task,
            heads: Vec::new(),
            received: Vec::new(),
            is_received,
            trailers: Trailers::default(),
            unsent: Vec::new(),
            framed: 0,
            released: 0,
            is_held_back: false,
            end: StreamEnding::Open,
            chunk_bytes: CHUNK_BYTES_DEFAULT,
            is_gone: false,
            failure: None,
            bytes_sent: 0,
            body_bytes_sent: 0,
        }
    }

    /// Bytes that wait for windows, for room, or for their turn.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.unsent.len() - self.framed
    }

    pub(crate) fn held_bytes(&self) -> usize {
        let heads: usize = self.heads.iter().map(ReceivedHead::held_bytes).sum();
        heads + self.received.capacity() + self.unsent.capacity() + self.trailers.held_bytes()
    }

    /// Size of the heads that wait.
    pub(crate) fn head_bytes(&self) -> usize {
        self.heads.iter().map(ReceivedHead::text_bytes).sum()
    }

    /// Adds a head behind those that wait.
    pub(crate) fn keep_head(&mut self, head: ReceivedHead) {
        self.heads.push(head);
    }

    /// Takes the head that has waited longest.
    pub(crate) fn take_head(&mut self) -> Option<ReceivedHead> {
        if self.heads.is_empty() { None } else { Some(self.heads.remove(0)) }
    }

    /// Adds bytes after those that wait.
    pub(crate) fn keep(&mut self, bytes: &[u8]) {
        if self.framed > self.unsent.len() / 2 {
            self.unsent.drain(..self.framed);
            self.framed = 0;
        }
        self.unsent.reserve_exact(bytes.len());
        self.unsent.extend_from_slice(bytes);
    }

    /// Takes the waiting bytes out.
    pub(crate) fn take_unsent(&mut self) -> (Vec<u8>, usize) {
        (std::mem::take(&mut self.unsent), std::mem::take(&mut self.framed))
    }

    /// Puts them back, after this many were framed.
    pub(crate) fn put_unsent(&mut self, unsent: Vec<u8>, framed: usize) {
        if framed < unsent.len() {
            (self.unsent, self.framed) = (unsent, framed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queued_bytes_wait_for_framing() {
        let mut stream = Stream::new(StreamId(1), TaskId { index: 0, generation: 0 }, true);
        stream.keep(b"abcdef");
        let (unsent, framed) = stream.take_unsent();
        assert_eq!((&unsent[..], framed), (&b"abcdef"[..], 0));
        stream.put_unsent(unsent, 4);
        assert_eq!(stream.waiting_bytes(), 2);
        stream.keep(b"gh");
        let (unsent, framed) = stream.take_unsent();
        assert_eq!(&unsent[framed..], b"efgh");
        let all = unsent.len();
        stream.put_unsent(unsent, all);
        assert_eq!((stream.waiting_bytes(), stream.held_bytes()), (0, 0));
    }
}
