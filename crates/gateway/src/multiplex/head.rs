//! Converts trailers between lines, as the gateway keeps them, and the engine's fields.

use crate::multiplex::stream::TrailerField;
use http1::hop::is_forbidden_in_trailers;
use http2::Head;

/// Trailers as lines, without fields that could change decisions made from the head.
pub(crate) fn trailer_lines(head: &Head) -> Vec<u8> {
    let mut lines = Vec::new();
    for field in head.fields.iter().filter(|field| !is_forbidden_in_trailers(field.id)) {
        for part in [field.name.of(&head.bytes), b": ", field.value.of(&head.bytes), b"\r\n"] {
            lines.extend_from_slice(part);
        }
    }
    lines
}

/// The fields of such lines.
pub(crate) fn trailer_fields(lines: &[u8]) -> Vec<TrailerField> {
    let fields = lines.split(|&byte| byte == b'\n').filter_map(|line| {
        let line = line.trim_ascii();
        let colon = line.iter().position(|&byte| byte == b':')?;
        Some((line[..colon].into(), line[colon + 1..].trim_ascii().into()))
    });
    fields.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_fields() {
        let fields = trailer_fields(b"grpc-status: 0\r\nx:\r\nno field\r\n\r\n");
        let fields: Vec<(&[u8], &[u8])> = fields.iter().map(|(name, value)| (&**name, &**value)).collect();
        assert_eq!(fields, [(&b"grpc-status"[..], &b"0"[..]), (b"x", b"")]);
    }
}
