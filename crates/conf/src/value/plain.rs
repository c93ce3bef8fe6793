//! Plain values: flags, numbers, one word of several, text.

use super::size::number;
use super::{Located, Parsed, directive_invalid, invalid_value};
use crate::diagnostic::Diagnostic;
use crate::tree::Word;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

/// `on` or `off`, in any case.
pub fn parse_flag(name: &str, word: &Word) -> Parsed<bool> {
    if word.value.eq_ignore_ascii_case(b"on") {
        Ok(true)
    } else if word.value.eq_ignore_ascii_case(b"off") {
        Ok(false)
    } else {
        let message =
            format!("invalid value \"{}\" in \"{name}\" directive, it must be \"on\" or \"off\"", word.text());
        Err(Diagnostic::error(word.span, message))
    }
}

/// A decimal number.
pub fn parse_number(name: &str, word: &Word) -> Parsed<u64> {
    number(&word.value).filter(|&value| i64::try_from(value).is_ok()).ok_or_else(|| {
        directive_invalid(name, word, "number").with_hint("a number is decimal digits only, for example `16`")
    })
}

/// A decimal number; a number beyond 32 bits becomes `u32::MAX`.
pub fn parse_u32(name: &str, word: &Word) -> Parsed<u32> {
    parse_number(name, word).map(|number| u32::try_from(number).unwrap_or(u32::MAX))
}

/// A decimal number within `range`, both ends included.
pub fn parse_in_range(name: &str, word: &Word, least: u64, most: u64) -> Parsed<u64> {
    let value = parse_number(name, word)?;
    if !(least..=most).contains(&value) {
        return Err(Diagnostic::error(word.span, format!("value must be between {least} and {most}")));
    }
    Ok(value)
}

/// The bytes as they are.
pub fn parse_bytes(_name: &str, word: &Word) -> Parsed<Vec<u8>> {
    Ok(word.value.to_vec())
}

/// Text that other code interprets, with its place; bytes that are not UTF-8 become U+FFFD.
pub fn parse_located(_name: &str, word: &Word) -> Parsed<Located<String>> {
    Ok(Located { value: word.text().into_owned(), span: word.span })
}

/// A path as it was written, with its place.
pub fn parse_path(_name: &str, word: &Word) -> Parsed<Located<PathBuf>> {
    Ok(Located { value: PathBuf::from(OsStr::from_bytes(&word.value)), span: word.span })
}

/// Text that must be UTF-8, because it names something (a zone, an environment variable, a user).
pub fn parse_text(_name: &str, word: &Word) -> Parsed<String> {
    String::from_utf8(word.value.to_vec()).map_err(|_| invalid_value(word).with_hint("this is not valid UTF-8"))
}

/// One of several words, compared without regard to case as nginx does.
pub(crate) fn parse_choice<T: Copy>(word: &Word, choices: &[(&str, T)]) -> Parsed<T> {
    choices
        .iter()
        .find(|(text, _)| word.value.eq_ignore_ascii_case(text.as_bytes()))
        .map(|&(_, value)| value)
        .ok_or_else(|| {
            let known: Vec<_> = choices.iter().map(|(text, _)| format!("`{text}`")).collect();
            invalid_value(word).with_hint(format!("one of {}", known.join(", ")))
        })
}
