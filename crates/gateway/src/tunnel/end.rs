//! The two kinds of tunnel ends: a socket, or one stream of a connection that carries several.

use crate::base::buffer::RareSpill;
use reactor::{PeerAddress, Read};
use std::io;
use transport::Transport;

/// A stream as one end. It buffers what its windows do not admit yet: no more than one read of the other end.
pub(crate) trait StreamEnd {
    /// Passes at most `max` received bytes to the closure, in one piece.
    fn read(&self, max: usize, look: &mut dyn FnMut(&[u8])) -> io::Result<Read<()>>;
    /// Sends bytes, or buffers them.
    fn write(&self, bytes: &[u8]) -> io::Result<()>;
    /// Number of buffered bytes.
    fn waiting_bytes(&self) -> usize;
    /// Sends the end after the buffered bytes.
    fn shutdown_write(&self) -> io::Result<()>;
    /// Whether it was reset, or its connection is gone.
    fn is_failed(&self) -> bool;
    /// Bytes of memory that it holds.
    fn held_bytes(&self) -> usize;
    /// The client's address.
    fn peer(&self) -> PeerAddress;
}

/// The client's end.
pub(crate) enum ClientEnd {
    Socket(Transport),
    Stream(Box<dyn StreamEnd>),
}

impl ClientEnd {
    pub(crate) fn borrowed(&self) -> End<'_> {
        match self {
            Self::Socket(socket) => End::Socket(socket),
            Self::Stream(stream) => End::Stream(&**stream),
        }
    }

    /// The client's socket, if the tunnel has it for itself.
    pub(crate) fn socket(&self) -> Option<&Transport> {
        match self {
            Self::Socket(socket) => Some(socket),
            Self::Stream(_) => None,
        }
    }

    /// Whether the client's connection continues without the tunnel.
    pub(crate) fn is_stream(&self) -> bool {
        matches!(self, Self::Stream(_))
    }

    /// Ends it by a reset.
    pub(crate) fn reset(self) {
        match self {
            Self::Socket(socket) => socket.reset(),
            // A stream that is dropped before its end is reset.
            Self::Stream(stream) => drop(stream),
        }
    }

    /// Ends it like a closed connection: if bytes remain unsent, it is reset.
    pub(crate) fn close(self) {
        if let Self::Stream(stream) = self {
            let _ = stream.shutdown_write();
        }
    }
}

/// A borrowed end for reading and writing.
#[derive(Clone, Copy)]
pub(crate) enum End<'a> {
    Socket(&'a Transport),
    Stream(&'a dyn StreamEnd),
}

impl End<'_> {
    /// Reads once, as [`Transport::read_with`] does.
    pub(super) fn read_with<R>(self, max: usize, look: impl FnOnce(&[u8]) -> R) -> io::Result<Read<R>> {
        match self {
            Self::Socket(socket) => socket.read_with(max, look),
            Self::Stream(stream) => {
                let (mut look, mut seen) = (Some(look), None);
                let read = stream.read(max, &mut |bytes| seen = look.take().map(|look| look(bytes)))?;
                Ok(match read {
                    Read::Data(()) => seen.map_or(Read::NotReady, Read::Data),
                    Read::NotReady => Read::NotReady,
                    Read::Closed => Read::Closed,
                })
            }
        }
    }

    /// Writes after the waiting bytes; returns the bytes that count against the turn.
    pub(super) fn write(self, spill: &mut RareSpill, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Socket(socket) => spill.with(|spill| spill.write(socket, &[bytes])),
            Self::Stream(stream) => stream.write(bytes).map(|()| bytes.len()),
        }
    }

    /// Sends waiting bytes; returns how many were sent.
    pub(super) fn flush(self, spill: &mut RareSpill) -> io::Result<usize> {
        match self {
            Self::Socket(_) if spill.is_empty() => Ok(0),
            Self::Socket(socket) => spill.with(|spill| spill.flush(socket)),
            // A stream sends them itself when its windows open.
            Self::Stream(_) => Ok(0),
        }
    }

    /// Whether bytes wait to be read; for a stream, only reading shows that.
    pub(super) fn is_readable(self) -> bool {
        match self {
            Self::Socket(socket) => socket.is_readable(),
            Self::Stream(_) => true,
        }
    }

    /// Whether no bytes wait to be sent to it.
    pub(super) fn is_free(self, spill: &RareSpill) -> bool {
        match self {
            Self::Socket(_) => spill.is_empty(),
            Self::Stream(stream) => stream.waiting_bytes() == 0,
        }
    }

    pub(super) fn shutdown_write(self) -> io::Result<()> {
        match self {
            Self::Socket(socket) => socket.shutdown_write(),
            Self::Stream(stream) => stream.shutdown_write(),
        }
    }

    /// Whether the peer of a socket has sent its end; bytes before it may be unread.
    pub(super) fn is_peer_closed(self) -> bool {
        matches!(self, Self::Socket(socket) if socket.is_peer_closed())
    }

    pub(super) fn is_failed(self) -> bool {
        match self {
            Self::Socket(socket) => socket.is_failed(),
            Self::Stream(stream) => stream.is_failed(),
        }
    }

    pub(super) fn held_bytes(self) -> usize {
        match self {
            Self::Socket(socket) => socket.held_bytes(),
            Self::Stream(stream) => stream.held_bytes(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};
    use std::collections::VecDeque;
    use std::rc::Rc;

    /// A stream in memory: what its peer sends, what was sent to it, and what its window does not admit yet.
    #[derive(Default)]
    struct Wire {
        incoming: RefCell<VecDeque<&'static [u8]>>,
        is_over: Cell<bool>,
        sent: RefCell<Vec<u8>>,
        window: Cell<usize>,
        has_ended: Cell<bool>,
    }

    struct InMemory(Rc<Wire>);

    impl StreamEnd for InMemory {
        fn read(&self, max: usize, look: &mut dyn FnMut(&[u8])) -> io::Result<Read<()>> {
            let mut incoming = self.0.incoming.borrow_mut();
            let Some(bytes) = incoming.pop_front() else {
                return Ok(if self.0.is_over.get() { Read::Closed } else { Read::NotReady });
            };
            let (piece, rest) = bytes.split_at(bytes.len().min(max));
            if !rest.is_empty() {
                incoming.push_front(rest);
            }
            look(piece);
            Ok(Read::Data(()))
        }

        fn write(&self, bytes: &[u8]) -> io::Result<()> {
            self.0.sent.borrow_mut().extend_from_slice(bytes);
            Ok(())
        }

        fn waiting_bytes(&self) -> usize {
            self.0.sent.borrow().len().saturating_sub(self.0.window.get())
        }

        fn shutdown_write(&self) -> io::Result<()> {
            self.0.has_ended.set(true);
            Ok(())
        }

        fn is_failed(&self) -> bool {
            false
        }

        fn held_bytes(&self) -> usize {
            self.waiting_bytes()
        }

        fn peer(&self) -> PeerAddress {
            PeerAddress::Ip(([127, 0, 0, 1], 1).into())
        }
    }

    fn end() -> (Rc<Wire>, ClientEnd) {
        let wire = Rc::new(Wire::default());
        (Rc::clone(&wire), ClientEnd::Stream(Box::new(InMemory(wire))))
    }

    #[test]
    fn a_stream_is_read_in_pieces_until_its_end() {
        let (wire, client) = end();
        wire.incoming.borrow_mut().push_back(b"hello");
        let read = |max| client.borrowed().read_with(max, <[u8]>::to_vec).unwrap();
        assert!(matches!(read(3), Read::Data(bytes) if bytes == b"hel"));
        assert!(matches!(read(9), Read::Data(bytes) if bytes == b"lo"));
        assert!(matches!(read(9), Read::NotReady));
        wire.is_over.set(true);
        assert!(matches!(read(9), Read::Closed));
    }

    #[test]
    fn stream_keeps_its_bytes_until_they_are_sent() {
        let (wire, client) = end();
        let mut spill = RareSpill::default();
        assert!(client.borrowed().is_free(&spill));
        assert_eq!(client.borrowed().write(&mut spill, b"four").unwrap(), 4);
        assert!(spill.is_empty(), "the stream has them");
        assert!(!client.borrowed().is_free(&spill));
        assert_eq!(client.borrowed().flush(&mut spill).unwrap(), 0);
        wire.window.set(4);
        assert!(client.borrowed().is_free(&spill));
    }

    #[test]
    fn closing_sends_the_end_of_a_stream_and_a_reset_does_not() {
        let (wire, client) = end();
        client.close();
        assert!(wire.has_ended.get());
        let (wire, client) = end();
        client.reset();
        assert!(!wire.has_ended.get() && Rc::strong_count(&wire) == 1);
    }
}
