//! Which bytes a decoded name or value may have (RFC 9113 §8.2.1). HPACK carries any bytes; HTTP/1 on the other side of
//! a gateway would read some of them as the end of a field. The decoder calls it once for each literal.

use thiserror::Error;

/// The fault of a single field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
pub enum FieldFault {
    /// The name is empty.
    #[error("a field name is empty")]
    EmptyName,
    /// An upper-case letter in the name.
    #[error("a field name has an upper-case letter")]
    UpperCase,
    /// A non-token byte in the name.
    #[error("a byte in a field name is not a token character")]
    NameByte,
    /// NUL, CR or LF, or another control character, in the value.
    #[error("a control character in a field value")]
    ValueByte,
    /// A space or tab before or after the value.
    #[error("a field value begins or ends with white space")]
    ValueSpace,
    /// An undefined pseudo-header field.
    #[error("an unknown pseudo-header field")]
    UnknownPseudo,
}

/// The lower-case token characters (RFC 9110 §5.6.2).
static NAME_BYTES: [bool; 256] = name_bytes();

const fn name_bytes() -> [bool; 256] {
    let mut table = [false; 256];
    let marks = b"!#$%&'*+-.^_`|~";
    let mut at = 0;
    while at < marks.len() {
        table[marks[at] as usize] = true;
        at += 1;
    }
    let mut byte = 0;
    while byte < 128u8 {
        if byte.is_ascii_lowercase() || byte.is_ascii_digit() {
            table[byte as usize] = true;
        }
        byte += 1;
    }
    table
}

/// Checks the name of a regular field.
pub(crate) fn name(name: &[u8]) -> Result<(), FieldFault> {
    if name.is_empty() {
        return Err(FieldFault::EmptyName);
    }
    match name.iter().find(|&&byte| !NAME_BYTES[usize::from(byte)]) {
        None => Ok(()),
        Some(byte) if byte.is_ascii_uppercase() => Err(FieldFault::UpperCase),
        Some(_) => Err(FieldFault::NameByte),
    }
}

/// Checks the value of any field. All control characters but the tab are refused, as the gateway does for HTTP/1.
pub(crate) fn value(value: &[u8]) -> Result<(), FieldFault> {
    if let [b' ' | b'\t', ..] | [.., b' ' | b'\t'] = value {
        return Err(FieldFault::ValueSpace);
    }
    // Bits instead of branches, so that the compiler can check many bytes at once.
    let faults =
        value.iter().fold(0, |faults, &byte| faults | u8::from(byte < 0x20 && byte != b'\t') | u8::from(byte == 0x7F));
    if faults > 0 { Err(FieldFault::ValueByte) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_tokens_in_lower_case() {
        assert_eq!(name(b"x-y_z~1"), Ok(()));
        assert_eq!(name(b""), Err(FieldFault::EmptyName));
        assert_eq!(name(b"Host"), Err(FieldFault::UpperCase));
        for byte in (0..=b' ').chain([b':', b'(', b'"', b'/', b'@', b'{', 0x7F, 0x80, 0xFF]) {
            assert_eq!(name(&[b'a', byte]), Err(FieldFault::NameByte), "{byte}");
        }
    }

    #[test]
    fn values_have_no_control_characters_and_no_outer_spaces() {
        assert_eq!(value(b""), Ok(()));
        assert_eq!(value(b"a\tb \xE4\xFF"), Ok(()));
        for byte in (0..b' ').filter(|&byte| byte != b'\t').chain([0x7F]) {
            assert_eq!(value(&[b'a', byte, b'b']), Err(FieldFault::ValueByte), "{byte}");
        }
        for text in [&b" a"[..], b"a ", b"\ta", b"a\t", b" "] {
            assert_eq!(value(text), Err(FieldFault::ValueSpace));
        }
    }
}
