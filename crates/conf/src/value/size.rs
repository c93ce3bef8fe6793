//! Sizes in bytes: `512`, `8k`, `1m`, and `2g` for sizes of files.

use super::{Parsed, directive_invalid};
use crate::tree::Word;

/// A size of memory in bytes; `k` and `m` are 1024 and 1024².
pub fn parse_size(name: &str, word: &Word) -> Parsed<u64> {
    bytes(&word.value, false).ok_or_else(|| {
        directive_invalid(name, word, "value").with_hint("a size is bytes, or has `k` or `m` behind: `512`, `8k`, `1m`")
    })
}

/// A size of a file or of traffic in bytes; `g` is allowed too.
pub fn parse_offset(name: &str, word: &Word) -> Parsed<u64> {
    bytes(&word.value, true).ok_or_else(|| {
        directive_invalid(name, word, "value")
            .with_hint("a size is bytes, or has `k`, `m` or `g` behind: `512`, `8k`, `1m`, `2g`")
    })
}

/// A size of memory in bytes, in a text that is known only at run time; `None` for anything else.
pub fn parse_size_text(text: &[u8]) -> Option<u64> {
    bytes(text, false)
}

/// The bytes, or `None` where nginx says "invalid".
pub(crate) fn bytes(text: &[u8], giga: bool) -> Option<u64> {
    let (last, head) = text.split_last()?;
    let (digits, scale) = match last {
        b'k' | b'K' => (head, 1 << 10),
        b'm' | b'M' => (head, 1 << 20),
        b'g' | b'G' if giga => (head, 1 << 30),
        _ => (text, 1),
    };
    let value = number(digits)?.checked_mul(scale)?;
    i64::try_from(value).is_ok().then_some(value)
}

/// Decimal digits and nothing else.
pub(crate) fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |value, byte| match byte {
        b'0'..=b'9' => value.checked_mul(10)?.checked_add(u64::from(byte - b'0')),
        _ => None,
    })
}

/// `number size`: how many buffers, and the bytes of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Buffers {
    /// How many at most.
    pub count: u32,
    /// Bytes of each.
    pub size: u64,
}

impl Buffers {
    /// Bytes of all together.
    pub fn total(self) -> u64 {
        u64::from(self.count).saturating_mul(self.size)
    }

    pub(crate) fn parse(name: &str, count: &Word, size: &Word) -> Parsed<Self> {
        let parsed = number(&count.value).and_then(|count| u32::try_from(count).ok()).filter(|&count| count > 0);
        let parsed_count = parsed.ok_or_else(|| {
            directive_invalid(name, count, "value").with_hint("a number of buffers, then the size of each: `4 32k`")
        })?;
        let parsed_size = bytes(&size.value, false).filter(|&size| size > 0);
        let size = parsed_size.ok_or_else(|| {
            directive_invalid(name, size, "value").with_hint("a number of buffers, then the size of each: `4 32k`")
        })?;
        Ok(Self { count: parsed_count, size })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::bytes;

    #[test]
    fn letters_scale_by_1024() {
        assert_eq!(bytes(b"4k", false), Some(4096));
        assert_eq!(bytes(b"1M", false), Some(1 << 20));
        assert_eq!(bytes(b"2g", true), Some(2 << 30));
        assert_eq!(bytes(b"0", false), Some(0));
    }

    #[test]
    fn refuses_invalid_sizes() {
        for text in ["", "k", "4kb", "-1", "1 k", "0x10", "99999999999999999999", "9223372036854775807k", "2g"] {
            assert_eq!(bytes(text.as_bytes(), false), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken_or_refused_without_panic(text in proptest::collection::vec(any::<u8>(), 0..24), giga: bool) {
            let _ = bytes(&text, giga);
        }
    }
}
