//! Access-log lines: a template with its values escaped as `log_format escape=` asks. Text of the format itself is never
//! escaped. The gateway calls it when an exchange ends, and writes the line.

use crate::template::{Piece, Template, View};
use crate::variable::{UserVariables, Variable};
use conf::diagnostic::Diagnostic;
use conf::value::template as written;

/// How values are escaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogEscape {
    /// `"`, `\`, bytes below 32 and from 127 up as `\xXX`; `-` where there is no value.
    #[default]
    Default,
    /// As in a JSON string: `\"`, `\\`, `\n`, … and `\u00XX` for the other controls; nothing where there is no value.
    Json,
    /// Not at all; nothing where there is no value.
    None,
}

/// A compiled format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFormat {
    escape: LogEscape,
    pieces: Box<[Piece]>,
}

/// A line in which some values are still missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EarlyLine {
    text: Vec<u8>,
    /// Where in the text a value is missing, and of which variable.
    gaps: Vec<(u32, Variable)>,
}

impl EarlyLine {
    /// Appends the line with its gaps filled; `-` where there is no value. Late values are numbers and times, in which
    /// nothing needs escaping.
    pub fn write<V: View + ?Sized>(&self, view: &V, out: &mut Vec<u8>) {
        let mut from = 0;
        for (at, variable) in &self.gaps {
            let at = *at as usize;
            out.extend_from_slice(self.text.get(from..at).unwrap_or_default());
            if !view.write(variable, out) {
                out.push(b'-');
            }
            from = at;
        }
        out.extend_from_slice(self.text.get(from..).unwrap_or_default());
    }

    /// Its text, and where values are missing: for another process.
    pub fn parts(&self) -> (&[u8], &[(u32, Variable)]) {
        (&self.text, &self.gaps)
    }

    /// The line with this text and these gaps; `None` if a gap is not in the text, or before an earlier one.
    pub fn from_parts(text: Vec<u8>, gaps: Vec<(u32, Variable)>) -> Option<Self> {
        let is_sorted = gaps.is_sorted_by_key(|(at, _)| *at);
        let is_inside = gaps.last().is_none_or(|(at, _)| *at as usize <= text.len());
        (is_sorted && is_inside).then_some(Self { text, gaps })
    }
}

/// The pieces of nginx's predefined format `combined`.
fn combined_pieces() -> Vec<Piece> {
    let text = |text: &str| Piece::Text(text.as_bytes().into());
    let field = |name| Piece::Variable(Variable::Http(crate::variable::FieldName::new(name)));
    vec![
        Piece::Variable(Variable::RemoteAddr),
        text(" - "),
        Piece::Variable(Variable::RemoteUser),
        text(" ["),
        Piece::Variable(Variable::TimeLocal),
        text("] \""),
        Piece::Variable(Variable::Request),
        text("\" "),
        Piece::Variable(Variable::Status),
        text(" "),
        Piece::Variable(Variable::BodyBytesSent),
        text(" \""),
        field("referer"),
        text("\" \""),
        field("user_agent"),
        text("\""),
    ]
}

impl LogFormat {
    /// The predefined format `combined`.
    pub fn combined() -> Self {
        Self { escape: LogEscape::Default, pieces: combined_pieces().into() }
    }

    /// Compiles a `log_format`: its strings joined.
    pub fn compile(escape: LogEscape, format: &written::Template, users: &UserVariables) -> Result<Self, Diagnostic> {
        Ok(Self { escape, pieces: Template::compile_pieces(format, users)?.into() })
    }

    /// Appends one line, without a newline.
    pub fn write<V: View + ?Sized>(&self, view: &V, out: &mut Vec<u8>) {
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => out.extend_from_slice(text),
                Piece::Variable(variable) => self.write_value(variable, view, out),
            }
        }
    }

    /// Renders what is known now; `late` says which variables are not. For lines of long-lived tunnels: what a line needs
    /// of the exchange is kept as text, and the exchange can go.
    pub fn write_early<V: View + ?Sized>(&self, view: &V, late: impl Fn(&Variable) -> bool) -> EarlyLine {
        let mut line = EarlyLine { text: Vec::new(), gaps: Vec::new() };
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => line.text.extend_from_slice(text),
                Piece::Variable(variable) if late(variable) => {
                    line.gaps.push((line.text.len() as u32, variable.clone()));
                }
                Piece::Variable(variable) => self.write_value(variable, view, &mut line.text),
            }
        }
        line
    }

    /// The variables of the format, in order.
    pub fn variables(&self) -> impl Iterator<Item = &Variable> {
        self.pieces.iter().filter_map(Piece::variable)
    }

    fn write_value<V: View + ?Sized>(&self, variable: &Variable, view: &V, out: &mut Vec<u8>) {
        let start = out.len();
        if !view.write(variable, out) {
            out.truncate(start);
            if self.escape == LogEscape::Default {
                out.push(b'-');
            }
            return;
        }
        // Nearly no value has a byte to escape, so the value is written in place first and only then looked at.
        let is_escaped = match self.escape {
            LogEscape::Default if has_any(&out[start..], self.escape) => is_escaped_by_default,
            LogEscape::Json if has_any(&out[start..], self.escape) => is_escaped_in_json,
            _ => return,
        };
        for byte in out.split_off(start) {
            match (is_escaped(byte), self.escape) {
                (false, _) => out.push(byte),
                (true, LogEscape::Json) => escape_in_json(byte, out),
                (true, _) => {
                    let (high, low) = (DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]);
                    out.extend_from_slice(&[b'\\', b'x', high, low]);
                }
            }
        }
    }
}

const DIGITS: &[u8; 16] = b"0123456789ABCDEF";

/// Whether any byte is escaped, eight bytes at a time: this runs over every value of every line.
fn has_any(bytes: &[u8], escape: LogEscape) -> bool {
    const fn each(byte: u8) -> u64 {
        u64::from_ne_bytes([byte; 8])
    }
    /// The high bit of some byte is set if a byte is below `limit` (at most 128), and of none if no byte is.
    fn below(word: u64, limit: u8) -> u64 {
        word.wrapping_sub(each(limit)) & !word & each(0x80)
    }
    let (words, rest) = bytes.as_chunks::<8>();
    let mut found = 0;
    for word in words {
        let word = u64::from_ne_bytes(*word);
        found |= below(word, 0x20) | below(word ^ each(b'"'), 1) | below(word ^ each(b'\\'), 1);
        if escape == LogEscape::Default {
            // Adding one moves 0x7f to 0x80; a carry out of a byte comes from 0xff only, which is found already.
            found |= (word | word.wrapping_add(each(1))) & each(0x80);
        }
    }
    let is_escaped = if escape == LogEscape::Default { is_escaped_by_default } else { is_escaped_in_json };
    found != 0 || rest.iter().any(|&byte| is_escaped(byte))
}

fn is_escaped_by_default(byte: u8) -> bool {
    !(0x20..0x7f).contains(&byte) || byte == b'"' || byte == b'\\'
}

fn is_escaped_in_json(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

fn escape_in_json(byte: u8, out: &mut Vec<u8>) {
    let short = match byte {
        b'"' | b'\\' => byte,
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        0x08 => b'b',
        0x0c => b'f',
        _ => {
            out.extend_from_slice(&[
                b'\\',
                b'u',
                b'0',
                b'0',
                DIGITS[usize::from(byte >> 4)],
                DIGITS[usize::from(byte & 15)],
            ]);
            return;
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

#[cfg(test)]
mod early_tests {
    use super::*;

    /// Knows the status, and counts bytes.
    struct Counts(u64);

    impl View for Counts {
        fn write(&self, variable: &Variable, out: &mut Vec<u8>) -> bool {
            match variable {
                Variable::Status => out.extend_from_slice(b"101"),
                Variable::BodyBytesSent => out.extend_from_slice(self.0.to_string().as_bytes()),
                _ => return false,
            }
            true
        }
    }

    #[test]
    fn line_appends_late_values() {
        let early = LogFormat::combined().write_early(&Counts(0), |variable| *variable == Variable::BodyBytesSent);
        let mut line = Vec::new();
        early.write(&Counts(77), &mut line);
        assert_eq!(String::from_utf8(line).unwrap(), "- - - [-] \"-\" 101 77 \"-\" \"-\"");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use conf::source::{FileId, Span};
    use proptest::prelude::*;

    /// A request line of the test's choice, a status, an empty `$args`, and nothing else.
    struct Line<'a>(&'a [u8]);

    impl View for Line<'_> {
        fn write(&self, variable: &Variable, out: &mut Vec<u8>) -> bool {
            match variable {
                Variable::Request => out.extend_from_slice(self.0),
                Variable::Status => out.extend_from_slice(b"200"),
                Variable::Args => {}
                _ => return false,
            }
            true
        }
    }

    fn line(escape: LogEscape, names: &[&str], request: &[u8]) -> Vec<u8> {
        let parts = names
            .iter()
            .flat_map(|name| [written::Part::Text(b"|\"".to_vec()), written::Part::Variable((*name).to_owned())]);
        let span = Span { file: FileId(0), start: 0, end: 0 };
        let format = written::Template { parts: parts.collect(), span };
        let mut out = Vec::new();
        LogFormat::compile(escape, &format, &UserVariables::default()).unwrap().write(&Line(request), &mut out);
        out
    }

    #[test]
    fn combined_format_shows_a_dash_for_missing_values() {
        let mut out = Vec::new();
        LogFormat::combined().write(&Line(b"GET / HTTP/1.1"), &mut out);
        assert_eq!(out, b"- - - [-] \"GET / HTTP/1.1\" 200 - \"-\" \"-\"");
    }

    #[test]
    fn values_are_escaped_but_not_the_format() {
        let request = b"a\"\\\n\x7f\xe9\x1f\x08\x0c\r\tz";
        let default = line(LogEscape::Default, &["request"], request);
        assert_eq!(default, br#"|"a\x22\x5C\x0A\x7F\xE9\x1F\x08\x0C\x0D\x09z"#);
        let json = line(LogEscape::Json, &["request"], request);
        assert_eq!(json, b"|\"a\\\"\\\\\\n\x7f\xe9\\u001F\\b\\f\\r\\tz");
        assert_eq!(line(LogEscape::None, &["request"], request), [b"|\"", &request[..]].concat());
    }

    #[test]
    fn only_missing_values_become_a_dash() {
        let names = ["remote_user", "args"];
        assert_eq!(line(LogEscape::Default, &names, b""), b"|\"-|\"");
        assert_eq!(line(LogEscape::Json, &names, b""), b"|\"|\"");
        assert_eq!(line(LogEscape::None, &names, b""), b"|\"|\"");
    }

    proptest! {
        #[test]
        fn eight_byte_search_matches_the_bytewise_one(value in prop::collection::vec(any::<u8>(), 0..24)) {
            prop_assert_eq!(has_any(&value, LogEscape::Default), value.iter().any(|&byte| is_escaped_by_default(byte)));
            prop_assert_eq!(has_any(&value, LogEscape::Json), value.iter().any(|&byte| is_escaped_in_json(byte)));
        }

        #[test]
        fn finds_a_single_byte_at_any_place(byte in any::<u8>(), at in 0_usize..20) {
            let mut value = [b'a'; 20];
            value[at] = byte;
            prop_assert_eq!(has_any(&value, LogEscape::Default), is_escaped_by_default(byte));
            prop_assert_eq!(has_any(&value, LogEscape::Json), is_escaped_in_json(byte));
        }

        #[test]
        fn a_line_never_has_control_bytes_of_clients(request in prop::collection::vec(any::<u8>(), 0..64)) {
            let default = line(LogEscape::Default, &["request"], &request);
            prop_assert!(default.iter().all(|byte| (0x20..0x7f).contains(byte)));
            let json = line(LogEscape::Json, &["request"], &request);
            prop_assert!(json.iter().all(|&byte| byte >= 0x20));
        }
    }
}
