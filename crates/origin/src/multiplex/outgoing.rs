//! A response's body on its way over a stream: as far as windows, room and its own pace let it, then trailers or a reset.

use super::{Exchange, Multiplex, OUT_BYTES_MAX};
use crate::action::StreamFault;
use crate::body::{Body, Filled};
use crate::reply::field_lines;
use http2::{Connection, StreamId};
use reactor::Millis;

/// Where the bytes come from.
#[derive(Debug)]
pub(super) enum Source {
    /// They are there.
    Bytes { bytes: Vec<u8>, at: usize },
    /// They are made as they are sent.
    Pattern(Body),
}

/// A body under way.
#[derive(Debug)]
pub(super) struct Outgoing {
    source: Source,
    /// Made of a pattern that cannot be sent as it is, from `made_from` on not sent.
    made: Vec<u8>,
    made_from: usize,
    due: Option<Millis>,
    /// Field lines behind the body.
    trailers: Vec<u8>,
    /// What becomes of the stream where the body is cut off.
    fault: StreamFault,
}

/// What came of an attempt to send.
enum Sent {
    /// The engine, or the time, tells when it goes on.
    Later,
    Done,
    Cut,
    /// The stream is over.
    Over,
}

impl Outgoing {
    pub(super) fn new(source: Source) -> Self {
        Self { source, made: Vec::new(), made_from: 0, due: None, trailers: Vec::new(), fault: StreamFault::default() }
    }

    /// The same with field lines behind the body, and with what becomes of the stream where the body is cut off.
    pub(super) fn ending(self, trailers: Vec<u8>, fault: StreamFault) -> Self {
        Self { trailers, fault, ..self }
    }

    /// When its next step is.
    pub(super) fn due(&self) -> Option<Millis> {
        self.due
    }

    fn step(&mut self, engine: &mut Connection, stream: StreamId, now: Millis, out: &mut Vec<u8>) -> Sent {
        self.due = None;
        let has_trailers = !self.trailers.is_empty();
        loop {
            let (piece, is_last): (&[u8], bool) = match &mut self.source {
                Source::Bytes { bytes, at } => (bytes.get(*at..).unwrap_or_default(), !has_trailers),
                Source::Pattern(_) if self.made_from < self.made.len() => {
                    (self.made.get(self.made_from..).unwrap_or_default(), false)
                }
                Source::Pattern(body) if body.is_direct() => {
                    let piece = body.piece();
                    (piece, !has_trailers && body.ends_after(piece.len()))
                }
                Source::Pattern(body) => {
                    self.made.clear();
                    self.made_from = 0;
                    match body.fill(now, &mut self.made) {
                        Filled::More => continue,
                        Filled::Until(due) => {
                            self.due = Some(due);
                            return Sent::Later;
                        }
                        Filled::Done => return Sent::Done,
                        Filled::Cut(_) => return Sent::Cut,
                    }
                }
            };
            let len = piece.len();
            let Ok(sent) = engine.send_data(stream, piece, is_last, out, OUT_BYTES_MAX) else { return Sent::Over };
            match &mut self.source {
                Source::Bytes { at, .. } => *at += sent,
                Source::Pattern(_) if self.made_from < self.made.len() => self.made_from += sent,
                Source::Pattern(body) => body.advance(sent as u64),
            }
            if sent < len {
                return Sent::Later;
            }
            if is_last {
                return Sent::Over;
            }
            if matches!(self.source, Source::Bytes { .. }) {
                return Sent::Done;
            }
        }
    }
}

impl Multiplex {
    /// Sends of a body what can be sent now.
    pub(super) fn send(&mut self, stream: StreamId, now: Millis, out: &mut Vec<u8>) {
        let Some(Exchange::Sending(outgoing)) = self.exchanges.get_mut(&stream.0) else { return };
        match outgoing.step(&mut self.engine, stream, now, out) {
            Sent::Later => return,
            Sent::Over => {}
            Sent::Done if outgoing.trailers.is_empty() => {
                let _ = self.engine.send_data(stream, b"", true, out, usize::MAX);
            }
            Sent::Done => {
                let _ = self.engine.send_trailers(stream, out, |fields| {
                    for (name, value) in field_lines(&outgoing.trailers) {
                        let _ = fields.add(name, value);
                    }
                });
            }
            Sent::Cut => {
                let fault = outgoing.fault;
                return self.fail(stream, fault, out);
            }
        }
        self.exchanges.remove(&stream.0);
        if self.exchanges.is_empty() {
            self.idle_since = now;
        }
    }
}
