//! The responses of an HTTP/1 connection: performs the selected action and begins the response. `connection` decides
//! when.

use super::{Dialogue, EndBy, State};
use crate::action::{Action, Chosen};
use crate::body::{Body, Framing, pause_end, push_pattern};
use crate::counters::CloseReason;
use crate::receive::Receiving;
use crate::reply::{Announced, Content, PagePart, Reply};
use crate::sending::{Sending, Then};
use crate::websocket::{Opening, Session};
use crate::work::spend;
use crate::worker::Site;
use reactor::monotonic_millis;
use std::io::IoSlice;
use transport::Transport;

impl Dialogue {
    /// Performs the selected action, now that the request is complete.
    pub(super) fn perform(&mut self, chosen: Chosen, received: &Receiving, stream: &Transport, site: &mut Site) {
        let Chosen { action, id, work, .. } = chosen;
        if !matches!(action, Action::Reset { executed: false }) {
            site.counters().execution();
            if let Some(id) = id
                && !site.shared.executions.count(&id)
            {
                return self.respond(Reply::text(507, "no room for further ids".to_owned()), site);
            }
        }
        if let Some(cpu) = work {
            spend(cpu);
        }
        match action {
            Action::Page(PagePart::Whole) if self.fastcgi.is_some() => self.respond(site.page.whole_reply(), site),
            Action::Upgrade { .. } | Action::WebSocket(_) if self.fastcgi.is_some() => {
                self.respond(Reply::text(501, "over FastCGI there is no Upgrade".to_owned()), site);
            }
            Action::CutHead(reply) if self.fastcgi.is_some() => self.cut_head_in_records(&reply),
            Action::Page(PagePart::Whole) => self.send_page(stream, site),
            Action::Page(part) => self.respond(site.page.partial_reply(part), site),
            Action::Reply(reply) => self.respond(reply, site),
            Action::Delay(wait_ms, reply) => {
                self.state = State::Delayed(Box::new(reply));
                self.set_due(site, Some(pause_end(monotonic_millis(), wait_ms)));
            }
            Action::Echo(json) => self.respond(Reply::json(received.finish_echo(json)), site),
            Action::Reset { .. } => self.end(CloseReason::FaultReset, EndBy::Reset),
            Action::CutHead(reply) => {
                let mut out = Vec::new();
                site.page.common.encode_head(&reply, Announced::KeepAlive, &mut out);
                out.truncate(out.len() / 2);
                self.send_bytes(out, None, Then::Reset(CloseReason::FaultReset));
            }
            Action::CloseAfter(closing) => {
                // The request that sets this is not counted itself.
                self.closing = closing;
                self.requests_left = closing.after_requests.map(|requests| requests.saturating_add(1));
                self.respond(Reply::text(200, "agreed".to_owned()), site);
            }
            Action::Upgrade { protocol, early_bytes } => {
                let mut out = Vec::new();
                site.page.common.encode_switching(&protocol, &mut out);
                push_pattern(0, early_bytes, &mut out);
                self.send_bytes(out, None, Then::Tunnel);
            }
            Action::WebSocket(opening) => self.open_websocket(*opening, stream, site),
            // Selected only for HTTP/2 requests.
            Action::Grpc(_) => self.respond(Reply::text(415, "gRPC is spoken over HTTP/2".to_owned()), site),
            Action::ArmResets(_) | Action::Executed(_) | Action::ForgetExecuted | Action::Counters => {
                let reply = site.shared.administer(action);
                self.respond(reply, site);
            }
        }
    }

    fn open_websocket(&mut self, opening: Opening, stream: &Transport, site: &mut Site) {
        let mut head = Vec::new();
        site.page.common.encode_websocket(&opening, &mut head);
        self.room.clone_from(&opening.room);
        match Session::open(opening, &head, stream, self.task, site) {
            Ok(session) => self.state = State::WebSocket(Box::new(session)),
            Err(_) => self.end(CloseReason::ClientReset, EndBy::Fin),
        }
    }

    /// How this response ends for the connection.
    fn outcome(&mut self, framing: Option<Framing>, site: &Site) -> (Announced, Then) {
        if let Some(left) = &mut self.requests_left {
            *left = left.saturating_sub(1);
        }
        let reason = if !self.keepalive {
            CloseReason::ClientAskedClose
        } else if site.options().always_close {
            CloseReason::OriginAlwaysCloses
        } else if framing == Some(Framing::UntilClose) {
            CloseReason::BodyEnd
        } else if self.requests_left == Some(0) {
            let announced = if self.closing.unannounced { Announced::KeepAlive } else { Announced::Close };
            return (announced, Then::Close(CloseReason::RequestLimit));
        } else {
            return (Announced::KeepAlive, Then::Next);
        };
        (Announced::Close, Then::Close(reason))
    }

    fn send_page(&mut self, stream: &Transport, site: &Site) {
        let (announced, then) = self.outcome(None, site);
        let bytes = site.page.bytes(announced, self.head_only);
        if !self.head_only && !site.page.is_prepared_whole() {
            return self.send_bytes(bytes.to_vec(), Some(Body::new(Framing::Length, site.page.len)), then);
        }
        match stream.write(&[IoSlice::new(bytes)], false) {
            Ok(sent) if sent == bytes.len() => self.finish(then, stream, site),
            Ok(sent) => self.send_bytes(bytes.get(sent..).unwrap_or_default().to_vec(), None, then),
            Err(_) => self.end(CloseReason::ClientReset, EndBy::Fin),
        }
    }

    pub(super) fn respond(&mut self, reply: Reply, site: &Site) {
        let framing = match &reply.content {
            // Records have an end of their own.
            Content::Pattern(body) if self.fastcgi.is_none() => Some(body.framing),
            Content::Pattern(_) | Content::None | Content::Bytes(_) => None,
        };
        let (announced, then) = self.outcome(framing, site);
        self.send_reply(reply, announced, then, site);
    }

    pub(super) fn send_reply(&mut self, reply: Reply, announced: Announced, then: Then, site: &Site) {
        if self.fastcgi.is_some() {
            return self.send_in_records(reply, then);
        }
        let mut out = Vec::new();
        reply.encode_interim(&mut out);
        site.page.common.encode_head(&reply, announced, &mut out);
        let mut rest = None;
        match reply.content {
            _ if self.head_only => {}
            Content::None => {}
            Content::Bytes(bytes) => out.extend_from_slice(&bytes),
            Content::Pattern(body) => rest = Some(body),
        }
        self.send_bytes(out, rest, then);
    }

    pub(super) fn send_bytes(&mut self, out: Vec<u8>, body: Option<Body>, then: Then) {
        self.state = State::Send(Box::new(Sending { out, sent: 0, body, then }));
    }
}
