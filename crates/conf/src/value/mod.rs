//! Typed values of arguments. Each type parses itself from a word and reports errors in nginx's words.
//!
//! Parsers of one argument share one shape, `fn(name, word) -> Result<T, Diagnostic>`; `name` is the directive's name,
//! which nginx puts into its messages. Checks that depend on other directives (a zone that must exist) are in `model`.

pub mod address;
pub mod cidr;
pub mod plain;
pub mod regex;
pub mod size;
pub mod template;
pub mod time;
pub mod words;

use crate::diagnostic::Diagnostic;
use crate::source::Span;
use crate::tree::Word;

pub use address::{Address, Host, ListenAddress};
pub use cidr::{Cidr, CidrPattern};
pub use regex::Regex;
pub use template::{Part, Template};

/// What every parser of one argument returns.
pub type Parsed<T> = Result<T, Diagnostic>;

/// A value with the place where it was written, for messages of the code that interprets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located<T> {
    /// The value.
    pub value: T,
    /// Where it was written.
    pub span: Span,
}

impl Located<String> {
    /// The text of a word.
    pub(crate) fn of(word: &Word) -> Self {
        Self { value: word.text().into_owned(), span: word.span }
    }

    /// The same, borrowed.
    pub fn as_str(&self) -> Located<&str> {
        Located { value: &self.value, span: self.span }
    }
}

/// nginx's message for the typed slots: `"sendfile_max_chunk" directive invalid value`.
pub(crate) fn directive_invalid(name: &str, word: &Word, what: &str) -> Diagnostic {
    Diagnostic::error(word.span, format!("\"{name}\" directive invalid {what}"))
}

/// `invalid value "x"`, for a word that is not one of those expected.
pub(crate) fn invalid_value(word: &Word) -> Diagnostic {
    Diagnostic::error(word.span, format!("invalid value \"{}\"", word.text()))
}

/// `invalid parameter "x"`, for directives that take parameters after the first argument.
pub(crate) fn invalid_parameter(word: &Word) -> Diagnostic {
    Diagnostic::error(word.span, format!("invalid parameter \"{}\"", word.text()))
}

/// The value of a parameter such as `weight=5`, as a word. Its span covers just the value if the word is unquoted and
/// has no escapes, and the whole parameter otherwise.
pub(crate) fn parameter(word: &Word, key: &str) -> Option<Word> {
    let rest = word.value.strip_prefix(key.as_bytes())?.strip_prefix(b"=")?;
    let mut span = word.span;
    if (span.end - span.start) as usize == word.value.len() {
        span.start += key.len() as u32 + 1;
    }
    Some(Word { value: rest.into(), span, quote: word.quote })
}
