//! The phases of one request as a line of text: for a response's field and for `$request_trace`. Pure; the gateway has the
//! values.

use std::fmt::Write as _;
use subtle::ConstantTimeEq as _;

/// Longest line: a usual one has 200 bytes, and heads of responses are limited to some kilobytes by other programs.
pub const LINE_BYTES_MAX: usize = 1024;

/// Whether a request may see its phases. The time does not tell where the values differ.
pub fn is_secret(given: &[u8], secret: &[u8]) -> bool {
    given.ct_eq(secret).into()
}

/// A line in the making: `name=value` items with a semicolon between them.
#[derive(Debug, Default)]
pub struct TraceLine {
    text: String,
    is_cut: bool,
}

impl TraceLine {
    /// Adds an item, unless the line would become too long; then it ends with `more`.
    pub fn item(&mut self, name: &str, value: impl std::fmt::Display) {
        let item = format!("{}{name}={value}", if self.text.is_empty() { "" } else { "; " });
        self.is_cut |= self.text.len() + item.len() + MORE.len() > LINE_BYTES_MAX;
        if !self.is_cut {
            self.text.push_str(&item);
        }
    }

    /// The line.
    pub fn finish(mut self) -> String {
        if self.is_cut {
            self.text.push_str(MORE);
        }
        self.text
    }
}

/// The end of a line that was cut.
const MORE: &str = "; more";

/// Bytes of a request or of the configuration, as one word of visible characters.
pub fn word(bytes: &[u8]) -> String {
    let mut word = String::with_capacity(bytes.len());
    for &byte in bytes.iter().take(WORD_BYTES_MAX) {
        if byte.is_ascii_graphic() && !b";%\"".contains(&byte) {
            word.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(word, "%{byte:02X}");
        }
    }
    if word.is_empty() { "-".to_owned() } else { word }
}

/// Longest name of a location or a group that is shown.
const WORD_BYTES_MAX: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_items_and_is_bounded() {
        let mut line = TraceLine::default();
        line.item("location", word(b"/a;b c"));
        line.item("total", 3);
        assert_eq!(line.finish(), "location=/a%3Bb%20c; total=3");
        let mut line = TraceLine::default();
        for number in 0..2000 {
            line.item("n", number);
        }
        line.item("x", 1);
        let text = line.finish();
        assert!(text.len() <= LINE_BYTES_MAX && text.ends_with("; more") && !text.contains("x="), "{text}");
    }

    #[test]
    fn words_have_visible_characters_only() {
        assert_eq!(word(b""), "-");
        assert_eq!(word(b"a\r\n\xff"), "a%0D%0A%FF");
        assert_eq!(word(&[b'x'; 500]).len(), WORD_BYTES_MAX);
    }

    #[test]
    fn only_the_whole_secret_opens() {
        assert!(is_secret(b"0123456789abcdef", b"0123456789abcdef"));
        for given in [&b""[..], b"0123456789abcde", b"0123456789abcdeF", b"0123456789abcdef0"] {
            assert!(!is_secret(given, b"0123456789abcdef"));
        }
    }
}
