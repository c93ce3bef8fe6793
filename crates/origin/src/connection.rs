//! One connection: reads requests, performs the actions from `action`, sends responses, and ends for a reason. A state
//! machine that `worker` drives on every event of its socket. If the connection speaks HTTP/2, `multiplex` handles the
//! received bytes.

mod fastcgi;
mod multiplexed;
mod respond;

pub(crate) use fastcgi::params_json;

use crate::action::{self, Action, Request};
use crate::body::{CutBy, Filled, pause_end};
use crate::counters::CloseReason;
use crate::multiplex::Multiplex;
use crate::options::{Closing, ClosingStyle};
use crate::query::Complaint;
use crate::receive::{Receiving, Taken};
use crate::reply::{Announced, Reply};
use crate::sending::{Sending, Then};
use crate::tcp::{TcpStep, TcpTalk};
use crate::websocket::{Broadcast, Session, Step};
use crate::worker::Site;
use fastcgi::FastcgiTalk;
use http1::{BodyFraming, HeadEnd, Method, Parse, RequestError, find_head_end};
use reactor::{Millis, PeerAddress, Read, TaskId, monotonic_millis};
use std::io::IoSlice;
use std::sync::Arc;
use transport::{HandshakeProgress, Transport};

/// Bytes per read: a body of 1 MB takes several reads, with other connections in between.
const READ_BYTES: usize = 64 * 1024;
/// Rounds of reading and writing before other connections get their turn.
const ROUNDS_MAX: u32 = 16;
/// How long a refused client may continue sending before the connection is closed, like nginx's `lingering_timeout`.
/// Closing at once would send an RST that overtakes the response.
const LINGER_MS: u64 = 5_000;
/// How long the origin continues reading after it has sent FIN.
const HALF_CLOSED_MS: u64 = 60_000;
/// The response to `Expect: 100-continue`.
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
/// The client preface of an HTTP/2 connection (RFC 9113 section 3.4).
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// How the socket is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndBy {
    Fin,
    Reset,
}

/// Why and how a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) reason: CloseReason,
    pub(crate) by: EndBy,
}

#[derive(Debug)]
enum State {
    /// Before or within a request head; `input` has the incomplete head.
    Head,
    Body(Box<Receiving>),
    /// The reply is sent at the deadline.
    Delayed(Box<Reply>),
    Send(Box<Sending>),
    /// A tunnel after 101: `out[sent..]` is still to be echoed.
    Tunnel {
        out: Vec<u8>,
        sent: usize,
    },
    WebSocket(Box<Session>),
    /// `--tcp`: no HTTP at all.
    Tcp(Box<TcpTalk>),
    /// HTTP/2 until the connection ends.
    Http2(Box<Multiplex>),
    /// The origin has sent FIN; it discards received bytes until the client closes, or until the deadline.
    Discard(CloseReason),
    /// Accepted, without reading or writing.
    Silent,
    Ended(Ended),
}

/// Whether the connection has more to do at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Round {
    Again,
    Wait,
}

/// One accepted connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stream: Transport,
    dialogue: Dialogue,
}

/// The state of a connection, except its socket.
#[derive(Debug)]
struct Dialogue {
    task: TaskId,
    serial: u64,
    from: PeerAddress,
    /// Received bytes that are not consumed: an incomplete head, or requests after the one being answered.
    input: Vec<u8>,
    /// Whether `input` has not been parsed since the state changed.
    input_is_fresh: bool,
    /// Where the search for the end of the head in `input` continues.
    searched: usize,
    requests: u64,
    requests_left: Option<u64>,
    closing: Closing,
    due: Option<Millis>,
    /// Whether the current request allows another one.
    keepalive: bool,
    /// Whether the current request is HEAD.
    head_only: bool,
    /// `--fastcgi`: the requests are records.
    fastcgi: Option<Box<FastcgiTalk>>,
    /// Whether the TLS handshake is complete, or not needed.
    is_secured: bool,
    /// The room that it joined as a WebSocket.
    room: Option<Arc<str>>,
    state: State,
}

impl Connection {
    pub(crate) fn new(stream: Transport, task: TaskId, serial: u64, from: PeerAddress, site: &Site) -> Self {
        let closing = site.options().closing;
        let mut dialogue = Dialogue {
            task,
            serial,
            from,
            input: Vec::new(),
            input_is_fresh: false,
            searched: 0,
            requests: 0,
            requests_left: closing.after_requests,
            closing,
            due: None,
            keepalive: false,
            head_only: false,
            fastcgi: site.options().fastcgi.then(Box::default),
            is_secured: false,
            room: None,
            state: match &site.options().tcp {
                _ if site.options().silent => State::Silent,
                Some(_) => State::Tcp(Box::default()),
                None => State::Head,
            },
        };
        dialogue.arm_idle(site);
        if matches!(dialogue.state, State::Tcp(_)) {
            // A source does not wait for the client's first byte.
            site.reactor.wake(task);
        }
        Self { stream, dialogue }
    }

    pub(crate) fn task(&self) -> TaskId {
        self.dialogue.task
    }

    /// Does all work that is possible now. Returns `Some` when the connection is over.
    pub(crate) fn drive(&mut self, site: &mut Site) -> Option<Ended> {
        let Self { stream, dialogue } = self;
        dialogue.check_due(stream, site);
        if !dialogue.secure(stream, site) {
            return None;
        }
        for _ in 0..ROUNDS_MAX {
            let round = match &dialogue.state {
                State::Ended(ended) => return Some(*ended),
                State::Send(_) => dialogue.send(stream, site),
                State::Tunnel { out, sent } if *sent < out.len() => dialogue.echo_rest(stream),
                State::Delayed(_) | State::Silent => dialogue.watch(stream),
                State::WebSocket(_) => dialogue.converse(stream, site),
                State::Tcp(_) => dialogue.talk_tcp(stream, site),
                State::Http2(_) => dialogue.drive_http2(stream, site),
                State::Head | State::Body(_) | State::Tunnel { .. } | State::Discard(_) => {
                    dialogue.receive(stream, site)
                }
            };
            if round == Round::Wait {
                return None;
            }
        }
        site.reactor.wake(dialogue.task);
        None
    }

    /// Sends it a frame of its room. Errors are handled when it is driven next.
    pub(crate) fn deliver(&mut self, broadcast: &Broadcast, site: &Site) {
        let State::WebSocket(session) = &mut self.dialogue.state else { return };
        if session.deliver(&broadcast.frame, &self.stream, site).is_err() {
            self.dialogue.end(CloseReason::ClientReset, EndBy::Fin);
        } else if !session.is_closing() {
            return;
        }
        site.reactor.wake(self.dialogue.task);
    }

    /// The room that it has joined.
    pub(crate) fn room(&self) -> Option<&Arc<str>> {
        self.dialogue.room.as_ref()
    }
}

impl Dialogue {
    fn set_due(&mut self, site: &Site, due: Option<Millis>) {
        if self.due != due {
            self.due = due;
            site.reactor.set_deadline(self.task, due);
        }
    }

    /// Continues a TLS handshake; `false` while it waits for the client.
    fn secure(&mut self, stream: &Transport, site: &Site) -> bool {
        if self.is_secured || matches!(self.state, State::Ended(_) | State::Silent) {
            return true;
        }
        match stream.handshake() {
            Ok(HandshakeProgress::Waiting) => return false,
            Ok(HandshakeProgress::Done) => self.is_secured = true,
            Err(_) => self.end(CloseReason::TlsFailed, EndBy::Fin),
        }
        if let Some(is_resumed) = stream.session(tls::Session::is_resumed).filter(|_| self.is_secured) {
            site.counters().handshake(is_resumed);
        }
        let is_tcp = matches!(self.state, State::Tcp(_));
        if self.is_secured && !is_tcp && stream.session(|session| session.alpn() == Some(b"h2")) == Some(true) {
            self.begin_http2(site);
        }
        true
    }

    fn arm_idle(&mut self, site: &Site) {
        if matches!(self.state, State::Head) {
            let due = self.closing.after_idle.map(|idle| site.reactor.now().after(idle));
            self.set_due(site, due);
        }
    }

    fn check_due(&mut self, stream: &Transport, site: &mut Site) {
        if self.due.is_none_or(|due| due > site.reactor.now()) {
            return;
        }
        self.set_due(site, None);
        match std::mem::replace(&mut self.state, State::Head) {
            // A request has arrived in time.
            State::Head if stream.is_readable() && !stream.is_peer_closed() => self.arm_idle(site),
            State::Head => self.close(CloseReason::Idle, self.closing.style, stream, site),
            State::Delayed(reply) => self.respond(*reply, site),
            State::Discard(reason) => self.end(reason, EndBy::Fin),
            other => self.state = other,
        }
    }

    fn end(&mut self, reason: CloseReason, by: EndBy) {
        self.state = State::Ended(Ended { reason, by });
    }

    /// Ends the connection from the origin's side.
    fn close(&mut self, reason: CloseReason, style: ClosingStyle, stream: &Transport, site: &Site) {
        let is_refused = matches!(reason, CloseReason::BadRequest | CloseReason::Http2Fault);
        self.close_while(is_refused || stream.is_readable(), reason, style, stream, site);
    }

    /// The same. `unread`: the client may have sent bytes that are not read. Closing a socket with such bytes sends RST, which can
    /// destroy the response at the client.
    fn close_while(&mut self, unread: bool, reason: CloseReason, style: ClosingStyle, stream: &Transport, site: &Site) {
        let wait_ms = match style {
            ClosingStyle::Reset => return self.end(reason, EndBy::Reset),
            ClosingStyle::HalfClose => HALF_CLOSED_MS,
            ClosingStyle::Fin if unread => LINGER_MS,
            ClosingStyle::Fin => return self.end(reason, EndBy::Fin),
        };
        if stream.shutdown_write().is_err() {
            return self.end(CloseReason::ClientReset, EndBy::Fin);
        }
        self.state = State::Discard(reason);
        self.set_due(site, Some(pause_end(monotonic_millis(), wait_ms)));
    }

    /// Watches a connection in a state that neither reads nor writes. An RST from the client ends it; a FIN ends it only if
    /// it is silent.
    fn watch(&mut self, stream: &Transport) -> Round {
        if stream.is_failed() {
            self.end(CloseReason::ClientReset, EndBy::Fin);
            return Round::Again;
        }
        if stream.is_peer_closed() && matches!(self.state, State::Silent) {
            self.end(CloseReason::ClientClosed, EndBy::Fin);
            return Round::Again;
        }
        Round::Wait
    }

    fn receive(&mut self, stream: &Transport, site: &mut Site) -> Round {
        if self.input_is_fresh {
            let input = std::mem::take(&mut self.input);
            self.take_kept(stream, site, input);
            return Round::Again;
        }
        match stream.read_with(READ_BYTES, |bytes| self.take(stream, site, bytes)) {
            Ok(Read::Data(())) => {}
            Ok(Read::NotReady) => return Round::Wait,
            Ok(Read::Closed) => {
                let reason = match self.state {
                    State::Tunnel { .. } => CloseReason::TunnelEnd,
                    State::Discard(reason) => reason,
                    State::Head if self.fastcgi.as_ref().is_some_and(|talk| !talk.is_idle()) => {
                        CloseReason::ClientClosedEarly
                    }
                    State::Head if self.input.is_empty() => CloseReason::ClientClosed,
                    _ => CloseReason::ClientClosedEarly,
                };
                self.end(reason, EndBy::Fin);
            }
            Err(_) => self.end(CloseReason::ClientReset, EndBy::Fin),
        }
        Round::Again
    }

    /// Handles bytes that were just read.
    fn take(&mut self, stream: &Transport, site: &mut Site, bytes: &[u8]) {
        if self.input.is_empty() {
            let used = self.consume(stream, site, bytes);
            self.input.extend_from_slice(bytes.get(used..).unwrap_or_default());
            self.searched = 0;
            self.input_is_fresh = !self.input.is_empty() && !matches!(self.state, State::Head);
            return;
        }
        let mut input = std::mem::take(&mut self.input);
        input.extend_from_slice(bytes);
        // A head in several pieces is parsed only when its end has arrived or cannot arrive any more.
        if self.fastcgi.is_none()
            && let HeadEnd::NotYet(from) = find_head_end(&input, self.searched)
            && input.len() < site.limits.head_bytes_max
        {
            self.searched = from;
            self.input = input;
            return;
        }
        self.take_kept(stream, site, input);
    }

    fn take_kept(&mut self, stream: &Transport, site: &mut Site, mut input: Vec<u8>) {
        let used = self.consume(stream, site, &input);
        if used < input.len() {
            input.drain(..used);
            self.input = input;
        }
        self.searched = 0;
        self.input_is_fresh = !self.input.is_empty() && !matches!(self.state, State::Head);
    }

    /// Processes received bytes as far as the state allows; returns the number of consumed bytes.
    fn consume(&mut self, stream: &Transport, site: &mut Site, bytes: &[u8]) -> usize {
        let mut at = 0;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            match &mut self.state {
                State::Head | State::Body(_) if self.fastcgi.is_some() => at += self.read_fastcgi(stream, site, rest),
                State::Head if self.requests == 0 && multiplexed::may_be_preface(rest) => {
                    if rest.len() < PREFACE.len() {
                        break;
                    }
                    self.begin_http2(site);
                }
                State::Head => match http1::request::parse(rest, &site.limits, &mut site.head) {
                    Ok(Parse::Partial) => break,
                    Ok(Parse::Complete { len }) => {
                        at += len;
                        self.begin(stream, site, rest);
                    }
                    Err(error) => {
                        at = bytes.len();
                        self.refuse_head(error, site);
                    }
                },
                State::Body(receiving) => match receiving.take(rest, site.options().body_bytes_max) {
                    Taken::Part => at = bytes.len(),
                    Taken::All(used) => {
                        at += used;
                        self.end_of_body(stream, site);
                    }
                    Taken::Refused(status, text) => {
                        at = bytes.len();
                        self.refuse(Reply::text(status, text), site);
                    }
                },
                State::Tunnel { out, sent } => {
                    at = bytes.len();
                    match stream.write(&[IoSlice::new(rest)], false) {
                        Ok(count) => (*out, *sent) = (rest.get(count..).unwrap_or_default().to_vec(), 0),
                        Err(_) => self.end(CloseReason::ClientReset, EndBy::Fin),
                    }
                }
                State::WebSocket(session) => {
                    at = bytes.len();
                    if session.read_frames(stream, site, rest).is_err() {
                        self.end(CloseReason::ClientReset, EndBy::Fin);
                    }
                }
                State::Http2(_) => {
                    at = bytes.len();
                    self.read_http2(rest, site);
                }
                State::Discard(_) | State::Ended(_) => at = bytes.len(),
                State::Delayed(_) | State::Send(_) | State::Tcp(_) | State::Silent => break,
            }
        }
        at
    }

    /// Handles a complete head: `site.head`, with its bytes at the start of `bytes`.
    fn begin(&mut self, stream: &Transport, site: &mut Site, bytes: &[u8]) {
        self.requests += 1;
        site.counters().request();
        self.set_due(site, None);
        let head = &site.head;
        (self.keepalive, self.head_only) = (head.keepalive, head.method == Method::Head);
        let (framing, expect_continue) = (head.framing, head.expect_continue);
        let request = Request {
            head,
            bytes,
            page: &site.page,
            connection: self.serial,
            number: self.requests,
            from: &self.from,
            is_one_of_several: site.options().is_one_of_several,
            is_http2: false,
            params: None,
        };
        let chosen =
            action::choose(&request).unwrap_or_else(|Complaint(text)| Action::Reply(Reply::text(400, text)).into());
        let has_body = !matches!(framing, BodyFraming::None | BodyFraming::Length(0));
        if !has_body || matches!(chosen.action, Action::Reset { executed: false }) {
            return self.perform(chosen, &Receiving::nothing(), stream, site);
        }
        if matches!(framing, BodyFraming::Length(length) if length > site.options().body_bytes_max) {
            return self.refuse(Reply::text(413, "the body is too long".to_owned()), site);
        }
        let receiving = Box::new(Receiving::new(framing, chosen));
        if expect_continue {
            self.send_bytes(CONTINUE.to_vec(), None, Then::Receive(receiving));
        } else {
            self.state = State::Body(receiving);
        }
    }

    fn end_of_body(&mut self, stream: &Transport, site: &mut Site) {
        if let State::Body(mut receiving) = std::mem::replace(&mut self.state, State::Head)
            && let Some(chosen) = receiving.chosen.take()
        {
            self.perform(chosen, &receiving, stream, site);
        }
    }

    fn refuse_head(&mut self, error: RequestError, site: &Site) {
        self.head_only = false;
        self.refuse(Reply::text(error.status(), error.to_string()), site);
    }

    /// Answers a request whose body cannot be read, and closes.
    fn refuse(&mut self, reply: Reply, site: &Site) {
        self.send_reply(reply, Announced::Close, Then::Close(CloseReason::BadRequest), site);
    }

    fn converse(&mut self, stream: &Transport, site: &mut Site) -> Round {
        if stream.is_peer_closed() && !site.reactor.may_end(self.task) {
            return Round::Wait;
        }
        let State::WebSocket(session) = &mut self.state else { return Round::Again };
        let step = session.step(stream, site);
        let due = session.due();
        match step {
            Step::Again => return Round::Again,
            Step::Wait => self.set_due(site, due),
            Step::End(reason, style) => {
                self.close(reason, style, stream, site);
                return Round::Again;
            }
        }
        Round::Wait
    }

    fn talk_tcp(&mut self, stream: &Transport, site: &Site) -> Round {
        let (State::Tcp(talk), Some(tcp)) = (&mut self.state, &site.options().tcp) else { return Round::Again };
        match talk.step(tcp, stream, monotonic_millis()) {
            TcpStep::Again => {}
            TcpStep::Wait(due) => {
                self.set_due(site, due);
                return self.watch(stream);
            }
            TcpStep::Send(body) => self.send_bytes(Vec::new(), Some(body), Then::Close(CloseReason::TcpEnd)),
            TcpStep::End(reason, style) => self.close(reason, style, stream, site),
        }
        Round::Again
    }

    /// Continues after everything was sent.
    fn finish(&mut self, then: Then, stream: &Transport, site: &Site) {
        self.state = State::Head;
        match then {
            Then::Next => self.arm_idle(site),
            Then::Close(reason @ CloseReason::RequestLimit) => self.close(reason, self.closing.style, stream, site),
            Then::Close(reason @ CloseReason::TcpEnd) => {
                let style = site.options().tcp.as_ref().map_or_else(ClosingStyle::default, |tcp| tcp.by);
                self.close(reason, style, stream, site);
            }
            Then::Close(reason) => self.close(reason, ClosingStyle::Fin, stream, site),
            Then::Reset(reason) => self.end(reason, EndBy::Reset),
            Then::Receive(receiving) => self.state = State::Body(receiving),
            Then::Tunnel => self.state = State::Tunnel { out: Vec::new(), sent: 0 },
        }
    }

    fn send(&mut self, stream: &Transport, site: &Site) -> Round {
        let State::Send(sending) = &mut self.state else { return Round::Again };
        match sending.step(stream) {
            Ok(None) => return self.watch(stream),
            Ok(Some(Filled::More)) => return Round::Again,
            Ok(Some(Filled::Until(due))) => {
                self.set_due(site, Some(due));
                return self.watch(stream);
            }
            Ok(Some(Filled::Done)) => {
                if let State::Send(sending) = std::mem::replace(&mut self.state, State::Head) {
                    self.finish(sending.then, stream, site);
                }
            }
            Ok(Some(Filled::Cut(CutBy::Reset))) => self.end(CloseReason::FaultReset, EndBy::Reset),
            Ok(Some(Filled::Cut(_))) => self.close(CloseReason::FaultCut, ClosingStyle::Fin, stream, site),
            Err(_) => self.end(CloseReason::ClientReset, EndBy::Fin),
        }
        Round::Again
    }

    /// Echoes the remaining bytes; reading continues after that.
    fn echo_rest(&mut self, stream: &Transport) -> Round {
        let State::Tunnel { out, sent } = &mut self.state else { return Round::Again };
        match stream.write(&[IoSlice::new(out.get(*sent..).unwrap_or_default())], false) {
            Ok(0) => return self.watch(stream),
            Ok(count) => *sent += count,
            Err(_) => return self.end_round(CloseReason::ClientReset),
        }
        if *sent >= out.len() {
            (*out, *sent) = (Vec::new(), 0);
        }
        Round::Again
    }

    fn end_round(&mut self, reason: CloseReason) -> Round {
        self.end(reason, EndBy::Fin);
        Round::Again
    }
}
