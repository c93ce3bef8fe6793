//! Decoding and normalising a path: percent escapes are decoded once, `.` and `..` resolved, double slashes merged where
//! asked. The result is nginx's `$uri`, step for step, including that `%2F` and `%2E` count as `/` and `.` while `%3F`,
//! `%23` and `%25` mean themselves. Stricter than nginx: a `#` and bytes that no URI may hold are refused
//! (catalogue R32 to R35).

use std::ops::Range;

/// Why a target was refused; the answer is 400.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UriError {
    /// Neither a path, nor `http://…`, nor `*`.
    Form,
    /// A space or a control character.
    Byte,
    /// A `#`: fragments are not sent (RFC 9110 section 4.2.5), and parsers disagree on what follows.
    Fragment,
    /// A `%` without two hexadecimal digits.
    Escape,
    /// `%00`.
    Nul,
    /// More `..` than directories.
    AboveRoot,
    /// Longer than 4 GiB, which spans cannot tell.
    TooLong,
}

impl UriError {
    /// What to log behind `client sent invalid request`.
    pub fn explain(self) -> &'static str {
        match self {
            Self::Form => "the request target is neither a path nor an http URI",
            Self::Byte => "the request target has a byte that no URI may hold",
            Self::Fragment => "the request target has a fragment",
            Self::Escape => "the request target has a percent sign without two hexadecimal digits",
            Self::Nul => "the request target has an escaped NUL",
            Self::AboveRoot => "the request target goes above the root",
            Self::TooLong => "the request target is too long",
        }
    }
}

/// A parsed target, as lengths into what it was parsed from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParsedTarget {
    /// Whether the path is not the raw one; it is in the buffer that was passed to [`parse_target`].
    pub changed: bool,
    /// Whether the raw path has percent escapes. nginx escapes a URI for the upstream again only if so.
    pub quoted: bool,
    /// Whether the raw target had no path at all (`http://host?x`), so that nothing of it can be sent on as it is.
    pub empty_path: bool,
    /// Length of the raw path.
    path_len: u32,
    /// Where the arguments begin in the raw target, if there is a `?`.
    args_start: Option<u32>,
    /// Length of the raw target.
    raw_len: u32,
}

impl ParsedTarget {
    /// The normalised path, nginx's `$uri`: from `raw`, or from `decoded` if it had to be changed.
    pub fn path<'a>(&self, raw: &'a [u8], decoded: &'a [u8]) -> &'a [u8] {
        if self.changed { decoded } else { raw.get(self.raw_path_range()).unwrap_or(raw) }
    }

    /// The raw path as a range of the raw target.
    pub fn raw_path_range(&self) -> Range<usize> {
        0..self.path_len as usize
    }

    /// The arguments as a range of the raw target; an empty range behind a lone `?`, `None` without one.
    pub fn args_range(&self) -> Option<Range<usize>> {
        self.args_start.map(|start| start as usize..self.raw_len as usize)
    }

    /// The arguments.
    pub fn args<'a>(&self, raw: &'a [u8]) -> Option<&'a [u8]> {
        raw.get(self.args_range()?)
    }
}

/// What a byte of a path means.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    /// Means itself.
    Plain,
    /// `/`: what follows decides.
    Slash,
    /// `%`
    Percent,
    /// `?`
    Question,
    /// `#`
    Hash,
    /// Refused.
    Refused,
}

const CLASSES: [Class; 256] = {
    let mut classes = [Class::Plain; 256];
    let mut byte = 0;
    while byte < 256 {
        if byte <= 0x20 || byte == 0x7f {
            classes[byte] = Class::Refused;
        }
        byte += 1;
    }
    classes[b'/' as usize] = Class::Slash;
    classes[b'%' as usize] = Class::Percent;
    classes[b'?' as usize] = Class::Question;
    classes[b'#' as usize] = Class::Hash;
    classes
};

/// Parses the path and arguments of a target (the whole origin form, or `target` of the absolute form).
///
/// `decoded` is cleared, and filled only if the path must change. `merge_slashes` is the directive's flag.
pub fn parse_target(raw: &[u8], merge_slashes: bool, decoded: &mut Vec<u8>) -> Result<ParsedTarget, UriError> {
    decoded.clear();
    let raw_len = u32::try_from(raw.len()).map_err(|_| UriError::TooLong)?;
    let empty_path = match raw.first() {
        None | Some(b'?') => true,
        Some(b'/') => false,
        Some(_) => return Err(UriError::Form),
    };
    let scan = scan(raw, merge_slashes)?;
    let args_start = (scan.path_len < raw.len()).then_some(scan.path_len + 1);
    check_args(args_start.map_or(&[], |start| &raw[start..]))?;
    let changed = scan.complex || scan.quoted || empty_path;
    if changed {
        if empty_path {
            decoded.push(b'/');
        }
        normalize(&raw[..scan.path_len], merge_slashes, decoded)?;
    }
    Ok(ParsedTarget {
        changed,
        quoted: scan.quoted,
        empty_path,
        path_len: scan.path_len as u32,
        args_start: args_start.map(|start| start as u32),
        raw_len,
    })
}

/// What one pass over the raw path says.
struct Scan {
    path_len: usize,
    complex: bool,
    quoted: bool,
}

/// Finds the end of the path and whether it must change; refuses bytes.
fn scan(raw: &[u8], merge_slashes: bool) -> Result<Scan, UriError> {
    let mut scan = Scan { path_len: raw.len(), complex: false, quoted: false };
    for (at, &byte) in raw.iter().enumerate() {
        match CLASSES[usize::from(byte)] {
            Class::Plain => {}
            // A dot behind a slash is a special segment at most, which `normalize` sorts out.
            Class::Slash => match raw.get(at + 1) {
                Some(b'.') => scan.complex |= is_dot_segment(&raw[at + 1..]),
                Some(b'/') => scan.complex |= merge_slashes,
                _ => {}
            },
            Class::Percent => scan.quoted = true,
            Class::Question => {
                scan.path_len = at;
                break;
            }
            Class::Hash => return Err(UriError::Fragment),
            Class::Refused => return Err(UriError::Byte),
        }
    }
    Ok(scan)
}

/// Whether `rest` begins with the segment `.` or `..`. Escaped dots are not looked for: an escape changes the path anyway.
fn is_dot_segment(rest: &[u8]) -> bool {
    let dots = rest.iter().take_while(|&&byte| byte == b'.').count();
    dots <= 2 && matches!(rest.get(dots), None | Some(b'/' | b'?'))
}

/// Arguments are passed on as they are, so only what no URI may hold is refused.
fn check_args(args: &[u8]) -> Result<(), UriError> {
    for &byte in args {
        match CLASSES[usize::from(byte)] {
            Class::Refused => return Err(UriError::Byte),
            Class::Hash => return Err(UriError::Fragment),
            _ => {}
        }
    }
    Ok(())
}

/// What is before the byte at hand, in the current segment.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Segment {
    /// Nothing: the last byte was a slash.
    Start,
    /// `.`
    Dot,
    /// `..`
    DotDot,
    /// Anything else.
    Usual,
}

/// Appends the normalised path to `out`, which holds the leading slash if the path has none of its own.
fn normalize(path: &[u8], merge_slashes: bool, out: &mut Vec<u8>) -> Result<(), UriError> {
    out.reserve(path.len());
    let mut segment = if out.is_empty() { Segment::Usual } else { Segment::Start };
    let mut rest = path;
    while let Some((&first, tail)) = rest.split_first() {
        rest = tail;
        let (byte, literal) = if first == b'%' { decode(&mut rest)? } else { (first, false) };
        match byte {
            b'/' if !literal => {
                end_segment(segment, merge_slashes, out)?;
                segment = Segment::Start;
            }
            b'.' => {
                out.push(byte);
                segment = match segment {
                    Segment::Start => Segment::Dot,
                    Segment::Dot => Segment::DotDot,
                    Segment::DotDot | Segment::Usual => Segment::Usual,
                };
            }
            _ => {
                out.push(byte);
                segment = Segment::Usual;
            }
        }
    }
    match segment {
        Segment::Dot | Segment::DotDot => end_segment(segment, merge_slashes, out),
        Segment::Start | Segment::Usual => Ok(()),
    }
}

/// Closes a segment at a slash, so that `out` ends in one.
fn end_segment(segment: Segment, merge_slashes: bool, out: &mut Vec<u8>) -> Result<(), UriError> {
    match segment {
        Segment::Start if merge_slashes => {}
        Segment::Start | Segment::Usual => out.push(b'/'),
        Segment::Dot => out.truncate(out.len() - 1),
        Segment::DotDot => {
            // `out` ends in `/..`; the parent ends at the slash before that one.
            let slash = out.len() - 3;
            let parent = memchr::memrchr(b'/', &out[..slash]).ok_or(UriError::AboveRoot)?;
            out.truncate(parent + 1);
        }
    }
    Ok(())
}

/// Takes the two digits behind a `%`. The flag: the decoded byte is literal and has no special meaning.
fn decode(rest: &mut &[u8]) -> Result<(u8, bool), UriError> {
    let [high, low, tail @ ..] = *rest else { return Err(UriError::Escape) };
    let byte = hex(*high)? << 4 | hex(*low)?;
    *rest = tail;
    match byte {
        0 => Err(UriError::Nul),
        byte => Ok((byte, matches!(byte, b'%' | b'#' | b'?'))),
    }
}

fn hex(digit: u8) -> Result<u8, UriError> {
    match digit {
        b'0'..=b'9' => Ok(digit - b'0'),
        b'a'..=b'f' => Ok(digit - b'a' + 10),
        b'A'..=b'F' => Ok(digit - b'A' + 10),
        _ => Err(UriError::Escape),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uri::{Escape, escape};
    use proptest::prelude::*;

    fn parse_merging(raw: &[u8], merge_slashes: bool) -> Result<(Vec<u8>, ParsedTarget), UriError> {
        let mut decoded = Vec::new();
        let parsed = parse_target(raw, merge_slashes, &mut decoded)?;
        Ok((parsed.path(raw, &decoded).to_vec(), parsed))
    }

    fn path(raw: &str) -> String {
        String::from_utf8(parse_merging(raw.as_bytes(), true).unwrap().0).unwrap()
    }

    fn error(raw: &[u8]) -> UriError {
        parse_merging(raw, true).unwrap_err()
    }

    #[test]
    fn a_plain_target_is_borrowed() {
        for raw in ["/", "/a/b.c?x=1&y=/../", "/.well-known/x", "/...", "/a..b/..c/.d", "/a/;x,y+z~:@!$&'()*=?a?b"] {
            let mut decoded = Vec::new();
            let parsed = parse_target(raw.as_bytes(), true, &mut decoded).unwrap();
            assert!(!parsed.changed && decoded.is_empty(), "{raw}");
            let path = parsed.path(raw.as_bytes(), &decoded);
            assert_eq!(Some(path), raw.as_bytes().split(|&byte| byte == b'?').next(), "{raw}");
        }
    }

    #[test]
    fn arguments_follow_the_first_question_mark() {
        let args = |raw: &'static str| parse_merging(raw.as_bytes(), true).unwrap().1.args(raw.as_bytes());
        assert_eq!(args("/a"), None);
        assert_eq!(args("/a?"), Some(&b""[..]));
        assert_eq!(args("/a?b?c%00"), Some(&b"b?c%00"[..]));
        assert_eq!(args("/a%3Fb?c"), Some(&b"c"[..]));
    }

    #[test]
    fn dots_and_slashes_are_resolved() {
        for (raw, expected) in [
            ("//", "/"),
            ("/a//b", "/a/b"),
            ("/./", "/"),
            ("/.", "/"),
            ("/a/./b/.", "/a/b/"),
            ("/a/../b", "/b"),
            ("/a/..", "/"),
            ("/a/b/..?x", "/a/"),
            ("/a/b/../../c", "/c"),
            ("/a//../b", "/b"),
            ("/a/.../b//", "/a/.../b/"),
        ] {
            assert_eq!(path(raw), expected, "{raw}");
        }
    }

    #[test]
    fn escapes_are_decoded_before_dots_and_slashes_are_looked_at() {
        for (raw, expected) in [
            ("/%41%7e", "/A~"),
            ("/a%2Fb", "/a/b"),
            ("/a%2F%2fb", "/a/b"),
            ("/a/%2e%2E/b", "/b"),
            ("/a/.%2e/b", "/b"),
            ("/a/%2e%2e%2fb", "/b"),
            ("/a%20b+c", "/a b+c"),
        ] {
            assert_eq!(path(raw), expected, "{raw}");
        }
    }

    #[test]
    fn keeps_escaped_question_mark_hash_and_percent_literal() {
        assert_eq!(path("/a%3Fb%23c%25d"), "/a?b#c%d");
        assert_eq!(path("/%252e%252e/x"), "/%2e%2e/x", "an escape is decoded once");
        assert_eq!(path("/.%3F"), "/.?");
    }

    #[test]
    fn slashes_stay_where_merging_is_off() {
        let path = |raw: &[u8]| String::from_utf8(parse_merging(raw, false).unwrap().0).unwrap();
        assert_eq!(path(b"/a//b"), "/a//b");
        assert_eq!(path(b"//%61//"), "//a//");
        assert_eq!(path(b"/a//../b"), "/a/b");
        assert_eq!(path(b"//../b"), "/b");
        assert!(!parse_merging(b"/a//b", false).unwrap().1.changed);
    }

    #[test]
    fn an_empty_path_of_the_absolute_form_becomes_a_slash() {
        let (path, parsed) = parse_merging(b"?x=1", true).unwrap();
        assert_eq!((&path[..], parsed.args(b"?x=1"), parsed.empty_path), (&b"/"[..], Some(&b"x=1"[..]), true));
        assert_eq!(parse_merging(b"", true).unwrap().0, b"/");
    }

    #[test]
    fn r35_bytes_from_0x80_stay() {
        let raw = b"/\x80//\xc3\xa9%c3%a9?\xff";
        let (path, parsed) = parse_merging(raw, true).unwrap();
        assert_eq!((&path[..], parsed.args(raw)), (&b"/\x80/\xc3\xa9\xc3\xa9"[..], Some(&b"\xff"[..])));
    }

    #[test]
    fn r34_r35_refuses_ambiguous_requests() {
        for (raw, why) in [
            (&b"/a\0b"[..], UriError::Byte),
            (b"/a b", UriError::Byte),
            (b"/a\x7f", UriError::Byte),
            (b"/a?\x7f", UriError::Byte),
            (b"/a#b", UriError::Fragment),
            (b"/a?b#c", UriError::Fragment),
            (b"/%00", UriError::Nul),
            (b"/a%00b", UriError::Nul),
            (b"/%zz", UriError::Escape),
            (b"/%4", UriError::Escape),
            (b"/%", UriError::Escape),
            (b"/%4?1", UriError::Escape),
            (b"/..", UriError::AboveRoot),
            (b"/../", UriError::AboveRoot),
            (b"/a/../../b", UriError::AboveRoot),
            (b"/%2e%2e/a", UriError::AboveRoot),
            (b"/..?x", UriError::AboveRoot),
            (b"a", UriError::Form),
        ] {
            assert_eq!(error(raw), why, "{}", raw.escape_ascii());
        }
    }

    /// Bytes in which the special ones are frequent.
    fn targets() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            4 => prop::sample::select(vec!["/", "..", ".", "%2e", "%2F", "%25", "%3f", "a", "?", "%41", "//", "%e9"])
                .prop_map(|piece| piece.as_bytes().to_vec()),
            1 => any::<u8>().prop_map(|byte| vec![byte]),
        ];
        prop::collection::vec(piece, 0..24).prop_map(|pieces| [b"/".to_vec(), pieces.concat()].concat())
    }

    proptest! {
        #[test]
        fn no_dot_segment_is_left_and_the_path_is_rooted(raw in targets(), merge in any::<bool>()) {
            if let Ok((path, _)) = parse_merging(&raw, merge) {
                prop_assert_eq!(path.first(), Some(&b'/'));
                prop_assert!(path.split(|&byte| byte == b'/').all(|segment| segment != b".." && segment != b"."));
                prop_assert!(!merge || memchr::memmem::find(&path, b"//").is_none());
            }
        }

        #[test]
        fn normalising_the_escaped_path_again_changes_nothing(raw in targets(), merge in any::<bool>()) {
            if let Ok((path, _)) = parse_merging(&raw, merge) {
                let mut escaped = Vec::new();
                escape(&path, Escape::Uri, &mut escaped);
                prop_assert_eq!(parse_merging(&escaped, merge).unwrap().0, path);
            }
        }

        #[test]
        fn borrowing_and_decoding_agree(raw in targets(), merge in any::<bool>()) {
            if let Ok((path, parsed)) = parse_merging(&raw, merge) {
                let mut decoded = Vec::new();
                normalize(&raw[parsed.raw_path_range()], merge, &mut decoded).unwrap();
                prop_assert_eq!(decoded, path);
            }
        }

        #[test]
        fn any_bytes_are_answered(raw in prop::collection::vec(any::<u8>(), 0..64), merge in any::<bool>()) {
            let _ = parse_merging(&raw, merge);
        }
    }
}
