//! memcached of a peer: the line before a value becomes the typed head of a response; the value is its body.

use crate::plan::application::MemcachedPlan;
use crate::upstream::answer::Answer;
use crate::upstream::cgi::check_growth;
use crate::upstream::head::{ExpectedHead, HeadEvent, HeadFault};
use crate::upstream::response_body::Source;
use cgi::memcached::{Answer as Line, ValueEnd, answer as read_line};
use http1::response::{Status, assemble};
use http1::{Field, FieldId, RequestKind, ResponseFraming, Span};
use smallvec::SmallVec;

/// What has come of an answer of memcached.
#[derive(Debug, Default)]
pub(crate) struct ValueIncoming {
    /// A value follows the head, and its end follows it.
    is_value: bool,
}

impl ValueIncoming {
    /// Looks for the first line in everything received so far.
    pub(super) fn take_head<'a>(
        &mut self,
        bytes: &'a [u8],
        plan: &MemcachedPlan,
        asked: &ExpectedHead<'_>,
        answer: &mut Answer,
    ) -> Result<HeadEvent<'a>, HeadFault> {
        let read = read_line(bytes, asked.sent).map_err(|error| HeadFault::invalid(error.to_string()))?;
        let Some((found, length)) = read else {
            check_growth(bytes.len(), asked)?;
            answer.keep(bytes);
            return Ok(HeadEvent::Partial);
        };
        let (line, rest) = bytes.split_at(length);
        match found {
            Line::Missing => {
                self.is_value = false;
                fill(404, &[(FieldId::ContentLength, b"0")], asked.request, asked, answer)?;
            }
            Line::Value { flags: None, .. } if plan.gzip_flag > 0 => {
                let line = line.trim_ascii_end().escape_ascii();
                return Err(HeadFault::invalid(format!("memcached sent invalid flags in response \"{line}\"")));
            }
            Line::Value { flags, length } => {
                self.is_value = true;
                let is_packed = flags.is_some_and(|flags| flags & plan.gzip_flag != 0);
                let (mut digits, media) = (itoa::Buffer::new(), plan.types.type_of(asked.uri));
                let fields = [
                    (FieldId::ContentLength, digits.format(length).as_bytes()),
                    (FieldId::ContentType, media),
                    (FieldId::ContentEncoding, if is_packed { b"gzip" } else { b"" }),
                ];
                // A value comes also where the client asked for the head only.
                fill(200, &fields, RequestKind::Other, asked, answer)?;
            }
        }
        Ok(HeadEvent::Final(rest))
    }

    /// The length of the value, if one follows.
    fn length(&self, framing: ResponseFraming) -> Option<u64> {
        match framing {
            ResponseFraming::Length(length) if self.is_value => Some(length),
            _ => None,
        }
    }

    /// The source of the body; `None`: there is no value.
    pub(super) fn source(&self, framing: ResponseFraming) -> Option<Source> {
        self.length(framing).map(|length| Source::Value(ValueEnd::new(length)))
    }

    /// Whether these bytes are exactly the value and its end; `None`: there is no value.
    pub(super) fn is_whole(&self, framing: ResponseFraming, bytes: &[u8]) -> Option<bool> {
        let mut end = ValueEnd::new(self.length(framing)?);
        let (_, used) = end.take(bytes);
        Some(end.is_over() && !end.is_broken() && used == bytes.len())
    }
}

/// Fills the head with the fields that are not empty.
fn fill(
    code: u16,
    fields: &[(FieldId, &[u8])],
    request: RequestKind,
    asked: &ExpectedHead<'_>,
    answer: &mut Answer,
) -> Result<(), HeadFault> {
    let Answer { bytes, head, .. } = answer;
    bytes.clear();
    let written: SmallVec<[Field; 3]> = fields
        .iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(id, value)| Field::write(*id, id.name().as_bytes(), value, bytes))
        .collect();
    assemble(bytes, Status { code, reason: Span::default() }, &written, asked.limits, request, head)?;
    // The answer has an end of its own, so another request may follow.
    head.keepalive = true;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http1::Limits;
    use rules::mime::MimeTypes;
    use rules::template::Template;
    use std::sync::Arc;

    fn plan(gzip_flag: u32) -> MemcachedPlan {
        MemcachedPlan { key: Template::constant(b"k"), gzip_flag, types: Arc::new(MimeTypes::built_in(b"text/plain")) }
    }

    fn take<'a>(
        incoming: &mut ValueIncoming,
        bytes: &'a [u8],
        gzip_flag: u32,
        answer: &mut Answer,
    ) -> Result<HeadEvent<'a>, HeadFault> {
        let limits = Limits::response(4096);
        let asked = ExpectedHead { sent: b"get k\r\n", uri: b"/a.html", ..ExpectedHead::by_get(&limits) };
        incoming.take_head(bytes, &plan(gzip_flag), &asked, answer)
    }

    #[test]
    fn a_value_is_a_response_of_its_length() {
        let (mut incoming, mut answer) = (ValueIncoming::default(), Answer::default());
        assert_eq!(take(&mut incoming, b"VALUE k 2 ", 2, &mut answer), Ok(HeadEvent::Partial));
        assert_eq!(take(&mut incoming, b"VALUE k 2 3\r\nab", 2, &mut answer), Ok(HeadEvent::Final(b"ab")));
        let framing = answer.head.framing;
        assert_eq!((answer.head.status, framing), (200, ResponseFraming::Length(3)));
        assert_eq!(answer.value(FieldId::ContentType), Some(&b"text/html"[..]));
        assert_eq!(answer.value(FieldId::ContentEncoding), Some(&b"gzip"[..]));
        assert!(matches!(incoming.source(framing), Some(Source::Value(_))));
        assert_eq!(incoming.is_whole(framing, b"abc\r\nEND\r\n"), Some(true));
        assert_eq!(incoming.is_whole(framing, b"abc\r\nEND"), Some(false));
    }

    #[test]
    fn a_missing_value_is_404() {
        let (mut incoming, mut answer) = (ValueIncoming::default(), Answer::default());
        assert_eq!(take(&mut incoming, b"END\r\n", 0, &mut answer), Ok(HeadEvent::Final(b"")));
        assert_eq!((answer.head.status, answer.head.content_length), (404, Some(0)));
        assert!(incoming.source(answer.head.framing).is_none() && answer.head.keepalive);
    }

    #[test]
    fn flags_must_be_a_number_where_they_matter() {
        let bytes = b"VALUE k x 3\r\n";
        let mut incoming = ValueIncoming::default();
        assert!(take(&mut incoming, bytes, 0, &mut Answer::default()).is_ok());
        let fault = HeadFault::invalid("memcached sent invalid flags in response \"VALUE k x 3\"");
        assert_eq!(take(&mut incoming, bytes, 2, &mut Answer::default()), Err(fault));
    }
}
