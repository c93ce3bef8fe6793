//! HTTP/2 towards the client: one stream, as the client's side of an exchange. [`session`] has the state that all
//! streams of a connection share. Bytes that the engine has framed count as sent: they are bounded, and the worker
//! writes them in its next step.

mod head;
mod lingering;
pub(crate) mod reading;
pub(crate) mod session;
pub(crate) mod state;
pub(crate) mod tunnelled;

use crate::base::buffer::Flushed;
use crate::base::close::CloseReason;
use crate::base::counters::bump;
use crate::base::memory::{HeldFor, Pressure};
use crate::downstream::body::{BodyError, BodyRead, RequestBody};
use crate::downstream::client::ClientFacts;
use crate::downstream::ending::After;
use crate::downstream::h1::linger::LingerPlan;
use crate::downstream::h2::reading::Arrived;
use crate::downstream::h2::session::Session;
use crate::downstream::reply_head::{Fields, HeadView, Mark, ReplyHead};
use crate::multiplex::stream::Stream;
use http1::{FieldId, Trailers};
use http2::{ErrorCode, StreamId};
use reactor::TaskId;
use std::io;
use std::rc::Rc;
use std::time::Duration;

/// A stream's window once its exchange reads the body, unless memory is short: enough for 20 MB/s over a round trip of 12 ms, and a quarter of
/// the connection's window for all streams.
const READING_WINDOW_BYTES: u32 = 256 * 1024;

/// A stream, for one exchange.
#[derive(Debug)]
pub(crate) struct H2 {
    pub(super) session: Rc<Session>,
    key: usize,
    id: StreamId,
    task: TaskId,
    pub(super) facts: ClientFacts,
    /// Bytes of the request's header block.
    head_bytes: u32,
    /// The client wants a tunnel: it understands no success as anything else (RFC 8441 §4).
    is_connect: bool,
    /// The response has a body.
    has_body: bool,
    /// The rest of the stated body length.
    left: Option<u64>,
    with_trailers: bool,
    /// The whole body was passed on; the trailers were not.
    body_ended: bool,
    /// Everything was passed on.
    is_ended: bool,
    /// The exchange has asked for the request's body.
    has_read: bool,
    /// The error code sent to the client if the stream is reset.
    code: ErrorCode,
    /// How long what the client still sends behind a whole response is dropped; `None`: not at all.
    linger: Option<Duration>,
}

impl H2 {
    /// The client's side for a stream whose head has arrived.
    pub(crate) fn new(session: &Rc<Session>, arrived: &Arrived) -> Option<Box<Self>> {
        let &Arrived { key, stream: id, requests, head_bytes, is_connect, .. } = arrived;
        let (task, facts) = session.facts_of(key)?;
        let facts = ClientFacts { requests, ..facts };
        let thread = &session.thread;
        // Like subrequests, streams keep a draining worker alive.
        thread.subrequests.set(thread.subrequests.get() + 1);
        bump(&thread.counters().streams, 1);
        Some(Box::new(Self {
            session: Rc::clone(session),
            key,
            id,
            task,
            facts,
            head_bytes,
            is_connect,
            has_body: false,
            left: None,
            with_trailers: false,
            body_ended: false,
            is_ended: false,
            has_read: false,
            code: ErrorCode::INTERNAL_ERROR,
            linger: None,
        }))
    }

    /// Applies the location's keepalive timeout. `goes_on`: the connection takes further requests.
    pub(crate) fn settle_keepalive(&self, timeout: Duration, goes_on: bool) {
        self.session.set_keepalive(timeout);
        if !goes_on {
            self.session.shut_down(CloseReason::KeepaliveLimit);
        }
    }

    pub(crate) fn task(&self) -> TaskId {
        self.task
    }

    /// Bytes of the request's header block.
    pub(crate) fn head_bytes(&self) -> u64 {
        self.head_bytes.into()
    }

    /// Looks at the connection's state of this stream; returns the default if it is gone.
    fn look<R: Default>(&self, look: impl FnOnce(&Stream) -> R) -> R {
        self.session.state.borrow().carried.streams.get(self.key).map(look).unwrap_or_default()
    }

    /// `http2_chunk_size`
    pub(super) fn set_chunk_bytes(&self, bytes: u32) {
        if let Some(stream) = self.session.state.borrow_mut().carried.streams.get_mut(self.key) {
            stream.chunk_bytes = bytes as usize;
        }
    }

    pub(super) fn send_head(
        &mut self,
        takes_body: bool,
        view: HeadView<'_>,
        body: &[u8],
        last: bool,
    ) -> io::Result<()> {
        let head = view.head;
        if head.status < 200 || (self.is_connect && is_success(head.status)) {
            // HTTP/2 switches no protocol, and the client must not take a page for a tunnel.
            return Err(io::ErrorKind::Unsupported.into());
        }
        self.has_body = takes_body && head.has_body;
        self.with_trailers = self.has_body && head.has_trailers;
        self.left = if self.has_body { head.length } else { None };
        let is_empty = !self.has_body || self.left == Some(0) || (last && body.is_empty());
        self.is_ended = is_empty && !self.with_trailers;
        self.session.respond(self.key, view, head.status, self.is_ended, length_on_stream(head))?;
        if self.is_ended { Ok(()) } else { self.send_body(body, last) }
    }

    /// Accepts the tunnel that the client asked for: from now on the stream's data are its bytes.
    pub(super) fn send_tunnel_head(&mut self, view: HeadView<'_>) -> io::Result<()> {
        if !self.is_connect {
            return Err(io::ErrorKind::Unsupported.into());
        }
        self.session.respond(self.key, view, view.head.status, false, None)
    }

    pub(super) fn wants_tunnel(&self) -> bool {
        self.is_connect
    }

    pub(super) fn send_interim(&self, view: HeadView<'_>) -> io::Result<()> {
        self.session.respond(self.key, view, view.head.status, false, None)
    }

    pub(super) fn send_body(&mut self, body: &[u8], last: bool) -> io::Result<()> {
        if !self.has_body {
            return Ok(());
        }
        // As in HTTP/1, a bug of ours must not break the client's framing.
        let most = self.left.map_or(usize::MAX, |left| usize::try_from(left).unwrap_or(usize::MAX));
        let body = &body[..body.len().min(most)];
        if let Some(left) = &mut self.left {
            *left -= body.len() as u64;
        }
        let last = last || self.left == Some(0);
        self.body_ended |= last;
        let end = last && !self.with_trailers && !self.is_ended;
        self.is_ended |= end;
        if body.is_empty() && !end {
            return self.check();
        }
        self.session.send(self.key, body, end)
    }

    /// Fails if the client accepts no more of the stream.
    fn check(&self) -> io::Result<()> {
        if self.is_gone() { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(()) }
    }

    pub(super) fn awaits_trailers(&self) -> bool {
        self.with_trailers && self.body_ended && !self.is_ended
    }

    pub(super) fn end_with_trailers(&mut self, trailers: &Fields) -> io::Result<()> {
        self.is_ended = true;
        if trailers.iter(b"").next().is_none() {
            return self.session.send(self.key, b"", true);
        }
        let mut sent = Trailers::default();
        for (name, value) in trailers.iter(b"") {
            sent.push(FieldId::of_name(name), name, value);
        }
        self.session.end_with_trailers(self.key, sent)
    }

    pub(super) fn hold_back(&self) {
        if let Some(stream) = self.session.state.borrow_mut().carried.streams.get_mut(self.key) {
            stream.is_held_back = true;
        }
    }

    /// Releases at most this many of the waiting bytes.
    pub(super) fn flush(&self, most: usize) -> io::Result<Flushed> {
        self.check()?;
        self.session.release(self.key, most);
        Ok(Flushed::all_if(self.waiting_bytes() == 0))
    }

    pub(super) fn waiting_bytes(&self) -> usize {
        self.look(Stream::waiting_bytes)
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.look(Stream::held_bytes)
    }

    pub(super) fn bytes_sent(&self) -> u64 {
        self.look(|stream| stream.bytes_sent)
    }

    pub(super) fn body_bytes_sent(&self) -> u64 {
        self.look(|stream| stream.body_bytes_sent)
    }

    pub(super) fn is_complete(&self) -> bool {
        self.is_ended || self.awaits_trailers()
    }

    /// The client has reset the stream, or its connection is gone.
    pub(super) fn is_gone(&self) -> bool {
        self.session.state.borrow().carried.streams.get(self.key).is_none_or(|stream| stream.is_gone)
    }

    /// Whether part of the request's body has arrived and was not read.
    pub(super) fn has_received(&self) -> bool {
        self.look(|stream| !stream.received.is_empty())
    }

    /// Whether a read would return something.
    pub(super) fn is_readable(&self) -> bool {
        self.look(|stream| !stream.received.is_empty() || stream.is_received || stream.is_gone)
    }

    /// A length may be stated even with trailers: HTTP/2 marks the end of a body itself.
    pub(super) fn fields_at(mark: Mark, head: &ReplyHead, mut say: impl FnMut(FieldId, &[u8])) {
        if mark == Mark::Length
            && let Some(length) = length_on_stream(head)
        {
            say(FieldId::ContentLength, itoa::Buffer::new().format(length).as_bytes());
        }
    }

    /// Reads once what has arrived of the request's body, and opens the window for more.
    pub(super) fn read_body(
        &mut self,
        body: &mut RequestBody,
        max: usize,
        mut sink: impl FnMut(&[u8]),
    ) -> Result<BodyRead, BodyError> {
        if body.is_done() {
            return Ok(BodyRead::Done);
        }
        if !std::mem::replace(&mut self.has_read, true) && self.session.thread.memory.pressure() == Pressure::None {
            self.session.grow_window(self.id, READING_WINDOW_BYTES);
        }
        let Some(received) = self.session.take_received(self.key) else { return Err(BodyError::Closed) };
        let count = received.len().min(max);
        body.take_of_stream(&received[..count], &mut sink);
        let end = self.session.consume(self.key, received, count);
        match end {
            Some(trailers) => {
                body.end_stream(trailers);
                Ok(BodyRead::Done)
            }
            None if count > 0 => Ok(BodyRead::Data),
            None if self.is_gone() => Err(BodyError::Closed),
            None => Ok(BodyRead::NotReady),
        }
    }

    /// Ends the stream when the exchange is settled, with an error code if not everything was sent. `linger`: how long
    /// the rest of the request is awaited.
    pub(crate) fn finish(&mut self, after: After, linger: LingerPlan) {
        self.linger = Some(linger.silence.min(linger.total)).filter(|time| !time.is_zero());
        if let After::Close(reason) | After::Linger(reason) | After::Reset(reason) = after {
            self.code = match reason {
                CloseReason::SendTimeout | CloseReason::BodyTimeout => ErrorCode::CANCEL,
                _ => ErrorCode::INTERNAL_ERROR,
            };
        }
    }
}

/// The length that the head states. RFC 9110 §8.6: a 204 has none, so that of its upstream is left out.
fn length_on_stream(head: &ReplyHead) -> Option<u64> {
    head.length.filter(|_| head.status != 204)
}

/// Whether a status means success.
fn is_success(status: u16) -> bool {
    (200..300).contains(&status)
}

impl Drop for H2 {
    fn drop(&mut self) {
        self.session.remove(self.key, self.code, self.linger);
        let thread = &self.session.thread;
        thread.memory.hold(self.task, HeldFor::Exchange, 0);
        thread.reactor.end_task(self.task);
        thread.subrequests.set(thread.subrequests.get().saturating_sub(1));
        bump(&thread.counters().streams, -1);
    }
}
