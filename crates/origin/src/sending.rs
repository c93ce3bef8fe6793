//! What a connection is sending, and what follows after that. `connection` drives it.

use crate::body::{BLOCKS_PER_WRITE, Body, Filled};
use crate::counters::CloseReason;
use crate::receive::Receiving;
use reactor::monotonic_millis;
use std::io::{self, IoSlice};
use transport::Transport;

/// What follows after everything was sent.
#[derive(Debug)]
pub(crate) enum Then {
    /// Read the next request.
    Next,
    /// Close for this reason.
    Close(CloseReason),
    /// Send RST.
    Reset(CloseReason),
    /// Receive the request's body, after 100 (Continue).
    Receive(Box<Receiving>),
    /// Forward raw bytes, after 101.
    Tunnel,
}

/// The data being sent.
#[derive(Debug)]
pub(crate) struct Sending {
    pub(crate) out: Vec<u8>,
    pub(crate) sent: usize,
    pub(crate) body: Option<Body>,
    pub(crate) then: Then,
}

impl Sending {
    /// Writes once, or generates the next bytes. `None` if the socket takes no more for now.
    pub(crate) fn step(&mut self, stream: &Transport) -> io::Result<Option<Filled>> {
        let rest = self.out.get(self.sent..).unwrap_or_default();
        if let Some(body) = self.body.as_mut().filter(|body| body.is_direct()) {
            let mut parts: [IoSlice<'_>; BLOCKS_PER_WRITE] = [IoSlice::new(&[]); BLOCKS_PER_WRITE];
            let mut slices: [IoSlice<'static>; BLOCKS_PER_WRITE - 1] = [IoSlice::new(&[]); BLOCKS_PER_WRITE - 1];
            let count = body.slices(&mut slices);
            let (first, others) = parts.split_at_mut(1);
            first.fill(IoSlice::new(rest));
            others.copy_from_slice(&slices);
            let sent = stream.write(parts.get(..=count).unwrap_or_default(), false)?;
            let of_rest = sent.min(rest.len());
            self.sent += of_rest;
            body.advance((sent - of_rest) as u64);
            return Ok((sent > 0).then_some(Filled::More));
        }
        if !rest.is_empty() {
            let sent = stream.write(&[IoSlice::new(rest)], false)?;
            self.sent += sent;
            return Ok((sent > 0).then_some(Filled::More));
        }
        let Some(body) = &mut self.body else { return Ok(Some(Filled::Done)) };
        self.out.clear();
        self.sent = 0;
        Ok(Some(body.fill(monotonic_millis(), &mut self.out)))
    }
}
