//! Performs the selected action of a request on its stream, and begins the response.

use super::outgoing::{Outgoing, Source};
use super::{Exchange, Facts, Multiplex, Who};
use crate::action::{Action, Chosen, StreamFault};
use crate::body::{Body, Framing};
use crate::receive::Receiving;
use crate::reply::{Content, PagePart, Reply};
use crate::work::spend;
use crate::worker::Site;
use http2::{Fields, StreamId};
use reactor::monotonic_millis;

/// Adds a field, unless HTTP/2 forbids it; a path may ask for any field.
fn add(fields: &mut Fields<'_>, name: &[u8], value: &[u8]) {
    let _ = fields.add(name, value);
}

impl Multiplex {
    /// Performs the selected action, now that the request is complete.
    #[expect(clippy::too_many_arguments, reason = "a request, its connection, and where its answer goes")]
    pub(super) fn perform(
        &mut self,
        stream: StreamId,
        chosen: Chosen,
        received: &Receiving,
        facts: Facts,
        who: &mut Who<'_>,
        site: &Site,
        out: &mut Vec<u8>,
    ) {
        if let Some(reply) = Self::count(&chosen, site) {
            return self.respond(stream, reply, facts, site, out);
        }
        if let Some(cpu) = chosen.work {
            spend(cpu);
        }
        let reply = match chosen.action {
            Action::Page(PagePart::Whole) => return self.send_page(stream, facts, site, out),
            Action::Page(part) => site.page.partial_reply(part),
            Action::Reply(reply) => {
                return self.respond_or_fail(stream, reply, facts, chosen.fault, site, out);
            }
            Action::Delay(wait_ms, reply) => return self.delay(stream, wait_ms, reply, facts),
            Action::Echo(json) => Reply::json(received.finish_echo(json)),
            Action::Reset { .. } | Action::CutHead(_) => return self.fail(stream, chosen.fault, out),
            Action::CloseAfter(closing) => {
                *who.closing = closing;
                *who.requests_left = closing.after_requests;
                Reply::text(200, "agreed".to_owned())
            }
            Action::Grpc(call) => return self.answer_call(stream, call, received.kept(), site, out),
            // Both need an Upgrade field, which HTTP/2 does not have.
            Action::Upgrade { .. } | Action::WebSocket(_) => {
                Reply::text(501, "over HTTP/2 there is no Upgrade".to_owned())
            }
            Action::ArmResets(_) | Action::Executed(_) | Action::ForgetExecuted | Action::Counters => {
                site.shared.administer(chosen.action)
            }
        };
        self.respond(stream, reply, facts, site, out);
    }

    /// Fails a stream where an HTTP/1 connection would be reset.
    pub(super) fn fail(&mut self, stream: StreamId, fault: StreamFault, out: &mut Vec<u8>) {
        match fault {
            StreamFault::Stream(code) => self.engine.reset(stream, code, out),
            StreamFault::Connection => self.is_reset_wanted = true,
        }
        self.exchanges.remove(&stream.0);
    }

    fn send_page(&mut self, stream: StreamId, facts: Facts, site: &Site, out: &mut Vec<u8>) {
        let len = site.page.len;
        let end = facts.head_only || len == 0;
        let begun = self.engine.respond(stream, 200, end, out, |fields| {
            for (name, value) in site.page.common.each().into_iter().chain(site.page.each()) {
                add(fields, name, value);
            }
            add(fields, b"content-length", itoa::Buffer::new().format(len).as_bytes());
        });
        if begun.is_ok() && !end {
            let outgoing = Outgoing::new(Source::Pattern(Body::new(Framing::Length, len).unframed().0));
            self.begin_sending(stream, outgoing, out);
        }
    }

    pub(super) fn respond(&mut self, stream: StreamId, reply: Reply, facts: Facts, site: &Site, out: &mut Vec<u8>) {
        self.respond_or_fail(stream, reply, facts, StreamFault::default(), site, out);
    }

    /// The same, with the fault for a body that is cut off.
    fn respond_or_fail(
        &mut self,
        stream: StreamId,
        reply: Reply,
        facts: Facts,
        fault: StreamFault,
        site: &Site,
        out: &mut Vec<u8>,
    ) {
        if let Some((status, count)) = reply.interim {
            for _ in 0..count {
                let _ = self.engine.respond(stream, status, false, out, |_| ());
            }
        }
        let length = match &reply.content {
            Content::None => None,
            Content::Bytes(bytes) => Some(bytes.len() as u64),
            Content::Pattern(body) => (body.framing == Framing::Length).then_some(body.total),
        };
        let is_empty = match &reply.content {
            Content::None => true,
            Content::Bytes(bytes) => bytes.is_empty(),
            Content::Pattern(body) => body.is_empty() && body.trailers.is_empty(),
        };
        let end = facts.head_only || is_empty;
        let begun = self.engine.respond(stream, reply.status, end, out, |fields| {
            for (name, value) in site.page.common.each() {
                add(fields, name, value);
            }
            if !matches!(reply.content, Content::None) {
                add(fields, b"content-type", reply.content_type.as_bytes());
            }
            if let Some(length) = length {
                add(fields, b"content-length", itoa::Buffer::new().format(length).as_bytes());
            }
            for (name, value) in reply.added() {
                add(fields, name, value);
            }
        });
        if end || begun.is_err() {
            return;
        }
        let outgoing = match reply.content {
            Content::None => return,
            Content::Bytes(bytes) => Outgoing::new(Source::Bytes { bytes, at: 0 }),
            Content::Pattern(body) => {
                let (body, trailers) = body.unframed();
                Outgoing::new(Source::Pattern(body)).ending(trailers, fault)
            }
        };
        self.begin_sending(stream, outgoing, out);
    }

    pub(super) fn begin_sending(&mut self, stream: StreamId, outgoing: Outgoing, out: &mut Vec<u8>) {
        self.exchanges.insert(stream.0, Exchange::Sending(Box::new(outgoing)));
        self.send(stream, monotonic_millis(), out);
    }
}
