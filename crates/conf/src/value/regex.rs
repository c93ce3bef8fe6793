//! Regular expressions, compiled once when the configuration is read. PCRE2, as in nginx: bytes, not characters, unless
//! the expression itself begins with `(*UTF)`.

use std::fmt;
use std::sync::Arc;

use super::Parsed;
use crate::diagnostic::Diagnostic;
use crate::source::Span;
use crate::tree::Word;

/// How many times PCRE2's matcher may call itself for one match. A request supplies the text to match, so a careless
/// expression must not hold a worker. 200,000 steps take about a millisecond, and expressions of real configurations
/// need a few hundred. (PCRE2's own limit is 10,000,000.)
const MATCH_LIMIT: u32 = 200_000;

/// A compiled expression.
#[derive(Clone)]
pub struct Regex {
    /// The compiled form, to match with.
    pub code: Arc<pcre2::bytes::Regex>,
    /// The pattern as written.
    pub pattern: Arc<[u8]>,
    /// Whether letters match in either case (`~*`).
    pub caseless: bool,
    /// Names of the groups, by number; each name becomes a variable. Group 0 and unnamed groups are `None`.
    pub names: Arc<[Option<String>]>,
    /// Where it was written.
    pub span: Span,
}

impl Regex {
    /// Compiles the word from byte `skip` on (before it is a prefix such as `~`).
    pub fn parse(word: &Word, skip: usize, caseless: bool) -> Parsed<Self> {
        let pattern = word.value.get(skip..).unwrap_or_default();
        let Ok(text) = std::str::from_utf8(pattern) else {
            return Err(Diagnostic::error(
                word.span,
                format!("regular expression \"{}\" is not valid UTF-8", String::from_utf8_lossy(pattern)),
            ));
        };
        let prefix = format!("(*LIMIT_MATCH={MATCH_LIMIT})");
        let compiled = pcre2::bytes::RegexBuilder::new()
            .caseless(caseless)
            .jit_if_available(true)
            .build(&format!("{prefix}{text}"));
        match compiled {
            Ok(code) => {
                let names = code.capture_names().to_vec().into();
                Ok(Self { code: Arc::new(code), pattern: pattern.into(), caseless, names, span: word.span })
            }
            Err(error) => {
                let at = error.offset().unwrap_or(0).saturating_sub(prefix.len()).min(text.len());
                Err(compile_error(word, skip, text, at, &error))
            }
        }
    }

    /// The names of its named groups.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.names.iter().flatten().map(String::as_str)
    }
}

impl fmt::Debug for Regex {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.caseless { "~*" } else { "~" };
        write!(out, "Regex({sign} {:?})", String::from_utf8_lossy(&self.pattern))
    }
}

impl PartialEq for Regex {
    fn eq(&self, other: &Self) -> bool {
        self.caseless == other.caseless && self.pattern == other.pattern
    }
}

fn compile_error(word: &Word, skip: usize, text: &str, at: usize, error: &pcre2::Error) -> Diagnostic {
    let reason = error.to_string();
    // The crate writes "PCRE2: error compiling pattern at offset N: reason". Only the reason is useful, because the
    // offset counts our prefix.
    let reason = error
        .offset()
        .and_then(|offset| reason.split_once(&format!("offset {offset}: ")))
        .map_or(reason.as_str(), |(_, reason)| reason);
    let behind = text.get(at..).unwrap_or_default();
    let message = if behind.is_empty() {
        format!("pcre2_compile() failed: {reason} in \"{text}\"")
    } else {
        format!("pcre2_compile() failed: {reason} in \"{text}\" at \"{behind}\"")
    };
    let mut span = word.span;
    let length = (span.end - span.start) as usize;
    // Escapes shift the bytes, so the whole word is marked then.
    let quotes = length.saturating_sub(word.value.len());
    if quotes == 0 || (quotes == 2 && word.quote != crate::tree::Quote::Bare) {
        let inner_end = span.end - quotes as u32 / 2;
        span.start = (span.start + quotes as u32 / 2 + (skip + at) as u32).min(inner_end);
        span.end = (span.start + 1).min(inner_end);
    }
    Diagnostic::error(span, message)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Regex;
    use crate::source::{FileId, Span};
    use crate::tree::{Quote, Word};

    fn word(text: &str) -> Word {
        Word {
            value: text.into(),
            span: Span { file: FileId(0), start: 10, end: 10 + text.len() as u32 },
            quote: Quote::Bare,
        }
    }

    #[test]
    fn named_groups_become_variables() {
        let regex = Regex::parse(&word("^/(?<user>[a-z]+)/(\\d+)$"), 0, false).unwrap();
        assert_eq!(regex.variables().collect::<Vec<_>>(), ["user"]);
        assert!(regex.code.is_match(b"/ann/7").unwrap());
        assert!(!regex.code.is_match(b"/ANN/7").unwrap());
    }

    #[test]
    fn case_is_ignored_where_asked() {
        assert!(Regex::parse(&word("\\.PHP$"), 0, true).unwrap().code.is_match(b"/x.php").unwrap());
    }

    #[test]
    fn a_bad_expression_is_marked_where_it_breaks() {
        let error = Regex::parse(&word("~a(b"), 1, false).unwrap_err();
        assert!(
            error.message.starts_with("pcre2_compile() failed: missing closing parenthesis in \"a(b\""),
            "{}",
            error.message
        );
        assert_eq!((error.span.start, error.span.end), (14, 14));
        let error = Regex::parse(&word("a**b[z-a]"), 0, false).unwrap_err();
        assert!(error.message.contains(" at \""), "{}", error.message);
    }

    #[test]
    fn a_runaway_expression_stops_at_the_limit() {
        let regex = Regex::parse(&word("^(a+)+$"), 0, false).unwrap();
        let text = [b'a'; 64].into_iter().chain([b'!']).collect::<Vec<_>>();
        assert!(regex.code.is_match(&text).is_err());
    }

    proptest! {
        #[test]
        fn any_pattern_compiles_or_is_marked_inside_its_word(text in ".{0,20}") {
            if let Err(error) = Regex::parse(&word(&text), 0, false) {
                prop_assert!(error.span.start >= 10 && error.span.end <= 10 + text.len() as u32);
            }
        }
    }
}
