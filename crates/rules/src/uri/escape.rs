//! Percent escapes on the way out: which bytes are escaped depends on where the text goes. The sets are nginx's
//! (`ngx_escape_uri`), so that a URI leaves here as it leaves nginx. Used for upstream URIs, redirects and rewritten arguments.

/// Where the escaped text goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Escape {
    /// A path: everything RFC 3986 forbids, and `#`, `%`, `?`.
    Uri,
    /// Arguments: as a path, and `&`, `+`, `;`.
    Args,
    /// One component: everything but letters, digits and `-._~`.
    UriComponent,
    /// A URI inside HTML text: as a path without `?`, and `'`.
    Html,
    /// A URI in a Refresh field or tag: forbidden bytes without `#`, `%` and `?`, and `'`.
    Refresh,
}

/// One bit for each byte that is escaped.
type ByteSet = [bool; 256];

/// Bytes that RFC 3986 allows nowhere: controls, DEL, 0x80 and up, and `forbidden` ASCII.
const fn byte_set(escaped: &[u8]) -> ByteSet {
    let mut set = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        set[byte] = byte <= 0x20 || byte >= 0x7f;
        byte += 1;
    }
    let mut at = 0;
    while at < escaped.len() {
        set[escaped[at] as usize] = true;
        at += 1;
    }
    set
}

const fn component_set() -> ByteSet {
    let mut set = [true; 256];
    let mut byte = 0;
    while byte < 256 {
        let character = byte as u8;
        set[byte] = !(character.is_ascii_alphanumeric() || matches!(character, b'-' | b'.' | b'_' | b'~'));
        byte += 1;
    }
    set
}

const URI: ByteSet = byte_set(b"\"#%<>?\\^`{|}");
const ARGS: ByteSet = byte_set(b"\"#%<>?\\^`{|}&+;");
const URI_COMPONENT: ByteSet = component_set();
const HTML: ByteSet = byte_set(b"\"#%<>\\^`{|}'");
const REFRESH: ByteSet = byte_set(b"\"<>\\^`{|}'");

const DIGITS: &[u8; 16] = b"0123456789ABCDEF";

/// Appends `text` to `out` with what `mode` escapes as `%XX`.
pub fn escape(text: &[u8], mode: Escape, out: &mut Vec<u8>) {
    let set = match mode {
        Escape::Uri => &URI,
        Escape::Args => &ARGS,
        Escape::UriComponent => &URI_COMPONENT,
        Escape::Html => &HTML,
        Escape::Refresh => &REFRESH,
    };
    let mut rest = text;
    // Whole runs are copied: most texts have nothing to escape.
    while let Some(at) = rest.iter().position(|&byte| set[usize::from(byte)]) {
        let byte = rest[at];
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(&[b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn escaped(text: &str, mode: Escape) -> String {
        let mut out = Vec::new();
        escape(text.as_bytes(), mode, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn each_place_has_its_set() {
        let text = " \"#%&'+;<>?\\^`{|}~/=:@[]\u{7f}\u{e9}";
        let tail = "%5C%5E%60%7B%7C%7D~/=:@[]%7F%C3%A9";
        assert_eq!(escaped(text, Escape::Uri), format!("%20%22%23%25&'+;%3C%3E%3F{tail}"));
        assert_eq!(escaped(text, Escape::Args), format!("%20%22%23%25%26'%2B%3B%3C%3E%3F{tail}"));
        assert_eq!(escaped(text, Escape::Html), format!("%20%22%23%25&%27+;%3C%3E?{tail}"));
        assert_eq!(escaped(text, Escape::Refresh), format!("%20%22#%&%27+;%3C%3E?{tail}"));
        assert_eq!(escaped("aZ9-._~/ :", Escape::UriComponent), "aZ9-._~%2F%20%3A");
    }
}
