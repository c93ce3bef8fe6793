//! Response fields that are kept when the client gets another response instead: from an upstream's `X-Accel-Redirect`,
//! or from a reply that an error page replaces.

use crate::downstream::reply_head::ReplyHead;
use crate::exchange::Exchange;
use crate::exchange::reply::Reply;
use crate::registry::generation::BoundProxy;
use http1::{Field, FieldId};

/// Fields that a response has once: the page's own field goes before the one of the reply that it replaces.
const SINGLE: [FieldId; 2] = [FieldId::Location, FieldId::ContentRange];

impl Exchange {
    /// Keeps the challenges of an intercepted 401 (RFC 9110 section 11.6.1): as in nginx, the error page carries them
    /// too.
    pub(crate) fn carry_challenges(&mut self) {
        self.response.carried = None;
        let Some(answer) = self.upstream.answer().filter(|answer| answer.head.status == 401) else { return };
        let named = |field: &&Field| field.id == FieldId::WwwAuthenticate;
        for field in answer.head.fields.iter().filter(named) {
            let carried = self.response.carried.get_or_insert_default();
            carried.push_named(field.name.of(&answer.bytes), field.value.of(&answer.bytes));
        }
    }

    /// Keeps fields of the upstream's response for the response that the client gets instead.
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

    /// Keeps what a reply of ours says besides its status: the page for a 416 keeps the length of the whole, and the
    /// page for a 301 keeps the Location.
    pub(crate) fn carry_reply(&mut self, reply: &Reply) {
        for (id, value) in &reply.fields {
            let carried = self.response.carried.get_or_insert_default();
            carried.remove(*id);
            carried.push(*id, value);
        }
    }

    /// Adds the kept fields. `is_own`: whether the response already has a field of this name.
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
