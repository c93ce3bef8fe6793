//! Keys: a hash of the key's text, which names the file. As in nginx it is MD5, so that tools which know nginx's names
//! find the files. Two texts with the same hash are not confused: the file contains the whole text.

use md5::{Digest as _, Md5};

/// Bytes of a key.
const KEY_BYTES: usize = 16;

/// Hexadecimal digits of a key.
pub(crate) const HEX_DIGITS: usize = 2 * KEY_BYTES;

/// The hash of a key's text.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(pub [u8; KEY_BYTES]);

impl Key {
    /// The hash of a text.
    pub fn of(text: &[u8]) -> Self {
        Self(Md5::digest(text).into())
    }

    /// The name of its file.
    pub fn hex(self) -> [u8; HEX_DIGITS] {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut hex = [0; HEX_DIGITS];
        for (pair, byte) in hex.chunks_exact_mut(2).zip(self.0) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        hex
    }

    /// The key for a file name; `None` for any other name.
    pub fn from_hex(name: &[u8]) -> Option<Self> {
        let name: &[u8; HEX_DIGITS] = name.try_into().ok()?;
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let mut key = [0; KEY_BYTES];
        for (byte, pair) in key.iter_mut().zip(name.chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(Self(key))
    }

    /// It as words of memory.
    pub fn words(self) -> [u32; 4] {
        let (words, _) = self.0.as_chunks();
        std::array::from_fn(|at| u32::from_le_bytes(words[at]))
    }

    /// From [`Self::words`].
    pub fn of_words(words: [u32; 4]) -> Self {
        let mut key = [0; KEY_BYTES];
        key.chunks_exact_mut(4).zip(words).for_each(|(bytes, word)| bytes.copy_from_slice(&word.to_le_bytes()));
        Self(key)
    }

    /// The part by which all variants of a response are found.
    pub fn tag(self) -> u64 {
        let mut tag = [0; 8];
        tag.copy_from_slice(&self.0[..8]);
        u64::from_le_bytes(tag)
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&String::from_utf8_lossy(&self.hex()))
    }
}

/// `levels=`: the digits of each level of directories below a cache's own, 1 or 2; 0 if there is no such level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Levels(pub [u8; 3]);

impl Levels {
    /// Appends the path of a key's file below its cache: `/c/29/b7f54b2df7773722d382f4809d65029c`. The levels are the
    /// last digits of the name.
    pub fn write_path(self, key: Key, out: &mut Vec<u8>) {
        let hex = key.hex();
        let mut end = hex.len();
        for digits in self.0.into_iter().filter(|digits| *digits > 0) {
            let start = end.saturating_sub(usize::from(digits));
            out.push(b'/');
            out.extend_from_slice(&hex[start..end]);
            end = start;
        }
        out.push(b'/');
        out.extend_from_slice(&hex);
    }

    /// Number of levels.
    pub fn depth(self) -> usize {
        self.0.into_iter().filter(|digits| *digits > 0).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_nginx_names() {
        let key = Key::of(b"http://127.0.0.1/x");
        assert_eq!(Key::from_hex(&key.hex()), Some(key));
        let key = Key::from_hex(b"b7f54b2df7773722d382f4809d65029c").expect("hexadecimal");
        let path = |levels| {
            let mut path = b"/cache".to_vec();
            Levels(levels).write_path(key, &mut path);
            String::from_utf8(path).expect("ASCII")
        };
        assert_eq!(path([1, 2, 0]), "/cache/c/29/b7f54b2df7773722d382f4809d65029c");
        assert_eq!(path([2, 2, 1]), "/cache/9c/02/5/b7f54b2df7773722d382f4809d65029c");
        assert_eq!(path([0, 0, 0]), "/cache/b7f54b2df7773722d382f4809d65029c");
    }

    #[test]
    fn only_whole_lower_case_names_are_keys() {
        for name in
            [&b"b7f5"[..], b"B7F54B2DF7773722D382F4809D65029C", b"b7f54b2df7773722d382f4809d65029c.0000000001", b""]
        {
            assert_eq!(Key::from_hex(name), None, "{}", name.escape_ascii());
        }
    }
}
