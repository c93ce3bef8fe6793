//! How the response and its connection end, as far as an exchange decides it: whether the connection is kept, whether the
//! response was sent completely, and a response that cannot be completed.

use crate::base::close::CloseReason;
use crate::exchange::Exchange;
use crate::exchange::step::Served;
use conf::value::words::KeepaliveDisable;
use http1::{FieldId, Method};

/// Bytes of an unread request body, with a length or in chunks, that are read and dropped to keep a connection: a round
/// trip or two. For more, closing is cheaper for both sides.
pub(crate) const DRAIN_BYTES_MAX: u64 = 64 * 1024;

impl Exchange {
    /// Decides, before a head is encoded, whether the connection continues after this response.
    pub(crate) fn settle_keepalive(&mut self) {
        let plan = self.client_plan();
        let age = self.thread.reactor.now().since(self.down.accepted_at());
        let keepalive_timeout = plan.keepalive_timeout;
        let within_limits = !plan.keepalive_timeout.is_zero()
            && self.down.requests() < plan.keepalive_requests
            && u128::from(age) < plan.keepalive_time.as_millis();
        let nodelay = plan.nodelay;
        self.down.set_nodelay(nodelay);
        if let Some(stream) = self.down.stream() {
            // Other streams continue: a stream decides for the connection only if it is the last one.
            return stream.settle_keepalive(keepalive_timeout, within_limits);
        }
        if self.down.ending.keeps() && self.thread.is_draining() {
            self.down.ending.close(CloseReason::Shutdown);
        }
        if self.down.ending.keeps() && (!within_limits || self.is_browser_without_keepalive()) {
            self.down.ending.close(CloseReason::KeepaliveLimit);
        }
        if self.down.ending.keeps() && self.thread.sheds_keepalive() {
            self.down.ending.close(CloseReason::MemoryBudget);
        }
        if self.down.ending.keeps() && self.intake.body.is_longer_than(DRAIN_BYTES_MAX) {
            self.down.ending.close(CloseReason::BodyUnread);
        }
    }

    /// `keepalive_disable`: MSIE before 7 mishandles a connection after a POST, old Safari on macOS after any request.
    fn is_browser_without_keepalive(&self) -> bool {
        let disable = self.client_plan().keepalive_disable;
        if disable.contains(KeepaliveDisable::NONE) {
            return false;
        }
        let post = disable.contains(KeepaliveDisable::MSIE6) && self.down.method == Method::Post;
        if !post && !disable.contains(KeepaliveDisable::SAFARI) {
            return false;
        }
        let request = &self.request;
        let Some(agent) = request.head.value(FieldId::UserAgent, &request.bytes) else { return false };
        let has = |text: &[u8]| agent.windows(text.len()).any(|window| window == text);
        let msie6 = || (4..=6).any(|version: u8| has(&[b"MSIE ", &[b'0' + version, b'.'][..]].concat()));
        (post && msie6() && !has(b"Opera"))
            || (disable.contains(KeepaliveDisable::SAFARI) && has(b"Safari/") && has(b"Mac OS X") && !has(b"Chrom"))
    }

    /// `$request_completion`: the client's socket has accepted a whole response.
    pub(crate) fn is_completed(&self) -> bool {
        let cut = self.down.ending.is_gone() || self.down.ending.reason() == Some(CloseReason::Truncated);
        self.down.head_begun && self.down.is_complete() && self.down.waiting_bytes() == 0 && !cut
    }

    /// The client does not take the rest of the response, for this reason; `during` is nginx's name for what was going on.
    pub(crate) fn stop_sending(&mut self, reason: CloseReason, during: &str) {
        if reason == CloseReason::SendTimeout {
            self.client_log(&format!("client timed out (110: Connection timed out) while {during}"));
        }
        self.down.ending.break_off(reason);
    }

    /// The response cannot be completed: closing the connection tells the client.
    pub(crate) fn truncate(&mut self) -> Served {
        self.down.ending.break_off(CloseReason::Truncated);
        // As much of a page as needs no further wait.
        while self.assemble() && self.response.filters.flush(&mut self.down).is_ok() {}
        if self.down.head_begun && self.response.filters.break_off(&mut self.down).is_err() {
            self.down.ending.break_off(CloseReason::ClientAborted);
        }
        Served::Responded
    }
}
