//! The trailer section of a body as a value: the chunked decoder and HTTP/2 fill it, and the side that sends the body on encodes it.
//! [`crate::hop::is_forbidden_in_trailers`] decides which fields may be in it.

use crate::field::{Field, FieldId};
use crate::span::Span;

/// Trailer fields in the order of arrival. Empty ones own no memory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Trailers {
    /// The text that the fields point into, as lines of HTTP/1.
    pub(crate) bytes: Vec<u8>,
    pub(crate) fields: Vec<Field>,
}

impl Trailers {
    /// Adds a field. Its bytes must come from a parsed message, or be valid in one.
    pub fn push(&mut self, id: FieldId, name: &[u8], value: &[u8]) {
        self.fields.push(Field::write(id, name, value, &mut self.bytes));
    }

    /// Notes the field of the line `name: value CRLF` at `start`.
    pub(crate) fn keep_line(&mut self, id: FieldId, start: usize, name_len: usize, value_len: usize) {
        let name = Span::new(start, start + name_len);
        let value_start = name.end() + b": ".len();
        self.fields.push(Field { name, value: Span::new(value_start, value_start + value_len), id, hop: false });
    }

    /// Id, name and value of each field.
    pub fn iter(&self) -> impl Iterator<Item = (FieldId, &[u8], &[u8])> {
        self.fields.iter().map(|field| (field.id, field.name.of(&self.bytes), field.value.of(&self.bytes)))
    }

    /// Whether there is no field.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Removes all fields, and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.fields.clear();
    }

    /// Bytes of memory behind it.
    pub fn held_bytes(&self) -> usize {
        self.bytes.capacity() + self.fields.capacity() * size_of::<Field>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_keep_their_order_and_bytes() {
        let mut trailers = Trailers::default();
        assert!(trailers.is_empty() && trailers.held_bytes() == 0);
        trailers.push(FieldId::GrpcStatus, b"grpc-status", b"0");
        trailers.push(FieldId::Other, b"x-sum", b"");
        let all: Vec<_> = trailers.iter().collect();
        let expected: [(FieldId, &[u8], &[u8]); 2] =
            [(FieldId::GrpcStatus, b"grpc-status", b"0"), (FieldId::Other, b"x-sum", b"")];
        assert_eq!(all, expected);
        trailers.clear();
        assert!(trailers.is_empty());
    }
}
