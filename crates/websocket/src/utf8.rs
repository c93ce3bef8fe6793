//! UTF-8 in pieces: a text message is refused at its first byte that no valid text has, not when it is complete, and a
//! character may be divided between frames (RFC 6455 §8.1). `decode` calls it.

/// Longest encoded character.
const CHARACTER_BYTES_MAX: usize = 4;

/// Checks a text that comes in pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Utf8 {
    /// The first bytes of a character that is still incomplete.
    begun: [u8; CHARACTER_BYTES_MAX],
    len: u8,
}

impl Utf8 {
    /// Takes the next piece; `false` if no continuation makes the text valid.
    #[must_use]
    pub fn take(&mut self, mut bytes: &[u8]) -> bool {
        while self.len > 0 {
            let Some((first, rest)) = bytes.split_first() else { return true };
            bytes = rest;
            let Some(place) = self.begun.get_mut(usize::from(self.len)) else { return false };
            *place = *first;
            self.len += 1;
            let character = self.begun.get(..usize::from(self.len)).unwrap_or_default();
            match std::str::from_utf8(character) {
                Ok(_) => self.len = 0,
                Err(error) if error.error_len().is_some() => return false,
                Err(_) => {}
            }
        }
        let Err(error) = std::str::from_utf8(bytes) else { return true };
        let rest = bytes.get(error.valid_up_to()..).unwrap_or_default();
        if error.error_len().is_some() || rest.len() >= CHARACTER_BYTES_MAX {
            return false;
        }
        for (place, byte) in self.begun.iter_mut().zip(rest) {
            *place = *byte;
        }
        self.len = rest.len() as u8;
        true
    }

    /// Whether the text may end here: not inside of a character.
    pub fn is_complete(&self) -> bool {
        self.len == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn is_valid<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> bool {
        let mut utf8 = Utf8::default();
        pieces.into_iter().all(|piece| utf8.take(piece)) && utf8.is_complete()
    }

    #[test]
    fn impossible_text_is_refused_at_once() {
        // A surrogate, an overlong form, beyond U+10FFFF, a byte that never occurs: none can be repaired by what follows.
        for (bytes, at) in [(&b"\xed\xa0"[..], 2), (b"\xc0", 1), (b"\xe0\x80", 2), (b"\xf4\x90", 2), (b"\xff", 1)] {
            let mut utf8 = Utf8::default();
            let refused = bytes.iter().position(|byte| !utf8.take(&[*byte]));
            assert_eq!(refused, Some(at - 1), "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn incremental_check_matches_the_standard_library(
            bytes in prop_oneof![any::<Vec<u8>>(), any::<String>().prop_map(String::into_bytes)],
            piece in 1usize..5,
        ) {
            prop_assert_eq!(is_valid(bytes.chunks(piece)), std::str::from_utf8(&bytes).is_ok());
        }
    }
}
