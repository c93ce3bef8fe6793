//! `proxy_force_ranges`: a part of an upstream's whole response for a client that asks for one, whatever the upstream says about
//! ranges. As in nginx it is one part at most, of a 200 with a length, and not of a compressed one.

use crate::content::reply::Reply;
use crate::exchange::Exchange;
use crate::registry::generation::BoundProxy;
use http1::FieldId;
use http1::encode::{encode_fields, encode_number_field};
use rules::precondition::{is_same_version, parse_date};
use rules::range::{Wanted, parse_range};
use std::ops::Range;

/// What is sent of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Portion {
    /// All of it; parts cannot be asked for, or that is the upstream's affair.
    Whole,
    /// All of it, and parts can be asked for.
    Offered,
    Part {
        range: Range<u64>,
        /// Bytes of the whole.
        size: u64,
    },
    /// There is nothing of it where the client asks.
    Nothing { size: u64 },
}

impl Exchange {
    /// What of the response whose head is there goes to the client.
    pub(crate) fn portion(&self, plan: &BoundProxy) -> Portion {
        let Some(answer) = self.answer().filter(|_| plan.force_ranges) else { return Portion::Whole };
        let status = self.shown_status.unwrap_or(answer.head.status);
        let Some(size) = answer.head.content_length.filter(|_| status == 200) else { return Portion::Whole };
        let asked = |id| self.request.head.value(id, &self.request.bytes);
        let Some(range) = asked(FieldId::Range) else { return Portion::Offered };
        if self.would_compress_answer(plan, size) {
            return Portion::Whole;
        }
        if let Some(of) = asked(FieldId::IfRange) {
            let tag = answer.head.value(FieldId::ETag, &answer.bytes);
            let modified = answer.head.value(FieldId::LastModified, &answer.bytes).and_then(parse_date);
            if !is_same_version(of, tag, modified) {
                return Portion::Offered;
            }
        }
        match parse_range(range, size, 1) {
            Wanted::Whole => Portion::Offered,
            Wanted::Unsatisfiable => Portion::Nothing { size },
            Wanted::Parts(parts) => match parts.into_iter().next() {
                Some(range) => Portion::Part { range, size },
                None => Portion::Offered,
            },
        }
    }

    fn would_compress_answer(&self, plan: &BoundProxy, size: u64) -> bool {
        if self.location().gzip.is_none() {
            return false;
        }
        let mut head = Vec::new();
        encode_fields(self.answer_bytes(), self.passed_fields(plan), &mut head);
        encode_number_field(b"Content-Length", size, &mut head);
        self.encode_added(200, &mut head);
        self.would_compress(&head)
    }
}

/// 416, which says how much there is.
pub(crate) fn unsatisfiable(size: u64) -> Reply {
    Reply { fields: vec![(b"Content-Range", format!("bytes */{size}").into_bytes())], ..Reply::error(416) }
}
