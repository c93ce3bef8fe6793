//! The two messages of OTLP that a trace needs, in the wire format of Protocol Buffers: the request is written, of the
//! response the rejected spans are read. The field numbers are those of `opentelemetry-proto` 1; tests compare with the official
//! definitions.

use gateway::spans::{Span, SpanKind, SpanValue};

/// Wire types.
const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const BYTES: u32 = 2;
const FIXED32: u32 = 5;

/// `Status.code` of a failed span.
const STATUS_ERROR: u64 = 2;

/// Writes fields. As the format says, a field with its default is left out.
#[derive(Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn key(&mut self, field: u32, wire: u32) {
        self.varint(u64::from(field << 3 | wire));
    }

    fn number(&mut self, field: u32, value: u64) {
        if value != 0 {
            self.key(field, VARINT);
            self.varint(value);
        }
    }

    fn fixed(&mut self, field: u32, value: u64) {
        self.key(field, FIXED64);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn bytes(&mut self, field: u32, value: &[u8]) {
        if !value.is_empty() {
            self.message(field, value);
        }
    }

    /// A message, or a value of `oneof`, is there even if it is empty.
    fn message(&mut self, field: u32, value: &[u8]) {
        self.key(field, BYTES);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
    }

    fn nested(&mut self, field: u32, write: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        write(&mut inner);
        self.message(field, &inner.0);
    }

    /// `KeyValue`
    fn attribute(&mut self, field: u32, name: &str, value: &SpanValue) {
        self.nested(field, |pair| {
            pair.bytes(1, name.as_bytes());
            pair.nested(2, |any| any.any_value(value));
        });
    }

    /// `AnyValue`
    fn any_value(&mut self, value: &SpanValue) {
        match value {
            SpanValue::Text(text) => self.message(1, text.as_bytes()),
            SpanValue::Flag(flag) => {
                self.key(2, VARINT);
                self.varint(u64::from(*flag));
            }
            SpanValue::Number(number) => {
                self.key(3, VARINT);
                self.varint(*number as u64);
            }
            SpanValue::Texts(text) => {
                self.nested(5, |list| list.nested(1, |any| any.message(1, text.as_bytes())));
            }
        }
    }

    fn span(&mut self, span: &Span) {
        self.bytes(1, &span.trace_id);
        self.bytes(2, &span.id);
        self.bytes(3, span.state.as_bytes());
        self.bytes(4, span.parent.as_ref().map_or(&[], |id| &id[..]));
        self.bytes(5, span.name.as_bytes());
        self.number(
            6,
            match span.kind {
                SpanKind::Server => 2,
                SpanKind::Client => 3,
            },
        );
        self.fixed(7, span.began_ns);
        self.fixed(8, span.ended_ns);
        for (name, value) in &span.attributes {
            self.attribute(9, name, value);
        }
        if let Some(message) = &span.error {
            self.nested(15, |status| {
                status.bytes(2, message.as_bytes());
                status.number(3, STATUS_ERROR);
            });
        }
    }
}

/// `ExportTraceServiceRequest` with these spans.
pub(crate) fn encode_request(resource: &[(String, String)], spans: &[Span]) -> Vec<u8> {
    let mut request = Writer::default();
    request.nested(1, |resource_spans| {
        resource_spans.nested(1, |out| {
            for (name, value) in resource {
                out.attribute(1, name, &SpanValue::Text(value.clone()));
            }
        });
        resource_spans.nested(2, |scope_spans| {
            scope_spans.nested(1, |scope| {
                scope.bytes(1, b"holdfast");
                scope.bytes(2, env!("CARGO_PKG_VERSION").as_bytes());
            });
            for span in spans {
                scope_spans.nested(2, |out| out.span(span));
            }
        });
    });
    request.0
}

/// What a collector says about a request that it has accepted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Acceptance {
    /// Spans that it rejected.
    pub(crate) rejected: u64,
    /// Why.
    pub(crate) reason: String,
}

/// Reads an `ExportTraceServiceResponse`. `None`: it is not one.
pub(crate) fn parse_response(mut message: &[u8]) -> Option<Acceptance> {
    let mut acceptance = Acceptance::default();
    while let Some((field, value)) = next_field(&mut message)? {
        let (1, Field::Bytes(mut partial)) = (field, value) else { continue };
        while let Some((field, value)) = next_field(&mut partial)? {
            match (field, value) {
                // Negative numbers mean nothing.
                (1, Field::Number(rejected)) => acceptance.rejected = u64::try_from(rejected as i64).unwrap_or(0),
                (2, Field::Bytes(reason)) => acceptance.reason = String::from_utf8_lossy(reason).into_owned(),
                _ => {}
            }
        }
    }
    Some(acceptance)
}

enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    Other,
}

/// The next field; `Some(None)` at the end, `None` if the message is broken.
#[allow(clippy::option_option)] // the outer one is for `?`
fn next_field<'a>(message: &mut &'a [u8]) -> Option<Option<(u64, Field<'a>)>> {
    if message.is_empty() {
        return Some(None);
    }
    let key = read_varint(message)?;
    let mut take = |count: usize| {
        let (taken, rest) = message.split_at_checked(count)?;
        *message = rest;
        Some(taken)
    };
    let value = match key as u32 & 7 {
        VARINT => Field::Number(read_varint(message)?),
        FIXED64 => take(8).map(|_| Field::Other)?,
        FIXED32 => take(4).map(|_| Field::Other)?,
        BYTES => {
            let length = usize::try_from(read_varint(message)?).ok()?;
            let (taken, rest) = message.split_at_checked(length)?;
            *message = rest;
            Field::Bytes(taken)
        }
        _ => return None,
    };
    Some(Some((key >> 3, value)))
}

fn read_varint(message: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = message.split_first()?;
        *message = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_varints() {
        for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
            let mut out = Writer::default();
            out.varint(value);
            let mut read = &out.0[..];
            assert_eq!((read_varint(&mut read), read.len()), (Some(value), 0));
        }
        assert_eq!(read_varint(&mut &[0x80; 11][..]), None);
    }

    #[test]
    fn a_response_says_what_was_rejected() {
        let partial = |write: fn(&mut Writer)| {
            let mut out = Writer::default();
            out.number(9, 7);
            out.fixed(8, 7);
            out.nested(1, write);
            parse_response(&out.0)
        };
        let rejected = partial(|out| {
            out.number(1, 3);
            out.bytes(2, b"old");
            out.bytes(7, b"unknown");
        });
        assert_eq!(rejected, Some(Acceptance { rejected: 3, reason: "old".to_owned() }));
        assert_eq!(partial(|out| out.number(1, u64::MAX)), Some(Acceptance::default()), "-1");
        assert_eq!(parse_response(b""), Some(Acceptance::default()));
        for broken in [&b"\x0a\x05abc"[..], b"\x0a", b"\x0b", b"\x09\0", b"<html>"] {
            assert_eq!(parse_response(broken), None, "{broken:?}");
        }
    }
}
