//! `proxy_force_ranges`: a part of an upstream's whole response for a client that asks for one, whatever the upstream says about
//! ranges. As in nginx it is one part at most, of a 200 with a length, and not of a compressed one.

use crate::downstream::reply_head::{Mark, ReplyHead};
use http1::FieldId;
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

/// What the request says about parts, and what they would be parts of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RangeFacts<'a> {
    /// `Range`
    pub(crate) range: &'a [u8],
    /// `If-Range`
    pub(crate) of: Option<&'a [u8]>,
    /// The response's `ETag` and `Last-Modified`.
    pub(crate) tag: Option<&'a [u8]>,
    pub(crate) modified: Option<&'a [u8]>,
    /// Bytes of the whole.
    pub(crate) size: u64,
}

impl Portion {
    /// What of a response goes to the client.
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

    /// Says in a head what of the response it is.
    pub(crate) fn say(&self, head: &mut ReplyHead) {
        match self {
            Self::Part { range, size } => {
                let place = format!("bytes {}-{}/{size}", range.start, range.end - 1);
                head.fields.push(FieldId::ContentRange, place.as_bytes());
            }
            Self::Offered => head.fields.push(FieldId::AcceptRanges, b"bytes"),
            Self::Whole | Self::Nothing { .. } => {}
        }
    }

    /// The same behind the upstream's fields, ahead of what the downstream says of the length.
    pub(crate) fn say_of_answer(&self, head: &mut ReplyHead) {
        if matches!(self, Self::Part { .. } | Self::Offered) {
            self.say(head);
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
        Portion::Part { range: 2..5, size: 10 }.say_of_answer(&mut head);
        let shown: Vec<_> = head.fields.iter(b"").collect();
        assert_eq!(shown, [(&b"Content-Range"[..], &b"bytes 2-4/10"[..]), (b"Server", b"x")]);
    }
}
