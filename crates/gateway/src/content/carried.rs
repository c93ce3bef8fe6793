//! Fields that go with the response that the client gets instead of another one: of an upstream that steers, of a reply that an
//! error page is shown for.

use crate::downstream::reply_head::ReplyHead;
use crate::exchange::Exchange;
use crate::exchange::reply::Reply;
use crate::registry::generation::BoundProxy;
use http1::{Field, FieldId};

/// Fields that a page has once: its own goes before the one of the reply that it is shown for.
const SINGLE: [FieldId; 2] = [FieldId::Location, FieldId::ContentRange];

impl Exchange {
    /// Keeps what an intercepted 401 asks the client for (RFC 9110 section 11.6.1): the page that is shown for it says it
    /// too, as in nginx.
    pub(crate) fn carry_challenges(&mut self) {
        self.response.carried = None;
        let Some(answer) = self.upstream.answer.as_ref().filter(|answer| answer.head.status == 401) else { return };
        let named = |field: &&Field| field.id == FieldId::WwwAuthenticate;
        for field in answer.head.fields.iter().filter(named) {
            let carried = self.response.carried.get_or_insert_default();
            carried.push_named(field.name.of(&answer.bytes), field.value.of(&answer.bytes));
        }
    }

    /// Keeps fields of the upstream's response for whatever response the client gets instead.
    pub(crate) fn carry(&mut self, plan: &BoundProxy, ids: &[FieldId]) {
        let mut carried = self.response.carried.take();
        if let Some(answer) = self.answer() {
            for field in answer.head.fields.iter().filter(|field| ids.contains(&field.id)) {
                let value = self.rewritten(plan, field, &answer.bytes);
                carried.get_or_insert_default().push_named(field.name.of(&answer.bytes), &value);
            }
        }
        self.response.carried = carried;
    }

    /// Keeps what a reply of ours says besides its status: the page that is shown for a 416 says how long the whole is,
    /// too, and one for a 301 where it has gone.
    pub(crate) fn carry_reply(&mut self, reply: &Reply) {
        for (id, value) in &reply.fields {
            let carried = self.response.carried.get_or_insert_default();
            carried.remove(*id);
            carried.push(*id, value);
        }
    }

    /// Adds the fields that were kept. `is_own`: whether the response has a field of this name itself.
    pub(crate) fn fill_carried(&self, is_own: impl Fn(FieldId) -> bool, head: &mut ReplyHead) {
        let Some(carried) = &self.response.carried else { return };
        for (name, value) in carried.iter(b"") {
            let single = SINGLE.into_iter().find(|single| *single == FieldId::of_name(name));
            if !single.is_some_and(&is_own) {
                head.fields.push_named(name, value);
            }
        }
    }
}
