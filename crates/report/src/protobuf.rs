//! The wire format of Protocol Buffers, as far as messages of a known shape are written with it: field by field, in the order
//! of the calls.
//!
//! ```
//! let mut out = report::protobuf::Writer::default();
//! out.bytes(1, b"name");
//! out.nested(2, |inner| inner.number(3, 300));
//! assert_eq!(out.as_bytes(), b"\x0a\x04name\x12\x03\x18\xac\x02");
//! ```

/// Wire type of numbers.
pub const VARINT: u32 = 0;
/// Wire type of eight bytes.
pub const FIXED64: u32 = 1;
/// Wire type of texts and messages.
pub const BYTES: u32 = 2;
/// Wire type of four bytes.
pub const FIXED32: u32 = 5;

/// Writes fields. As the format says, a field with its default is left out, except where a method says otherwise.
#[derive(Debug, Default)]
pub struct Writer(Vec<u8>);

impl Writer {
    /// The message so far.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The whole message.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// A number without a key.
    pub fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    /// The key of a field, which its value follows.
    pub fn key(&mut self, field: u32, wire: u32) {
        self.varint(u64::from(field << 3 | wire));
    }

    /// A number.
    pub fn number(&mut self, field: u32, value: u64) {
        if value != 0 {
            self.put_number(field, value);
        }
    }

    /// A number, also if it is 0.
    pub fn put_number(&mut self, field: u32, value: u64) {
        self.key(field, VARINT);
        self.varint(value);
    }

    /// A `sint32` or `sint64`, also if it is 0: small negative numbers are short.
    pub fn put_signed(&mut self, field: u32, value: i64) {
        self.put_number(field, ((value << 1) ^ (value >> 63)) as u64);
    }

    /// Eight bytes, also if they are 0.
    pub fn fixed(&mut self, field: u32, value: u64) {
        self.key(field, FIXED64);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// A `double`, also if it is 0.
    pub fn double(&mut self, field: u32, value: f64) {
        self.fixed(field, value.to_bits());
    }

    /// A text or bytes.
    pub fn bytes(&mut self, field: u32, value: &[u8]) {
        if !value.is_empty() {
            self.message(field, value);
        }
    }

    /// A message, or a value of `oneof`: it is there even if it is empty.
    pub fn message(&mut self, field: u32, value: &[u8]) {
        self.key(field, BYTES);
        self.prefixed(value);
    }

    /// A message in a field.
    pub fn nested(&mut self, field: u32, write: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        write(&mut inner);
        self.message(field, &inner.0);
    }

    /// Bytes behind their length, without a key.
    pub fn prefixed(&mut self, value: &[u8]) {
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Writer)) -> Vec<u8> {
        let mut out = Writer::default();
        write(&mut out);
        out.into_bytes()
    }

    #[test]
    fn signed_numbers_are_in_zigzag() {
        let of = |value| written(|out| out.put_signed(1, value));
        assert_eq!([of(0), of(-1), of(1), of(-2)], [[8, 0], [8, 1], [8, 2], [8, 3]]);
        assert_eq!(of(i64::MIN).len(), 11);
    }

    #[test]
    fn defaults_are_left_out_where_they_may_be() {
        assert_eq!(written(|out| out.number(1, 0)), b"");
        assert_eq!(written(|out| out.bytes(1, b"")), b"");
        assert_eq!(written(|out| out.put_number(1, 0)), b"\x08\0");
        assert_eq!(written(|out| out.message(1, b"")), b"\x0a\0");
        assert_eq!(written(|out| out.double(1, 0.0)), b"\x09\0\0\0\0\0\0\0\0");
    }
}
