//! An upstream's 101: checks that the client asked for it, and opens the tunnel. Over HTTP/2 the client asks by
//! extended CONNECT and gets 200 (RFC 8441).

use crate::content::filtered::{Compress, Ranges};
use crate::content::proxy::attempt::{AttemptEnd, Sent};
use crate::content::proxy::response_head::HeadStep;
use crate::downstream::reply_head::Mark;
use crate::exchange::Exchange;
use crate::registry::generation::BoundProxy;
use crate::tunnel::TunnelStart;
use crate::tunnel::heartbeat::has_known_frames;
use crate::upstream::answer::Answer;
use crate::upstream::head::HeadFault;
use crate::upstream::side::UpstreamSide;
use http1::{Field, FieldId, Version};
use std::sync::Arc;
use upstream::DiscardReason;
use upstream::balance::Counted;
use upstream::retry::Failure;
use websocket::handshake::Key;

impl Exchange {
    /// Refuses a page, which a client that wants a tunnel would take for one.
    pub(super) fn refuse_page_for_tunnel(&self, status: u16) -> Option<HeadFault> {
        if !self.down.wants_tunnel() || !(200..300).contains(&status) {
            return None;
        }
        let reason = format!("upstream sent {status} instead of 101 (Switching Protocols) to a WebSocket over HTTP/2");
        Some(HeadFault { failure: Failure::InvalidHeader, reason, discard: DiscardReason::ResponseBodyUnread })
    }

    /// Whether the client wants another protocol. As in nginx, a WebSocket request counts without
    /// `Connection: upgrade`, which some proxies in front of this one drop.
    fn asked_for_upgrade(&self) -> bool {
        let upgrade = self.request.head.value(FieldId::Upgrade, &self.request.bytes);
        self.request.head.upgrade.is_some() || upgrade.is_some_and(|value| value.eq_ignore_ascii_case(b"websocket"))
    }

    /// 101: valid only if both the client and the request as it was sent asked for it.
    pub(super) fn switch(&mut self, rest: &[u8]) -> HeadStep {
        self.note_head();
        let fault = if !self.asked_for_upgrade() || !self.upstream.has_sent_upgrade() {
            Some("upstream sent 101 (Switching Protocols) although no upgrade was asked for".to_owned())
        } else {
            self.switch_fault()
        };
        if let Some(reason) = fault {
            return HeadStep::Failed(HeadFault::invalid(reason));
        }
        if let Some(record) = self.upstream.attempt_mut() {
            // The tunnel counts its own bytes.
            record.bytes_received -= rest.len() as u64;
        }
        HeadStep::Switched(rest.to_vec())
    }

    /// S13: what is wrong with a 101. It cannot switch to a protocol that the client, or the request as it was sent,
    /// did not name; and HTTP/1.0 has no upgrade.
    fn switch_fault(&self) -> Option<String> {
        let answer = self.answer()?;
        if answer.head.version == Version::Http10 {
            return Some("upstream sent 101 (Switching Protocols) as HTTP/1.0".to_owned());
        }
        let request = &self.request;
        let upgrades = |field: &&Field| field.id == FieldId::Upgrade;
        let asked = request.head.fields.iter().filter(upgrades).map(|field| field.value.of(&request.bytes));
        let asked: Vec<&[u8]> = asked.flat_map(http1::protocols).collect();
        let sent: Vec<&[u8]> = request.upstream_head.values(b"Upgrade").flat_map(http1::protocols).collect();
        let named = answer
            .head
            .fields
            .iter()
            .filter(upgrades)
            .flat_map(|field| http1::protocols(field.value.of(&answer.bytes)));
        if let Some(fault) = self.accept_fault() {
            return Some(fault);
        }
        let is_in = |list: &[&[u8]], protocol: &[u8]| list.iter().any(|known| known.eq_ignore_ascii_case(protocol));
        let mut others = named.filter(|protocol| !is_in(&asked, protocol) || !is_in(&sent, protocol));
        let other = others.next()?;
        let other = other.escape_ascii();
        Some(format!("upstream sent 101 (Switching Protocols) to \"{other}\", which was not asked for"))
    }

    /// For a WebSocket over HTTP/2 the gateway makes the handshake (RFC 8441 §5), so it also checks the answer.
    fn accept_fault(&self) -> Option<String> {
        let answer = self.answer().filter(|_| self.down.wants_tunnel())?;
        let key = self.request.upstream_head.values(b"Sec-WebSocket-Key").next().and_then(Key::parse);
        let accept = answer.head.value(FieldId::SecWebSocketAccept, &answer.bytes);
        let is_right = key.is_some_and(|key| accept == Some(&key.accept()[..]));
        (!is_right)
            .then(|| "upstream sent 101 (Switching Protocols) without the right \"Sec-WebSocket-Accept\"".to_owned())
    }

    /// Passes the 101 on; the connections are joined when the exchange settles.
    pub(crate) fn open_tunnel(&mut self, plan: &BoundProxy, up: UpstreamSide, early: Vec<u8>) -> AttemptEnd {
        let mut head = self.begin_head(101);
        self.settle_keepalive();
        let Some(Answer { bytes, head: response, .. }) = self.answer() else {
            return AttemptEnd::Failed { failure: Failure::InvalidHeader, sent: Sent::default() };
        };
        head.reason = Some(response.reason);
        self.fill_server_and_date(&mut head);
        head.fields.mark(Mark::Connection);
        if let Some(upgrade) = response.upgrade {
            head.fields.push(FieldId::Upgrade, upgrade.of(bytes));
        }
        self.fill_sticky(plan, &mut head);
        self.pass_fields(plan, &mut head);
        self.filter_head(&mut head, Ranges::None, Compress::No);
        if let Some(refusal) = self.refuse_undecided() {
            self.spares.recycle_reply_head(head);
            up.discard(DiscardReason::Cancelled);
            return AttemptEnd::Reply(refusal);
        }
        let has_frames = self.has_known_frames();
        let Self { upstream, response, down, .. } = self;
        let answer = upstream.answer_bytes();
        let sent = if down.wants_tunnel() {
            // HTTP/2 has no 101.
            head.status = 200;
            head.reason = None;
            response.set_status(200);
            down.send_tunnel_head(head.with(answer))
        } else {
            response.filters.send_head(down, head.with(answer), &[], true)
        };
        self.spares.recycle_reply_head(head);
        let Some(up) = up.into_connection() else {
            return AttemptEnd::Failed { failure: Failure::InvalidHeader, sent: Sent::default() };
        };
        match (sent, up.into_tunnel(Arc::clone(&plan.tunnel))) {
            (Ok(()), Some(upstream)) => AttemptEnd::Tunnel(Box::new(TunnelStart {
                upstream,
                ahead: Vec::new(),
                early,
                has_frames,
                paces: None,
                record: None,
                seat: Counted::default(),
            })),
            _ => AttemptEnd::Failed { failure: Failure::ClientGone, sent: Sent::default() },
        }
    }

    /// Whether the tunnel is a WebSocket with frames that start at a known position.
    fn has_known_frames(&self) -> bool {
        let Some(answer) = self.answer() else { return false };
        let named = |field: &&Field| field.name.of(&answer.bytes).eq_ignore_ascii_case(b"sec-websocket-extensions");
        let extensions: Vec<&[u8]> =
            answer.head.fields.iter().filter(named).map(|field| field.value.of(&answer.bytes)).collect();
        let upgrade = answer.head.upgrade.map_or(&b""[..], |upgrade| upgrade.of(&answer.bytes));
        has_known_frames(upgrade, &extensions)
    }
}
