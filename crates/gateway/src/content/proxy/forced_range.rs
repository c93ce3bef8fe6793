//! `proxy_force_ranges` on an upstream's response.

use crate::downstream::reply_head::ReplyHead;
use crate::exchange::Exchange;
use crate::exchange::reply::Reply;
use crate::filter::forced_range::{Portion, RangeFacts};
use crate::registry::generation::BoundProxy;
use http1::FieldId;

impl Exchange {
    /// What of the response whose head is there goes to the client.
    pub(crate) fn portion(&self, plan: &BoundProxy) -> Portion {
        let Some(answer) = self.answer().filter(|_| plan.force_ranges) else { return Portion::Whole };
        let status = self.response.shown_status.unwrap_or(answer.head.status);
        let Some(size) = answer.head.content_length.filter(|_| status == 200) else { return Portion::Whole };
        let asked = |id| self.request.head.value(id, &self.request.bytes);
        let Some(range) = asked(FieldId::Range) else { return Portion::Offered };
        if self.would_compress_answer(plan, size) {
            return Portion::Whole;
        }
        Portion::of(&RangeFacts {
            range,
            of: asked(FieldId::IfRange),
            tag: answer.head.value(FieldId::ETag, &answer.bytes),
            modified: answer.head.value(FieldId::LastModified, &answer.bytes),
            size,
        })
    }

    fn would_compress_answer(&self, plan: &BoundProxy, size: u64) -> bool {
        if self.location().gzip.is_none() {
            return false;
        }
        let mut head = ReplyHead::whole(size);
        for field in self.passed_fields(plan) {
            head.fields.pass(field);
        }
        self.would_compress(&mut head)
    }
}

/// 416, which says how much there is.
pub(crate) fn unsatisfiable(size: u64) -> Reply {
    Reply { fields: vec![(FieldId::ContentRange, format!("bytes */{size}").into_bytes())], ..Reply::error(416) }
}
