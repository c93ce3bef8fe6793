//! A string with variables, such as `"$scheme://${host}/x"`. This module only splits it into parts; `rules` resolves
//! the names.

use std::borrow::Cow;

use super::Parsed;
use crate::diagnostic::Diagnostic;
use crate::source::Span;
use crate::tree::Word;

/// One part of a [`Template`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Literal bytes.
    Text(Vec<u8>),
    /// `$name` or `${name}`.
    Variable(String),
    /// `$1` to `$9`: a capture of the last regular expression that matched.
    Capture(u8),
}

/// A string with variables, in parts; adjacent texts are merged, and an empty string has no part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// The parts in order.
    pub parts: Vec<Part>,
    /// Where it was written.
    pub span: Span,
}

impl Template {
    /// Splits a word. A `$` without a name after it is `invalid variable name`, as in nginx.
    pub fn parse(_name: &str, word: &Word) -> Parsed<Self> {
        Ok(Self { parts: parse_parts(&word.value, word.span)?, span: word.span })
    }

    /// As [`Self::parse`], for a value that is sent as one line of a head. A value written over several lines is joined
    /// to one, with a note.
    pub(crate) fn parse_line(name: &str, word: &Word, out: &mut Vec<Diagnostic>) -> Parsed<Self> {
        Self::parse(name, &one_line(name, word, out))
    }

    /// A template of literal text only.
    pub fn text(bytes: &[u8], span: Span) -> Self {
        let parts = if bytes.is_empty() { Vec::new() } else { vec![Part::Text(bytes.to_vec())] };
        Self { parts, span }
    }

    /// The bytes, if there is no variable; an empty slice for an empty template.
    pub fn as_text(&self) -> Option<&[u8]> {
        match self.parts.as_slice() {
            [] => Some(&[]),
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// Whether it gives an empty string for every request.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// The names of its variables, in order, with repetitions.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Variable(name) => Some(name.as_str()),
            Part::Text(_) | Part::Capture(_) => None,
        })
    }

    /// The template before and after the first `?` in its text.
    pub(crate) fn split_at_question(mut self) -> (Self, Option<Self>) {
        for index in 0..self.parts.len() {
            let Part::Text(text) = &mut self.parts[index] else { continue };
            let Some(at) = text.iter().position(|&byte| byte == b'?') else { continue };
            let behind = text.split_off(at + 1);
            text.pop();
            let head_is_empty = text.is_empty();
            let mut rest = self.parts.split_off(index + 1);
            if head_is_empty {
                self.parts.pop();
            }
            if !behind.is_empty() {
                rest.insert(0, Part::Text(behind));
            }
            let span = self.span;
            return (self, Some(Self { parts: rest, span }));
        }
        (self, None)
    }
}

/// The word with control characters, which are nearly always line ends, folded into spaces together with the blanks
/// around them.
pub(crate) fn one_line<'a>(name: &str, word: &'a Word, out: &mut Vec<Diagnostic>) -> Cow<'a, Word> {
    if http1::outgoing::is_field_value(&word.value) {
        return Cow::Borrowed(word);
    }
    let mut line = Vec::with_capacity(word.value.len());
    http1::encode::fold(&word.value, &mut line);
    let message = format!("the value of \"{name}\" is written over several lines and sent as one");
    let hint = "each line end, with the blanks around it, becomes one space";
    out.push(Diagnostic::note(word.span, message).with_hint(hint));
    Cow::Owned(Word { value: line.as_slice().into(), ..word.clone() })
}

/// Whether a word contains a variable.
pub(crate) fn has_variables(bytes: &[u8]) -> bool {
    bytes.contains(&b'$')
}

/// Whether a byte may appear in a variable's name.
pub(crate) fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn parse_parts(mut rest: &[u8], span: Span) -> Parsed<Vec<Part>> {
    let mut parts: Vec<Part> = Vec::new();
    while !rest.is_empty() {
        let literal = rest.iter().position(|&byte| byte == b'$').unwrap_or(rest.len());
        if literal > 0 {
            parts.push(Part::Text(rest[..literal].to_vec()));
            rest = &rest[literal..];
            continue;
        }
        let name = &rest[1..];
        if let Some(digit @ b'1'..=b'9') = name.first() {
            parts.push(Part::Capture(digit - b'0'));
            rest = &name[1..];
            continue;
        }
        let (name, bracket) = name.strip_prefix(b"{").map_or((name, false), |inner| (inner, true));
        let length = name.iter().position(|&byte| !is_name_byte(byte)).unwrap_or(name.len());
        let (name, behind) = name.split_at(length);
        let text = String::from_utf8_lossy(name).into_owned();
        rest = match (bracket, behind.strip_prefix(b"}")) {
            (true, Some(behind)) => behind,
            (true, None) if !text.is_empty() || !behind.is_empty() => {
                return Err(Diagnostic::error(span, format!("the closing bracket in \"{text}\" variable is missing")));
            }
            (false, _) | (true, None) => behind,
        };
        if text.is_empty() {
            return Err(Diagnostic::error(span, "invalid variable name")
                .with_hint("a variable is `$name` or `${name}`; a `$` that means itself has to come from a `map` or `geo` variable"));
        }
        parts.push(Part::Variable(text));
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Part, Template, Word, parse_parts};
    use crate::diagnostic::Severity;
    use crate::source::{FileId, Span};
    use crate::tree::Quote;

    const SPAN: Span = Span { file: FileId(0), start: 0, end: 0 };

    fn parts(text: &str) -> Vec<Part> {
        parse_parts(text.as_bytes(), SPAN).unwrap()
    }

    fn text(text: &str) -> Part {
        Part::Text(text.into())
    }

    fn variable(name: &str) -> Part {
        Part::Variable(name.into())
    }

    #[test]
    fn finds_variables_alone_in_braces_and_between_text() {
        assert_eq!(
            parts("$scheme://${host}x/$1"),
            [variable("scheme"), text("://"), variable("host"), text("x/"), Part::Capture(1)]
        );
        assert_eq!(parts(""), []);
        assert_eq!(parts("$12"), [Part::Capture(1), text("2")]);
        assert_eq!(parts("$0"), [variable("0")]);
    }

    #[test]
    fn a_dollar_without_a_name_is_refused() {
        for bad in ["$", "a$", "$-", "${}", "$$x"] {
            assert_eq!(parse_parts(bad.as_bytes(), SPAN).unwrap_err().message, "invalid variable name", "{bad}");
        }
    }

    #[test]
    fn an_open_brace_is_named() {
        let error = parse_parts(b"${host", SPAN).unwrap_err();
        assert_eq!(error.message, "the closing bracket in \"host\" variable is missing");
    }

    #[test]
    fn a_value_over_several_lines_is_one_line() {
        let word = |text: &str| Word { value: text.as_bytes().into(), span: SPAN, quote: Quote::Double };
        for (written, folded, notes) in [
            ("a; b", vec![text("a; b")], 0),
            (
                "\n  default-src 'self';\r\n\tscript-src $x;\n",
                vec![text("default-src 'self'; script-src "), variable("x"), text(";")],
                1,
            ),
            ("$x \n $y", vec![variable("x"), text(" "), variable("y")], 1),
            ("\n", vec![], 1),
        ] {
            let mut found = Vec::new();
            let template = Template::parse_line("add_header", &word(written), &mut found).unwrap();
            assert_eq!((template.parts, found.len()), (folded, notes), "{written:?}");
            assert!(found.iter().all(|note| note.severity == Severity::Note));
        }
    }

    #[test]
    fn the_first_question_mark_of_the_text_divides() {
        let whole = Template { parts: parts("/a/$1?b=$2?c"), span: SPAN };
        let (uri, args) = whole.split_at_question();
        assert_eq!(uri.parts, parts("/a/$1"));
        assert_eq!(args.unwrap().parts, parts("b=$2?c"));
        let (uri, args) = Template { parts: parts("$uri?"), span: SPAN }.split_at_question();
        assert_eq!(uri.parts, parts("$uri"));
        assert!(args.unwrap().is_empty());
    }

    proptest! {
        #[test]
        fn any_bytes_are_split_or_refused_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = parse_parts(&bytes, SPAN);
        }

        #[test]
        fn text_without_a_dollar_is_one_part(bytes in "[^$]{1,20}") {
            prop_assert_eq!(parse_parts(bytes.as_bytes(), SPAN).unwrap(), vec![Part::Text(bytes.into_bytes())]);
        }
    }
}
