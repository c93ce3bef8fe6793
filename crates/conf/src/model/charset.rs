//! Character sets of responses: `charset` and its kin, and the tables between them.

use super::gzip::{MediaTypes, edit_types};
use super::settings::settings;
use crate::diagnostic::Diagnostic;
use crate::source::Span;
use crate::tree::{Directive, Word};
use crate::value::plain::parse_flag;
use crate::value::{Parsed, Template, invalid_value};

/// Media types that get a character set where `charset_types` is not written.
const TYPES: [&[u8]; 6] =
    [b"text/html", b"text/xml", b"text/plain", b"text/vnd.wap.wml", b"application/javascript", b"application/rss+xml"];

/// Bytes of a character of UTF-8 that a table can name.
const UTF8_BYTES_MAX: usize = 3;

settings! {
    /// Character sets of a location's responses.
    pub struct CharsetSettings {
        /// The set that clients get; `None` leaves responses unchanged.
        charset: Option<Template> = None, "charset" => unless_off(parse_charset);
        /// The set of responses that do not name one.
        source: Option<Template> = None, "source_charset" => option(parse_charset);
        /// Whether responses that name their set are converted.
        overrides: bool = false, "override_charset" => value(parse_flag);
        /// Media types that get a character set.
        types: MediaTypes = MediaTypes::Some(TYPES.map(<[u8]>::to_vec).to_vec()), "charset_types" => edit(edit_types);
    }
}

/// One `charset_map`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CharsetMap {
    /// The set of the first column.
    pub from: Vec<u8>,
    /// The set of the second column.
    pub to: Vec<u8>,
    /// A byte of the first set, and its equivalent in the second one: one byte, or a UTF-8 character.
    pub lines: Vec<(u8, Vec<u8>)>,
    /// Where it was written.
    pub span: Span,
}

/// A name, or a variable that holds it. As in nginx, a `$` after the first byte is literal.
fn parse_charset(name: &str, word: &Word) -> Parsed<Template> {
    if word.value.starts_with(b"$") { Template::parse(name, word) } else { Ok(Template::text(&word.value, word.span)) }
}

/// Reads a `charset_map`. Reports a faulty line and leaves it out.
pub(crate) fn lower_charset_map(
    directive: &Directive,
    earlier: &[CharsetMap],
    out: &mut Vec<Diagnostic>,
) -> Parsed<CharsetMap> {
    let [from, to, ..] = directive.args.as_slice() else {
        let message = "invalid number of arguments in \"charset_map\" directive";
        return Err(Diagnostic::error(directive.name.span, message));
    };
    let are = |one: &[u8], other: &[u8]| one.eq_ignore_ascii_case(&from.value) && other.eq_ignore_ascii_case(&to.value);
    if from.value.eq_ignore_ascii_case(&to.value) {
        let (from, shown) = (from.text(), to.text());
        let message = format!("\"charset_map\" between the same charsets \"{from}\" and \"{shown}\"");
        return Err(Diagnostic::error(to.span, message));
    }
    if from.value.eq_ignore_ascii_case(b"utf-8") {
        let message = "\"charset_map\" from \"utf-8\" has no single bytes in its first column";
        let hint = "name the other charset first: a map converts in both directions";
        return Err(Diagnostic::error(from.span, message).with_hint(hint));
    }
    if let Some(known) = earlier.iter().find(|known| are(&known.from, &known.to) || are(&known.to, &known.from)) {
        let message = format!("duplicate \"charset_map\" between \"{}\" and \"{}\"", from.text(), to.text());
        return Err(Diagnostic::error(directive.span, message).with_related(known.span, "first defined here"));
    }
    let is_utf8 = to.value.eq_ignore_ascii_case(b"utf-8");
    let written = directive.block.as_ref().map_or(&[][..], |block| block.directives.as_slice());
    let mut lines = Vec::with_capacity(written.len());
    for line in written {
        match lower_line(line, is_utf8) {
            Ok(line) => lines.push(line),
            Err(error) => out.push(error),
        }
    }
    Ok(CharsetMap { from: from.value.to_vec(), to: to.value.to_vec(), lines, span: directive.span })
}

fn lower_line(line: &Directive, is_utf8: bool) -> Parsed<(u8, Vec<u8>)> {
    let [meant] = line.args.as_slice() else {
        let hint = "a byte and what it means, both in hexadecimal digits: `80 E282AC;`";
        return Err(Diagnostic::error(line.span, "invalid parameters number").with_hint(hint));
    };
    let byte = hexadecimal(&line.name.value).ok_or_else(|| invalid_value(&line.name))?;
    let bytes = if is_utf8 {
        let pairs = meant.value.chunks(2).map(|pair| hexadecimal(pair).filter(|_| pair.len() == 2));
        let is_one = |bytes: &Vec<u8>| bytes.len() <= UTF8_BYTES_MAX && is_character(bytes);
        pairs.collect::<Option<Vec<u8>>>().filter(is_one)
    } else {
        hexadecimal(&meant.value).map(|byte| vec![byte])
    };
    let hint = "the bytes of a character of UTF-8 beyond ASCII: `E282AC`";
    let invalid = || if is_utf8 { invalid_value(meant).with_hint(hint) } else { invalid_value(meant) };
    Ok((byte, bytes.ok_or_else(invalid)?))
}

/// Whether the bytes are one UTF-8 character beyond ASCII.
fn is_character(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|text| text.chars().count() == 1 && !text.is_ascii())
}

/// A byte in one or more hexadecimal digits.
fn hexadecimal(digits: &[u8]) -> Option<u8> {
    let text = std::str::from_utf8(digits).ok().filter(|text| !text.starts_with('+'))?;
    u8::from_str_radix(text, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_hexadecimal() {
        assert_eq!(hexadecimal(b"c0"), Some(0xc0));
        assert_eq!(hexadecimal(b"0C0"), Some(0xc0));
        for wrong in [&b""[..], b"100", b"+1", b"x"] {
            assert_eq!(hexadecimal(wrong), None, "{}", wrong.escape_ascii());
        }
    }
}
