//! Header fields of requests and responses that are set and cleared, in the syntax of the headers-more module.

use super::settings::{At, settings};
use crate::diagnostic::Diagnostic;
use crate::source::Span;
use crate::tree::Word;
use crate::value::size::number;
use crate::value::{Parsed, Template};
use std::ops::Range;

/// What one directive does to fields.
#[derive(Debug, Clone, PartialEq)]
pub struct HeaderCommand {
    /// `-s`: the response statuses that it applies to; an empty list means all.
    pub statuses: Vec<u16>,
    /// `-t`: the values of Content-Type that it applies to; an empty list means all.
    pub types: Vec<Vec<u8>>,
    /// The changes, in order.
    pub edits: Vec<HeaderEdit>,
}

/// The change of all fields with one name.
#[derive(Debug, Clone, PartialEq)]
pub struct HeaderEdit {
    /// The name, or a prefix of it.
    pub name: HeaderName,
    /// The change.
    pub change: HeaderChange,
    /// Where it was written.
    pub span: Span,
}

/// The fields to change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeaderName {
    /// Fields with this name.
    Exact(Vec<u8>),
    /// Fields with this prefix: `X-Hidden-*`.
    Beginning(Vec<u8>),
}

/// The change of a field.
#[derive(Debug, Clone, PartialEq)]
pub enum HeaderChange {
    /// Removes the field.
    Clear,
    /// Sets the field to this value; an empty value removes it.
    Set(Template),
    /// `-r`: sets the field only if it exists.
    Replace(Template),
    /// `-a`: adds a field.
    Add(Template),
}

settings! {
    /// Fields of a location.
    pub struct MoreHeadersSettings {
        /// Changes to response heads. The changes of outer levels come first.
        responses: Vec<HeaderCommand> = Vec::new(), "more_set_headers" | "more_clear_headers" => edit(edit_commands);
        /// Changes to request heads.
        requests: Vec<HeaderCommand> = Vec::new(), "more_set_input_headers" | "more_clear_input_headers" => edit(edit_commands);
    }
}

/// Fields that frame the message: the receiver would misread a message with other values.
const FRAMING: [&str; 9] = [
    "Connection",
    "Content-Length",
    "Expect",
    "Keep-Alive",
    "Proxy-Connection",
    "TE",
    "Trailer",
    "Transfer-Encoding",
    "Upgrade",
];

/// Fields that a response has only once, so `-a` cannot add one.
const SINGLE: [&str; 12] = [
    "Accept-Ranges",
    "Content-Encoding",
    "Content-Range",
    "Content-Type",
    "Date",
    "ETag",
    "Expires",
    "Last-Modified",
    "Location",
    "Refresh",
    "Server",
    "WWW-Authenticate",
];

/// A level inherits the list of the outer level and appends its own commands.
fn edit_commands(commands: &mut Vec<HeaderCommand>, at: &mut At<'_>) -> Parsed<()> {
    let is_input = at.name.ends_with("_input_headers");
    let clears = at.name.starts_with("more_clear");
    let mut command = HeaderCommand { statuses: Vec::new(), types: Vec::new(), edits: Vec::new() };
    let (mut replaces, mut adds) = (false, false);
    let mut written = Vec::new();
    let mut words = at.words().iter();
    while let Some(word) = words.next() {
        let mut argument = || {
            words.next().ok_or_else(|| {
                let message = format!("\"{}\": option {} takes an argument", at.name, word.text());
                Diagnostic::error(word.span, message)
            })
        };
        match word.value.as_slice() {
            b"" => {}
            b"-t" => command.types.extend(blank_separated(argument()?).map(<[u8]>::to_vec)),
            b"-s" if !is_input => {
                let list = argument()?;
                for status in blank_separated(list) {
                    let status = number(status).and_then(|status| u16::try_from(status).ok());
                    command.statuses.push(status.ok_or_else(|| {
                        let message = format!("\"{}\": invalid status list \"{}\"", at.name, list.text());
                        Diagnostic::error(list.span, message)
                            .with_hint("statuses with blanks between them: `-s '404 500'`")
                    })?);
                }
            }
            b"-r" if is_input && !clears => replaces = true,
            b"-a" if !is_input && !clears => adds = true,
            [b'-', ..] => {
                let message = format!("\"{}\": invalid option name: \"{}\"", at.name, word.text());
                return Err(Diagnostic::error(word.span, message));
            }
            _ => written.push(word),
        }
    }
    for word in written {
        let edit = parse_edit(at, word, clears, (replaces, adds))?;
        command.edits.push(edit);
    }
    commands.push(command);
    Ok(())
}

fn blank_separated(word: &Word) -> impl Iterator<Item = &[u8]> {
    word.value.split(u8::is_ascii_whitespace).filter(|part| !part.is_empty())
}

/// The positions of name and value in `Name: value`.
fn parts_of(text: &[u8]) -> (Range<usize>, Range<usize>) {
    let is_between = |byte: u8| byte == b':' || byte.is_ascii_whitespace();
    let start = text.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(text.len());
    let end = (start..text.len()).find(|&at| is_between(text[at])).unwrap_or(text.len());
    let value = (end..text.len()).find(|&at| !is_between(text[at])).unwrap_or(text.len());
    (start..end, value..text.len())
}

fn parse_edit(at: &mut At<'_>, word: &Word, clears: bool, (replaces, adds): (bool, bool)) -> Parsed<HeaderEdit> {
    let (name, value) = parts_of(&word.value);
    let name = &word.value[name];
    let is_one_of = |list: &[&str]| list.iter().any(|known| known.as_bytes().eq_ignore_ascii_case(name));
    let error = |message: String| Diagnostic::error(word.span, message);
    if name.is_empty() || name == b"*" {
        return Err(error(format!("\"{}\": no name found in the argument \"{}\"", at.name, word.text()))
            .with_hint("a name, a colon and a value: `\"X-Name: value\"`"));
    }
    let change = if clears || value.is_empty() {
        HeaderChange::Clear
    } else {
        if is_one_of(&FRAMING) {
            let (name, shown) = (at.name, name.escape_ascii());
            return Err(error(format!("\"{name}\": \"{shown}\" says how a message is sent and cannot be set"))
                .with_hint("holdfast writes it as the connection and the body need it"));
        }
        let text = Word { value: word.value.get(value).unwrap_or_default().into(), ..word.clone() };
        let value = Template::parse_line(at.name, &text, at.out)?;
        match (replaces, adds) {
            (_, true) if is_one_of(&SINGLE) => {
                let message = format!("\"{}\": \"-a\" cannot add to \"{}\"", at.name, name.escape_ascii());
                return Err(error(message).with_hint("a response has one such field: set it without `-a`"));
            }
            (_, true) => HeaderChange::Add(value),
            (true, _) => HeaderChange::Replace(value),
            _ => HeaderChange::Set(value),
        }
    };
    let name = match (name.strip_suffix(b"*"), &change) {
        (Some(beginning), HeaderChange::Clear) => HeaderName::Beginning(beginning.to_vec()),
        _ => HeaderName::Exact(name.to_vec()),
    };
    Ok(HeaderEdit { name, change, span: word.span })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_are_found() {
        for (text, name, value) in [
            ("X-A: b c", "X-A", "b c"),
            ("X-A:b", "X-A", "b"),
            ("X-A", "X-A", ""),
            (" X-A  :: b", "X-A", "b"),
            ("X-A:", "X-A", ""),
            ("", "", ""),
        ] {
            let (at, behind) = parts_of(text.as_bytes());
            assert_eq!((&text[at], &text[behind]), (name, value), "{text}");
        }
    }
}
