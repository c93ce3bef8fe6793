//! `proxy_force_ranges`: serves a range from an upstream's whole response, even if the upstream offers none. As in
//! nginx only one range, of a 200 with a length, and not of a compressed response.

use crate::downstream::reply_head::{Mark, ReplyHead};
use http1::FieldId;
use rules::precondition::{is_same_version, parse_date};
use rules::range::{Wanted, parse_range};
use std::ops::Range;

/// The portion of a response to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Portion {
    /// All of it; the gateway itself offers no ranges.
    Whole,
    /// All of it, and ranges are offered.
    Offered,
    Part {
        range: Range<u64>,
        /// Length of the whole.
        size: u64,
    },
    /// The requested range lies outside the response.
    Nothing { size: u64 },
}

/// The request's range fields, and the validators of the response.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RangeFacts<'a> {
    /// `Range`
    pub(crate) range: &'a [u8],
    /// `If-Range`
    pub(crate) of: Option<&'a [u8]>,
    /// The response's `ETag` and `Last-Modified`.
    pub(crate) tag: Option<&'a [u8]>,
    pub(crate) modified: Option<&'a [u8]>,
    /// Length of the whole.
    pub(crate) size: u64,
}

impl Portion {
    /// Decides which portion of a response goes to the client.
    pub(crate) fn of(facts: &RangeFacts<'_>) -> Self {
        let RangeFacts { range, of, tag, modified, size } = *facts;
        if of.is_some_and(|of| !is_same_version(of, tag, modified.and_then(parse_date))) {
            return Self::Offered;
        }
        match parse_range(range, size, 1) {
            Wanted::Whole => Self::Offered,
            Wanted::Unsatisfiable => Self::Nothing { size },
            Wanted::Parts(parts) => match parts.into_iter().next() {
                Some(range) => Self::Part { range, size },
                None => Self::Offered,
            },
        }
    }

    /// Adds the fields that describe the portion to a head.
    pub(crate) fn add_fields(&self, head: &mut ReplyHead) {
        match self {
            Self::Part { range, size } => {
                let place = format!("bytes {}-{}/{size}", range.start, range.end - 1);
                head.fields.push(FieldId::ContentRange, place.as_bytes());
            }
            Self::Offered => head.fields.push(FieldId::AcceptRanges, b"bytes"),
            Self::Whole | Self::Nothing { .. } => {}
        }
    }

    /// The same, after the upstream's fields and before the downstream's length field.
    pub(crate) fn add_fields_to_answer(&self, head: &mut ReplyHead) {
        if matches!(self, Self::Part { .. } | Self::Offered) {
            self.add_fields(head);
            head.fields.move_last_before(Mark::Length);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(range: &[u8]) -> RangeFacts<'_> {
        RangeFacts { range, of: None, tag: Some(b"\"a\""), modified: None, size: 10 }
    }

    #[test]
    fn one_part_of_the_asked_version_is_cut_out() {
        assert_eq!(Portion::of(&facts(b"bytes=2-4")), Portion::Part { range: 2..5, size: 10 });
        assert_eq!(Portion::of(&facts(b"bytes=10-")), Portion::Nothing { size: 10 });
        assert_eq!(Portion::of(&facts(b"bytes=0-1,4-5")), Portion::Offered, "more than one");
        assert_eq!(Portion::of(&RangeFacts { of: Some(b"\"b\""), ..facts(b"bytes=2-4") }), Portion::Offered);
        assert_eq!(
            Portion::of(&RangeFacts { of: Some(b"\"a\""), ..facts(b"bytes=2-4") }),
            Portion::Part { range: 2..5, size: 10 }
        );
    }

    #[test]
    fn a_head_says_what_of_the_response_it_is() {
        let mut head = ReplyHead::default();
        head.fields.mark(Mark::Length);
        head.fields.push(FieldId::Server, b"x");
        Portion::Part { range: 2..5, size: 10 }.add_fields_to_answer(&mut head);
        let shown: Vec<_> = head.fields.iter(b"").collect();
        assert_eq!(shown, [(&b"Content-Range"[..], &b"bytes 2-4/10"[..]), (b"Server", b"x")]);
    }
}
