//! A client connection between exchanges: it waits for a head or reads one. It is small, because most connections of a
//! gateway are in this state most of the time; the exchange has everything that a request needs.

use crate::base::buffer::recycle;
use crate::base::memory::CONNECTION_BYTES;
use crate::downstream::client::ClientFacts;
use crate::downstream::request::Request;
use crate::registry::generation::ListenerId;
use http1::{HeadEnd, Limits, Parse, RequestError, find_head_end};
use reactor::{Millis, PeerAddress, Read, TaskId};
use std::cell::Cell;
use std::time::Duration;
use transport::Transport;

/// Bytes asked for when a head is awaited. What follows the head (a body, pipelined requests) stays with the connection
/// until the exchange takes it, so this bounds that memory. It is above any usual head.
const HEAD_READ_BYTES: usize = 16 * 1024;

/// The state of a connection before its first request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Securing {
    /// No byte of a request has come.
    NotBegun,
    /// The handshake is incomplete.
    UnderWay,
    /// It is complete, its early data is answered, or the address is one for plain HTTP.
    Done,
    /// Plain HTTP arrived on a TLS address.
    PlainHttp,
}

/// A client connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stream: Transport,
    pub(crate) task: TaskId,
    /// The listening socket that accepted it.
    pub(crate) socket: ListenerId,
    pub(crate) client: ClientFacts,
    /// `TCP_NODELAY` is set: on, unless `tcp_nodelay` of the last location said otherwise.
    pub(crate) nodelay: bool,
    /// When its present state began: it was accepted, the last exchange ended, or the first byte of the present head arrived.
    /// `client_header_timeout` is a total from then on.
    pub(crate) since: Millis,
    /// `keepalive_min_timeout`: during a graceful shutdown an idle connection is kept for so long.
    pub(crate) kept_for_ms: u32,
    /// A log line of the last exchange must be in its file before this closes.
    pub(crate) line_waits: Cell<bool>,
    /// The state of the TLS handshake, on a TLS address.
    pub(crate) securing: Securing,
    /// Bytes received and not yet used: the beginning of a head, or what followed the last one.
    pub(crate) pending: Vec<u8>,
    /// How far `pending` was searched for the end of a head.
    pub(crate) searched: u32,
}

/// The result of trying to complete a head.
#[derive(Debug)]
pub(crate) enum HeadRead {
    /// The request holds a parsed head with its bytes; what followed is in `pending`.
    Complete,
    /// No byte of a head has arrived.
    Nothing,
    /// Part of a head has arrived; more bytes are needed.
    Partial,
    /// The client closed before a head began.
    ClosedBefore,
    /// The client closed in the middle of a head.
    ClosedInside,
    /// Not HTTP, or beyond the limits.
    Refused(RequestError),
    /// The connection broke.
    Failed,
}

impl Connection {
    /// A connection that was just accepted: no byte of it is answered yet.
    pub(crate) fn accepted(
        stream: Transport,
        task: TaskId,
        socket: ListenerId,
        peer: PeerAddress,
        serial: u64,
        now: Millis,
    ) -> Self {
        Self {
            stream,
            task,
            socket,
            client: ClientFacts {
                listener: socket,
                peer,
                serial,
                requests: 0,
                is_pipelined: false,
                accepted_at: now,
                proxy_header: None,
                is_http2: false,
            },
            nodelay: true,
            since: now,
            kept_for_ms: 0,
            line_waits: Cell::new(false),
            securing: Securing::NotBegun,
            pending: Vec::new(),
            searched: 0,
        }
    }

    /// Its memory while it waits for a head.
    pub(crate) fn held_bytes(&self) -> usize {
        CONNECTION_BYTES + self.pending.capacity() + self.stream.held_bytes()
    }

    /// Reads what has arrived and completes the head if possible.
    pub(crate) fn read_head(&mut self, limits: &Limits, request: &mut Request, now: Millis) -> HeadRead {
        if !self.pending.is_empty() {
            match self.parse_pending(limits, request) {
                HeadRead::Nothing | HeadRead::Partial => {}
                done => return done,
            }
        }
        loop {
            let Self { stream, pending, searched, .. } = self;
            let fresh = pending.is_empty();
            let read = stream.read_with(HEAD_READ_BYTES, |bytes| {
                if !fresh {
                    pending.extend_from_slice(bytes);
                    return None;
                }
                Some(match request.parse(bytes, limits) {
                    Ok(Parse::Complete { len }) => {
                        pending.extend_from_slice(&bytes[len..]);
                        HeadRead::Complete
                    }
                    Ok(Parse::Partial) => {
                        pending.reserve_exact(bytes.len());
                        pending.extend_from_slice(bytes);
                        *searched = 0;
                        HeadRead::Partial
                    }
                    Err(error) => {
                        request.keep_refused(bytes);
                        HeadRead::Refused(error)
                    }
                })
            });
            let outcome = match read {
                Ok(Read::Data(Some(HeadRead::Partial))) => {
                    self.since = now;
                    continue;
                }
                Ok(Read::Data(Some(outcome))) => outcome,
                Ok(Read::Data(None)) => self.parse_pending(limits, request),
                Ok(Read::NotReady) => return if fresh { HeadRead::Nothing } else { HeadRead::Partial },
                Ok(Read::Closed) => return if fresh { HeadRead::ClosedBefore } else { HeadRead::ClosedInside },
                Err(_) => return HeadRead::Failed,
            };
            if !matches!(outcome, HeadRead::Partial) {
                return outcome;
            }
        }
    }

    fn parse_pending(&mut self, limits: &Limits, request: &mut Request) -> HeadRead {
        // For a head over the limit it is useless to search for the end: parsing reports which limit it is.
        if self.pending.len() < limits.head_bytes_max {
            match find_head_end(&self.pending, self.searched as usize) {
                HeadEnd::Found(_) => {}
                HeadEnd::NotYet(searched) => {
                    self.searched = searched as u32;
                    return HeadRead::Partial;
                }
            }
        }
        match request.parse(&self.pending, limits) {
            Ok(Parse::Complete { len }) => {
                self.consume_pending(len);
                HeadRead::Complete
            }
            Ok(Parse::Partial) => {
                self.searched = self.pending.len() as u32;
                HeadRead::Partial
            }
            Err(error) => {
                request.keep_refused(&self.pending);
                HeadRead::Refused(error)
            }
        }
    }

    /// The connection is idle from now on. During a graceful shutdown it is kept for a while.
    pub(crate) fn begin_idling(&mut self, now: Millis, kept_for: Duration) {
        self.since = now;
        self.kept_for_ms = u32::try_from(kept_for.as_millis()).unwrap_or(u32::MAX);
    }

    /// When a graceful shutdown may close it, if it is idle.
    pub(crate) fn kept_until(&self) -> Millis {
        self.since.after(Duration::from_millis(u64::from(self.kept_for_ms)))
    }

    /// Drops the first bytes of `pending`.
    pub(crate) fn consume_pending(&mut self, count: usize) {
        if count >= self.pending.len() {
            recycle(&mut self.pending);
            if self.pending.capacity() > 0 {
                // An idle connection owns no buffer.
                self.pending = Vec::new();
            }
        } else {
            self.pending.drain(..count);
        }
        self.searched = 0;
    }
}
