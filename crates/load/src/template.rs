//! Values that differ between requests, in a text: `{{counter}}`, `{{random:1-100}}` and the like. A template is parsed
//! once, and rendering allocates only its output. Pure: counter and random source are arguments.

use crate::scenario::Escape;
use thiserror::Error;

/// Most parts of one template: enough for a body of a megabyte with a counter in every line, and too few for a file that is
/// repeated by mistake.
const PARTS_MAX: usize = 100_000;
/// Most random digits in one part.
const HEX_DIGITS_MAX: u64 = 4096;

/// The known words, for help texts.
pub const TEMPLATES: &str = "\
{{counter}}          0, 1, 2 … over all requests of the run; {{counter:100}} begins at 100
{{random:1-100}}     a whole number from 1 to 100, evenly distributed
{{hex:16}}           16 random hexadecimal digits
{{uuid}}             a random UUID (version 4)
{{choice:a|b|c}}     one of the words
{{worker}}           the number of the thread, from 0";

#[derive(Debug, Clone, PartialEq, Eq)]
enum TemplatePart {
    Text(Vec<u8>),
    Counter {
        start: u64,
    },
    Random {
        from: u64,
        to: u64,
    },
    Hex {
        digits: usize,
    },
    Uuid,
    Choice(Vec<Vec<u8>>),
    Worker,
    /// A variable of a scenario.
    Variable {
        index: usize,
        escape: Escape,
    },
}

/// A text with placeholders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Template {
    parts: Vec<TemplatePart>,
}

/// An error in a placeholder.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TemplateError {
    /// The word is none of [`TEMPLATES`].
    #[error("`{{{{{0}}}}}` is none of counter, random, hex, uuid, choice and worker")]
    Unknown(String),
    /// The word is known, but not its argument.
    #[error("`{{{{{0}}}}}`: {1}")]
    Argument(String, &'static str),
    /// More than a hundred thousand placeholders.
    #[error("more than {PARTS_MAX} places for values")]
    TooMany,
}

/// The source of the values: one for each worker.
#[derive(Debug)]
pub(crate) struct Values {
    /// The next value of `{{counter}}`; advances once per request.
    pub(crate) counter: u64,
    /// Number of the worker.
    pub(crate) worker: u64,
    /// The source of random values.
    pub(crate) random: fastrand::Rng,
    /// Values of the variables of one user: the request is rendered with them.
    pub(crate) variables: Vec<Vec<u8>>,
}

impl Values {
    /// Values without variables.
    pub(crate) fn new(worker: u64, seed: u64) -> Self {
        Self { counter: worker, worker, random: fastrand::Rng::with_seed(seed), variables: Vec::new() }
    }
}

impl Template {
    /// Parses a template. Unclosed braces are plain text.
    pub(crate) fn parse(text: &[u8]) -> Result<Self, TemplateError> {
        Self::parse_with(text, Escape::None, &|_| None)
    }

    /// The same with the variables of a scenario: `variable` returns the position of a name. Their values are escaped.
    pub(crate) fn parse_with(
        text: &[u8],
        escape: Escape,
        variable: &dyn Fn(&str) -> Option<usize>,
    ) -> Result<Self, TemplateError> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(open) = memchr::memmem::find(rest, b"{{") {
            let (before, from) = rest.split_at(open);
            let Some(close) = memchr::memmem::find(from, b"}}") else { break };
            let (word, behind) = (from.get(2..close).unwrap_or_default(), from.get(close + 2..).unwrap_or_default());
            if !before.is_empty() {
                parts.push(TemplatePart::Text(before.to_vec()));
            }
            let word = String::from_utf8_lossy(word);
            parts.push(match variable(word.trim()) {
                Some(index) => TemplatePart::Variable { index, escape },
                None => parse_word(&word)?,
            });
            rest = behind;
            if parts.len() > PARTS_MAX {
                return Err(TemplateError::TooMany);
            }
        }
        if !rest.is_empty() {
            parts.push(TemplatePart::Text(rest.to_vec()));
        }
        Ok(Self { parts })
    }

    /// A text without placeholders.
    pub(crate) fn literal(text: &[u8]) -> Self {
        Self { parts: if text.is_empty() { Vec::new() } else { vec![TemplatePart::Text(text.to_vec())] } }
    }

    /// Appends another template.
    pub(crate) fn append(&mut self, other: Self) {
        self.parts.extend(other.parts);
    }

    /// Whether the text is the same for every request.
    pub(crate) fn is_static(&self) -> bool {
        self.parts.iter().all(|part| matches!(part, TemplatePart::Text(_)))
    }

    /// Appends the text for one request.
    pub(crate) fn render(&self, values: &mut Values, out: &mut Vec<u8>) {
        let number = |number: u64, out: &mut Vec<u8>| {
            out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
        };
        for part in &self.parts {
            match part {
                TemplatePart::Text(text) => out.extend_from_slice(text),
                TemplatePart::Counter { start } => number(start.wrapping_add(values.counter), out),
                TemplatePart::Random { from, to } => number(values.random.u64(*from..=*to), out),
                TemplatePart::Hex { digits } => hex(&mut values.random, *digits, out),
                TemplatePart::Uuid => uuid(&mut values.random, out),
                TemplatePart::Choice(words) => {
                    let index = values.random.usize(..words.len().max(1));
                    out.extend_from_slice(words.get(index).map(Vec::as_slice).unwrap_or_default());
                }
                TemplatePart::Worker => number(values.worker, out),
                TemplatePart::Variable { index, escape } => {
                    escape.write(values.variables.get(*index).map(Vec::as_slice).unwrap_or_default(), out);
                }
            }
        }
    }
}

fn parse_word(word: &str) -> Result<TemplatePart, TemplateError> {
    let (name, argument) = word.split_once(':').map_or((word, None), |(name, argument)| (name, Some(argument)));
    let wrong = |text| TemplateError::Argument(word.to_owned(), text);
    match (name.trim(), argument) {
        ("counter", None) => Ok(TemplatePart::Counter { start: 0 }),
        ("counter", Some(start)) => {
            Ok(TemplatePart::Counter { start: start.parse().map_err(|_| wrong("a whole number to begin with"))? })
        }
        ("random", Some(range)) => {
            let parsed = range.split_once('-').and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
            match parsed {
                Some((from, to)) if from <= to => Ok(TemplatePart::Random { from, to }),
                _ => Err(wrong("two whole numbers, as in {{random:1-100}}")),
            }
        }
        ("random", None) => Err(wrong("two whole numbers, as in {{random:1-100}}")),
        ("hex", Some(digits)) => {
            let digits = digits.parse().ok().filter(|digits| (1..=HEX_DIGITS_MAX).contains(digits));
            Ok(TemplatePart::Hex { digits: digits.ok_or_else(|| wrong("a number of digits from 1 to 4096"))? as usize })
        }
        ("hex", None) => Ok(TemplatePart::Hex { digits: 16 }),
        ("uuid", None) => Ok(TemplatePart::Uuid),
        ("choice", Some(words)) => {
            Ok(TemplatePart::Choice(words.split('|').map(|word| word.as_bytes().to_vec()).collect()))
        }
        ("worker", None) => Ok(TemplatePart::Worker),
        _ => Err(TemplateError::Unknown(word.to_owned())),
    }
}

fn hex(random: &mut fastrand::Rng, digits: usize, out: &mut Vec<u8>) {
    let mut bits = 0u64;
    for index in 0..digits {
        if index % 16 == 0 {
            bits = random.u64(..);
        }
        out.push(hex_digit(bits));
        bits >>= 4;
    }
}

fn hex_digit(bits: u64) -> u8 {
    let digit = (bits & 15) as u8;
    if digit < 10 { b'0' + digit } else { b'a' + digit - 10 }
}

/// RFC 9562 §5.4: version 4, variant 10.
fn uuid(random: &mut fastrand::Rng, out: &mut Vec<u8>) {
    let bits = (random.u128(..) & !(0xf << 76) & !(0b11 << 62)) | (4 << 76) | (0b10 << 62);
    for index in 0..32u32 {
        if matches!(index, 8 | 12 | 16 | 20) {
            out.push(b'-');
        }
        out.push(hex_digit((bits >> (124 - 4 * index)) as u64));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values() -> Values {
        Values { counter: 5, ..Values::new(3, 1) }
    }

    fn rendered(text: &str) -> String {
        let mut out = Vec::new();
        Template::parse(text.as_bytes()).unwrap().render(&mut values(), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn values_take_the_place_of_words() {
        assert_eq!(rendered("a{{counter}}b{{counter:100}}c{{worker}}"), "a5b105c3");
        assert_eq!(rendered("{{choice:x}}{{random:7-7}}"), "x7");
        let hex = rendered("{{hex:33}}");
        assert!(hex.len() == 33 && hex.bytes().all(|byte| byte.is_ascii_hexdigit()), "{hex}");
    }

    #[test]
    fn a_uuid_has_its_form() {
        let uuid = rendered("{{uuid}}");
        let lengths: Vec<usize> = uuid.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12], "{uuid}");
        assert_eq!(uuid.as_bytes()[14], b'4');
        assert!(b"89ab".contains(&uuid.as_bytes()[19]), "{uuid}");
    }

    #[test]
    fn random_numbers_stay_in_their_range_and_differ() {
        let template = Template::parse(b"{{random:10-12}}").unwrap();
        let mut values = values();
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..100 {
            let mut out = Vec::new();
            template.render(&mut values, &mut out);
            seen.insert(String::from_utf8(out).unwrap());
        }
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), ["10", "11", "12"]);
    }

    #[test]
    fn text_stays_text() {
        for text in ["", "plain", "{\"a\":{\"b\":1}}", "open {{ without end", "}} {"] {
            let template = Template::parse(text.as_bytes()).unwrap();
            assert!(template.is_static(), "{text}");
            assert_eq!(rendered(text), text);
        }
        assert!(!Template::parse(b"{{uuid}}").unwrap().is_static());
        assert!(Template::literal(b"{{uuid}}").is_static());
    }

    #[test]
    fn mistakes_are_named() {
        let error = |text: &str| Template::parse(text.as_bytes()).unwrap_err().to_string();
        assert_eq!(error("{{conter}}"), "`{{conter}}` is none of counter, random, hex, uuid, choice and worker");
        assert!(error("{{random:5-1}}").contains("two whole numbers"));
        assert!(error("{{hex:0}}").contains("1 to 4096"));
    }
}
