//! The streams that a connection carries: their bodies wait here for the engine's windows, and frames wait for the
//! socket. The connection's owner writes the frames and reads; exchanges work on their streams through it.

use crate::multiplex::stream::{Stream, StreamEnding};
use crate::thread::WorkerThread;
use http1::Trailers;
use http2::{Connection as Engine, ErrorCode, StreamId};
use reactor::TaskId;
use slab::Slab;
use std::io::{self, IoSlice};
use transport::Transport;

/// Bytes waiting for the socket above which streams must wait: some frames of each of several streams.
pub(crate) const OUT_BYTES_MAX: usize = 64 * 1024;

/// A connection's engine and streams.
pub(crate) struct Carried {
    pub(crate) engine: Engine,
    /// Frames that the socket has not accepted.
    pub(crate) out: Vec<u8>,
    pub(crate) streams: Slab<Stream>,
}

impl Carried {
    pub(crate) fn new(engine: Engine, out: Vec<u8>) -> Self {
        Self { engine, out, streams: Slab::new() }
    }

    /// Bytes of memory that it holds.
    pub(crate) fn held_bytes(&self) -> usize {
        self.engine.held_bytes() + self.out.capacity() + self.streams.capacity() * size_of::<Stream>()
    }

    /// Makes sure that there is a buffer to write into.
    pub(crate) fn prepare_out(&mut self, thread: &WorkerThread) {
        if self.out.capacity() == 0 {
            self.out = thread.take_scratch();
        }
    }

    /// Frees memory that a connection without streams does not need.
    pub(crate) fn trim(&mut self) {
        if self.streams.is_empty() {
            self.engine.trim();
            if self.streams.capacity() > 0 {
                self.streams = Slab::new();
            }
        }
    }

    pub(crate) fn key_of(&self, id: StreamId) -> Option<usize> {
        self.engine.token(id)?.checked_sub(1).map(|key| key as usize)
    }

    /// The state of a stream. The engine may have forgotten it if the event just received ended it on both sides.
    pub(crate) fn stream_of(&mut self, id: StreamId) -> Option<&mut Stream> {
        match self.key_of(id) {
            Some(key) => self.streams.get_mut(key),
            None => self.ended_stream_of(id),
        }
    }

    /// The same for a stream that the engine may not know any more.
    pub(crate) fn ended_stream_of(&mut self, id: StreamId) -> Option<&mut Stream> {
        self.streams.iter_mut().map(|(_, known)| known).find(|known| known.id == id)
    }

    /// Adds a stream that the engine has opened.
    pub(crate) fn insert(&mut self, stream: Stream) -> usize {
        let id = stream.id;
        let key = self.streams.insert(stream);
        self.engine.set_token(id, key as u32 + 1);
        key
    }

    /// A stream that can still send and receive.
    pub(crate) fn live(&mut self, key: usize) -> io::Result<(&mut Engine, &mut Vec<u8>, &mut Stream)> {
        let Self { engine, out, streams } = self;
        let stream = streams.get_mut(key).filter(|stream| !stream.is_gone).ok_or_else(broken)?;
        Ok((engine, out, stream))
    }

    /// Frames the streams' waiting bytes, as far as windows, room and priorities permit. Returns whether lack of room
    /// stopped it.
    pub(crate) fn pump(&mut self, thread: &WorkerThread) -> bool {
        self.prepare_out(thread);
        while let Some(id) = self.next_turn() {
            self.push_turn(id, thread);
        }
        self.engine.has_turn()
    }

    /// The same until it is the turn of `stream`, whose bytes do not wait here; `false` if its turn did not come.
    pub(crate) fn pump_until(&mut self, stream: StreamId, thread: &WorkerThread) -> bool {
        while let Some(id) = self.next_turn() {
            if id == stream {
                return true;
            }
            self.push_turn(id, thread);
        }
        false
    }

    fn next_turn(&mut self) -> Option<StreamId> {
        self.engine.next_turn(OUT_BYTES_MAX.saturating_sub(self.out.len()))
    }

    /// Frames what waits of a stream.
    fn push_turn(&mut self, id: StreamId, thread: &WorkerThread) {
        if let Some(key) = self.key_of(id)
            && let Some(task) = self.push(key)
        {
            thread.reactor.wake(task);
        }
    }

    /// Writes frames; returns how many bytes the socket accepted. If `out` is empty afterwards, nothing waits any more.
    pub(crate) fn flush(&mut self, stream: &Transport, thread: &WorkerThread) -> io::Result<usize> {
        let mut sent = 0;
        while sent < self.out.len() {
            match stream.write(&[IoSlice::new(&self.out[sent..])], false)? {
                0 => break,
                count => sent += count,
            }
        }
        if sent < self.out.len() {
            self.out.drain(..sent);
        } else if self.out.capacity() > 0 {
            thread.put_scratch(std::mem::take(&mut self.out));
        }
        Ok(sent)
    }

    /// Frames a stream's waiting bytes, as far as permitted. Returns the task of its exchange if anything was framed.
    pub(crate) fn push(&mut self, key: usize) -> Option<TaskId> {
        let Self { engine, out, streams } = self;
        let stream = streams.get_mut(key).filter(|stream| !stream.is_gone)?;
        let before = out.len();
        let (unsent, mut framed) = stream.take_unsent();
        let waiting = unsent.get(framed..).unwrap_or_default();
        let part = &waiting[..waiting.len().min(stream.released)];
        let end = part.len() == waiting.len() && matches!(stream.end, StreamEnding::Body);
        if !part.is_empty() || end {
            match frame(engine, out, stream, part, end) {
                Ok(count) => {
                    framed += count;
                    stream.released -= count;
                }
                Err(_) => stream.is_gone = true,
            }
        }
        let is_all = framed == unsent.len();
        stream.put_unsent(unsent, framed);
        if is_all && let StreamEnding::Trailers(trailers) = &stream.end {
            let sent = engine.send_trailers(stream.id, out, |out| {
                for (_, name, value) in trailers.iter() {
                    let _ = out.add(name, value);
                }
            });
            stream.is_gone |= sent.is_err();
            stream.end = StreamEnding::Sent;
            stream.bytes_sent += (out.len() - before) as u64;
        }
        (out.len() > before || stream.is_gone).then_some(stream.task)
    }

    /// Sends a part of a body after the waiting bytes; `end`: it is the last part.
    pub(crate) fn send(&mut self, key: usize, body: &[u8], end: bool) -> io::Result<()> {
        let sent = self.frame_now(key, body, end)?.unwrap_or_default();
        self.keep_rest(key, &body[sent..], end)
    }

    /// Frames a part of a body, as far as permitted now; returns how much. `None`: earlier bytes of the stream wait.
    pub(crate) fn frame_now(&mut self, key: usize, body: &[u8], end: bool) -> io::Result<Option<usize>> {
        let (engine, out, stream) = self.live(key)?;
        let is_first = stream.waiting_bytes() == 0 && !stream.is_held_back;
        if is_first { frame(engine, out, stream, body, end).map(Some) } else { Ok(None) }
    }

    /// Keeps what [`Self::frame_now`] has left of a part until it may be sent.
    pub(crate) fn keep_rest(&mut self, key: usize, rest: &[u8], end: bool) -> io::Result<()> {
        let (engine, out, stream) = self.live(key)?;
        let is_all = rest.is_empty();
        if end && !(is_all && matches!(stream.end, StreamEnding::Sent)) {
            stream.end = StreamEnding::Body;
        }
        if !is_all {
            stream.keep(rest);
            if !stream.is_held_back {
                stream.released += rest.len();
            }
        } else if end && stream.waiting_bytes() == 0 && !matches!(stream.end, StreamEnding::Sent) {
            // Only the end is left of a body that is held back.
            frame(engine, out, stream, b"", true)?;
        }
        Ok(())
    }

    /// Ends a body with trailers, after its waiting bytes.
    pub(crate) fn end_with_trailers(&mut self, key: usize, trailers: Trailers) -> io::Result<()> {
        self.live(key)?.2.end = StreamEnding::Trailers(trailers);
        self.push(key);
        Ok(())
    }

    /// Returns unused received bytes of a body, and opens the window for the used ones.
    pub(crate) fn consume(&mut self, key: usize, mut received: Vec<u8>, used: usize) {
        let Self { engine, out, streams } = self;
        let Some(stream) = streams.get_mut(key) else { return };
        received.drain(..used);
        if !received.is_empty() {
            stream.received = received;
        }
        engine.consume(stream.id, used, out);
    }

    /// Removes a stream. It is reset with this code if not everything was sent. Returns the stream if the peer still sends
    /// on it and `unread` says to discard that.
    pub(crate) fn remove(&mut self, key: usize, unsent: ErrorCode, unread: Unread) -> Option<StreamId> {
        let Self { engine, out, streams } = self;
        let stream = streams.try_remove(key).filter(|stream| !stream.is_gone)?;
        if !matches!(stream.end, StreamEnding::Sent) {
            engine.reset(stream.id, unsent, out);
        } else if !stream.is_received {
            match unread {
                Unread::Reset(code) => engine.reset(stream.id, code, out),
                Unread::Discard => return engine.discard_rest(stream.id, out).then_some(stream.id),
            }
        }
        None
    }
}

/// What becomes of a stream on which the peer has not sent everything.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Unread {
    /// It is reset.
    Reset(ErrorCode),
    /// What comes is dropped, as far as the peer has a window.
    Discard,
}

pub(crate) fn broken() -> io::Error {
    io::ErrorKind::BrokenPipe.into()
}

/// Passes bytes of a body to the engine, in frames of the location's size; returns how many it took.
fn frame(engine: &mut Engine, out: &mut Vec<u8>, stream: &mut Stream, bytes: &[u8], end: bool) -> io::Result<usize> {
    let before = out.len();
    let mut taken = 0;
    loop {
        let chunk = &bytes[taken..bytes.len().min(taken + stream.chunk_bytes)];
        let is_last = taken + chunk.len() == bytes.len();
        if chunk.is_empty() && !end {
            break;
        }
        let count = engine.send_data(stream.id, chunk, end && is_last, out, OUT_BYTES_MAX).map_err(|_| broken())?;
        taken += count;
        if count < chunk.len() || is_last {
            if count == chunk.len() && end {
                stream.end = StreamEnding::Sent;
            }
            break;
        }
    }
    stream.bytes_sent += (out.len() - before) as u64;
    stream.body_bytes_sent += taken as u64;
    Ok(taken)
}
