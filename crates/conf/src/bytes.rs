//! The bytes of one word. A configuration of 100,000 lines has about 300,000 words, nearly all of them shorter than 23
//! bytes, so those are kept inline: no allocation of their own. Behaves as `&[u8]` everywhere. Made by the lexer.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

/// Longest text that is kept inline: it makes [`ShortBytes`] exactly as large as a `Vec` (24 bytes).
const INLINE_MAX: usize = 22;

/// An immutable byte string, inline when it is at most 22 bytes long.
#[derive(Clone)]
pub struct ShortBytes(Repr);

#[derive(Clone)]
enum Repr {
    Inline { len: u8, bytes: [u8; INLINE_MAX] },
    Heap(Box<[u8]>),
}

impl ShortBytes {
    /// The bytes; the same as dereferencing.
    pub fn as_slice(&self) -> &[u8] {
        match &self.0 {
            Repr::Inline { len, bytes } => &bytes[..usize::from(*len)],
            Repr::Heap(bytes) => bytes,
        }
    }
}

impl Deref for ShortBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl AsRef<[u8]> for ShortBytes {
    fn as_ref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl Default for ShortBytes {
    fn default() -> Self {
        Self::from(&[][..])
    }
}

impl From<&[u8]> for ShortBytes {
    fn from(from: &[u8]) -> Self {
        if from.len() > INLINE_MAX {
            return Self(Repr::Heap(from.into()));
        }
        let mut bytes = [0; INLINE_MAX];
        bytes[..from.len()].copy_from_slice(from);
        Self(Repr::Inline { len: from.len() as u8, bytes })
    }
}

impl<const N: usize> From<&[u8; N]> for ShortBytes {
    fn from(from: &[u8; N]) -> Self {
        Self::from(&from[..])
    }
}

impl From<Vec<u8>> for ShortBytes {
    fn from(from: Vec<u8>) -> Self {
        if from.len() > INLINE_MAX { Self(Repr::Heap(from.into())) } else { Self::from(&from[..]) }
    }
}

impl From<&str> for ShortBytes {
    fn from(from: &str) -> Self {
        Self::from(from.as_bytes())
    }
}

impl PartialEq for ShortBytes {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for ShortBytes {}

impl Hash for ShortBytes {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_slice().hash(state);
    }
}

impl PartialEq<[u8]> for ShortBytes {
    fn eq(&self, other: &[u8]) -> bool {
        self.as_slice() == other
    }
}

impl PartialEq<&[u8]> for ShortBytes {
    fn eq(&self, other: &&[u8]) -> bool {
        self.as_slice() == *other
    }
}

impl<const N: usize> PartialEq<[u8; N]> for ShortBytes {
    fn eq(&self, other: &[u8; N]) -> bool {
        self.as_slice() == other
    }
}

impl<const N: usize> PartialEq<&[u8; N]> for ShortBytes {
    fn eq(&self, other: &&[u8; N]) -> bool {
        self.as_slice() == *other
    }
}

impl PartialEq<Vec<u8>> for ShortBytes {
    fn eq(&self, other: &Vec<u8>) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl fmt::Debug for ShortBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b\"{}\"", self.as_slice().escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_long_texts_come_back_as_they_went_in() {
        for len in [0, 1, INLINE_MAX - 1, INLINE_MAX, INLINE_MAX + 1, 5_000] {
            let text: Vec<u8> = (0..len).map(|index| index as u8).collect();
            assert_eq!(ShortBytes::from(&text[..]), text);
            assert_eq!(ShortBytes::from(text.clone()), text);
        }
    }

    #[test]
    fn it_is_no_larger_than_a_vec() {
        assert_eq!(size_of::<ShortBytes>(), size_of::<Vec<u8>>());
    }
}
