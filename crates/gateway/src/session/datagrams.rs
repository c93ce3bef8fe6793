//! What differs for a session that a datagram has begun: the text of `return` is one datagram, and a peer is joined by a
//! socket without a connection.

use crate::base::close::CloseReason;
use crate::base::logs::error::{Level, errno};
use crate::connector::choose::Choice;
use crate::registry::generation::BoundStreamProxy;
use crate::session::client::SessionClient;
use crate::session::{RefusedSession, SessionContent, StreamSession};
use crate::tunnel::datagrams::{DatagramLimits, DatagramStart};
use reactor::Stream;
use std::sync::Arc;
use upstream::balance::{Outcome, Seat};

impl StreamSession {
    /// `return`: sends the text as one datagram; an empty text sends none.
    pub(super) fn answer_text(&mut self, text: &[u8]) -> CloseReason {
        let SessionClient::Datagrams(listener, client) = &self.connection else { return CloseReason::SessionServed };
        if text.is_empty() {
            return CloseReason::SessionServed;
        }
        let sent = listener.send_datagrams(&[text], client.address, client.local);
        if let Some(error) = sent.error {
            let message = format!("sendmsg() failed ({}) while returning text", errno(&error));
            self.log(Level::Error, &message);
        }
        if sent.count > 0 {
            self.sent_bytes = text.len() as u64;
        }
        CloseReason::SessionServed
    }

    /// Joins the client and its peer.
    pub(super) fn begin_datagrams(
        &mut self,
        plan: &BoundStreamProxy,
        choice: &Choice,
        index: usize,
        upstream: Stream,
        mut seat: Seat,
    ) -> Result<SessionContent, RefusedSession> {
        // As in nginx, having a socket counts as a success; an error or missing answers count at the session's end.
        self.report(plan, choice, index, Outcome::Succeeded);
        if self.wants_info() {
            let local = upstream.local_address().ok().flatten().map_or_else(String::new, |local| local.to_string());
            let peer = self.attempts.last().map(|attempt| String::from_utf8_lossy(&attempt.peer).into_owned());
            self.log(Level::Info, &format!("udp proxy {local} connected to {}", peer.unwrap_or_default()));
        }
        let ahead = self.encode_proxy_header(plan.greeting);
        if let Some(attempt) = self.attempts.last_mut() {
            attempt.proxy_header_bytes = ahead.len() as u64;
        }
        let Some(set) = plan.group.members.of(&choice.held) else { return Err(RefusedSession::INTERNAL) };
        let group = Arc::clone(&set.balance);
        let SessionClient::Datagrams(listener, client) = &self.connection else {
            return Err(RefusedSession::INTERNAL);
        };
        let (listener, client) = (Arc::clone(listener), *client);
        self.status = 200;
        let (paces, timing) = (self.paces(plan), self.time_session(plan, choice, index, &mut seat));
        let counted = group.count_datagrams(index, seat);
        let start = DatagramStart {
            listener,
            client,
            upstream,
            limits: DatagramLimits { requests: plan.requests.into(), responses: plan.responses.map(u64::from) },
            plan: Arc::clone(&plan.tunnel),
            group,
            peer: index,
            known_peer: set.known_peer(index),
            paces,
            record: self.tunnel_record(timing),
            _seat: counted,
        };
        Ok(SessionContent::Datagrams(Box::new(start), ahead))
    }
}
