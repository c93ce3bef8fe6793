//! One stream to an upstream, as an exchange has it: it sends the request and receives the response. If it is dropped before its end, the stream is reset and its connection stays open.

use crate::base::counters::bump;
use crate::connector::h2::hub::Hub;
use crate::connector::h2::session::{OpeningStream, UpstreamSession};
use crate::multiplex::failure::StreamFailure;
use crate::multiplex::head::ReceivedHead;
use crate::multiplex::stream::Stream;
use http1::Trailers;
use http1::outgoing::OutgoingHead;
use http2::{ErrorCode, OpenFault};
use reactor::{Read, TaskId};
use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use upstream::streams::StreamLease;

/// A stream that an exchange has leased.
pub(crate) struct LeasedStream {
    hub: Rc<Hub>,
    session: Rc<UpstreamSession>,
    lease: Option<StreamLease>,
    /// The task of its exchange.
    task: TaskId,
    /// `None` before the request's head was sent.
    key: Cell<Option<usize>>,
    /// Why the stream could not be opened.
    unopened: RefCell<Option<StreamFailure>>,
    /// The bytes read last were the end of the response.
    has_ended: Cell<bool>,
    /// The error code sent to the peer if the stream is reset.
    code: Cell<ErrorCode>,
}

impl LeasedStream {
    /// The stream of a lease.
    #[allow(clippy::unnecessary_box_returns)] // it is moved between the parts of an exchange
    pub(super) fn new(hub: &Rc<Hub>, session: Rc<UpstreamSession>, lease: StreamLease, task: TaskId) -> Box<Self> {
        Box::new(Self {
            hub: Rc::clone(hub),
            session,
            lease: Some(lease),
            task,
            key: Cell::new(None),
            unopened: RefCell::new(None),
            has_ended: Cell::new(false),
            code: Cell::new(ErrorCode::CANCEL),
        })
    }

    /// Whether its connection has carried a request before.
    pub(crate) fn is_reused(&self) -> bool {
        self.lease.as_ref().is_some_and(StreamLease::is_reused)
    }

    /// The local address of its connection.
    pub(crate) fn local_address(&self) -> Option<SocketAddr> {
        self.session.local
    }

    /// Sends the head of the request. `end`: it has no body.
    pub(crate) fn open(&self, head: &OutgoingHead, scheme: &'static [u8], end: bool) -> io::Result<()> {
        match self.session.open(&OpeningStream { head, scheme, end }, self.task) {
            Ok(key) => {
                self.key.set(Some(key));
                bump(&self.session.thread.counters().upstream_streams, 1);
                Ok(())
            }
            Err(fault) => {
                // The peer has not seen the request.
                let failure = match fault {
                    OpenFault::Going => StreamFailure::GoneAway,
                    OpenFault::TooMany => StreamFailure::Refused,
                    OpenFault::Head(_) => StreamFailure::Unsendable,
                };
                *self.unopened.borrow_mut() = Some(failure);
                Err(io::ErrorKind::BrokenPipe.into())
            }
        }
    }

    fn key(&self) -> io::Result<usize> {
        self.key.get().ok_or_else(|| io::ErrorKind::BrokenPipe.into())
    }

    /// Sends a part of the request's body after the bytes that wait; `end`: it is the last part.
    pub(crate) fn send(&self, body: &[u8], end: bool) -> io::Result<()> {
        self.session.send(self.key()?, body, end)
    }

    /// Ends the request's body with these trailers.
    pub(crate) fn end_with_trailers(&self, trailers: &Trailers) -> io::Result<()> {
        self.session.end_with_trailers(self.key()?, trailers.clone())
    }

    /// Bytes of the request's body that wait for windows, room, or their turn. Fails if the peer accepts no more.
    pub(crate) fn waiting_bytes(&self) -> io::Result<usize> {
        let key = self.key()?;
        let (waiting, is_gone) = self.session.look(key, |stream| (stream.waiting_bytes(), stream.is_gone));
        if is_gone { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(waiting) }
    }

    /// Bytes of all frames sent for the request so far.
    pub(crate) fn bytes_sent(&self) -> u64 {
        self.key.get().map_or(0, |key| self.session.look(key, |stream| stream.bytes_sent))
    }

    /// Bytes of memory held for bodies that wait.
    pub(crate) fn held_bytes(&self) -> usize {
        self.key.get().map_or(0, |key| self.session.look(key, Stream::held_bytes))
    }

    /// Passes the next part of the response to the closure: a head, a part of the body, or the final head with the beginning
    /// of the body. `Closed`: the response is complete.
    pub(crate) fn read_with<R>(
        &self,
        max: usize,
        look: impl FnOnce(Option<ReceivedHead>, &[u8]) -> R,
    ) -> io::Result<Read<R>> {
        let key = self.key()?;
        let read = self.session.read_with(key, max, |head, bytes, is_end| {
            self.has_ended.set(is_end);
            look(head, bytes)
        });
        read.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    /// Whether the bytes read last, or passed to the closure now, are the end of the response.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.get()
    }

    /// The trailers of a completed response.
    pub(crate) fn take_trailers(&self) -> Trailers {
        self.key.get().map(|key| self.session.take_trailers(key)).unwrap_or_default()
    }

    /// Whether trailers were received.
    pub(crate) fn has_trailers(&self) -> bool {
        self.key.get().is_some_and(|key| self.session.look(key, |stream| !stream.trailers.is_empty()))
    }

    /// Why it ended early.
    pub(crate) fn failure(&self) -> Option<StreamFailure> {
        match self.key.get() {
            Some(key) => self.session.failure(key),
            None => self.unopened.borrow().clone(),
        }
    }

    /// Ends the stream; if it is not complete, it is reset with this code.
    pub(crate) fn end(self, code: ErrorCode) {
        self.code.set(code);
    }
}

impl Drop for LeasedStream {
    fn drop(&mut self) {
        if let Some(key) = self.key.get() {
            self.session.remove(key, self.code.get());
            bump(&self.session.thread.counters().upstream_streams, -1);
        }
        if let Some(lease) = self.lease.take() {
            self.hub.release(&self.session.thread, self.session.key, lease);
        }
    }
}
