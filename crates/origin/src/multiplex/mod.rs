//! An HTTP/2 connection: the engine of the crate `http2`, and the exchange on each stream. `connection` has the socket and
//! calls it. `perform` performs the selected action of a request, `outgoing` is a response in progress, and `grpc` answers
//! gRPC calls.

mod grpc;
mod outgoing;
mod perform;

use crate::action::{self, Action, Chosen, Request};
use crate::body::pause_end;
use crate::counters::CloseReason;
use crate::options::Closing;
use crate::query::Complaint;
use crate::receive::Receiving;
use crate::reply::Reply;
use crate::worker::{HEAD_FIELDS_MAX, HEAD_LINE_BYTES, HEAD_LINES, Site};
use http1::BodyFraming;
use http2::{Config, Connection, ErrorCode, Event, Head, Role, StreamId};
use outgoing::Outgoing;
use reactor::{Millis, PeerAddress, monotonic_millis};
use rustc_hash::FxHashMap;
use std::io::{self, IoSlice};
use std::time::Duration;
use transport::Transport;

/// Bytes that are encoded before they are written: roughly what a socket takes at once.
pub(crate) const OUT_BYTES_MAX: usize = 64 * 1024;

/// How long a client may take to acknowledge the origin's settings.
const SETTINGS_MS_MAX: u32 = 10_000;

/// The parts of its connection that a session may read and change.
pub(crate) struct Who<'a> {
    pub(crate) serial: u64,
    pub(crate) from: &'a PeerAddress,
    pub(crate) requests: &'a mut u64,
    pub(crate) requests_left: &'a mut Option<u64>,
    pub(crate) closing: &'a mut Closing,
}

/// An exchange on a stream.
#[derive(Debug)]
enum Exchange {
    /// The request is incomplete.
    Receiving(Box<Receiving>, Facts),
    /// The reply is sent at this time.
    Delayed(Millis, Box<Reply>, Facts),
    /// The response is in progress.
    Sending(Box<Outgoing>),
}

/// The facts of the request's head that the response needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Facts {
    head_only: bool,
}

/// A connection of HTTP/2.
#[derive(Debug)]
pub(crate) struct Multiplex {
    engine: Connection,
    exchanges: FxHashMap<u32, Exchange>,
    /// Bytes that the socket has not taken.
    unsent: Vec<u8>,
    unsent_from: usize,
    /// Why the connection ends, once that is decided.
    going: Option<CloseReason>,
    /// Whether the engine has closed it because of a client's error.
    is_faulty: bool,
    /// Whether a request has asked for an RST of the connection.
    is_reset_wanted: bool,
    /// When the last stream ended.
    idle_since: Millis,
}

impl Multiplex {
    pub(crate) fn new(site: &Site) -> Self {
        let config = Config {
            streams_max: site.options().http2_streams,
            head_bytes_max: (HEAD_LINES * HEAD_LINE_BYTES) as u32,
            fields_max: HEAD_FIELDS_MAX as u32,
            settings_timeout_ms: SETTINGS_MS_MAX,
            ..Config::default()
        };
        let (mut unsent, now) = (Vec::new(), monotonic_millis());
        Self {
            engine: Connection::new(Role::Server, config, now.0, &mut unsent),
            exchanges: FxHashMap::default(),
            unsent,
            unsent_from: 0,
            going: None,
            is_faulty: false,
            is_reset_wanted: false,
            idle_since: now,
        }
    }

    /// Whether any exchange is in progress.
    pub(crate) fn has_streams(&self) -> bool {
        !self.exchanges.is_empty()
    }

    /// Whether no more bytes are read.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_faulty || self.engine.is_finished()
    }

    pub(crate) fn is_reset_wanted(&self) -> bool {
        self.is_reset_wanted
    }

    /// Why the connection is over, once everything was sent.
    pub(crate) fn over(&self) -> Option<CloseReason> {
        if !self.is_closed() || self.unsent_from < self.unsent.len() {
            return None;
        }
        let gone = if self.is_faulty { CloseReason::Http2Fault } else { CloseReason::ClientClosed };
        Some(self.going.unwrap_or(gone))
    }

    /// Writes the unsent bytes; `false` if the socket does not take all of them.
    pub(crate) fn flush(&mut self, stream: &Transport) -> io::Result<bool> {
        while let Some(rest) = self.unsent.get(self.unsent_from..).filter(|rest| !rest.is_empty()) {
            let written = stream.write(&[IoSlice::new(rest)], false)?;
            if written == 0 {
                return Ok(false);
            }
            self.unsent_from += written;
        }
        if self.unsent.capacity() > 0 {
            (self.unsent, self.unsent_from) = (Vec::new(), 0);
        }
        Ok(true)
    }

    /// Writes bytes, and keeps those that the socket does not take.
    pub(crate) fn write(&mut self, stream: &Transport, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let is_first = self.unsent_from >= self.unsent.len();
        let written = if is_first { stream.write(&[IoSlice::new(bytes)], false)? } else { 0 };
        self.keep(bytes.get(written..).unwrap_or_default());
        Ok(())
    }

    /// Keeps bytes to be written later.
    pub(crate) fn keep(&mut self, bytes: &[u8]) {
        self.unsent.extend_from_slice(bytes);
    }

    /// Frees memory that a connection without streams does not need.
    pub(crate) fn rest(&mut self) {
        if self.exchanges.is_empty() {
            self.engine.trim();
            self.exchanges.shrink_to_fit();
        }
    }

    /// The next time at which work is due even if nothing arrives.
    pub(crate) fn due(&self, now: Millis, after_idle: Option<Duration>) -> Option<Millis> {
        let of_exchanges = self.exchanges.values().filter_map(|exchange| match exchange {
            Exchange::Delayed(due, ..) => Some(*due),
            Exchange::Sending(outgoing) => outgoing.due(),
            Exchange::Receiving(..) => None,
        });
        let of_idle = after_idle.filter(|_| self.is_idle()).map(|idle| self.idle_since.after(idle).max(now));
        of_exchanges.chain(of_idle).chain(self.engine.deadline_ms().map(Millis)).min()
    }

    /// Whether no exchange is in progress and the connection is not ending.
    fn is_idle(&self) -> bool {
        self.exchanges.is_empty() && self.going.is_none()
    }

    /// Does the work that is due.
    pub(crate) fn fire(&mut self, now: Millis, who: &mut Who<'_>, site: &mut Site, out: &mut Vec<u8>) {
        if self.is_closed() {
            return;
        }
        if self.engine.tick(now.0, out).is_err() {
            self.is_faulty = true;
            return;
        }
        let is_due = |exchange: &Exchange| match exchange {
            Exchange::Delayed(due, ..) => *due <= now,
            Exchange::Sending(outgoing) => outgoing.due().is_some_and(|due| due <= now),
            Exchange::Receiving(..) => false,
        };
        let due: Vec<u32> = self.exchanges.iter().filter(|(_, exchange)| is_due(exchange)).map(|(id, _)| *id).collect();
        for id in due {
            match self.exchanges.remove(&id) {
                Some(Exchange::Delayed(_, reply, facts)) => self.respond(StreamId(id), *reply, facts, site, out),
                Some(sending) => {
                    self.exchanges.insert(id, sending);
                    self.send(StreamId(id), now, out);
                }
                None => {}
            }
        }
        let idle_due = who.closing.after_idle.map(|idle| self.idle_since.after(idle));
        if self.is_idle() && idle_due.is_some_and(|due| due <= now) {
            self.go_away(CloseReason::Idle, true, out);
        }
    }

    /// Accepts no further streams. `at_once` also refuses streams that the client opens before it receives the GOAWAY.
    fn go_away(&mut self, reason: CloseReason, at_once: bool, out: &mut Vec<u8>) {
        if self.going.is_some() {
            return;
        }
        self.going = Some(reason);
        self.engine.shut_down(out);
        if at_once {
            self.engine.shut_down(out);
        }
    }

    /// Sends as much of the bodies as windows and buffer allow.
    pub(crate) fn pump(&mut self, now: Millis, out: &mut Vec<u8>) {
        while let Some(stream) = self.engine.next_turn(OUT_BYTES_MAX.saturating_sub(out.len())) {
            self.send(stream, now, out);
        }
    }

    /// Handles received bytes.
    pub(crate) fn read_frames(&mut self, mut bytes: &[u8], who: &mut Who<'_>, site: &mut Site, out: &mut Vec<u8>) {
        let now = site.reactor.now();
        let mut head = std::mem::take(&mut site.http2_head);
        loop {
            let event = match self.engine.receive(now.0, &mut bytes, &mut head, out) {
                Ok(Some(event)) => event,
                Ok(None) => break,
                Err(_) => {
                    self.is_faulty = true;
                    self.exchanges.clear();
                    break;
                }
            };
            match event {
                Event::Head { stream, end } => self.begin(stream, end, &mut head, who, site, out),
                Event::Data { stream, bytes, end } => {
                    let len = bytes.len();
                    self.take_piece(stream, bytes, site, out);
                    self.engine.consume(stream, len, out);
                    if end {
                        self.end_of_body(stream, who, site, out);
                    }
                }
                Event::Trailers { stream } => {
                    if let Some(Exchange::Receiving(receiving, _)) = self.exchanges.get_mut(&stream.0) {
                        for field in &head.fields {
                            receiving.take_trailer(field.name.of(&head.bytes), field.value.of(&head.bytes));
                        }
                    }
                    self.end_of_body(stream, who, site, out);
                }
                Event::Reset { stream, .. } => {
                    self.exchanges.remove(&stream.0);
                }
                Event::GoAway { .. } | Event::SettingsAcked | Event::PeerSettings | Event::Pong(_) => {}
            }
        }
        site.http2_head = head;
        if self.exchanges.is_empty() {
            self.idle_since = now;
        }
    }

    fn begin(
        &mut self,
        stream: StreamId,
        end: bool,
        head: &mut Head,
        who: &mut Who<'_>,
        site: &mut Site,
        out: &mut Vec<u8>,
    ) {
        let facts = Facts { head_only: head.method.of(&head.bytes) == b"HEAD" };
        if head.is_too_large {
            let text = "the head is too large".to_owned();
            return self.refuse(stream, Reply::text(431, text), facts, site, out);
        }
        if let Err(error) = head.to_request(end, &site.limits, &mut site.head) {
            return self.refuse(stream, Reply::text(error.status(), error.to_string()), facts, site, out);
        }
        *who.requests += 1;
        site.counters().request();
        if let Some(left) = who.requests_left {
            *left = left.saturating_sub(1);
            if *left == 0 {
                self.go_away(CloseReason::RequestLimit, who.closing.unannounced, out);
            }
        }
        if site.options().always_close {
            self.go_away(CloseReason::OriginAlwaysCloses, false, out);
        }
        let (framing, expect_continue) = (site.head.framing, site.head.expect_continue);
        let request = Request {
            head: &site.head,
            bytes: &head.bytes,
            page: &site.page,
            connection: who.serial,
            number: *who.requests,
            from: who.from,
            is_one_of_several: site.options().is_one_of_several,
            is_http2: true,
            params: None,
        };
        let chosen =
            action::choose(&request).unwrap_or_else(|Complaint(text)| Action::Reply(Reply::text(400, text)).into());
        if end || matches!(chosen.action, Action::Reset { executed: false }) {
            return self.perform(stream, chosen, &Receiving::nothing(), facts, who, site, out);
        }
        if matches!(framing, BodyFraming::Length(length) if length > site.options().body_bytes_max) {
            return self.refuse_body(stream, facts, site, out);
        }
        if expect_continue {
            let _ = self.engine.respond(stream, 100, false, out, |_| ());
        }
        let keep = matches!(chosen.action, Action::Grpc(_));
        let receiving = Box::new(Receiving::of_stream(chosen, keep));
        self.exchanges.insert(stream.0, Exchange::Receiving(receiving, facts));
    }

    fn take_piece(&mut self, stream: StreamId, piece: &[u8], site: &Site, out: &mut Vec<u8>) {
        let Some(Exchange::Receiving(receiving, facts)) = self.exchanges.get_mut(&stream.0) else { return };
        if !receiving.take_piece(piece, site.options().body_bytes_max) {
            let facts = *facts;
            self.refuse_body(stream, facts, site, out);
        }
    }

    fn end_of_body(&mut self, stream: StreamId, who: &mut Who<'_>, site: &Site, out: &mut Vec<u8>) {
        let Some(Exchange::Receiving(..)) = self.exchanges.get(&stream.0) else { return };
        if let Some(Exchange::Receiving(mut receiving, facts)) = self.exchanges.remove(&stream.0)
            && let Some(chosen) = receiving.chosen.take()
        {
            self.perform(stream, chosen, &receiving, facts, who, site, out);
        }
    }

    fn refuse_body(&mut self, stream: StreamId, facts: Facts, site: &Site, out: &mut Vec<u8>) {
        let reply = Reply::text(413, "the body is too long".to_owned());
        self.refuse(stream, reply, facts, site, out);
    }

    /// Answers a request without reading the rest of it.
    fn refuse(&mut self, stream: StreamId, reply: Reply, facts: Facts, site: &Site, out: &mut Vec<u8>) {
        self.exchanges.remove(&stream.0);
        self.respond(stream, reply, facts, site, out);
        // The response is complete, unless its window is closed. RFC 9113 section 8.1 defines this code for that case.
        self.engine.reset(stream, ErrorCode::NO_ERROR, out);
        self.exchanges.remove(&stream.0);
    }

    fn delay(&mut self, stream: StreamId, wait_ms: u64, reply: Reply, facts: Facts) {
        let due = pause_end(monotonic_millis(), wait_ms);
        self.exchanges.insert(stream.0, Exchange::Delayed(due, Box::new(reply), facts));
    }

    /// Counts an execution; returns the reply to send if there is no room to count it.
    fn count(chosen: &Chosen, site: &Site) -> Option<Reply> {
        if matches!(chosen.action, Action::Reset { executed: false }) {
            return None;
        }
        site.counters().execution();
        let id = chosen.id.as_ref()?;
        (!site.shared.executions.count(id)).then(|| Reply::text(507, "no room for further ids".to_owned()))
    }
}
