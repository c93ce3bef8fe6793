//! A stream as the client's end of a tunnel (RFC 8441): its data are the tunnel's bytes, its windows the back-pressure,
//! `END_STREAM` the FIN and `RST_STREAM` the reset.

use crate::downstream::h2::H2;
use crate::multiplex::carried::broken;
use crate::tunnel::end::StreamEnd;
use http2::ErrorCode;
use reactor::{PeerAddress, Read};
use std::io;

/// A stream after its exchange. Dropping it resets the stream if its end was not sent.
#[derive(Debug)]
pub(crate) struct Tunnelled(Box<H2>);

impl Tunnelled {
    pub(crate) fn new(mut stream: Box<H2>) -> Self {
        // The equivalent of a TCP reset (RFC 8441 §5).
        stream.code = ErrorCode::CANCEL;
        Self(stream)
    }
}

impl StreamEnd for Tunnelled {
    fn read(&self, max: usize, look: &mut dyn FnMut(&[u8])) -> io::Result<Read<()>> {
        let H2 { session, key, .. } = &*self.0;
        let received = session.take_received(*key).ok_or_else(broken)?;
        let count = received.len().min(max);
        if count > 0 {
            look(&received[..count]);
        }
        // Trailers of a tunnel are ignored.
        let is_end = session.consume(*key, received, count).is_some();
        if count > 0 {
            Ok(Read::Data(()))
        } else if is_end {
            Ok(Read::Closed)
        } else if self.is_failed() {
            Err(io::ErrorKind::ConnectionReset.into())
        } else {
            Ok(Read::NotReady)
        }
    }

    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        self.0.session.send(self.0.key, bytes, false)
    }

    fn waiting_bytes(&self) -> usize {
        self.0.waiting_bytes()
    }

    fn shutdown_write(&self) -> io::Result<()> {
        self.0.session.send(self.0.key, b"", true)
    }

    fn is_failed(&self) -> bool {
        self.0.is_gone()
    }

    fn held_bytes(&self) -> usize {
        size_of::<H2>() + self.0.held_bytes()
    }

    fn peer(&self) -> PeerAddress {
        self.0.facts.peer.clone()
    }
}
