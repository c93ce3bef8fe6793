//! `charset_map`: converts bodies between character sets, byte by byte or from and to UTF-8, in pieces of any size. The caller
//! decides which responses to convert.

use std::collections::HashMap;
use std::sync::Arc;

/// Replaces a character that a single-byte character set does not have.
const UNKNOWN: u8 = b'?';

/// One `charset_map` as it is written.
#[derive(Debug, Clone, Copy)]
pub struct MapLines<'a> {
    /// The character set of the first column: one byte for each sign.
    pub from: &'a [u8],
    /// The character set of the second column.
    pub to: &'a [u8],
    /// Pairs of a byte of the first set and the bytes of the second set for the same character.
    pub lines: &'a [(u8, Vec<u8>)],
}

/// The character sets of a configuration, and the tables that convert between them.
#[derive(Debug, Default, Clone)]
pub struct Charsets {
    names: Vec<Box<[u8]>>,
    directions: Vec<Direction>,
}

/// One direction of a map.
#[derive(Debug, Clone)]
struct Direction {
    from: Box<[u8]>,
    to: Box<[u8]>,
    recoding: Recoding,
}

/// How one character set becomes another one.
#[derive(Debug, Clone)]
pub enum Recoding {
    /// One byte for one byte.
    Bytes(Arc<[u8; 256]>),
    /// Each byte becomes a character of UTF-8.
    ToUtf8(Arc<[Vec<u8>; 256]>),
    /// Each character of UTF-8 becomes a byte.
    FromUtf8(Arc<HashMap<u32, u8>>),
}

/// Whether this is the name of UTF-8.
fn is_utf8(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"utf-8")
}

impl Charsets {
    /// Makes a name known.
    pub fn add_name(&mut self, name: &[u8]) {
        if !self.knows(name) {
            self.names.push(name.into());
        }
    }

    /// Adds a map, which converts in both directions.
    pub fn add_map(&mut self, map: &MapLines<'_>) {
        self.add_name(map.from);
        self.add_name(map.to);
        let (there, back) = if is_utf8(map.to) { with_utf8(map.lines) } else { single_bytes(map.lines) };
        self.directions.push(Direction { from: map.from.into(), to: map.to.into(), recoding: there });
        self.directions.push(Direction { from: map.to.into(), to: map.from.into(), recoding: back });
    }

    /// Whether the configuration has a character set of this name.
    pub fn knows(&self, name: &[u8]) -> bool {
        self.spelling(name).is_some()
    }

    /// A known name as it was spelled first.
    pub fn spelling(&self, name: &[u8]) -> Option<&[u8]> {
        self.names.iter().map(AsRef::as_ref).find(|known: &&[u8]| known.eq_ignore_ascii_case(name))
    }

    /// The table that converts from one to the other; `None` without a map between them.
    pub fn recoding(&self, from: &[u8], to: &[u8]) -> Option<&Recoding> {
        let is_it = |known: &&Direction| known.from.eq_ignore_ascii_case(from) && known.to.eq_ignore_ascii_case(to);
        self.directions.iter().find(is_it).map(|found| &found.recoding)
    }
}

fn single_bytes(lines: &[(u8, Vec<u8>)]) -> (Recoding, Recoding) {
    let ascii = |byte: usize| if byte < 128 { byte as u8 } else { UNKNOWN };
    let mut there: [u8; 256] = std::array::from_fn(ascii);
    let mut back = there;
    for (byte, meant) in lines {
        let Some(&meant) = meant.first() else { continue };
        there[usize::from(*byte)] = meant;
        back[usize::from(meant)] = *byte;
    }
    (Recoding::Bytes(Arc::new(there)), Recoding::Bytes(Arc::new(back)))
}

fn with_utf8(lines: &[(u8, Vec<u8>)]) -> (Recoding, Recoding) {
    let mut there: [Vec<u8>; 256] = std::array::from_fn(|byte| vec![if byte < 128 { byte as u8 } else { UNKNOWN }]);
    let mut back = HashMap::new();
    for (byte, meant) in lines {
        if let Decoded::Character(code, _) = decode(meant) {
            back.insert(code, *byte);
        }
        there[usize::from(*byte)].clone_from(meant);
    }
    (Recoding::ToUtf8(Arc::new(there)), Recoding::FromUtf8(Arc::new(back)))
}

/// What the beginning of some bytes is. Each says how many bytes it takes.
#[derive(Debug, PartialEq, Eq)]
enum Decoded {
    Character(u32, usize),
    Invalid(usize),
    /// More bytes are needed.
    Open,
}

/// Reads one character of two and more bytes, as nginx does: halves of surrogate pairs are characters, and a byte that breaks
/// a character off is part of what is invalid.
fn decode(bytes: &[u8]) -> Decoded {
    let Some(&first) = bytes.first() else { return Decoded::Open };
    let (mut code, least, more) = match first {
        0xf0..=0xf7 => (u32::from(first & 0x07), 0xffff, 3),
        0xe0..=0xef => (u32::from(first & 0x0f), 0x7ff, 2),
        0xc2..=0xdf => (u32::from(first & 0x1f), 0x7f, 1),
        _ => return Decoded::Invalid(1),
    };
    let Some(rest) = bytes.get(1..=more) else { return Decoded::Open };
    for (at, &byte) in rest.iter().enumerate() {
        if byte < 0x80 {
            return Decoded::Invalid(at + 2);
        }
        code = code << 6 | u32::from(byte & 0x3f);
    }
    if code > least && code <= 0x10_ffff { Decoded::Character(code, more + 1) } else { Decoded::Invalid(more + 1) }
}

impl Recoding {
    /// Whether a body keeps its length.
    pub fn keeps_length(&self) -> bool {
        matches!(self, Self::Bytes(_))
    }
}

/// The state of converting one body.
#[derive(Debug)]
pub struct Recoder {
    recoding: Recoding,
    /// The first bytes of a character that is still incomplete.
    open: Vec<u8>,
}

impl Recoder {
    /// The converter of one body.
    pub fn new(recoding: Recoding) -> Self {
        Self { recoding, open: Vec::new() }
    }

    /// Takes a piece and appends what it becomes: four times as many bytes at most. As in nginx a character that breaks off at
    /// the body's end is left out.
    pub fn take(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        match &self.recoding {
            Recoding::Bytes(table) => out.extend(piece.iter().map(|&byte| table[usize::from(byte)])),
            Recoding::ToUtf8(table) => {
                for &byte in piece {
                    out.extend_from_slice(&table[usize::from(byte)]);
                }
            }
            Recoding::FromUtf8(table) => {
                let mut rest = piece;
                // A character in two pieces is put together; it needs three bytes of this piece at most.
                while let (false, Some((&byte, behind))) = (self.open.is_empty(), rest.split_first()) {
                    self.open.push(byte);
                    rest = behind;
                    let open = std::mem::take(&mut self.open);
                    self.open = from_utf8(table, &open, out).to_vec();
                }
                self.open.extend_from_slice(from_utf8(table, rest, out));
            }
        }
    }
}

/// Appends what these bytes become, and gives the beginning of a character at their end.
fn from_utf8<'a>(table: &HashMap<u32, u8>, mut bytes: &'a [u8], out: &mut Vec<u8>) -> &'a [u8] {
    while let Some(&first) = bytes.first() {
        let count = if first < 0x80 {
            let end = bytes.iter().position(|&byte| byte >= 0x80).unwrap_or(bytes.len());
            out.extend_from_slice(&bytes[..end]);
            end
        } else {
            match decode(bytes) {
                Decoded::Character(code, count) => {
                    match table.get(&code) {
                        Some(&byte) if byte != 0 => out.push(byte),
                        // What the other set has no sign for is still shown by HTML.
                        _ => out.extend_from_slice(format!("&#{code};").as_bytes()),
                    }
                    count
                }
                Decoded::Invalid(count) => {
                    out.push(UNKNOWN);
                    count
                }
                Decoded::Open => return bytes,
            }
        };
        bytes = &bytes[count..];
    }
    bytes
}

/// The parts of a `Content-Type` before and behind its parameter `charset`, as nginx reads them.
#[derive(Debug, PartialEq, Eq)]
pub struct MediaType<'a> {
    /// Everything before the parameter, or all of it.
    pub media: &'a [u8],
    /// The character set, without quotes.
    pub charset: Option<&'a [u8]>,
}

impl<'a> MediaType<'a> {
    /// Takes a value apart.
    pub fn parse(value: &'a [u8]) -> Self {
        const NAME: &[u8] = b"charset=";
        let semicolons = value.iter().enumerate().filter(|(_, byte)| **byte == b';').map(|(at, _)| at);
        for at in semicolons {
            let behind = &value[at + 1..];
            let blanks = behind.iter().take_while(|&&byte| byte == b' ').count();
            let Some((name, set)) = behind[blanks..].split_at_checked(NAME.len()) else { continue };
            if name.eq_ignore_ascii_case(NAME) {
                let set = set.strip_prefix(b"\"").unwrap_or(set);
                return Self { media: &value[..at], charset: Some(set.strip_suffix(b"\"").unwrap_or(set)) };
            }
        }
        Self { media: value, charset: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn charsets() -> Charsets {
        let mut charsets = Charsets::default();
        let koi = vec![(0xe1, vec![0xd0, 0x90]), (0xc1, vec![0xd0, 0xb0]), (0x80, vec![0xe2, 0x94, 0x80])];
        charsets.add_map(&MapLines { from: b"koi8-r", to: b"utf-8", lines: &koi });
        let bytes = [(0xe1, vec![0xc0]), (0xc1, vec![0xe0])];
        charsets.add_map(&MapLines { from: b"koi8-r", to: b"windows-1251", lines: &bytes });
        charsets
    }

    fn recoded(from: &str, to: &str, body: &[u8], piece: usize) -> Vec<u8> {
        let charsets = charsets();
        let mut recoder = Recoder::new(charsets.recoding(from.as_bytes(), to.as_bytes()).unwrap().clone());
        let mut out = Vec::new();
        body.chunks(piece).for_each(|piece| recoder.take(piece, &mut out));
        out
    }

    #[test]
    fn bytes_become_bytes_and_unknown_ones_question_marks() {
        assert_eq!(recoded("koi8-r", "windows-1251", b"a\xe1\xc1\xff", 2), b"a\xc0\xe0?");
        assert_eq!(recoded("WINDOWS-1251", "KOI8-R", b"a\xc0\xe0\xff", 1), b"a\xe1\xc1?");
        assert!(charsets().recoding(b"utf-8", b"windows-1251").is_none());
    }

    #[test]
    fn bytes_become_characters_and_back() {
        let text = "Aа─ 1".replace('A', "А");
        let koi = b"\xe1\xc1\x80 1";
        for piece in 1..5 {
            assert_eq!(recoded("koi8-r", "utf-8", koi, piece), text.as_bytes());
            assert_eq!(recoded("utf-8", "koi8-r", text.as_bytes(), piece), koi);
        }
        assert_eq!(recoded("koi8-r", "utf-8", b"\xff", 1), b"?");
        // Without a sign in the other set: HTML still shows it.
        assert_eq!(recoded("utf-8", "koi8-r", "ж\u{1f600}".as_bytes(), 3), b"&#1078;&#128512;");
    }

    #[test]
    fn invalid_utf8_becomes_question_marks() {
        for (body, out) in [
            (&b"a\xffb"[..], &b"a?b"[..]),
            (b"\xc1\x80.", b"??."),
            (b"\xe0\x80\x80.", b"?."),
            (b"\xf8\x90\x80\x80.", b"????."),
            (b"\xff\n", b"?\n"),
            (b"\xf7\xbf\xbf\xbf.", b"?."),
            // The byte that breaks a character off goes with it.
            (b"\xd0A.", b"?."),
            (b"a\xd0", b"a"),
        ] {
            assert_eq!(recoded("utf-8", "koi8-r", body, 100), out, "{}", body.escape_ascii());
        }
    }

    #[test]
    fn a_media_type_is_taken_apart() {
        for (value, media, charset) in [
            ("text/html", "text/html", None),
            ("text/html; charset=koi8-r", "text/html", Some("koi8-r")),
            ("text/html;Charset=\"utf-8\"", "text/html", Some("utf-8")),
            ("text/html; a=b; charset=x", "text/html; a=b", Some("x")),
            ("text/html;", "text/html;", None),
            ("text/html; charset=", "text/html", Some("")),
            ("text/html; charse", "text/html; charse", None),
        ] {
            let parts = MediaType { media: media.as_bytes(), charset: charset.map(str::as_bytes) };
            assert_eq!(MediaType::parse(value.as_bytes()), parts, "{value}");
        }
    }

    proptest! {
        #[test]
        fn pieces_change_nothing(body in prop::collection::vec(any::<u8>(), 0..64), piece in 1_usize..8) {
            prop_assert_eq!(recoded("utf-8", "koi8-r", &body, piece), recoded("utf-8", "koi8-r", &body, 64));
        }
    }
}
