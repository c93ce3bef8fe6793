//! `early_hints`: passes 103 responses of the upstream on to the client before the response itself (RFC 8297). Called
//! for every interim response; without the directive none is passed on.

use crate::base::logs::error::Level;
use crate::downstream::reply_head::ReplyHead;
use crate::exchange::Exchange;
use crate::exchange::view::ExchangeView;
use crate::registry::generation::BoundProxy;
use http1::{Field, Version};

/// The interim responses received during an attempt.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Interims {
    pub(crate) count: u32,
    /// Bytes of the early hints among them.
    hint_bytes: usize,
}

impl Exchange {
    /// Passes a 103 on if the location wants it and the client's protocol version knows it. As in nginx, all of them
    /// together may be as long as one response head; further ones are dropped.
    pub(crate) fn pass_early_hints(&mut self, plan: &BoundProxy, interims: &mut Interims) {
        let known = self.down.version == Version::Http11 && !self.down.head_begun;
        if !known || !self.wants_early_hints() {
            return;
        }
        let Some(answer) = self.upstream.answer() else { return };
        interims.hint_bytes = interims.hint_bytes.saturating_add(answer.bytes.len());
        if interims.hint_bytes > plan.limits.head_bytes_max {
            self.log_at(Level::Info, "upstream sent too big early hints while reading response header from upstream");
            return;
        }
        // Only the final response may speak of a tunnel or a length.
        let passed = |field: &&Field| {
            let name = field.name.of(&answer.bytes);
            !field.hop && !name.eq_ignore_ascii_case(b"content-length") && !plan.hidden.contains(field.id, name)
        };
        let mut fields = answer.head.fields.iter().filter(passed).peekable();
        if fields.peek().is_none() {
            return;
        }
        let mut hints = ReplyHead::of(103);
        for field in fields {
            hints.fields.pass(field);
        }
        // The next wait notices a client that has left.
        let _ = self.down.send_interim(hints.with(&answer.bytes));
    }

    /// Whether one of the location's values is neither empty nor `0`.
    fn wants_early_hints(&self) -> bool {
        let mut value = Vec::new();
        self.location().early_hints.iter().any(|template| {
            value.clear();
            template.write(&ExchangeView::of(self), &mut value);
            !value.is_empty() && value != b"0"
        })
    }
}
