//! `proxy_force_ranges` on an upstream's response.

use crate::downstream::reply_head::ReplyHead;
use crate::exchange::Exchange;
use crate::exchange::reply::Reply;
use crate::filter::forced_range::{Portion, RangeFacts};
use crate::registry::generation::BoundProxy;
use crate::upstream::answer::Answer;
use http1::FieldId;

impl Exchange {
    /// The portion of the response that goes to the client. The head has been received.
    pub(crate) fn portion(&self, plan: &BoundProxy) -> Portion {
        let Some(answer) = self.answer().filter(|_| self.offers_ranges(plan) && !self.is_subrequest()) else {
            return Portion::Whole;
        };
        let status = self.response.status_for(answer.head.status);
        let Some(size) = answer.head.content_length.filter(|_| status == 200) else { return Portion::Whole };
        let asked = |id| self.request.head.value(id, &self.request.bytes);
        let Some(range) = asked(FieldId::Range) else { return Portion::Offered };
        if self.would_change_answer(plan, size) {
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

    /// Whether the gateway serves ranges of this response: the configuration says so, or the response is stored and the
    /// upstream offers ranges.
    fn offers_ranges(&self, plan: &BoundProxy) -> bool {
        let is_offered = |answer: &Answer| answer.head.seen.contains(FieldId::AcceptRanges);
        let has_parts = plan.cache.as_ref().is_some_and(|cache| cache.ranges_max > 0);
        let is_ours = plan.force_ranges || (has_parts && self.edits_cached() && self.answer().is_some_and(is_offered));
        is_ours && !self.clears_ranges_of_answer()
    }

    /// Whether `more_clear_headers Accept-Ranges` applies to the upstream's response.
    pub(crate) fn clears_ranges_of_answer(&self) -> bool {
        let media = self.answer().and_then(|answer| answer.head.value(FieldId::ContentType, &answer.bytes));
        self.clears_ranges(media.unwrap_or_default())
    }

    /// Whether filters would change this response's body.
    pub(crate) fn would_change_answer(&self, plan: &BoundProxy, size: u64) -> bool {
        if !self.location().changes_bodies() {
            return false;
        }
        let mut head = ReplyHead::whole(size);
        for field in self.passed_fields(plan) {
            head.fields.pass(field);
        }
        self.would_change(&mut head)
    }
}

/// A 416 that states the size.
pub(crate) fn unsatisfiable(size: u64) -> Reply {
    Reply { fields: vec![(FieldId::ContentRange, format!("bytes */{size}").into_bytes())], ..Reply::error(416) }
}
