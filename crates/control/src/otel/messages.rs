//! The two messages of OTLP that a trace needs, in the wire format of Protocol Buffers: the request is written, of the
//! response the rejected spans are read. The field numbers are those of `opentelemetry-proto` 1; tests compare with the official
//! definitions.

use gateway::spans::{Span, SpanKind, SpanValue};
use report::protobuf::{BYTES, FIXED32, FIXED64, VARINT, Writer};

/// `Status.code` of a failed span.
const STATUS_ERROR: u64 = 2;

/// `KeyValue`
fn attribute(out: &mut Writer, field: u32, name: &str, value: &SpanValue) {
    out.nested(field, |pair| {
        pair.bytes(1, name.as_bytes());
        pair.nested(2, |any| any_value(any, value));
    });
}

/// `AnyValue`
fn any_value(out: &mut Writer, value: &SpanValue) {
    match value {
        SpanValue::Text(text) => out.message(1, text.as_bytes()),
        SpanValue::Flag(flag) => out.put_number(2, u64::from(*flag)),
        SpanValue::Number(number) => out.put_number(3, *number as u64),
        SpanValue::Texts(text) => {
            out.nested(5, |list| list.nested(1, |any| any.message(1, text.as_bytes())));
        }
    }
}

fn put_span(out: &mut Writer, span: &Span) {
    out.bytes(1, &span.trace_id);
    out.bytes(2, &span.id);
    out.bytes(3, span.state.as_bytes());
    out.bytes(4, span.parent.as_ref().map_or(&[], |id| &id[..]));
    out.bytes(5, span.name.as_bytes());
    out.number(
        6,
        match span.kind {
            SpanKind::Server => 2,
            SpanKind::Client => 3,
        },
    );
    out.fixed(7, span.began_ns);
    out.fixed(8, span.ended_ns);
    for (name, value) in &span.attributes {
        attribute(out, 9, name, value);
    }
    if let Some(message) = &span.error {
        out.nested(15, |status| {
            status.bytes(2, message.as_bytes());
            status.number(3, STATUS_ERROR);
        });
    }
}

/// `ExportTraceServiceRequest` with these spans.
pub(crate) fn encode_request(resource: &[(String, String)], spans: &[Span]) -> Vec<u8> {
    let mut request = Writer::default();
    request.nested(1, |resource_spans| {
        resource_spans.nested(1, |out| {
            for (name, value) in resource {
                attribute(out, 1, name, &SpanValue::Text(value.clone()));
            }
        });
        resource_spans.nested(2, |scope_spans| {
            scope_spans.nested(1, |scope| {
                scope.bytes(1, b"holdfast");
                scope.bytes(2, env!("CARGO_PKG_VERSION").as_bytes());
            });
            for span in spans {
                scope_spans.nested(2, |out| put_span(out, span));
            }
        });
    });
    request.into_bytes()
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
            let mut read = out.as_bytes();
            assert_eq!((read_varint(&mut read), read.len()), (Some(value), 0));
        }
        assert_eq!(read_varint(&mut &[0x80; 11][..]), None);
    }

    #[test]
    fn response_reports_rejected_spans() {
        let partial = |write: fn(&mut Writer)| {
            let mut out = Writer::default();
            out.number(9, 7);
            out.fixed(8, 7);
            out.nested(1, write);
            parse_response(out.as_bytes())
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
